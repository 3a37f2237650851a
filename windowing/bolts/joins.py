"""Joins of two streams: of events in the same window, or alive at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.aggregates.groups import can_be_compared, key_type, pairs
from windowing.bolts.windowed_bolt import Operator, WindowedBolt
from windowing.calls import checked_value
from windowing.conversion import REFUSED, convert_column
from windowing.errors import ConfigError, combine_errors, did_you_mean_column
from windowing.schema import DEFAULT_STREAM, TIMESTAMP, EmittedRows, parse_schema
from windowing.settings.kinds import Meeting, Onset
from windowing.settings.rules import NO_COLUMN, How, Lifetime, check_how, read_flag
from windowing.timestamps import to_column
from windowing.window import TupleWindow, in_one_piece

if TYPE_CHECKING:
    from datetime import datetime

    from numpy.typing import NDArray


# The columns of a join: its keys on both sides, and the columns of its rows.


LEFT, RIGHT, BOTH, START, END = "left", "right", "both", "start", "end"


@dataclass(frozen=True)
class JoinColumn:
    """A column that a join emits."""

    side: str
    """``left`` or ``right``: the side of its input column. ``both``: a key with one name on both sides; its value is
    that of the left event, or if there is none, of the right event. ``start`` and ``end``: the start or end of the
    window or of the overlap."""
    source: str
    """The name of the input column."""
    kind: pa.DataType


@dataclass(frozen=True)
class JoinKeys:
    """The key columns of both streams; the columns at the same index are compared."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    def __str__(self) -> str:
        pairs = zip(self.left, self.right, strict=True)
        return ", ".join(one if one == other else f"{one} = {other}" for one, other in pairs)

    @property
    def shared(self) -> frozenset[str]:
        """Key columns that have the same name on both sides."""
        return frozenset(one for one, other in zip(self.left, self.right, strict=True) if one == other)


On = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def read_keys(on: On, left: str, right: str) -> JoinKeys:
    """Returns the keys that ``on`` names: a column, several columns, or a mapping of each stream to its columns; raises
    ConfigError for anything else."""
    if not all(isinstance(name, str) and name for name in (left, right)):
        raise ConfigError(
            f"a join of {left!r:.60} and {right!r:.60}", why="streams have names", do="give the names of two streams"
        )
    if left == right:
        raise ConfigError(
            f"a join of {left!r} with itself",
            why="a bolt reads a stream once",
            do="put a plain bolt before one side",
        )
    if not isinstance(on, Mapping):
        names = _names(on)
        return JoinKeys(names, names)
    if set(on) != {left, right}:
        raise ConfigError(
            f"a join of {left!r} and {right!r} on columns of {', '.join(map(repr, on)) or 'no stream'}",
            why="each of the two streams has its own key columns",
            do=f"use on={{{left!r}: ..., {right!r}: ...}}",
        )
    keys = JoinKeys(_names(on[left]), _names(on[right]))
    if len(keys.left) != len(keys.right):
        raise ConfigError(
            f"a join on {len(keys.left)} columns of {left!r} and {len(keys.right)} of {right!r}",
            why="key columns are paired by position",
            do="name the same number on both sides",
        )
    return keys


def check_rename(rename: str) -> None:
    """Raise ConfigError for a pattern that gives columns of two streams the same name."""
    try:
        renamed = {rename.format(stream=stream, column="c") for stream in ("a", "b")}
    except (KeyError, IndexError, ValueError, AttributeError):
        renamed = set()
    if len(renamed) < 2 or "{column}" not in rename:
        raise ConfigError(
            f"rename={rename!r}",
            why="it must give columns of the two streams different names",
            do="use '{stream}_{column}' or '{column}_{stream}'",
        )


def check_moments(**names: object) -> None:
    """Raise ConfigError for a ``start`` or ``end`` that is not the name of a column."""
    for moment, name in names.items():
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigError(
                f"a join with {moment}={name!r:.60}", why="it is the name of a column", do=f"use {moment}='since'"
            )


