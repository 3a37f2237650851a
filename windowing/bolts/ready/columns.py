"""The columns that ready bolts are told by name: read where a bolt is made, and checked where its inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pyarrow as pa

from windowing.bolts.joins.matching import can_be_compared
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean_column


def read_name(bolt: str, argument: str, name: object) -> str:
    """The name of a column; ConfigError for anything else."""
    if not isinstance(name, str) or not name:
        raise ConfigError(
            f"{bolt}({argument}={name!r:.60})", why="that is not the name of a column", do=f"write {argument}='name'"
        )
    return name


def read_columns(bolt: str, argument: str, names: object) -> tuple[str, ...]:
    """One column, several, or none; ConfigError for anything else."""
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
    """The columns of all inputs; None where types differ, which is a mistake of any bolt and reported as such."""
    try:
        return pa.unify_schemas(list(inputs.values()))
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None


def check_groups(
    bolt: str,
    argument: str,
    names: Sequence[str],
    schema: pa.Schema,
    fits: Callable[[pa.DataType], bool] = can_be_compared,
) -> None:
    """ConfigError for columns that the input does not have, or whose values cannot be used."""
    for name in names:
        if name not in schema.names:
            raise ConfigError(
                f"{bolt}({argument}={name!r}), and there is no such column{did_you_mean_column(name, schema.names)}",
                why=f"the bolt reads {', '.join(schema.names)}",
                do="name columns that it reads",
            )
        if not fits(schema.field(name).type):
            raise ConfigError(
                f"{bolt}({argument}={name!r}), which is {schema.field(name).type}",
                why="such values cannot be compared",
                do="cast it, or take a part of it as a column, in a bolt before",
            )


def check_new(bolt: str, names: Sequence[str], schema: pa.Schema) -> None:
    """ConfigError where a column that the bolt adds is there already, or is added twice."""
    twice = [name for at, name in enumerate(names) if name in schema.names or name in names[:at]]
    if twice:
        raise ConfigError(
            f"{bolt} with two columns {twice[0]!r}",
            why=f"it adds {', '.join(names)} to {', '.join(schema.names)}",
            do="choose another name for the one that it adds",
        )
