"""One scenario, answered: by the engine in this process, or by a real query of Spark's."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topologies.run.built import check_built
from topologies.run.engine import Engine, EngineName, engine_of
from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.schema.scenario_files import Problem, load, located, read_scenario
from topologies.scenarios.schema.scenario_model import Scenario
from windowing.calls.checked import checked
from windowing.errors import ScenarioError

if TYPE_CHECKING:
    from topologies.scenarios.run.scenario_answer import Answer, Replayed
    from topologies.topology import Topology


@checked
def replay(
    scenario: Scenario | dict[str, Any] | str | os.PathLike[str],
    topology: Topology | None = None,
    *,
    engine: EngineName = "local",
) -> Answer:
    """The answer to one scenario: a ``Scenario``, a dict, or the path of a file that holds one.

    ``topology`` takes the place of the one that the scenario names. ``engine``: ``"local"``, or ``"spark"``, which
    runs a real query. ScenarioError where the file does not hold exactly one scenario, or it is malformed.
    """
    if topology is not None:
        check_built("replay", topology)
    match scenario:
        case Scenario():
            chosen = scenario
        case dict():
            chosen = read_scenario(scenario)
        case _:
            chosen = load_one(scenario)
    if engine_of(engine) is Engine.SPARK:
        from topologies.spark.spark_replay import replay_on_spark

        replayed = replay_on_spark([chosen], topology)[0]
    else:
        replayed = replay_locally(chosen, topology)
    return replace(replayed.answer(), draw=lambda: _drawn(chosen, replayed))


def _drawn(scenario: Scenario, replayed: Replayed) -> str:
    from topologies.scenarios.terminal_drawing.plain_text import picture

    return picture(scenario, replayed)


def load_one(source: str | os.PathLike[str], *roots: Path) -> Scenario:
    """The scenario of a file; its topology is looked for beside it, under the roots, and in the current folder."""
    loaded: Sequence[Any] = list(load(os.fspath(source)))
    problems = [item for item in loaded if isinstance(item, Problem)]
    if problems:
        raise ScenarioError(f"{problems[0].place}: {'; '.join(problems[0].texts)}")
    if len(loaded) != 1:
        raise ScenarioError(
            f"{os.fspath(source)} holds {len(loaded)} scenarios",
            do="replay a file of several with `windbolt replay`, or give one of them as a dict",
        )
    return located(loaded[0].scenario, Path(source), *roots)
