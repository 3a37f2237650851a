"""``state.repair`` as users call it: what is corrected, what is refused and how that is said, and where it works."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from servers.s3 import S3
from tests.helpers.deaths import deaths
from tests.helpers.examples import share
from tests.simulation.disk import Disk
from topologies.checkpoints.going_back import inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from windbolt import (
    CheckpointError,
    ConfigError,
    DataError,
    RunOptions,
    Topology,
    TopologyBuilder,
    WindowedBolt,
    aggregates,
    run_local,
    sinks,
    spouts,
    state,
)
from windowing import AggregateBolt, Count
from windowing.settings.kinds import CountByStart, Hopping, Session, SlidingLog, Snapshot
from windowing.settings.panes import Panes, after_count
from windowing.settings.triggers import FireResult, RuleTrigger

SCHEMA = "user string, price double, pieces long, note string, input string, ts timestamp, until timestamp"


class Total(WindowedBolt):
    """What each window comes to."""

    outputs = "users string, events long, total double, pieces long"

    def execute(self, window: Any) -> Any:
        """A row."""
        users = ",".join(sorted({user or "" for user in window.column("user")}))
        return (
            users,
            len(window),
            float(sum(window.column("price"))),
            sum(each or 0 for each in window.table["pieces"].to_pylist()),
        )


def in_windows(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_tumbling_window("10s").with_key("user").with_timestamp_field("ts").with_lag("2s")


def shop(folder: Path, bolt: WindowedBolt | None = None) -> tuple[Topology, Any]:
    builder, sink = TopologyBuilder("shop"), sinks.memory()
    builder.set_spout("orders", spouts.files(folder / "in", SCHEMA, format="jsonl"))
    builder.set_bolt("revenue", bolt or in_windows(Total()), 2).fields_grouping("orders", "user")
    builder.set_sink("out", sink).from_("revenue")
    return builder.build(), sink


def order(user: str, price: float, second: float, pieces: int | None = 1, note: str = "") -> dict[str, Any]:
    moment = datetime.fromtimestamp(1_700_000_000 + second, UTC).isoformat()
    return {"user": user, "price": price, "pieces": pieces, "note": note, "input": "web", "ts": moment}


FIRST = [
    order("ann", 1.0, 1), order("test", 2.0, 3), order("ann", 4_000.0, 13, 9_007_199_254_740_993),
    order("bob", 8.0, 14, None), order("test", 16.0, 15),
]  # fmt: skip
SECOND = [order("ann", 32.0, 16), order("bob", 64.0, 25)]


def write(folder: Path, name: str, orders: list[dict[str, Any]]) -> None:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / name).write_text("\n".join(map(json.dumps, orders)))


def begun(folder: Path, bolt: WindowedBolt | None = None, orders: list[dict[str, Any]] = FIRST) -> str:
    """A checkpoint with the first orders: of the windows from 10 s on none has fired."""
    write(folder, "1.jsonl", orders)
    run_local(shop(folder, bolt)[0], RunOptions(str(folder / "ck"), keep_open=True))
    return str(folder / "ck")


def go_on(folder: Path, checkpoint: str, bolt: WindowedBolt | None = None) -> list[tuple[Any, ...]]:
    write(folder, "2.jsonl", SECOND)
    topology, sink = shop(folder, bolt)
    run_local(topology, RunOptions(checkpoint))
    return sorted(tuple(row.values()) for row in sink.rows)


def account(checkpoint: str) -> dict[str, Any]:
    (row,) = state.bolts(checkpoint).to_pylist()
    return row


AS_THEY_CAME = [
    ("ann", 2, 4_032.0, 9_007_199_254_740_994), ("bob", 1, 8.0, 0), ("bob", 1, 64.0, 1), ("test", 1, 16.0, 1)
]  # fmt: skip


def test_values_are_corrected_and_events_left_out(tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    found = state.read(checkpoint, "revenue").to_pandas("events")
    found.loc[found.price > 1000, "price"] /= 100
    table = state.repair(checkpoint, target, {"revenue": found}, without={"revenue": found[found.user == "test"]})
    assert account(target) == table.to_pylist()[0]
    before = account(checkpoint)
    assert account(target) == {**before, "purged": 1, "pending": before["pending"] - 1}
    assert inspect(PairedCheckpoint(target)).damage == []
    assert go_on(tmp_path, target) == [("ann", 2, 72.0, 9_007_199_254_740_994), ("bob", 1, 8.0, 0), ("bob", 1, 64.0, 1)]
    assert go_on(tmp_path, checkpoint) == AS_THEY_CAME, "the checkpoint is as it was"


def test_a_session_that_ends_earlier_without_an_event_fires_then(tmp_path: Path) -> None:
    bolt = Total().with_window(Session("10s")).with_key("user").with_timestamp_field("ts").with_lag("3s")
    checkpoint = begun(tmp_path, bolt, [order("ann", 1.0, 0), order("ann", 2.0, 6), order("bob", 4.0, 7)])
    found = state.read(checkpoint, "revenue").to_pandas("events")
    target = str(tmp_path / "repaired")
    state.repair(checkpoint, target, {}, without={"revenue": found[found.price == 2.0]})
    rows = list[dict[str, Any]]()
    for number, second in enumerate([12.5, 14.5, 15, 16, 17], 2):
        write(tmp_path, f"{number}.jsonl", [order("bob", 8.0, second)])
        topology, sink = shop(tmp_path, bolt)
        run_local(topology, RunOptions(target, keep_open=True))
        rows += sink.rows
    assert rows == [{"users": "ann", "events": 1, "total": 1.0, "pieces": 1}]
    assert account(target)["unwindowed"] == 0


@pytest.mark.parametrize("kind", ["table", "frame", "dicts", "json"])
def test_rows_of_each_kind_are_those_that_were_read(kind: str, tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    found = state.read(checkpoint, "revenue")
    events = found["events"]
    given = {
        "table": events, "frame": events.to_pandas(), "dicts": events.to_pylist(),
        "json": found.to_json()["tables"]["events"],
    }[kind]  # fmt: skip
    state.repair(checkpoint, target, {"revenue": given})
    assert state.read(target, "revenue")["events"] == events
    assert go_on(tmp_path, target) == AS_THEY_CAME


@pytest.mark.parametrize("chosen", [{"key": "ann"}, {"task": 0}, {"task": 1}, {"since": "2023-11-14T22:13:34Z"}])
def test_what_was_not_read_stays(chosen: dict[str, Any], tmp_path: Path) -> None:
    """Of those that were read one is taken out, where there is one."""
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    every, some = state.read(checkpoint, "revenue")["events"], state.read(checkpoint, "revenue", **chosen)["events"]
    assert some.num_rows < every.num_rows
    rows = some.to_pylist()
    assert all(row in every.to_pylist() for row in rows), "a row has the number that it has among all"
    state.repair(checkpoint, target, {"revenue": some}, without={"revenue": some.slice(0, 1)})
    left = state.read(target, "revenue")["events"].drop_columns(["row"]).to_pylist()
    assert left == [
        {name: value for name, value in row.items() if name != "row"}
        for row in every.to_pylist()
        if row not in rows[:1]
    ]


@pytest.mark.parametrize("kind", ["table", "frame", "dicts"])
def test_no_rows_change_nothing(kind: str, tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    events = state.read(checkpoint, "revenue", key="nobody")["events"]
    none = {"table": events, "frame": events.to_pandas(), "dicts": []}[kind]
    state.repair(checkpoint, target, {"revenue": none}, without={"revenue": none})
    assert state.read(target, "revenue")["events"] == state.read(checkpoint, "revenue")["events"]


def test_columns_that_are_missing_stay_and_names_that_are_windbolts_too(tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    rows = state.read(checkpoint, "revenue")["events"]
    assert "event.input" in rows.column_names
    some = rows.select(["task", "row", "input", "time"])
    some = some.append_column("event.input", pa.array(["phone"] * some.num_rows))
    state.repair(checkpoint, target, {"revenue": some})
    after = state.read(target, "revenue")["events"]
    assert set(after["event.input"].to_pylist()) == {"phone"}
    assert after.drop_columns(["event.input"]) == rows.drop_columns(["event.input"])


def test_nulls_and_whole_numbers_of_pandas(tmp_path: Path) -> None:
    """pandas has whole numbers with nulls as floats, which do not hold all of them: what was not changed is kept."""
    checkpoint, target = begun(tmp_path), str(tmp_path / "repaired")
    found = state.read(checkpoint, "revenue").to_pandas()
    assert found["pieces"].dtype == float
    found.loc[found.user == "bob", "pieces"] = 7
    found.loc[found.user == "test", "pieces"] = None
    state.repair(checkpoint, target, {"revenue": found})
    pieces = state.read(target, "revenue")["events"].to_pylist()
    assert {row["user"]: row["pieces"] for row in pieces} == {"ann": 9_007_199_254_740_993, "bob": 7, "test": None}


def first_row(checkpoint: str, **values: Any) -> list[dict[str, Any]]:
    return [{**state.read(checkpoint, "revenue")["events"].to_pylist()[0], **values}]


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"user": "eve"}, r"row 0 of task \d of bolt 'revenue' has eve in 'user', and is stored with", "where the event"),
    ({"ts": "2024-01-01T00:00:00Z"}, "in 'ts', and is stored with", "where the event belongs, or when"),
    ({"time": "2024-01-01T00:00:00Z"}, "in 'time', and is stored with", "time is windbolt's own"),
    ({"pending": 0}, "has 0 in 'pending', and is stored with 1", "pending is windbolt's own"),
    ({"input": "others"}, "has others in 'input'", "input is windbolt's own"),
    ({"row": 77}, r"stores no row 77 of task \d", "numbered from 0"),
    ({"task": 7}, "stores no row 0 of task 7", "it has 2 tasks"),
    ({"row": None}, "the column 'row' of the events for bolt 'revenue' does not number each row", "there are nulls"),
    ({"row": 0.5}, "the column 'row' of the events for bolt 'revenue' does not number each row", "0.5"),
    ({"pieces": 1.5}, "cannot have 1.5 in 'pieces'", "the column is int64"),
    ({"price": "much"}, "cannot have 'much' in 'price'", "the column is double"),
    ({"prices": 1.0}, "have no column 'prices'; did you mean 'price'", "they have task, row"),
]


@pytest.mark.parametrize(("values", "what", "why"), REFUSED)
def test_rows_that_are_refused(values: dict[str, Any], what: str, why: str, tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), tmp_path / "repaired"
    with pytest.raises(DataError, match=what) as held:
        state.repair(checkpoint, target, {"revenue": first_row(checkpoint, **values)})
    assert why in held.value.why
    assert held.value.do
    with pytest.raises(DataError, match=what):
        state.repair(checkpoint, target, {}, without={"revenue": first_row(checkpoint, **values)})
    assert not target.exists(), "nothing was written"


def test_calls_that_are_refused(tmp_path: Path) -> None:
    checkpoint, target = begun(tmp_path), tmp_path / "repaired"
    row = first_row(checkpoint)
    with pytest.raises(ConfigError, match="there is no windowed bolt 'revenu'; did you mean"):
        state.repair(checkpoint, target, {"revenu": row})
    with pytest.raises(ConfigError, match="has nothing to be repaired"):
        state.repair(checkpoint, target, {})
    with pytest.raises(DataError, match="have no column 'task', 'row', 'input', 'time'"):
        state.repair(checkpoint, target, {"revenue": pa.table({"price": [1.0]})})
    with pytest.raises(DataError, match="are list"):
        state.repair(checkpoint, target, {"revenue": [("ann", 1.0)]})
    with pytest.raises(DataError, match=r"row 0 of task \d of bolt 'revenue' is given twice"):
        state.repair(checkpoint, target, {"revenue": [*row, *row]})
    with pytest.raises(DataError, match="some have 'note', and some have not"):
        state.repair(checkpoint, target, {"revenue": [*row, {k: v for k, v in row[0].items() if k != "note"}]})
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        state.repair(tmp_path / "none", target, {"revenue": row})
    with pytest.raises(CheckpointError, match="cannot be in"):
        state.repair(checkpoint, tmp_path / "ck/repaired", {"revenue": row})
    running = PairedCheckpoint(checkpoint)
    running.lock.take()
    with pytest.raises(CheckpointError, match="is in use by process"):
        state.repair(checkpoint, target, {"revenue": row})
    running.lock.release()
    assert not target.exists(), "nothing was written"
    state.repair(checkpoint, target, {"revenue": row})
    with pytest.raises(CheckpointError, match="cannot be taken in"):
        state.repair(checkpoint, target, {"revenue": row})


def test_rows_of_an_earlier_batch_are_refused(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path)
    found = state.read(checkpoint, "revenue")["events"]
    write(tmp_path, "2.jsonl", SECOND)
    run_local(shop(tmp_path)[0], RunOptions(checkpoint, keep_open=True))
    with pytest.raises(DataError, match=r"stores no row|is stored with"):
        state.repair(checkpoint, tmp_path / "repaired", {"revenue": found})


def test_sums_are_refused(tmp_path: Path) -> None:
    bolt = AggregateBolt(by="user", revenue=aggregates.sum("price"))
    bolt = bolt.with_tumbling_window("10s").with_timestamp_field("ts").with_lag("2s")
    checkpoint = begun(tmp_path, bolt)
    rows = state.read(checkpoint, "revenue")["events"]
    with pytest.raises(ConfigError, match="the events of bolt 'revenue' cannot be repaired"):
        state.repair(checkpoint, tmp_path / "repaired", {"revenue": rows})


def of_user(checkpoint: str, user: str, place: int = 0) -> list[dict[str, Any]]:
    """One of the stored events of a user, in order of time."""
    rows = [row for row in state.read(checkpoint, "revenue")["events"].to_pylist() if row["user"] == user]
    return sorted(rows, key=lambda row: row["time"])[place:][:1]


def by_price(event: Any, call: Any) -> Any:
    call.cache["sum"] = call.cache.get("sum", 0.0) + event["price"]
    return FireResult.CONTINUE


EARLY = [order("ann", 1.0, 1), order("ann", 2.0, 4), order("ann", 4.0, 7.5), order("bob", 8.0, 9)]
NOT_TAKEN_OUT: dict[str, tuple[WindowedBolt, list[dict[str, Any]], int, str]] = {
    "counts": (Total().with_window(3).with_timestamp_field("ts").with_lag("2s"), EARLY, 0, "count, or choose among"),
    "counts of a key": (
        Total().with_window(3, 2).with_key("user").with_timestamp_field("ts").with_lag("1s"), EARLY, 1, "windows count"
    ),
    "a session that breaks": (
        Total().with_window(Session("4s")).with_key("user").with_timestamp_field("ts").with_lag("2s"),
        EARLY, 1, "without it a window has ended that has not fired",
    ),
    "a session that breaks, beside other windows": (
        Total().with_window(Hopping("2s", "2s"), Session("4s")).with_key("user").with_timestamp_field("ts")
        .with_lag("2s"), EARLY, 1, "without it a window has ended that has not fired",
    ),
    "a run of start times, beside a log that holds its first event": (
        Total().with_window(SlidingLog("9s"), CountByStart(2)).with_key("user").with_timestamp_field("ts")
        .with_lag("1s"), [order("ann", 1.0, 2), order("ann", 2.0, 5), order("bob", 8.0, 9)], 1,
        "a window that has fired would have another end, and would hold row",
    ),
    "what ended the last snapshot": (
        Total().with_window(Snapshot()).with_key("user").with_timestamp_field("ts").with_lag("2s")
        .with_lifetime("until").with_alignment(bounds="[start, end)"), EARLY, 1,
        "would begin before the end of one that has fired",
    ),
    "a rule": (
        Total().with_key("user").with_trigger(RuleTrigger(by_price)), EARLY, 0, "what a rule has made of its events"
    ),
    "panes": (
        in_windows(Total()).with_trigger(Panes(early=after_count(1))), [order("ann", 1.0, 3), order("bob", 1.0, 4)], 0,
        "what was shown could not be taken back",
    ),
    "panes that need so many events": (
        in_windows(Total()).with_trigger(Panes(early=after_count(1), at_end=2)),
        [order("ann", 1.0, 3), order("ann", 1.0, 4), order("bob", 1.0, 4)], 0, "too few are left in a window",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", NOT_TAKEN_OUT)
def test_what_cannot_be_taken_out_can_have_other_values(kind: str, tmp_path: Path) -> None:
    bolt, orders, place, why = NOT_TAKEN_OUT[kind]
    checkpoint, target = begun(tmp_path, bolt, orders), tmp_path / "repaired"
    row = of_user(checkpoint, "ann", place)
    with pytest.raises(DataError, match=r"row \d of task \d of bolt 'revenue' cannot be taken out") as held:
        state.repair(checkpoint, target, {}, without={"revenue": row})
    assert why in held.value.why
    state.repair(checkpoint, target, {"revenue": [{**row[0], "price": 512.0}]})
    assert of_user(str(target), "ann", place) == [{**row[0], "price": 512.0}]


class Moves(WindowedBolt):
    """What is in each window, what has come, and what has gone."""

    outputs = "there string, new string, expired string"

    def execute(self, window: Any) -> Any:
        """A row."""
        return tuple(",".join(table["note"].to_pylist()) for table in (window.table, window.new, window.expired))


@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_event_that_has_been_in_a_window_just_goes(place: int, tmp_path: Path) -> None:
    """The others are where they were, and go on as in a run that never had it."""
    bolt = Moves().with_window("20s", "10s").with_timestamp_field("ts").with_lag("2s")
    orders = [order("ann", 1.0, second, note=f"at {second}") for second in (1, 3, 7, 13, 14, 15)]
    checkpoint, target = begun(tmp_path, bolt, orders), str(tmp_path / "repaired")
    row = of_user(checkpoint, "ann", place)
    assert row[0]["pending"] == 0
    state.repair(checkpoint, target, {}, without={"revenue": row})
    before, after = account(checkpoint), account(target)
    assert (after["purged"], after["pending"], after["windowed"]) == (0, before["pending"], before["windowed"])
    (tmp_path / "never").mkdir()
    never = begun(tmp_path / "never", bolt, [each for each in orders if each["note"] != row[0]["note"]])
    wanted = go_on(tmp_path / "never", never, bolt)
    assert go_on(tmp_path, target, bolt) == wanted
    assert any(expired for _, _, expired in wanted)
    assert account(target)["pending"] == 0


def test_events_that_are_kept_until_they_are_told_as_expired(tmp_path: Path) -> None:
    """They lie beside those of the open window of their key, in one section."""
    bolt = in_windows(Moves())
    orders = [order("ann", 1.0, second, note=f"at {second}") for second in (1, 3, 13, 14, 15)]
    checkpoint, target = begun(tmp_path, bolt, orders), str(tmp_path / "repaired")
    (gone, *_), (one,), (other,) = (of_user(checkpoint, "ann", place) for place in (0, 2, 3))
    assert (gone["pending"], one["pending"]) == (0, 1)
    state.repair(checkpoint, target, {"revenue": [{**one, "note": "new"}]}, without={"revenue": [gone, other]})
    assert ("new,at 15,", "new,at 15,", "at 3") in go_on(tmp_path, target, bolt)
    assert account(target)["pending"] == 0


def test_every_event_of_a_window_of_counts_that_no_time_has_reached(tmp_path: Path) -> None:
    bolt = Total().with_window(Count(2), Count(2)).with_timestamp_field("ts").with_lag("30s")
    checkpoint, target = begun(tmp_path, bolt), str(tmp_path / "repaired")
    state.repair(checkpoint, target, {}, without={"revenue": of_user(checkpoint, "test")})
    assert account(target)["purged"] == 1


@pytest.mark.extended
def test_between_this_machine_and_an_object_store(tmp_path: Path, store: S3) -> None:
    checkpoint = begun(tmp_path)
    place, again = store.uri("repaired"), store.uri("again")
    state.repair(checkpoint, place, {"revenue": [{**of_user(checkpoint, "test")[0], "price": 1.5}]})
    run_local(shop(tmp_path)[0], RunOptions(place, keep_open=True))
    state.repair(place, again, {}, without={"revenue": of_user(place, "test")})
    back = str(tmp_path / "back")
    state.repair(again, back, {"revenue": [{**of_user(again, "ann")[0], "price": 0.5}]})
    names = [path.name for path in (tmp_path / "back/windbolt/segments").rglob("*.arrow")]
    assert names
    assert not any("-" in name for name in names), "no name has the claim of a run in it"
    wanted = [("ann", 2, 32.5, 9_007_199_254_740_994), ("bob", 1, 8.0, 0), ("bob", 1, 64.0, 1)]
    assert go_on(tmp_path, back) == wanted


def test_a_death_at_any_moment_leaves_what_is_refused_and_the_next_attempt_starts_over(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path)
    change = {"revenue": [{**of_user(checkpoint, "ann")[0], "price": 40.0}]}
    without = {"revenue": of_user(checkpoint, "test")}
    disk = Disk(str(tmp_path / "disk"), random.Random(1))
    refused = 0
    with disk.mounted():
        target = f"{disk.data}/repaired"
        for _ in deaths(disk, lambda: state.repair(checkpoint, target, change, without=without)):
            disk.before = lambda operation, path: None
            disk.start()
            halves = PairedCheckpoint(target)
            note = halves.documents.read("savepoint")
            if note is not None and note["complete"]:
                break  # it dies before it has synced the name of this note
            if note is not None:
                refused += 1
                with pytest.raises(CheckpointError, match="is a savepoint that is not complete") as held:
                    run_local(shop(tmp_path)[0], RunOptions(target))
                assert "windbolt.state.repair once more" in held.value.do
            else:
                assert not halves.documents.names("manifests")
        assert refused > share(20)
        assert go_on(tmp_path, target) == [
            ("ann", 2, 72.0, 9_007_199_254_740_994), ("bob", 1, 8.0, 0), ("bob", 1, 64.0, 1)
        ]  # fmt: skip
    assert account(checkpoint)["purged"] == 0


def test_a_repaired_savepoint_is_a_checkpoint_in_every_respect(tmp_path: Path) -> None:
    checkpoint = begun(tmp_path)
    state.repair(checkpoint, tmp_path / "one", {}, without={"revenue": of_user(checkpoint, "test")})
    shutil.rmtree(checkpoint)
    once = str(tmp_path / "one")
    state.repair(once, tmp_path / "two", {"revenue": [{**of_user(once, "ann")[0], "price": 4.0}]})
    assert go_on(tmp_path, str(tmp_path / "two"))[0] == ("ann", 2, 36.0, 9_007_199_254_740_994)


# ---- windows that have fired and may fire again


def firing_again(kind: str) -> WindowedBolt:
    windows: Any = Session("4s") if kind == "sessions" else "10s"
    bolt = Total().with_window(windows) if kind == "sessions" else Total().with_tumbling_window(windows)
    bolt = bolt.with_key("user").with_timestamp_field("ts").with_lag("2s").with_lateness(by="window", allowed="15s")
    return bolt.with_trigger(Panes(early=after_count(2), late=True, mode="retracting"))


def expected(kind: str, orders: list[dict[str, Any]]) -> Counter[Any]:
    """What each window comes to in the end."""
    windows: dict[Any, list[dict[str, Any]]] = {}
    for each in sorted(orders, key=lambda each: (each["user"], each["ts"])):
        second = (datetime.fromisoformat(each["ts"]) - datetime.fromtimestamp(1_700_000_000, UTC)).total_seconds()
        if kind == "sessions":
            last = [key for key in windows if key[0] == each["user"]][-1:]
            goes_on = bool(last) and second - last[0][1] < 4
            found = windows.pop(last[0]) if goes_on else []
            windows[each["user"], second] = [*found, each]
        else:
            windows.setdefault((each["user"], -(-second // 10)), []).append(each)
    return Counter(
        (user, len(found), sum(each["price"] for each in found), sum(each["pieces"] for each in found))
        for (user, _), found in windows.items()
    )


@pytest.mark.parametrize("kind", ["tumbling", "sessions"])
def test_what_stands_of_a_window_that_may_fire_again_is_corrected(kind: str, tmp_path: Path) -> None:
    """In the next batch, whatever comes in it; and in the end all is as if the input had been so."""
    corrected = 0
    for seed in range(share(10, least=2)):
        chance, folder = random.Random(f"{kind} {seed}"), tmp_path / f"{kind}{seed}"
        folder.mkdir()
        seconds = sorted(chance.sample(range(60), 30))
        orders = [order(chance.choice("ab"), float(chance.randint(1, 9)), second) for second in seconds]
        standing = Counter[Any]()

        def run(number: int, rows: list[dict[str, Any]], to: str, *, last: bool = False) -> None:
            write(folder, f"{number}.jsonl", rows)  # noqa: B023
            topology, sink = shop(folder, firing_again(kind))  # noqa: B023
            run_local(topology, RunOptions(to, keep_open=not last))
            for row in sink.rows:
                taken_back = row.pop("_retract")
                shown = tuple(row.values())
                assert standing[shown] or not taken_back  # noqa: B023
                standing[shown] += -1 if taken_back else 1  # noqa: B023

        checkpoint, target = str(folder / "ck"), str(folder / "repaired")
        for number in range(0, 15, 3):
            run(number, orders[number : number + 3], checkpoint)
        shown = state.read(checkpoint, "revenue")
        found = shown["events"].to_pylist()
        row, other = chance.sample(found, 2)
        with suppress(DataError):  # it is the last event of a window that has fired
            state.repair(checkpoint, target, {"revenue": [{**other, "price": 100.0}]}, without={"revenue": [row]})
        if not Path(target).exists():
            continue
        corrected += 1
        times = {each["ts"]: datetime.fromisoformat(each["ts"]) for each in orders}
        orders = [
            {**each, "price": 100.0} if times[each["ts"]] == other["time"] else each
            for each in orders if times[each["ts"]] != row["time"]
        ]  # fmt: skip
        before = dict(standing)
        run(15, [order("z", 1.0, seconds[14])], target)
        for window in shown["windows"].to_pylist():
            holds = window["user"] == other["user"] and window["start"] < other["time"] < window["end"]
            if holds and window["firings"]:
                assert {key for key in standing if key[0] == other["user"] and standing[key] != before.get(key, 0)}
        for number in range(14, len(orders), 3):
            run(number + 16, orders[number : number + 3], target)
        run(99, [order("z", 1.0, 80)], target, last=True)
        left = Counter({key: count for key, count in standing.items() if count and key[0] != "z"})
        assert left == expected(kind, orders), (kind, seed)
    assert corrected
