"""On Spark OpenTelemetry is told the same: metrics as in the reports, and spans of batches, phases and windows.

Windows are linked to events that workers have seen.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.helpers.telemetry import telemetry
from tests.spark.tools import run
from topologies.engine.micro_batch import PHASES
from topologies.engine.report import BatchReport
from windbolt import TopologyBuilder, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.schema import EmittedRows

CONTEXT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Revenue(WindowedBolt):
    outputs = "user string, revenue double"

    def execute(self, window: TupleWindow) -> EmittedRows:
        for user, amounts in window.groups("user", "amount"):
            yield user, amounts.sum()


def test_spark_tells_the_same(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "orders"
    folder.mkdir()
    for number in range(2):
        orders: list[dict[str, Any]] = [
            {"user": "ada", "amount": 1.0, "ts": f"2024-05-01T12:0{3 * number + each}:30Z", "traceparent": None}
            for each in range(3)
        ]
        orders[1]["traceparent"] = CONTEXT
        path = folder / f"{number}.jsonl"
        path.write_text("\n".join(map(json.dumps, orders)) + "\n", "utf-8")
        os.utime(path, (1_600_000_000 + number,) * 2)
    builder = TopologyBuilder("traced")
    schema = "user string, amount double, ts timestamp, traceparent string"
    builder.set_spout("orders", spouts.files(str(folder), schema=schema, format="jsonl", files_per_batch=1))
    bolt = Revenue().with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("revenue", bolt, parallelism=2).fields_grouping("orders", "user")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    reports: list[BatchReport] = []
    with telemetry() as told:
        summary = run(builder.build(), tmp_path / "ck", otel=True, on_report=reports.append)
        points = told.values()
    assert summary.last is not None

    fired = points["windbolt.windows.fired", frozenset({("topology", "traced"), ("bolt", "revenue")})]
    assert fired.value == summary.last.bolts["revenue"].fired == 6
    batches = told.named("batch")
    assert [dict(span.attributes or {})["windbolt.batch"] for span in batches] == [each.batch for each in reports]
    for span in batches:
        phases = [each.name for each in told.spans if each.parent == span.context and each.name != "windbolt.window"]
        assert phases == [f"windbolt.{name}" for name in PHASES[:-1]]
    linked = {
        str((span.attributes or {})["windbolt.window.end"]): [f"{link.context.span_id:016x}" for link in span.links]
        for span in told.named("window")
    }
    assert linked == {
        f"2024-05-01T12:0{minute}:00Z": [CONTEXT.split("-")[2]] if minute in (2, 5) else [] for minute in range(1, 7)
    }
