"""Ways in which the product comes to the answer of a drawn case: in one go, crashing, rescaled, going back, ..."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from manager.storage.manifest import BoltState, batch_key
from tests.helpers.crowding import crowded
from tests.oracles.interpreter.bolt import Repairs, Source, partition_of
from tests.oracles.interpreter.plain import INITIAL
from tests.oracles.interpreter.states import Said, questions
from tests.oracles.interpreter.values import Json
from tests.oracles.interpreter.written import Gather, Keeps, Told, as_texts, build_bare
from topologies.checkpoints import state_tables
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.repair import BoltRepair, GivenEvents, repair
from topologies.checkpoints.rescale import Route, moved_state
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import event_table, window_table
from topologies.checkpoints.stored_tasks import TaskReader, readers_of
from topologies.checkpoints.why import Explanation, answer_question
from topologies.engine.batch import BatchPlan, InProcessExecutor
from topologies.engine.micro_batch import MicroBatch, Phase
from topologies.engine.report import BatchReport
from topologies.engine.task_data import SourceBatch
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.graph import WindowedNode
from topologies.io.sinks import MemorySink
from topologies.scenarios.replay import Recording
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.script import ScriptBatch, ScriptedEvents, ScriptSplit, script
from topologies.topology import Topology
from windowing.errors import BoltError, DataError
from windowing.schema import DEFAULT_STREAM
from windowing.settings.kinds import Session
from windowing.settings.panes import RETRACT

STOPPING = (DataError, BoltError)
"""The errors of rules that stop a run."""
PHASES: tuple[Phase, ...] = ("ingest", "tick", "fire", "commit")
"""Those that each batch has before it is committed."""
_MEMORY = Path("/dev/shm")


class Stopped(Exception):
    """A rule has stopped a run."""


class Crash(Exception):
    """Everything in memory is lost."""


@dataclass(frozen=True)
class PartitionedSplit:
    """The events of a micro-batch in order of arrival, each with its partition."""

    parts: list[tuple[str, ScriptedEvents]]

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        for partition, events in self.parts:
            for batch in ScriptSplit((events.to_json(),)).read(topology):
                yield replace(batch, partition=partition)


@dataclass
class Drive:
    """A run of a case, batch by batch: in one go, unless a way of driving does something else around a batch."""

    scenario: Scenario
    topology: Topology
    chance: Random
    folder: str
    """One that is there as long as it runs."""
    checkpoint: MemoryCheckpoint | FileCheckpoint = field(default_factory=MemoryCheckpoint)
    recording: Recording = field(default_factory=Recording)
    said: list[dict[str, Said]] = field(default_factory=list)
    """After each batch: what the checkpoint says of each bolt."""
    repairs: Repairs = field(default_factory=dict)
    is_asked: bool = False
    """Whether the checkpoint is asked questions after each batch."""
    stopped: tuple[int, str] | None = None
    """The batch that failed, and with which error; None where none did."""
    answer: Json = field(default_factory=dict)
    rows: list[Json] = field(default_factory=list)
    """What the bolt emitted."""
    retracts: bool = False
    """Whether firings have taken back rows of earlier ones."""
    step: MicroBatch = field(init=False)
    _readers: dict[str, tuple[BoltState, list[TaskReader]]] = field(default_factory=dict)
    """The readers of each bolt, and the state that they read."""

    def __post_init__(self) -> None:
        self.use(self.topology)

    @property
    def batches(self) -> list[ScriptBatch]:
        return script(self.scenario)

    @property
    def source(self) -> Source | None:
        """The partitions that its source has, where that is one with partitions."""
        return self.scenario.meta.get("source")

    def use(self, topology: Topology) -> None:
        """Another process goes on, perhaps with another number of tasks."""
        self.topology = topology
        self.rules = {name: BoltRules.of(topology, node) for name, node in topology.windowed.items()}
        self.begin()

    def begin(self, checkpoint: FileCheckpoint | None = None) -> None:
        """Another process goes on with the rows of before, perhaps at another place."""
        self.checkpoint = checkpoint or self.checkpoint
        for node in self.topology.sinks.values():
            if isinstance(node.sink, MemorySink):
                node.sink._writers.checkpoint = self.checkpoint.place
        self.step = self.recording.watch(MicroBatch(self.topology, self.checkpoint, InProcessExecutor()))

    # ---- a batch

    def run(self, number: int, batch: ScriptBatch, crash: Phase | None = None) -> None:
        """Run a batch, after a crash in a phase of it."""
        plan = self.plan(number, batch)
        if crash is not None:
            self.crash(plan, crash)
        report = self.attempt(plan)
        self.recording.note_batch(batch, report)
        self.said.append({name: self.said_of(name, batch.advance.clock) for name in self.topology.windowed})

    def attempt(self, plan: BatchPlan) -> BatchReport:
        """Run a batch; Stopped where a rule stops the run, as it does again in another process."""
        try:
            return self.step.run(plan)
        except STOPPING as error:
            told = str(error)
        self.lose(plan)
        try:
            self.step.run(plan)
        except STOPPING as error:
            if str(error) != told:
                raise
        else:
            raise AssertionError(f"the second attempt ends otherwise: {told}")
        self.lose(plan)
        self.stopped = plan.batch, told
        raise Stopped

    def plan(self, number: int, batch: ScriptBatch) -> BatchPlan:
        split: Any = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        exist: dict[str, tuple[str, ...]] = {}
        if self.source is not None:
            split = PartitionedSplit(list(self.parts(number, batch, self.source)))
            for stream, names in self.source.items():
                exist[stream] = tuple(name for name, since in names.items() if since <= number)
        splits = [split] if batch.arrivals else []
        return BatchPlan(number, batch.advance, splits, run=self.step.run_id, partitions=exist)

    def parts(self, number: int, batch: ScriptBatch, source: Source) -> Iterator[tuple[str, ScriptedEvents]]:
        """The events of a batch, one by one, each with its partition."""
        steps = self.scenario.event_steps
        for arrival in batch.arrivals:
            for at, row in enumerate(arrival.rows, arrival.first):
                one = ScriptedEvents(arrival.stream, DEFAULT_STREAM, arrival.clock, [row], at)
                yield partition_of(source[arrival.stream], steps[at].event, number), one

    def crash(self, plan: BatchPlan, phase: Phase) -> None:
        def fail(now: str) -> None:
            if now == phase:
                raise Crash

        self.step.hook = fail
        try:
            self.step.run(plan)
        except (Crash, *STOPPING):
            self.lose(plan)
            return
        raise AssertionError(f"no phase {phase}")

    def lose(self, plan: BatchPlan) -> None:
        """What an attempt had in memory is lost with it: after a repair the next one may show less."""
        self.begin()
        sinks, known = [node.sink for node in self.topology.sinks.values()], self.recording
        rows = [sink.batches for sink in sinks if isinstance(sink, MemorySink)]
        for records in (*rows, known.windows, known.late, known.events, known.invalid, known.refused):
            records.pop(batch_key(plan.batch, plan.closing), None)

    # ---- what the checkpoint says

    def readers(self, name: str) -> list[TaskReader]:
        """What reads the tasks of a bolt, as they are after the last batch; all who ask then share what has been
        read."""
        state = self.step.manifest.bolts[name]
        read, readers = self._readers.get(name, (None, []))
        if read is not state:
            readers = readers_of(state, self.checkpoint.segments, self.rules[name])
            self._readers[name] = state, readers
        return readers

    def said_of(self, name: str, clock: int) -> Said:
        """What ``windbolt state`` says of a bolt, and ``windbolt why`` where it is asked."""
        node = self.topology.windowed[name]
        columns = node.bolt.settings.key
        keys, readers = pa.schema([node.schema.field(each) for each in columns]), self.readers(name)
        times = ("watermark", "last_end")
        table = state_tables.tables_of_state(readers, keys, "marks", "known", "records")["keys"]
        said = Said([{**row, "key": tuple(row["key"]) or None} for row in rows_of(table, columns, *times, "cache")])
        for row in said.keys:
            row["cache"] = None if row["cache"] is None else json.loads(row["cache"])
        if isinstance(node.bolt, Keeps):
            said.states = self.states(name, keys)
        settings = node.bolt.settings
        if isinstance(node.bolt, Told | Gather) and settings.trigger is None and settings.key_trigger is None:
            names = ("start", "end", "kind", "events", "firings")
            said.open = sorted(rows_of(window_table(readers, clock, keys), columns, *names), key=str)
            if self.is_asked:
                self.ask(node, said)
        return said

    def ask(self, node: WindowedNode, said: Said) -> None:
        """Asks the checkpoint, of windows that are open and of windows that were, and of some key."""
        name, columns, rules, manifest = node.name, node.bolt.settings.key, self.rules, self.step.manifest
        ends = {row["end"] for row in said.open or ()} - {None}
        past = {row["end"] for each in self.said for row in each[name].open or ()} - ends - {None}
        texts = {",".join(str(step.event.get(each)) for each in columns) for step in self.scenario.event_steps}
        drawn = list(questions(self.chance, name, sorted(texts) if columns else [], sorted(ends), sorted(past)))
        events = event_table(self.readers(name), rules[name].inputs, node.schema).to_pylist()
        state, store = manifest.bolts[name], self.checkpoint.segments
        said.counts = state.accounts.totals(sum(state.pending))
        said.pending = sorted(row["id"] for row in events if row["pending"] and not row["waits_for_start"])
        said.answers = [(each, answer_question(Explanation(each, rules, [manifest], store, None))) for each in drawn]

    def states(self, name: str, keys: pa.Schema) -> list[Json]:
        """The states of keys, or of tasks: all that are kept of keys, and those of tasks that are not as in the
        beginning."""
        tables = state_tables.tables_of_state(self.readers(name), keys)
        found: dict[tuple[Any, ...], Json] = {}
        for table in ("state", "state.last"):
            for row in tables[table].to_pylist() if table in tables else []:
                place = row["task"], *(row[each] for each in keys.names)
                state = found.setdefault(place, {"task": place[0], "key": list(place[1:]), "number": 0, "last": []})
                if table == "state":
                    state[row["name"]] = int(row["value"])
                else:
                    state["last"].append(row["id"])
        return [state for state in found.values() if keys.names or (state["number"], state["last"]) != INITIAL]

    def finish(self) -> None:
        segments = self.checkpoint.segments
        self.answer = self.recording.answer(self.scenario, self.topology, self.step.manifest, segments).to_json()
        self.answer["windows"] = [{**window, "key": as_texts(window.get("key"))} for window in self.answer["windows"]]
        sinks = [node.sink for name, node in self.topology.sinks.items() if name == "rows"]
        self.rows = [row for sink in sinks if isinstance(sink, MemorySink) for row in sink.rows]
        self.retracts = any(node.retracts for node in self.topology.windowed.values())

    # ---- repairs

    def drawn_repair(self, rows: list[Json]) -> tuple[list[Json], list[Json]]:
        """One or two of these stored events with other ids, an apostrophe after them; or those that are taken out."""
        rows = self.chance.sample(rows, min(len(rows), self.chance.choice([1, 1, 2])))
        if not rows:
            return [], []
        rules = self.scenario.rules
        stays = any(isinstance(kind, Session) and kind.max_duration is not None for kind in rules.kinds)
        stays |= rules.lifetime is not None and rules.lifetime.shape_field is not None
        if self.chance.random() < 0.6 and not stays:  # what a longest duration has cut off, and halves of edges, stay
            return [], rows
        return [{**row, "id": f"{row['id']}'"} for row in rows], []

    def note_repair(self, number: int, changed: list[Json], out: list[Json]) -> None:
        """Note for the interpreter the ids that are taken out, and the new ids by the old ones."""
        self.repairs[number] = {row["id"] for row in out}, {row["id"][:-1]: row["id"] for row in changed}

    def repair(self, number: int) -> None:
        """After this batch one or two stored events are taken out, if that can be, or get other ids."""
        state, store = self.step.manifest.bolts["bolt"], self.checkpoint.segments
        rules, columns = self.rules["bolt"], self.topology.windowed["bolt"].schema
        changed, out = self.drawn_repair(event_table(self.readers("bolt"), rules.inputs, columns).to_pylist())
        if not changed and not out:
            return
        given = tuple(GivenEvents.of("bolt", rows) if rows else None for rows in (changed, out))
        try:
            found = BoltRepair.of("bolt", state, rules, store, columns, given)  # type: ignore[arg-type]
        except DataError:
            return
        with store.writer(f"repaired-{number}") as writer:
            self.put(found.write(writer))
        self.note_repair(number, changed, out)
        self.begin()

    def put(self, state: BoltState) -> None:
        """Commit another state of the bolt, for the batch that is over."""
        assert isinstance(self.checkpoint, MemoryCheckpoint)
        self.step.manifest.bolts["bolt"] = state
        self.checkpoint._committed[-1] = self.step.manifest.to_json()


def rows_of(table: pa.Table, columns: tuple[str, ...], *names: str) -> list[Json]:
    """Rows of a table of a checkpoint: these columns, the key as texts, and times in microseconds."""
    for name in {"start", "end", "watermark", "last_end"} & set(table.column_names):
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.int64()))
    return [
        {"key": as_texts([row[each] for each in columns]), **{name: row[name] for name in names}}
        for row in table.to_pylist()
    ]


# ---- the ways


def in_one_go(drive: Drive) -> None:
    """Every batch in the process of the one before."""
    for number, batch in enumerate(drive.batches):
        drive.run(number, batch, "commit" if batch.crash else None)


def asked(drive: Drive) -> None:
    """In one go, and after each batch the checkpoint is asked what waits, and for what."""
    drive.is_asked = True
    in_one_go(drive)


def hashed_alike(drive: Drive) -> None:
    """In one go, where all keys have one or two hashes."""
    with crowded(drive.chance.choice([1, 1, 2])):
        drive.begin()
        in_one_go(drive)


def repaired(drive: Drive) -> None:
    """Between batches stored events are taken out, and have other values."""
    for number, batch in enumerate(drive.batches):
        drive.run(number, batch, "commit" if batch.crash else None)
        if drive.chance.random() < 0.4:
            drive.repair(number)


def on_disk(drive: Drive) -> None:
    """The checkpoint is a folder; batches crash in any phase, and other processes go on."""
    chance, place = drive.chance, f"{drive.folder}/windbolt"
    drive.begin(FileCheckpoint(place))
    for number, batch in enumerate(drive.batches):
        drive.run(number, batch, chance.choice(PHASES) if batch.crash or chance.random() < 0.3 else None)
        if chance.random() < 0.3:
            drive.begin(FileCheckpoint(place))


def copied(drive: Drive) -> None:
    """The folder is copied somewhere else after a batch, and the run goes on there."""
    drive.begin(FileCheckpoint(f"{drive.folder}/0/windbolt"))
    for number, batch in enumerate(drive.batches):
        drive.run(number, batch)
        before, place = f"{drive.folder}/{number}", f"{drive.folder}/{number + 1}"
        if drive.chance.random() < 0.3:
            shutil.copytree(before, place)
            shutil.rmtree(before)
        else:
            Path(before).rename(place)
        drive.begin(FileCheckpoint(f"{place}/windbolt"))


def saved(drive: Drive) -> None:
    """After some batches a savepoint is taken, also where the next batch has crashed, and the run goes on with that;
    some have repaired events."""

    def opened(place: str) -> FileCheckpoint:
        """windbolt's half of a checkpoint, which has the notes of a run."""
        return open_checkpoint(PairedCheckpoint(place), drive.topology).checkpoint

    def journal(place: str) -> FileJournal:
        return FileJournal(PairedCheckpoint(place).spark_checkpoint, [], heartbeats=True, uri=None)

    chance, place = drive.chance, f"{drive.folder}/0"
    drive.begin(opened(place))
    for number, batch in enumerate(drive.batches):
        planned = journal(place).plan({}, batch.advance.clock, heartbeat=True)
        assert planned == number
        drive.checkpoint.plan(batch_key(number, False), {})
        if batch.crash or chance.random() < 0.2:
            drive.crash(drive.plan(number, batch), chance.choice(PHASES))
        if number and chance.random() < 0.4:
            before, place = place, f"{drive.folder}/{number}"
            save(drive, before, place, number - 1)
            drive.begin(opened(place))
        drive.run(number, batch)
        journal(place).commit(number)


