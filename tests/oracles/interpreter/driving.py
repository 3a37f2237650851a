"""Ways in which the product comes to the answer of a drawn case: in one go, crashing, rescaled, going back, ..."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa

from manager.storage.checkpoint import FileCheckpoint, MemoryCheckpoint
from manager.storage.manifest import BoltState, batch_key
from tests.helpers.crowding import crowded
from tests.oracles.interpreter import asking
from tests.oracles.interpreter.asking import Said
from tests.oracles.interpreter.bolt import Repairs, Source, partition_of
from tests.oracles.interpreter.keeping import INITIAL
from tests.oracles.interpreter.values import Json
from topologies.checkpoints import state_tables
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.file_journal import FileJournal
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.repair import BoltRepair, GivenEvents, repair
from topologies.checkpoints.rescale import Route, moved_state
from topologies.checkpoints.savepoint import take_savepoint
from topologies.checkpoints.state_tables import event_table, window_table
from topologies.checkpoints.stored_tasks import TaskReader, readers_of
from topologies.engine.batch import BatchPlan, InProcess
from topologies.engine.micro_batch import MicroBatch, Phase
from topologies.engine.report import BatchReport
from topologies.engine.task_data import SourceBatch
from topologies.graph.bolt_rules import BoltRules
from topologies.graph.graph import stream_label
from topologies.io.sinks import MemorySink
from topologies.scenarios.replay import Recording
from topologies.scenarios.scenario_bolt import bare_bolt, imports_of, schema_of
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.script import ScenarioSpout, ScriptBatch, ScriptedEvents, ScriptSplit, script
from topologies.topology import Topology, TopologyBuilder
from windowing.bolts.windowed_bolt import StatefulWindowedBolt, WindowedBolt
from windowing.errors import BoltError, DataError, TopologyError
from windowing.schema import DEFAULT_STREAM
from windowing.settings.kinds import Session
from windowing.settings.panes import RETRACT, PaneMode
from windowing.settings.rules import SOURCE
from windowing.spout import PartitionedSpout
from windowing.window import TupleWindow

STOPPING = (DataError, BoltError)
"""The errors of rules that stop a run."""
PHASES: tuple[Phase, ...] = ("ingest", "tick", "fire", "commit")
"""Those that each batch has before it is committed."""
_MEMORY = Path("/dev/shm")


class Told(WindowedBolt):
    """Emits a row for each window: which it is, and its events."""

    outputs: ClassVar[dict[str, str]] = {
        "default": "start long, end long, key string, kind long, events string, number long",
    }

    def execute(self, window: TupleWindow) -> Json:
        return {
            "start": window.start_timestamp,
            "end": window.end_timestamp,
            "key": str(as_texts(window.key)),
            "kind": window.kind,
            "events": ",".join(window.table.column("id").to_pylist()),
            "number": self.counted(window.key),
        }

    def counted(self, key: Any) -> int | None:
        return None


class Counting(Told, StatefulWindowedBolt):
    """And how many windows of its key have fired by then, which a table holds."""

    def __init__(self, keys: dict[str, str]) -> None:
        """``keys``: the columns of the key, and the types in which the bolt keeps them."""
        self.keys = tuple(keys)
        columns = [*(f"of_{name} {kind}" for name, kind in keys.items()), "number long"]
        self.__dict__["state_types"] = {"fired": ", ".join(columns)}
        self.__dict__["state_keys"] = {"fired": {name: f"of_{name}" for name in keys}}

    def counted(self, key: Any) -> int | None:
        known, values = self.state["fired"].to_pylist(), key if len(self.keys) > 1 else (key,)
        of_key = {f"of_{name}": value for name, value in zip(self.keys, values, strict=True)}
        others = [row for row in known if any(row[name] != value for name, value in of_key.items())]
        number = sum(row["number"] for row in known if row not in others) + 1
        rows = [*others, {**of_key, "number": number}]
        self.state["fired"] = pa.Table.from_pylist(rows, self.state["fired"].schema)
        return number


@dataclass
class Driven:
    """What the product answered."""

    answer: Json
    opened: list[dict[str, list[Json]]]
    """After each batch: the open windows of each bolt, as ``windbolt state`` lists them."""
    keys: list[dict[str, list[Json]]]
    """After each batch: what each bolt keeps of keys."""
    rows: list[Json]
    """What the bolt emitted."""
    retracts: bool
    """Whether firings have taken back rows of earlier ones."""
    repairs: Repairs
    said: list[dict[str, Said]]
    """After each batch: what the checkpoint said of each bolt, where it was asked."""
    stopped: tuple[int, str] | None
    """The batch that failed, and with which error; None where none did."""


@dataclass(frozen=True)
class Played:
    """A case: its steps, its topology, and the bolts of it that are asked."""

    scenario: Scenario
    topology: Topology
    asks: tuple[str, ...] = ("bolt",)
    keeps: tuple[str, ...] = ()
    """The bolts of ``keeping``."""
    source: Source | None = None
    """The partitions that its source has, where that is one with partitions."""

    @cached_property
    def rules(self) -> dict[str, BoltRules]:
        """The rules of its bolts, which follow from the topology alone."""
        return {name: BoltRules.of(self.topology, node) for name, node in self.topology.windowed.items()}


class Stopped(Exception):
    """A run that a rule has stopped, with what was committed before."""

    def __init__(self, driven: Driven) -> None:
        super().__init__(driven.stopped)
        self.driven = driven


class Partitioned(PartitionedSpout):
    """A source with partitions; its events come in splits of the case."""

    def __init__(self, schema: pa.Schema) -> None:
        self.__dict__["schema"] = schema

    def partitions(self) -> list[str]:
        raise NotImplementedError

    def end(self, partition: str, start: Any, limit: int) -> Any:
        raise NotImplementedError

    def read(self, partition: str, start: Any, end: Any) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class PartitionedSplit:
    """The events of a micro-batch in order of arrival, each with its partition."""

    parts: list[tuple[str, ScriptedEvents]]

    def read(self, topology: Topology) -> Iterator[SourceBatch]:
        for partition, events in self.parts:
            for batch in ScriptSplit((events.to_json(),)).read(topology):
                yield replace(batch, partition=partition)


def topology_of(scenario: Scenario, tasks: int = 1) -> Topology:
    """The bolt of a scenario, which emits its windows and, where that can be, takes back those of earlier firings; with
    several tasks by its key."""
    try:
        return _topology(scenario, tasks, retracting=True)
    except TopologyError:
        return _topology(scenario, tasks, retracting=False)


def _topology(scenario: Scenario, tasks: int, *, retracting: bool) -> Topology:
    assert scenario.bolt is not None
    builder, streams = TopologyBuilder("drawn"), scenario.streams
    keys = dict.fromkeys(scenario.rules.key, "string")
    if are_numbers(scenario):  # the bolt keeps them in another type than that by which its events are grouped
        keys = dict.fromkeys(keys, "double")
    columns = dict(scenario.columns)
    columns |= {name: "whole" for name, kind in keys.items() if kind == "double"}
    schema, source = schema_of(scenario.rules, columns), scenario.meta.get("source")
    spout: Any = ScenarioSpout(tuple(streams), schema)
    if source is None:
        builder.set_spout("events", spout)
        places = {stream: ("events", stream) for stream in streams}
    else:
        places = {stream: (stream, DEFAULT_STREAM) for stream in streams}
        for stream in streams:
            builder.set_spout(stream, Partitioned(schema))
    labels = {stream: stream_label(place) for stream, place in places.items()}
    imports = {labels[to]: labels[of] for to, of in (imports_of(scenario.bolt) or {}).items()}
    partitions: Any = scenario.partitions
    if isinstance(partitions, dict):
        partitions = {labels[stream]: names for stream, names in partitions.items()}
    bare = bare_bolt(scenario.bolt, imports, partitions, scenario.policies)
    if source is not None and bare.settings.watermark_partition is not SOURCE:
        bare = bare.with_watermark(partition=SOURCE)
    settings = bare.settings
    if retracting and settings.panes is not None and settings.panes.mode is PaneMode.ACCUMULATING:
        settings = replace(settings, panes=replace(settings.panes, mode=PaneMode.RETRACTING))
    declarer = builder.set_bolt("bolt", (Counting(keys) if keys else Told()).configured(settings), tasks)
    for component, stream in places.values():
        if tasks > 1 or scenario.rules.key:
            declarer.fields_grouping(component, *scenario.rules.key, stream=stream)
        else:
            declarer.global_grouping(component, stream=stream)
    builder.set_sink("rows", MemorySink()).from_("bolt")
    return builder.build()


def are_numbers(scenario: Scenario) -> bool:
    """True if the keys of a scenario's events are whole numbers."""
    keys = [step.event.get(name) for step in scenario.event_steps for name in scenario.rules.key]
    return scenario.rules.listed_keys is None and {type(key) for key in keys} <= {int, type(None)} != {type(None)}


