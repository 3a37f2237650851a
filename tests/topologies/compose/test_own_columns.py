"""Names of columns that windbolt adds to users' rows: users' own are refused where they would meet, and only there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from manager.keyed.key_states import RECORD_COLUMNS
from manager.storage.segments import WEIGHT_COLUMN
from tests.helpers.places import ROOT
from topologies.graph.graph import (
    ERROR_SCHEMA,
    EVENT_COLUMNS,
    KEY_RECORD_COLUMNS,
    LATE_COLUMNS,
    MERGE_COLUMNS,
    REASON,
    RETRACTION_COLUMNS,
    STATE_COLUMN,
)
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windbolt.testing import run_bolt
from windowing import Bolt, Count, TopologyError, TupleWindow, WindowedBolt, presets, seconds
from windowing.settings.panes import RETRACT, Panes
from windowing.settings.triggers import CountTrigger

LATE = [field.name for field in LATE_COLUMNS]
ROWS = [("ada", 1_000, 1), ("bob", 2_000, 2), ("ada", 12_000, 3)]


class Echo(WindowedBolt):
    """Emits one number for each window, in a column of any name."""

    def __init__(self, column: str = "n") -> None:
        self.outputs = f"{column} long"  # type: ignore[misc]  # another for each

    def execute(self, window: TupleWindow) -> Any:
        return (len(window),)


def timed(bolt: WindowedBolt, key: str = "user") -> WindowedBolt:
    return bolt.with_tumbling_window("10s").with_timestamp_field("ts").with_key(key)


def retracting(column: str) -> WindowedBolt:
    bolt = Echo(column).with_time(presets.atlas("5s")).with_tumbling_window("10s").with_timestamp_field("ts")
    return bolt.with_trigger(Panes(early=1, mode="retracting"))


def by_trigger(key: str) -> WindowedBolt:
    return Echo().with_trigger(CountTrigger(Count(2), seconds(30))).with_key(key)


def run(bolt: WindowedBolt, extra: str = "extra") -> list[dict[str, Any]]:
    """What comes out of a bolt that reads a column of that name; every row is a batch."""
    builder, out = TopologyBuilder("columns"), sinks.memory()
    builder.set_spout("in", spouts.memory(f"user string, ts long, {extra} long", *([row] for row in ROWS)))
    builder.set_bolt("bolt", bolt).global_grouping("in")
    builder.set_sink("out", out).from_("bolt")
    run_local(builder.build())
    return out.rows


def refused(bolt: WindowedBolt, extra: str = "extra") -> str:
    with pytest.raises(TopologyError) as found:
        run(bolt, extra)
    (problem,) = found.value.problems
    assert problem.why
    assert "rename them" in str(problem.do)
    return str(problem)


@pytest.mark.parametrize("column", [*EVENT_COLUMNS, f"{WEIGHT_COLUMN}0"])
def test_a_windowed_bolt_cannot_read_a_column_that_is_kept_beside_its_events(column: str) -> None:
    assert f"'bolt' reads columns ['{column}']" in refused(timed(Echo()), column)


@pytest.mark.parametrize("column", ["_action", *RETRACTION_COLUMNS, RETRACT, *KEY_RECORD_COLUMNS, *LATE, REASON])
def test_it_can_read_every_other_column(column: str) -> None:
    assert [row["n"] for row in run(timed(Echo()), column)] == [1, 1, 1]
    assert [row["n"] for row in run(retracting("n"), column) if not row[RETRACT]]


@pytest.mark.parametrize("column", [RETRACT, *RETRACTION_COLUMNS])
def test_a_bolt_that_retracts_cannot_emit_a_column_that_is_kept_beside_its_rows(column: str) -> None:
    assert f"'bolt': emits columns ['{column}']" in refused(retracting(column))


@pytest.mark.parametrize("column", sorted({*EVENT_COLUMNS, *KEY_RECORD_COLUMNS, *LATE, REASON} - {*RETRACTION_COLUMNS}))
def test_it_can_emit_every_other_column(column: str) -> None:
    assert [row[column] for row in run(retracting(column)) if not row[RETRACT]]


@pytest.mark.parametrize("column", [RETRACT, *RETRACTION_COLUMNS])
def test_a_bolt_that_does_not_retract_can_emit_them(column: str) -> None:
    assert [row[column] for row in run(timed(Echo(column)))] == [1, 1, 1]


@pytest.mark.parametrize("column", KEY_RECORD_COLUMNS)
def test_the_key_of_a_trigger_cannot_be_a_column_that_is_kept_beside_it(column: str) -> None:
    assert f"a key with the columns ['{column}']" in refused(by_trigger(column), column)
    assert run(timed(Echo(), column), column)  # other bolts can have it


@pytest.mark.parametrize("column", MERGE_COLUMNS)
def test_a_spout_cannot_read_a_column_that_is_kept_beside_merged_rows(column: str) -> None:
    assert f"spout 'in' reads columns ['{column}']" in refused(timed(Echo()), column)


def literals(node: ast.AST) -> Iterator[str]:
    """The texts in a program, except for docstrings and ``__slots__``."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.value
        elif not (isinstance(child, ast.Assign) and "__slots__" in map(ast.unparse, child.targets)):
            yield from literals(child)


