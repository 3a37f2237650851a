"""Damage to a checkpoint: the rows are right, or the run is refused in clear words; and the ways back."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import topologies.checkpoints.going_back
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.sealed_files import FORMAT, seal, unseal
from tests.helpers import played_spark
from tests.helpers.damage import Campaign, PlayedLocally, rows_of, topology
from tests.helpers.examples import share
from tests.helpers.played_spark import Died, PlayedRun
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.going_back import go_back, inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.cli.app import app
from topologies.run.options import RunOptions
from topologies.topology import Topology
from windowing.errors import CheckpointError, ConfigError, DamagedCheckpoint

CASES = share(64, 4)


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Campaign:
    return Campaign(tmp_path_factory.mktemp("damage"))


@pytest.fixture
def ended(campaign: Campaign) -> Path:
    """A checkpoint after batch 6 and its closing, ``ck``, beside its sinks, ``out``."""
    return _at(campaign, "at its end")


def _at(campaign: Campaign, stage: str) -> Path:
    shutil.rmtree(campaign.live)
    shutil.copytree(campaign.stages[stage].folder, campaign.live)
    return campaign.live


def _run(campaign: Campaign) -> dict[str, list[str]]:
    PlayedRun(campaign.built, campaign.live / "ck").run(campaign.files)
    return rows_of(campaign.live / "out")


def _back(folder: Path, key: str) -> None:
    halves = PairedCheckpoint(str(folder / "ck"))
    halves.lock.take()
    try:
        go_back(halves, key)
    finally:
        halves.lock.release()


def _garble(path: Path, at: int = -3) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def _manifest(folder: Path, key: str) -> Path:
    return folder / f"ck/windbolt/manifests/{key}.json"


def test_a_spoiled_file_gives_the_right_rows_or_is_named(campaign: Campaign) -> None:
    outcomes = {campaign.outcome(case) for case in campaign.cases(CASES, seed=20)}
    assert outcomes == {"right", "refused", "back"}


def test_a_spoiled_file_of_the_local_engine_gives_the_right_rows_or_is_named(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, PlayedLocally)
    outcomes = {campaign.outcome(case) for case in campaign.cases(CASES // 2, seed=38)}
    assert outcomes == {"right", "refused", "back"}


def test_a_sealed_text_is_read_as_it_was_written_and_in_no_other_way() -> None:
    data = seal('{"a": "ä"}')
    assert unseal(data, "x") == '{"a": "ä"}'
    for at in range(8 * len(data)):
        spoiled = bytearray(data)
        spoiled[at // 8] ^= 1 << at % 8
        with pytest.raises(CheckpointError):
            unseal(bytes(spoiled), "x")
    for length in range(len(data)):
        with pytest.raises(DamagedCheckpoint):
            unseal(data[:length], "x")


def test_a_checkpoint_of_another_format_is_refused_in_words(campaign: Campaign, ended: Path) -> None:
    path = _manifest(ended, "0000000006-close")
    body = path.read_text().partition("\n")[2]
    path.write_text(json.dumps({"format": 2, **json.loads(body)}))
    with pytest.raises(CheckpointError, match=rf"has another format: an older one.* reads format {FORMAT}") as raised:
        _run(campaign)
    assert not isinstance(raised.value, DamagedCheckpoint)
    assert "start with a new checkpoint folder" in raised.value.do


def test_a_checkpoint_of_the_format_before_is_refused_in_words(
    campaign: Campaign, ended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _manifest(ended, "0000000006-close")
    body = unseal(path.read_bytes(), str(path))
    monkeypatch.setattr("manager.storage.sealed_files.FORMAT", FORMAT - 1)
    path.write_bytes(seal(body))
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=f"has another format: {FORMAT - 1}.* reads format {FORMAT}") as raised:
        _run(campaign)
    assert not isinstance(raised.value, DamagedCheckpoint)


def test_a_missing_topology_is_no_new_checkpoint(campaign: Campaign, ended: Path) -> None:
    (ended / "ck/windbolt/topology.json").unlink()
    with pytest.raises(DamagedCheckpoint, match=r"topology\.json is gone"):
        _run(campaign)
    assert not (ended / "ck/windbolt/topology.json").exists()


def test_an_older_manifest_that_is_damaged_does_not_stop_a_run(campaign: Campaign) -> None:
    folder = _at(campaign, "died before a commit")
    _garble(_manifest(folder, "0000000002"))
    assert _run(campaign) == campaign.right


def test_a_segment_that_is_gone_and_not_needed_does_not_stop_a_run(campaign: Campaign) -> None:
    folder = _at(campaign, "died before a commit")
    ours = FileCheckpoint(str(folder / "ck/windbolt"))
    first, last = (ours.manifest(ours.batches()[at]).segments() for at in (0, -1))
    for name in first - last:
        (folder / "ck/windbolt/segments" / name).unlink()
    assert first - last
    assert _run(campaign) == campaign.right


def test_a_damaged_segment_is_not_blamed_on_the_bolt(campaign: Campaign) -> None:
    folder = _at(campaign, "died before Spark's plan")
    latest = FileCheckpoint(str(folder / "ck/windbolt")).latest()
    assert latest is not None
    tasks = latest.bolts["total"].tasks
    state = next(task.bolt.user[""] for task in tasks if task.bolt.user)  # read as the bolt is made ready
    _garble(folder / "ck/windbolt/segments" / state.segment, state.offset + state.length // 2)
    with pytest.raises(DamagedCheckpoint) as raised:
        _run(campaign)
    assert state.segment in raised.value.what
    assert "do not have the checksum they had" in raised.value.why
    assert "new checkpoint folder" in raised.value.do
    assert "total" not in str(raised.value)


def test_the_last_manifest_names_the_batch_to_go_back_to(campaign: Campaign, ended: Path) -> None:
    _manifest(ended, "0000000006-close").write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match=r"go back to batch 6, which is whole: windbolt \S+ \S+ --back-to 6;"):
        _run(campaign)


@pytest.mark.parametrize(("keep", "kept"), [(1, ["0000000006-close"]), (4, ["0000000004", "0000000005", "0000000006"])])
def test_so_many_batches_are_kept_as_were_asked_for(
    campaign: Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keep: int, kept: list[str]
) -> None:
    monkeypatch.setattr(played_spark, "open_checkpoint", partial(open_checkpoint, keep=keep))
    PlayedRun(topology(campaign.files, tmp_path / "out"), tmp_path / "ck").run(campaign.files)
    found = sorted(path.stem for path in (tmp_path / "ck/windbolt/manifests").iterdir())
    assert found == (kept if keep == 1 else [*kept, "0000000006-close"])


def test_as_many_batches_as_spark_keeps_can_be_kept() -> None:
    for number in (0, 101):
        with pytest.raises(ConfigError, match=f"keep_batches is {number}"):
            RunOptions(keep_batches=number)


def test_drafts_of_commits_that_died_are_swept(campaign: Campaign) -> None:
    folder = _at(campaign, "died before a commit") / "ck/windbolt"
    drafts = [folder / name for name in (f"manifests/.0000000004.json.{'a' * 32}", f"plans/.1.json.{'b' * 32}")]
    drafts.append(folder / f".topology.json.{'c' * 32}")
    mine = folder / "manifests/.mine"
    for path in (*drafts, mine):
        path.write_text("half of it")
    assert _run(campaign) == campaign.right
    assert not any(path.exists() for path in drafts)
    assert mine.exists()


# An older checkpoint is put back.


def test_files_of_later_batches_are_not_written_beside(campaign: Campaign, ended: Path) -> None:
    shutil.rmtree(ended / "ck")
    shutil.copytree(campaign.stages["died before Spark's plan"].folder / "ck", ended / "ck")
    before = rows_of(ended / "out")
    with pytest.raises(CheckpointError, match=r"holds \d+ files of batches after 4, the last") as raised:
        _run(campaign)
    assert "--back-to 4" in raised.value.do
    assert rows_of(ended / "out") == before
    foreign = ended / "out/total/batch-of-mine.jsonl"
    foreign.write_text("")
    _back(ended, "0000000004")
    assert foreign.exists()
    assert not list((ended / "out/total").glob("batch-0000000005*"))
    assert list((ended / "out/total").glob(".after-4-*/batch-0000000005*"))
    assert _run(campaign) == campaign.right


# Going back.


@pytest.mark.parametrize("key", ["0000000006-close", "0000000006", "0000000005"])
def test_the_next_run_does_what_came_after_anew(campaign: Campaign, ended: Path, key: str) -> None:
    _back(ended, key)
    assert FileCheckpoint(str(ended / "ck/windbolt")).batches()[-1] == key
    assert _run(campaign) == campaign.right
    assert FileCheckpoint(str(ended / "ck/windbolt")).batches()[-1] == "0000000006-close"


def test_going_back_may_be_interrupted_anywhere(campaign: Campaign, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before each thing that it does to a file system, one after the other, until nothing is left to interrupt."""
    interrupted = 0
    while True:
        folder = _at(campaign, "at its end")
        with monkeypatch.context() as patched:
            calls = _die_at_call(interrupted, patched)
            try:
                _back(folder, "0000000005")
            except Died:
                pass
            else:
                break
        if calls() > 1:  # the note is there, or nothing has been done
            going = (folder / "ck/windbolt/going-back.json").exists()
            if going:
                with pytest.raises(CheckpointError, match="is still going back to batch 5"):
                    _run(campaign)
        _back(folder, "0000000005")
        assert _run(campaign) == campaign.right
        interrupted += 7 if interrupted > 3 else 1  # not all of some hundred, but all along the way
    assert interrupted > 10


