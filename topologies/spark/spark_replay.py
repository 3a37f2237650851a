"""Scenarios on Spark: a micro-batch ends at each tick, clock step, crash and close.

Scenarios of bare bolts run side by side, as bolts of one topology in one run, and so do scenarios of steps; a user's
topology has a run of its own. A run is a Spark query or, over Spark Connect, a run of the driver. A crash ends it
before the commit of its batch; a new run continues from the checkpoint.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from manager.storage.manifest import batch_key
from topologies.checkpoints.checkpointed_run import open_checkpoint
from topologies.checkpoints.file_journal import FileJournal, FileLog
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.engine.batch import BatchPlan, RunExecutor, TimeAdvance
from topologies.engine.micro_batch import Crash, MicroBatch
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import Graph
from topologies.io.file_spout import FileSpout, WatchedFiles
from topologies.io.formats import file_format
from topologies.io.paths import literal, shown_path
from topologies.run.clock import system_clock
from topologies.run.options import RunOptions, is_over_connect
from topologies.scenarios.replay import Recording, judge, judge_midway
from topologies.scenarios.scenario_answer import ReplayResult
from topologies.scenarios.scenario_model import Scenario
from topologies.scenarios.script import (
    ScriptBatch,
    ScriptSplit,
    add_bare_bolt,
    join_topologies,
    scenario_topology,
    script,
    with_only_spout,
    with_prefix,
)
from topologies.spark.running import session_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    from topologies.spark.connect_run import ConnectExecutor
    from topologies.spark.spark_tasks import TaskExecutor


def replay_on_spark(
    scenarios: Sequence[Scenario],
    topology: Graph | None = None,
    *,
    spark: Any = None,
) -> list[ReplayResult]:
    """Returns the results of scenarios, in their order, from real Spark queries. Over Spark Connect, if ``spark`` or
    SPARK_REMOTE selects it, they come from runs whose tasks run on Spark.

    Batches and checkpoints are in temporary folders, which all machines must see (``TMPDIR``).
    """
    midway = [list(scenario.midway.items()) for scenario in scenarios]
    prefixes = [prefix for found in midway for _, prefix in found]
    with _open_player(spark) as (executor, play):
        answers = Replays(executor, play, [*scenarios, *prefixes], topology).answers()
    prefix_answers = iter(answers[len(scenarios) :])
    return [
        judge_midway(answer, {place: next(prefix_answers) for place, _ in found})
        for answer, found in zip(answers[: len(scenarios)], midway, strict=True)
    ]


def _open_player(spark: Any) -> AbstractContextManager[tuple[RunExecutor, Play]]:
    """Yields an executor, and a function that plays batches, in a session of either kind."""
    session = session_for(spark, None)
    if is_over_connect(session, None):
        return _open_connect_player(session)
    return _open_query_player(spark)


# Scenarios as runs on a checkpoint.


_SCENARIOS_PER_RUN = 128
"""Maximum number of scenarios that share a run; more would make its batches slow to plan."""
_STEPS_PER_RUN = 32
_FIRST_FILE_NS = 1_000_000_000_000_000_000
_FILE_STEP_NS = 1_000_000  # Spark orders files by the millisecond of their last change
_SPOUT = "batches"


Play = Callable[[FileSpout, PairedCheckpoint, Callable[[int, str], None]], None]
"""Runs each batch that the checkpoint does not have: calls a function with its number and the spout's file for it."""


@dataclass
class _Member:
    """A scenario in a run."""

    scenario: Scenario
    prefix: str
    batches: list[ScriptBatch]


