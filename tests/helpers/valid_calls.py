"""A valid example of every public call, or whose call it is if not the user's."""

from __future__ import annotations

import threading
import uuid
from datetime import UTC, datetime
from inspect import signature
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.listener import StreamingQueryProgress

from policies.protocol import TriggerPolicy
from policies.storm import WatermarkCountEvictionPolicy
from tests.helpers.public_calls import Valid
from topologies.checkpoints.blocking_inputs import WhyAnswer, WhyReason
from topologies.checkpoints.stored_tasks import StoredState
from topologies.step.rule_values import as_outputs
from windbolt import (
    AggregateBolt,
    Arrival,
    Bounds,
    DayTime,
    Restart,
    RunOptions,
    StatefulBolt,
    Summary,
    TopologyBuilder,
    TupleWindow,
    WindowBatch,
    WindowedBolt,
    hours,
    presets,
    replay,
    seconds,
    sinks,
    spouts,
)
from windbolt.aggregates import count
from windbolt.panes import after_count
from windbolt.step import Aggregation
from windbolt.testing import TopologyDriver, make_window, run_bolt
from windbolt.triggers import CountTrigger
from windowing.durations import Count
from windowing.schema import parse_schema, tables
from windowing.settings.panes import Pane, Timing
from windowing.settings.triggers import FiredBy

SCHEMA = "user string, amount double, ts timestamp"
ROWS = [{"user": "ada", "amount": 1.0, "ts": "2024-01-01T06:00:03Z"}]


class _Frame:
    """A streaming DataFrame, as far as one looks at it before a run."""

    isStreaming, sparkSession = True, None  # noqa: N815 - Spark's names
    schema = from_arrow_schema(parse_schema(SCHEMA))


class Counting(WindowedBolt):
    """Counts the events of its windows."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        """Called once a window."""
        return {"n": len(window)}


class AtEachEvent(TriggerPolicy):
    """Fires with each event."""

    def track(self, event: Any, context: Any) -> bool:
        """Called with each event."""
        return True


BOLT = Counting().with_tumbling_window("10s").with_timestamp_field("ts")


def _progress() -> StreamingQueryProgress:
    """As Spark reports a batch of a query that is not windbolt's."""
    unknown: dict[str, Any] = dict.fromkeys(signature(StreamingQueryProgress).parameters)
    return StreamingQueryProgress(**unknown | {"id": uuid.uuid4(), "batchId": 7, "jdict": {}})


def topology(bolt: Any = BOLT, spout: Any = None, sink: Any = None) -> Any:
    """A topology with one bolt."""
    return builder(bolt, spout, sink).build()


def builder(bolt: Any = BOLT, spout: Any = None, sink: Any = None) -> TopologyBuilder:
    """A topology with one bolt, that is not built."""
    made = TopologyBuilder("shop")
    made.set_spout("orders", spout or spouts.memory(SCHEMA, [("ada", 1.0, datetime(2024, 1, 1, tzinfo=UTC))]))
    made.set_bolt("count", bolt).fields_grouping("orders", "user")
    made.set_sink("out", sink or sinks.memory()).from_("count")
    return made


def _driver() -> TopologyDriver:
    return TopologyDriver(topology(), clock="2024-01-01T06:00:00Z")


def _window() -> TupleWindow:
    return make_window(ROWS, SCHEMA, timestamp_field="ts")


def _with_bolt(made: TopologyBuilder, declarer: Any) -> Any:
    """A builder to which a bolt was added, built."""
    if declarer is not None and not getattr(declarer, "inputs", True):
        declarer.global_grouping("orders")
    return made.build()


def _with_sink(made: TopologyBuilder, declarer: Any) -> Any:
    return declarer.from_("count") and made.build()


class _Declared:
    """A declarer, and the builder to which it belongs."""

    def __init__(self, kind: str) -> None:
        self.builder = builder()
        if kind == "bolt":
            self.declarer: Any = self.builder.set_bolt("again", BOLT)
        else:
            self.declarer = self.builder.set_sink("again", sinks.memory())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.declarer, name)


