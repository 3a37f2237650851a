"""The questions about windows, for windbolt and for Spark, with their right rows.

Rows of a result have ``until``, the end of the window in microseconds. A result has the windows that end no later than
the second ``last_end`` of the events. Windows include their start, not their end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.contest import Job, Question
from benchmarks.events import SCHEMA, WIDE, Columns, Events, middle
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import AggregateBolt, Session, TupleWindow, WindowedBolt, WindowJoin, aggregates
from windowing.schema import TIMESTAMP

# Shared functions.


def read(spark: SparkSession, job: Job, schema: str = SCHEMA, side: str = "") -> DataFrame:
    """Returns the files of a job as a Spark stream."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", job.batch_files).parquet(job.source + side)


def late_by_two(events: DataFrame) -> DataFrame:
    """Returns events with Spark's watermark."""
    return events.withWatermark("event_time", "2 seconds")


def spark_sql(sql: str, schema: str = SCHEMA, *sides: str) -> Callable[[SparkSession, Job], DataFrame]:
    """Returns a function for Spark's query of a table ``events``; for a join, of the tables of its sides, such as
    ``a``."""

    def query(spark: SparkSession, job: Job) -> DataFrame:
        for side in sides or ("",):
            late_by_two(read(spark, job, schema, f"/{side}")).createOrReplaceTempView(side or "events")
        return spark.sql(sql.format(length=job.question.length))

    return query


def spout(job: Job, columns: str, side: str = "") -> Any:
    """Returns the files of a job as a spout, with the columns that a question needs, the same as in Spark's query."""
    if job.framed:
        return spouts.stream(lambda spark: read(spark, job), columns)
    return spouts.files(f"{job.source}{side}/*.parquet", columns, files_per_batch=job.batch_files)


def timed(bolt: WindowedBolt) -> WindowedBolt:
    """Returns a bolt with the time field of the events, and windows that include their start."""
    return bolt.with_timestamp_field("event_time").with_lag("2s").with_alignment(bounds="[start, end)")


def wired(source: Any, bolt: Any, sink: Any, by: str | None = "key", tasks: int = 2, last: Any = None) -> Topology:
    """Returns a topology of a spout, a bolt and a sink. ``by``: the field of the fields grouping; ``last``: another
    bolt, with one task."""
    builder = TopologyBuilder("benchmark")
    builder.set_spout("events", source)
    part = builder.set_bolt("bolt", bolt, parallelism=tasks if by else 1)
    if by:
        part.fields_grouping("events", by)
    else:
        part.global_grouping("events")
    if last is not None:
        behind = builder.set_bolt("last", last)
        behind.global_grouping("bolt") if isinstance(last, WindowedBolt) else behind.shuffle_grouping("bolt")
    builder.set_sink("out", sink).from_("bolt" if last is None else "last")
    return builder.build()


def out(job: Job) -> Any:
    """Returns the sink for the rows of a job."""
    return sinks.discard() if job.keep is None else sinks.files(job.keep, "parquet")


def counted_and_added() -> AggregateBolt:
    """Returns a bolt for count, sum and mean per key."""
    value = {"total": aggregates.sum("value"), "mean": aggregates.mean("value")}
    return AggregateBolt(by="key", until=aggregates.window_end(), events=aggregates.count(), **value)


# W1 and W2: count, sum and mean per key of windows that slide by a second.


class Statistics(WindowedBolt):
    """A user's bolt: count, sum and mean per key, from all events of a window."""

    outputs = "until timestamp, key int, events long, total double, mean double"

    def execute(self, window: TupleWindow) -> pa.Table:
        groups = window.table.group_by("key", use_threads=False).aggregate([("value", "count"), ("value", "sum")])
        key, events, total = groups.columns
        mean = pc.divide(total, events)
        return pa.table({"until": until(window, len(key)), "key": key, "events": events, "total": total, "mean": mean})


def until(window: TupleWindow, rows: int) -> pa.Array:
    """Returns the end of the window, repeated for each row."""
    return pa.repeat(pa.scalar(window.end_timestamp, TIMESTAMP), rows)


