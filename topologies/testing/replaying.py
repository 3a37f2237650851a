"""Replays scenarios with the engine in this process, or with a real Spark query: one, or many independently."""

from __future__ import annotations

import os
import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.graph.graph import Graph
from topologies.run.options import Engine, EngineName, check_built, engine_of
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Problem, Scenario, load, read_scenario, with_topology_path
from topologies.scenarios.script import scenario_topology
from windowing.calls import checked_value
from windowing.errors import (
    USER_EXCEPTIONS,
    ConfigError,
    EnvironmentMissing,
    ScenarioError,
    TopologyError,
    WindboltError,
)

if TYPE_CHECKING:
    from topologies.scenarios.scenario_answer import Answer


# Replays one scenario, with the engine in this process or with a real Spark query.


@checked_value
def replay(
    scenario: Scenario | dict[str, Any] | str | os.PathLike[str],
    topology: Graph | None = None,
    *,
    engine: EngineName = "local",
) -> Answer:
    """Returns the result of one scenario: a ``Scenario``, a dict, or the path of a file with one.

    ``topology``: replaces the topology that the scenario names. ``engine``: ``"local"``, or ``"spark"``, which runs a
    real query. Raises ScenarioError for a malformed scenario, and for a file that does not contain exactly one.
    """
    if topology is not None:
        check_built("replay", topology)
    match scenario:
        case Scenario():
            to_replay = scenario
        case dict():
            to_replay = read_scenario(scenario)
        case _:
            to_replay = load_one(scenario)
    if engine_of(engine) is Engine.SPARK:
        from topologies.spark.spark_replay import replay_on_spark

        replayed = replay_on_spark([to_replay], topology)[0]
    else:
        replayed = replay_locally(to_replay, topology)
    return replace(replayed.answer(), draw=lambda: _draw(to_replay, replayed))


def _draw(scenario: Scenario, replayed: ReplayResult) -> str:
    from topologies.scenarios.timeline import timeline_text

    return timeline_text(scenario, replayed)


def load_one(source: str | os.PathLike[str], *roots: Path) -> Scenario:
    """Returns the scenario in a file; the topology is searched for in the folder of the file, under the roots, and in
    the current folder."""
    loaded: Sequence[Any] = list(load(os.fspath(source)))
    problems = [item for item in loaded if isinstance(item, Problem)]
    if problems:
        raise ScenarioError(f"{problems[0].place}: {'; '.join(problems[0].texts)}")
    if len(loaded) != 1:
        raise ScenarioError(
            f"{os.fspath(source)} holds {len(loaded)} scenarios",
            do="replay a file of several with `windbolt replay`, or give one of them as a dict",
        )
    return with_topology_path(loaded[0].scenario, Path(source), *roots)


# Replays many scenarios independently: a failure is the outcome of one scenario and does not affect others.


_MOST_ATTEMPTS = 24
"""Most starts of Spark to find the scenario that makes the others fail."""
_MALFORMED = (ConfigError, ScenarioError, TopologyError)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a scenario: a result, or the reason why there is none."""

    answer: ReplayResult
    malformed: str | None = None
    """Mistake in the scenario, or in the topology that it names; None without one."""
    printed: str = ""
    """The output of the user's code."""
    trace: str = ""
    """The traceback, if the outcome is an error."""


def answer_locally(scenario: Scenario, topology: Graph | None = None) -> Outcome:
    """Returns the outcome of a scenario, in this process. Never raises."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            return Outcome(replay_locally(scenario, topology), printed=printed.getvalue())
    except USER_EXCEPTIONS as error:
        return _failed_outcome(scenario, error, printed.getvalue())


def answer_on_spark(scenarios: Sequence[Scenario], topology: Graph | None = None) -> list[Outcome]:
    """Returns the outcome of each scenario, with as few queries as possible. Raises EnvironmentMissing if Spark cannot
    start."""
    from topologies.spark.spark_replay import replay_on_spark

    outcomes: dict[int, Outcome] = {}
    well_formed: list[int] = []
    for index, scenario in enumerate(scenarios):
        malformed = _malformed_outcome(scenario, topology)
        if malformed is None:
            well_formed.append(index)
        else:
            outcomes[index] = malformed

    attempts = 0

    def answer(indices: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        """Replays all at once; after a failure, replays halves, until the failing scenario is found."""
        nonlocal attempts
        attempts += 1
        try:
            answers = replay_on_spark([scenarios[index] for index in indices], topology)
        except EnvironmentMissing:
            raise
        except Exception as error:
            if len(indices) == 1 or attempts >= _MOST_ATTEMPTS:
                yield from ((index, _failed_outcome(scenarios[index], error)) for index in indices)
                return
            half = len(indices) // 2
            yield from answer(indices[:half])
            yield from answer(indices[half:])
        else:
            yield from zip(indices, map(Outcome, answers), strict=True)

    if well_formed:
        outcomes.update(answer(well_formed))
    return [outcomes[index] for index in range(len(scenarios))]


def _malformed_outcome(scenario: Scenario, topology: Graph | None) -> Outcome | None:
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            scenario_topology(scenario, topology)
    except USER_EXCEPTIONS as error:
        return _failed_outcome(scenario, error, printed.getvalue())
    return None


def _failed_outcome(scenario: Scenario, error: BaseException, printed: str = "") -> Outcome:
    message = str(error) if isinstance(error, WindboltError) else f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    malformed = message if isinstance(error, _MALFORMED) else None
    return Outcome(ReplayResult(scenario.name, ok=False, differences=[message]), malformed, printed, trace)