class Replays:
    """Scenarios, with an executor and a player for their batches."""

    def __init__(
        self,
        executor: RunExecutor,
        play: Play,
        scenarios: Sequence[Scenario],
        topology: Graph | None,
    ) -> None:
        self.executor, self.play = executor, play
        self.scenarios, self.topology = scenarios, topology

    def answers(self) -> list[ReplayResult]:
        by_index: dict[int, ReplayResult] = {}
        bare_bolts = [index for index, scenario in enumerate(self.scenarios) if scenario.bolt is not None]
        for start in range(0, len(bare_bolts), _SCENARIOS_PER_RUN):
            group = bare_bolts[start : start + _SCENARIOS_PER_RUN]
            members = [self._member(index, f"s{index}-") for index in group]
            builder = GraphBuilder("scenarios")
            for member in members:
                add_bare_bolt(builder, member.scenario, member.prefix)
            by_index |= dict(zip(group, self._run_group(builder.build(), members), strict=True))
        steps = [
            index for index, scenario in enumerate(self.scenarios) if scenario.step is not None and not self.topology
        ]
        for start in range(0, len(steps), _STEPS_PER_RUN):
            group = steps[start : start + _STEPS_PER_RUN]
            members = [self._member(index, f"s{index}-") for index in group]
            built = join_topologies(
                with_prefix(scenario_topology(member.scenario), member.prefix) for member in members
            )
            by_index |= dict(zip(group, self._run_group(built, members), strict=True))
        for index, scenario in enumerate(self.scenarios):
            if index not in by_index:
                built = scenario_topology(scenario, self.topology)
                scenario_of_spout = with_only_spout(scenario, built)
                by_index[index] = self._run_group(built, [_Member(scenario_of_spout, "", script(scenario_of_spout))])[0]
        return [by_index[index] for index in range(len(self.scenarios))]

    def _run_group(self, topology: Graph, members: list[_Member]) -> list[ReplayResult]:
        self.executor.load(topology)
        return _Group(self.executor, self.play, topology, members).run()

    def _member(self, index: int, prefix: str) -> _Member:
        return _Member(self.scenarios[index], prefix, script(self.scenarios[index], prefix))


class _Group:
    """Scenarios that share a run."""

    def __init__(self, executor: RunExecutor, play: Play, topology: Graph, members: list[_Member]) -> None:
        """``executor``: has loaded the topology."""
        self.executor, self.play, self.topology, self.members = executor, play, topology, members
        self.recording = Recording()
        self.crashed: set[int] = set()

    def run(self) -> list[ReplayResult]:
        """Returns the results; the checkpoint is next to the batches."""
        with tempfile.TemporaryDirectory(prefix="windbolt-replay-") as folder:
            count = max((len(member.batches) for member in self.members), default=0)
            os.mkdir(f"{folder}/batches")
            for number in range(count):
                self._write(f"{folder}/batches/{number:08d}.jsonl", number)
            while True:
                # The memory of the previous run is lost; this one starts from the checkpoint.
                halves = PairedCheckpoint(f"{folder}/checkpoint")
                checkpoint = open_checkpoint(halves, self.topology).checkpoint
                micro_batch = self.recording.watch(MicroBatch(self.topology, checkpoint, self.executor))
                if micro_batch.manifest.batch + 1 >= count or self._run_to_end(folder, halves, micro_batch):
                    return [judge(member.scenario, self._answer(member, micro_batch)) for member in self.members]

    def _run_to_end(self, folder: str, halves: PairedCheckpoint, micro_batch: MicroBatch) -> bool:
        """Runs to the end of the input, or to a crash; returns True at the end."""

        def run(number: int, path: str) -> None:
            if micro_batch.done(number):
                return
            plan = self._plan(number, path)
            drafted = {"clock": plan.advance.clock, "run": micro_batch.run_id}
            planned, _ = micro_batch.checkpoint.plan(batch_key(number, False), drafted)
            plan = replace(plan, run=planned["run"])
            if number not in self.crashed and any(self._crashes(member, number) for member in self.members):
                self.crashed.add(number)
                micro_batch.hook = _fail
            report = micro_batch.run(plan, query=halves.spark_checkpoint.query())
            for member in self.members:
                if number < len(member.batches):
                    self.recording.note_batch(member.batches[number], report, member.prefix)

        paths = (literal(f"{folder}/batches"),)
        spout = FileSpout(paths, declared=None, format=file_format("jsonl"), files_per_batch=1)
        try:
            self.play(spout, halves, run)
        except Crash:
            return False
        return True

    def _answer(self, member: _Member, micro_batch: MicroBatch) -> ReplayResult:
        return self.recording.answer(
            member.scenario, self.topology, micro_batch.manifest, micro_batch.checkpoint.segments, member.prefix
        )

    @staticmethod
    def _crashes(member: _Member, number: int) -> bool:
        return number < len(member.batches) and member.batches[number].crash

    def _write(self, path: str, number: int) -> None:
        """Writes a batch as a file: a line with the time advance, then the events."""
        advances: dict[str, Any] = {}
        lines: list[str] = []
        for member in self.members:
            advances[member.prefix] = asdict(_advance(member, number))
            if number < len(member.batches):
                lines.extend(arrival.to_json() for arrival in member.batches[number].arrivals)
        with open(path, "w", encoding="utf-8") as sink:
            sink.write("\n".join([json.dumps(advances), *lines]))
        moment = _FIRST_FILE_NS + number * _FILE_STEP_NS
        os.utime(path, ns=(moment, moment))

    def _plan(self, number: int, path: str) -> BatchPlan:
        path = "/" + path.lstrip("/")
        with open(path, encoding="utf-8") as source:
            advances: dict[str, Any] = json.loads(source.readline())
            empty = not source.readline()
        by_bolt = {
            name: TimeAdvance(**advances[member.prefix])
            for member in self.members
            for name in self.topology.windowed
            if name.startswith(member.prefix)
        }
        splits = [] if empty else [ScriptSplit(path=path)]
        return BatchPlan(number, TimeAdvance(system_clock(), tick=False), splits, advances=by_bolt)


