"""Answers many scenarios independently: the failure of one becomes its own outcome and does not affect the others."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO

from topologies.scenarios.run.replay import replay_locally
from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.run.scenario_topology import watched_topology
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.topology import Topology
from windowing.errors import ConfigError, EnvironmentMissing, ScenarioError, TopologyError, WindboltError

_MOST_ATTEMPTS = 24
"""Maximum number of starts of Spark to find the scenario that makes the others fail."""
_MALFORMED = (ConfigError, ScenarioError, TopologyError)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a scenario: an answer, or why there is none."""

    answer: Replayed
    malformed: str | None = None
    """What is wrong with the scenario itself, or with the topology that it names; None if nothing is."""
    printed: str = ""
    """The output of the user's code."""
    trace: str = ""
    """The traceback, where the outcome is only an error."""


def answer_locally(scenario: Scenario, topology: Topology | None = None) -> Outcome:
    """The outcome of a scenario, in this process. Never raises."""
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            return Outcome(replay_locally(scenario, topology), printed=printed.getvalue())
    except Exception as error:
        return _failed(scenario, error, printed.getvalue())


def answer_on_spark(scenarios: Sequence[Scenario], topology: Topology | None = None) -> list[Outcome]:
    """The outcome of each scenario, in as few queries as possible. Raises EnvironmentMissing where Spark cannot
    start."""
    from topologies.spark.spark_replay import replay_on_spark

    outcomes: dict[int, Outcome] = {}
    sound: list[int] = []
    for index, scenario in enumerate(scenarios):
        malformed = _malformed(scenario, topology)
        if malformed is None:
            sound.append(index)
        else:
            outcomes[index] = malformed

    attempts = 0

    def answer(indices: Sequence[int]) -> Iterator[tuple[int, Outcome]]:
        """Answer all at once; where that fails, answer in halves, until the failing scenario is found."""
        nonlocal attempts
        attempts += 1
        try:
            answers = replay_on_spark([scenarios[index] for index in indices], topology)
        except EnvironmentMissing:
            raise
        except Exception as error:
            if len(indices) == 1 or attempts >= _MOST_ATTEMPTS:
                yield from ((index, _failed(scenarios[index], error)) for index in indices)
                return
            half = len(indices) // 2
            yield from answer(indices[:half])
            yield from answer(indices[half:])
        else:
            yield from zip(indices, map(Outcome, answers), strict=True)

    if sound:
        outcomes.update(answer(sound))
    return [outcomes[index] for index in range(len(scenarios))]


def _malformed(scenario: Scenario, topology: Topology | None) -> Outcome | None:
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            watched_topology(scenario, topology)
    except Exception as error:
        return _failed(scenario, error, printed.getvalue())
    return None


def _failed(scenario: Scenario, error: Exception, printed: str = "") -> Outcome:
    said = str(error) if isinstance(error, WindboltError) else f"{type(error).__name__}: {error}"
    trace = "".join(traceback.format_exception(error))
    malformed = said if isinstance(error, _MALFORMED) else None
    return Outcome(Replayed(scenario.name, ok=False, differences=[said]), malformed, printed, trace)