def _built(declared: Any, _: Any) -> Any:
    return declared.builder.build()


def _consumed(_: Any, result: Any) -> Any:
    return list(result)


def _a_bolt(_: Any, bolt: Any) -> Any:
    """A bolt that is used in a topology: what depends on its input is told there."""
    used = bolt if bolt.settings.length or bolt.settings.kinds else bolt.with_tumbling_window("10s")
    return topology(used.with_timestamp_field("ts") if not used.settings.timestamp_field else used)


def _an_aggregate(_: Any, aggregate: Any) -> Any:
    return _a_bolt(None, AggregateBolt(n=aggregate))


def _emitted(_: Any, emit: Any) -> Any:
    return list(tables(emit, {"late": pa.schema([("n", pa.int64())])}))


def _an_out(_: Any, out: Any) -> Any:
    return as_outputs([out], Aggregation(), [])


FIELD = Valid({"field": "amount"}, then=_an_aggregate)
PAIR = {"field": "amount", "other": "amount"}
NUMBER = Valid({"number": 5})
LAST = {"by": "user", "within": "5s"}
SCENARIO = {
    "name": "one",
    "bolt": {"length": "10s", "sliding": "10s", "timestamp_field": "ts"},
    "steps": [{"event": {"id": "a", "ts": 1000}}, {"close": True}],
    "expect": {"late": []},
}


OPTIONS: dict[str, Any] = {
    "keep_open": True,
    "first_output": "2024-01-01T06:00:00Z",
    "keep_batches": 3,
    "allow_rescale": True,
    "on_report": lambda report: None,
}
WITH_SPARK: dict[str, Any] = {
    "restart": None,
    "serve_metrics": None,
    "otel": False,
    "serve_page": None,
    "checkpoint": "ck",
    "every": "2s",
    "master": "local[1]",
    "conf": {},
    "spark": None,
    "metrics": None,
}


def _run() -> Any:
    run = topology().start(engine="local")
    run.wait()
    return run


def _why() -> Any:
    return WhyAnswer(bolt="count", reason=WhyReason.NOTHING, sentences=("No event waits.",))


def _stored() -> Any:
    tables = {"events": pa.table({"task": [0]})}
    return StoredState(checkpoint="ck", bolt="count", batch="7", clock=0, tables=tables)


def _answer() -> Any:
    return replay(SCENARIO)


_JOIN = {
    "left": "orders",
    "right": "prices",
    "on": "item",
    "how": "left",
    "outputs": "item string, a timestamp, b timestamp",
    "rename": "{stream}_{column}",
    "start": "a",
    "end": "b",
}
"""What both joins are given."""