def check_moments_in_outputs(moments: Mapping[str, str | None], outputs: pa.Schema) -> None:
    """Raise ConfigError for a column of the start or end that the user names, but ``outputs`` leaves out."""
    for moment, name in moments.items():
        if name is not None and name not in outputs.names:
            raise ConfigError(
                f"a join with {moment}={name!r}, and outputs= without {name!r}",
                why="outputs= has all columns of the rows, so this one would be in none",
                do=f"name it there too, as '{name} timestamp', or leave {moment}= out",
            )


def check_inputs(inputs: Mapping[str, pa.Schema], left: str, right: str, keys: JoinKeys) -> None:
    """Raise ConfigError unless the two streams are the inputs of the bolt, and have the key columns."""
    if set(inputs) != {left, right}:
        raise ConfigError(
            f"the join is of {left!r} and {right!r}, but the bolt reads {', '.join(map(repr, inputs))}",
            do="connect these two streams by a ..._grouping method; write 'component.stream' for a stream "
            "that is not the default",
        )
    sides = ((left, keys.left), (right, keys.right))
    missing = [f"{key!r} of {name!r}" for name, columns in sides for key in columns if key not in inputs[name].names]
    if missing:
        columns = "; ".join(f"{name!r} has {', '.join(inputs[name].names)}" for name, _ in sides)
        raise ConfigError(
            f"a join on {', '.join(missing)}: a stream has no such column",
            why=columns,
            do="name key columns that the streams have: on='id', or on={'persons': 'id', 'auctions': 'seller'} where "
            "their names differ",
        )


def check_key_types(left: pa.Schema, right: pa.Schema, names: tuple[str, str], keys: JoinKeys) -> None:
    """Raise ConfigError for all pairs of key columns whose types cannot be compared."""
    problems = [*_key_type_errors(left, right, names, keys)]
    if problems:
        raise combine_errors("the join", problems)


def _key_type_errors(
    left: pa.Schema, right: pa.Schema, names: tuple[str, str], keys: JoinKeys
) -> Iterator[ConfigError]:
    for one, other in zip(keys.left, keys.right, strict=True):
        kinds = left.field(one).type, right.field(other).type
        if not all(map(can_be_compared, kinds)):
            yield ConfigError(
                f"a join on {one!r} and {other!r}, which are {kinds[0]} and {kinds[1]}",
                why="keys are values that can be compared; lists and maps are not",
                do="take a part of it as a column, in a bolt before",
            )
        elif key_type(*kinds) is None:
            yield ConfigError(
                f"a join on {one!r} of {names[0]!r}, which is {kinds[0]}, and {other!r} of {names[1]!r}, which is "
                f"{kinds[1]}",
                why="values of these types are not compared",
                do="declare both columns with one type, or cast one in a bolt before",
            )


def join_columns(
    inputs: Mapping[str, pa.Schema],
    sides: Mapping[str, str],
    keys: JoinKeys,
    rename: str,
    *,
    moments: Mapping[str, str | None],
    without: frozenset[str | None] = frozenset(),
    left_only: bool = False,
) -> dict[str, JoinColumn]:
    """Returns all columns of a join by their names: the keys with one name on both sides, then the columns of each
    side, its keys first, then the start and the end.

    ``sides``: the stream of each side. ``moments``: the names of the columns of ``start`` and ``end``; None: no column.
    ``without``: input columns that are left out. Raises ConfigError if two columns have the same name.
    """
    left, right = inputs[sides[LEFT]], inputs[sides[RIGHT]]
    columns = [(key, JoinColumn(BOTH, key, left.field(key).type)) for key in keys.left if key in keys.shared]
    skipped = keys.shared | without
    directions = [(LEFT, left, right, keys.left), (RIGHT, right, left, keys.right)]
    for side, schema, other, keys_of_side in directions[: 1 if left_only else 2]:
        stream = "".join(letter if letter.isalnum() else "_" for letter in sides[side])
        for field in sorted(schema, key=lambda field: field.name not in keys_of_side):
            if field.name not in skipped:
                clash = field.name in other.names and not left_only
                name = rename.format(stream=stream, column=field.name) if clash else field.name
                columns.append((name, JoinColumn(side, field.name, field.type)))
    columns += [(name, JoinColumn(moment, "", TIMESTAMP)) for moment, name in moments.items() if name is not None]
    names = [name for name, _ in columns]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(
            f"the join has two columns {', '.join(map(repr, repeated))}",
            why=f"it has {', '.join(names)}",
            do="choose another rename=, or other names by start= and end=",
        )
    return dict(columns)


