"""Only what is in a file can make it bad: what keeps it from being read stops the run, and a later one reads it."""

from __future__ import annotations

import gzip
import io
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from pyarrow import ipc

import topologies.engine.source_splits
from tests.helpers.object_store import ObjectStore, object_store
from topologies.engine.source_splits import FileSource
from topologies.io.formats import FileSplit, event_files, file_format
from topologies.io.paths import locate, matching_entries
from topologies.run.options import RunOptions
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import WindowedBolt
from windowing.errors import CheckpointError, ConfigError, DataError, MissingError, UnreachableError
from windowing.schema import parse_schema

ROWS = pa.table({"x": pa.array(np.random.default_rng(1).integers(0, 1 << 60, 50_000))})
SCHEMA = parse_schema("x long")


def _written(kind: str) -> bytes:
    sink = io.BytesIO()
    if kind == "parquet":
        pq.write_table(ROWS, sink, row_group_size=10_000)
    elif kind == "arrow":
        with ipc.new_file(sink, ROWS.schema) as writer:
            writer.write_table(ROWS, max_chunksize=10_000)
    else:
        lines = [f'{{"x":{each}}}' if kind == "jsonl" else str(each) for each in ROWS["x"].to_pylist()]
        text = "\n".join(lines if kind == "jsonl" else ["x", *lines]).encode()
        sink.write(gzip.compress(text))
    return sink.getvalue()


