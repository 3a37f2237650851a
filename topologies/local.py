"""The local runner: a topology in this process, without Java."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import zip_longest

from manager.checkpoint import MemoryCheckpoint
from topologies.engine.first_output import FirstOutput
from topologies.engine.plan import BatchPlan, Beat, InProcess, Piece
from topologies.engine.step import MicroBatch
from topologies.kafka import KafkaSink, KafkaSpout
from topologies.model import SpoutPart, Topology
from topologies.running import RunOptions, Summary
from topologies.sources import TableSource, file_pieces
from topologies.spouts import FileSpout, MemorySpout
from windowing.errors import ConfigError


def run_local(topology: Topology, options: RunOptions | None = None) -> Summary:
    """Run a topology over the input that is there now, in this process; its state is gone afterwards.

    ConfigError where a spout is a Spark DataFrame, where Kafka is read or written, or where the run is to be
    continuous or to have a checkpoint.
    """
    options = options or RunOptions()
    if options.checkpoint is not None or options.every is not None:
        raise ConfigError(
            "a local run with a checkpoint or a trigger interval",
            why="the local runner reads what is there now, and keeps its state in memory",
            do="leave them out, or run on Spark",
        )
    _refuse_kafka(topology)
    summary, started = Summary(), time.perf_counter()
    first = FirstOutput.of(topology, options.first_output_at)
    step = MicroBatch(topology, MemoryCheckpoint(), InProcess(), first=first)
    clock, number = options.clock(), -1
    for number, pieces in enumerate(_batches(topology)):
        if options.stop.is_set():
            summary.stopped = True
            break
        clock = max(clock, options.clock())
        report = step.run(BatchPlan(number, Beat(clock), pieces), again=False)
        summary.note(report)
        options.on_report(report)
    if options.flush and not summary.stopped:
        report = step.run(BatchPlan(number, Beat(clock, close=True), closing=True), again=False)
        summary.note(report)
        options.on_report(report)
    summary.seconds = time.perf_counter() - started
    return summary


def _refuse_kafka(topology: Topology) -> None:
    """Kafka is reached through Spark's connector."""
    found = [f"spout {name!r}" for name, part in topology.spouts.items() if isinstance(part.spout, KafkaSpout)]
    found += [f"sink {name!r}" for name, part in topology.sinks.items() if isinstance(part.sink, KafkaSink)]
    if found:
        raise ConfigError(
            f"Kafka in a local run: {', '.join(found)}",
            why="Kafka is reached through Spark's connector, and a local run has no Spark",
            do="run on Spark; to try the bolts out, replay scenarios, or read files and write to memory",
        )


def _batches(topology: Topology) -> Iterator[list[Piece]]:
    sources = [_of_spout(topology, part) for part in topology.spouts.values()]
    for found in zip_longest(*sources, fillvalue=()):
        yield [piece for pieces in found for piece in pieces]


def _of_spout(topology: Topology, part: SpoutPart) -> Iterator[list[Piece]]:
    match part.spout:
        case MemorySpout() as spout:
            first = 0
            for table in spout.tables():
                yield [TableSource(part.name, table, first)]
                first += table.num_rows
        case FileSpout() as spout:
            for found in spout.batches():
                yield file_pieces(topology, [(part.name, path) for path in found], 1)
        case _:
            raise ConfigError(
                f"spout {part.name!r} is a Spark DataFrame",
                why="a local run has no Spark",
                do="run on Spark, or replay scenarios of the topology",
            )
