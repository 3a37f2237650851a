"""The topology of a scenario that tries out an aggregation step: fed by the scenario, with sinks in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topologies.kafka import RECORD
from topologies.model import Topology
from topologies.scenarios.messages import shown
from topologies.step.building import AGGREGATE, step_topology
from topologies.step.config import load_step, step_from
from windowing.rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.scenarios.model import Scenario

Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class MessageSpout:
    """The messages of a scenario: as they come from Kafka, and an id."""

    def outputs(self) -> dict[str, pa.Schema]:
        """The columns of messages, and ``id``."""
        return {DEFAULT_STREAM: pa.schema([("id", pa.string()), *RECORD])}


def step_of(scenario: Scenario) -> Topology:
    """The topology of a scenario's step; StepConfigError where its file is wrong."""
    step: Any = scenario.step
    config = load_step(scenario.folder / step) if isinstance(step, str) else step_from(step, scenario.folder)
    feed: Any = MessageSpout()
    return step_topology(config, feed=feed)


def messages_of(topology: Topology, outputs: Mapping[str, Rows], prefix: str = "") -> dict[str, list[dict[str, Any]]]:
    """What a step has sent, as scenarios expect it; ``prefix``: before the names of its parts."""
    bolt: Any = topology.windowed[f"{prefix}{AGGREGATE}"].bolt
    return {sink: [shown(row, bolt.sender.messages.read) for row in rows] for sink, rows in outputs.items()}