CALLS: dict[str, Valid] = {
    # windows and bolts
    "AggregateBolt": Valid(
        {"by": "user", "n": count()},
        then=_a_bolt,
        fine={
            "by": ([],),
        },
    ),
    "AlterLifetime": Valid(
        {"end": "ts", "start": "ts", "duration": "5s"},
        also={"extend": "5s", "shift": "-5s", "inclusive": True},
        fine={"shift": ("-5s",), "extend": ("-5s",)},
    ),
    "Arrival": Valid({"field": "arrived", "early": "5m", "late": "5s", "action": "drop"}),
    "Calendar": Valid({"unit": "day", "zone": "Europe/Berlin", "at": ["06:00", "18:00"]}),
    "Changes": Valid({"by": "user", "of": "amount", "within": "5s", "rest": "same"}),
    "Count": Valid({"value": 3}),
    "CountByStart": Valid({"count": 3}),
    "DayTime": Valid({"micros": 3, "zone": "UTC"}),
    "Deduplicate": Valid({**LAST, "rest": "again"}),
    "Duration": Valid({"micros": 3}),
    "Hopping": Valid({"length": "10s", "slide": "5s"}),
    "Panes": Valid({"early": "5s", "late": True, "mode": "discarding"}),
    "Rank": Valid(
        {
            "order_by": "amount",
            "by": "user",
            "method": "rank",
            "descending": False,
            "column": "place",
            "start": "begins",
            "end": "ends",
        }
    ),
    "Silence": Valid({"after": "5s", "by": "user", "end": "until"}),
    "RateLimit": Valid({"n": 3, "per": "5s", "by": "user", "rest": "above"}),
    "Session": Valid({"gap": "5s", "touching": True, "max_duration": "1h", "gap_field": "gap"}),
    "ShiftTime": Valid({"by": "-5s", "fields": ["ts"]}, fine={"by": ("-5s",)}),
    "SlidingLog": Valid({"length": "5s"}),
    "Snapshot": Valid(),
    "TemporalJoin": Valid(_JOIN | {"versions": True}),
    "TopN": Valid(
        {
            "n": 3,
            "order_by": "amount",
            "by": "user",
            "method": "rank",
            "descending": False,
            "column": "place",
            "start": "begins",
            "end": "ends",
        }
    ),
    "Union": Valid(),
    "WindowJoin": Valid(_JOIN),
    "Emit": Valid({"rows": {"n": 3}, "stream": "late"}, then=_emitted),
    "AggregateBolt.with_empty_windows": Valid(
        {"until": "1h", "fill": {"n": 3}}, on=lambda: AggregateBolt(n=count()).with_tumbling_window("10s")
    ),
    "WindowedBolt.with_window": Valid({"length": "10s", "slide": "5s"}, on=Counting),
    "WindowedBolt.with_tumbling_window": Valid({"length": "10s"}, on=Counting),
    "WindowedBolt.with_timestamp_field": Valid({"field": "ts"}, on=Counting),
    "WindowedBolt.with_timestamp_extractor": Valid(
        {"extractor": len, "columns": True, "on_error": "errors"}, on=Counting
    ),
    "WindowedBolt.with_lag": Valid({"lag": "5s"}, on=Counting),
    "WindowedBolt.with_watermark_interval": Valid({"interval": "5s"}, on=Counting),
    "WindowedBolt.with_late_tuple_stream": Valid({"stream": "late"}, on=Counting),
    "WindowedBolt.with_message_id_field": Valid({"field": "id"}, on=Counting),
    "TaskBolt.with_key": Valid(more=("user", "shop"), on=Counting),
    "StatefulBolt.with_clock": Valid({"every": "10s"}, on=StatefulBolt),
    "WindowedBolt.with_trigger": Valid(
        {
            "trigger": CountTrigger(Count(100), seconds(5)),
            "refused_stream": "refused",
            "max_bytes": 1000,
            "bytes_of": ["user"],
        },
        also={"max_events": 5},
        on=Counting,
        fine={"bytes_of": ([],)},
    ),
    "WindowedBolt.with_empty_windows": Valid(
        {"until": "1h"}, also={"keys": ["ada"], "since": "2024-05-01"}, on=Counting
    ),
    "WindowedBolt.with_policies": Valid({"eviction": None, "trigger": None, "expired": True}, on=Counting),
    "WindowedBolt.with_time": Valid(
        {
            "preset": presets.storm(),
            "default_time": "none",
            "output_time": "window end",
            "output_watermark": "window end",
            "close_fires": False,
        },
        also={"processing": True},
        on=Counting,
    ),
    "WindowedBolt.with_watermark": Valid(
        {
            "every": 1,
            "field": "mark",
            "partition": "shop",
            "partitions": ["a"],
            "per_key": True,
            "combine": "max",
            "ahead": "5s",
            "imports": {"lookup": "data"},
            "imports_beside": True,
            "estimate_arrival": True,
            "idle_timeout": "5s",
            "idle_rule": "max_remaining",
            "partition_idle_timeout": "5s",
        },
        on=Counting,
        fine={"partitions": ([],)},
    ),
    "WindowedBolt.with_limits": Valid({"window_bytes": 1_000_000, "call_time": "5s"}, on=Counting),
    "WindowedBolt.with_lateness": Valid(
        {
            "by": "window",
            "allowed": "5s",
            "action": "drop",
            "by_session": True,
            "per_input": True,
            "arrival": Arrival(late="5s"),
        },
        on=Counting,
    ),
    "WindowedBolt.with_alignment": Valid(
        {
            "bounds": Bounds.START,
            "aligned": "starts",
            "offset": "5s",
            "anchor": "start",
            "closes_after_end": True,
            "longest_window": "1h",
        },
        on=Counting,
        fine={"offset": ("-5s",), "anchor": (-1,)},
    ),
    "WindowedBolt.with_lifetime": Valid(
        {"end_field": "end", "shape_field": "shape", "edge_key": ["id"]}, on=Counting, fine={"edge_key": ([],)}
    ),
    # durations
    **dict.fromkeys(("days", "hours", "millis", "minutes", "seconds"), NUMBER),
    "micros": NUMBER,
    "parse_duration": Valid({"text": "5s"}),
    # running
    "Restart": Valid({"attempts": 3, "initial_backoff": "2s", "max_backoff": "5m"}, fine={"attempts": (10**6,)}),
    "RunOptions": Valid(
        {
            "checkpoint": "ck",
            "every": "2s",
            "keep_open": True,
            "first_output": "2024-01-01T06:00:00Z",
            "keep_batches": 3,
            "allow_rescale": True,
            "restart": Restart(),
            "on_restart": print,
            "clock": lambda: 0,
            "on_report": print,
            "serve_metrics": 9464,
            "otel": True,
            "serve_page": 8765,
            "stop": threading.Event(),
        }
    ),
    "Topology.run": Valid({"engine": "local", **OPTIONS}, also=WITH_SPARK, on=topology),
    "Topology.start": Valid({"engine": "local", "show": False, **OPTIONS}, also=WITH_SPARK, on=topology),
    "MemorySink.to_pandas": Valid(on=sinks.memory),
    **{f"Run.{name}": Valid(on=_run) for name in ("show", "to_pandas")},
    "Run.frame": Valid({"sink": "out"}, on=_run, fine={"sink": (None,)}),
    **{f"Run.{name}": Valid({"timeout": 60}, on=_run, fine={"timeout": (-1,)}) for name in ("wait", "stop")},
    "runs": Valid(),
    "Summary.to_pandas": Valid(on=Summary),
    "Summary.this_run": Valid(on=Summary),
    "Summary.to_json": Valid(on=Summary),
    "Answer.check": Valid(on=_answer),
    "Answer.to_json": Valid(on=_answer),
    "TimeMetrics": Valid({"function": print}),
    "report_of": Valid({"progress": _progress()}),
    "why": Valid({"checkpoint": "ck", "bolt": "count", "key": "ada", "window": "2024-01-01T06:00:00Z"}),
    "WhyAnswer.to_json": Valid(on=_why),
    "state.begin": Valid({"checkpoint": "ck", "topology": topology(), "events": {}}),
    "state.bolts": Valid({"checkpoint": "ck", "batch": None}, fine={"batch": (7,)}),
    "state.read": Valid(
        {"checkpoint": "ck", "bolt": "count", "task": 0, "key": "ada", "since": None, "until": None, "batch": "7"},
    ),
    "state.repair": Valid({"checkpoint": "ck", "destination": "repaired", "events": {}, "without": None}),
    "StoredState.only": Valid({"table": "events"}, on=_stored),
    "StoredState.to_pandas": Valid({"table": "events"}, on=_stored),
    "StoredState.to_json": Valid(on=_stored),
    "StoredState.write": Valid({"folder": "tables", "format": "csv"}, on=_stored),
    "replay": Valid({"scenario": SCENARIO, "engine": "local"}, also={"topology": None}, fine={"topology": (None,)}),
    "run_local": Valid({"topology": topology(), "options": RunOptions()}),
    "run_on_spark": Valid(
        {
            "topology": topology(),
            "options": RunOptions(checkpoint="ck"),
            "master": "local[1]",
            "conf": {},
            "spark": None,
            "metrics": None,
        }
    ),
    "windowed": Valid(
        {
            "frame": _Frame(),
            "bolt": BOLT,
            "checkpoint": "ck",
            "by": "user",
            "sink": sinks.memory(),
            "parallelism": 2,
            "every": "1s",
            "keep_open": True,
            "restart": None,
            "name": "shop",
        }
    ),
    # aggregates
    **{
        f"aggregates.{name}": FIELD
        for name in ("count", "distinct_count", "first", "last", "max", "mean", "median", "min", "mode", "sum")
    },
    "aggregates.bottom": Valid({"k": 3, "field": "amount", "by": "ts"}, then=_an_aggregate),
    "aggregates.collect": Valid(
        {"field": "amount", "order_by": "ts", "descending": True, "limit": 3}, then=_an_aggregate
    ),
    "aggregates.combine": Valid(
        {
            "field": "amount",
            "fold": lambda values: float(values.sum()),
            "merge": max,
            "finish": float,
            "state": "double",
            "result": "double",
        },
        then=_an_aggregate,
    ),
    "aggregates.corr": Valid(PAIR, then=_an_aggregate),
    "aggregates.covariance": Valid({**PAIR, "ddof": 1}, then=_an_aggregate),
    "aggregates.distinct_count": Valid({"field": "amount", "standard_error": 0.1}, then=_an_aggregate),
    "aggregates.histogram": Valid({"field": "amount", "edges": [0, 10]}, then=_an_aggregate),
    "aggregates.max_by": Valid({"field": "amount", "by": "ts"}, then=_an_aggregate),
    "aggregates.median": Valid({"field": "amount", "relative_error": 0.1}, also={"size": 100}, then=_an_aggregate),
    "aggregates.min_by": Valid({"field": "amount", "by": "ts"}, then=_an_aggregate),
    "aggregates.quantile": Valid(
        {"field": "amount", "q": 0.5, "relative_error": 0.1}, also={"size": 100}, then=_an_aggregate
    ),
    "aggregates.std": Valid({"field": "amount", "ddof": 1}, then=_an_aggregate),
    "aggregates.top": Valid({"k": 3, "field": "amount", "by": "ts"}, then=_an_aggregate),
    "aggregates.variance": Valid({"field": "amount", "ddof": 1}, then=_an_aggregate),
    "aggregates.weighted_mean": Valid({"field": "amount", "weight": "amount"}, then=_an_aggregate),
    "aggregates.window_end": Valid(),
    "aggregates.window_start": Valid(),
    # triggers, panes, presets
    "triggers.CountTrigger": Valid({"count": Count(3), "timeout": seconds(5), "from_first": False}),
    "triggers.DailyByRule": Valid({"rule": len, "max_empty": 3}),
    "triggers.DailyTrigger": Valid({"time": DayTime(hours(18).micros, "UTC"), "max_empty": 3}),
    "triggers.RuleTrigger": Valid({"rule": len, "timeout": seconds(5), "from_first": False}),
    "panes.after_clock": Valid({"wait": "5s"}),
    "panes.after_count": Valid({"count": 3}),
    "panes.after_event_time": Valid({"wait": "5s"}),
    "PaneTrigger.once": Valid(on=lambda: after_count(3)),
    "presets.atlas": Valid(
        {"allowed_lateness": "5s", "idle_timeout": "5s", "idle_rule": "max_remaining", "partition_idle_timeout": "5s"}
    ),
    "presets.azure": Valid(
        {"late": "5s", "out_of_order": "5s", "early": "5m", "action": "drop", "arrival_field": "arrived"},
        fine={"late": (-1,)},
    ),
    "presets.increasing_start_time": Valid(),
    "presets.storm": Valid({"lag": "5s"}),
    "presets.streaminsight": Valid(
        {"every": 3, "delay": "5s", "policy": "adjust", "to_infinity": True, "imports": {"a": "b"}},
        also={"field": "mark"},
        fine={"delay": ("-5s",)},
    ),
    "presets.strictly_increasing_start_time": Valid(),
    # sources and sinks
    "sinks.console": Valid({"rows": 3}),
    "sinks.discard": Valid(),
    "sinks.files": Valid({"path": "out", "format": "csv", "delimiter": ";"}),
    "sinks.foreach_batch": Valid({"function": print, "frame": "arrow"}),
    "sinks.kafka": Valid({"servers": "host:9092", "topic": "out", "topics": ["a"], "options": {"kafka.acks": "all"}}),
    "sinks.memory": Valid(),
    "sinks.table": Valid({"name": "shop.revenue", "format": "delta"}),
    "spouts.files": Valid(
        {
            "path": "*.csv",
            "schema": SCHEMA,
            "format": "csv",
            "files_per_batch": 3,
            "metadata": True,
            "merge_by": "ts",
            "partition_columns": "dt date",
            "on_missing": "invalid",
            "on_change": "error",
            "defaults": {"amount": 0.0},
            "delimiter": ";",
        },
        also={"bytes_per_batch": 100},
        then=lambda _, spout: topology(spout=spout),
    ),
    "spouts.kafka": Valid(
        {
            "servers": "host:9092",
            "topics": "orders",
            "schema": SCHEMA,
            "starting": "latest",
            "records_per_batch": 3,
            "metadata": True,
            "options": {"kafka.security.protocol": "SASL_SSL"},
            "defaults": {"amount": 0.0},
        },
        also={"pattern": "o.*", "key": "text", "value": "text"},
        then=lambda _, spout: topology(spout=spout),
    ),
    "spouts.memory": Valid(
        {"schema": SCHEMA, "defaults": {"amount": 0.0}},
        more=([("ada", 1.0, None)],),
        then=lambda _, spout: topology(spout=spout) and spout.tables(),
    ),
    "spouts.stream": Valid(
        {"make": len, "schema": SCHEMA, "defaults": {"amount": 0.0}}, then=lambda _, spout: topology(spout=spout)
    ),
    # composing
    "TopologyBuilder": Valid({"name": "shop", "message_timeout": "5m", "max_spout_pending": 100, "on_invalid": "stop"}),
    "GraphBuilder.set_spout": Valid(
        {"name": "more", "spout": spouts.memory(SCHEMA), "time": presets.storm()},
        on=builder,
        then=lambda made, _: made.set_bolt("b", BOLT).global_grouping("more") and made.build(),
    ),
    "GraphBuilder.set_bolt": Valid({"name": "more", "bolt": BOLT, "parallelism": 2}, on=builder, then=_with_bolt),
    "GraphBuilder.set_sink": Valid({"name": "more", "sink": sinks.memory()}, on=builder, then=_with_sink),
    "TopologyBuilder.build": Valid(on=builder),
    "GraphBuilder.build": Valid(on=builder),
    "BoltDeclarer.fields_grouping": Valid(
        {"component": "orders"}, more=("user",), on=lambda: _Declared("bolt"), then=_built
    ),
    **{
        f"BoltDeclarer.{name}_grouping": Valid(
            {"component": "orders", "stream": "default"}, on=lambda: _Declared("bolt"), then=_built
        )
        for name in ("shuffle", "global", "all")
    },
    "SinkDeclarer.from_": Valid({"component": "count", "stream": "default"}, on=lambda: _Declared("sink"), then=_built),
    # windows, as a bolt sees them
    "TupleWindow.column": Valid({"name": "user"}, on=_window),
    "TupleWindow.select": Valid({"stream": "input"}, more=("user", "amount"), on=_window),
    "TupleWindow.select_new": Valid(more=("user", "amount"), on=_window),
    "TupleWindow.select_expired": Valid(more=("user", "amount"), on=_window),
    "WindowBatch.select": Valid(more=("user", "amount"), on=lambda: WindowBatch([_window()])),
    "TupleWindow.to_pandas": Valid(on=_window),
    "TupleWindow.stream": Valid({"name": "input"}, on=_window),
    "TupleWindow.places": Valid({"stream": "input"}, on=_window),
    "TupleWindow.groups": Valid({"by": "user"}, more=("amount",), on=_window, then=_consumed),
    "TupleWindow.get": Valid(on=_window),
    "TupleWindow.get_new": Valid(on=_window),
    "TupleWindow.get_expired": Valid(on=_window),
    # testing
    "testing.make_window": Valid(
        {
            "rows": ROWS,
            "schema": SCHEMA,
            "start": "2024-01-01T06:00:00Z",
            "end": "2024-01-01T06:00:10Z",
            "timestamp_field": "ts",
            "new": [0],
            "expired": ROWS,
            "key": "ada",
            "kind": 0,
            "pane": Pane(0, Timing.EARLY, last=False),
            "fired_by": FiredBy.COUNT,
            "task": 1,
            "stream": "orders",
        },
    ),
    "testing.check_policy": Valid(
        {
            "events": ROWS,
            "trigger": AtEachEvent(),
            "window": "10s",
            "timestamp_field": "ts",
            "lag": "5s",
            "schema": SCHEMA,
            "cuts": 1,
            "examples": 1,
            "seed": 1,
            "other_process": False,
        },
        also={
            "eviction": WatermarkCountEvictionPolicy(Count(3)),
            "bolt": BOLT.with_policies(trigger=AtEachEvent()),
            "key": "user",
            "clock": ["2024-01-01T06:00:00Z"],
        },
        fine={"seed": (-1,)},
    ),
    "testing.prepared": Valid({"bolt": BOLT, "schema": SCHEMA, "name": "count"}),
    "testing.run_bolt": Valid(
        {
            "bolt": BOLT,
            "rows": ROWS,
            "schema": SCHEMA,
            "clock": "2024-01-01T06:00:00Z",
            "rows_per_batch": 3,
            "keep_open": True,
            "stream": "orders",
        }
    ),
    "testing.TopologyDriver": Valid({"topology": topology(), "clock": "2024-01-01T06:00:00Z"}),
    "TopologyDriver.push": Valid({"spout": "orders", "rows": ROWS, "clock": "2024-01-01T06:00:10Z"}, on=_driver),
    "TopologyDriver.push_together": Valid({"rows": {"orders": ROWS}, "clock": "2024-01-01T06:00:10Z"}, on=_driver),
    "TopologyDriver.advance_clock": Valid({"by": "5s"}, also={"to": "2024-01-01T06:00:10Z"}, on=_driver),
    "TopologyDriver.advance_watermark": Valid(
        {"to": "2024-01-01T06:00:10Z", "bolt": "count"}, on=_driver, fine={"to": (-1,)}
    ),
    "TopologyDriver.crash": Valid({"at": "fire"}, on=_driver),
    "TopologyDriver.close": Valid(on=_driver),
    "TopologyDriver.read": Valid({"name": "out"}, on=_driver),
    "TopologyDriver.table": Valid({"name": "out"}, on=_driver),
    **{
        f"TopologyDriver.{name}": Valid({"bolt": "count"}, on=_driver)
        for name in ("late", "windows", "accounts", "counters", "pending", "watermark")
    },
    "TopologyDriver.story": Valid(on=_driver),
    "BoltRun.to_pandas": Valid(on=lambda: run_bolt(BOLT, ROWS)),
    # rules of an aggregation step
    "step.Aggregation": Valid(
        types=False,
        args={
            "key": "a",
            "window_ms": 3,
            "count": 3,
            "cache": {},
            "variables": {},
            "full": True,
            "out": None,
            "headers": {},
        },
    ),
    "step.Event": Valid(types=False, args={"value": {"id": 1}, "topic": "in", "key": "a", "headers": {"a": "b"}}),
    "step.Out": Valid(
        {"value": {"id": 1}, "key": "a", "headers": {"a": "b"}, "topic": "out", "branch": "b"},
        then=_an_out,
        fine={"key": (3,)},
    ),
    "step.TriggerCall": Valid({"key": "a", "cache": {}, "fired_at": 3}, types=False),
}