def statistics(events: Events, length: int) -> Columns:
    """Returns the right rows, computed by NumPy."""
    columns, last = events.columns, events.last_end
    found = columns["event_time"] // 1_000
    first = int(found.min())
    due = found < last
    cells = (found[due] - first) * events.keys + columns["key"][due]
    shape = (max(last - first, 0), events.keys)
    counts = np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape)
    sums = np.bincount(cells, columns["value"][due], minlength=shape[0] * shape[1]).reshape(shape)
    parts: list[Columns] = []
    for place in range(shape[0]):
        panes = slice(max(place + 1 - length, 0), place + 1)
        held = counts[panes].sum(axis=0)
        key = np.flatnonzero(held)
        held, total = held[key], sums[panes].sum(axis=0)[key]
        end = np.full(len(key), (first + place + 1) * 1_000_000, np.int64)
        parts.append({"until": end, "key": key, "events": held, "total": total, "mean": total / held})
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _sliding_by_a_second(job: Job, columns: str, bolt: WindowedBolt, *, keyed: bool = True) -> Topology:
    """Returns a topology with windows that slide by a second."""
    bolt = timed(bolt).with_window(f"{job.question.length}s", "1s")
    return wired(spout(job, columns), bolt, out(job), "key" if keyed else None)


KEYED, UNKEYED = "event_time timestamp, key int, value double", "event_time timestamp, value double"


def statistics_question(name: str, title: str, length: int) -> Question:
    """Returns the question for count, sum and mean, in windows of ``length`` seconds."""
    declared: Callable[[Job], Topology] = lambda job: _sliding_by_a_second(job, KEYED, counted_and_added())  # noqa: E731
    ways = {"": declared, "general bolt": lambda job: _sliding_by_a_second(job, KEYED, Statistics())}
    answer, spark = partial(statistics, length=length), spark_sql("""
        select window.end as until, key, count(value) as events, sum(value) as total, avg(value) as mean
        from events group by window(event_time, '{length} seconds', '1 second'), key
    """)  # fmt: skip
    return Question(name, title, answer, ways, spark, kind="statistics", length=length)


# W3: a Python function of the values of each key and second.


class MiddlePerKey(WindowedBolt):
    """Calls the function with the values of each key."""

    outputs = "until timestamp, key int, events long, middle double"

    def execute(self, window: TupleWindow) -> pa.Table:
        groups = [(key, len(values), middle(values.tolist())) for key, values in window.groups("key", "value")]
        keys, events, found = zip(*groups, strict=True)
        return pa.table({"until": until(window, len(keys)), "key": keys, "events": events, "middle": found})


def middles(events: Events) -> Columns:
    """Returns the right rows, computed by NumPy: sorted once, then a call of the function for each window."""
    due = events.columns["event_time"] // 1_000 < events.last_end
    seconds, key, value = (events.columns[name][due] for name in ("event_time", "key", "value"))
    seconds = seconds // 1_000
    order = np.argsort((seconds - seconds.min()) * events.keys + key, kind="stable")
    seconds, key, value = seconds[order], key[order], value[order]
    starts = np.concatenate([[0], np.flatnonzero((np.diff(seconds) != 0) | (np.diff(key) != 0)) + 1])
    bounds, plain = [*starts.tolist(), len(key)], value.tolist()
    found = np.array([middle(plain[start:stop]) for start, stop in pairwise(bounds)])
    end = (seconds[starts] + 1) * 1_000_000
    return {"until": end, "key": key[starts], "events": np.diff(bounds), "middle": found}


def spark_middles(spark: SparkSession, job: Job) -> DataFrame:
    """Returns Spark's query for a Python function of a group: gathers the values, then calls a function of Arrow
    arrays."""

    def found(lists: pa.Array) -> pa.Array:
        return pa.array([middle(values) for values in lists.to_pylist()], pa.float64())

    groups = late_by_two(read(spark, job)).groupBy(sf.window("event_time", "1 second"), "key")
    return _gathered(groups, found).select("until", "key", "events", sf.col("found").alias("middle"))


def _gathered(groups: Any, function: Callable[[pa.Array], pa.Array]) -> DataFrame:
    functions: Any = sf
    called = functions.arrow_udf(function, "double")("values").alias("found")
    gathered = groups.agg(sf.count("value").alias("events"), sf.collect_list("value").alias("values"))
    found: DataFrame = gathered.select(sf.col("window.end").alias("until"), "*", called)
    return found


# W4: a Python function of all values of windows that slide by a second.


class Median(WindowedBolt):
    """Emits NumPy's median."""

    outputs = "until timestamp, events long, median double"
    parallel_windows = True

    def execute(self, window: TupleWindow) -> tuple[Any, int, float]:
        return window.end, len(window), float(np.median(window.column("value")))