def as_texts(key: Any) -> Any:
    """A key of an answer, as the interpreter has it."""
    if isinstance(key, list | tuple):
        return type(key)(as_texts(each) for each in key)
    return None if key is None else str(key)


@dataclass
class DrawnRepair:
    """Stored events that are changed, and those that are taken out, as rows of ``windbolt state``."""

    changed: list[Json]
    """With other ids: an apostrophe after them."""
    out: list[Json]

    @property
    def told(self) -> tuple[set[str], dict[str, str]]:
        """As the interpreter is told: the ids that are taken out, and the new ids by the old ones."""
        return {row["id"] for row in self.out}, {row["id"][:-1]: row["id"] for row in self.changed}


@dataclass
class Drive:
    """A run of a case, batch by batch."""

    case: Played
    checkpoint: MemoryCheckpoint | FileCheckpoint
    recording: Recording = field(default_factory=Recording)
    opened: list[dict[str, list[Json]]] = field(default_factory=list)
    keys: list[dict[str, list[Json]]] = field(default_factory=list)
    repairs: Repairs = field(default_factory=dict)
    asks: Random | None = None
    """Draws questions after each batch; None: it is asked nothing."""
    said: list[dict[str, Said]] = field(default_factory=list)
    stopped: tuple[int, str] | None = None
    step: MicroBatch = field(init=False)
    _readers: dict[str, tuple[BoltState, list[TaskReader]]] = field(default_factory=dict)
    """The readers of each bolt, and the state that they read."""

    def __post_init__(self) -> None:
        self.begin()

    @property
    def topology(self) -> Topology:
        return self.case.topology

    @property
    def rules(self) -> dict[str, BoltRules]:
        return self.case.rules

    def readers(self, name: str) -> list[TaskReader]:
        """What reads the tasks of a bolt, as they are after the last batch; all who ask then share what has been
        read."""
        state = self.step.manifest.bolts[name]
        read, readers = self._readers.get(name, (None, []))
        if read is not state:
            readers = readers_of(state, self.checkpoint.segments, self.rules[name])
            self._readers[name] = state, readers
        return readers

    def begin(self) -> None:
        """Another process goes on."""
        self.step = self.recording.watch(MicroBatch(self.topology, self.checkpoint, InProcess()))

    def run(self, number: int, batch: ScriptBatch, crash: Phase | None = None) -> None:
        """Run a batch, after a crash in a phase of it."""
        plan = self.plan(number, batch)
        if crash is not None:
            self.crash(plan, crash)
        report = self.attempt(plan)
        self.note(batch, report)

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
        raise Stopped(self.driven())

    def plan(self, number: int, batch: ScriptBatch) -> BatchPlan:
        split: Any = ScriptSplit(tuple(arrival.to_json() for arrival in batch.arrivals))
        exist: dict[str, tuple[str, ...]] = {}
        if self.case.source is not None:
            split = PartitionedSplit(list(self.parts(number, batch, self.case.source)))
            exist = {
                stream: tuple(name for name, since in names.items() if since <= number)
                for stream, names in self.case.source.items()
            }
        splits = [split] if batch.arrivals else []
        return BatchPlan(number, batch.advance, splits, run=self.step.run_id, partitions=exist)

    def parts(self, number: int, batch: ScriptBatch, source: Source) -> Iterator[tuple[str, ScriptedEvents]]:
        """The events of a batch, one by one, each with its partition."""
        steps = self.case.scenario.event_steps
        for arrival in batch.arrivals:
            for at, row in enumerate(arrival.rows, arrival.first):
                one = ScriptedEvents(arrival.stream, DEFAULT_STREAM, arrival.clock, [row], at)
                yield partition_of(source[arrival.stream], steps[at].event, number), one

    def crash(self, plan: BatchPlan, phase: Phase) -> None:
        def fail(now: str) -> None:
            if now == phase:
                raise _Crash

        self.step.hook = fail
        try:
            self.step.run(plan)
        except (_Crash, *STOPPING):
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

    def note(self, batch: ScriptBatch, report: BatchReport) -> None:
        self.recording.note(batch, report)
        opened = {name: self.open_windows(name, batch.advance.clock) for name in self.case.asks}
        self.opened.append(opened | {name: self.states(name) for name in self.case.keeps})
        self.keys.append({name: self.of_keys(name) for name in self.topology.windowed})
        if self.asks is not None:
            self.said.append({name: self.ask(name, self.asks) for name in self.case.asks})

    def ask(self, name: str, chance: Random) -> Said:
        """Asks the checkpoint, of windows that are open and of windows that were, and of some key."""
        node, before = self.topology.windowed[name], {row["end"] for opened in self.opened for row in opened[name]}
        columns, ends = node.bolt.settings.key, {row["end"] for row in self.opened[-1][name]} - {None}
        keys = {",".join(str(step.event.get(each)) for each in columns) for step in self.case.scenario.event_steps}
        past = sorted(before - ends - {None})
        drawn = asking.questions(chance, name, sorted(keys) if columns else [], sorted(ends), past)
        segments, readers = self.checkpoint.segments, self.readers(name)
        return asking.said(self.step.manifest, segments, self.rules, readers, node, list(drawn))

    def open_windows(self, name: str, clock: int) -> list[Json]:
        """What ``windbolt state`` says of the open windows."""
        node = self.topology.windowed[name]
        keys = pa.schema([node.schema.field(name) for name in node.bolt.settings.key])
        found = []
        for row in in_micros(window_table(self.readers(name), clock, keys), "start", "end").to_pylist():
            key = as_texts([row[name] for name in node.bolt.settings.key])
            found.append(
                {
                    "kind": row["kind"],
                    "key": key,
                    "start": row["start"],
                    "end": row["end"],
                    "events": row["events"],
                    "firings": row["firings"],
                }
            )
        return sorted(found, key=str)

    def of_keys(self, name: str) -> list[Json]:
        """What ``windbolt state`` says of keys: the watermarks that they have of their own, the ends of their last
        windows with events, and the caches of the rules of their triggers."""
        node = self.topology.windowed[name]
        columns = node.bolt.settings.key
        keys = pa.schema([node.schema.field(each) for each in columns])
        tables = state_tables.kept_tables(self.readers(name), keys, "marks", "known", "records")
        times = ("watermark", "last_end")
        return [
            {
                "key": tuple(as_texts([row[each] for each in columns])) or None,
                **{each: row[each] for each in times},
                "cache": None if row["cache"] is None else json.loads(row["cache"]),
            }
            for row in in_micros(tables["keys"], *times).to_pylist()
        ]

    def states(self, name: str) -> list[Json]:
        """What ``windbolt state`` says of the states of keys, or of tasks: all that are kept of keys, and those of
        tasks that are not as in the beginning."""
        key = (node := self.topology.windowed[name]).bolt.settings.key
        tables = state_tables.kept_tables(self.readers(name), pa.schema([node.schema.field(each) for each in key]))
        found: dict[tuple[Any, ...], Json] = {}
        for table in ("state", "state.last"):
            for row in tables[table].to_pylist() if table in tables else []:
                place = row["task"], *(row[each] for each in key)
                state = found.setdefault(place, {"task": place[0], "key": list(place[1:]), "number": 0, "last": []})
                if table == "state":
                    state[row["name"]] = int(row["value"])
                else:
                    state["last"].append(row["id"])
        return [state for state in found.values() if key or (state["number"], state["last"]) != INITIAL]

    def driven(self) -> Driven:
        segments = self.checkpoint.segments
        found = self.recording.answer(self.case.scenario, self.topology, self.step.manifest, segments).to_json()
        found["windows"] = [{**window, "key": as_texts(window.get("key"))} for window in found["windows"]]
        sinks = [node.sink for name, node in self.topology.sinks.items() if name == "rows"]
        rows = [row for sink in sinks if isinstance(sink, MemorySink) for row in sink.rows]
        retracts = any(node.retracts for node in self.topology.windowed.values())
        return Driven(found, self.opened, self.keys, rows, retracts, self.repairs, self.said, self.stopped)

    def repair(self, number: int, chance: Random) -> None:
        """After this batch one or two stored events are taken out, if that can be, or get other ids."""
        assert isinstance(self.checkpoint, MemoryCheckpoint)
        state, store = self.step.manifest.bolts["bolt"], self.checkpoint.segments
        node = self.topology.windowed["bolt"]
        rules, columns = self.rules["bolt"], node.schema
        rows = event_table(self.readers("bolt"), rules.inputs, columns).to_pylist()
        drawn = self.drawn_repair(rows, chance)
        if drawn is None:
            return
        changed, out = (GivenEvents.of("bolt", rows) if rows else None for rows in (drawn.changed, drawn.out))
        try:
            found = BoltRepair.of("bolt", state, rules, store, columns, (changed, out))
        except DataError:
            return
        with store.writer(f"repaired-{number}") as writer:
            self.step.manifest.bolts["bolt"] = found.written(writer)
        self.checkpoint._committed[-1] = self.step.manifest.to_json()
        self.repairs[number] = drawn.told
        self.begin()

    def drawn_repair(self, rows: list[Json], chance: Random) -> DrawnRepair | None:
        """A repair of one or two of these stored events; None where there are none."""
        rows = chance.sample(rows, min(len(rows), chance.choice([1, 1, 2])))
        if not rows:
            return None
        rules = self.case.scenario.rules
        stays = any(isinstance(kind, Session) and kind.max_duration is not None for kind in rules.kinds)
        stays |= rules.lifetime is not None and rules.lifetime.shape_field is not None
        if chance.random() < 0.6 and not stays:  # what a longest duration has cut off, and halves of edges, stay
            return DrawnRepair([], rows)
        return DrawnRepair([{**row, "id": f"{row['id']}'"} for row in rows], [])


