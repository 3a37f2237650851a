"""The pytest plugin: each scenario in a scenario file is a test.

The plugin collects the files that match the setting ``windbolt_scenarios`` (patterns relative to the root directory,
such as ``tests/scenarios/**/*.yaml``; a pattern without a slash is for file names). Without the setting it collects
files called ``*.scenario.yaml`` (or .yml, .json, .jsonl), and such files in a folder named ``scenarios`` that contain
``steps`` and a ``bolt``, a ``topology`` or a ``step``.

It also provides two fixtures: ``windbolt_driver`` makes a ``TopologyDriver``, whose state is described in the report of
a failed test; ``windbolt_replay`` replays a scenario, and fails with its picture.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from topologies.graph.graph import Graph
    from topologies.scenarios.scenario_answer import Answer
    from topologies.scenarios.scenario_model import Problem, Scenario, ScenarioPlace
    from topologies.testing.driver import TopologyDriver
    from topologies.testing.replaying import Outcome

_SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
_FOLDER = "scenarios"
_SCENARIO_NAMES = tuple(f".scenario{suffix}" for suffix in _SUFFIXES)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest before it reads its configuration."""
    parser.getgroup("windbolt").addoption(
        "--windbolt-engine",
        choices=("local", "spark"),
        default="local",
        help="where scenarios run: in this process, or as a real Spark query",
    )
    parser.addini("windbolt_scenarios", "patterns of the files that hold windbolt's scenarios", type="args", default=[])


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Called by pytest for each file that it finds."""
    if not file_path.name.endswith(_SUFFIXES) or not _is_wanted(file_path, parent.config):
        return None
    found: ScenarioFile = ScenarioFile.from_parent(parent, path=file_path)
    return found


_DRIVERS: pytest.StashKey[list[TopologyDriver]] = pytest.StashKey()


@pytest.fixture
def windbolt_driver(request: pytest.FixtureRequest) -> Callable[..., TopologyDriver]:
    """Makes drivers of topologies: ``windbolt_driver(topology, clock="2024-01-01T06:00:00Z")``."""
    from topologies.testing.driver import TopologyDriver

    drivers: list[TopologyDriver] = request.node.stash.setdefault(_DRIVERS, [])

    def make(topology: Graph, **options: Any) -> TopologyDriver:
        drivers.append(TopologyDriver(topology, **options))
        return drivers[-1]

    return make


@pytest.fixture
def windbolt_replay(request: pytest.FixtureRequest) -> Callable[..., Answer]:
    """Replays scenarios, given as a dict or as a path from the folder of the test; checks scenarios with
    expectations."""
    from topologies.testing.replaying import load_one, replay

    def answer(scenario: dict[str, Any] | str | os.PathLike[str], topology: Graph | None = None) -> Answer:
        if isinstance(scenario, dict):
            result = replay(scenario, topology)
        else:
            result = replay(load_one(request.path.parent / scenario, request.config.rootpath), topology)
        if result.ok is not None:
            result.check()
        return result

    return answer


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Called by pytest after a test; adds the state of its drivers to the report of a failed test."""
    report = yield
    if report.when == "call" and report.failed:
        for driver in item.stash.get(_DRIVERS, []):
            report.sections.append((f"windbolt topology {driver.topology.name}", driver.story()))
    return report


class MalformedScenario(Exception):
    """A scenario that cannot be read, or whose topology cannot be built."""


class ScenarioFailed(Exception):
    """A scenario whose results differ from its expectations, or during which something failed."""


class ScenarioFile(pytest.File):
    """A file of scenarios."""

    def collect(self) -> Iterator[pytest.Item]:
        """Called by pytest to find the tests in the file."""
        from topologies.scenarios.scenario_model import Problem, load

        seen: dict[str, int] = {}
        for item in load(self.path):
            name = (
                item.name if isinstance(item, Problem) else item.scenario.name
            ) or f"malformed:{item.place.line or 1}"
            seen[name] = seen.get(name, 0) + 1
            title = name if seen[name] == 1 else f"{name}#{seen[name]}"
            if isinstance(item, Problem):
                yield MalformedItem.from_parent(self, name=title, problem=item)
            else:
                yield ScenarioItem.from_parent(self, name=title, scenario=item.scenario, place=item.place)


