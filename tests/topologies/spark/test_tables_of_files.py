"""A sink of a Parquet table is one of files in the folder of the table: what else writes or reads there is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from pyspark.sql.types import StructType

from topologies.graph.graph import Graph
from topologies.io.sinks import FileSink
from topologies.spark import tables
from topologies.spark.tables import with_tables
from windbolt import ConfigError, TopologyBuilder, sinks, spouts


def in_session(warehouse: Path, read: Any, **more: Any) -> Graph:
    """The topology for a run, in a session with a Parquet table in the folder ``revenue``."""
    builder = TopologyBuilder("revenue")
    builder.set_spout("orders", spouts.files(read, "user string, amount double", format="parquet"))
    for name, sink in {"out": sinks.table("shop.revenue"), **more}.items():
        builder.set_sink(name, sink).from_("orders")
    found = tables._Table("shop.revenue", "parquet", f"file:{warehouse}/revenue", "", StructType())
    with patch.object(tables, "_checked_table", lambda *given: found):
        return with_tables(builder.build(), None)


@pytest.mark.parametrize("read", ["revenue", "*/*.parquet", "link"])
def test_a_spout_that_reads_the_files_of_the_table_is_refused(read: str, tmp_path: Path) -> None:
    (tmp_path / "revenue").mkdir()
    (tmp_path / "link").symlink_to("revenue")
    with pytest.raises(ConfigError, match=r"spout 'orders' reads what sink '.*' writes"):
        in_session(tmp_path, tmp_path / read)


def test_another_sink_of_that_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "revenue").mkdir()
    (tmp_path / "link").symlink_to("revenue")
    with pytest.raises(ConfigError, match="sinks 'other' and 'out' write to"):
        in_session(tmp_path, tmp_path / "in", other=sinks.files(tmp_path / "link"))


def test_a_table_beside_the_input_is_written_as_files(tmp_path: Path) -> None:
    built = in_session(tmp_path, tmp_path / "in")
    sink = built.sinks["out"].sink
    assert isinstance(sink, FileSink)
    assert sink.path == f"{tmp_path}/revenue"