SUBCLASSED = {
    "BatchBolt", "BatchWindowedBolt", "Bolt", "PartitionedSpout", "Spout", "StatefulBatchBolt", "StatefulBolt",
    "StatefulWindowedBolt", "WindowedBolt", "panes.PaneTrigger", "policies.EvictionPolicy", "policies.TriggerPolicy",
}  # fmt: skip
"""Classes that users subclass: a subclass has what arguments its author gives it."""

MADE_BY_WINDBOLT = {
    "Events", "Summary", "TaskContext", "Topology", "Tuple", "TupleWindow", "WindowBatch", "aggregates.Aggregate",
    "state.StoredState",
    "Run", "RunStatus", "panes.Pane", "policies.EvictionContext", "policies.TriggerContext",
    "policies.QueuedEvent", "policies.QueuedEvents",
    "presets.Preset",
    "step.Outputs", "testing.BoltRun", "testing.CheckedWindow", "testing.FiredWindow",
    "testing.PolicyCheck",
}  # fmt: skip
"""Classes whose instances users are given, or make by a function."""

CALLED_BY_WINDBOLT = {
    "for_inputs", "output_schemas", "execute_all", "execute", "forget", "configured", "prepare", "columns_to_remember",
    "passes", "is_remembered", "initial_state", "move_state", "onQueryStarted", "onQueryProgress", "onQueryTerminated",
    "evict", "evict_all", "track", "track_all", "reset", "on_time", "on_arrival", "on_end", "on_clock",
}  # fmt: skip
"""Methods that users may write, and windbolt calls."""

