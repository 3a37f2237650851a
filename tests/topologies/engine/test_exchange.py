"""What tasks wrote for others is laid together where that saves requests, and nothing else changes by that."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from manager.storage import segment_files
from manager.storage.checkpoint import FileCheckpoint
from manager.storage.segment_files import FileSegments, GatherItem
from manager.storage.segments import RefColumns
from servers.s3 import S3
from tests.helpers.drawn_bolts import BOLTS, Case
from tests.helpers.examples import sampled
from tests.simulation.world.kinds import JOINS, KINDS, PASSING
from topologies.engine import micro_batch as exchange_module
from topologies.engine.batch import InProcessExecutor, InProcessRunExecutor
from topologies.engine.micro_batch import exchange
from topologies.engine.task_data import Sections
from topologies.engine.tasks import gather
from topologies.topology import Topology
from windbolt import (
    Bolt,
    ConfigError,
    DamagedCheckpoint,
    RunOptions,
    TopologyBuilder,
    TopologyError,
    TupleWindow,
    WindowedBolt,
    run_local,
    seconds,
    sinks,
    spouts,
    state,
)

_MINUTE = 60_000_000
_SCHEMA = "user string, n long, ts timestamp"


class Held(WindowedBolt):
    """The events of a window, in order."""

    outputs = "user string, ns string, end timestamp"

    def execute(self, window: TupleWindow) -> tuple[Any, str, Any]:
        return window.get()[0]["user"], str([event["n"] for event in window.get()]), window.end


class Counts:
    """How often sections were gathered, and of how many segments each time."""

    def __init__(self) -> None:
        self.segments: list[int] = []


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Counts:
    """Sections are laid together in local files too, however few there are; three segments at a time."""
    counts = Counts()

    def counted(item: Any, context: Any) -> Any:
        counts.segments.append(len(item.names))
        return gather(item, context)

    monkeypatch.setattr(FileSegments, "reads_by_request", property(lambda self: True))
    monkeypatch.setattr(exchange_module, "_LEAST_SAVED", -(10**9))
    monkeypatch.setattr(exchange_module, "_MOST_SEGMENTS", 3)
    monkeypatch.setattr(exchange_module, "gather", counted)
    return counts


def played(case: Case, folder: Path) -> tuple[Counter[str], Any, Any]:
    """Rows, what is stored at the end, and the accounts, of a run with five files a batch that dies once."""
    rows: dict[int, Counter[str]] = {}
    topology = case.topology(folder, case.tasks[0], rows, files_per_batch=5)
    for place, (spout, text) in enumerate(case.files):
        (folder / spout / f"{place:03d}.jsonl").write_text("".join(f"{line}\n" for line in text))
    clock = itertools.count(1_700_000_000_000_000, 900_000).__next__
    last = run_local(topology, RunOptions(str(folder / "ck"), keep_open=True, clock=clock)).last
    found = state.read(str(folder / "ck"), "b")
    stored = {name: found[name].to_pylist() for name in ("events", "windows", "keys", "tasks", "accounts")}
    run_local(topology, RunOptions(str(folder / "ck"), clock=clock))
    return sum(rows.values(), Counter()), stored, last and last.bolts["b"].accounts


@pytest.mark.parametrize("kind", sampled(sorted({*KINDS, *JOINS, *PASSING}), 10))
def test_rows_and_state_are_what_they_are_without(kind: str, tmp_path: Path, always: Counts) -> None:
    chance, bolts = random.Random(f"exchanged {kind}"), sorted(BOLTS)
    for seed in itertools.count():
        case = Case(kind, chance.choice(bolts), seed, tmp_path / str(seed))
        assert seed < 40, "nothing was compared"
        try:
            case.topology(tmp_path / "look", 2, {})
        except (ConfigError, TopologyError):
            continue  # such a bolt cannot be built
        with pytest.MonkeyPatch.context() as without:
            without.setattr(exchange_module, "_LEAST_SAVED", 10**9)
            wanted = played(case, case.folder / "as-written")
        before = len(always.segments)
        assert played(case, case.folder / "laid") == wanted, (kind, case.bolt, seed)
        if wanted[0] and max(always.segments[before:], default=0) > 1:
            return


def chained(files: str, rows: list[Any], tasks: int = 3) -> Topology:
    """A bolt behind another, which reads the spout and a plain bolt too."""

    class Doubled(Bolt):
        outputs = "user string, n long, ts timestamp"

        def execute(self, event: Any) -> Any:
            return [(event["user"], 2 * event["n"], event["ts"])]

    class Late(WindowedBolt):
        outputs = "user string, n long, ts timestamp"

        def execute(self, window: TupleWindow) -> Any:
            return [(event["user"], 100 + event["n"], window.end) for event in window.get()]

    builder = TopologyBuilder("chained")
    builder.set_spout("in", spouts.files(f"{files}/*.jsonl", _SCHEMA, files_per_batch=7))
    builder.set_bolt("doubled", Doubled()).shuffle_grouping("in")
    first = Late().with_tumbling_window("4s").with_timestamp_field("ts")
    builder.set_bolt("first", first, tasks).fields_grouping("in", "user")
    second = Held().with_key("user").with_tumbling_window("8s").with_timestamp_field("ts").with_lag("5s")
    declared = builder.set_bolt("second", second, tasks)
    for name in ("in", "doubled", "first"):
        declared = declared.fields_grouping(name, "user")
    builder.set_sink("out", sinks.foreach_batch(partial(_take, rows), frame="arrow")).from_("second")
    return builder.build()


def write(folder: Path, files: int, users: int = 5) -> None:
    folder.mkdir()
    for number in range(files):
        lines = [
            f'{{"user": "u{(number * 7 + row) % users}", "n": {number * 100 + row}, '
            f'"ts": "2024-01-01T00:00:{(number + row) % 60:02d}Z"}}\n'
            for row in range(12)
        ]
        (folder / f"{number:04d}.jsonl").write_text("".join(lines))


def test_bolts_behind_others(tmp_path: Path, always: Counts) -> None:
    write(tmp_path / "in", 21)
    laid: list[Any] = []
    run_local(chained(str(tmp_path / "in"), laid), RunOptions(str(tmp_path / "ck"), clock=iter(range(99)).__next__))
    assert max(always.segments) == 3, "what came from spouts and from the bolt before"
    always.segments.clear()
    wanted: list[Any] = []
    with pytest.MonkeyPatch.context() as without:
        without.setattr(exchange_module, "_LEAST_SAVED", 10**9)
        topology = chained(str(tmp_path / "in"), wanted)
        run_local(topology, RunOptions(str(tmp_path / "ck2"), clock=iter(range(99)).__next__))
    assert laid == wanted
    assert laid
    assert not always.segments


def _itself(given: Any) -> Any:
    return given


def _take(into: list[Any], table: pa.Table, _: int) -> None:
    into.extend(table.to_pylist())


class Written:
    """In place of the progress of a batch: sections of one bolt, as readers have written them."""

    def __init__(self, root: Path, sizes: list[int], tasks: int) -> None:
        self.store = FileSegments(str(root))
        self.context = type("Context", (), {"store": self.store, "key": "0"})
        self.parts = [
            Sections(
                np.arange(tasks),
                RefColumns((f"s{number}",), np.zeros(tasks, np.int64), np.array([[size // tasks] * 9] * tasks)),
            )
            for number, size in enumerate(sizes)
        ]

    def written_sections(self, bolt: str) -> list[Sections]:
        return self.parts


def groups(sizes: list[int], tasks: int, processes: int, root: Path) -> list[list[str]]:
    """Which segments would be laid together."""
    asked: list[Any] = []

    class Asked(InProcessExecutor):
        def map(self, function: Any, items: Any, context: Any) -> list[Any]:
            asked.extend(items)
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FileSegments, "reads_by_request", property(lambda self: True))
        try:
            exchange(Written(root, sizes, tasks), ["b"], Asked(), processes)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            return [list(item.names) for item in asked]
    return []


def test_where_it_pays(tmp_path: Path) -> None:
    small = [10_000] * 400
    found = groups(small, 400, 400, tmp_path)
    assert [len(group) for group in found] == [64] * 6 + [16]
    assert [name for group in found for name in group] == [f"s{number}" for number in range(400)]
    assert groups([10_000] * 100, 400, 400, tmp_path)
    assert groups([10_000] * 100, 16, 400, tmp_path)
    assert not groups([10_000] * 100, 8, 400, tmp_path), "eight tasks are eight processes at most"
    assert not groups(small, 400, 1, tmp_path), "one process reads each once"
    assert not groups([10_000] * 3, 400, 200, tmp_path)
    # Of 12 * n requests, n to copy and 2 to write them remain, and 12 * 2 to read what was written.
    assert not groups([10_000] * 93, 12, 400, tmp_path), "997 requests saved are too few"
    assert groups([10_000] * 94, 12, 400, tmp_path), "1,008 are enough"


def test_large_segments_stay_where_they_are(tmp_path: Path) -> None:
    mega = 1 << 20
    found = groups([10_000, 500 * mega, 20 * mega, 20 * mega, *[10_000] * 300], 400, 400, tmp_path)
    assert [len(group) for group in found] == [2, 64, 64, 64, 64, 45]
    assert found[0] == ["s0", "s2"], "not more than 32 MiB for a task"
    assert not groups([mega] * 400, 4, 4, tmp_path), "each process reads a quarter of a megabyte in any case"


def test_what_lies_between_wanted_sections_is_not_read() -> None:
    mega = 1 << 20
    sections = [(0, 0, 100), (0, 128, 100), (0, 4 * mega, 100), (1, 64, 5_000), (0, 4 * mega + 128, 50)]
    extents = np.array([[offset, length, 1, 0] for _, offset, length in sections])
    wanted = GatherItem(["a", "b"], np.array([segment for segment, _, _ in sections]), extents)
    runs, of_section = segment_files._runs(wanted)
    assert runs == [(0, 0, 228), (0, 4 * mega, 178), (1, 64, 5_000)]
    assert of_section == [0, 0, 1, 2, 1]


def test_a_segment_that_is_damaged_is_named(tmp_path: Path, always: Counts, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "in", 7)
    topology = chained(str(tmp_path / "in"), [])

    class Damaging(InProcessRunExecutor):
        def __init__(self, damage: Callable[[Path], None]) -> None:
            self.damage = damage

        def map(self, function: Any, items: Any, context: Any) -> list[Any]:
            if items and hasattr(items[0], "extents"):
                self.path = Path(f"{context.store.root}/{items[0].names[0]}")
                self.damage(self.path)
            return super().map(function, items, context)

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[:-70])

    def changed(path: Path) -> None:
        path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))

    ways: list[tuple[Callable[[Path], None], str]] = [
        (cut, "are not all there"), (changed, "do not have the checksum"), (Path.unlink, "is gone"),
    ]  # fmt: skip
    for number, (damage, text) in enumerate(ways):
        damaging = Damaging(damage)
        monkeypatch.setattr("topologies.local.InProcessRunExecutor", partial(_itself, damaging))
        with pytest.raises(DamagedCheckpoint, match=text) as caught:
            run_local(topology, RunOptions(str(tmp_path / f"ck{number}")))
        assert damaging.path.name in str(caught.value)


@pytest.fixture
def every_task_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a cluster with as many slots as tasks: no task finds what another has read."""
    own = InProcessRunExecutor.map

    def alone(self: InProcessRunExecutor, function: Any, items: Any, context: Any) -> list[Any]:
        found = []
        for item in items:
            segment_files.forget_pieces()
            found += own(self, function, [item], context)
        segment_files.forget_pieces()
        return found

    monkeypatch.setattr(InProcessRunExecutor, "map", alone)