class _Crash(Exception):
    """Everything in memory is lost."""


def in_micros(table: pa.Table, *times: str) -> pa.Table:
    """The table with these columns of times as whole microseconds."""
    for name in times:
        table = table.set_column(table.column_names.index(name), name, table.column(name).cast(pa.int64()))
    return table


# ---- the ways


def in_one_go(case: Played, chance: Random, *, asks: Random | None = None) -> Driven:
    """Every batch in the process of the one before."""
    drive = Drive(case, MemoryCheckpoint(), asks=asks)
    for number, batch in enumerate(script(case.scenario)):
        drive.run(number, batch, "commit" if batch.crash else None)
    return drive.driven()


def asked(case: Played, chance: Random) -> Driven:
    """In one go, and after each batch the checkpoint is asked what waits, and for what."""
    return in_one_go(case, chance, asks=chance)


def hashed_alike(case: Played, chance: Random) -> Driven:
    """In one go, where all keys have one or two hashes."""
    with crowded(chance.choice([1, 1, 2])):
        return in_one_go(case, chance)


def on_disk(case: Played, chance: Random) -> Driven:
    """The checkpoint is a folder; batches crash in any phase, and other processes go on."""
    with _folder() as folder:
        drive = Drive(case, FileCheckpoint(f"{folder}/windbolt"))
        for number, batch in enumerate(script(case.scenario)):
            drive.run(number, batch, chance.choice(PHASES) if batch.crash or chance.random() < 0.3 else None)
            if chance.random() < 0.3:
                drive.checkpoint = FileCheckpoint(f"{folder}/windbolt")
                drive.begin()
        return drive.driven()