def _die_at_call(number: int, patched: pytest.MonkeyPatch) -> Callable[[], int]:
    done = 0
    module = topologies.checkpoints.going_back

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal done
            if done == number:
                raise Died
            done += 1
            return function(*arguments, **named)

        return call

    for name in ("_move", "write_spark_file", "later_files"):
        patched.setattr(module, name, guarded(getattr(module, name)))
    return lambda: done


def test_files_that_others_write_into_a_former_folder_stay(campaign: Campaign) -> None:
    folder = _at(campaign, "died before Spark's plan")
    elsewhere = replace_sinks(campaign.built, folder / "elsewhere")
    PlayedRun(elsewhere, folder / "ck").run(campaign.files)
    mine, others = (folder / f"out/total/batch-000000000{number}-0000.jsonl" for number in (5, 6))
    for path in (mine, others):
        path.write_text("")
    _back(folder, "0000000005")
    assert mine.exists()
    assert others.exists()
    assert not list((folder / "elsewhere/total").glob("batch-0000000006*"))
    assert inspect(PairedCheckpoint(str(folder / "ck"))).refused == ""


def replace_sinks(built: Topology, folder: Path) -> Topology:
    """The topology with its files elsewhere."""
    moved = {
        name: replace(part, sink=replace(part.sink, path=str(folder / Path(part.sink.path).name)))  # type: ignore[union-attr, arg-type]
        for name, part in built.sinks.items()
    }
    return replace(built, sinks=moved)


