"""Columns and limits that ready-made bolts are given, and pairs of rows with equal keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from windowing.aggregates.groups import Keys
from windowing.columns import stable_order
from windowing.durations import Duration, Time, as_duration
from windowing.errors import ConfigError, did_you_mean_column, together
from windowing.schema import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


# Pairs of rows with equal keys: the heart of a join of two sets of rows that are both there.


def key_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Returns the type in which values of two types are compared; None where they are of different kinds.

    Whole numbers of any width are compared, and floating point of any width; they are grouped in the same way.
    """
    one, other = value_type(one), value_type(other)
    if one == other:
        return one
    for same, common in ((_whole, pa.int64()), (pa.types.is_floating, pa.float64())):
        if same(one) and same(other):
            return common
    return None


def can_be_compared(kind: pa.DataType) -> bool:
    """True if values of a type can be keys: all types but lists and maps, and structs that have one of these."""
    kind = value_type(kind)
    if pa.types.is_struct(kind):
        return all(can_be_compared(field.type) for field in kind)
    return not pa.types.is_nested(kind)


def pairs(left: Sequence[pa.Array], right: Sequence[pa.Array]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the pairs of rows of two sides that have equal keys, in order of (left, right): two int64 arrays of
    positions, of equal length.

    The columns of both sides are of types that ``key_type`` knows to compare. A key with a null equals none; NaN
    equals NaN, and 0.0 equals -0.0.
    """
    rows, others = len(left[0]), len(right[0])
    columns = [_joined(one, other) for one, other in zip(left, right, strict=True)]
    codes = Keys.of(columns, rows + others).codes
    known = np.ones(rows + others, np.bool_)
    for column in columns:
        if column.null_count:
            known &= column.is_valid().to_numpy(zero_copy_only=False)
    here, there = np.flatnonzero(known[:rows]), np.flatnonzero(known[rows:])
    theirs = codes[rows:][there]
    order = stable_order(theirs)
    there, theirs = there[order], theirs[order]
    begin = np.searchsorted(theirs, codes[here], "left")
    count = np.searchsorted(theirs, codes[here], "right") - begin
    lefts = np.repeat(here, count)
    skipped = np.repeat(np.cumsum(count) - count, count)
    return lefts, there[np.repeat(begin, count) + np.arange(len(lefts)) - skipped]


def _joined(one: pa.Array, other: pa.Array) -> pa.Array:
    common = key_type(one.type, other.type)
    assert common is not None
    return pa.concat_arrays([_cast_to(one, common), _cast_to(other, common)])


def _cast_to(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)


def _whole(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind)) and kind != pa.uint64()


# Columns that ready-made bolts take by name: read when a bolt is made, and checked when its inputs are known.


def read_name(bolt: str, argument: str, name: object) -> str:
    """Returns the name of a column; ConfigError for anything else."""
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{bolt}({argument}={name!r:.60})", why="that is not the name of a column", do=f"write {argument}='name'"
        )
    return name


def read_columns(bolt: str, argument: str, names: object) -> tuple[str, ...]:
    """Returns the names of one column, of several, or of none; ConfigError for anything else."""
    given = (names,) if isinstance(names, str) else () if names is None else names
    if not isinstance(given, Iterable):
        given = (None,)
    listed = tuple(given)
    if not all(isinstance(name, str) and name for name in listed) or len(set(listed)) < len(listed):
        raise ConfigError(
            f"{bolt}({argument}={names!r:.60})", why="these are columns, each named once", do="give their names"
        )
    return listed


def unified(inputs: Mapping[str, pa.Schema]) -> pa.Schema | None:
    """Returns the columns of all inputs; None where types differ, which is a mistake of any bolt and reported as
    such."""
    try:
        return pa.unify_schemas(list(inputs.values()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def check_columns(bolt: str, *problems: Iterable[ConfigError]) -> None:
    """Raises one ConfigError with all problems of a bolt's columns, if there are any."""
    found = [*chain.from_iterable(problems)]
    if found:
        raise together(bolt, found)


def wrong_groups(
    bolt: str,
    argument: str,
    names: Sequence[str],
    schema: pa.Schema,
    fits: Callable[[pa.DataType], bool] = can_be_compared,
) -> Iterator[ConfigError]:
    """Yields an error for each column that the input does not have, or whose values cannot be used."""
    for name in names:
        if name not in schema.names:
            yield ConfigError(
                f"{bolt}({argument}={name!r}), and there is no such column{did_you_mean_column(name, schema.names)}",
                why=f"the bolt reads {', '.join(schema.names)}",
                do="name columns that it reads",
            )
        elif not fits(schema.field(name).type):
            yield ConfigError(
                f"{bolt}({argument}={name!r}), which is {schema.field(name).type}",
                why="such values cannot be compared",
                do="cast it, or take a part of it as a column, in a bolt before",
            )


def taken_names(bolt: str, names: Sequence[str], schema: pa.Schema) -> Iterator[ConfigError]:
    """Yields an error for each column that the bolt adds and that is there already, or is added twice."""
    twice = [name for at, name in enumerate(names) if name in schema.names or name in names[:at]]
    for name in dict.fromkeys(twice):
        yield ConfigError(
            f"{bolt} with two columns {name!r}",
            why=f"it adds {', '.join(names)} to {', '.join(schema.names)}",
            do="choose another name for the one that it adds",
        )


# Limits that ready-made bolts take as a number, or as a length of time.


def read_limit(bolt: str, limit: object, what: str) -> int:
    """Reads a whole number above 0; ConfigError for anything else. ``what``: the things that it counts."""
    if type(limit) is not int or limit < 1:
        raise ConfigError(f"{bolt}({limit!r:.60})", why=f"it is the number of {what}", do="give a whole number above 0")
    return limit


def read_length_of_time(bolt: str, argument: str, given: Time) -> Duration:
    """Reads a length of time above zero; ConfigError for anything else that was given for ``argument``."""
    try:
        length = as_duration(given)
    except ConfigError as error:
        raise ConfigError(f"{bolt}({argument}={given!r:.60}): {error.what}", why=error.why, do=error.do) from None
    if not length.micros:
        raise ConfigError(f"{bolt}({argument}={given!r})", why="the duration is zero", do="give one above zero")
    return length