def copied(case: Played, chance: Random) -> Driven:
    """The folder is copied somewhere else after a batch, and the run goes on there."""
    with _folder() as folder:
        drive = Drive(case, FileCheckpoint(f"{folder}/0/windbolt"))
        for number, batch in enumerate(script(case.scenario)):
            drive.run(number, batch)
            if chance.random() < 0.3:
                shutil.copytree(f"{folder}/{number}", f"{folder}/{number + 1}")
                shutil.rmtree(f"{folder}/{number}")
            else:
                Path(f"{folder}/{number}").rename(f"{folder}/{number + 1}")
            drive.checkpoint = FileCheckpoint(f"{folder}/{number + 1}/windbolt")
            drive.begin()
        return drive.driven()


def saved(case: Played, chance: Random) -> Driven:
    """After some batches a savepoint is taken, also where the next batch has crashed, and the run goes on with that;
    some have repaired events."""
    with _folder() as folder:
        place, topology = f"{folder}/0", case.topology
        drive = Drive(case, opened(place, topology))
        for number, batch in enumerate(script(case.scenario)):
            journal = FileJournal(PairedCheckpoint(place).spark_checkpoint, [], heartbeats=True, uri=None)
            planned = journal.plan({}, batch.advance.clock, heartbeat=True)
            assert planned == number
            drive.checkpoint.plan(batch_key(number, False), {})
            if batch.crash or chance.random() < 0.2:
                drive.crash(drive.plan(number, batch), chance.choice(PHASES))
            if number and chance.random() < 0.4:
                before, place = place, f"{folder}/{number}"
                save(drive, before, place, number - 1, chance)
                drive.checkpoint = opened(place, topology)
                drive.begin()
            drive.run(number, batch)
            journal = FileJournal(PairedCheckpoint(place).spark_checkpoint, [], heartbeats=True, uri=None)
            journal.commit(number)
        return drive.driven()