def test_a_lost_plan_is_seen_before_a_run(campaign: Campaign) -> None:
    folder = _at(campaign, "died before a commit")
    (folder / "ck/windbolt/plans/0000000004.json").unlink()
    assert "plans/0000000004.json is gone" in inspect(PairedCheckpoint(str(folder / "ck"))).refused
    with pytest.raises(DamagedCheckpoint, match=r"plans/0000000004\.json is gone.* --back-to 3;"):
        _run(campaign)
    _back(folder, "0000000003")
    assert _run(campaign) == campaign.right


def test_what_cannot_be_gone_back_to_is_refused_with_what_can(campaign: Campaign, ended: Path) -> None:
    before = sorted(ended.rglob("*"))
    with pytest.raises(CheckpointError) as raised:
        _back(ended, "0000000002")
    assert "kept are 5, 6, 6-close" in raised.value.why
    assert "it can be gone back to 6-close or 6 or 5" in raised.value.do
    assert sorted(ended.rglob("*")) == before


@pytest.mark.parametrize("sums", ["gone", "left", "of other bytes"])
def test_entries_that_spark_has_deleted_are_taken_from_those_that_hold_them_too(campaign: Campaign, sums: str) -> None:
    """As if the next file that holds all had come, and Spark had deleted what was before it, without the checksums that
    it does not know of."""
    folder = _at(campaign, "died while closing")
    source = folder / "ck/spark/sources/0"
    names = ["3.compact", "4", "5", "6"]
    lines = [line for name in names for line in (source / name).read_text().split("\n")[1:]]
    for name in names:
        (source / name).unlink()
        if sums == "gone":
            (source / f".{name}.crc").unlink()
        elif sums == "of other bytes":
            (source / f".{name}.crc").write_bytes(b"crc\0\0\0\2\0\0\0\0\0")
    (source / "6.compact").write_text("\n".join(["v1", *lines]))
    _back(folder, "0000000004")
    assert (source / "4").exists()
    assert _run(campaign) == campaign.right