def medians(events: Events, length: int) -> Columns:
    """Returns the right rows, computed by NumPy."""
    times, values = events.columns["event_time"], events.columns["value"]
    order = np.argsort(times, kind="stable")
    times, values = times[order], values[order]
    ends = np.arange(times[0] // 1_000 + 1, events.last_end + 1)
    starts = np.searchsorted(times, (ends - length) * 1_000)
    stops = np.searchsorted(times, ends * 1_000)
    found = [np.median(values[start:stop]) for start, stop in zip(starts, stops, strict=True)]
    return {"until": ends * 1_000_000, "events": stops - starts, "median": np.array(found)}


def spark_medians(spark: SparkSession, job: Job) -> DataFrame:
    """Returns Spark's query, as for W3, over all events of a window."""

    def found(lists: pa.Array) -> pa.Array:
        return pa.array([float(np.median(row.values.to_numpy())) for row in lists], pa.float64())

    window = sf.window("event_time", f"{job.question.length} seconds", "1 second")
    groups = late_by_two(read(spark, job)).groupBy(window)
    return _gathered(groups, found).select("until", "events", sf.col("found").alias("median"))


W1 = statistics_question("W1", "keyed tumbling 1 s: count, sum, mean", 1)
W2 = statistics_question("W2", "keyed sliding 10 s / 1 s: count, sum, mean", 10)
W3 = Question(
    "W3", "keyed tumbling 1 s: a Python function per key", middles,
    {"": lambda job: _sliding_by_a_second(job, KEYED, MiddlePerKey())}, spark_middles, kind="middles", length=1,
)  # fmt: skip
W4 = Question(
    "W4", "un-keyed sliding 10 s / 1 s: a Python function", partial(medians, length=10),
    {"": lambda job: _sliding_by_a_second(job, UNKEYED, Median(), keyed=False)}, spark_medians, ("until",),
    kind="medians", length=10,
)  # fmt: skip
WORKLOADS = (W1, W2, W3, W4)


# Ordinary queries. DuckDB computes the right rows, from a table ``events`` with times in whole milliseconds. ``{due}``
# is the end of the last due window, also in milliseconds.


def asked_of_duckdb(events: Events, sql: str) -> Columns:
    """Returns the right rows, computed by DuckDB."""
    duckdb: Any = import_module("duckdb")
    connection = duckdb.connect()
    connection.register("events", pa.table(events.columns))
    found = connection.sql(sql.format(due=events.last_end * 1_000)).to_arrow_table()
    connection.close()
    return {name: column.to_numpy() for name, column in zip(found.column_names, found.columns, strict=True)}


def sessions(job: Job) -> Topology:
    """Returns a topology with a declared bolt; like Spark's, its sessions include events that are exactly the gap
    apart."""
    bolt = counted_and_added().with_window(Session("5s", touching=True)).with_key("key")
    return wired(spout(job, KEYED), bolt.with_timestamp_field("event_time").with_lag("2s"), out(job))


SESSIONS = Question("sessions", "sessions per key, 65,000 keys: count, sum, mean", partial(asked_of_duckdb, sql="""
    with marked as (
        select *, event_time - lag(event_time) over (partition by key order by event_time) as gap from events
    ), numbered as (
        select *, count(*) filter (where gap is null or gap > 5000)
            over (partition by key order by event_time rows unbounded preceding) as number
        from marked
    )
    select (max(event_time) + 5000) * 1000 as until, key, count(*) as events, sum(value) as total, avg(value) as mean
    from numbered group by key, number having max(event_time) + 5000 <= {due} order by until, key
"""), {"": sessions}, spark_sql("""
    select session_window.end as until, key, count(value) as events, sum(value) as total, avg(value) as mean
    from events group by session_window(event_time, '5 seconds'), key
"""), due_only=True)  # fmt: skip


class Highest(WindowedBolt):
    """A user's bolt: the row with the highest value."""

    outputs = "until timestamp, id long, key int, value double, url string"

    def execute(self, window: TupleWindow) -> tuple[Any, ...]:
        row = window.table.slice(int(window.column("value").argmax()), 1).to_pylist()[0]
        return window.end, row["id"], row["key"], row["value"], row["url"]


class HighestOfFew(Highest):
    """The same bolt with a declaration of the columns that it reads, as the guide advises."""

    reads = "id, key, value, url"


def highest(job: Job, bolt: type[WindowedBolt]) -> Topology:
    """Returns a topology with one of the two bolts."""
    return wired(spout(job, WIDE), timed(bolt()).with_tumbling_window("10s"), out(job), None)


HIGHEST = Question("highest", "tumbling 10 s: the row with the highest value, of wide rows", partial(asked_of_duckdb,
    sql="""
    select (event_time // 10000 + 1) * 10000000 as until, arg_max(id, value) as id, arg_max(key, value) as key,
        max(value) as value, arg_max(url, value) as url
    from events where (event_time // 10000 + 1) * 10000 <= {due} group by 1 order by 1
"""), {"": partial(highest, bolt=Highest), "reads declared": partial(highest, bolt=HighestOfFew)}, spark_sql("""
    select until, best.id, best.key, best.value, best.url from (
        select window.end as until, max(struct(value, id, key, url)) as best
        from events group by window(event_time, '10 seconds')
    )
""", WIDE), ("until",))  # fmt: skip


def joined(job: Job) -> Topology:
    """Returns a topology with a window join of two streams."""
    outputs = "until timestamp, key int, a_id long, b_id long, a_url string"
    join = timed(WindowJoin("a", "b", on="key", end="until", outputs=outputs)).with_tumbling_window("1s")
    builder = TopologyBuilder("joined")
    for side in ("a", "b"):
        builder.set_spout(side, spout(job, WIDE, f"/{side}"))
    builder.set_bolt("bolt", join, parallelism=2).fields_grouping("a", "key").fields_grouping("b", "key")
    builder.set_sink("out", out(job)).from_("bolt")
    return builder.build()


JOINED = Question("joined", "join of two streams per 1 s, wide rows, 10,000 keys", partial(asked_of_duckdb, sql="""
    select (a.event_time // 1000 + 1) * 1000000 as until, a.key as key, a.id as a_id, b.id as b_id, a.url as a_url
    from events a join events b on a.key = b.key and a.event_time // 1000 = b.event_time // 1000
    where a.stream = 'a' and b.stream = 'b' and (a.event_time // 1000 + 1) * 1000 <= {due} order by 1, 2, 3, 4
"""), {"": joined}, spark_sql("""
    select window.end as until, key, a.id as a_id, b.id as b_id, a.url as a_url
    from (select window(event_time, '1 second') as window, key, id, url from a) a
    join (select window(event_time, '1 second') as window, key, id from b) b using (window, key)
""", WIDE, "a", "b"), ("until", "key", "a_id", "b_id"), due_only=True)  # fmt: skip


class Hottest(WindowedBolt):
    """The key with the most events; of several, the least key."""

    outputs = "until timestamp, key int, events long"

    def execute(self, window: TupleWindow) -> tuple[Any, ...]:
        keys, events = window.column("key"), window.column("events")
        first = np.lexsort((keys, -events))[0]
        return window.end, int(keys[first]), int(events[first])


def hottest(job: Job) -> Topology:
    """Returns a topology with counts per key, and a second bolt that reads them."""
    counts = timed(AggregateBolt(by="key", events=aggregates.count())).with_window("10s", "1s")
    last = Hottest().with_tumbling_window("1s")
    return wired(spout(job, "event_time timestamp, key int"), counts, out(job), last=last)


HOTTEST = Question("hottest", "the hottest key per 10 s / 1 s: an aggregation, then a bolt", partial(asked_of_duckdb,
    sql="""
    with panes as (
        select event_time // 1000 as second, key, count(*) as events from events group by all
    ), counts as (
        select second + place + 1 as until, key, sum(events)::bigint as events
        from panes, range(10) as places(place) where (second + place + 1) * 1000 <= {due} group by all
    )
    select until * 1000000 as until, arg_max(key, events * 1000000 - key) as key, max(events) as events
    from counts group by until order by until
"""), {"": hottest}, spark_sql("""
    select window.end as until, -best.negative as key, best.events from (
        select window, max(struct(events, -key as negative)) as best from (
            select window, key, count(*) as events
            from events group by window(event_time, '10 seconds', '1 second'), key
        ) group by window
    )
"""), ("until",))  # fmt: skip
QUERIES = (SESSIONS, HIGHEST, JOINED, HOTTEST)
