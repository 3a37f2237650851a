"""One bolt, run in a test on some rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from topologies import spouts
from topologies.compose.builder import TopologyBuilder
from topologies.graph.side_streams import ERRORS
from topologies.testing.driver import TopologyDriver
from topologies.testing.fired import FiredWindow
from topologies.testing.given_rows import GivenRows, Moment, as_table, columns_of, given_moment
from topologies.testing.made_windows import inputs_of
from topologies.testing.watched import LATE
from windowing.bolts.joins.join import Join
from windowing.bolts.plain_bolts import BatchBolt, Bolt
from windowing.bolts.windowed_bolt import WindowedBolt
from windowing.calls.checked import checked_value
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.data.schema import SchemaLike
from windowing.errors import ConfigError
from windowing.time.timestamps import show

if TYPE_CHECKING:
    import pandas as pd

BOLT = "bolt"
"""What the bolt is called."""


@dataclass(frozen=True, repr=False)
class BoltRun:
    """What a bolt emitted for some rows, and the windows that it was called with."""

    rows: list[dict[str, Any]]
    """What it emitted on its default stream."""
    streams: dict[str, list[dict[str, Any]]]
    """What it emitted on each stream that it has."""
    table: pa.Table
    """``rows`` as an Arrow table."""
    windows: list[FiredWindow] = field(default_factory=list)
    """The windows that fired, in order, with what it emitted for each; none of a bolt without windows."""
    late: list[dict[str, Any]] = field(default_factory=list)
    """The late events, with ``_reason``, ``_watermark`` and so on."""
    errors: list[dict[str, Any]] = field(default_factory=list)
    """What could not be used, with the reason in ``_reason``: events without a time, and what the bolt refused."""
    accounts: dict[str, int] = field(default_factory=dict)
    """Where its events are: ``received`` is the sum of the others; ``adjusted`` and ``truncated`` are beside."""
    counters: dict[str, int] = field(default_factory=dict)
    """What it counted by itself."""

    def __repr__(self) -> str:
        accounts = ", ".join(f"{number} {name}" for name, number in self.accounts.items() if number)
        return f"<BoltRun: {len(self.windows)} windows, {len(self.rows)} rows{f'; {accounts}' if accounts else ''}>"

    @checked_value
    def to_pandas(self) -> pd.DataFrame:
        """What it emitted on its default stream, as a DataFrame."""
        frame: pd.DataFrame = self.table.to_pandas()
        return frame


@checked_value
def run_bolt(
    bolt: Bolt | BatchBolt | WindowedBolt,
    rows: GivenRows | Mapping[str, GivenRows],
    schema: SchemaLike | Mapping[str, SchemaLike] | None = None,
    *,
    clock: Moment | Sequence[Moment] | None = None,
    rows_per_batch: int | None = None,
    keep_open: bool = False,
    stream: str = "input",
) -> BoltRun:
    """What a bolt emits for these rows, with the windows that it was called with: in memory, by the real engine.

    ``rows`` are those of one input, called ``stream``, or a mapping with those of several, ``{"orders": [...],
    "prices": [...]}``. ``schema``: their columns, for each input where there are several; without it the rows say them,
    and a text in the column that the bolt takes its time from is a time.

    Time is that of the bolt's timestamp field. ``clock``: where the clock is, or a list with a time for each row of
    a single input, each of which then comes by itself; without it the machine's (or freezegun's).

    All rows come in one micro-batch, so that none is late by the watermark of another, unless the bolt has watermarks
    at events (``with_watermark(every=1)``); with ``rows_per_batch=1`` the watermark moves after each of them.
    At the end the streams end, and what is open fires; ``keep_open``: it stays open.

    Raises TopologyError where the bolt cannot be used so, SchemaError and ConfigError where rows, columns or times
    cannot be, BoltError where the bolt raises.
    """
    if isinstance(bolt, type):
        raise ConfigError(
            f"run_bolt({bolt.__name__})", why="that is a class", do=f"give an instance: {bolt.__name__}()"
        )
    if not isinstance(bolt, Bolt | BatchBolt | WindowedBolt):
        raise ConfigError(
            f"run_bolt({bolt!r:.60})", why="that is not a bolt", do="give a Bolt, BatchBolt or WindowedBolt"
        )
    if rows_per_batch is not None and (type(rows_per_batch) is not int or rows_per_batch < 1):
        raise ConfigError(f"rows_per_batch={rows_per_batch!r}", do="give a whole number above 0, or leave it out")
    given = inputs_of(rows, stream, schema)
    _check_inputs(bolt, given)
    times = _time_fields(bolt)
    tables: dict[str, pa.Table] = {}
    for name, each in given.items():
        listed = each if _is_table(each) else _as_list(each)
        tables[name] = as_table(f"input {name!r}", listed, columns_of(name, given, listed, schema, times))
    driver = _driver(bolt, tables)
    for batch, moment in _batches(tables, clock, rows_per_batch):
        driver.push_together(batch, clock=moment)
    if not keep_open:
        driver.close()
    return _result(driver, bolt)


def _check_inputs(bolt: Bolt | BatchBolt | WindowedBolt, given: Mapping[str, object]) -> None:
    """ConfigError where a join is given the rows of other inputs than the two that it names."""
    if isinstance(bolt, Join) and set(given) != {bolt.left, bolt.right}:
        others = f"inputs {', '.join(map(repr, given))}" if len(given) > 1 else f"one input, {next(iter(given))!r}"
        raise ConfigError(
            f"run_bolt with {others}",
            why=f"this {type(bolt).__name__} joins {bolt.left!r} and {bolt.right!r}",
            do=f"give the rows of both: run_bolt(bolt, {{{bolt.left!r}: [...], {bolt.right!r}: [...]}})",
        )


def _driver(bolt: Bolt | BatchBolt | WindowedBolt, tables: Mapping[str, pa.Table]) -> TopologyDriver:
    builder = TopologyBuilder("test")
    declarer = builder.set_bolt(BOLT, bolt)
    for name, table in tables.items():
        builder.set_spout(name, spouts.memory(table.schema))
        declarer.global_grouping(name)
    return TopologyDriver(builder.build())


def _batches(
    tables: Mapping[str, pa.Table], clock: Moment | Sequence[Moment] | None, size: int | None
) -> list[tuple[dict[str, pa.Table], Moment | None]]:
    rows = max((table.num_rows for table in tables.values()), default=0)
    if isinstance(clock, Sequence) and not isinstance(clock, str):
        _check_clocks(clock, tables, rows, size)
        return [({name: table.slice(at, 1) for name, table in tables.items()}, clock[at]) for at in range(rows)]
    each = size or max(rows, 1)
    return [({name: table.slice(at, each) for name, table in tables.items()}, clock) for at in range(0, rows, each)]


def _check_clocks(clock: Sequence[Moment], tables: Mapping[str, pa.Table], rows: int, size: int | None) -> None:
    if len(tables) > 1 or len(clock) != rows or size is not None:
        raise ConfigError(
            f"clock is a list of {len(clock)} times, and there are {rows} rows of {len(tables)} inputs",
            why="each row of the input arrives at its own time, in its own micro-batch",
            do="give a time for each row, without rows_per_batch; for several inputs use TopologyDriver",
        )
    moments = [given_moment("clock", each) for each in clock]
    for at, (before, after) in enumerate(pairwise(moments), 1):
        if after < before:
            raise ConfigError(
                f"clock[{at}]: the clock goes back, from {show(before)} to {show(after)}",
                why="time only moves forward",
                do="give the rows in the order in which they arrive",
            )


def _result(driver: TopologyDriver, bolt: Bolt | BatchBolt | WindowedBolt) -> BoltRun:
    parts = driver.topology
    node = parts.windowed.get(BOLT) or parts.plain[BOLT]
    errors = driver.read(f"{BOLT}.{ERRORS}")
    streams = {
        name: driver.read(BOLT if name == DEFAULT_STREAM else f"{BOLT}.{name}")
        for name in node.outputs
        if name != ERRORS
    }
    table = driver.table(BOLT) if DEFAULT_STREAM in node.outputs else pa.table({})
    rows = streams.get(DEFAULT_STREAM, [])
    if not isinstance(bolt, WindowedBolt):
        return BoltRun(rows, streams, table, errors=errors)
    late = streams.get(parts.windowed[BOLT].bolt.settings.late_stream or "", [])
    if bolt.settings.late_stream is None:
        streams.pop(parts.windowed[BOLT].bolt.settings.late_stream or LATE, None)
    return BoltRun(
        rows,
        streams,
        table,
        windows=driver.windows(BOLT),
        late=late,
        errors=errors,
        accounts=driver.accounts(BOLT),
        counters=driver.counters(BOLT),
    )


def _time_fields(bolt: Bolt | BatchBolt | WindowedBolt) -> set[str]:
    """The columns in which the bolt looks for times."""
    if not isinstance(bolt, WindowedBolt):
        return set()
    settings = bolt.settings
    named = {
        settings.timestamp_field,
        settings.watermark_field,
        settings.lifetime.end_field if settings.lifetime else None,
        settings.arrival.field if settings.arrival else None,
    }
    return {name for name in named if name is not None}


def _is_table(rows: Any) -> bool:
    return isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "iloc")


def _as_list(rows: Any) -> Any:
    """Rows that can be looked at twice: first for their columns, then for their values."""
    return list(rows) if hasattr(rows, "__next__") else rows