# The command.


def _command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["checkpoint", *arguments])
    return result.exit_code, result.output


def test_a_whole_checkpoint_is_shown_and_ends_with_0(ended: Path) -> None:
    before = sorted(ended.rglob("*"))
    status, said = _command(str(ended / "ck"))
    assert status == 0
    assert "topology: damage" in said
    assert "6-close" in said
    assert "Every file is whole." in said
    assert sorted(ended.rglob("*")) == before


def test_an_older_file_that_is_damaged_is_named_and_a_run_goes_on(ended: Path) -> None:
    _garble(_manifest(ended, "0000000005"))
    status, said = _command(str(ended / "ck"))
    assert status == 1
    assert "0000000005.json is damaged" in said
    assert "What a run needs to continue is whole." in said


def test_a_damaged_checkpoint_is_told_with_what_to_do_in_json_too(ended: Path) -> None:
    _garble(_manifest(ended, "0000000006-close"))
    status, said = _command(str(ended / "ck"), "--json")
    found = json.loads(said)
    assert status == 1
    assert not found["goes_on"]
    assert "--back-to 6;" in found["do"]
    assert [batch["batch"] for batch in found["batches"]] == ["5", "6", "6-close"]
    assert [batch["whole"] for batch in found["batches"]] == [True, True, False]
    assert found["batches"][1]["bolts"]["total"]["accounts"]["received"] > 0


def test_what_is_no_checkpoint_ends_with_2_and_is_left_alone(tmp_path: Path) -> None:
    status, said = _command(str(tmp_path))
    assert status == 2
    assert "is not a checkpoint" in said
    assert os.listdir(tmp_path) == []


def test_the_command_goes_back_and_says_where_things_are(campaign: Campaign, ended: Path) -> None:
    status, said = _command(str(ended / "ck"), "--back-to", "5")
    assert status == 0
    assert "at the end of batch 5" in said
    assert "set-aside/after-5-" in said
    assert _run(campaign) == campaign.right


@pytest.mark.parametrize("batch", ["2", "seven", "99", "-3"])
def test_a_batch_that_cannot_be_ends_with_2(ended: Path, batch: str) -> None:
    status, said = _command(str(ended / "ck"), f"--back-to={batch}")
    assert status == 2
    assert "error:" in said


def test_a_checkpoint_in_use_is_left_alone(campaign: Campaign, ended: Path) -> None:
    halves = PairedCheckpoint(str(ended / "ck"))
    halves.lock.take()
    try:
        for options in ((), ("--back-to", "5")):
            status, said = _command(str(ended / "ck"), *options)
            assert status == 2
            assert "is in use by process" in said
    finally:
        halves.lock.release()
