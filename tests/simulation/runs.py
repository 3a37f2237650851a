"""Runs in the simulated world: those that faults happen to, and the same steps once more without any."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

from manager.storage.manifest import batch_key, batch_number
from tests.simulation.broker import Broker, Ends, Range, RecordJournal, ingested, limited
from tests.simulation.executor import SimulatedExecutor
from tests.simulation.faults import Weather
from tests.simulation.world.bolts import CODE
from tests.simulation.world.plan import WorldPlan
from tests.simulation.world.world import World
from topologies.checkpoints.checkpointed_run import IngestRows
from topologies.engine.batch import BatchPlan, Context, InProcessExecutor
from topologies.engine.kafka_records import OpenAdmin
from topologies.engine.task_data import TaskOutput
from topologies.graph.graph import Graph
from topologies.io.file_spout import FoundFile
from topologies.local import LocalRun
from topologies.run.options import RunOptions


class Step(NamedTuple):
    """What a step was, as it was planned."""

    clock: int
    slots: int
    run: str
    """The id of the run that planned it: the cache of an aggregation step may end with its run."""
    files: tuple[tuple[str, str], ...]
    """The spout and the name of each."""
    records: tuple[Range, ...] = ()
    """Those of the broker."""
    ends: Ends | None = None
    """How far it goes in each partition."""
    tasks: Mapping[str, int] = MappingProxyType({})
    """How many tasks bolts had."""
    code: int = 0
    """The version of their code."""

    def of(self, spout: str) -> list[str]:
        """The names of those of one spout."""
        return [name for of, name in self.files if of == spout]


class Playing(Protocol):
    """Who plays a case, to its runs."""

    chance: random.Random
    weather: Weather
    late: list[Callable[[], Any]]
    steps: dict[str, Step]
    world: World
    plan: WorldPlan

    def begins(self, run: WildRun) -> None: ...
    def opened(self, run: WildRun) -> None: ...
    def planned(self, key: str, plan: dict[str, Any]) -> None: ...


class BrokerRun(LocalRun):
    """A run whose only spout may be a topic of the broker; else its spouts read files."""

    broker: Broker | None

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        if self.broker is None:
            return super()._open_source()
        self.spouts = {}
        return (), tuple(self.topology.spouts)

    def batch(self, number: int, rows: IngestRows = lambda slots, there: None) -> None:
        """Run a batch, of records where there is a broker."""
        super().batch(number, rows if self.broker is None else self._records(self.broker, number))

    def _compare_topics(self, open_admin: OpenAdmin) -> None:
        if self.broker is None:  # which makes no topic anew
            super()._compare_topics(open_admin)

    def _plan_next(self, found: Mapping[Any, Any], *, heartbeat: bool) -> int:
        if self.broker is None:
            return super()._plan_next(found, heartbeat=heartbeat)
        number: int = self.journal.plan(found, self._now(), heartbeat=heartbeat)
        self.checkpoint.check_owner()
        return number

    def _records(self, broker: Broker, number: int) -> IngestRows:
        ranges = self.journal.ranges(number)

        def rows(slots: int, there: Any) -> Callable[[Context], list[TaskOutput]]:
            spout = next(iter(self.topology.spouts))
            return lambda context: ingested(broker, spout, ranges, self.executor, context, slots)

        return rows

    def _open_journal(self) -> RecordJournal:
        journal = RecordJournal(self.halves.spark_checkpoint, heartbeats=self.topology.needs_heartbeat)
        self.journal: Any = journal
        return journal


class WildRun(BrokerRun):
    """A run in the simulated world."""

    def __init__(self, topology: Graph, options: RunOptions, play: Playing) -> None:
        self.play, self.simulated_phase, self.broker = play, "opening", play.world.broker
        self.begun: dict[str, Step] = {}
        """By its key, each batch that it has begun; in a store, which says itself what is committed."""
        play.begins(self)
        super().__init__(topology, options)

    def _begin(self, resources: ExitStack) -> None:
        chance = random.Random(self.play.chance.getrandbits(64))
        self.executor = SimulatedExecutor(self.play.weather, chance, self.play.late)

    def _batches(self) -> None:
        self.micro_batch.hook = self._hook
        self.simulated_phase = "listing"
        if self.broker is None:
            super()._batches()
        else:
            self._batches_of(self.broker, self._open_journal())
        self.simulated_phase = "ending"

    def _batches_of(self, broker: Broker, journal: RecordJournal) -> None:
        """Batches of some of what is new in each partition; to the end, or at intervals."""
        if journal.unfinished is not None:
            self._run_and_note(journal.unfinished)
        chance, stop = self.play.chance, self.options.stop
        beat = self.topology.needs_heartbeat
        while not stop.is_set():
            new = journal.reached != broker.ends
            if new or beat:
                ends = limited(journal.reached, broker.ends, chance.choice([0, 0.3, 0.5, 1, 1]))
                self._run_and_note(self._plan_next(ends, heartbeat=True))
            if self.options.interval is not None:
                stop.wait()
            elif not new:
                break
            else:
                beat = False

    @property
    def locked(self) -> bool:
        """Whether it has the checkpoint to itself."""
        halves = getattr(self, "halves", None)
        return halves is not None and halves.lock._lock_file is not None and not halves.lock._lock_file.closed

    def _hook(self, phase: str) -> None:
        self.simulated_phase = phase

    def _open(self) -> None:
        super()._open()
        self.play.opened(self)

    def _first_plan(self, key: str, drafted: dict[str, Any]) -> dict[str, Any]:
        self.plan = super()._first_plan(key, drafted)
        self.play.planned(key, self.plan)
        return self.plan

    def _run(self, plan: BatchPlan) -> None:
        key, planned = batch_key(plan.batch, plan.closing), self.plan
        files = tuple((spout, os.path.basename(path)) for spout, path in planned.get("files", ()))
        now = Step(planned["clock"], planned.get("slots", 1), planned["run"], files, tasks=dict(self.play.world.tasks))
        now = now._replace(code=CODE.version)
        if self.broker is not None and not plan.closing:
            now = now._replace(records=self.journal.ranges(plan.batch), ends=self.journal.ends(plan.batch))
        self.begun[key] = now
        if not self.play.plan.store:
            self._note_begun(key, now)
        super()._run(plan)

    def _note_begun(self, key: str, now: Step) -> None:
        committed = self.micro_batch.manifest.batch, self.micro_batch.manifest.closing
        for step in [step for step in self.play.steps.items() if in_time(step) > committed]:
            del self.play.steps[step[0]]  # it did not come to its commit, or a power cut has taken that back
        self.play.steps[key] = now


class CalmRun(BrokerRun):
    """The steps of other runs, once more."""

    executor: _Here

    def __init__(self, world: World, options: RunOptions, steps: dict[str, Step]) -> None:
        self.broker = world.broker
        self.steps = dict(sorted(steps.items(), key=in_time))
        self.at = ""
        super().__init__(world.topology, options)

    def _begin(self, resources: ExitStack) -> None:
        self.executor = _Here()

    def _batches(self) -> None:
        if self.broker is None:
            self.options.stop.set()  # the journal, and no batch
            super()._batches()
            self.options.stop.clear()
        else:
            self._open_journal()
        for key, step in self.steps.items():
            self.at, self.executor.slots, self.micro_batch.run_id = key, step.slots, step.run
            CODE.version = step.code
            if key.endswith("-close"):
                self._close()
                continue
            found: Any = {name: self._listed(name, step.of(name)) for name in self.spouts}
            self._run_and_note(self.journal.plan(found or step.ends or {}, step.clock, heartbeat=True))

    def _listed(self, spout: str, names: list[str]) -> list[FoundFile]:
        listed = {os.path.basename(each.path): each for each in self.spouts[spout].list_files()}
        return [listed[name] for name in names]

    def _now(self) -> int:
        return self.steps[self.at].clock


class _Here(InProcessExecutor):
    slots = 1

    def load(self, topology: Graph) -> None:
        """They have the topology."""

    def close(self) -> None:
        """There is nothing to free."""


def in_time(step: tuple[str, Step]) -> tuple[int, bool]:
    return batch_number(step[0]), step[0].endswith("-close")
