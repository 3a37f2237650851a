"""Columns that folders give to the files in them: ``events/dt=2024-01-01/hour=06/`` (Hive's partitions).

They are declared with their types, as Hive's ``PARTITIONED BY (dt date, hour int)``; nothing is guessed from names.
What a folder says of a file holds for each of its rows. A file that has such a column too has to say the same.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from topologies.io.formats import Chunk
from topologies.io.formats.bad import BadRow, python_columns, row_as_json, short_repr
from topologies.io.formats.declared_times import Times, form_of
from topologies.io.formats.file_errors import type_name
from topologies.io.formats.isolate import Mask, bad_of, cut_of
from topologies.io.formats.lines.text import convertible_text, parse_text
from topologies.io.formats.split import OnTruncation
from topologies.io.patterns import is_partition
from windowing.data.schema import format_schema, parse_schema
from windowing.errors import ConfigError, DataError
from windowing.suggestions import did_you_mean

NULL = "__HIVE_DEFAULT_PARTITION__"
"""The name of null among folders, in Hive, Spark and all that write such folders."""
_NUMBER = re.compile(r"\s*[+-]?\d+(\.\d*)?([eE][+-]?\d+)?\s*")
"""What would be milliseconds since 1970 in a file."""
_BASIC_DATE = re.compile(r"(\d{4})(\d\d)(\d\d)")


def checked_partition_columns(given: object) -> pa.Schema:
    """The columns by their declaration; none for None. Raises ConfigError for types that no folder's name can have."""
    if given is None:
        return pa.schema([])
    if isinstance(given, tuple | list | set | frozenset):
        raise ConfigError(
            f"partition_columns={given!r:.60} is no declaration",
            why="the name of a folder is text, and which type it stands for is not guessed",
            do=f"declare them: partition_columns={', '.join(map(_declared, given))!r}, or with types "
            "like date, int and timestamp",
        )
    columns = parse_schema(given)
    wrong = [field for field in columns if not (field.type == pa.string() or convertible_text(field.type))]
    if wrong:
        raise ConfigError(
            f"partition column {wrong[0].name!r} is declared as {type_name(wrong[0].type)}",
            why="the name of a folder is a text, a number, a date, a time, or true or false",
            do="declare it as string, and take it apart in a bolt",
        )
    return columns


def _declared(given: object) -> str:
    """The declaration of a column of which a user gave the name, or the name and the type."""
    match given:
        case (str() as name, str() as kind):
            return f"{name} {kind}"
        case (str() as name, *_):
            return f"{name} string"
    return f"{given} string"


def with_partition_columns(declared: pa.Schema, columns: pa.Schema) -> pa.Schema:
    """The columns of files and of their folders. Raises ConfigError for one that is declared as both."""
    twice = [name for name in columns.names if name in declared.names]
    if twice:
        raise ConfigError(
            f"column {', '.join(map(repr, twice))} is in the schema, and in partition_columns",
            why="a column is read from the files, or from the names of their folders",
            do="leave it out of the schema; the rows have it all the same",
        )
    return pa.schema([*declared, *columns])


def folder_texts(path: str) -> dict[str, str]:
    """What the folders of a file say, by column: those of the form ``name=value`` that stand one in the other, the
    nearest to the file. Raises DataError where two of them have one name.

    Folders of other names may stand between them and the file. Those above the others count no more, as in Spark.
    """
    found: dict[str, str] = {}
    for folder in reversed(path.split("/")[:-1]):
        if not is_partition(folder):
            if found:
                break
            continue
        name, _, value = folder.partition("=")
        name = unquote(name)
        if name in found:
            raise DataError(
                f"{path!r} is in two folders of the column {name!r}",
                why=f"they say {found[name]!r} and {value!r}",
                do="move the file",
            )
        found[name] = value
    return dict(reversed(found.items()))


