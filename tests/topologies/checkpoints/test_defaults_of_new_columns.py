"""New columns with a default: the events that the checkpoint keeps have it, as if they had come with it."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from manager.storage.segment_files import FileSegments
from tests.helpers.examples import sampled
from tests.topologies.checkpoints.test_new_columns import (
    AFTER,
    BEFORE,
    BOLTS,
    MIXED,
    Seen,
    refusing,
    rows,
    topology,
    write,
)
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.topology_fit import differences
from topologies.cli.app import app
from topologies.graph.bolt_rules import TopologyRules
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts, state
from windowing.errors import StorageError

DEFAULTS = {"note": "none", "discount": 0.5}


def stored(folder: Path, column: str) -> set[Any]:
    """The values of a column in the events that the checkpoint keeps."""
    return set(state.read(folder / "ck", "seen").to_pandas()[column])


@pytest.mark.parametrize("kind", sampled(BOLTS, 4))
def test_the_rows_are_those_of_input_in_which_it_was_written_out(kind: str, tmp_path: Path) -> None:
    bolt, other = BOLTS[kind], tmp_path / "other"
    other.mkdir()
    for number in (0, 1):
        write(tmp_path, number)
        write(other, number, **DEFAULTS)
    topology(tmp_path, "first", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    topology(other, "first", AFTER, bolt()).run(other / "ck", engine="local", keep_open=True)
    for folder in (tmp_path, other):
        write(folder, 2)
    ended = topology(tmp_path, "out", AFTER, bolt(), defaults=DEFAULTS).run(tmp_path / "ck", engine="local")
    assert ended.new_columns == {"seen": ["note", "discount"]}
    assert ended.new_column_defaults == {"seen": {"note": "'none'", "discount": "0.5"}}
    assert ended.to_json()["new_column_defaults"] == ended.new_column_defaults
    topology(other, "out", AFTER, bolt()).run(other / "ck", engine="local")
    found, expected = rows(tmp_path / "out"), rows(other / "out")
    if kind == "triggers":  # whose windows begin and end by the clock
        found, expected = (sorted(json.loads(row)["rows"] for row in lines) for lines in (found, expected))
    assert found == expected != []
    assert any("none" in line and "n7" in line for line in found) or kind not in MIXED


def test_a_default_that_is_changed_later_leaves_stored_events_as_they_are(tmp_path: Path) -> None:
    bolt = BOLTS["sessions"]
    write(tmp_path, 0)
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    topology(tmp_path, "out", AFTER, bolt(), defaults=DEFAULTS).run(tmp_path / "ck", engine="local", keep_open=True)
    assert stored(tmp_path, "note") == {"none"}
    later = topology(tmp_path, "out", AFTER, bolt(), defaults={"note": "another"})
    ended = later.run(tmp_path / "ck", engine="local", keep_open=True)
    assert (ended.new_columns, ended.new_column_defaults) == ({}, {})
    assert stored(tmp_path, "note") == {"none"}
    write(tmp_path, 1)
    later.run(tmp_path / "ck", engine="local", keep_open=True)
    assert "another" in stored(tmp_path, "note")


def test_no_checkpoint_depends_on_them(tmp_path: Path) -> None:
    with_defaults, without = (
        topology(tmp_path, "out", AFTER, BOLTS["tumbling"](), **options) for options in ({"defaults": DEFAULTS}, {})
    )
    assert differences(TopologyRules.of(with_defaults), TopologyRules.of(without)) == []
    write(tmp_path, 0)
    for number, each in enumerate((without, with_defaults, without), start=1):
        each.run(tmp_path / "ck", engine="local", keep_open=True)
        write(tmp_path, number)


@pytest.mark.parametrize("again", ["none", "another", None], ids=["the same", "another", "no default"])
@pytest.mark.parametrize("when", ["while it is written", "before it is noted"])
def test_whoever_dies_meanwhile_leaves_it_whole(when: str, again: str | None, tmp_path: Path) -> None:
    """The run that completes it decides: no window has seen the default of the one that died."""
    bolt = BOLTS["sessions"]
    write(tmp_path, 0)
    topology(tmp_path, "out", BEFORE, bolt()).run(tmp_path / "ck", engine="local", keep_open=True)
    known = PairedCheckpoint(str(tmp_path / "ck")).documents
    failing: AbstractContextManager[Any] = patch.object(type(known), "write", refusing(type(known).write))
    if when == "while it is written":
        failing = patch.object(FileSegments, "writer", side_effect=StorageError("the disk is full"))
    with failing, pytest.raises(StorageError):
        topology(tmp_path, "out", AFTER, bolt(), defaults={"note": "none"}).run(tmp_path / "ck", engine="local")
    defaults = {} if again is None else {"note": again}
    ended = topology(tmp_path, "out", AFTER, bolt(), defaults=defaults).run(
        tmp_path / "ck", engine="local", keep_open=True
    )
    assert ended.new_column_defaults == {"seen": {} if again is None else {"note": repr(again)}}
    assert stored(tmp_path, "note") == {again}


@pytest.mark.parametrize("of_others", ["other", None], ids=["another default", "no such column"])
def test_each_event_has_the_default_of_the_spout_that_it_came_from(of_others: str | None, tmp_path: Path) -> None:
    def two(*, new: bool) -> Topology:
        builder = TopologyBuilder("shop")
        note, defaults = (", note string" if new else ""), ({"note": "order"} if new else {})
        builder.set_spout("orders", spouts.files(tmp_path / "orders" / "*.jsonl", f"{BEFORE}{note}", defaults=defaults))
        if of_others is None:
            note, defaults = "", {}
        others = dict.fromkeys(defaults, of_others)
        builder.set_spout("others", spouts.files(tmp_path / "others" / "*.jsonl", f"{BEFORE}{note}", defaults=others))
        bolt = Noted().with_window("1h", "1h").with_timestamp_field("ts")
        builder.set_bolt("seen", bolt).fields_grouping("orders", "user").fields_grouping("others", "user")
        builder.set_sink("out", sinks.files(tmp_path / "out", format="jsonl")).from_("seen")
        return builder.build()

    for name in ("orders", "others"):
        (tmp_path / name).mkdir()
        lines = [{"id": f"{name}-{at}", "user": f"u{at}", "ts": _moment(at)} for at in range(6)]
        (tmp_path / name / "0.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    two(new=False).run(tmp_path / "ck", engine="local", keep_open=True)
    ended = two(new=True).run(tmp_path / "ck", engine="local")
    words = "'order' (orders), 'other' (others)" if of_others else "'order' (orders), null (others)"
    assert ended.new_column_defaults == {"seen": {"note": words}}
    (line,) = rows(tmp_path / "out")
    noted = dict(json.loads(json.loads(line)["rows"]))
    assert noted == {f"orders-{at}": "order" for at in range(6)} | {f"others-{at}": of_others for at in range(6)}


class Noted(Seen):
    """The note of each event."""

    def execute(self, window: Any) -> Any:
        noted = [[row["id"], row.get("note")] for row in window.table.to_pylist()]
        return window.start, window.end, json.dumps(noted)


def _moment(at: int) -> str:
    return (datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=1 + at)).isoformat()


SOURCE = """
from windbolt import TopologyBuilder, TupleWindow, WindowedBolt, sinks, spouts


