"""Spark DataFrames of rows in segments; the rows stay with the workers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from manager.storage.segments.file_segments import FileSegments
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentStore
from topologies.engine.rows.sink_rows import SinkBatch, SinkRows
from topologies.graph.nodes.sink import SinkNode
from topologies.io.kafka import KafkaSink
from topologies.spark.client.senders import MOST_ROWS, KafkaSenders
from topologies.spark.kafka_frames import send_records


class SparkFrames:
    """Creates the DataFrames for functions of sinks, and writes to Kafka."""

    def __init__(self, spark: SparkSession, senders: KafkaSenders | None = None) -> None:
        """``senders`` write small batches to Kafka; None where Spark writes all."""
        self.spark, self._senders = spark, senders

    def frame(self, store: SegmentStore, refs: list[Ref], schema: pa.Schema) -> DataFrame:
        """A DataFrame with one partition per reference, read whenever it is used."""

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column("id").to_pylist():
                    yield from store.read(refs[number]).cast(schema).to_batches()

        count = len(refs)
        return self.spark.range(0, count, 1, count).mapInArrow(read, from_arrow_schema(schema))

    def send(self, node: SinkNode, batch: SinkBatch, sink_rows: list[SinkRows], store: SegmentStore) -> None:
        """Write rows to Kafka, and wait until they are written."""
        senders, sink = self._senders, node.sink
        small = sum(rows.ref.rows for rows in sink_rows) <= MOST_ROWS
        if senders is None or not small or not isinstance(store, FileSegments) or store.takes_requests:
            send_records(self.spark, node, batch, sink_rows, store)
            return
        assert isinstance(sink, KafkaSink)

        def send(records: list[pa.Table]) -> bool:
            return senders.send(node.name, sink, records, store, batch.key)

        send_records(self.spark, node, batch, sink_rows, store, send)
