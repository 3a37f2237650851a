"""Rows of a file as the declared columns: those that are good, and the others with the reason why they are not.

Values are converted by ``convert.py``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from topologies.io.formats.bad import (
    LONGEST_VALUE,
    NO_BAD_ROWS,
    UTF_8,
    BadRow,
    BadRows,
    python_columns,
    row_as_json,
    short_repr,
    shown_bytes,
)
from topologies.io.formats.convert import as_bytes, convert_column, convertible, is_bytes, is_number, is_text
from topologies.io.formats.declared_times import Times, form_of, is_unit
from topologies.io.formats.file_errors import type_name
from topologies.io.formats.isolate import CUT, Flags, Mask, bad_of, cut_of, either
from topologies.io.formats.split import Chunk, OnTruncation
from windowing.data.schema import narrowest
from windowing.errors import DataError

_kinds = pa.types


def refuse_impossible(path: str, present: pa.Schema, schema: pa.Schema, times: Times = ()) -> None:
    """Raise DataError for columns whose type in the file can never become the declared one. ``times``: as for
    ``settle``."""
    forms = dict(times)
    pairs = [(field, present.field(field.name).type) for field in schema]
    wrong = [(field, kind) for field, kind in pairs if not convertible(kind, field.type, forms.get(field.name))]
    if wrong:
        mismatches = "; ".join(
            f"{field.name!r} is {kind}, declared as {type_name(field.type)}" for field, kind in wrong
        )
        raise DataError(
            f"{path!r} does not fit the declared columns: {mismatches}",
            why="these types cannot be converted without loss",
            do="declare the columns as they are in the file",
        )


def without_unneeded(schema: pa.Schema, present: pa.Schema, needed: Collection[str] | None) -> pa.Schema:
    """The columns to read of a file with the columns ``present``; those in ``needed`` are asked for (None: all).

    Columns whose values might have to be refused are read all the same, so that the same rows are bad; except for text
    that is not UTF-8. One column is read at least: a table without columns would not know how many rows it has.
    """
    if needed is None:
        return schema
    kept = [
        field
        for field in schema
        if field.name in needed or field.type != present.field(field.name).type or not _any_value_fits(field.type)
    ]
    return pa.schema(kept or [narrowest(schema)])


def only_present(schema: pa.Schema, present: Collection[str]) -> pa.Schema:
    """The declared columns that a file has."""
    return schema if set(schema.names) <= set(present) else pa.schema([each for each in schema if each.name in present])


def with_absent(chunk: Chunk, schema: pa.Schema, present: Collection[str]) -> Chunk:
    """Rows with the declared columns that their file lacks, which are null."""
    absent = [field for field in schema if field.name not in present]
    if not absent:
        return chunk
    table, numbers, bad = chunk
    for field in absent:
        table = table.append_column(field, pa.nulls(len(numbers), field.type))
    return table.select([name for name in schema.names if name in table.column_names]), numbers, bad


def _any_value_fits(kind: pa.DataType) -> bool:
    return bool(is_text(kind) or is_bytes(kind) or is_number(kind) or _kinds.is_boolean(kind))


def settle(
    raw: pa.Table,
    schema: pa.Schema,
    numbers: npt.NDArray[np.int64],
    on_truncation: OnTruncation,
    found: Mapping[str, Flags] = MappingProxyType({}),
    times: Times = (),
) -> Chunk:
    """Convert rows as read into (good rows with exactly ``schema``, their row numbers, bad rows).

    ``found``: flags of columns that were known before. ``times``: how texts and numbers are times, by column.
    """
    forms = dict(times)
    columns: list[pa.ChunkedArray] = []
    flags: dict[str, Flags] = {}
    for field in schema:
        column, of_column = convert_column(raw.column(field.name), field.type, forms.get(field.name))
        columns.append(column)
        of_column = either(of_column, found.get(field.name))
        if of_column is not None and of_column.any():
            flags[field.name] = of_column
    table = pa.Table.from_arrays(columns, schema=schema)
    return parted(table, raw, flags, numbers, on_truncation, times=times)


def parted(
    table: pa.Table,
    raw: pa.Table,
    flags: dict[str, Flags],
    numbers: npt.NDArray[np.int64],
    on_truncation: OnTruncation,
    encoding: str = UTF_8,
    times: Times = (),
) -> Chunk:
    """Separate the rows that are bad in some column from the good ones, and tell those that were truncated.

    ``encoding``: as for ``shown_bytes``.
    """
    if not flags:
        return table, numbers, NO_BAD_ROWS
    masks = {name: refused(of_column, on_truncation) for name, of_column in flags.items()}
    any_bad = np.logical_or.reduce(list(masks.values()))
    cut = [each for each in map(cut_of, flags.values()) if each is not None]
    truncated = numbers[np.logical_or.reduce(cut) & ~any_bad] if cut else numbers[:0]
    if not any_bad.any():
        return table, numbers, NO_BAD_ROWS.with_truncated(truncated)
    places, forms = np.flatnonzero(any_bad), dict(times)
    wrong = python_columns(_with_bytes(_takeable(raw).take(pa.array(places))))
    bad = [
        BadRow(
            int(numbers[at]),
            "; ".join(
                _reason(
                    table.schema.field(name),
                    raw.schema.field(name).type,
                    wrong,
                    place,
                    flags[name][at],
                    encoding,
                    forms.get(name),
                )
                for name, mask in masks.items()
                if mask[at]
            ),
            row_as_json(wrong, place, encoding),
        )
        for place, at in enumerate(places)
    ]
    return table.filter(pa.array(~any_bad)), numbers[~any_bad], BadRows.of(bad).with_truncated(truncated)


def refused(flags: Flags, on_truncation: OnTruncation) -> Mask:
    """The values that make their rows bad."""
    return flags != 0 if on_truncation == "error" else bad_of(flags)


def too_fine(name: str, value: object) -> str:
    """The reason why a time that would be cut is bad."""
    return (
        f"column {name!r}: {short_repr(value)} is finer than a microsecond, and on_truncation='error' cuts nothing; "
        "round it before, or leave on_truncation out"
    )


def misfit(name: str, value: object, kind: pa.DataType, form: str | None = None) -> str:
    """The reason why a value does not fit its declared type. ``form``: how its times are declared to be written."""
    if form is not None:
        return f"column {name!r}: {short_repr(value)} is no {type_name(kind)}: {form_of(form).reason(str(value))}"
    hint = _time_hint(name, str(value).strip(), kind) if _kinds.is_temporal(kind) else None
    if hint is not None:
        return f"column {name!r}: {short_repr(value)} is no {type_name(kind)}: {hint}"
    return f"column {name!r}: {short_repr(value)} cannot be read as {type_name(kind)} without changing it"


_TIMES: tuple[tuple[str, str, str], ...] = (
    (r"-?\d{14,}", "whole numbers are milliseconds since 1970, and this one looks like micro- or nanoseconds", "us"),
    (r"-?\d+\.\d+", "whole numbers are milliseconds since 1970, and this one looks like seconds with a fraction", "s"),
    (r".*\d\s?[AaPp]\.?[Mm]\.?", "it looks like a clock of twelve hours", "%d/%m/%Y %I:%M %p"),
    (r".*:60(\D.*)?", "it looks like a leap second, which timestamps do not have", ""),
    (r".*\d\s?\[?[A-Za-z_]{2,}(/[A-Za-z_]+)*\]?", "its zone is a name, not Z or an offset like +01:00", ""),
    (r".*\d [+-]\d\d:?\d\d", "there is a space before its offset", "%Y-%m-%d %H:%M:%S %z"),
    (r"\d{1,4}[/.]\d{1,2}[/.]\d{1,4}.*", "which number is the day and which the month cannot be told", "%d/%m/%Y"),
    (r"\d{1,2}-\d{1,2}-\d{2,4}.*", "which number is the day and which the month cannot be told", "%d-%m-%Y"),
    (r"\d{4}-?W\d\d.*", "it looks like a week of the year", ""),
)
"""What texts look like that are no times, what that is, and the form that would read the likes of them."""
_SURE = 4
"""How many of these are told before a day and a time of day that there is not."""
_MOMENT = re.compile(
    r"([+-]?\d{4,})-?(\d\d)-?(\d\d)"
    r"([Tt ](\d\d)(?::?(\d\d)(?::?(\d\d)(?:[.,]\d+)?)?)?(?:[Zz]|([+-]\d\d)(?::?(\d\d))?)?)?"
)
_BEYOND = "write null for an end that is not known, or declare a string"


def _time_hint(name: str, text: str, kind: pa.DataType) -> str | None:
    """What a text looks like that is no time, and what to do about it; None where it looks like nothing known."""
    is_date = _kinds.is_date(kind)
    like = "write it like 2024-05-01" if is_date else "write it like 2024-05-01T06:00:00Z"
    advice = f"{like}, or declare a string" + ("" if is_date else " and read it in an extractor")
    if is_date and re.fullmatch(r"\d{8}", text):
        return f"it has no hyphens; {like}, or say how it is written, as in times={{{name!r}: '%Y%m%d'}}"
    for number, (pattern, hint, form) in enumerate(_TIMES):
        if number == _SURE and (found := _MOMENT.fullmatch(text)) is not None:
            wrong, beyond = _of_moment(found, kind)
            return f"{wrong}; {_BEYOND if beyond else advice}"
        if re.fullmatch(pattern, text):
            if not form or (is_date and is_unit(form)):
                return f"{hint}; {advice}"
            day = form.split(" ")[0]
            return f"{hint}; {like}, or say how it is written, as in times={{{name!r}: {(day if is_date else form)!r}}}"
    return None


def _of_moment(found: re.Match[str], kind: pa.DataType) -> tuple[str, bool]:
    """What is wrong with a day and a time of day, and whether that is its year."""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.group(1, 2, 3, 5, 6, 7))
    try:
        datetime(2000 + year % 400, month, day, hour, minute, second, tzinfo=UTC)  # the calendar repeats itself
    except ValueError:
        return "there is no such day or time", False
    if not 1 <= year <= 9999:
        return "its year is none of 1 to 9999", True
    if _kinds.is_date(kind):
        return ("it has a time of day, which a date has not" if found[4] else "there is no such day"), False
    hours, minutes = (abs(int(part or 0)) for part in found.group(8, 9))
    if hours > 23 or minutes > 59:
        return "there is no such offset", False
    if year in (1, 9999):
        return f"in UTC it is {'before the year 1' if year == 1 else 'after the year 9999'}", True
    return "there is no such day or time", False


def _takeable(raw: pa.Table) -> pa.Table:
    """The table with view types replaced, since Arrow cannot take rows of some of them."""
    for index, field in enumerate(raw.schema):
        if _kinds.is_string_view(field.type) or _kinds.is_binary_view(field.type):
            column = pa.chunked_array([as_bytes(chunk) for chunk in raw.column(index).chunks], pa.binary())
            raw = raw.set_column(index, field.name, column)
    return raw


def _with_bytes(raw: pa.Table) -> pa.Table:
    """The table with text as bytes, which can be shown even if they are invalid text."""
    columns = [
        pa.chunked_array([as_bytes(chunk) for chunk in column.chunks]) if is_text(column.type) else column
        for column in raw.columns
    ]
    return pa.Table.from_arrays(columns, names=raw.column_names)


def _reason(
    field: pa.Field,
    given: pa.DataType,
    wrong: dict[str, list[Any]],
    index: int,
    flag: np.bool_ | np.uint8,
    encoding: str,
    form: str | None,
) -> str:
    """Why a value, which was ``given`` as this type, is bad."""
    value = wrong[field.name][index]
    if flag == CUT:
        return too_fine(field.name, value.decode() if isinstance(value, bytes) else str(value))
    if _kinds.is_timestamp(given) or _kinds.is_date(given):
        return f"column {field.name!r}: {value!s} as {given} is outside the years 1 to 9999 in UTC; {_BEYOND}"
    if not isinstance(value, bytes):
        return misfit(field.name, value, field.type, form)
    try:
        return misfit(field.name, value.decode("utf-8"), field.type, form)
    except UnicodeDecodeError:
        if encoding == UTF_8:
            return f"column {field.name!r}: {short_repr(value)} is not valid UTF-8"
        return f"column {field.name!r}: '{shown_bytes(value, encoding)[:LONGEST_VALUE]}' is not valid {encoding}"
