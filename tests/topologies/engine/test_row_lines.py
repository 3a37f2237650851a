"""Rows on the console fit a line: of a terminal, or 80 characters where there is none."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from typing import Any

import pytest

from topologies.engine.commit import row_lines
from windbolt import TopologyBuilder, WindowedBolt, run_local, sinks, spouts

ROW = {"user": "ada", "amount": 3.5, "ts": datetime(2024, 1, 1, 6, tzinfo=UTC), "why": "it was late"}


def test_a_row_that_fits_is_one_line() -> None:
    assert row_lines(ROW, 80) == ["   user=ada  amount=3.5  ts=2024-01-01T06:00:00Z  why=it was late"]


@pytest.mark.parametrize("width", [40, 31, 24])
def test_a_longer_row_goes_on_in_the_next_line_and_no_value_is_torn(width: int) -> None:
    lines = row_lines(ROW, width)
    assert len(lines) > 1
    assert max(map(len, lines)) <= max(width, len("     ts=2024-01-01T06:00:00Z"))
    assert lines[0].startswith("   user=ada")
    assert all(line.startswith("     ") and line[5] != " " for line in lines[1:])
    assert "  ".join(line.strip() for line in lines) == row_lines(ROW, 500)[0].strip()


def test_a_value_that_is_longer_than_a_line_has_a_line_of_its_own() -> None:
    assert row_lines({"a": 1, "b": "x" * 99, "c": 2}, 40) == ["   a=1", f"     b={'x' * 99}", "     c=2"]


class _Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window: Any) -> Any:
        return (len(window),)


@pytest.mark.parametrize("columns", [None, "60"])
def test_late_rows_of_a_run_fit_where_nobody_says_how_wide_a_line_is(
    columns: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.__stdout__", open(os.devnull, "w"))  # noqa: SIM115  # no terminal, as in a pipe
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    minutes = [datetime(2024, 1, 1, 6, minute, tzinfo=UTC) for minute in (0, 9, 1)]
    builder = TopologyBuilder("late")
    builder.set_spout("orders", spouts.memory("user string, ts timestamp", [("ada", at) for at in minutes]))
    bolt = _Size().with_tumbling_window("1m").with_timestamp_field("ts").with_watermark(every=1)
    builder.set_bolt("size", bolt.with_late_tuple_stream("late")).global_grouping("orders")
    builder.set_sink("out", sinks.console()).from_("size", stream="late")
    run_local(builder.build())
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "-- out, batch 0: 1 row"
    assert lines[1].startswith("   user=ada  ts=2024-01-01T06:01:00Z  _stream=orders")
    assert max(map(len, lines)) <= int(columns or 80)
    assert sum("_late_by_us=480000000" in line for line in lines) == 1