@pytest.mark.extended
@pytest.mark.usefixtures("every_task_in_a_process_of_its_own")
def test_requests_grow_with_the_sum_of_processes_and_segments(
    tmp_path: Path, store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks, files = 12, 140
    monkeypatch.setattr(InProcessRunExecutor, "slots", files)
    write(tmp_path / "in", files, users=97)
    read: dict[str, int] = {}
    rows: dict[str, list[Any]] = {"as-written": [], "laid": []}
    for name, least in (("as-written", 10**9), ("laid", exchange_module._LEAST_SAVED)):
        monkeypatch.setattr(exchange_module, "_LEAST_SAVED", least)
        builder, into = TopologyBuilder("requests"), rows[name]
        builder.set_spout("in", spouts.files(f"{tmp_path}/in/*.jsonl", _SCHEMA, files_per_batch=files))
        bolt = Held().with_key("user").with_tumbling_window(seconds(60)).with_timestamp_field("ts")
        builder.set_bolt("b", bolt, tasks).fields_grouping("in", "user")
        taken = sinks.foreach_batch(partial(_take, into), frame="arrow")
        builder.set_sink("out", taken).from_("b")
        store.count()
        run_local(builder.build(), RunOptions(store.uri(f"{name}/ck"), keep_open=True, clock=iter(range(9)).__next__))
        read[name] = store.count()["GET"]
    assert rows["laid"] == rows["as-written"]
    assert read["as-written"] > 0.5 * tasks * files
    assert read["laid"] < 3 * (tasks + files), read


def test_a_checkpoint_in_memory_has_no_requests() -> None:
    class Nowhere:
        context = type("Context", (), {"store": object()})

    exchange(Nowhere(), ["b"], InProcessExecutor(), 400)  # type: ignore[arg-type]


def test_local_files_are_not_copied(tmp_path: Path) -> None:
    assert not FileCheckpoint(str(tmp_path)).segments.reads_by_request