def save(drive: Drive, source: str, target: str, number: int) -> None:
    """Take a savepoint after a batch; in some of them one or two events are repaired."""
    if drive.chance.random() < 0.3 and drive.scenario.bolt is not None:
        changed, out = drive.drawn_repair(state_tables.read(source)["events"].to_pylist())
        if changed or out:
            with suppress(DataError):
                repair(source, target, {"bolt": changed} if changed else {}, without={"bolt": out} if out else {})
                drive.note_repair(number, changed, out)
                return
    take_savepoint(PairedCheckpoint(source), target)


def gone_back(drive: Drive) -> None:
    """After some batches the run goes back to an earlier one, and does them again."""
    checkpoint, batches = drive.checkpoint, drive.batches
    assert isinstance(checkpoint, MemoryCheckpoint)
    for number, batch in enumerate(batches):
        if drive.chance.random() < 0.25:
            kept = list(checkpoint._committed), dict(checkpoint._plans), dict(checkpoint.segments.tables)
            recorded = drive.recording, drive.said
            drive.recording, drive.said = Recording(), []
            drive.begin()
            with suppress(Stopped):
                for ahead in range(number, min(number + 2, len(batches))):
                    drive.run(ahead, batches[ahead])
            drive.stopped = None
            checkpoint._committed, checkpoint._plans, checkpoint.segments.tables = kept
            drive.recording, drive.said = recorded
            drive.begin()
        drive.run(number, batch)