OF_ITS_PARTS = {
    "Answer.draw", "DayTime.next", "Run.ask_to_stop", "Run.end_within",
    "RunOptions.clock", "RunOptions.on_begin", "RunOptions.on_report",
    "RunOptions.on_restart", "Restart.seconds_before", "Summary.note", "TimeMetrics.tell",
    "TimeMetrics.settle", "Graph.columns_of", "Graph.spouts_before", "Aggregate.with_types", "Aggregate.refusal",
    "Aggregate.finish", "PaneTrigger.due", "Preset.changes", "Preset.but", "Preset.with_rules", "ConsoleSink.check",
    "DiscardSink.check", "FileSink.check", "FunctionSink.check", "KafkaSink.check", "KafkaSink.check_columns",
    "MemorySink.check", "TableSink.check", "FileSpout.outputs", "FileSpout.row_schema", "FileSpout.files",
    "FileSpout.list_files",
    "FileSpout.cut", "FileSpout.batches", "KafkaSpout.outputs", "MemorySpout.outputs", "MemorySpout.tables",
    "FrameSpout.outputs", "EvictionPolicy.window_start", "FileSpout.partition_of", "Partition.of", "Partition.cast",
    "Partition.apply_to", "Policy.start", "QueuedEvent.row",
    "Events.slice", "Events.take", "Events.sorted", "Events.by_stream", "Events.concat",
    *(f"Spout.{name}" for name in ("open", "read", "acknowledge", "close")),  # users write them, windbolt calls them
    *(f"PartitionedSpout.{name}" for name in ("open", "partitions", "begin", "end", "read", "acknowledge", "close")),
    *(
        f"{kind}.{question}"
        for kind in ("WindowKind", "Calendar", "CountByStart", "Hopping", "Session", "SlidingLog", "Snapshot")
        for question in ("bounds", "changes_at_its_end", "in_words")
    ),
}  # fmt: skip
"""Methods that windbolt's parts have for each other."""

AS_A_DICT = {"Tuple.get"}
"""As a dict has them, and called so often that nothing stands before them."""