@dataclass(frozen=True)
class Partition:
    """What the folders of a file say of its rows."""

    values: Mapping[str, pa.Array]
    """By column, an array of its type that holds the value alone. Not there for one that has a default, and that the
    folders do not have."""
    texts: Mapping[str, str]
    """By column, the value as the folder has it."""
    cut: bool = False
    """Whether one of the values is a time that was cut to microseconds."""

    @staticmethod
    def of(
        path: str,
        columns: pa.Schema,
        optional: Collection[str] = (),
        on_truncation: OnTruncation = "cut",
        times: Times = (),
    ) -> Partition:
        """What the folders of this file say of these columns; they may lack those in ``optional``. ``times``: how times
        are declared to be written, by column.

        Raises DataError for a column that they lack otherwise, and for a value that is not of its type or, with
        ``"error"``, is finer than it.
        """
        if not columns.names:
            return Partition({}, {})
        texts = folder_texts(path)
        absent = [name for name in columns.names if name not in texts and name not in optional]
        if absent:
            among = ", ".join(f"{name}=" for name in texts) or "none of the form name=value"
            raise DataError(
                f"{path!r} is in no folder {absent[0]}=...{did_you_mean(absent[0], texts)}",
                why=f"{absent[0]!r} is one of partition_columns, and the folders of the file are {among}",
                do="move the file, or give its spout a default for the column",
            )
        forms = dict(times)
        read = {
            field.name: _value(path, field, texts[field.name], forms.get(field.name))
            for field in columns
            if field.name in texts
        }
        cut = [name for name, (_, was_cut) in read.items() if was_cut]
        if cut and on_truncation == "error":
            raise DataError(
                f"{path!r} is in the folder {cut[0]}={texts[cut[0]]}, which is finer than a microsecond",
                why="on_truncation='error' cuts nothing",
                do="rename the folder, or leave on_truncation out",
            )
        return Partition({name: value for name, (value, _) in read.items()}, texts, bool(cut))

    def cast(self, columns: pa.Schema) -> Partition:
        """The same values in other types for the same moments."""
        values = {name: each.cast(columns.field(name).type) for name, each in self.values.items()}
        return replace(self, values=values)

    def applied(self, chunk: Chunk) -> Chunk:
        """The rows with the values of their folders. One that has another value of its own is bad."""
        table, numbers, bad = chunk
        if not self.values:
            return chunk
        wrong: dict[str, Mask] = {}
        given = table
        for name, value in self.values.items():
            place = table.column_names.index(name)
            own = table.column(place)
            if own.null_count < len(own):
                other = pc.and_(own.is_valid(), pc.invert(pc.is_in(own, value))).to_numpy()
                if other.any():
                    wrong[name] = other
            table = table.set_column(place, table.field(place), pa.chunked_array([_repeated(value, len(own))]))
        bad = bad.with_truncated(numbers) if self.cut else bad
        if not wrong:
            return table, numbers, bad
        mask = np.logical_or.reduce(list(wrong.values()))
        places = np.flatnonzero(mask)
        shown = python_columns(given.take(pa.array(places)))
        others = [
            BadRow(
                int(numbers[at]),
                "; ".join(
                    f"column {name!r}: {short_repr(shown[name][place])} is not what the folder of the file says, "
                    f"{name}={self.texts[name]}"
                    for name, other in wrong.items()
                    if other[at]
                ),
                row_as_json(shown, place),
            )
            for place, at in enumerate(places.tolist())
        ]
        return table.filter(pa.array(~mask)), numbers[~mask], bad.with_others(others)


def undeclared(path: str, columns: pa.Schema) -> str | None:
    """The declaration that reads the folders of a file which are not read as columns, as strings; None without any."""
    others = [name for name in folder_texts(path) if name not in columns.names]
    return format_schema(pa.schema([*columns, *((name, pa.string()) for name in others)])) if others else None


def _repeated(value: pa.Array, number: int) -> pa.Array:
    return pa.nulls(number, value.type) if value.null_count else pa.repeat(value[0], number)


def _value(path: str, column: pa.Field, given: str, form: str | None) -> tuple[pa.Array, bool]:
    """The value of a folder, as an array of the column's type that holds it alone; and whether it was cut to it."""
    kind, text = column.type, _decoded(given)
    if given == NULL:
        return pa.nulls(1, kind), False
    if text and kind == pa.string():
        return pa.array([text]), False
    if text and form is not None:
        values, flags = form_of(form).parse(pa.array([text]), kind)
        if flags is None or not bad_of(flags).any():
            return values, flags is not None and cut_of(flags) is not None
        raise DataError(
            f"{path!r} is in the folder {column.name}={given}, which is no {type_name(kind)}",
            why=form_of(form).reason(text),
            do="rename the folder, or correct times=",
        )
    if text and pa.types.is_temporal(kind):
        text = _BASIC_DATE.sub(r"\1-\2-\3", text) if _BASIC_DATE.fullmatch(text) else text
        text = None if _NUMBER.fullmatch(text) else text
    if text:
        values, flags = parse_text(pa.array([text]), kind)
        if flags is None or not bad_of(flags).any():
            return values, flags is not None and cut_of(flags) is not None
    raise DataError(
        f"{path!r} is in the folder {column.name}={given}, which is no {type_name(kind)}",
        why=_reason(column, given),
        do="rename the folder, or declare the column as string",
    )


def _decoded(given: str) -> str | None:
    """The value of a folder, in which characters may be written as %3A; None where these are no UTF-8."""
    try:
        return unquote(given, errors="strict")
    except UnicodeDecodeError:
        return None


def _reason(column: pa.Field, given: str) -> str:
    if not given:
        return f"it has no value; a folder of rows without one is called {column.name}={NULL}"
    if _decoded(given) is None:
        return "what it writes with percent signs is not UTF-8"
    if pa.types.is_temporal(column.type):
        return "dates and times are written like 2024-01-01, 20240101 or 2024-01-01T06:00:00"
    return f"partition_columns declare {column.name!r} as {type_name(column.type)}"