def rescaled(drive: Drive) -> None:
    """Several tasks, and another number of them after some batches, where what they keep can be moved."""
    tasks, chance = drive.chance.choice([1, 2, 3]), drive.chance
    drive.use(build_bare(drive.scenario, tasks))
    for number, batch in enumerate(drive.batches):
        drive.run(number, batch, "commit" if batch.crash else None)
        if chance.random() >= 0.3:
            continue
        wanted = chance.choice([each for each in (1, 2, 3, 5) if each != tasks])
        topology = build_bare(drive.scenario, wanted)
        way = BoltRules.of(topology, topology.windowed["bolt"])
        if way.reasons_not_to_move or (way.reasons_not_to_divide and tasks % wanted):
            continue
        sink, before = topology.sinks["rows"].sink, drive.topology.sinks["rows"].sink
        assert isinstance(sink, MemorySink)
        assert isinstance(before, MemorySink)
        sink.batches.update(before.batches)
        segments = drive.checkpoint.segments
        with segments.writer(f"moved-{number}") as writer:
            state = drive.step.manifest.bolts["bolt"]
            drive.put(moved_state(state, Route("bolt", way, wanted), segments, writer))
        drive.use(topology)
        tasks = wanted


def may_have_tasks(scenario: Scenario) -> bool:
    """True if the answer is the same for any number of tasks: all is decided by key."""
    rules = scenario.rules
    edges = set(rules.key) if rules.lifetime is None or rules.lifetime.shape_field is None else rules.lifetime.edge_key
    return bool(rules.key) and rules.message_id_field is None and set(rules.key) <= set(edges)


WAYS: dict[str, Callable[[Drive], None]] = {
    "as it is": in_one_go,
    "asked": asked,
    "hashed alike": hashed_alike,
    "on disk": on_disk,
    "copied": copied,
    "gone back": gone_back,
    "rescaled": rescaled,
    "repaired": repaired,
    "saved": saved,
}


def driven(way: str, scenario: Scenario, topology: Topology) -> Drive:
    """What the product answers, in one of the ways."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="windbolt-") as folder:
        drive = Drive(scenario, topology, Random(len(scenario.steps)), folder)
        with suppress(Stopped):
            WAYS[way](drive)
        drive.finish()
        return drive


def standing(rows: list[Json]) -> list[Json]:
    """What remains of rows after all retractions (guide, "Firing more than once")."""
    left: list[Json] = []
    for row in rows:
        content = {name: value for name, value in row.items() if name != RETRACT}
        if row.get(RETRACT):
            left.remove(content)  # nothing is taken back that does not stand
        else:
            left.append(content)
    return sorted(left, key=str)