class Seen(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


builder = TopologyBuilder("shop")
builder.set_spout("orders", spouts.files("in/*.jsonl", "user string, ts timestamp{columns}", defaults={defaults}))
builder.set_bolt("revenue", Seen().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("orders")
builder.set_sink("out", sinks.discard()).from_("revenue")
topology = builder.build()
"""


@pytest.mark.parametrize(
    ("columns", "defaults", "said"),
    [
        (", currency string", {"currency": "EUR"}, "'EUR' in currency, which is new"),
        (", note string", {}, "nulls in note, which is new"),
        (
            ", currency string, note string, more long",
            {"currency": "EUR"},
            "'EUR' in currency and nulls in note, more, which are new",
        ),
    ],
    ids=["a default", "none", "both"],
)
def test_the_run_says_what_they_have(
    columns: str, defaults: dict[str, Any], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, 0)
    for name, texts in (("before", ("", {})), ("after", (columns, defaults))):
        (tmp_path / f"shop_{name}.py").write_text(SOURCE.format(columns=texts[0], defaults=texts[1]))
        arguments = ["run", f"shop_{name}.py:topology", "--checkpoint", "ck", "--engine", "local", "--keep-open"]
        ran = CliRunner().invoke(app, arguments)
        assert ran.exit_code == 0, ran.output
    assert f"revenue: events from before have {said}\n" in ran.output
