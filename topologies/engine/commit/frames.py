"""The part of sinks that needs Spark, as a protocol, and its replacement for a run without Spark."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from topologies.engine.rows.sink_rows import SinkBatch, SinkRows
from topologies.graph.nodes.sink import SinkNode
from windowing.errors import ConfigError


class Frames(Protocol):
    """What Spark does for sinks, with rows that lie in segments."""

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        """The rows as a Spark DataFrame, for a function."""
        ...

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Write the rows to Kafka."""
        ...


class NoSpark:
    """Serves a run without Spark: raises ConfigError for a DataFrame or for Kafka."""

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> object:
        raise ConfigError(
            "a sink's function needs a Spark DataFrame, and a local run has no Spark",
            do="use foreach_batch(function, frame='arrow') or frame='pandas', or run on Spark",
        )

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        raise ConfigError(
            f"sink {node.name!r} writes to Kafka, which a local run cannot do",
            why="Spark's connector writes to Kafka, and a local run has no Spark",
            do="run on Spark, or give the topology another sink: sinks.memory(), sinks.console()",
        )