def select_outputs(columns: dict[str, JoinColumn], outputs: pa.Schema) -> dict[str, JoinColumn]:
    """Returns the columns that ``outputs`` declares; raises ConfigError for unknown columns and impossible types."""
    problems = [*_output_errors(columns, outputs)]
    if problems:
        raise combine_errors("the join", problems)
    return {name: columns[name] for name in outputs.names}


def _output_errors(columns: dict[str, JoinColumn], outputs: pa.Schema) -> Iterator[ConfigError]:
    unknown = [name for name in outputs.names if name not in columns]
    if unknown:
        yield ConfigError(
            f"the join has no column {', '.join(map(repr, unknown))}{did_you_mean_column(unknown[0], columns)}",
            why=f"it has {', '.join(columns)}",
            do="declare some of these in outputs=, or leave outputs= out to have all",
        )
    for field in outputs:
        if field.name in unknown:
            continue
        try:
            convert_column(pa.nulls(0, columns[field.name].kind), field.type)
        except REFUSED as error:
            yield ConfigError(
                f"column {field.name!r} is {columns[field.name].kind}, and was declared {field.type}",
                why=str(error),
                do="declare the type that it has",
            )


def _names(on: object) -> tuple[str, ...]:
    names: tuple[object, ...] = (on,) if isinstance(on, str) else tuple(on) if isinstance(on, Sequence) else ()
    texts = tuple(name for name in names if isinstance(name, str) and name)
    if not texts or len(texts) < len(names) or len(set(texts)) < len(texts):
        raise ConfigError(
            f"a join on {on!r}", why="a join needs key columns", do="name the columns of the key, each once"
        )
    return texts


# Base class of joins of two streams.


