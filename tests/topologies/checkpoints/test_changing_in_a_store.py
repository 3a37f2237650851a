"""Other numbers of tasks, new columns and bolts that start over in an object store: the old state or the new one."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key
from manager.storage.sealed_files import Committed
from servers.s3 import S3
from tests.helpers.examples import sampled, share
from tests.helpers.store_changes import (
    CHANGES,
    CHANGING,
    Change,
    Interrupted,
    OfTask,
    Shop,
    begun,
    finished,
    rescaling,
    write,
)
from topologies.checkpoints.going_back import go_back, inspect, reset_bolts
from topologies.checkpoints.rescale import move_tasks
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import read
from topologies.checkpoints.topology_fit import check_fit, stored_task_counts
from windowing.errors import CheckpointError, ConfigError, TakenOver

RESCALE, _, RESET, _ = CHANGES


@pytest.mark.extended
def test_the_rows_are_those_of_a_run_that_always_had_so_many_tasks(store: S3, tmp_path: Path) -> None:
    found: dict[str, dict[str, list[str]]] = {}
    for name, tasks in {"moved": (2, 5, 3), "five": (5, 5, 5), "three": (3, 3, 3)}.items():
        shop = Shop(store, name, tmp_path / name)
        shop.folder.mkdir()
        for part, number in enumerate(tasks):
            write(shop.folder, 2 * part)
            write(shop.folder, 2 * part + 1)
            if part and name == "moved":
                assert move_tasks(shop.halves, {"seen": number}).tasks == {"seen": (tasks[part - 1], number)}
            shop.run(shop.built(number, bolt=OfTask), keep_open=part != 2)
        found[name] = shop.rows_by_file()
    assert found["five"] != found["three"]
    for batch, name in {2: "five", 3: "five", 4: "three", 5: "three"}.items():
        assert of_batch(found["moved"], batch) == of_batch(found[name], batch) != []


def of_batch(files: dict[str, list[str]], batch: int) -> list[str]:
    return sorted(row for name, rows in files.items() if name.startswith(f"{batch:010d}") for row in rows)


@pytest.mark.parametrize("change", sampled(CHANGES, 4, lambda each: each.name, first=3))
def test_it_gives_the_rows_that_it_gives_on_this_machine(store: S3, change: Change, tmp_path: Path) -> None:
    shops = [Shop(store, f"there-{change.name}", tmp_path / "a"), Here(store, f"here-{change.name}", tmp_path / "b")]
    for shop in shops:
        begun(shop, change)
        change.make(shop)
        shop.run(change.after(shop))
    for bolt in ("seen", "rest"):
        assert shops[0].rows(bolt) == shops[1].rows(bolt) != []


class Here(Shop):
    """The checkpoint is in a folder of this machine."""

    @property
    def checkpoint(self) -> str:
        return str(self.folder / "ck")


@pytest.mark.parametrize("change", sampled(CHANGES, 4, lambda each: each.name, first=1))
def test_whoever_dies_leaves_the_old_state_or_the_new_one(empty_store: S3, change: Change, tmp_path: Path) -> None:
    """Before operations that change something; then a run goes on at once, or the change is made again first."""
    shop = Shop(empty_store, "shop", tmp_path / "in")
    begun(shop, change)
    empty_store.keep()
    assert not finished(shop, change)
    old = shop.rows("seen"), shop.rows("rest")
    empty_store.restore()
    change.make(shop)
    shop.run(change.after(shop))
    new = shop.rows("seen"), shop.rows("rest")
    came = set()
    for at in itertools.count(1, 4):
        empty_store.restore()
        if not died(shop, change, at):
            break
        if at % 3 == 0:
            change.make(shop)
        is_new = finished(shop, change)
        assert is_new or at % 3, "it was done again"
        assert (shop.rows("seen"), shop.rows("rest")) == (new if is_new else old), at
        came.add(is_new)
    assert at > 5
    assert came == {False, True}


class Dies(BaseException):
    """The end of a process."""


def died(shop: Shop, change: Change, at: int) -> bool:
    """Whether it came to the n-th operation; a run is not followed further than to its first batch."""

    def dies() -> None:
        raise Dies

    def begins(before: object) -> None:
        interrupted.at = 0

    interrupted = Interrupted(at, dies)
    try:
        with interrupted:
            change.make(shop, begins)
    except Dies:
        return True
    return False


@pytest.mark.extended
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.name)
def test_a_run_in_progress_stops_and_another_goes_on(empty_store: S3, change: Change, tmp_path: Path) -> None:
    """The change comes before some operation of the run, which then has lost the checkpoint or has ended."""
    shop = Shop(empty_store, "shop", tmp_path / "in")
    begun(shop, change)
    empty_store.keep()
    with Interrupted(0, lambda: None) as counted:
        shop.run(change.before(shop), keep_open=True)
    lost = 0
    for at in sorted(random.Random(change.name).sample(range(1, counted.seen + 1), share(8, 3))):
        empty_store.restore()
        with Interrupted(at, lambda: change.make(shop)):
            error = error_of(lambda: shop.run(change.before(shop), keep_open=True))
        lost += isinstance(error, TakenOver)
        assert error is None or told(error), error
        assert finished(shop, change), at
        assert accounts(shop) == {"seen": 75, "rest": 75}, at
        if change is not RESET:  # whose rows depend on when it came
            assert ids(shop.rows("seen")) == ids(shop.rows("rest")), at
    assert lost


def error_of(action: Callable[[], object]) -> CheckpointError | None:
    try:
        action()
    except CheckpointError as error:
        return error
    return None


def told(error: CheckpointError) -> bool:
    """Whether it was stopped by another, or came after it: and says so, and whether somebody goes on."""
    said = "start again" if "(windbolt re" in error.what else "let that run continue"
    taken = isinstance(error, TakenOver) and "has been taken over by process" in error.what
    taken = taken and (error.do or "").startswith(said)
    return taken or "belongs to another topology" in error.what


def accounts(shop: Shop) -> dict[str, int]:
    """How many events the bolts have had, each of which has come to an end."""
    found = {}
    for name in ("seen", "rest"):
        table = read(shop.checkpoint, name)["accounts"]
        assert sum(table["pending"].to_pylist()) == 0
        found[name] = sum(table["received"].to_pylist())
    return found


def ids(rows: list[str]) -> list[str]:
    return sorted(each[0] for row in rows for each in json.loads(json.loads(row)["events"]))


def run_before(shop: Shop) -> object:
    return shop.run(shop.built(2), keep_open=True)


OTHERS = {"a command": rescaling(3), "a run": run_before}


@pytest.mark.extended
@pytest.mark.parametrize("other", OTHERS)
def test_another_comes_before_any_operation_of_a_command(empty_store: S3, other: str, tmp_path: Path) -> None:
    shop = Shop(empty_store, "shop", tmp_path / "in")
    begun(shop, RESCALE)
    empty_store.keep()
    every = (*CHANGING, "read_object")
    with Interrupted(0, lambda: None, every) as counted:
        rescaling(5)(shop)
    stopped = 0
    for at in sorted(random.Random(other).sample(range(1, counted.seen + 1), share(10, 4))):
        empty_store.restore()
        with Interrupted(at, lambda: error_of(lambda: OTHERS[other](shop)), every):
            error = error_of(lambda: rescaling(5)(shop))
        tasks = stored_task_counts(shop.halves)["seen"]
        if error is not None:
            assert told(error), error
            stopped += 1
            assert tasks == (3 if other == "a command" else 2), at
        goes_on(shop, tasks)
    assert stopped >= share(2)


def goes_on(shop: Shop, tasks: int) -> None:
    """All that was read is in one window, as if nobody had met."""
    assert tasks in (2, 3, 5)
    shop.run(shop.built(tasks))
    assert accounts(shop) == {"seen": 75, "rest": 75}
    assert ids(shop.rows("seen")) == ids(shop.rows("rest"))


RACES = int(os.environ.get("WINDBOLT_CHANGE_RACES", share(3)))
"""How many races of each kind are run."""


@pytest.mark.extended
@pytest.mark.parametrize("other", OTHERS)
def test_races(store: S3, other: str, tmp_path: Path) -> None:
    for number in range(RACES):
        shop = Shop(store, f"race-{other[2:]}-{number}", tmp_path / str(number))
        begun(shop, RESCALE)
        chance, ended = random.Random(number), list[CheckpointError | None]()

        def tried(act: Callable[[Shop], object], shop: Shop = shop, ended: list[Any] = ended) -> None:
            ended.append(error_of(lambda: act(shop)))

        threads = [threading.Thread(target=tried, args=[each]) for each in (rescaling(5), OTHERS[other])]
        chance.shuffle(threads)
        threads[0].start()
        time.sleep(chance.random() * 0.2)
        threads[1].start()
        for thread in threads:
            thread.join()
        assert None in ended, ended
        assert all(error is None or told(error) for error in ended), ended
        goes_on(shop, stored_task_counts(shop.halves)["seen"])


@pytest.fixture
def committed(store: S3, request: pytest.FixtureRequest, tmp_path: Path) -> Shop:
    """Bolts have been reset by a process that died behind the turn, before it wrote any copy."""
    shop = Shop(store, request.node.name, tmp_path / "in")
    begun(shop, RESET)

    def dying(ours: FileCheckpoint, committed: Committed) -> None:
        if committed.notes:
            raise Dies

    with patch.object(FileCheckpoint, "_copy", dying), pytest.raises(Dies):
        RESET.make(shop)
    return shop


def test_what_the_turn_has_counts_for_those_who_look(committed: Shop) -> None:
    assert read(committed.checkpoint, "seen")["events"].num_rows == 0
    assert read(committed.checkpoint, "rest")["events"].num_rows > 0
    with pytest.raises(CheckpointError, match="belongs to another topology"):
        check_fit(committed.halves, RESET.before(committed))
    check_fit(committed.halves, RESET.after(committed))
    assert [batch.name for batch in inspect(committed.halves).batches] == ["1"]


def test_it_cannot_go_back_behind_what_stands_alone(committed: Shop) -> None:
    with pytest.raises(CheckpointError, match=r"cannot go back to batch 0.*kept are 1"):
        go_back(committed.halves, batch_key(0, False))
    go_back(committed.halves, batch_key(1, False))
    assert finished(committed, RESET)
    assert accounts(committed) == {"seen": 75, "rest": 75}


def test_a_savepoint_has_what_the_turn_has(committed: Shop, tmp_path: Path) -> None:
    take_savepoint(committed.halves, str(tmp_path / "ck"))
    write(tmp_path / "in", 3)
    assert read(str(tmp_path / "ck"), "seen")["events"].num_rows == 0
    saved = Saved(committed.store, f"{committed.name}/saved", committed.folder)
    saved.run(RESET.after(saved))
    assert accounts(saved) == {"seen": 100, "rest": 100}


class Saved(Shop):
    """Runs on the savepoint."""

    @property
    def checkpoint(self) -> str:
        return str(self.folder.parent / "ck")


def test_copies_that_somebody_writes_later_who_has_lost_change_nothing(empty_store: S3, tmp_path: Path) -> None:
    shop = Shop(empty_store, "shop", tmp_path / "in")
    begun(shop, RESET)
    names = ("manifests/0000000000", "manifests/0000000001", "topology")
    old = {name: empty_store.body(f"shop/ck/windbolt/{name}.json") for name in names}
    RESET.make(shop)
    for name, body in old.items():
        empty_store.put(f"shop/ck/windbolt/{name}.json", body)
    with pytest.raises(CheckpointError, match="cannot go back to batch 0"):
        go_back(shop.halves, batch_key(0, False))
    assert finished(shop, RESET)
    assert accounts(shop) == {"seen": 75, "rest": 75}


def test_a_batch_that_was_planned_goes_on_with_the_new_tasks(store: S3, tmp_path: Path) -> None:
    shop = Shop(store, "planned", tmp_path / "in")
    begun(shop, RESCALE)
    with patch.object(FileCheckpoint, "commit", side_effect=Dies), pytest.raises(Dies):
        shop.run(shop.built(2))
    plan = batch_key(2, False)
    assert shop.halves.documents.has(f"plans/{plan}")
    rescaling(5)(shop)
    shop.run(shop.built(5))
    assert accounts(shop) == {"seen": 75, "rest": 75}
    assert ids(shop.rows("seen")) == ids(shop.rows("rest"))


@pytest.mark.extended
@pytest.mark.parametrize("change", CHANGES, ids=lambda each: each.name)
def test_a_run_that_ends_without_a_batch_deletes_nothing_of_it(store: S3, change: Change, tmp_path: Path) -> None:
    """It does not notice that it has lost the checkpoint, and tidies up."""
    shop = Shop(store, f"tidied-{change.name}", tmp_path / "in")
    begun(shop, change)
    shop.run(change.before(shop), keep_open=True)
    tidy = FileCheckpoint.delete_leftovers

    def later(ours: FileCheckpoint) -> None:
        with patch.object(FileCheckpoint, "delete_leftovers", tidy):
            change.make(shop)
        tidy(ours)

    with patch.object(FileCheckpoint, "delete_leftovers", later):
        shop.run(change.before(shop), keep_open=True)
    assert finished(shop, change)
    assert accounts(shop) == {"seen": 75, "rest": 75}


@pytest.mark.extended
def test_before_the_first_batch_only_the_note_changes(store: S3, tmp_path: Path) -> None:
    shop = Shop(store, "first", tmp_path / "in")
    shop.folder.mkdir()
    shop.run(shop.built(2), keep_open=True)
    rescaling(5)(shop)
    for number in range(3):
        write(shop.folder, number)
    goes_on(shop, 5)


def test_what_is_refused_stops_no_run(store: S3, tmp_path: Path) -> None:
    shop = Shop(store, "refused", tmp_path / "in")
    begun(shop, RESCALE)
    turns = shop.halves.documents.names("claims")
    with pytest.raises(ConfigError, match="no windowed bolt 'sen'"):
        move_tasks(shop.halves, {"sen": 3})
    with pytest.raises(CheckpointError, match="cannot continue with this topology"):
        reset_bolts(shop.halves, ["rest"], RESET.after(shop))
    with pytest.raises(CheckpointError, match="window length was '10m', and is '20m'"):
        shop.run(shop.built(tasks=5, length="20m"), allow_rescale=True)
    assert move_tasks(shop.halves, {"seen": 2}).tasks == {}
    assert shop.halves.documents.names("claims") == turns
