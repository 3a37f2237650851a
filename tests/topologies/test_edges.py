"""What was found by trying to break it."""

from __future__ import annotations

import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from topologies import TopologyBuilder, run_local, sinks, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.data.returned_rows import EmittedRows, tables
from windowing.data.schema import parse_schema
from windowing.errors import SchemaError, TopologyError


class Ends(WindowedBolt):
    outputs = "task long, n long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return window.task, len(window), window.end


@pytest.mark.parametrize("extreme", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"])
def test_a_time_at_the_edge_of_time_is_invalid_and_does_not_stop_the_query(extreme: str, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text(f'{{"ts": "{extreme}"}}\n{{"ts": "2024-01-01T00:00:05Z"}}\n')
    builder, out, errors = TopologyBuilder("edge"), sinks.memory(), sinks.memory()
    builder.set_spout("events", spouts.files(tmp_path / "in.jsonl", "ts timestamp"))
    builder.set_bolt("ends", Ends().with_tumbling_window("1h").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", out).from_("ends")
    builder.set_sink("errors", errors).from_("ends", stream="errors")
    last = run_local(builder.build()).last
    assert last is not None
    assert (last.bolts["ends"].accounts["invalid"], last.bolts["ends"].accounts["windowed"]) == (1, 1)
    assert "year 1 or 9999" in errors.rows[0]["_reason"]
    assert [row["n"] for row in out.rows] == [1]


def test_a_function_sink_is_given_an_id_once_the_closing_too() -> None:
    called: list[int] = []
    builder = TopologyBuilder("ids")
    builder.set_spout("events", spouts.memory("ts timestamp", [(1_000_000,), (12_000_000,)], [(25_000_000,)]))
    builder.set_bolt("ends", Ends().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.foreach_batch(lambda frame, id: called.append(id), frame="arrow")).from_("ends")
    run_local(builder.build())
    assert called == sorted(set(called))
    assert len(called) == 3


def test_a_shuffle_shares_out_many_small_files(tmp_path: Path) -> None:
    for number in range(40):
        pq.write_table(pa.table({"ts": [number * 1000 + 1]}), tmp_path / f"{number:02d}.parquet")
    builder, out = TopologyBuilder("small"), sinks.memory()
    builder.set_spout("events", spouts.files(tmp_path, "ts long", format="parquet"))
    bolt = Ends().with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("ends", bolt, parallelism=4).shuffle_grouping("events")
    builder.set_sink("out", out).from_("ends")
    run_local(builder.build())
    shares = {row["task"]: row["n"] for row in out.rows}
    assert sum(shares.values()) == 40
    assert len(shares) == 4
    assert max(shares.values()) < 25


@pytest.mark.parametrize("value", [Decimal("1.9"), 1.5])
def test_a_fraction_is_not_cut_off(value: Any) -> None:
    with pytest.raises(SchemaError):
        list(tables((value,), {"default": parse_schema("n long")}))


def test_two_sinks_on_one_folder_under_two_names_are_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    os.symlink(tmp_path / "out", tmp_path / "link")
    builder = TopologyBuilder("twice")
    builder.set_spout("events", spouts.memory("ts timestamp"))
    for name in ("out", "link"):
        builder.set_sink(name, sinks.files(tmp_path / name)).from_("events")
    with pytest.raises(TopologyError, match="write to"):
        builder.build()