class Join(WindowedBolt):
    """A bolt whose rows are pairs of a left and a right event with equal keys, or events without a partner."""

    rows_are_of_events = True
    takes_retractions = False
    left_only = False
    """True if the rows have the columns of left events only."""
    default_moments: ClassVar[Mapping[str, str | None]] = {START: None, END: None}
    """The default names of the columns of the start and the end; None: no column."""

    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        outputs: str | pa.Schema | None,
        rename: str,
        start: str | None,
        end: str | None,
    ) -> None:
        self.left, self.right, self.keys = left, right, read_keys(on, left, right)
        check_rename(rename)
        check_moments(start=start, end=end)
        self._rename, self._start, self._end = rename, start, end
        self._outputs = None if outputs is None else parse_schema(outputs)
        if self._outputs is not None:
            moments = {START: start, END: end}
            changed = {moment: name for moment, name in moments.items() if name != self.default_moments[moment]}
            check_moments_in_outputs(changed, self._outputs)
        self._columns: dict[str, JoinColumn] = {}

    @property
    def declared_columns(self) -> frozenset[str] | None:
        """The columns of ``outputs`` and of the key, once the inputs are known; None for all columns.

        It is None without ``outputs``, for a subclass, whose code may read other columns, and if whole events leave the
        bolt, such as late ones.
        """
        settings = self.settings
        whole_rows = settings.late_stream is not None or settings.refused_stream is not None
        by_bytes = settings.capacity is not None and settings.capacity.needs_all_columns
        own_code = type(self).__module__ != __name__
        if self._outputs is None or self.reads is not None or own_code or whole_rows or by_bytes:
            return super().declared_columns
        chosen = {column.source for column in self._columns.values() if column.source}
        return frozenset({*chosen, *self.keys.left, *self.keys.right})

    @property
    def keys_by_stream(self) -> dict[str, tuple[str, ...]]:
        """The key columns of each of the two streams."""
        return {self.left: self.keys.left, self.right: self.keys.right}

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the join with its columns; raises ConfigError if the inputs do not fit."""
        check_inputs(inputs, self.left, self.right, self.keys)
        check_key_types(inputs[self.left], inputs[self.right], (self.left, self.right), self.keys)
        columns = join_columns(
            inputs, {LEFT: self.left, RIGHT: self.right}, self.keys, self._rename,
            moments={START: self._start, END: self._end}, without=frozenset({self.settings.watermark_field}),
            left_only=self.left_only,
        )  # fmt: skip
        bound = copy(self)
        bound._columns = columns if self._outputs is None else select_outputs(columns, self._outputs)
        return bound

    def output_schemas(self) -> dict[str, pa.Schema]:
        if self._outputs is not None:
            return {DEFAULT_STREAM: self._outputs}
        fields = [pa.field(name, column.kind) for name, column in self._columns.items()]
        return {DEFAULT_STREAM: pa.schema(fields)} if fields else {}


# Temporal joins.


class TemporalJoin(Join, Operator):
    """A join of left and right events with equal keys whose lifetimes overlap; also of events without such a partner
    (SI-22, SI-32).

        TemporalJoin("orders", "prices", on="item").with_timestamp_field("ts").with_lifetime("until")
        TemporalJoin("orders", "payments", on="order", how="anti").with_timestamp_field("ts").with_lifetime("until")

    ``left`` and ``right``: the names of two input streams. ``on``: the key, one or more columns that both streams have;
    or the key columns of each stream, ``on={"orders": "item", "prices": "id"}``. A key with a null equals no key. With
    several tasks, group each stream by fields among its key columns.

    ``how`` says which rows are emitted. An event without a partner is one whose lifetime overlaps that of no event of
    the other stream.

    - ``inner``: pairs.
    - ``left``, ``right``, ``full``: pairs, and left events, right events or both without a partner, with nulls for the
      other side.
    - ``semi``: left events that have a partner, each once, with the columns of the left stream only.
    - ``anti``: left events without a partner, with the columns of the left stream only.

    A row has the keys that have one name on both sides, then the columns of the left stream and those of the right,
    their keys first, and the overlap: ``overlap_start`` and ``overlap_end``. The end is exclusive, and null if it was
    not known when the row was emitted. For an event without a partner the overlap is the lifetime of the event; for a
    row of a semi join it begins when the event meets its first partner, and ends with the event. ``start`` and ``end``
    give other names to these two columns. A column that both streams have is named by ``rename``:
    ``"{stream}_{column}"``, or ``"{column}_{stream}"``. ``outputs`` selects columns by name: ``"item string, price
    double"``.

    The watermark is the least of the marks of both inputs. A pair is emitted when the watermark has passed the start of
    the overlap, which is the time of the row. A row of a semi join is emitted when the watermark has passed the moment
    at which the event meets its first partner, which is the time of the row. An event without a partner is emitted when
    the watermark has passed its end, which is the time of the row; if it has no end, when the streams end, after all
    other rows of its task. Pairs of one key and time are in order of (left, right), before events without a partner.

    ``versions=True``: an event of the right stream is the version of its key until the next event of the key begins, as
    in Flink's temporal table join; of several that begin at the same time the last counts. ``with_lifetime`` is then
    only needed for left events that last, and for versions that end before the next one begins.

    The events of a stream without the column of ``with_lifetime`` are points; ``AlterLifetime`` gives them a duration.
    The end of a lifetime is exclusive: an event of the other side at that very moment is no partner.

    The state is the events that may still overlap others; start edges stay until their end edges come. If events
    without a partner are emitted, one ended event per key may be kept too. ``semi`` and ``anti`` keep left events until
    they have a partner. Late events are in no row: the rows of an outer join and its late stream together contain every
    event of the outer side.

    Raises ConfigError for a join without keys, for a join of a stream with itself, for an unknown ``how``, for a
    ``rename`` that names no column, and for a ``start`` or an ``end`` that ``outputs`` leaves out; other mistakes are
    reported when the topology is built.
    """

    default_moments: ClassVar[Mapping[str, str | None]] = {START: "overlap_start", END: "overlap_end"}

    @checked_value
    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        how: How = "inner",
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str = "overlap_start",
        end: str = "overlap_end",
        versions: bool = False,
    ) -> None:
        super().__init__(left, right, on=on, outputs=outputs, rename=rename, start=start, end=end)
        check_how(how)
        self.how, self.left_only = how, how in ("semi", "anti")
        self.versions = read_flag("versions", versions)
        lifetime = Lifetime(NO_COLUMN) if versions else None
        self.settings = replace(self.settings, key=self.keys.left, kinds=_kinds(how, 0), lifetime=lifetime)

    def for_inputs(self, inputs: Mapping[str, pa.Schema]) -> Self:
        """Returns the join with its columns; raises ConfigError if the inputs do not fit."""
        bound = super().for_inputs(inputs)
        if self.settings.lifetime is None:
            raise ConfigError(
                "a join of events without lifetimes",
                why="pairs are events that live at the same time",
                do="call with_lifetime(end_field) with the column that says when events end; for events of a duration "
                "AlterLifetime makes one, in a bolt before; where the next event of a key ends the last, versions=True",
            )
        if self.versions and self.settings.lifetime.shape_field is not None:
            raise ConfigError(
                "a join with versions=True of events with a shape_field",
                why="a version ends as the next one of its key begins, and waits for no end edge",
                do="leave one of the two out",
            )
        bound.settings = replace(bound.settings, kinds=_kinds(self.how, list(inputs).index(self.left)))
        return bound

    def execute(self, window: TupleWindow) -> EmittedRows:
        if self.left_only:
            return self._left_rows(window)
        if self.how != "inner" and not _starts_with_event(window):
            return self._rows_without_partner(window)
        if len(window) < 2:
            return None
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) or not len(right) or _has_null(window.table, self.keys.left, int(left[0])):
            return None
        starts, moment = window.timestamps, window.start_timestamp
        lefts, rights = _new_pairs(left, starts[left] == moment, right, starts[right] == moment)
        ends = np.minimum(window.lifetime_ends[lefts], window.lifetime_ends[rights])
        events = {BOTH: pa.array(lefts), LEFT: pa.array(lefts), RIGHT: pa.array(rights)}
        return self._rows(window.table, events, np.full(len(lefts), moment, np.int64), ends)

    def _left_rows(self, window: TupleWindow) -> pa.Table:
        """Returns the rows of a semi or anti join: all events of the window."""
        rows = pa.array(np.arange(len(window)))
        starts = window.timestamps
        if self.how == "semi":
            starts = np.full(len(window), window.start_timestamp, np.int64)
        return self._rows(window.table, {BOTH: rows, LEFT: rows}, starts, window.lifetime_ends)

    def _rows_without_partner(self, window: TupleWindow) -> pa.Table:
        """Returns the rows of events without a partner, with nulls for the other side; left events come first."""
        left, right = window.places(self.left), window.places(self.right)
        rows = np.concatenate([left, right])
        is_left = np.arange(len(rows)) < len(left)
        events = {BOTH: pa.array(rows), LEFT: pa.array(rows, mask=~is_left), RIGHT: pa.array(rows, mask=is_left)}
        return self._rows(window.table, events, window.timestamps[rows], window.lifetime_ends[rows])

    def _rows(
        self, table: pa.Table, events: Mapping[str, pa.Array], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> pa.Table:
        """Returns output rows, each with a start and an end; ``events``: for each side, the row of ``table`` that each
        output row is made of."""
        overlap = {START: to_column(starts), END: to_column(ends)}
        arrays = [
            overlap[column.side] if column.side in overlap else table.column(column.source).take(events[column.side])
            for column in self._columns.values()
        ]
        return pa.table(arrays, names=list(self._columns))


def _kinds(how: How, left: int) -> tuple[Onset | Meeting]:
    """Returns the kinds of windows of a temporal join; ``left``: the index of its left input."""
    return (Onset() if how == "inner" else Meeting(how, left),)


def _starts_with_event(window: TupleWindow) -> bool:
    """True if the lifetime of an event begins with the window; False for the windows of events without a partner."""
    starts = window.timestamps
    return bool(((starts == window.start_timestamp) & (window.lifetime_ends > starts)).any())


def _new_pairs(
    left: NDArray[np.int64], left_is_new: NDArray[np.bool_], right: NDArray[np.int64], right_is_new: NDArray[np.bool_]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs with at least one new event, in order of (left, right)."""
    new_left, old_left, new_right = left[left_is_new], left[~left_is_new], right[right_is_new]
    lefts = np.concatenate([np.repeat(new_left, len(right)), np.repeat(old_left, len(new_right))])
    rights = np.concatenate([np.tile(right, len(new_left)), np.tile(new_right, len(old_left))])
    order = np.lexsort((rights, lefts))
    return lefts[order], rights[order]


