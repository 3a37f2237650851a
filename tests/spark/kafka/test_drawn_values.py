"""Drawn values of all types in all formats: what one engine has written to files and topics, the other reads as it was.

``tests/topologies/io/test_types_and_formats.py`` and ``tests/topologies/topics/test_matrix.py`` draw many more without
Spark and without a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.orc as orc
import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import SparkSession

from servers.kafka import Kafka, Registry, registry
from tests.helpers.examples import share
from tests.spark.engines import ENGINES
from tests.spark.kafka.kafka_shop import reading
from tests.topologies.io.test_types_and_formats import drawn, shown
from tests.topologies.topics.test_matrix import as_protobuf_has_it, drawn_for_protobuf
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Spout

FILES: tuple[Any, ...] = ("parquet", "csv", "jsonl", "json", "arrow")
TOPICS: tuple[Any, ...] = ("json", "avro", "json_schema", "protobuf")


def side_by_side(tables: Any, number: int) -> pa.Table:
    """The columns of so many drawn tables, with the number of each row before them; nulls below those of few rows."""
    found: list[pa.Table] = []

    @settings(max_examples=number, phases=[Phase.generate])
    @given(table=tables)
    def collect(table: pa.Table) -> None:
        found.append(table.drop_columns("id").combine_chunks())

    collect()
    rows = max(table.num_rows for table in found)
    columns = [
        pa.chunked_array([*column.chunks, pa.nulls(rows - len(column), column.type)])
        for table in found
        for column in table.columns
    ]
    return pa.table({"id": pa.array(range(rows), pa.int64()), **{f"c{at}": each for at, each in enumerate(columns)}})


def that_orc_has(table: pa.Table, path: Path) -> pa.Table:
    """The columns that Arrow writes to ORC and reads as they were, which are in a file then: times of other years than
    1677 to 2262 are not."""
    kept = ["id"]
    for name in table.column_names[1:]:
        if "timestamp" in str(table.schema.field(name).type):
            continue
        try:
            orc.write_table(table.select([name]), str(path))
        except (pa.ArrowException, NotImplementedError):  # Arrow's writer does not know the type
            continue
        kept.append(name)
    orc.write_table(table.select(kept), str(path))
    return table.select(kept)


@pytest.fixture(scope="module")
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


@pytest.mark.parametrize(("writer", "reader"), [("local", "spark"), ("spark", "local")])
def test_what_one_engine_writes_the_other_reads_as_it_was(
    writer: str, reader: str, spark: SparkSession, kafka: Kafka, told: Registry, tmp_path: Path
) -> None:
    table = side_by_side(drawn(), share(30))
    of_protobuf = side_by_side(drawn_for_protobuf(), share(30))
    tables = {**dict.fromkeys([*FILES, *TOPICS], table), "protobuf": of_protobuf}
    topics = {form: kafka.topic(f"drawn-{form.replace('_', '-')}-{writer}") for form in TOPICS}
    registered: dict[str, Any] = {form: {"registry": told.url} if form != "json" else {} for form in TOPICS}

    builder = TopologyBuilder("write")
    builder.set_spout("all", spouts.memory(table.schema, table))
    builder.set_spout("protobuf", spouts.memory(of_protobuf.schema, of_protobuf))
    for form in FILES:
        builder.set_sink(f"files-{form}", sinks.files(tmp_path / form, form)).from_("all")
    for form in TOPICS:
        sink = sinks.kafka(kafka.servers, topics[form], format=form, **registered[form])
        builder.set_sink(f"topic-{form}", sink).from_("protobuf" if form == "protobuf" else "all")
    ENGINES[writer].run(builder.build(), tmp_path / "writing")

    class Given(Spout):
        schema = table.schema

        def read(self, offset: Any, limit: int) -> Any:
            return (table, 1) if offset is None else None

    (tmp_path / "orc").mkdir()
    expected: dict[str, pa.Table] = {"orc": that_orc_has(table, tmp_path / "orc" / "1.orc"), "own": table}
    found: dict[str, Any] = {
        "orc": spouts.files(tmp_path / "orc", expected["orc"].schema, format="orc"),
        "own": Given(),
    }
    for form in FILES:
        found[f"files-{form}"] = spouts.files(tmp_path / form, table.schema, format=form)
        expected[f"files-{form}"] = table
    for form in TOPICS:
        schema = tables[form].schema
        found[f"topic-{form}"] = spouts.kafka(kafka.servers, topics[form], schema, format=form, **registered[form])
        expected[f"topic-{form}"] = as_protobuf_has_it(tables[form]) if form == "protobuf" else table
    if reader == "spark":
        kinds = spark.createDataFrame(table.slice(0, 0)).schema
        frame = spark.readStream.schema(kinds).parquet(str(tmp_path / "parquet"))
        found["frame"], expected["frame"] = spouts.stream(frame, table.schema), table
    built, out = reading(**found)
    ENGINES[reader].run(built, tmp_path / "reading")
    for name, rows in expected.items():
        assert out[f"{name}-errors"].rows == [], name
        assert shown(sorted(out[name].rows, key=lambda row: row["id"])) == shown(rows), name
