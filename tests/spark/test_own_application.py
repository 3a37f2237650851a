"""windbolt in a user's own Spark application: DataFrames in, tables and DataFrames out, and what Spark shows of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.listener import StreamingQueryListener

from tests.helpers.places import ROOT
from tests.spark.shop import SCHEMA, at
from tests.spark.test_sources import progress
from tests.spark.tools import at_phase, in_order, published, run, run_until
from topologies.spark.tables import with_tables
from topologies.topology import Topology
from windbolt import (
    AggregateBolt,
    ConfigError,
    SchemaError,
    SpoutError,
    TopologyBuilder,
    WindowedBolt,
    report_of,
    run_local,
    sinks,
    spouts,
    windowed,
)
from windbolt.aggregates import count, sum, window_end

PAGE = (ROOT / "docs" / "own-application.md").read_text(encoding="utf-8")


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database of this test."""
    name = f"shop_{tmp_path.name}".replace("-", "_")
    spark.sql(f"CREATE DATABASE {name} LOCATION '{tmp_path / 'warehouse'}'")
    yield name
    spark.sql(f"DROP DATABASE {name} CASCADE")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Four files of orders, one after the other in time."""
    for number in range(4):
        write(tmp_path / "in", number)
    return tmp_path / "in"


def write(folder: Path, number: int) -> None:
    folder.mkdir(exist_ok=True)
    rows = [{"user": user, "amount": 1.5, "ts": at(60 * number + second).isoformat()}
            for second in range(0, 60, 10) for user in ("ann", "bob")]  # fmt: skip
    path = folder / f"{number}.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))


def stream(spark: SparkSession, folder: Path) -> DataFrame:
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder))


def revenue() -> WindowedBolt:
    bolt = AggregateBolt(by="user", orders=count(), revenue=sum("amount"), until=window_end())
    return bolt.with_tumbling_window("20s").with_timestamp_field("ts")


def topology(frame: DataFrame, **out: Any) -> Topology:
    builder = TopologyBuilder("revenue")
    builder.set_spout("orders", spouts.stream(frame))
    builder.set_bolt("revenue", revenue(), parallelism=2).fields_grouping("orders")
    for name, sink in out.items():
        builder.set_sink(name, sink).from_("revenue")
    return builder.build()


def rows_of(frame: DataFrame) -> list[str]:
    """Its rows, in an order of their own; times as they are in UTC."""
    return in_order(row.asDict() for row in frame.withColumn("until", frame["until"].cast("double")).collect())


def test_a_parquet_table_has_each_batch_once_whenever_a_run_dies(
    spark: SparkSession, shop: str, folder: Path, tmp_path: Path
) -> None:
    right = topology(stream(spark, folder), out=sinks.memory()).start(tmp_path / "right", spark=spark)
    assert right.wait().batches == 5
    table = f"{shop}.revenue"
    built = topology(stream(spark, folder), out=sinks.table(table, format="parquet"))
    for batch, phase in ((0, "commit"), (1, "publish"), (2, "sinks")):
        run_until(with_tables(built, spark), tmp_path / "checkpoint", at_phase(batch, phase))
    going_on = built.start(tmp_path / "checkpoint", spark=spark)
    going_on.wait()
    assert rows_of(spark.table(table)) == rows_of(going_on.frame()) == rows_of(right.frame("out")) != []
    names = published(tmp_path / "warehouse/revenue")
    assert [name[:16] for name in names] == [f"batch-{batch:010}" for batch in (0, 1, 2, 3, 3)]
    with pytest.raises(ConfigError, match="holds 5 files of another run"):
        run(built, tmp_path / "another checkpoint")


def test_a_table_that_does_not_fit_is_refused_before_the_first_batch(
    spark: SparkSession, shop: str, folder: Path, tmp_path: Path
) -> None:
    columns = "user string, orders bigint, revenue double, until timestamp"
    spark.sql(f"CREATE TABLE {shop}.csv ({columns}) USING csv")
    spark.sql(f"CREATE TABLE {shop}.parted ({columns}) USING parquet PARTITIONED BY (user)")
    spark.sql(f"CREATE TABLE {shop}.bucketed ({columns}) USING parquet CLUSTERED BY (user) INTO 2 BUCKETS")
    spark.sql(f"CREATE TABLE {shop}.lacking (user string, orders bigint, until timestamp) USING parquet")
    spark.sql(f"CREATE TABLE {shop}.narrow ({columns.replace('bigint', 'int')}) USING parquet")
    spark.sql(f"CREATE VIEW {shop}.view AS SELECT * FROM {shop}.csv")
    for name, why in {
        "missing": "there is no table .*missing.*make it: CREATE TABLE",
        "csv": "is a table of csv",
        "parted": "with partition columns",
        "bucketed": "with buckets",
        "lacking": "has no column 'revenue'.*ALTER TABLE .* ADD COLUMN revenue double",
        "narrow": "column 'orders' of the table .* is int.*have bigint",
        "view": "is no table",
    }.items():
        built = topology(stream(spark, folder), out=sinks.table(f"{shop}.{name}"))
        with pytest.raises(ConfigError, match=f"(?s){why}"):
            run(built, tmp_path / "checkpoint")
    with pytest.raises(ConfigError, match="SCHEMA_NOT_FOUND"):
        run(topology(stream(spark, folder), out=sinks.table("nowhere.t", format="parquet")), tmp_path / "checkpoint")
    twice = topology(
        stream(spark, folder), one=sinks.table(f"{shop}.t", format="parquet"), two=sinks.table(f"{shop}.t")
    )
    with pytest.raises(ConfigError, match="sinks 'one' and 'two' write to"):
        run(twice, tmp_path / "checkpoint")
    assert not (tmp_path / "checkpoint").exists()


def test_what_sinks_have_written_is_a_dataframe(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built = topology(
        stream(spark, folder),
        parquet=sinks.files(tmp_path / "parts [2024]"),
        lines=sinks.files(tmp_path / "par*", "jsonl"),
        memory=sinks.memory(),
        shown=sinks.discard(),
    )
    going_on = built.start(tmp_path / "checkpoint", spark=spark)
    going_on.wait()
    right = rows_of(going_on.frame("memory"))
    assert len(right) == 2 * (3 * 4 + 1)
    assert rows_of(going_on.frame("parquet")) == rows_of(going_on.frame("lines")) == right
    before = going_on.frame("parquet")
    write(folder, 9)
    built.start(tmp_path / "checkpoint", spark=spark).wait()
    assert len(rows_of(before)) < len(rows_of(going_on.frame("parquet")))  # which has what was there when it was made
    for name, why in ((None, "has 3 sinks"), ("shown", "cannot be read again"), ("memry", "did you mean 'memory'")):
        with pytest.raises(ConfigError, match=why):
            going_on.frame(name)
    builder = TopologyBuilder("nothing")
    builder.set_spout("orders", spouts.stream(stream(spark, folder).where("user = 'eve'")))
    builder.set_sink("out", sinks.files(tmp_path / "nothing")).from_("orders")
    nothing = builder.build().start(tmp_path / "ck", spark=spark)
    nothing.wait()
    assert (nothing.frame().count(), nothing.frame().columns) == (0, ["user", "amount", "ts"])
    monkeypatch.chdir(tmp_path)
    once_more = built.start("checkpoint", spark=spark)
    assert once_more.wait().rows == 0
    assert repr(once_more).endswith(f"0 rows emitted, checkpoint {tmp_path / 'checkpoint'}>")


def test_a_run_without_spark_has_neither_tables_nor_dataframes() -> None:
    builder = TopologyBuilder("here")
    builder.set_spout("orders", spouts.memory(SCHEMA, [("ann", 1.0, at(1))]))
    builder.set_sink("out", sinks.table("shop.orders", format="parquet")).from_("orders")
    built = builder.build()
    with pytest.raises(ConfigError, match="sink 'out' appends to a table, which a local run cannot do"):
        run_local(built)
    builder = TopologyBuilder("here")
    builder.set_spout("orders", spouts.memory(SCHEMA, [("ann", 1.0, at(1))]))
    builder.set_sink("out", sinks.memory()).from_("orders")
    going_on = builder.build().start(engine="local")
    going_on.wait()
    with pytest.raises(ConfigError, match="is local, and has no Spark DataFrame"):
        going_on.frame()


def test_a_frame_gives_its_columns_and_says_which_it_cannot(spark: SparkSession, folder: Path) -> None:
    given = (
        "user, CAST(amount AS decimal(9,2)) AS paid, ts, array(struct(user AS `à, b`, 1S AS n)) AS parts, 1Y AS `a.b`"
    )
    frame = stream(spark, folder).selectExpr(*re.split(r", (?![^(]*\))", given))
    columns = spouts.stream(frame).outputs()["default"]
    assert [str(field.type) for field in columns] == [
        "string", "decimal128(9, 2)", "timestamp[us, tz=UTC]", "list<item: struct<à, b: string, n: int16>>", "int8",
    ]  # fmt: skip
    assert columns == spouts.stream(lambda session: frame).outputs()["default"]
    for wrong in ("CAST(ts AS timestamp_ntz)", "INTERVAL '1' DAY", "NULL", "struct(INTERVAL '1' DAY AS d)"):
        with pytest.raises(SchemaError, match=r"column 'bad' of the DataFrame is .*frame.drop\('bad'\)"):
            spouts.stream(stream(spark, folder).selectExpr("user", f"{wrong} AS bad"))
    with pytest.raises(ConfigError, match="given a DataFrame that is no stream"):
        spouts.stream(spark.range(3))
    with pytest.raises(ConfigError, match="given a NoneType"):
        spouts.stream(lambda session: None)


def test_a_function_that_fails_is_told_with_its_spout_and_its_line(spark: SparkSession, tmp_path: Path) -> None:
    def leave(_: SparkSession) -> None:
        raise SystemExit(0)

    builder = TopologyBuilder("leaves")
    builder.set_spout("orders", spouts.stream(leave, "n long"))
    builder.set_sink("out", sinks.discard()).from_("orders")
    with pytest.raises(SpoutError, match=r"the function of spout 'orders' failed\. .*SystemExit: 0 at .*, in leave"):
        run(builder.build(), tmp_path / "checkpoint")


@pytest.mark.parametrize("source", ["rate", "socket"])
def test_a_source_without_an_end_is_refused_where_the_run_is_to_end(
    source: str, spark: SparkSession, tmp_path: Path
) -> None:
    reader = spark.readStream.format(source).option("host", "127.0.0.1").option("port", 9)
    frame = reader.option("includeTimestamp", True).load().withColumnRenamed("timestamp", "ts")
    builder = TopologyBuilder("endless")
    builder.set_spout("clock", spouts.stream(frame))
    builder.set_sink("out", sinks.discard()).from_("clock")
    with pytest.raises(ConfigError, match=f"spout 'clock' reads '{source}', which has no end.*every='10 s'"):
        run(builder.build(), tmp_path / "checkpoint")


def test_one_bolt_without_a_topology(spark: SparkSession, shop: str, folder: Path, tmp_path: Path) -> None:
    first = windowed(stream(spark, folder), revenue(), checkpoint=tmp_path / "one", keep_open=True)
    assert first.wait().rows == 4 * 12
    write(folder, 4)
    second = windowed(stream(spark, folder), revenue(), checkpoint=tmp_path / "one", by="user", parallelism=1)
    assert second.wait().rows == 12
    right = topology(stream(spark, folder), out=sinks.memory()).start(tmp_path / "right", spark=spark)
    right.wait()
    spark.sql(f"CREATE TABLE {shop}.t (user string, orders bigint, revenue double, until timestamp) USING parquet")
    table = windowed(stream(spark, folder), revenue(), checkpoint=tmp_path / "two", sink=f"{shop}.t", parallelism=2)
    table.wait()
    assert rows_of(second.frame()) == rows_of(table.frame()) == rows_of(spark.table(f"{shop}.t"))
    assert rows_of(second.frame()) == rows_of(right.frame()) != []


def test_windowed_is_given_a_dataframe_and_no_function(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"windowed\(...\) was given a function"):
        windowed(lambda session: stream(session, folder), revenue(), checkpoint=tmp_path / "one")
    assert not (tmp_path / "one").exists()


def test_spark_shows_batches_by_name_and_rows(spark: SparkSession, folder: Path, tmp_path: Path) -> None:
    heard: list[tuple[str, int, dict[str, int]]] = []

    class Accounts(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None: ...  # noqa: N802

        def onQueryTerminated(self, event: Any) -> None: ...  # noqa: N802

        def onQueryProgress(self, event: Any) -> None:  # noqa: N802
            report = report_of(event.progress)
            if report is not None:
                heard.append((event.progress.name, report.batch, report.bolts["spans"].accounts))

    builder = TopologyBuilder("shown in Spark")
    for name in ("first", "second"):
        builder.set_spout(name, spouts.files(folder, SCHEMA, files_per_batch=1))
    builder.set_spout("frame", spouts.stream(stream(spark, folder)))
    declarer = builder.set_bolt("spans", revenue())
    for name in ("first", "second", "frame"):
        declarer.fields_grouping(name)
    builder.set_sink("out", sinks.foreach_batch(lambda frame, batch: frame.collect())).from_("spans")
    listener = Accounts()
    spark.streams.addListener(listener)
    try:
        with progress() as said:
            run(builder.build(), tmp_path / "checkpoint")
    finally:
        spark.streams.removeListener(listener)
    assert [[source["numInputRows"] for source in each["sources"]] for each in said] == [[12, 12, 12]] * 4
    assert {each["name"] for each in said} == {"shown in Spark"}
    jobs: Any = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    described = {str(jobs.apply(number).description()) for number in range(jobs.size())}
    assert {f"Some(shown in Spark, batch {batch})" for batch in (0, 1, 2, 3, "3-close")} <= described
    assert (heard[0][:2], heard[0][2]["received"]) == (("shown in Spark", 0), 36)


def test_the_page_runs_as_it_is(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    assert len(examples) == PAGE.count("```") // 2 == 4
    everything: dict[str, Any] = {}
    try:
        for example in examples:
            exec(example, everything)
        said = capsys.readouterr().out
        assert re.search(r"\|\s*ada\|\s*14.0\|", said)
        assert said.count("|2024-01-01") == 2 * 2
        assert issubclass(everything["Accounts"], StreamingQueryListener)
    finally:
        spark.sql("DROP DATABASE IF EXISTS shop CASCADE")
