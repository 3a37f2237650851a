"""The topology of a scenario that tries out an aggregation step: fed by the scenario, with sinks in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topologies.io.kafka import RECORD
from topologies.scenarios.schema.step_messages import sent_message
from topologies.step.compile_step import AGGREGATE, failed_at, step_topology
from topologies.step.config import load_step, step_from
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM

if TYPE_CHECKING:
    from topologies.scenarios.schema.scenario_model import Scenario

MessageRows = Sequence[Mapping[str, Any]]


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


def messages_of(
    topology: Topology, outputs: Mapping[str, MessageRows], prefix: str = ""
) -> dict[str, list[dict[str, Any]]]:
    """What steps have sent, as scenarios expect it; ``prefix``: before the names of their parts."""

    def read_by(sink: str) -> Any:
        component, _ = topology.sinks[f"{prefix}{sink}"].streams[0]  # those that share a sink write one format
        bolt: Any = topology.windowed[failed_at(component)].bolt
        return bolt.sender.messages.read

    return {sink: [sent_message(row, read_by(sink)) for row in rows] for sink, rows in outputs.items()}


def names_of(topology: Topology, prefix: str = "") -> dict[str, str]:
    """The names of the steps, the first one first, by those of the bolts that have their windows."""
    found: dict[str, Any] = {name: node.bolt for name, node in topology.windowed.items() if name.startswith(prefix)}
    first = f"{prefix}{AGGREGATE}"
    return {name: found[name].step for name in (first, *sorted(set(found) - {first}))}
