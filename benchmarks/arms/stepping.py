"""The ready aggregation step on Kafka, and what Spark has for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from topologies import RunOptions
from topologies.io.messages import AvroMessages, AvroSchema
from topologies.spark.runner import run_on_spark
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step

if TYPE_CHECKING:
    from pyspark.sql.streaming.state import GroupState

READY = Path(__file__).parents[2] / "topologies" / "examples" / "aggregation"
SCHEMAS = ("path/to/default/avro/schema", "schemas/day_closed.avsc")
ORDER = "id long, shop string, amount double, customer string, last boolean, broken string"
RESULT = "topic string, key string, value string"
TIMEOUT_MS = 100


@dataclass(frozen=True)
class Topics:
    """Where a run reads, and where it writes."""

    servers: str
    source: str
    output: str
    dead: str
    per_batch: int


class WindboltStep:
    """``topologies/examples/aggregation/aggregation.conf``, as it is.

    JSON in, Avro out; key, trigger and aggregation by Python rules; a timeout of 100 ms; dead letters.
    """

    def run(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        """Run it to the end of the topic."""
        around = folder / "around.conf"
        around.write_text(
            f'source.topics: ["{topics.source}"], source.maxOffsetsPerTrigger: {topics.per_batch}\n'
            f'destination.topic: "{topics.output}", error.topic: "{topics.dead}"\n'
            f'connections.output.bootstrap.servers: "{topics.servers}"\n',
            "utf-8",
        )
        topology = step_topology(load_step(READY / "aggregation.conf", overlays=[READY / "local.conf", around]))
        run_on_spark(topology, RunOptions(f"{folder}/checkpoint"), spark=spark)

    def read(self, value: bytes, headers: dict[str, bytes]) -> dict[str, Any]:
        """A result."""
        row: dict[str, Any] = self._messages.read(value, headers)
        return row

    @cached_property
    def _messages(self) -> AvroMessages:
        return AvroMessages(tuple(AvroSchema.parse((READY / name).read_text("utf-8")) for name in SCHEMAS))


class SparkStep:
    """A query of Spark's that adds up the same: ``applyInPandasWithState`` with a timeout of 100 ms, JSON in and out.

    It is called for the orders of a shop in a batch at once, and so fires at the end of a batch that has the last order
    of a day, or a hundred: no rule of its user's is called for each order.
    """

    def run(self, spark: SparkSession, topics: Topics, folder: Path) -> None:
        """Run it to the end of the topic, and until all timeouts have passed."""
        place = {"kafka.bootstrap.servers": topics.servers}
        reader = spark.readStream.format("kafka").options(**place, subscribe=topics.source, startingOffsets="earliest")
        records = reader.option("maxOffsetsPerTrigger", topics.per_batch).load()
        parsed = sf.from_json(sf.col("value").cast("string"), ORDER, {"columnNameOfCorruptRecord": "broken"})
        orders = records.select(parsed.alias("order")).select("order.*")
        shop = sf.when(sf.col("broken").isNull(), sf.col("shop")).alias("shop")
        groups = orders.select(shop, "amount", "last", "broken").groupBy("shop")
        out, dead = topics.output, topics.dead

        def added(key: tuple[str | None], frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
            if key[0] is None:
                for frame in frames:
                    yield pd.DataFrame({"topic": dead, "key": None, "value": frame["broken"]})
                return
            count, total = state.get if state.exists else (0, 0.0)
            due = state.hasTimedOut
            for frame in () if due else frames:
                count, total = count + len(frame), total + float(frame["amount"].sum())
                due = due or count >= 100 or bool(frame["last"].any())
            if not due:
                state.update((count, total))
                state.setTimeoutDuration(TIMEOUT_MS)
                return
            if state.exists:
                state.remove()
            value = json.dumps({"shop": key[0], "orders": count, "total": round(total, 2)})
            yield pd.DataFrame({"topic": [out], "key": [key[0]], "value": [value]})

        found = groups.applyInPandasWithState(
            added, RESULT, "orders long, total double", "append", "ProcessingTimeTimeout"
        )
        writer = found.writeStream.outputMode("append").format("kafka").options(**place)
        query = (
            writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(processingTime="1 milliseconds").start()
        )
        try:
            while not query.awaitTermination(0.05):  # type: ignore[arg-type]
                done = query.lastProgress
                if done and done.numInputRows == 0 and done.stateOperators and done.stateOperators[0].numRowsTotal == 0:
                    break
        finally:
            query.stop()

    def read(self, value: bytes, headers: dict[str, bytes]) -> dict[str, Any]:
        """A result."""
        row: dict[str, Any] = json.loads(value)
        return row