def opened(place: str, topology: Topology) -> FileCheckpoint:
    """windbolt's half of a checkpoint, which has the notes of a run."""
    return open_checkpoint(PairedCheckpoint(place), topology).files


def save(drive: Drive, source: str, target: str, number: int, chance: Random) -> None:
    """Take a savepoint after a batch; in some of them one or two events are repaired."""
    if chance.random() < 0.3 and drive.case.scenario.bolt is not None:
        drawn = drive.drawn_repair(state_tables.read(source)["events"].to_pylist(), chance)
        if drawn is not None:
            changed, out = ({"bolt": rows} if rows else {} for rows in (drawn.changed, drawn.out))
            try:
                repair(source, target, changed, without=out)
            except DataError:
                pass
            else:
                drive.repairs[number] = drawn.told
                return
    take_savepoint(PairedCheckpoint(source), target)


def gone_back(case: Played, chance: Random) -> Driven:
    """After some batches the run goes back to an earlier one, and does them again."""
    checkpoint = MemoryCheckpoint()
    drive, batches = Drive(case, checkpoint), script(case.scenario)
    for number, batch in enumerate(batches):
        if chance.random() < 0.25:
            kept = list(checkpoint._committed), dict(checkpoint._plans), dict(checkpoint.segments.tables)
            recording, opened, drive.recording = drive.recording, drive.opened, Recording()
            keys, drive.opened, drive.keys = drive.keys, [], []
            drive.begin()
            with suppress(Stopped):
                for ahead in range(number, min(number + 2, len(batches))):
                    drive.run(ahead, batches[ahead])
            drive.stopped = None
            checkpoint._committed, checkpoint._plans, checkpoint.segments.tables = kept
            drive.recording, drive.opened, drive.keys = recording, opened, keys
            drive.begin()
        drive.run(number, batch)
    return drive.driven()


