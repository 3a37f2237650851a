"""The local engine on a checkpoint: what it is for, without Java."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from manager.storage.checkpoint import FileCheckpoint
from manager.storage.manifest import batch_key, key_of_batch_name
from tests.helpers.damage import BATCHES, SCHEMA, Ids, rows_of, topology, write_input
from tests.helpers.examples import sampled
from tests.helpers.places import ROOT
from topologies.checkpoints.file_journal import FileJournal, as_uri
from topologies.checkpoints.going_back import go_back, inspect
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint, whole_batches
from topologies.checkpoints.topology_fit import require_rules
from topologies.engine.report import BatchReport
from topologies.engine.source_splits import PoisonInput, PoisonKind
from topologies.graph.bolt_rules import TopologyRules
from topologies.io.spouts import AnySpout
from topologies.local import LocalRun
from topologies.run.summary import Summary
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt, aggregates
from windowing.aggregates.declared import Aggregate
from windowing.durations import parse_duration
from windowing.errors import BoltError, CheckpointError, ConfigError
from windowing.schema import EmittedRows
from windowing.settings.kinds import Session
from windowing.window import TupleWindow

PHASES = ("ingest", "tick", "fire", "compact", "sinks", "commit", "publish", "committed")
FILES = (
    "before sources", "after sources", "before offsets", "after offsets", "before plans", "after plans",
    "before commits", "after commits",
)  # fmt: skip
CLOSING = BATCHES
PLACES = [
    *((phase, 3) for phase in PHASES),
    *((moment, 0) for moment in FILES),
    *((phase, CLOSING) for phase in ("tick", "sinks", "commit")),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("input") / "in"
    write_input(folder)
    return folder


@pytest.fixture(scope="module")
def right(files: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """The rows of a run that nothing happens to and that has no checkpoint, and the names of its files."""
    out = tmp_path_factory.mktemp("right")
    run_local(topology(files, out))
    assert all(rows_of(out).values())
    return rows_of(out), published(out)


def published(out: Path) -> dict[str, list[str]]:
    return {each.name: sorted(name for name in os.listdir(each) if name[0] != ".") for each in sorted(out.iterdir())}


def go(files: Path, folder: Path, **options: Any) -> Summary:
    return run_local(topology(files, folder / "out"), RunOptions(str(folder / "ck"), **options))


def found(folder: Path) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    return rows_of(folder / "out"), published(folder / "out")


def look(folder: Path) -> Any:
    return inspect(PairedCheckpoint(str(folder / "ck")))


def killed(files: Path, folder: Path, where: str, batch: int) -> None:
    folder.mkdir(exist_ok=True)
    script = [sys.executable, "-m", "tests.helpers.dying_here", str(files), str(folder), where, str(batch)]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr


@pytest.mark.parametrize("place", sampled(PLACES[::2], 5))
def test_a_run_that_is_killed_goes_on(place: tuple[str, int], files: Path, right: Any, tmp_path: Path) -> None:
    where, batch = place
    killed(files, tmp_path, where, batch)
    assert inspect(PairedCheckpoint(str(tmp_path / "ck"))).damage == []
    go(files, tmp_path)
    assert found(tmp_path) == right
    seen = look(tmp_path)
    assert not seen.damage
    assert not seen.refused
    hidden = list((tmp_path / "ck").rglob("*.tmp"))
    hidden += list((tmp_path / "out").rglob(".*"))
    assert hidden == []


@pytest.mark.extended
def test_a_run_that_is_killed_again_and_again_comes_to_its_end(files: Path, right: Any, tmp_path: Path) -> None:
    for where, batch in [("after offsets", 1), ("commit", 1), ("after sources", 2), ("after plans", 5), ("commit", 7)]:
        killed(files, tmp_path, where, batch)
    go(files, tmp_path)
    assert found(tmp_path) == right


def test_drafts_of_processes_that_died_are_deleted(files: Path, right: Any, tmp_path: Path) -> None:
    go(files, tmp_path, keep_open=True)
    places = (".metadata", "offsets/.9", "offsets/.9.crc", "commits/.9", "sources/0/.9.compact")
    drafts = [tmp_path / "ck" / "spark" / f"{place}.{uuid.uuid4()}.tmp" for place in places]
    for draft in drafts:
        draft.touch()
    go(files, tmp_path)
    assert found(tmp_path) == right
    assert not any(draft.exists() for draft in drafts)


def test_a_closing_that_dies_while_it_deletes_leaves_nothing(
    files: Path, right: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go(files, tmp_path / "whole")
    clean = FileCheckpoint._clean

    def dies(checkpoint: FileCheckpoint, key: str, *rest: Any) -> None:
        if key.endswith("-close"):
            raise KeyboardInterrupt
        clean(checkpoint, key, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(FileCheckpoint, "_clean", dies)
        with pytest.raises(KeyboardInterrupt):
            go(files, tmp_path / "cut")
    before, whole = segments(tmp_path / "cut"), segments(tmp_path / "whole")
    assert before != whole
    assert go(files, tmp_path / "cut").batches == 0
    assert segments(tmp_path / "cut") == whole
    assert found(tmp_path / "cut") == right


def segments(folder: Path) -> dict[str, int]:
    """How many segments each folder of a checkpoint has, and the batches that are kept."""
    root = folder / "ck" / "windbolt"
    counts = {each.name: len(list(each.iterdir())) for each in sorted((root / "segments").iterdir())}
    return counts | {f"manifests/{name}": 1 for name in sorted(os.listdir(root / "manifests"))}


def test_windows_stay_open_between_runs_over_what_is_there(files: Path, right: Any, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number, name in enumerate(sorted(os.listdir(files))):
        os.link(files / name, tmp_path / "in" / name)
        summary = go(tmp_path / "in", tmp_path, keep_open=number != BATCHES - 1)
        assert summary.batches == 1 + (number == BATCHES - 1)
    assert found(tmp_path) == right
    assert go(tmp_path / "in", tmp_path).batches == 0


def test_files_that_arrive_are_read_at_each_trigger_until_the_run_is_stopped(
    files: Path, right: Any, tmp_path: Path
) -> None:
    """Batches are cut as ever: one file each. Without a closing, since the stream continues."""
    names = iter(sorted(os.listdir(files)))
    (tmp_path / "in").mkdir()

    def arrive() -> bool:
        name = next(names, None)
        if name is not None:
            os.link(files / name, tmp_path / "in" / name)
        return name is not None

    stop, batches = threading.Event(), []

    def on_report(report: BatchReport) -> None:
        batches.append((report.batch, report.closing))
        if not arrive():
            stop.set()

    arrive()
    every = parse_duration("1ms")
    summary = go(tmp_path / "in", tmp_path, every=every, stop=stop, on_report=on_report)
    assert summary.stopped
    assert batches == [(number, False) for number in range(BATCHES)]
    assert go(tmp_path / "in", tmp_path).batches == 1, "the closing"
    assert found(tmp_path) == right


def test_windows_that_follow_the_clock_have_a_batch_at_each_trigger(tmp_path: Path) -> None:
    """With input or without; in a run over what is there, one without if there is none."""
    builder, out = TopologyBuilder("clock"), sinks.memory()
    builder.set_spout("in", spouts.memory("id long", [(1,)], [(2,)]))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s")).global_grouping("in")
    builder.set_sink("out", out).from_("ids")
    built, clock, stop = builder.build(), iter(range(0, 10**9, 6_000_000)), threading.Event()
    rows: list[int] = []

    def on_report(report: BatchReport) -> None:
        rows.append(report.rows)
        if len(rows) == 5:
            stop.set()

    every = parse_duration("1ms")
    ck = str(tmp_path / "ck")
    run_local(built, RunOptions(ck, every=every, clock=lambda: next(clock), stop=stop, on_report=on_report))
    assert rows == [1, 1, 0, 0, 0]
    assert [row["ids"] for row in out.rows] == ["1", "2"]
    options = RunOptions(ck, clock=lambda: next(clock), keep_open=True)
    assert (run_local(built, options).batches, run_local(built, options).rows) == (1, 0)


def test_a_log_of_other_sources_is_refused(files: Path, tmp_path: Path) -> None:
    go(files, tmp_path, keep_open=True)
    offsets = tmp_path / "ck/spark/offsets/6"
    offsets.write_text(offsets.read_text() + '\n{"topic":{"0":7}}')
    offsets.with_name(".6.crc").unlink()
    with pytest.raises(CheckpointError, match=r"belongs to other sources\. it has 2, and the topology has 1"):
        go(files, tmp_path)


def test_a_run_that_is_to_stop_ends_after_the_batch_in_hand(files: Path, right: Any, tmp_path: Path) -> None:
    stop = threading.Event()
    summary = go(files, tmp_path, stop=stop, on_report=lambda report: stop.set() if report.batch == 2 else None)
    assert (summary.batches, summary.stopped) == (3, True)
    assert [batch.name for batch in look(tmp_path).batches] == ["0", "1", "2"]
    go(files, tmp_path)
    assert found(tmp_path) == right


@pytest.mark.extended
@pytest.mark.parametrize("number", sampled([signal.SIGINT, signal.SIGTERM], 2))
def test_a_signal_ends_a_run_of_the_command_after_the_batch_in_hand(
    number: signal.Signals, files: Path, right: Any, tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(
        "from pathlib import Path\nfrom tests.helpers.damage import topology as built\n"
        f"topology = built(Path({str(files)!r}), Path({str(tmp_path / 'out')!r}))\n"
    )
    command = [
        sys.executable,
        "-c",
        "from topologies.cli.app import main; main()",
        "run",
        f"{tmp_path}/mine.py:topology",
    ]
    options = ["--engine", "local", "--checkpoint", str(tmp_path / "ck"), "--every", "5ms", "--json"]
    paths = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, env=paths, text=True) as process:
        assert process.stdout is not None
        lines = [json.loads(process.stdout.readline()) for _ in range(BATCHES)]
        process.send_signal(number)
        rest = [json.loads(line) for line in process.stdout]
        assert process.wait(300) == 0
    assert [line["batch"] for line in lines] == list(range(BATCHES))
    assert rest[-1]["stopped"] is True
    go(files, tmp_path)
    assert found(tmp_path) == right


def test_two_runs_do_not_share_a_checkpoint_nor_a_folder_of_output(files: Path, right: Any, tmp_path: Path) -> None:
    with LocalRun(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck"))) as first:
        with pytest.raises(CheckpointError, match=rf"is in use by process {os.getpid()}"):
            go(files, tmp_path)
        with pytest.raises(ConfigError, match="another run is writing into"):
            run_local(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "other")))
        first.run()
    assert found(tmp_path) == right
    assert go(files, tmp_path).batches == 0


def test_other_aggregates_are_told_and_the_bolt_may_start_over(files: Path, tmp_path: Path) -> None:
    def adding(aggregate: Aggregate) -> Topology:
        builder = TopologyBuilder("adding")
        builder.set_spout("orders", spouts.files(files, SCHEMA, format="jsonl"))
        sums = AggregateBolt(n=aggregate).with_tumbling_window("1m").with_timestamp_field("ts")
        builder.set_bolt("sums", sums).global_grouping("orders")
        builder.set_sink("out", sinks.discard()).from_("sums")
        return builder.build()

    options = RunOptions(str(tmp_path / "checkpoint"))
    run_local(adding(aggregates.count()), options)
    with pytest.raises(CheckpointError, match="bolt 'sums': what it adds up has changed: its aggregates") as told:
        run_local(adding(aggregates.max("ts")), options)
    assert "let 'sums' start over (windbolt reset)" in (told.value.do or "")


def test_what_is_added_up_is_kept_without_a_text_that_python_or_pyarrow_prints() -> None:
    """Another version of either may print another text, and the checkpoint would be refused."""
    builder = TopologyBuilder("adding")
    builder.set_spout("orders", spouts.memory("user string, amount double, ts timestamp"))
    added = AggregateBolt(
        by="user",
        best=aggregates.max_by("amount", by="ts"),
        own=aggregates.combine("amount", fold=max, merge=max, state="double"),
    )
    bolt = added.with_tumbling_window("1m").with_timestamp_field("ts")
    builder.set_bolt("sums", bolt).fields_grouping("orders", "user")
    kept = [{"tuple": ["amount", {"type": "double"}]}, {"tuple": ["ts", {"type": "timestamp[us, tz=UTC]"}]}]
    assert TopologyRules.of(builder.build()).bolts["sums"].sums == {
        "by": ["user"],
        "partial": [
            {"class": "Best", "fields": {"kept": {"tuple": kept}, "by": "ts", "greatest": True}},
            {"class": "Combined", "fields": {"field": "amount", "kind": {"type": "double"}}},
        ],
    }


def test_sums_in_place_of_events_are_told_as_such(files: Path, tmp_path: Path) -> None:
    class FromEvents(AggregateBolt):
        def execute(self, window: TupleWindow) -> EmittedRows:
            return super().execute(window)

    def adding(kind: type[AggregateBolt]) -> Topology:
        builder = TopologyBuilder("adding")
        builder.set_spout("orders", spouts.files(files, SCHEMA, format="jsonl"))
        bolt = kind(n=aggregates.count()).with_window(Session("1m")).with_timestamp_field("ts")
        builder.set_bolt("sums", bolt).global_grouping("orders")
        builder.set_sink("out", sinks.discard()).from_("sums")
        return builder.build()

    for before, after, said in [
        (AggregateBolt, FromEvents, "it kept sums, and keeps events now"),
        (FromEvents, AggregateBolt, "it kept events, and keeps sums now"),
    ]:
        options = RunOptions(str(tmp_path / before.__name__))
        run_local(adding(before), options)
        with pytest.raises(CheckpointError, match=f"\n  - bolt 'sums': {said}\\. its events were"):
            run_local(adding(after), options)


def test_rules_that_may_change_are_those_of_the_last_run(files: Path, tmp_path: Path) -> None:
    def run(lag: str) -> tuple[int, int]:
        builder = TopologyBuilder("lagging")
        builder.set_spout("orders", spouts.files(files, SCHEMA, format="jsonl"))
        bolt = Ids().with_tumbling_window("1m").with_timestamp_field("ts").with_lag(lag)
        builder.set_bolt("bolt", bolt).global_grouping("orders")
        builder.set_sink("out", sinks.discard()).from_("bolt")
        run_local(builder.build(), RunOptions(str(tmp_path / "ck"), keep_open=True))
        return require_rules(halves).bolts["bolt"].delay, os.stat(halves.documents.path("topology")).st_ino

    halves = PairedCheckpoint(str(tmp_path / "ck"))
    first, again, other = run("5s"), run("5s"), run("7s")
    assert again == first, "nothing has changed, so nothing is written"
    assert (first[0], other[0]) == (5_000_000, 7_000_000)


def test_a_checkpoint_of_another_topology_is_refused(files: Path, tmp_path: Path) -> None:
    go(files, tmp_path)
    builder = TopologyBuilder("damage")
    builder.set_spout("orders", spouts.files(files, SCHEMA, format="jsonl"))
    builder.set_bolt("total", Ids().with_tumbling_window("1m").with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("total-out", sinks.files(tmp_path / "out2", "jsonl")).from_("total")
    with pytest.raises(CheckpointError, match=r"belongs to another topology:\n  - bolt 'panes' is gone"):
        run_local(builder.build(), RunOptions(str(tmp_path / "ck")))


@pytest.mark.parametrize("back", ["5", "6", "6-close"])
def test_a_checkpoint_goes_back_and_on(back: str, files: Path, right: Any, tmp_path: Path) -> None:
    go(files, tmp_path)
    halves = PairedCheckpoint(str(tmp_path / "ck"))
    key = key_of_batch_name(back)
    assert key is not None
    halves.lock.take()
    go_back(halves, key)
    halves.lock.release()
    assert not look(tmp_path).refused
    go(files, tmp_path)
    assert found(tmp_path) == right


def test_input_in_memory_lies_in_the_checkpoint(tmp_path: Path) -> None:
    """So that a later run knows what it has read, by its place."""

    def built(*batches: Any) -> Topology:
        builder = TopologyBuilder("mem")
        builder.set_spout("in", spouts.memory("id long, ts timestamp", *batches))
        builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
        builder.set_sink("out", sinks.files(tmp_path / "out" / "ids", "jsonl")).from_("ids")
        return builder.build()

    batches = [[(number, number * 4_000_000)] for number in range(8)]
    options = RunOptions(str(tmp_path / "ck"), keep_open=True)
    assert run_local(built(*batches[:3]), options).batches == 3
    assert run_local(built(*batches), options).batches == 5
    assert run_local(built(*batches), RunOptions(str(tmp_path / "ck"))).batches == 1
    rows = [json.loads(row)["ids"] for row in rows_of(tmp_path / "out")["ids"]]
    assert sorted(rows) == ["0", "1,2", "3,4,5", "6,7"]


def test_spouts_arrive_as_they_were_declared(tmp_path: Path) -> None:
    """Whatever their names; as in a run without a checkpoint."""

    def rows(**options: Any) -> list[Any]:
        builder, out = TopologyBuilder("two"), sinks.memory()
        for name in ("z", "a"):
            builder.set_spout(name, spouts.memory("id long", [(1 if name == "z" else 2,)]))
        builder.set_bolt("ids", Listed().with_window(2)).global_grouping("z").global_grouping("a")
        builder.set_sink("out", out).from_("ids")
        run_local(builder.build(), RunOptions(**options))
        return out.rows

    assert rows() == rows(checkpoint=str(tmp_path / "ck")) == [{"ids": "1"}, {"ids": "1,2"}]


class Listed(Ids):
    """The events of a window in their order."""

    def execute(self, window: Any) -> Any:
        return (",".join(map(str, window.column("id").tolist())),)


REFUSED: dict[str, tuple[AnySpout, str]] = {
    "a DataFrame": (spouts.stream(lambda _: None, SCHEMA), "is a Spark DataFrame"),
    "Kafka by a class of Java's": (
        spouts.kafka("here:9092", "t", SCHEMA, options={"kafka.sasl.jaas.config": "Krb5LoginModule required;"}),
        "spout 'in': option 'kafka.sasl.jaas.config'",
    ),
    "files elsewhere": (spouts.files("s3://bucket/in", SCHEMA, format="jsonl"), "lists files of this machine"),
    "no folder before a pattern": (spouts.files("/not/{a,b}/*.jsonl", SCHEMA), "'/not' is not there"),
    "no folder": (spouts.files("/not/there", SCHEMA, format="jsonl"), "'/not/there' is not there"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_it_cannot_read_is_refused(what: str, tmp_path: Path) -> None:
    spout, words = REFUSED[what]
    builder = TopologyBuilder("refused")
    builder.set_spout("in", spout)
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.memory()).from_("ids")
    with pytest.raises(ConfigError, match=words):
        run_local(builder.build(), RunOptions(str(tmp_path / "ck")))


def test_a_function_that_asks_for_a_dataframe_is_refused_before_anything_is_read(files: Path, tmp_path: Path) -> None:
    builder = TopologyBuilder("frames")
    builder.set_spout("in", spouts.files(files, SCHEMA, format="jsonl"))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.foreach_batch(lambda frame, step: None)).from_("ids")
    with pytest.raises(ConfigError, match="sink 'out': its function needs a Spark DataFrame"):
        run_local(builder.build(), RunOptions(str(tmp_path / "ck")))
    assert not (tmp_path / "ck").exists()


def test_a_row_on_which_workers_of_spark_died_is_left_out(files: Path, tmp_path: Path) -> None:
    path = sorted(files.iterdir())[0]
    poison = PoisonInput("orders", as_uri(str(path)), 0, 1, PoisonKind.ROW, 2, "a worker died of it")
    with LocalRun(topology(files, tmp_path / "out"), RunOptions(str(tmp_path / "ck"))) as run:
        run.checkpoint.note_poison_input(batch_key(0, False), [poison.to_json()])
        summary = run.run()
    assert summary.last is not None
    assert summary.last.spouts["orders"]["invalid"] == 1
    assert any("a worker died of it" in each for each in summary.complaints)


def test_a_bolt_that_fails_stops_the_run_and_its_batch_comes_again(files: Path, right: Any, tmp_path: Path) -> None:
    built, fails = topology(files, tmp_path / "out"), threading.Event()
    fails.set()

    class Failing(type(built.windowed["total"].bolt)):  # type: ignore[misc]
        def execute(self, window: Any) -> Any:
            if fails.is_set() and window.end.minute == 2 and window.end.second == 40:
                raise ValueError("not today")
            return super().execute(window)

    broken = topology(files, tmp_path / "out")
    broken.windowed["total"].bolt.__class__ = Failing
    with pytest.raises(BoltError, match="not today"):
        run_local(broken, RunOptions(str(tmp_path / "ck")))
    fails.clear()
    assert look(tmp_path).planned != []
    run_local(broken, RunOptions(str(tmp_path / "ck")))
    assert found(tmp_path) == right


def test_a_continuous_run_needs_a_checkpoint(files: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="a trigger interval and no checkpoint"):
        run_local(topology(files, tmp_path), RunOptions(every=parse_duration("1s")))


def test_the_journal_forgets_what_is_too_old_to_be_gone_back_to(tmp_path: Path) -> None:
    """As Spark does; and knows all files that were read."""
    count = 130
    (tmp_path / "in").mkdir()
    for number in range(count):
        path = tmp_path / "in" / f"{number:03d}.jsonl"
        path.write_text(json.dumps({"id": number, "ts": number * 1_000_000}) + "\n")
        os.utime(path, (1_600_000_000 + number,) * 2)
    builder = TopologyBuilder("many")
    builder.set_spout("in", spouts.files(tmp_path / "in", "id long, ts timestamp", format="jsonl", files_per_batch=1))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", sinks.discard()).from_("ids")
    options = RunOptions(str(tmp_path / "ck"), keep_batches=100)
    assert run_local(builder.build(), options).batches == count + 1
    half = PairedCheckpoint(str(tmp_path / "ck")).spark_checkpoint
    assert half.offsets() == half.commits() == list(range(count - 101, count))
    assert min(half.entries(0)) == 29, "the last that holds all before it"
    journal = FileJournal(half, ["in"], heartbeats=False, uri=None)
    assert set(journal.seen["in"]) == {str(path) for path in (tmp_path / "in").iterdir()}
    halves = PairedCheckpoint(str(tmp_path / "ck"))
    assert len(list(whole_batches(halves))) == 100
    halves.lock.take()
    go_back(halves, f"{count - 90:010d}")
    halves.lock.release()
    assert run_local(builder.build(), options).batches == 90


@pytest.mark.parametrize(
    ("path", "uri"),
    [
        ("/in/a b.csv", "file:///in/a%20b.csv"),
        ("/in/50%.csv", "file:///in/50%25.csv"),
        ("/in/é日.csv", "file:///in/é日.csv"),
        ("/in/a\u00a0b", "file:///in/a%C2%A0b"),
        ("/in/[x]{y}#?", "file:///in/%5Bx%5D%7By%7D%23%3F"),
        ("/in/a&b=c+d;e,f@g:h!$'()*~", "file:///in/a&b=c+d;e,f@g:h!$'()*~"),
    ],
)
def test_paths_are_written_as_java_writes_them(path: str, uri: str) -> None:
    assert as_uri(path) == uri


@pytest.fixture(autouse=True)
def _no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/not/there")