def _has_null(table: pa.Table, keys: tuple[str, ...], row: int) -> bool:
    return any(not table.column(name)[row].is_valid for name in keys)


# Window joins.


_ROWS_AT_ONCE = 1 << 20
"""Greatest number of rows in one table, so that no column is too long for Arrow."""


class WindowJoin(Join):
    """A join of left and right events with equal keys in one window; windows are configured as those of any bolt.

        WindowJoin("persons", "auctions", on={"persons": "id", "auctions": "seller"})
            .with_tumbling_window("10s").with_timestamp_field("ts")

    ``left`` and ``right``: the names of two input streams. ``on``: the key, one or more columns that both streams have;
    or the key columns of each stream, as above. A key with a null equals no key. With several tasks, group each stream
    by fields among its key columns.

    ``how`` says which rows are emitted. An event without a partner is one without a match in its window.

    - ``inner``: pairs.
    - ``left``, ``right``, ``full``: pairs, and left events, right events or both without a partner, with nulls for the
      other side.
    - ``semi``: left events that have a partner, each once, with the columns of the left stream only.
    - ``anti``: left events without a partner, with the columns of the left stream only.

    A row has the keys that have one name on both sides, then the columns of the left stream and those of the right,
    their keys first. A key with one name on both sides is one column, and not null for events without a partner. Other
    columns that both streams have are named by ``rename``: ``"{stream}_{column}"``, or ``"{column}_{stream}"``.
    ``start`` and ``end`` name columns for the start and the end of the window, timestamps; the start is null if the
    length of windows is a count. ``outputs`` selects columns by name, and gives their types: ``"id long, price
    double"``. Columns with one name must have one type on both sides, as for any bolt with several inputs. The rows of
    a window are in order of (left, right), right events without a partner last.

    Late events are in no row: the rows of an outer join and its late stream together contain every event of the outer
    side.

    Raises ConfigError for a join without keys, for a join of a stream with itself, for an unknown ``how``, for a
    ``rename`` that names no column, and for a ``start`` or an ``end`` that ``outputs`` leaves out; other mistakes are
    reported when the topology is built.
    """

    @checked_value
    def __init__(
        self,
        left: str,
        right: str,
        *,
        on: On,
        how: How = "inner",
        outputs: str | pa.Schema | None = None,
        rename: str = "{stream}_{column}",
        start: str | None = None,
        end: str | None = None,
    ) -> None:
        super().__init__(left, right, on=on, outputs=outputs, rename=rename, start=start, end=end)
        check_how(how)
        self.how, self.left_only = how, how in ("semi", "anti")

    def execute(self, window: TupleWindow) -> Iterator[pa.Table]:
        left, right = window.places(self.left), window.places(self.right)
        if not len(left) and not len(right):
            return
        table = window.table
        lefts, rights = pairs(_keys(table, self.keys.left, left), _keys(table, self.keys.right, right))
        lefts, rights = _rows_of_pairs(self.how, lefts, rights, len(left), len(right))
        for begin in range(0, len(lefts), _ROWS_AT_ONCE):
            piece = slice(begin, begin + _ROWS_AT_ONCE)
            yield self._rows(window, _table_rows(left, lefts[piece]), _table_rows(right, rights[piece]))

    def _rows(self, window: TupleWindow, left: pa.Array, right: pa.Array) -> pa.Table:
        """Returns output rows, from the index in the window of the left and right event of each; null for no event."""
        table, events = window.table, {LEFT: left, RIGHT: right}
        moments = {START: window.start, END: window.end}
        arrays = [self._array(column, table, events, moments, len(left)) for column in self._columns.values()]
        return pa.table(arrays, names=list(self._columns))

    def _array(
        self,
        column: JoinColumn,
        table: pa.Table,
        events: Mapping[str, pa.Array],
        moments: Mapping[str, datetime | None],
        rows: int,
    ) -> pa.Array | pa.ChunkedArray:
        if column.side in moments:
            return pa.repeat(pa.scalar(moments[column.side], TIMESTAMP), rows)
        source = table.column(column.source)
        if column.side == BOTH:
            return pc.if_else(events[LEFT].is_valid(), source.take(events[LEFT]), source.take(events[RIGHT]))
        return source.take(events[column.side])