def _advance(member: _Member, number: int) -> TimeAdvance:
    """Returns the time advance at the end of a batch; an unchanged time once the scenario has ended."""
    if number < len(member.batches):
        return member.batches[number].advance
    last = member.batches[-1].advance if member.batches else TimeAdvance(0)
    return replace(last, tick=False, close=False)


def _fail(phase: str) -> None:
    if phase == "commit":
        raise Crash


# Runs in a classic session are Spark queries.


_MASTER = "local[2]"


@contextmanager
def _open_query_player(spark: SparkSession | None) -> Iterator[tuple[TaskExecutor, Play]]:
    """Yields an executor, and a function that plays batches, in this session or a new one."""
    # Imported here, because a client of Spark Connect may lack what a classic session needs.
    from topologies.spark.classic_session import check_session, shared_session
    from topologies.spark.workers.pool import executor_for

    with shared_session(spark, _MASTER, {}) as session:
        check_session(session)
        executor = executor_for(session)

        def play(spout: FileSpout, halves: PairedCheckpoint, run: Callable[[int, str], None]) -> None:
            _query(session, executor, spout, halves, run)

        try:
            yield executor, play
        finally:
            executor.close()


def _query(
    spark: SparkSession,
    executor: TaskExecutor,
    spout: FileSpout,
    halves: PairedCheckpoint,
    run: Callable[[int, str], None],
) -> None:
    from topologies.spark.classic_session import simple_checkpoints
    from topologies.spark.runner import GuardedFunction, wait_for_sources
    from topologies.spark.source import PlannedFiles, planned_files

    def run_batch(batch: Any, number: int) -> None:
        ((_, path),) = log.files(number)
        run(number, shown_path(path))

    half, options = halves.spark_checkpoint, RunOptions()
    log = SourceLog(half.filesystem, half.root, (_SPOUT,))
    planned = PlannedFiles(WatchedFiles(_SPOUT, spout), lambda: FileLog(half, 0, halves.uri))
    guarded = GuardedFunction(run_batch, options.stop, executor.cancel, [planned])
    rows: DataFrame = planned_files(spark, planned)
    writer = rows.writeStream.foreachBatch(guarded).option("checkpointLocation", halves.spark)
    with simple_checkpoints(spark, None if halves.uri else halves.path):
        query = writer.trigger(availableNow=True).start()
        wait_for_sources(query)
    guarded.wait(query, spark)


# Over Spark Connect, this process cuts the batches, and Spark runs their tasks.


@contextmanager
def _open_connect_player(spark: ConnectSession | None) -> Iterator[tuple[ConnectExecutor, Play]]:
    """Yields an executor, and a function that plays batches, in this session or a new one."""
    from topologies.spark.connect_run import ConnectExecutor, connect_session

    with connect_session(spark, None, {}) as session:
        yield ConnectExecutor(session), _play


def _play(spout: FileSpout, halves: PairedCheckpoint, run: Callable[[int, str], None]) -> None:
    half = halves.spark_checkpoint
    journal = FileJournal(half, [_SPOUT], heartbeats=False, uri=halves.uri)
    log = SourceLog(half.filesystem, half.root, (_SPOUT,))

    def end(number: int) -> None:
        ((_, path),) = log.files(number)
        run(number, shown_path(path))
        journal.commit(number)

    if journal.unfinished is not None:
        end(journal.unfinished)
    for files in spout.cut(WatchedFiles(_SPOUT, spout).new(journal.seen[_SPOUT])):
        end(journal.plan({_SPOUT: files}, system_clock(), heartbeat=False))
