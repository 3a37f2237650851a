"""Rows and files on which the process that reads them dies."""

from __future__ import annotations

import gzip
import json
import os
import signal
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.segment_files import FileSegments
from topologies.engine.batch import Context
from topologies.engine.source_splits import FileGroup, FileSource, PoisonInput, PoisonKind, file_splits
from topologies.engine.tasks import ingest
from topologies.io.formats.csv import CsvFormat
from topologies.io.formats.event_files import Chunk, FileSplit
from topologies.io.formats.json import JsonlFormat
from topologies.spark.shipping import own_paths
from topologies.spark.spark_tasks import pack_topology
from topologies.spark.workers.pool import PoisonLog, find_poison
from topologies.spark.workers.processes import WorkerDied, WorkerPool
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing import Bolt

SEGFAULT = "the worker process that read it crashed (SIGSEGV)"


def crash() -> None:
    signal.signal(signal.SIGSEGV, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGSEGV)


class Fragile(Bolt):
    """Dies on some rows, of some rows together, or the first time."""

    outputs = "name string"

    def __init__(self, once: str = "") -> None:
        self.once = once

    def prepare(self, context: Any) -> None:
        self.seen = 0

    def execute(self, row: Any) -> Any:
        name = row["name"]
        self.seen += name == "two together"
        if name == "boom" or self.seen == 2:
            crash()
        if name == "gone":
            os._exit(7)
        if name == "once" and not os.path.exists(self.once):
            Path(self.once).touch()
            crash()
        if name == "wrong":
            raise ValueError(name)
        return {"name": name}


def dies_on(fs: pafs.FileSystem, split: FileSplit) -> None:
    with fs.open_input_stream(split.path) as source:
        if b"deadly" in source.read():
            crash()


@dataclass(frozen=True)
class FragileJson(JsonlFormat):
    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        dies_on(fs, split)
        yield from super().read(fs, split, schema, needed, optional)


@dataclass(frozen=True)
class FragileCsv(CsvFormat):
    def read(
        self,
        fs: pafs.FileSystem,
        split: FileSplit,
        schema: pa.Schema,
        needed: Collection[str] | None = None,
        optional: Collection[str] = (),
    ) -> Iterator[Chunk]:
        dies_on(fs, split)
        yield from super().read(fs, split, schema, needed, optional)


def topology(folder: Path, format: Any = None, **options: Any) -> Topology:
    builder = TopologyBuilder("fragile")
    spout = spouts.files(f"{folder}/*", schema="name string, number long", format="jsonl")
    builder.set_spout("names", spout if format is None else replace(spout, format=format))
    builder.set_bolt("fragile", Fragile(**options)).shuffle_grouping("names")
    builder.set_sink("out", sinks.memory()).from_("fragile")
    builder.set_sink("errors", sinks.memory()).from_("names", "errors")
    return builder.build()


@pytest.fixture(scope="module")
def pool() -> Iterator[WorkerPool]:
    found = WorkerPool(1)
    yield found
    found.close()


def write(path: Path, names: Sequence[str], *, key: str = "name") -> str:
    path.parent.mkdir(exist_ok=True)
    lines = [json.dumps({key: name, "number": number}) for number, name in enumerate(names)]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


@dataclass
class Survivors:
    """What came of a file, and what of it workers died on."""

    poison: list[PoisonInput]
    rows: list[str]
    errors: list[dict[str, Any]]
    transient: int


def survive(pool: WorkerPool, built: Topology, path: str, folder: Path, wanted: int = 1) -> Survivors:
    """As a run does it: read, and read again without what was poison."""
    pool.load(pack_topology(built), own_paths())
    store = FileSegments(str(folder / "segments"))
    (folder / "segments/0").mkdir(parents=True, exist_ok=True)
    context = Context(built, store, "0", 0, 0, {})
    poison, transient = list[PoisonInput](), 0
    while True:
        splits = file_splits(built, [("names", path)], wanted, poison)
        try:
            outputs = pool.map(ingest, splits, context)
        except WorkerDied as death:
            found = find_poison(pool, built, death, context)
            poison.extend([] if found is None else [found])
            transient += found is None
            assert transient < 5
            continue
        rows = {"out": list[Any](), "errors": list[Any]()}
        for output in outputs:
            for name, ref in output.staged.for_sinks:
                rows[name].extend(store.read(ref).to_pylist())
        return Survivors(poison, [row["name"] for row in rows["out"]], rows["errors"], transient)


def test_a_row_on_which_a_bolt_dies_is_invalid_and_the_others_go_on(pool: WorkerPool, tmp_path: Path) -> None:
    path = write(tmp_path / "in/a.jsonl", ["a", "boom", "b"])
    found = survive(pool, topology(tmp_path / "in"), path, tmp_path)
    assert [(entry.what, entry.at) for entry in found.poison] == [(PoisonKind.ROW, 1)]
    assert found.rows == ["a", "b"]
    assert [(row["_row"], row["_reason"], row["_component"]) for row in found.errors] == [(1, SEGFAULT, "names")]


@pytest.mark.extended
def test_several_rows_on_which_a_bolt_dies_are_found_one_by_one(pool: WorkerPool, tmp_path: Path) -> None:
    path = write(tmp_path / "in/a.jsonl", ["a", "boom", "gone", "b"])
    found = survive(pool, topology(tmp_path / "in"), path, tmp_path)
    assert [(entry.what, entry.at) for entry in found.poison] == [(PoisonKind.ROW, 1), (PoisonKind.ROW, 2)]
    assert found.rows == ["a", "b"]
    assert [(row["_row"], row["_reason"], row["_data"]) for row in found.errors] == [
        (1, SEGFAULT, '{"name": "boom", "number": 1}'),
        (2, "the worker process that read it ended with status 7", '{"name": "gone", "number": 2}'),
    ]
    assert {(row["_component"], row["_source"]) for row in found.errors} == {("names", path)}


