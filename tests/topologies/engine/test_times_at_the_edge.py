"""Events whose times lie at the edge of the years that can be written."""

from __future__ import annotations

from pathlib import Path

import pytest

from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import Silence, TupleWindow, WindowedBolt
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.timestamps import LATEST


class Ends(WindowedBolt):
    outputs = "n long, until timestamp"

    def execute(self, window: TupleWindow) -> EmittedRows:
        return len(window), window.end


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


def test_a_silence_that_would_begin_after_the_last_year_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"ts": "9999-12-31T23:59:30Z"}\n{"ts": "2024-01-01T00:00:05Z"}\n')
    builder, errors = TopologyBuilder("edge"), sinks.memory()
    builder.set_spout("events", spouts.files(tmp_path / "in.jsonl", "ts timestamp"))
    builder.set_bolt("quiet", Silence("3m").with_timestamp_field("ts")).global_grouping("events")
    builder.set_sink("out", sinks.discard()).from_("quiet")
    builder.set_sink("errors", errors).from_("quiet", stream="errors")
    run_local(builder.build())
    assert "year 1 or 9999" in errors.rows[0]["_reason"]


def test_a_session_gap_may_reach_the_last_moment_that_can_be_written_and_not_beyond() -> None:
    now, last = 1_700_000_000_000, LATEST // 1_000  # in milliseconds
    builder, out, errors = TopologyBuilder("edge"), sinks.memory(), sinks.memory()
    rows = [(now, last - now, "to the end"), (now, last - now + 1, "beyond")]
    builder.set_spout("events", spouts.memory("ts long, gap long, id string", rows))
    bolt = Ends().with_window(Session("10s", gap_field="gap")).with_timestamp_field("ts")
    builder.set_bolt("ends", bolt).global_grouping("events")
    builder.set_sink("out", out).from_("ends")
    builder.set_sink("errors", errors).from_("ends", stream="errors")
    run_local(builder.build())
    (wrong,) = errors.rows
    assert "beyond" in str(wrong)
    assert wrong["_reason"] == "its session would end after the year 9999"
    assert [row["n"] for row in out.rows] == [1]