KINDS = {"parquet": "a.parquet", "arrow": "a.arrow", "csv": "a.csv.gz", "jsonl": "a.jsonl.gz"}


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    for name, value in {
        "ACCESS_KEY_ID": "someone",
        "SECRET_ACCESS_KEY": "secret",
        "EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(f"AWS_{name}", value)
    with object_store() as store:
        yield store


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """No pauses between tries."""
    monkeypatch.setattr(topologies.engine.source_splits, "PAUSES", (0.0,) * len(topologies.engine.source_splits.PAUSES))


def _rows(path: str, kind: str) -> int:
    filesystem, inside, _ = locate(path)
    chunks = file_format(kind).read(filesystem, FileSplit(inside), SCHEMA)
    return sum(len(table) for table, _, _ in chunks)


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_that_refuses_or_fails_in_the_middle_is_no_fault_of_the_file(store: ObjectStore, kind: str) -> None:
    path, data = f"/bucket/{KINDS[kind]}", _written(kind)
    store.objects[path] = data
    uri = store.uri(path)
    assert _rows(uri, kind) == len(ROWS)
    store.answer = 403
    with pytest.raises(UnreachableError, match=KINDS[kind]) as refused:
        _rows(uri, kind)
    assert not isinstance(refused.value, MissingError)
    store.answer = 404
    with pytest.raises(MissingError, match=KINDS[kind]):
        _rows(uri, kind)
    store.answer = None
    store.objects[path] = data[: len(data) // 2]  # damaged in its middle: that is its own fault
    with pytest.raises(DataError, match=KINDS[kind]):
        _rows(uri, kind)


@pytest.mark.extended
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_store_that_answers_503_is_no_fault_of_the_file(store: ObjectStore, kind: str) -> None:
    path = f"/bucket/{KINDS[kind]}"
    store.objects[path] = data = _written(kind)
    store.failing = range(1, len(data) - 70_000) if kind == "parquet" else range(1)
    with pytest.raises(UnreachableError, match="503"):
        _rows(store.uri(path), kind)


class _Failing(pafs.LocalFileSystem):  # type: ignore[misc]
    """A disk on which every read after the first few fails."""

    def __init__(self, good: int) -> None:
        super().__init__()
        self.good = good

    def open_input_file(self, path: str) -> Any:
        return pa.PythonFile(_Reads(path, self.good), mode="r")

    def open_input_stream(self, path: str, **_: Any) -> Any:
        return self.open_input_file(path)


class _Reads(io.FileIO):
    def __init__(self, path: str, good: int) -> None:
        super().__init__(path)
        self.good = good

    def read(self, size: int | None = -1) -> bytes:
        self.good -= 1
        if self.good < 0:
            raise OSError(5, "Input/output error")
        return super().read(size) or b""


@pytest.mark.parametrize("good", range(4))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("watched", [False, True])
def test_a_disk_that_fails_at_any_read_is_no_fault_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, good: int, watched: bool
) -> None:
    path, failing = tmp_path / KINDS[kind], _Failing(good)
    path.write_bytes(_written(kind))
    if not watched:  # Arrow's own reads fail so: with the number of the system's error
        monkeypatch.setattr(event_files, "_source", lambda _, path, **__: failing.open_input_file(path))
    with pytest.raises(UnreachableError, match=r"Input/output error"):
        list(file_format(kind).read(failing if watched else pafs.LocalFileSystem(), FileSplit(str(path)), SCHEMA))


def test_an_error_of_the_system_is_told_from_one_of_arrows() -> None:
    """/proc/self/mem is a regular file for the system, and cannot be read at 0."""
    with pytest.raises(UnreachableError, match=r"Input/output error \(EIO\)"):
        list(file_format("jsonl").read(pafs.LocalFileSystem(), FileSplit("/proc/self/mem"), SCHEMA))


def _gone(folder: Path) -> str:
    return str(folder / "gone.csv")


def _through_a_file(folder: Path) -> str:
    (folder / "file").touch()
    return str(folder / "file" / "x.csv")


def _dangling(folder: Path) -> str:
    (folder / "link.csv").symlink_to(folder / "nothing")
    return str(folder / "link.csv")


def _folder(folder: Path) -> str:
    (folder / "folder.csv").mkdir()
    return str(folder / "folder.csv")


def _around(folder: Path) -> str:
    (folder / "a.csv").symlink_to(folder / "b.csv")
    (folder / "b.csv").symlink_to(folder / "a.csv")
    return str(folder / "a.csv")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", [_gone, _through_a_file, _dangling, _folder, _around])
def test_a_path_that_leads_to_no_file_is_no_bad_file(tmp_path: Path, place: Any, kind: str) -> None:
    with pytest.raises(UnreachableError):
        _rows(place(tmp_path), kind)


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipe_is_not_waited_for(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="pipe"):
        _rows(str(tmp_path / "pipe"), kind)


class Count(WindowedBolt):
    """How many events."""

    outputs = "n long"

    def execute(self, window: Any) -> Any:
        return {"n": len(window)}


def _counting(path: object, **options: Any) -> Any:
    builder = TopologyBuilder("counting")
    builder.set_spout("in", spouts.files(str(path), "x long", **options))
    builder.set_bolt("count", Count().with_tumbling_window("1h")).global_grouping("in")
    builder.set_sink("out", sink := sinks.memory()).from_("count")
    builder.set_sink("bad", bad := sinks.memory()).from_("in", "errors")
    return builder.build(), sink, bad


@contextmanager
def _vanishing(monkeypatch: pytest.MonkeyPatch, path: Path, tries: int) -> Iterator[None]:
    """A file is gone when it is to be read, and back after some tries."""
    read, left, data = FileSource._read_whole_split, [tries], path.read_bytes()

    def whole(source: FileSource, *rest: Any) -> Any:
        if source.split.path == str(path):
            left[0] -= 1
            path.unlink(missing_ok=True)
            if left[0] < 0:
                path.write_bytes(data)
        return read(source, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(FileSource, "_read_whole_split", whole)
        yield


@pytest.mark.usefixtures("at_once")
def test_a_local_run_stops_at_a_file_that_is_gone_and_tries_some_times_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        (tmp_path / f"{number}.csv").write_text("x\n1\n2\n")
    gone = tmp_path / "1.csv"
    with _vanishing(monkeypatch, gone, 2):
        topology, out, _ = _counting(tmp_path)
        run_local(topology)
        assert out.rows == [{"n": 6}]
    with _vanishing(monkeypatch, gone, 9), pytest.raises(MissingError, match=r"1\.csv"):
        run_local(_counting(tmp_path)[0])
    gone.write_text("x\n1\n2\n")
    with _vanishing(monkeypatch, gone, 9):
        topology, out, bad = _counting(tmp_path, on_missing="invalid")
        last = run_local(topology).last
    assert out.rows == [{"n": 4}]
    assert last is not None
    assert last.spouts["in"] == {"rows": 4, "invalid": 1, "unreadable_files": 1, "truncated": 0}
    assert "1.csv' does not exist" in bad.rows[0]["_reason"]


def test_what_is_done_about_missing_files_is_one_of_two() -> None:
    with pytest.raises(ConfigError, match="on_missing"):
        spouts.files("*.csv", "x long", on_missing="skip")  # type: ignore[arg-type]


@pytest.fixture
def somebody() -> Iterator[Path]:
    """A folder in which a user who is not root has to go by permissions."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o755)
    for name in ("in", "in/a", "in/b"):
        (folder / name).mkdir()
        (folder / name / "x.csv").write_text("x\n1\n")
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        for path in (folder / "in", folder / "in/a", folder / "in/b"):
            path.chmod(0o755)
        shutil.rmtree(folder)


@pytest.mark.parametrize(
    ("closed", "pattern"),
    [("in", "in/*.csv"), ("in/a", "in/*/*.csv"), ("in", "in/x.csv"), ("in", "in/*/x.csv"), ("in/b", "in/{a,b}/*.csv")],
)
def test_a_folder_that_cannot_be_listed_is_not_an_empty_one(somebody: Path, closed: str, pattern: str) -> None:
    assert len(list(matching_entries([f"{somebody}/{pattern}"]))) in (1, 2)
    euid = os.geteuid()
    os.seteuid(os.getuid())
    (somebody / closed).chmod(0)
    os.seteuid(euid)
    with pytest.raises(UnreachableError, match="Permission denied"):
        list(matching_entries([f"{somebody}/{pattern}"]))


@pytest.mark.parametrize(
    ("closed", "path"), [("in/x.csv", "in/x.csv"), ("in", "in/x.csv"), ("in", "in/a"), ("in", "in")]
)
@pytest.mark.usefixtures("at_once")
def test_what_a_user_may_not_read_is_told_with_the_systems_reason(somebody: Path, closed: str, path: str) -> None:
    euid = os.geteuid()
    os.seteuid(os.getuid())
    (somebody / "in/x.csv").write_text("x\n1\n")
    (somebody / closed).chmod(0)
    os.seteuid(euid)
    with pytest.raises(UnreachableError) as raised:
        run_local(_counting(f"{somebody}/{path}", format="csv")[0])
    assert raised.value.why == "Permission denied (EACCES)"


def test_a_checkpoint_where_a_user_may_not_write_is_told_with_the_systems_reason(somebody: Path) -> None:
    with pytest.raises(CheckpointError) as raised:
        run_local(_counting(f"{somebody}/in/x.csv")[0], RunOptions(checkpoint=f"{somebody}/ck"))
    assert raised.value.why == "Permission denied (EACCES)"
