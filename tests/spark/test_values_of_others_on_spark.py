"""Files that Spark writes are read on both engines as they were, and Spark reads what sinks write."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from tests.helpers import extremes
from tests.spark import tools
from tests.spark.kafka import local_tools
from tests.topologies.io.test_types_and_formats import shown
from windbolt import TopologyBuilder, run_local, sinks, spouts

FLAT, WHOLE = extremes.table(extremes.FLAT), extremes.table(extremes.WHOLE)
MODERN = extremes.table(
    {
        **{name: values for name, values in extremes.WHOLE.items() if not name.startswith(("at ", "spans "))},
        "day date": [date(1582, 10, 15), date(1969, 12, 31), date.max],
        "at timestamp": [datetime(1677, 10, 1, tzinfo=UTC), datetime(1899, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)],
    }
)
"""Without times before 1677, which Arrow does not read from ORC, and without days of the Julian calendar."""
EXACT = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX"}
"""By default Spark writes texts of times without microseconds."""
BESIDE = {**EXACT, "header": True, "ignoreLeadingWhiteSpace": False, "ignoreTrailingWhiteSpace": False}
WRITTEN: dict[str, tuple[pa.Table, str, dict[str, Any], dict[str, Any]]] = {
    "parquet": (WHOLE, "parquet", {}, {"format": "parquet"}),
    "orc": (MODERN, "orc", {}, {"format": "orc"}),
    "json": (WHOLE, "json", {**EXACT, "ignoreNullFields": False}, {"format": "jsonl"}),
    "csv": (FLAT, "csv", BESIDE, {"format": "csv", "escape": "\\", "escape_unquoted": False}),
    "doubled": (FLAT, "csv", {**BESIDE, "escape": '"'}, {"format": "csv"}),
    "tabs": (FLAT, "csv", {**BESIDE, "sep": "\t", "compression": "gzip"}, {
        "format": "csv", "delimiter": "\t", "escape": "\\", "escape_unquoted": False
    }),
}  # fmt: skip
"""What Spark writes, how, and what reads it."""


@pytest.fixture(scope="module")
def written(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spark")
    for name, (table, form, options, _) in WRITTEN.items():
        frame = spark.createDataFrame(table).coalesce(1)
        frame.write.format(form).options(**options).save(str(folder / name))
    return folder


@pytest.mark.parametrize("engine", [local_tools, tools])
def test_what_spark_writes_is_read_as_it_was_given(engine: Any, written: Path, tmp_path: Path) -> None:
    builder, out = TopologyBuilder("read"), {}
    for name, (table, _, _, options) in WRITTEN.items():
        builder.set_spout(name, spouts.files(written / name, table.schema, **options))
        out[name], out[f"{name}-errors"] = sinks.memory(), sinks.memory()
        builder.set_sink(f"{name}-out", out[name]).from_(name)
        builder.set_sink(f"{name}-bad", out[f"{name}-errors"]).from_(name, "errors")
    engine.run(builder.build(), tmp_path)
    for name, (table, *_) in WRITTEN.items():
        assert out[f"{name}-errors"].rows == [], name
        assert shown(sorted(out[name].rows, key=lambda row: row["id"])) == shown(table), name


READ: dict[str, tuple[pa.Table, str, dict[str, Any]]] = {
    "parquet": (WHOLE, "parquet", {}),
    "jsonl": (WHOLE, "json", {}),
    "csv": (FLAT, "csv", {"header": True, "multiLine": True, "escape": '"'}),
}


def test_what_sinks_write_spark_reads_as_it_was_given(spark: SparkSession, tmp_path: Path) -> None:
    for name, (table, form, options) in READ.items():
        builder = TopologyBuilder("write")
        builder.set_spout("in", spouts.memory(table.schema, table))
        builder.set_sink("out", sinks.files(tmp_path / name, name)).from_("in")  # type: ignore[arg-type]
        run_local(builder.build())
        kinds = spark.createDataFrame(table.slice(0, 0)).schema
        found = spark.read.format(form).schema(kinds).options(**options).load(str(tmp_path / name)).toArrow()
        expected = table.to_pylist()
        if form == "csv":
            expected[0]["text"] = None  # to Spark an empty text is null there, in quotes or not
        assert shown(found.cast(table.schema).sort_by("id")) == shown(expected), name


@pytest.mark.parametrize(
    ("form", "column", "told"),
    [
        ("orc", "day date", "a day before 15 October 1582 in column 'day'"),
        ("orc", "days array<struct<day: date>>", "a day before 15 October 1582 in column 'days'"),
        ("parquet", "day date", "a day before 15 October 1582 in column 'day'"),
        ("parquet", "day timestamp", "a time before 1900 in column 'day'"),
    ],
)
def test_days_that_spark_counts_by_the_julian_calendar_are_refused(
    form: Any, column: str, told: str, spark: SparkSession, tmp_path: Path
) -> None:
    for moment, good in ((datetime(1582, 10, 4, tzinfo=UTC), False), (datetime(1900, 1, 1, tzinfo=UTC), True)):
        value: Any = moment if "timestamp" in column else moment.date()
        table = extremes.table({column: [[{"day": value}] if "array" in column else value]})
        folder = tmp_path / str(good)
        mode = "spark.sql.parquet.datetimeRebaseModeInWrite"
        spark.conf.set(mode, "LEGACY")
        try:
            spark.createDataFrame(table).coalesce(1).write.format(form).save(str(folder))
        finally:
            spark.conf.unset(mode)
        builder, out, bad = TopologyBuilder("read"), sinks.memory(), sinks.memory()
        builder.set_spout("in", spouts.files(folder, table.schema, format=form))
        builder.set_sink("out", out).from_("in")
        builder.set_sink("bad", bad).from_("in", "errors")
        run_local(builder.build())
        assert shown(out.rows) == (shown(table) if good else [])
        assert [told in row["_reason"] for row in bad.rows] == ([] if good else [True])