def test_a_death_that_does_not_repeat_is_no_rows_fault(pool: WorkerPool, tmp_path: Path) -> None:
    path = write(tmp_path / "in/a.jsonl", ["a", "once", "b"])
    found = survive(pool, topology(tmp_path / "in", once=str(tmp_path / "once")), path, tmp_path)
    assert (found.poison, found.rows, found.errors, found.transient) == ([], ["a", "once", "b"], [], 1)


@pytest.mark.extended
def test_rows_that_kill_a_worker_only_together_stop_the_run(pool: WorkerPool, tmp_path: Path) -> None:
    path = write(tmp_path / "in/a.jsonl", ["two together", "two together"])
    with pytest.raises(WorkerDied, match=r"crashed \(SIGSEGV\) on rows of .*/a.jsonl together, and on none of them"):
        survive(pool, topology(tmp_path / "in"), path, tmp_path)


def test_a_line_on_which_the_reader_dies_is_invalid(pool: WorkerPool, tmp_path: Path) -> None:
    plain = Path(write(tmp_path / "in/a.jsonl", ["a", "deadly", "b"]))
    path = f"{plain}.gz"
    Path(path).write_bytes(gzip.compress(plain.read_bytes()))
    found = survive(pool, topology(tmp_path / "in", FragileJson()), path, tmp_path)
    assert [(entry.what, entry.at) for entry in found.poison] == [(PoisonKind.LINE, 1)]
    assert found.rows == ["a", "b"]
    assert [(row["_row"], row["_reason"], row["_data"]) for row in found.errors] == [
        (1, SEGFAULT, '{"name": "deadly", "number": 1}'),
    ]


@pytest.mark.extended
@pytest.mark.parametrize(
    ("text", "what", "rows"),
    [
        pytest.param("name,number\na,1\ndeadly,2\nb,3\n", PoisonKind.LINE, ["a", "b"], id="row"),
        pytest.param("name,number,deadly\na,1,1\n", PoisonKind.FILE, [], id="header"),
        pytest.param(
            'name,number\na,1\n"two\nlines, deadly",2\nb,3\n',
            PoisonKind.FILE,
            [],
            id="row of two lines",
        ),
    ],
)
def test_a_csv_file_is_invalid_as_a_whole_where_a_row_is_no_line(
    pool: WorkerPool, tmp_path: Path, text: str, what: PoisonKind, rows: list[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.csv").write_text(text, "utf-8")
    found = survive(pool, topology(folder, FragileCsv()), str(folder / "a.csv"), tmp_path)
    assert found.rows == rows
    (error,) = found.errors
    assert SEGFAULT in error["_reason"]
    assert (error["_row"] is None) == (what is PoisonKind.FILE) == (rows == [])


def test_many_small_files_that_one_task_reads_are_looked_at_one_by_one(pool: WorkerPool, tmp_path: Path) -> None:
    paths = [write(tmp_path / f"in/{name}.jsonl", ["a", "boom" if name == "b" else "b"]) for name in "abc"]
    built = topology(tmp_path / "in")
    pool.load(pack_topology(built), own_paths())
    context = Context(built, FileSegments(str(tmp_path)), "0", 0, 0, {})
    (tmp_path / "0").mkdir()
    files = FileGroup(tuple(FileSource("names", FileSplit(path)) for path in paths))
    with pytest.raises(WorkerDied) as caught:
        pool.map(ingest, [files], context)
    found = find_poison(pool, built, caught.value, context)
    assert found == PoisonInput("names", paths[1], 0, 1, PoisonKind.ROW, 1, SEGFAULT)


@pytest.mark.extended
def test_rows_of_a_parquet_file_keep_their_numbers(pool: WorkerPool, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    path = str(tmp_path / "in/a.parquet")
    names = ["a", "b", "c", "boom"]
    pq.write_table(pa.table({"name": names, "number": list(range(4))}), path, row_group_size=2)
    builder = TopologyBuilder("fragile")
    builder.set_spout("names", spouts.files(path))
    builder.set_bolt("fragile", Fragile()).shuffle_grouping("names")
    builder.set_sink("out", sinks.memory()).from_("fragile")
    builder.set_sink("errors", sinks.memory()).from_("names", "errors")
    found = survive(pool, builder.build(), path, tmp_path, wanted=2)
    assert [(entry.part, entry.parts, entry.at) for entry in found.poison] == [(1, 2, 3)]
    assert found.rows == [*"abc"]
    assert [row["_row"] for row in found.errors] == [3]


def test_poison_is_written_down_and_bounded(tmp_path: Path) -> None:
    checkpoint = FileCheckpoint(str(tmp_path))
    book = PoisonLog(checkpoint, "0000000003")
    poison = [PoisonInput("names", "a.jsonl", 0, 1, PoisonKind.ROW, at, SEGFAULT) for at in range(21)]
    cause = WorkerDied("died", how="crashed (SIGSEGV)")
    for entry in poison[:20]:
        book.add(entry, cause)
    assert PoisonLog(FileCheckpoint(str(tmp_path)), "0000000003").entries == poison[:20]
    assert PoisonLog(checkpoint, "0000000004").entries == []
    with pytest.raises(WorkerDied, match=r"crashed \(SIGSEGV\) on a further row of a.jsonl, after 20 in this batch"):
        book.add(poison[20], cause)