@pytest.mark.parametrize("folder", ["manager", "topologies/engine", "topologies/graph"])
def test_every_name_with_an_underscore_that_windbolt_gives_to_a_column_is_guarded(folder: str) -> None:
    guarded = {
        STATE_COLUMN,
        *EVENT_COLUMNS,
        *RECORD_COLUMNS,
        *RETRACTION_COLUMNS,
        *MERGE_COLUMNS,
        *LATE,
        REASON,
        RETRACT,
        WEIGHT_COLUMN,
        *ERROR_SCHEMA.names,
    }
    found: dict[str, Path] = {}
    for path in (ROOT / folder).rglob("*.py"):
        names = {text for text in literals(ast.parse(path.read_text())) if text.isidentifier()}
        # Those in capitals are librdkafka's names of errors.
        found |= {name: path for name in names if re.match("_[^_]", name) and not name.isupper()}
    assert found
    assert {name: path for name, path in found.items() if name not in guarded} == {}


class Renaming(Bolt):
    outputs = "user string, ts long, earlier string"

    def execute(self, row: Any) -> Any:
        return row["user"], row["ts"], row["_reason"]


EVENTS = [("x", 0), ("x", 30_000), ("late", 5_000), ("x", 60_000), ("later", 1_000), ("twice", 2_000)]


def twice_late(*, renamed: bool, tmp_path: Path) -> list[dict[str, Any]]:
    """Late events of a bolt that reads late events, each event in a batch."""
    builder, out = TopologyBuilder("late"), sinks.memory()
    builder.set_spout("in", spouts.memory("user string, ts long", *([event] for event in EVENTS)))
    bolt = Echo().with_tumbling_window("1s").with_timestamp_field("ts").with_late_tuple_stream("late")
    builder.set_bolt("first", bolt).global_grouping("in")
    if renamed:
        builder.set_bolt("renaming", Renaming()).global_grouping("first", stream="late")
        builder.set_bolt("second", bolt).global_grouping("renaming")
    else:
        builder.set_bolt("second", bolt).global_grouping("first", stream="late")
    builder.set_sink("out", out).from_("second", stream="late")
    builder.set_sink("files", sinks.files(tmp_path / "late", format="jsonl")).from_("second", stream="late")
    run_local(builder.build())
    return out.rows


def test_a_late_stream_of_late_events_is_refused_and_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(TopologyError) as found:
        twice_late(renamed=False, tmp_path=tmp_path)
    (problem,) = found.value.problems
    assert f"'second' reads columns {LATE}, and has a stream 'late'" in str(problem)
    assert "rename them in a bolt before it" in str(problem)


def test_with_the_columns_renamed_both_reasons_are_there(tmp_path: Path) -> None:
    rows = twice_late(renamed=True, tmp_path=tmp_path)
    assert [row["user"] for row in rows] == ["later", "twice"]
    assert all(row["earlier"] and row["_reason"] and row["_stream"] == "renaming" for row in rows)
    assert "".join(path.read_text() for path in (tmp_path / "late").rglob("*.jsonl")).count("_reason") == 2


def test_where_a_test_looks_on_late_events_have_the_columns_of_the_last_time() -> None:
    bolt = Echo().with_tumbling_window("1s").with_timestamp_field("ts")
    ran = run_bolt(bolt, [(60_000, "before"), (1_000, "before")], "ts long, _reason string", rows_per_batch=1)
    assert [(row["ts"], row["_reason"] != "before", row["_stream"]) for row in ran.late] == [(1_000, True, "input")]
