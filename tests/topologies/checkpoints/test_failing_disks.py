"""Disks that are full or fail: the run says what it was doing, where, why and what to do, and the next continues."""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest

from manager.storage.files import as_storage_error, entries, write_private
from manager.storage.segment_files import FileSegments
from manager.storage.segments import Ref
from tests.helpers.damage import rows_of, topology, write_input
from tests.helpers.object_store import object_store
from tests.helpers.places import ROOT
from topologies.checkpoints.going_back import go_back
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.io.sinks import Sink
from topologies.local import LocalRun
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt
from windowing.errors import BoltError, SinkError, StorageError

LONG_ROWS = """
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Bolt

class Long(Bolt):
    outputs = "x long, text string"
    def execute(self, event):
        yield event["x"], "abcd" * event["length"]

builder = TopologyBuilder("long")
builder.set_spout("in", spouts.files("in", "x long, length long", format="jsonl", files_per_batch=1))
builder.set_bolt("long", Long()).shuffle_grouping("in")
builder.set_sink("out", sinks.{sink}).from_("long")
topology = builder.build()
"""
MOST = 1 << 16
"""Bytes that a file may have."""


def windbolt(folder: Path, most: int) -> subprocess.CompletedProcess[str]:
    """The command line, in a process whose files may have so many bytes: as on a disk that is full."""
    command = [sys.executable, "-m", "windbolt", "run", "long.py:topology", "--engine", "local", "--checkpoint", "ck"]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, preexec_fn=limit, capture_output=True, text=True, timeout=600, check=False
    )


@pytest.mark.parametrize(
    ("sink", "what"),
    [
        pytest.param("files('out', 'jsonl')", r"sink 'out': /\S+/out/\.0000000001-\w+\.jsonl", id="file of a sink"),
        pytest.param(
            "console()", r"/\S+/ck/windbolt/segments/0000000001/\S+", id="segment", marks=pytest.mark.extended
        ),
    ],
)
def test_a_run_whose_files_cannot_grow_ends_in_three_lines_and_the_next_goes_on(
    tmp_path: Path, sink: str, what: str
) -> None:
    (tmp_path / "long.py").write_text(LONG_ROWS.format(sink=sink))
    (tmp_path / "in").mkdir()
    for number, length in enumerate([1, MOST, 2]):
        path = tmp_path / "in" / f"{number}.jsonl"
        path.write_text(json.dumps({"x": number, "length": length}) + "\n")
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    ended = windbolt(tmp_path, MOST)
    assert ended.returncode == 1
    first, *others = ended.stderr.splitlines()
    assert re.fullmatch(rf"error: reading the input of batch 1 failed: {what} cannot be written", first)
    remedy, after = "allow larger files (ulimit -f)", "batch 1 was not committed, and runs again; nothing is lost"
    assert others == [f"  why: {os.strerror(errno.EFBIG)} (EFBIG)", f"  do:  {remedy}, then rerun: {after}"]
    again = windbolt(tmp_path, resource.RLIM_INFINITY)
    assert again.returncode == 0, again.stderr
    if "files" in sink:
        rows = [json.loads(line) for line in rows_of_folder(tmp_path / "out")]
        assert [(row["x"], len(row["text"])) for row in rows] == [(0, 4), (1, 4 * MOST), (2, 8)]


def test_a_device_that_is_full_says_so(tmp_path: Path) -> None:
    """The one file whose name is known before is the draft of a spout in memory."""
    builder = TopologyBuilder("full")
    builder.set_spout("in", spouts.memory("x long", [(1,)]))
    builder.set_sink("out", out := sinks.memory()).from_("in")
    draft = tmp_path / "ck/memory/in/.00000000.arrow"
    draft.parent.mkdir(parents=True)
    draft.symlink_to("/dev/full")
    options = RunOptions(str(tmp_path / "ck"))
    with pytest.raises(StorageError, match=r"memory/in/00000000\.arrow cannot be written") as raised:
        run_local(builder.build(), options)
    assert raised.value.why == f"{os.strerror(errno.ENOSPC)} (ENOSPC)"
    assert raised.value.do.startswith("free space there")
    draft.unlink()
    run_local(builder.build(), options)
    assert out.rows == [{"x": 1}]


