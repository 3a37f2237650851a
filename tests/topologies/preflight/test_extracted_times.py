"""Timestamp extractors are called on the first rows of spouts, and what they raise is told with their own line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from typer.testing import CliRunner

from topologies.checkpoints.inspect_spouts import Findings, inspect_spouts
from topologies.cli.app import app
from windbolt import AggregateBolt, BoltError, TopologyBuilder, spouts
from windbolt.aggregates import count, window_end
from windbolt.testing import run_bolt

ROWS = [("ada", "2024-01-01T06:00:00Z"), ("bob", "2024-01-01T06:00:09Z"), ("cy", "yesterday")]


def found(extractor: Callable[..., Any], rows: Any = ROWS[:2], spout: Any = None, *, columns: bool = False) -> Findings:
    builder = TopologyBuilder("looked_at")
    builder.set_spout("orders", spout or spouts.memory("user string, at string", rows))
    bolt = AggregateBolt(n=count()).with_tumbling_window("1m")
    builder.set_bolt("n", bolt.with_timestamp_extractor(extractor, columns=columns)).global_grouping("orders")
    return inspect_spouts(builder.build())["orders"]


def by_text(event: Any) -> datetime:
    return datetime.fromisoformat(event["at"])


def by_wrong_name(event: Any) -> datetime:
    return datetime.fromisoformat(event["att"])


def line_of(function: Any) -> str:
    """Where the only statement of a function is."""
    return f"{__file__}:{inspect.getsourcelines(function)[1] + 1}, in {function.__name__}"


def test_the_times_that_an_extractor_gives_are_shown() -> None:
    findings = found(by_text)
    assert findings.facts[-1] == ("times", "2024-01-01T06:00:00Z to 2024-01-01T06:00:09Z, for n")
    assert findings.problems == findings.warnings == ()
    assert found(by_text, []).problems == ()


def test_a_row_on_which_it_fails_is_a_warning_with_the_line_of_the_extractor() -> None:
    findings = found(by_text, ROWS)
    assert findings.problems == ()
    (warning,) = findings.warnings
    assert warning.what == "the timestamp extractor of bolt 'n' fails on 1 of the first 3 rows of 'orders'"
    assert warning.why == f"ValueError: Invalid isoformat string: 'yesterday' at {line_of(by_text)}"


def test_where_it_fails_on_all_it_is_a_problem_and_the_column_that_is_meant_is_named() -> None:
    findings = found(by_wrong_name)
    assert findings.warnings == ()
    (problem,) = findings.problems
    assert problem.why == f"KeyError: 'att'; did you mean 'at'? (there are user, at) at {line_of(by_wrong_name)}"


def leaves(event: Any) -> datetime:
    raise SystemExit(0)


@pytest.mark.parametrize("columns", [False, True])
def test_one_that_ends_the_process_is_a_problem_and_does_not_end_the_command(columns: bool) -> None:
    (problem,) = found(leaves, columns=columns).problems
    assert problem.why == f"SystemExit: 0 at {line_of(leaves)}"
    assert "a run stops" in problem.do


def test_of_whole_tables_too() -> None:
    assert found(lambda table: pa.array([5, 6]), columns=True).problems == ()
    (problem,) = found(lambda table: table["att"], columns=True).problems
    assert "did you mean 'at'?" in problem.why
    assert "stops" in problem.do
    (problem,) = found(lambda table: table["user"], columns=True).problems
    assert "returned a column of string" in problem.what


def test_an_extractor_that_gives_no_time_is_told() -> None:
    (problem,) = found(lambda event: None).problems
    assert problem.what.startswith("the timestamp extractor of bolt 'n' gives no usable time to 2 of the first 2 rows")
    (warning,) = found(lambda event: None if event["user"] == "bob" else 5).warnings
    assert "first for row 1" in warning.why


def test_it_is_not_called_where_files_lack_columns_that_a_run_adds(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text(json.dumps({"user": "ada", "at": "2024-01-01T06:00:00Z"}) + "\n")
    spout = spouts.files(f"{tmp_path}/*.jsonl", "user string, at string", metadata=True)
    assert found(lambda event: event["file_modified"], spout=spout).problems == ()


FILE = """
from datetime import datetime
from windbolt import AggregateBolt, TopologyBuilder, spouts
from windbolt.aggregates import count

def when(event):
    print("asked")
    return datetime.fromisoformat(event["att"])

builder = TopologyBuilder("shop")
builder.set_spout("orders", spouts.memory("at string", [("2024-01-01T06:00:00Z",)]))
bolt = AggregateBolt(n=count()).with_tumbling_window("1m").with_timestamp_extractor(when)
builder.set_bolt("n", bolt).global_grouping("orders")
topology = builder.build()
"""


def test_check_ends_with_1_and_what_the_extractor_prints_is_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("shop.py").write_text(FILE)
    done = CliRunner().invoke(app, ["check", "shop.py:topology"], env={"COLUMNS": "200"})
    assert done.exit_code == 1
    assert f"why: KeyError: 'att'; did you mean 'at'? (there are at) at {tmp_path}/shop.py:8, in when" in done.stdout
    assert "asked" not in done.stdout
    assert "asked" in done.stderr


@pytest.mark.parametrize("value", [1.5, Fraction(3, 2), Decimal(1500), np.float32(1.5), pa.scalar(1.5), True, 1j])
def test_a_number_that_is_no_whole_number_is_no_time(value: Any) -> None:
    """Cut to a whole number, it would be a time of January 1970."""
    bolt = AggregateBolt(n=count()).with_tumbling_window("1m").with_timestamp_extractor(lambda event: value)
    with pytest.raises(BoltError, match=r"returned .* event times are timestamps, dates, or whole numbers"):
        run_bolt(bolt, [(1,)], "n long")


@pytest.mark.parametrize(
    "value", [60_000, np.int16(1000), pa.scalar(1000), pa.scalar(datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC))]
)
def test_whole_numbers_and_moments_of_any_package_are_times(value: Any) -> None:
    bolt = AggregateBolt(end=window_end()).with_tumbling_window("1m").with_timestamp_extractor(lambda event: value)
    assert [row["end"].minute for row in run_bolt(bolt, [(1,)], "n long").rows] == [1]
