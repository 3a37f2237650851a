"""Data and messages that would steer a terminal, a spreadsheet or the reporting itself."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from tests.topologies.spark.test_pool import context, load, topology
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.cli.consoles import in_words
from topologies.io.formats import file_format, write_table
from topologies.io.formats.event_files import FileSplit
from topologies.spark.workers.processes import WorkerPool
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, Bolt, ConfigError, StatefulWindowedBolt, WindboltError, WindowedBolt
from windowing.aggregates import first, last
from windowing.aggregates import max as most
from windowing.aggregates import min as least
from windowing.errors import BoltError
from windowing.reprs import error_text, printable, shorten

NASTY = "\x1b[2Jgone\r\nfaked: line\x9b31m \u202eevil \ud800 [red]markup[/red]"
SHOWN = "\\x1b[2Jgone\\r\\nfaked: line\\x9b31m \\u202eevil \\ud800 [red]markup[/red]"


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


def failure(how: str) -> Exception:
    match how:
        case "long":
            return ValueError("x" * 50_000_000)
        case "nasty":
            return ValueError(NASTY)
    return Unspeakable()


class Failing(Bolt):
    outputs = "number long"

    def __init__(self, how: str) -> None:
        self.how = how

    def execute(self, row: Any) -> Any:
        raise failure(self.how)


class Emitting(Bolt):
    outputs = "text string"

    def execute(self, row: Any) -> Any:
        return {"text": "half a \ud800"}


WAYS = pytest.mark.parametrize(
    ("how", "said"),
    [
        ("long", r"ValueError: x{1000,2000}\.\.\. \(50,000,012 characters\)"),
        ("nasty", r"ValueError: \\x1b\[2Jgone\\r\nfaked: line\\x9b31m \\u202eevil \\ud800"),
        ("unspeakable", r"Unspeakable: \(it cannot say what it is: RuntimeError in its __str__\)"),
    ],
)


def built(bolt: Bolt, sink: Any = None) -> Any:
    builder = TopologyBuilder("hostile")
    builder.set_spout("numbers", spouts.memory("number long", [(1,)]))
    builder.set_bolt("bolt", bolt).shuffle_grouping("numbers")
    builder.set_sink("out", sink or sinks.discard()).from_("bolt")
    return builder.build()


@WAYS
def test_an_exception_is_told_with_its_bolt_and_cut(how: str, said: str) -> None:
    with pytest.raises(BoltError, match=rf"(?s)bolt 'bolt' failed .*{said}") as caught:
        run_local(built(Failing(how)))
    assert len(str(caught.value)) < 5_000
    in_words(caught.value).plain.encode()


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    started = WorkerPool(1)
    yield started
    started.close()


@WAYS
def test_an_exception_comes_back_from_a_worker(pool: WorkerPool, how: str, said: str) -> None:
    load(pool, topology())
    for kind in (raise_as_bolt, raise_bare):
        with pytest.raises(WindboltError, match=rf"(?s){said}") as caught:
            pool.map(kind, [how], context())
        assert len(str(caught.value)) < 5_000
        str(caught.value).encode()
        assert len(str(caught.value.__cause__)) < 300_000


def raise_as_bolt(how: str, context: Any) -> None:
    run_local(built(Failing(how)))


def raise_bare(how: str, context: Any) -> None:
    raise failure(how)


def test_half_a_character_that_a_bolt_emits_is_its_error() -> None:
    with pytest.raises(BoltError, match="bolt 'bolt' failed") as caught:
        run_local(built(Emitting()))
    in_words(caught.value).plain.encode()


def test_text_that_is_shown_steers_nothing() -> None:
    assert printable(NASTY) == SHOWN
    assert printable("Zürich\t東京\n", keep="\t\n") == "Zürich\t東京\n"
    assert shorten("abcdef", 3) == "abc... (6 characters)"
    assert error_text(KeyError("a")) == "KeyError: 'a'"


class Saying(Bolt):
    outputs = "text string, more array<string>"

    def execute(self, row: Any) -> Any:
        return {"text": NASTY.replace("\ud800", ""), "more": ["\x1b[1m"]}


def test_the_console_sink_shows_a_row_as_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    run_local(built(Saying(), sinks.console()))
    _title, first, second = capsys.readouterr().out.splitlines()
    assert first == "   text=" + SHOWN.replace("\\ud800", "")
    assert second == "     more=['\\x1b[1m']"


def test_errors_on_the_command_line_steer_nothing() -> None:
    text = in_words(WindboltError(f"what {NASTY}", why=f"why {NASTY}", do=f"do {NASTY}")).plain
    assert not any(character in text for character in "\x1b\r\x9b\u202e\ud800")
    assert "[red]markup[/red]" in text


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\uff1d1"]
HARMLESS = ["a=1", "", None, " 1", "'=1", '"=1', "5-3"]


def csv_of(table: pa.Table, **options: Any) -> tuple[str, list[Any]]:
    local = pafs.LocalFileSystem()
    path = os.path.join(options.pop("folder"), "a.csv")
    csv = file_format("csv", **options)
    write_table(local, path, table, csv)
    chunks = list(csv.read(local, FileSplit(path), table.schema))
    return Path(path).read_text("utf-8"), [value for rows, _, _ in chunks for value in rows.column(0).to_pylist()]


def test_csv_sinks_can_escape_formulas(tmp_path: Path) -> None:
    table = pa.table({"text": [*FORMULAS, *HARMLESS], "number": [-1.5] * 14})
    _, read = csv_of(table, folder=str(tmp_path), escape_formulas=True)
    assert read == [f"'{text}" for text in FORMULAS] + HARMLESS
    text, read = csv_of(table, folder=str(tmp_path))
    assert read == [*FORMULAS, *HARMLESS]
    assert "-1.5" in text
    csv = file_format("csv", escape_formulas=True)
    write_table(pafs.LocalFileSystem(), f"{tmp_path}/b.csv", pa.table({"=cmd()": ["a"]}), csv)
    assert (tmp_path / "b.csv").read_text("utf-8").startswith('"\'=cmd()"')


def test_escaping_formulas_is_for_sinks() -> None:
    with pytest.raises(ConfigError, match="escape_formulas"):
        spouts.files("in/*.csv", schema="a string", escape_formulas=True)


DAY = datetime(2024, 5, 1, tzinfo=UTC)


class Meddling(WindowedBolt):
    outputs = "refused long"

    def execute(self, window: Any) -> Any:
        refused = 0
        for array in (
            window.timestamps,
            window.lifetime_ends,
            window.column("number"),
            window.source.timestamps(range(1)),
        ):
            try:
                array[0] = 7
            except ValueError:
                refused += 1
        return {"refused": refused}


def test_a_bolt_cannot_write_to_the_queue() -> None:
    sink = sinks.memory()
    builder = TopologyBuilder("meddling")
    builder.set_spout("numbers", spouts.memory("number long, ts timestamp", [(1, DAY), (2, DAY + timedelta(days=1))]))
    bolt = Meddling().with_tumbling_window("1h").with_timestamp_field("ts")
    builder.set_bolt("meddling", bolt).global_grouping("numbers")
    builder.set_sink("out", sink).from_("meddling")
    run_local(builder.build())
    assert [row["refused"] for row in sink.rows] == [4, 4]


def test_a_checkpoint_is_its_owners_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        halves = PairedCheckpoint(str(tmp_path / "ck"))
        halves.lock.take()
        open_checkpoint(halves, topology())
        halves.lock.release()
    finally:
        os.umask(before)
    for folder in ("windbolt", "spark"):
        assert stat.S_IMODE((tmp_path / "ck" / folder).stat().st_mode) == 0o700


def test_all_files_of_a_checkpoint_are_their_owners_alone(tmp_path: Path) -> None:
    """Those that Spark writes too, where windbolt writes them for it; a copy of the folder may have other modes."""
    builder = TopologyBuilder("private")
    builder.set_spout("numbers", spouts.memory("number long, ts timestamp", [(1, DAY), (2, DAY + timedelta(days=1))]))
    bolt = Meddling().with_window("48h", "1h").with_timestamp_field("ts")
    builder.set_bolt("meddling", bolt).global_grouping("numbers")
    builder.set_sink("out", sinks.files(tmp_path / "out", format="csv")).from_("meddling")
    before = os.umask(0o022)
    try:
        run_local(builder.build(), RunOptions(checkpoint=str(tmp_path / "ck")))
    finally:
        os.umask(before)
    modes = {
        str(file.relative_to(tmp_path)): stat.S_IMODE(file.stat().st_mode)
        for file in (tmp_path / "ck").rglob("*")
        if file.is_file() and file.name != ".lock"
    }
    assert any(name.endswith(".arrow") for name in modes)
    assert any(name.startswith("ck/spark/") for name in modes)
    assert {name: mode for name, mode in modes.items() if mode != 0o600} == {}


class Plain(Bolt):
    outputs = "number long"

    def execute(self, row: Any) -> Any:
        return {"number": 1}


def test_files_of_sinks_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        run_local(built(Plain(), sinks.files(tmp_path / "out", format="csv")))
    finally:
        os.umask(before)
    (file,) = (tmp_path / "out").glob("batch-*")
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("format", ["csv", "jsonl", "parquet", "arrow"])
def test_minus_zero_stays(tmp_path: Path, format: str) -> None:
    local, path = pafs.LocalFileSystem(), str(tmp_path / f"a.{format}")
    table = pa.table({"number": pa.array([-0.0, 0.0, -1.0]), "small": pa.array([-0.0, 0.0, 1.0], pa.float32())})
    write_table(local, path, table, format)
    (chunk,) = file_format(format).read(local, FileSplit(path), table.schema)
    for name in table.column_names:
        signs = np.signbit(chunk[0].column(name).to_numpy())
        assert signs.tolist() == np.signbit(table.column(name).to_numpy()).tolist()


class Remembering(StatefulWindowedBolt):
    outputs = "kept double, key double"
    state_types: ClassVar[dict[str, Any]] = {"kept": float}

    def execute(self, window: Any) -> Any:
        self.state["kept"] = -0.0
        return {"kept": self.state["kept"], "key": window.key}


@pytest.mark.parametrize(
    ("bolt", "signed"),
    [
        (Remembering().with_key("value"), ["kept", "key"]),
        (
            AggregateBolt(first=first("value"), last=last("value"), min=least("value"), max=most("value")),
            ["first", "last", "min", "max"],
        ),
    ],
    ids=["state and key", "aggregates"],
)
def test_minus_zero_stays_in_windows(bolt: WindowedBolt, signed: list[str]) -> None:
    sink = sinks.memory()
    builder = TopologyBuilder("zero")
    builder.set_spout("values", spouts.memory("value double, ts timestamp", [(-0.0, DAY)]))
    builder.set_bolt("zero", bolt.with_tumbling_window("1h").with_timestamp_field("ts")).global_grouping("values")
    builder.set_sink("out", sink).from_("zero")
    run_local(builder.build())
    (row,) = sink.rows
    assert [str(row[name]) for name in signed] == ["-0.0"] * len(signed)