def rows_of_folder(folder: Path) -> list[str]:
    """The lines of a sink's files, batch by batch."""
    return [line for name in sorted(os.listdir(folder)) for line in (folder / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "in"
    write_input(folder)
    return folder


@pytest.fixture(scope="module")
def right(files: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """The rows of a run that nothing happens to."""
    out = tmp_path_factory.mktemp("right")
    run_local(topology(files, out))
    return rows_of(out)


def blocked_at(files: Path, folder: Path, phase: str, batch: int, place: str) -> StorageError:
    """The error of a run for which a folder of its is a file as a phase begins; that is mended afterwards."""
    run = LocalRun(topology(files, folder / "out"), RunOptions(str(folder / "ck")))
    away = folder / "away"

    def hook(now: str) -> None:
        if now == phase and run.micro_batch.manifest.batch == batch - 1:
            (folder / place).rename(away)
            (folder / place).touch()

    with run:
        run.micro_batch.hook = hook
        with pytest.raises(StorageError) as raised:
            run.run()
    (folder / place).unlink()
    away.rename(folder / place)
    return raised.value


@pytest.mark.parametrize(
    ("phase", "place", "said"),
    [
        ("ingest", "ck/windbolt/segments", "reading the input of batch 3 failed: {}/0000000003/"),
        ("fire", "ck/windbolt/segments", "firing the windows of batch 3 failed: bolt 'total', task 0: {}/"),
        ("sinks", "out/total", "bringing batch 3 to its sinks failed: sink 'total-out': {}/.0000000003-"),
        ("commit", "ck/windbolt/manifests", "committing batch 3 failed: {}/.0000000003.json."),
    ],
)
def test_the_error_says_what_windbolt_was_doing_and_the_next_run_goes_on(
    files: Path, right: dict[str, list[str]], tmp_path: Path, phase: str, place: str, said: str
) -> None:
    error = blocked_at(files, tmp_path, phase, 3, place)
    assert error.what.startswith(said.format(tmp_path / place)), error.what
    assert error.why == f"{os.strerror(errno.ENOTDIR)} (ENOTDIR)"
    assert error.do.endswith("rerun: batch 3 was not committed, and runs again; nothing is lost")
    run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert rows_of(tmp_path / "out") == right


def test_the_files_of_a_batch_that_is_committed_get_their_names_in_the_next_run(
    files: Path, right: dict[str, list[str]], tmp_path: Path
) -> None:
    error = blocked_at(files, tmp_path, "publish", 4, "out/total")
    assert error.what.startswith("naming the files that batch 3 has for its sinks failed: sink 'total-out': ")
    assert error.do.endswith(
        "rerun: batch 3 is committed, and the next run gives the rest of its files their names; nothing is lost"
    )
    run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert rows_of(tmp_path / "out") == right


def test_after_a_commit_the_error_says_that_the_batch_is_committed(
    files: Path, right: dict[str, list[str]], tmp_path: Path
) -> None:
    error = blocked_at(files, tmp_path, "commit", 3, "ck/windbolt/plans")
    assert error.what.startswith("deleting what batch 3 has made superfluous failed: ")
    assert error.do.endswith("rerun: batch 3 is committed")
    run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert rows_of(tmp_path / "out") == right


def test_after_a_batch_the_error_says_that_the_batch_is_committed(
    files: Path, right: dict[str, list[str]], tmp_path: Path
) -> None:
    error = blocked_at(files, tmp_path, "commit", 3, "ck/spark/commits")
    assert error.what.startswith(f"noting that batch 3 is done failed: {tmp_path}/ck/spark/commits")
    assert error.do.endswith("rerun: batch 3 is committed, and nothing is lost")
    run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    assert rows_of(tmp_path / "out") == right


def test_without_a_checkpoint_nothing_is_promised(files: Path, tmp_path: Path) -> None:
    built = topology(files, tmp_path / "out")

    def report(_: Any) -> None:
        shutil.rmtree(tmp_path / "out/total")
        (tmp_path / "out/total").touch()

    with pytest.raises(StorageError, match=r"sink 'total-out': .* cannot be written") as raised:
        run_local(built, RunOptions(on_report=report))
    assert "batch 1" in raised.value.what
    assert raised.value.do.endswith(
        "the run has no checkpoint, and starts over; delete first what it has written so far"
    )


def test_to_go_back_says_that_it_can_be_ended(files: Path, tmp_path: Path) -> None:
    run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck")))
    (tmp_path / "ck/set-aside").touch()
    with pytest.raises(StorageError) as raised:
        go_back(PairedCheckpoint(str(tmp_path / "ck")), "0000000005")
    assert raised.value.what.startswith("going back to batch 5 failed: ")
    (tmp_path / "ck/set-aside").unlink()
    assert go_back(PairedCheckpoint(str(tmp_path / "ck")), "0000000005").moved


class Failing(Bolt):
    """A user's function that meets a full disk of the user's own."""

    outputs = "x long"

    def execute(self, event: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "mine")


def _fail(*_: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "mine")


@pytest.mark.parametrize(
    ("bolt", "sink", "kind"),
    [(Failing(), sinks.memory(), BoltError), (None, sinks.foreach_batch(_fail, frame="arrow"), SinkError)],
    ids=["bolt", "sink"],
)
def test_disks_of_the_users_functions_are_the_users(
    tmp_path: Path, bolt: Bolt | None, sink: Sink, kind: type[Exception]
) -> None:
    builder = TopologyBuilder("mine")
    builder.set_spout("in", spouts.memory("x long", [(1,)]))
    if bolt is not None:
        builder.set_bolt("bolt", bolt).shuffle_grouping("in")
    builder.set_sink("out", sink).from_("in" if bolt is None else "bolt")
    with pytest.raises(kind, match="mine") as raised:
        run_local(builder.build(), RunOptions(str(tmp_path / "ck")))
    assert not isinstance(raised.value, StorageError)


WORDS = {
    errno.ENOSPC: "free space",
    errno.EDQUOT: "quota",
    errno.EACCES: "give this user the right",
    errno.EROFS: "mount",
    errno.EIO: "dmesg",
    errno.EMFILE: "ulimit -n",
    errno.ESTALE: "its server answers",
    errno.ETIMEDOUT: "its server answers",
    errno.EXDEV: "the disk, the network or the store",
}


@pytest.mark.parametrize("number", WORDS, ids=errno.errorcode.get)
def test_each_trouble_has_its_remedy(number: int) -> None:
    with pytest.raises(StorageError) as raised, as_storage_error("/data/x", "written"):
        raise OSError(number, os.strerror(number), "/data/x")
    assert raised.value.what == "/data/x cannot be written"
    assert raised.value.why == f"{os.strerror(number)} ({errno.errorcode[number]})"
    assert WORDS[number] in raised.value.do
    assert raised.value.do.endswith(", then rerun")


def _write(folder: Path) -> None:
    write_private(pafs.LocalFileSystem(), f"{folder}/file/x", b"x")


def _list(folder: Path) -> None:
    entries(pafs.LocalFileSystem(), f"{folder}/file")


@pytest.mark.parametrize("act", [_write, _list])
def test_what_pyarrow_says_has_the_words_of_the_system_too(tmp_path: Path, act: Callable[[Path], None]) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError) as raised:
        act(tmp_path)
    assert raised.value.why == f"{os.strerror(errno.ENOTDIR)} (ENOTDIR)"


def test_rows_that_a_format_cannot_hold_are_no_trouble_of_a_disk() -> None:
    with pytest.raises(pa.ArrowInvalid), as_storage_error("/data/x", "written"):
        pa.array([1, "a"])


def test_a_store_that_fails_is_told_with_its_own_words(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ACCESS_KEY_ID": "a", "SECRET_ACCESS_KEY": "b", "EC2_METADATA_DISABLED": "true"}.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with object_store() as store:
        store.answer = 403
        segments = FileSegments("bucket/ck/segments", store.uri("/bucket"))
        with pytest.raises(StorageError, match=r"bucket/ck/segments/a\.arrow cannot be read") as raised:
            segments.read(Ref("a.arrow", 0, 8, 1))
    assert "403 Forbidden" in raised.value.why
    assert "the store works" in raised.value.do