def _keys(table: pa.Table, names: tuple[str, ...], rows: NDArray[np.int64]) -> list[pa.Array]:
    indices = pa.array(rows)
    return [in_one_piece(table.column(name).take(indices)) for name in names]


def _rows_of_pairs(
    how: How, lefts: NDArray[np.int64], rights: NDArray[np.int64], left_count: int, right_count: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the left and the right event of each row of a join, from its pairs; -1 for no event. ``left_count`` and
    ``right_count``: the numbers of events of both sides."""
    if how in ("semi", "anti"):
        matched = np.bincount(lefts, minlength=left_count) > 0
        chosen = np.flatnonzero(matched if how == "semi" else ~matched)
        return chosen, np.full(len(chosen), -1)
    if how in ("left", "full"):
        without_partner = np.flatnonzero(np.bincount(lefts, minlength=left_count) == 0)
        lefts, rights = (
            np.concatenate([lefts, without_partner]),
            np.concatenate([rights, np.full(len(without_partner), -1)]),
        )
        order = np.argsort(lefts, kind="stable")
        lefts, rights = lefts[order], rights[order]
    if how in ("right", "full"):
        without_partner = np.flatnonzero(np.bincount(rights[rights >= 0], minlength=right_count) == 0)
        lefts, rights = (
            np.concatenate([lefts, np.full(len(without_partner), -1)]),
            np.concatenate([rights, without_partner]),
        )
    return lefts, rights


def _table_rows(side_rows: NDArray[np.int64], chosen: NDArray[np.int64]) -> pa.Array:
    """Returns the rows of the table of some events of one side. ``side_rows``: the rows of all events of the side.
    ``chosen``: indices into these; -1 gives null."""
    if not len(side_rows):
        return pa.nulls(len(chosen), pa.int64())
    return pa.array(side_rows[chosen], mask=chosen < 0)