def rescaled(case: Played, chance: Random) -> Driven:
    """Several tasks, and another number of them after some batches, where what they keep can be moved."""
    checkpoint, tasks, scenario = MemoryCheckpoint(), chance.choice([1, 2, 3]), case.scenario
    drive = Drive(Played(scenario, topology_of(scenario, tasks), source=case.source), checkpoint)
    for number, batch in enumerate(script(case.scenario)):
        drive.run(number, batch, "commit" if batch.crash else None)
        if chance.random() < 0.3:
            wanted = chance.choice([each for each in (1, 2, 3, 5) if each != tasks])
            topology = topology_of(scenario, wanted)
            way = BoltRules.of(topology, topology.windowed["bolt"])
            if way.fixed or (way.whole and tasks % wanted):
                continue
            sink, before = topology.sinks["rows"].sink, drive.topology.sinks["rows"].sink
            assert isinstance(sink, MemorySink)
            assert isinstance(before, MemorySink)
            sink.batches.update(before.batches)
            manifest = drive.step.manifest
            with checkpoint.segments.writer(f"moved-{number}") as writer:
                state = moved_state(manifest.bolts["bolt"], Route("bolt", way, wanted), checkpoint.segments, writer)
            manifest.bolts["bolt"] = state
            checkpoint._committed[-1] = manifest.to_json()
            drive.case, tasks = Played(scenario, topology, source=case.source), wanted
            drive.begin()
    return drive.driven()


def repaired(case: Played, chance: Random) -> Driven:
    """Between batches stored events are taken out, and have other values."""
    drive = Drive(case, MemoryCheckpoint())
    for number, batch in enumerate(script(case.scenario)):
        drive.run(number, batch, "commit" if batch.crash else None)
        if chance.random() < 0.4:
            drive.repair(number, chance)
    return drive.driven()


def may_have_tasks(scenario: Scenario) -> bool:
    """True if the answer is the same for any number of tasks: all is decided by key."""
    rules = scenario.rules
    edges = set(rules.key) if rules.lifetime is None or rules.lifetime.shape_field is None else rules.lifetime.edge_key
    return bool(rules.key) and rules.message_id_field is None and set(rules.key) <= set(edges)


WAYS: dict[str, Callable[[Played, Random], Driven]] = {
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


def driven(way: str, case: Played, chance: Random) -> Driven:
    """What the product answers, in one of the ways."""
    try:
        return WAYS[way](case, chance)
    except Stopped as stop:
        return stop.driven


@contextmanager
def _folder() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None, prefix="windbolt-") as folder:
        yield folder


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
