"""Makes a checkpoint that begins with events that are given: with the windows of yesterday, or repaired ones.

The events are batch -1 of the topology: they take the way of all events but into sinks. A note is written first, and
deleted last: while it is there no run begins, and a second attempt starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import replace

import pyarrow as pa

from topologies.checkpoints.checkpointed_run import CheckpointedRun
from topologies.checkpoints.free_place import check_empty, empty_out
from topologies.checkpoints.note_names import BEGINNING
from topologies.checkpoints.opening import make_halves
from topologies.compose.needed_columns import with_needed_columns
from topologies.engine.batch.executor import RunInProcess
from topologies.engine.batch.plan import BatchPlan, TimeAdvance
from topologies.engine.commit.claims import Claims
from topologies.io.given_tables import given_table
from topologies.io.kafka import KafkaSpout
from topologies.io.spouts import one_table
from topologies.run.engine import Engine
from topologies.run.options import RunOptions
from topologies.sources.splits import TableSource
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM, EmittedRows
from windowing.errors import BoltError, ConfigError, DataError, SchemaError
from windowing.settings.rules import SOURCE
from windowing.suggestions import did_you_mean

_ONCE_MORE = "call windbolt.state.begin once more, which starts over; until then no run begins"


def begin_with(
    checkpoint: str, topology: Topology, events: Mapping[str, EmittedRows], clock: Callable[[], int]
) -> None:
    """Make a checkpoint at a place that is empty; ``events`` are rows of spouts, in order of arrival.

    ConfigError for other spouts, and for windows that need to know the
    partitions of events; DataError for rows without a time that can be used; CheckpointError where something is at that
    place.
    """
    given = {name: _rows(topology, name, rows) for name, rows in events.items()}
    tables = {name: given[name] for name in topology.spouts if name in given}
    _check_partitions(topology)
    options = RunOptions(checkpoint=checkpoint, keep_open=True, clock=clock)
    with _Beginning(topology, options, tables) as run:
        try:
            run.run()
        except BoltError as error:
            error.do = f"correct the bolt; {_ONCE_MORE}"
            raise
        run.complete()


def _rows(topology: Topology, spout: str, given: EmittedRows) -> pa.Table:
    if spout not in topology.spouts:
        raise ConfigError(
            f"there is no spout {spout!r}{did_you_mean(spout, topology.spouts)}",
            why=f"events are given as those of a spout, and the topology has {', '.join(topology.spouts)}",
            do="name one of these",
        )
    columns = topology.spouts[spout].outputs[DEFAULT_STREAM]
    given = topology.spouts[spout].defaults.completed(given)
    table = given_table(given)
    if table is not None and len(set(table.column_names)) == table.num_columns:
        given = _as_in_a_run(table, columns, with_needed_columns(topology).spouts[spout].schema.names)
    try:
        return one_table(given, columns)
    except SchemaError as error:
        raise DataError(
            f"the events for spout {spout!r} are not of its columns, {', '.join(columns.names)}",
            why=error.why,
            do="give a table with these columns and types",
        ) from error


def _as_in_a_run(given: pa.Table, columns: pa.Schema, needed: Collection[str]) -> pa.Table:
    """A table of ``state.read`` has other columns too, and lacks those that no bolt asks for."""
    for field in columns:
        if field.name not in given.column_names and field.name not in needed:
            given = given.append_column(field, pa.nulls(len(given), field.type))
    return given.select([name for name in columns.names if name in given.column_names])


def _check_partitions(topology: Topology) -> None:
    """ConfigError where a watermark follows the partitions of Kafka: given events are of none, which would hold it
    back."""
    for node in topology.windowed.values():
        kafka = [
            spout
            for spouts in topology.spouts_before(node)
            for spout in spouts
            if isinstance(topology.spouts[spout].spout, KafkaSpout)
        ]
        if kafka and node.bolt.settings.watermark_partition is SOURCE:
            raise ConfigError(
                f"bolt {node.name!r} cannot begin with events",
                why=f"its watermark follows the partitions of {kafka[0]!r}, and given events are of no partition",
                do="let its watermark follow a column: with_watermarks(partition=...)",
            )


class _Beginning(CheckpointedRun):
    """The run that consists of the events alone, in this process."""

    engine = Engine.LOCAL

    def __init__(self, topology: Topology, options: RunOptions, tables: Mapping[str, pa.Table]) -> None:
        super().__init__(topology, options)
        self.tables = tables
        self.claims = Claims(replace(topology, sinks={}, takers={}))

    def _begin(self, held: ExitStack) -> None:
        self.executor = RunInProcess()

    def _frames(self) -> None:
        return None

    def _open(self) -> None:
        halves = self.halves
        if halves.files.read(BEGINNING) is None:
            check_empty(halves, "a checkpoint that begins with events cannot be made")
        if halves.uri is None:
            make_halves(halves)
        halves.files.write(BEGINNING, {"spouts": sorted(self.tables)})
        empty_out(halves, BEGINNING)
        halves.is_beginning = True
        super()._open()

    def _in_this_run(self, topology: Topology) -> Topology:
        """Nothing goes to sinks."""
        return replace(topology, sinks={}, takers={})

    def _open_source(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        return (), ()

    def _batches(self) -> None:
        splits = [TableSource(name, table) for name, table in self.tables.items()]
        self._run(BatchPlan(-1, TimeAdvance(self._now()), splits))
        for name, bolt in self.micro_batch.manifest.bolts.items():
            counts = zip(bolt.accounts.streams, bolt.accounts.by_stream("invalid"), strict=True)
            wrong = sum(count for stream, count in counts if stream in self.tables)
            if wrong:  # what a bolt in between makes of them is that bolt's, and counted as in every run
                raise DataError(
                    f"{wrong:,} of the events for bolt {name!r} cannot be used",
                    why="their time or their lifetime is missing, or none that can be used",
                    do=f"correct them, or leave them out; {_ONCE_MORE}",
                )

    def complete(self) -> None:
        """Let runs begin."""
        self.halves.files.delete(BEGINNING)
        self.halves.files.sync()
