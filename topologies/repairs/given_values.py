"""Values that a user gives for stored ones: which are different, and the column with them, of the type it had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from windowing.data.conversion import REFUSED, converted
from windowing.data.schema import value_type

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class GivenValues:
    """The values of one column for some stored rows, in their order."""

    values: pa.Array
    """Of the type that they are stored in; that of a dictionary's values where they are stored so."""
    differ: NDArray[np.bool_]
    """Which are not the stored ones."""


class NoSuchValue(Exception):
    """A value that the type of its column cannot hold: ``place`` is its place among those given."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self.place = place


def compare_given(stored: pa.Array, given: pa.Array, *, null_is_nan: bool) -> GivenValues:
    """Compare values with the stored ones. NoSuchValue for one that the type cannot hold exactly.

    Libraries change types: whole numbers with nulls become floats, times nanoseconds. A value that is what the stored
    one becomes in the type given is the stored one, to the last digit. ``null_is_nan``: a null stands for a stored NaN
    too.
    """
    stored, given = without_dictionary(stored), without_dictionary(given)
    differ = ~_same(_loosely(stored, given.type), given)
    if null_is_nan and pa.types.is_floating(stored.type):
        differ &= ~(np.asarray(pc.fill_null(pc.is_nan(stored), fill_value=False)) & np.asarray(given.is_null()))
    changed = _exactly(given, np.flatnonzero(differ), stored.type)
    places = np.arange(len(stored))
    places[differ] = len(stored) + np.arange(len(changed))
    values = pa.concat_arrays([stored, changed]).take(pa.array(places))
    return GivenValues(values, ~_same(stored, values))


def without_dictionary(column: pa.Array) -> pa.Array:
    """The values themselves, where they are stored as places in a dictionary."""
    kind = value_type(column.type)
    return column if kind == column.type else column.cast(kind)


def as_stored(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Values as they are stored."""
    if not pa.types.is_dictionary(kind):
        return values
    found = values.dictionary_encode()
    indices = found.indices.cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(indices, found.dictionary.cast(kind.value_type), ordered=kind.ordered)


def _loosely(stored: pa.Array, kind: pa.DataType) -> pa.Array:
    """Stored values as a library has them that uses another type; all null where there is no such conversion."""
    if stored.type == kind:
        return stored
    try:
        return stored.cast(kind, safe=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return pa.nulls(len(stored), kind)


def _exactly(given: pa.Array, places: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    chosen = given.take(pa.array(places))
    if chosen.type == kind:
        return chosen
    try:
        return _converted(chosen, kind)
    except REFUSED:
        for place in places.tolist():
            try:
                _converted(given.slice(place, 1), kind)
            except REFUSED:
                raise NoSuchValue(place) from None
        raise


def _converted(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Given values as they are stored; from texts, as in JSON, they are read."""
    return column.cast(kind) if pa.types.is_string(column.type) else converted(column, kind)


def _same(one: pa.Array, other: pa.Array) -> NDArray[np.bool_]:
    """Which values are the same: nulls are, and NaN is NaN."""
    if pa.types.is_null(one.type):
        return np.ones(len(one), np.bool_)
    if pa.types.is_nested(one.type):
        return np.array([a == b for a, b in zip(one.to_pylist(), other.to_pylist(), strict=True)], np.bool_)
    same = pc.fill_null(pc.equal(one, other), fill_value=False)
    if pa.types.is_floating(one.type):
        same = pc.or_(same, pc.fill_null(pc.and_(pc.is_nan(one), pc.is_nan(other)), fill_value=False))
    found: NDArray[np.bool_] = np.asarray(pc.or_(same, pc.and_(one.is_null(), other.is_null())))
    return found
