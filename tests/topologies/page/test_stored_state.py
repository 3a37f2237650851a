"""A run on a page from its checkpoint: the same as the run said itself, its runs, and what its journal has."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.helpers.orders_and_refunds import order, shop, write, write_two_files_each
from tests.helpers.scraping import free_port
from tests.topologies.page.shown import held, state, why
from topologies.checkpoints.topology_fit import KEPT_RUNS
from topologies.cli.app import app
from topologies.page.site import StoredRun, show_page
from topologies.run.options import address_of
from windbolt import RunOptions, run_local
from windowing.errors import BoltError, CheckpointError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_two_files_each(tmp_path)


def stored(folder: Path) -> dict[str, Any]:
    seen: dict[str, Any] = json.loads(json.dumps(StoredRun(str(folder / "ck")).state("", -1)))
    return seen


def since_left_out(bolts: dict[str, Any]) -> dict[str, Any]:
    """Since when inputs stand is known better while it runs."""
    return {
        name: {**bolt, "marks": [{**mark, "since": None} for mark in bolt["marks"]]} for name, bolt in bolts.items()
    }


@pytest.mark.parametrize("keep_open", [True, False])
def test_it_is_what_the_run_said_at_its_end(keep_open: bool, folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=keep_open, serve_page=port))
    live, seen = state(port), stored(folder)
    assert since_left_out(seen["bolts"]) == since_left_out(live["bolts"])
    assert seen["spouts"] == live["spouts"]
    assert seen["graph"] == live["graph"]
    assert seen["now"]["state"] == "finished"
    assert [batch["batch"] for batch in seen["journal"]] == [1, 0]
    assert all(batch["done"] for batch in seen["journal"])
    assert [point["batch"] for point in seen["points"]] == [0, 1, 1][: 3 - keep_open]


def test_it_answers_why(folder: Path, port: int) -> None:
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True))
    show_page(address_of(port), StoredRun(str(folder / "ck")))
    assert state(port)["topology"] == "shop"
    status, told = why(port, bolt="revenue")
    assert (status, told["reason"]) == (200, "watermark")
    assert why(port, bolt="revnue")[0] == 400


def test_it_follows_a_run(folder: Path, port: int) -> None:
    with held(shop(folder), port, str(folder / "ck")) as run:
        run.at_batch()
        page = StoredRun(str(folder / "ck"))
        first = page.state("", -1)
        assert first["now"]["state"] == "checkpoint"
        assert first["runs"][0]["how"] == "no end"
        assert set(page.state(first["version"], 0)) == {"run", "version", "now"}
        run.go_on()
        run.at_batch()
        later = page.state(first["version"], first["points"][-1]["n"])
        assert [point["batch"] for point in later["points"]] == [1]
        assert later["bolts"]["revenue"]["accounts"] == run.reports[-1].bolts["revenue"].accounts
    assert page.state(later["version"], 1)["now"]["state"] == "finished"


def test_runs_and_how_they_ended(folder: Path, port: int) -> None:
    ck = str(folder / "ck")
    run_local(shop(folder), RunOptions(ck, keep_open=True))
    write(folder / "orders", 3, [order(7, "crash"), order(20), order(21)])
    write(folder / "refunds", 3, [order(20), order(21)])
    with pytest.raises(BoltError):
        run_local(shop(folder), RunOptions(ck, keep_open=True))
    failed = stored(folder)
    assert failed["now"]["state"] == "failed"
    assert "the till is broken" in failed["now"]["error"]
    with pytest.raises(BoltError):
        run_local(shop(folder), RunOptions(ck, keep_open=True, serve_page=port))
    seen = stored(folder)
    assert [(run["how"], run["continues"]) for run in seen["runs"]] == [
        ("failed", 1),
        ("failed", 1),
        ("finished", None),
    ]
    assert {run["engine"] for run in seen["runs"]} == {"local"}
    assert [run["how"] for run in state(port)["runs"]] == ["failed", "failed", "finished"], "the live page has them too"
    assert state(port)["runs"][0]["repeats"] == 0
    assert [batch["done"] for batch in seen["journal"]] == [False, True, True], "the one that fails is planned"


def test_what_was_done_between_two_runs(folder: Path) -> None:
    ck = str(folder / "ck")
    run_local(shop(folder), RunOptions(ck, keep_open=True))
    moved = (
        "import pathlib\n\nfrom tests.helpers.orders_and_refunds import shop\n\ntopology = shop(pathlib.Path({!r}))\n"
    )
    (folder / "top.py").write_text(moved.format(str(folder)))
    for command in (
        ["rescale", ck, "--parallelism", "visits=4"],
        ["checkpoint", ck, "--back-to", "0"],
        ["reset", ck, "visits", "--topology", f"{folder}/top.py:topology"],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    seen = stored(folder)
    assert [run["changed"] for run in seen["runs"]] == [
        "started over: visits",
        "gone back to batch 0",
        "other numbers of tasks: visits has 4 in place of 2",
        None,
    ]
    assert seen["now"]["state"] == "finished", "as the last run says"


def test_a_run_that_died_has_no_end(folder: Path) -> None:
    with free_port() as port, held(shop(folder), port, str(folder / "ck")) as run:
        run.at_batch()
        shutil.copytree(folder / "ck", folder / "died/ck")
    run_local(shop(folder), RunOptions(str(folder / "ck")))
    assert stored(folder / "died")["runs"][0]["how"] == "no end"


def test_only_the_latest_runs_are_noted(folder: Path) -> None:
    for _ in range(KEPT_RUNS + 2):
        run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True))
    runs = stored(folder)["runs"]
    assert len(runs) == KEPT_RUNS
    assert [run["began"] for run in runs] == sorted((run["began"] for run in runs), reverse=True)


@pytest.mark.parametrize("damage", ["", "windbolt 1 00000000\n{}", "gone"])
def test_a_note_of_runs_that_is_damaged_is_done_without(damage: str, folder: Path) -> None:
    ck = str(folder / "ck")
    run_local(shop(folder), RunOptions(ck, keep_open=True))
    path = folder / "ck/windbolt/runs.json"
    whole = stored(folder)
    path.write_text(damage) if damage != "gone" else path.unlink()
    seen = stored(folder)
    assert seen["bolts"] == whole["bolts"]
    assert seen["runs"] == []
    run_local(shop(folder), RunOptions(ck, keep_open=True))
    assert len(stored(folder)["runs"]) == 1


def test_what_is_no_checkpoint(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        StoredRun(str(tmp_path / "nowhere"))
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True))
    (folder / "ck/windbolt/topology.json").unlink()
    with pytest.raises(CheckpointError, match="does not say by which rules"):
        StoredRun(str(folder / "ck"))


def test_nothing_is_written(folder: Path) -> None:
    run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True))
    files = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
    page = StoredRun(str(folder / "ck"))
    json.dumps(page.state("", -1))
    page.why("revenue", None, None)
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*")} == files
