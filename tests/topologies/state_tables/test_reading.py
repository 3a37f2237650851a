"""What a checkpoint holds is read as tables: by task, key, time and batch, in Python and by the command, in a store."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from policies import QueuedEvent, TriggerContext, TriggerPolicy
from servers.s3 import S3
from tests.helpers.places import ROOT
from topologies.checkpoints.state_tables import bolts, read
from topologies.checkpoints.why import why
from topologies.cli.app import app
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, Count, StatefulWindowedBolt, TupleWindow, WindowedBolt, WindowJoin
from windowing.aggregates import count
from windowing.errors import CheckpointError, ConfigError
from windowing.settings.kinds import Session
from windowing.settings.panes import Panes, after_count
from windowing.settings.triggers import FireResult, RuleTrigger, TriggerCall

NOON = 1_714_564_800_000_000  # 2024-05-01T12:00:00Z
MINUTE = 60_000_000
SCHEMA = "ts timestamp, user string, task long"
Row = tuple[float, str, int]
BATCHES: list[list[Row]] = [[(1, "ada", 5), (2, "bob", 6)], [(3, "ada", 7), (9, "eve", 8)]]


class Visits(StatefulWindowedBolt):
    """A stateful bolt."""

    outputs = "user string, visits long"
    state_types = {"windows": int, "users": dict, "last": "user string, task long"}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        self.state["windows"] += 1
        users = [str(user) for user in window.column("user").tolist()]
        for user in users:
            self.state["users"][user] = self.state["users"].get(user, 0) + 1
        self.state["last"] = window.table.select(["user", "task"])
        return users[0], len(window)


class Counting(WindowedBolt):
    """How many events there are."""

    outputs = "n long"

    def execute(self, window: TupleWindow) -> Any:
        """A row."""
        return (len(window),)


def visits() -> WindowedBolt:
    return Visits().with_tumbling_window("2m").with_key("user").with_timestamp_field("ts")


def sessions() -> WindowedBolt:
    return Visits().with_window(Session("20m")).with_key("user").with_timestamp_field("ts")


def ruled() -> WindowedBolt:
    return Visits().with_key("user").with_trigger(RuleTrigger(summed))


def paned(bolt: WindowedBolt | None = None) -> WindowedBolt:
    panes = Panes(early=after_count(1), mode="retracting")
    return (bolt or Visits()).with_tumbling_window("1h").with_key("user").with_timestamp_field("ts").with_trigger(panes)


def topology(folder: str, bolt: WindowedBolt, tasks: int = 2, second: bool = False) -> Topology:
    builder = TopologyBuilder("shop")
    builder.set_spout("orders", spouts.files(f"{folder}/in/*.jsonl", SCHEMA, files_per_batch=1))
    builder.set_bolt("visits", bolt, tasks).fields_grouping("orders", "user")
    if second:
        builder.set_bolt("others", AggregateBolt(n=count()).with_tumbling_window("1h")).global_grouping("visits")
    builder.set_sink("out", sinks.memory()).from_("visits")
    return builder.build()


def ran(folder: Path, bolt: WindowedBolt, checkpoint: str = "", *, second: bool = False, keep_open: bool = True) -> str:
    """The checkpoint of a run of two batches."""
    (folder / "in").mkdir(parents=True, exist_ok=True)
    for number, rows in enumerate(BATCHES):
        lines = [{"ts": (NOON + round(at * MINUTE)) // 1000, "user": user, "task": task} for at, user, task in rows]
        (folder / "in" / f"{number}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    checkpoint = checkpoint or str(folder / "ck")
    options = RunOptions(checkpoint, keep_open=keep_open, clock=lambda: NOON)
    run_local(topology(str(folder), bolt, second=second), options)
    return checkpoint


def test_the_tables_of_a_stateful_bolt(tmp_path: Path) -> None:
    found = read(ran(tmp_path, visits()))
    assert (found.bolt, found.batch, found.clock) == ("visits", "1", NOON)
    values = found.to_pandas("state").set_index(["name", "task"])["value"]
    assert sum(int(value) for value in values["windows"]) == 3
    assert {user for value in values["users"] for user in json.loads(value)} == {"ada", "bob"}
    assert set(found["state.last"].column_names) == {"task", "user", "state.task"}
    windows = found.to_pandas("windows")
    assert windows[["user", "events"]].to_numpy().tolist() == [["eve", 1]]
    assert str(windows["end"][0]) == "2024-05-01 12:10:00+00:00"
    assert found["events"].column("event.task").to_pylist() == [8]
    assert "windows: 1" in repr(found)


def test_an_earlier_batch_that_is_kept(tmp_path: Path) -> None:
    checkpoint = ran(tmp_path, sessions(), keep_open=False)
    assert read(checkpoint).batch == "1-close"
    assert read(checkpoint)["windows"].num_rows == 0
    before = read(checkpoint, batch=0)
    assert before.batch == "0"
    assert sorted(before["windows"]["user"].to_pylist()) == ["ada", "bob"]
    assert bolts(checkpoint, batch="0").column("received").to_pylist() == [2]
    with pytest.raises(CheckpointError, match="does not have batch 7") as missing:
        read(checkpoint, batch=7)
    assert "kept are 0, 1, 1-close" in missing.value.why
    with pytest.raises(ConfigError, match="batch 'last'"):
        read(checkpoint, batch="last")


@pytest.mark.parametrize(
    ("wanted", "users"),
    [
        ({}, ["ada", "ada", "bob", "eve"]),
        ({"key": "ada"}, ["ada", "ada"]),
        ({"since": "2024-05-01T12:02:00Z", "until": "2024-05-01T12:09:00Z"}, ["ada", "bob"]),
        ({"key": "eve", "until": "2024-05-01T12:09:00Z"}, []),
    ],
)
def test_only_some_rows(wanted: dict[str, Any], users: list[str], tmp_path: Path) -> None:
    checkpoint = ran(tmp_path, sessions())
    assert sorted(read(checkpoint, **wanted)["events"]["user"].to_pylist()) == users
    by_task = [read(checkpoint, task=task, **wanted)["events"]["user"].to_pylist() for task in (0, 1)]
    assert sorted(by_task[0] + by_task[1]) == users


def test_several_bolts(tmp_path: Path) -> None:
    checkpoint = ran(tmp_path, visits(), second=True)
    assert bolts(checkpoint).column("bolt").to_pylist() == ["visits", "others"]
    with pytest.raises(ConfigError, match="which bolt") as which:
        read(checkpoint)
    assert "visits, others" in which.value.why
    sums = read(checkpoint, "others")
    assert sum(sums["events"].column("events").to_pylist()) == 3
    assert sums["windows"].column("events").to_pylist() == [3]
    with pytest.raises(ConfigError, match="did you mean 'others'"):
        read(checkpoint, "other")
    with pytest.raises(ConfigError, match="has no task 2"):
        read(checkpoint, "visits", task=2)
    with pytest.raises(ConfigError, match="since='noon'"):
        read(checkpoint, "visits", since="noon")


def summed(event: Any, call: TriggerCall) -> FireResult:
    """A rule with a cache."""
    call.cache["sum"] = call.cache.get("sum", 0) + event["task"]
    return FireResult.CONTINUE


def test_caches_of_a_rule(tmp_path: Path) -> None:
    found = read(ran(tmp_path, ruled()))
    caches = dict(zip(found["keys"]["user"].to_pylist(), found["keys"]["cache"].to_pylist(), strict=True))
    assert caches == {"ada": '{"sum": 12}', "bob": '{"sum": 6}', "eve": '{"sum": 8}'}
    assert sorted(found["windows"]["events"].to_pylist()) == [1, 1, 2]
    assert read(tmp_path / "ck", key="bob")["keys"]["cache"].to_pylist() == ['{"sum": 6}']


def test_a_window_that_a_firing_has_closed_is_not_open(tmp_path: Path) -> None:
    closing = Panes(early=after_count(1), closes=True)
    bolt = Visits().with_tumbling_window("1h").with_key("user").with_timestamp_field("ts").with_trigger(closing)
    assert read(ran(tmp_path, bolt))["windows"].num_rows == 0


def test_firings_and_rows_that_may_be_retracted(tmp_path: Path) -> None:
    found = read(ran(tmp_path, paned()))
    fired = dict(zip(found["windows"]["user"].to_pylist(), found["windows"]["firings"].to_pylist(), strict=True))
    assert fired == {"ada": 2, "bob": 1, "eve": 1}
    assert sorted(found["retractable.default"]["user"].to_pylist()) == ["ada", "bob", "eve"]
    without_state = read(ran(tmp_path / "sums", paned(AggregateBolt("user", n=count()))))
    assert set(found.tables) - set(without_state.tables) == {"state", "state.last"}


def told(*args: str) -> Any:
    done = CliRunner().invoke(app, ["state", *args])
    assert done.exit_code == 0, done.output
    return done.output


def test_the_command(tmp_path: Path) -> None:
    checkpoint = ran(tmp_path, visits())
    assert "visits  2" in told(checkpoint)
    assert json.loads(told(checkpoint, "--json"))["bolts"][0]["pending"] == 1
    text = told(checkpoint, "visits")
    for words in ("visits after batch 1", "windows: 1 row", "2024-05-01T12:10:00Z", "state.last"):
        assert words in text
    assert "and 1 more (--rows, --to)" in told(checkpoint, "visits", "--table", "events", "--rows", "0")
    got = json.loads(told(checkpoint, "visits", "--table", "windows", "--json"))
    assert got["tables"] == read(checkpoint).only("windows").to_json()["tables"]
    told(checkpoint, "visits", "--to", str(tmp_path / "tables"))
    assert pq.read_table(tmp_path / "tables" / "events.parquet").column("user").to_pylist() == ["eve"]
    for wrong in (["--table", "windows"], ["visits", "--table", "window"], ["visits", "--format", "csv"]):
        assert CliRunner().invoke(app, ["state", checkpoint, *wrong]).exit_code == 2


def test_nothing_is_changed_and_a_run_may_hold_the_checkpoint(tmp_path: Path) -> None:
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint

    checkpoint = ran(tmp_path, visits())
    halves = PairedCheckpoint(checkpoint)
    halves.lock.take()
    before = {path: path.read_bytes() for path in Path(checkpoint).rglob("*") if path.is_file()}
    assert read(checkpoint)["windows"].num_rows == 1
    assert {path: path.read_bytes() for path in Path(checkpoint).rglob("*") if path.is_file()} == before
    halves.lock.release()


def test_of_a_checkpoint_in_an_object_store(store: S3, tmp_path: Path) -> None:
    there = ran(tmp_path / "a", visits(), store.uri("ck"))
    here = ran(tmp_path / "b", visits())
    tables, others = read(there).tables, read(here).tables
    assert list(tables) == list(others)
    for name, table in tables.items():
        assert table.equals(others[name]), name
    written = read(there).write(store.uri("tables"))
    assert "tables/windows.parquet" in store.names()
    assert len(written) == len(tables)


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(), pa.uint64(), pa.large_string(), pa.timestamp("ms"), pa.timestamp("ns", "UTC"),
        pa.timestamp("us", "Europe/Berlin"), pa.dictionary(pa.int32(), pa.string()), pa.decimal256(50, 2),
        pa.large_list(pa.uint8()), pa.struct([("a", pa.list_(pa.binary(4))), ("b", pa.int8())]), pa.duration("us"),
        pa.json_(), pa.uuid(), pa.month_day_nano_interval(), pa.float16(), pa.time32("s"), pa.string_view(),
    ],
    ids=str,
)  # fmt: skip
def test_columns_of_types_that_only_arrow_has_a_name_for(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("v", kind), ("`odd` n", pa.int64()), ("", pa.int8()), ("ts", pa.timestamp("us", "UTC"))])
    for number, rows in enumerate([[], [{"v": None, "`odd` n": 1, "": 7, "ts": NOON + 1}]]):
        builder = TopologyBuilder("typed")
        builder.set_spout("in", spouts.memory(schema, pa.Table.from_pylist(rows, schema)))
        bolt = Counting().with_tumbling_window("1m").with_key("v").with_timestamp_field("ts")
        builder.set_bolt("n", bolt).fields_grouping("in", "v")
        builder.set_sink("out", sinks.memory()).from_("n")
        checkpoint = str(tmp_path / str(number))
        run_local(builder.build(), RunOptions(checkpoint, keep_open=True))
        found = read(checkpoint)
        assert found["events"].num_rows == found["windows"].num_rows == len(rows)
        assert {"v", "`odd` n", ""} < set(found["events"].column_names)
        shown = found.to_json()["tables"]["events"]
        assert json.loads(json.dumps(shown)) == shown
        if rows:
            assert found["events"].column("v").type == kind
            assert [(row["v"], row["`odd` n"], row[""]) for row in shown] == [(None, 1, 7)]


@pytest.mark.parametrize(
    "kind", [pa.timestamp("us", "UTC"), pa.timestamp("ns"), pa.timestamp("s", "Europe/Berlin")], ids=str
)
def test_a_key_that_is_a_time_is_named_in_iso_8601(kind: pa.DataType, tmp_path: Path) -> None:
    schema = pa.schema([("day", kind), ("of", pa.string()), ("ts", pa.timestamp("us", "UTC"))])
    days = pa.array([NOON, NOON + MINUTE, None], pa.timestamp("us", kind.tz)).cast(kind)
    rows = pa.Table.from_arrays(
        [days, pa.array(["a", "b", "c"]), pa.array([NOON + 1] * 3, schema.field("ts").type)], schema=schema
    )
    builder = TopologyBuilder("days")
    builder.set_spout("in", spouts.memory(schema, rows))
    for name, key in (("one", ["day"]), ("two", ["of", "day"])):
        bolt = Counting().with_tumbling_window("1m").with_key(*key).with_timestamp_field("ts")
        builder.set_bolt(name, bolt).fields_grouping("in", *key)
        builder.set_sink(f"out-{name}", sinks.memory()).from_(name)
    run_local(builder.build(), RunOptions(str(tmp_path), keep_open=True))
    for text in ("2024-05-01T12:01:00Z", "2024-05-01T14:01:00+02:00", "2024-05-01 12:01:00+00:00"):
        assert read(tmp_path, "one", key=text)["events"].column("of").to_pylist() == ["b"], text
        assert read(tmp_path, "two", key=f"b,{text}")["windows"].num_rows == 1, text
        assert why(tmp_path, "one", key=text).waiting == 1, text
    assert read(tmp_path, "one", key="None")["events"].column("of").to_pylist() == ["c"]
    assert read(tmp_path, "one", key="2024-05-01T12:02:00Z")["events"].num_rows == 0


def test_a_key_that_is_true_or_false_is_named_as_it_is_shown(tmp_path: Path) -> None:
    builder = TopologyBuilder("flags")
    builder.set_spout(
        "in", spouts.memory("new boolean, ts timestamp", [(True, NOON + 1), (False, NOON + 1), (None, NOON + 1)])
    )
    bolt = Counting().with_tumbling_window("1m").with_key("new").with_timestamp_field("ts")
    builder.set_bolt("n", bolt).fields_grouping("in", "new")
    builder.set_sink("out", sinks.memory()).from_("n")
    run_local(builder.build(), RunOptions(str(tmp_path), keep_open=True))
    for text, value in (("true", True), ("True", True), ("false", False), ("None", None)):
        assert read(tmp_path, key=text)["events"].column("new").to_pylist() == [value], text


def test_a_state_with_a_slash_in_its_name_is_a_file_of_the_folder(tmp_path: Path) -> None:
    found = read(ran(tmp_path / "a", visits()))
    named = replace(found, tables={"state.per/user": found["state.last"]})
    (written,) = named.write(tmp_path / "tables", "csv")
    assert written == str(tmp_path / "tables" / "state.per%2Fuser.csv")
    assert Path(written).is_file()


def test_before_the_first_batch(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    run_local(topology(str(tmp_path), visits()), RunOptions(str(tmp_path / "ck"), keep_open=True))
    found = read(tmp_path / "ck")
    assert (found.batch, dict(found.tables)) == (None, {})
    assert bolts(tmp_path / "ck").num_rows == 0
    assert "No batch has been committed." in told(str(tmp_path / "ck"), "visits")
    assert isinstance(bolts(tmp_path / "ck"), pa.Table)


def test_of_a_join_an_event_has_the_key_of_its_input(tmp_path: Path) -> None:
    """An auction has an id too, which is not its key."""
    builder = TopologyBuilder("sales")
    persons = [(NOON + MINUTE, "x"), (NOON + MINUTE, "z")]
    auctions = [(NOON + 2 * MINUTE, "x9", "x"), (NOON + 2 * MINUTE, "x", "z")]
    builder.set_spout("persons", spouts.memory("ts timestamp, id string", persons))
    builder.set_spout("auctions", spouts.memory("ts timestamp, id string, seller string", auctions))
    join = WindowJoin("persons", "auctions", on={"persons": "id", "auctions": "seller"})
    bolt = builder.set_bolt("sold", join.with_tumbling_window("10m").with_timestamp_field("ts"))
    bolt.fields_grouping("persons").fields_grouping("auctions")
    builder.set_sink("out", sinks.memory()).from_("sold")
    run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=True, clock=lambda: NOON))
    events = read(tmp_path / "ck", "sold", key="x").tables["events"].to_pylist()
    assert [(row["input"], row["id"], row["seller"]) for row in events] == [
        ("persons", "x", None), ("auctions", "x9", "x")
    ]  # fmt: skip


@pytest.mark.parametrize("table", ["tasks", "watermarks", "events", "windows", "keys", "policies"])
def test_the_page_names_each_column(table: str, tmp_path: Path) -> None:
    class Firing(TriggerPolicy):
        def track(self, event: QueuedEvent, context: TriggerContext) -> bool:
            return False

    builder = TopologyBuilder("columns")
    builder.set_spout("in", spouts.memory("user string, ts timestamp", [("ada", 1)]))
    bolt = AggregateBolt(n=count()).with_timestamp_field("ts").with_key("user").with_policies(trigger=Firing())
    builder.set_bolt("b", bolt.with_window(Count(3))).fields_grouping("in", "user")
    builder.set_sink("out", sinks.memory()).from_("b")
    run_local(builder.build(), RunOptions(str(tmp_path), keep_open=True))
    (line,) = re.findall(rf"^\| `{table}` .*$", (ROOT / "docs/checkpoints.md").read_text("utf-8"), re.MULTILINE)
    columns = set(read(str(tmp_path), "b")[table].column_names) - {"user", "ts"}
    assert not {name for name in columns if f"`{name}`" not in line}