class MalformedItem(pytest.Item):
    """A scenario that could not be read; the test fails, with its place."""

    def __init__(self, *, problem: Problem, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.problem = problem

    def runtest(self) -> None:
        """Called by pytest to run the test."""
        raise MalformedScenario(str(self.problem))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Called by pytest for the text of the failure."""
        return _failure_text(self, excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Called by pytest for the headline of the failure."""
        return self.path, (self.problem.place.line or 1) - 1, self.name


class ScenarioItem(pytest.Item):
    """A scenario as a test."""

    def __init__(self, *, scenario: Scenario, place: ScenarioPlace, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        from topologies.scenarios.scenario_model import with_topology_path

        self.scenario, self.place = with_topology_path(scenario, self.path, self.config.rootpath), place

    def runtest(self) -> None:
        """Called by pytest to run the test."""
        outcome = self._outcome()
        if outcome.printed:
            self.add_report_section("call", "stdout", outcome.printed)
        if outcome.malformed is not None:
            raise MalformedScenario(f"{self.place}: {outcome.malformed}")
        if outcome.trace:
            raise ScenarioFailed(f"{self.place}: {outcome.answer.differences[0]}")
        if outcome.answer.ok is False:
            raise ScenarioFailed(_picture(self, outcome))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Called by pytest for the text of the failure."""
        return _failure_text(self, excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Called by pytest for the headline of the failure."""
        return self.path, (self.place.line or 1) - 1, self.name

    def _outcome(self) -> Outcome:
        if self.config.getoption("--windbolt-engine") == "spark":
            return _OnSpark.of(self.session).outcome(self)
        from topologies.testing.replaying import answer_locally

        return answer_locally(self.scenario)


class _OnSpark:
    """The outcomes of all selected scenarios, computed when the first one is needed."""

    def __init__(self, items: Sequence[pytest.Item]) -> None:
        self.items = [item for item in items if isinstance(item, ScenarioItem)]
        self.outcomes: dict[ScenarioItem, Outcome] = {}
        self.error: Exception | None = None

    @staticmethod
    def of(session: pytest.Session) -> _OnSpark:
        return session.stash.setdefault(_ON_SPARK, _OnSpark(session.items))

    def outcome(self, item: ScenarioItem) -> Outcome:
        if not self.outcomes and self.error is None:
            self._answer()
        if self.error is not None:
            raise self.error
        return self.outcomes[item]

    def _answer(self) -> None:
        from topologies.testing.replaying import answer_on_spark

        try:
            outcomes = answer_on_spark([item.scenario for item in self.items])
        except Exception as error:  # such as missing Java: each of the tests then fails
            self.error = error
        else:
            self.outcomes = dict(zip(self.items, outcomes, strict=True))


_ON_SPARK: pytest.StashKey[_OnSpark] = pytest.StashKey()


def _is_wanted(path: Path, config: pytest.Config) -> bool:
    relative = Path(os.path.relpath(path, config.rootpath))
    patterns = config.getini("windbolt_scenarios")
    if patterns:
        return any(_matches(relative, pattern) for pattern in patterns)
    if path.name.endswith(_SCENARIO_NAMES):
        return True
    if _FOLDER not in (config.rootpath.name, *relative.parts[:-1]):
        return False
    from topologies.scenarios.scenario_model import looks_like_scenarios

    return looks_like_scenarios(path)


def _matches(path: Path, pattern: str) -> bool:
    if "/" not in pattern:
        return path.match(pattern)
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?)", pattern)
    return re.fullmatch("".join(signs.get(part, re.escape(part)) for part in parts), path.as_posix()) is not None


def _failure_text(item: pytest.Item, excinfo: pytest.ExceptionInfo[BaseException], style: Any) -> Any:
    from windowing.errors import WindboltError

    match excinfo.value:
        case MalformedScenario() as error:
            return f"malformed: {error}"
        case ScenarioFailed() | WindboltError() as error:
            return str(error)
    return pytest.Item.repr_failure(item, excinfo, style)


def _picture(item: ScenarioItem, outcome: Outcome) -> str:
    """Returns the timeline in plain text; it ends with the differences."""
    from topologies.scenarios.timeline import timeline_text

    return f"{item.place}: {item.scenario.name} is not as expected\n\n{timeline_text(item.scenario, outcome.answer)}"
