"""The columns that ready bolts are told by name: read where a bolt is made, and checked where its inputs are known."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain

import pyarrow as pa

from windowing.bolts.joins.matching import can_be_compared
from windowing.errors import ConfigError, together
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


def check_columns(bolt: str, *problems: Iterable[ConfigError]) -> None:
    """ConfigError that tells all problems with the columns of a bolt; none where there is none."""
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
    """An error for each column that the input does not have, or whose values cannot be used."""
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
    """An error for each column that the bolt adds and that is there already, or is added twice."""
    twice = [name for at, name in enumerate(names) if name in schema.names or name in names[:at]]
    for name in dict.fromkeys(twice):
        yield ConfigError(
            f"{bolt} with two columns {name!r}",
            why=f"it adds {', '.join(names)} to {', '.join(schema.names)}",
            do="choose another name for the one that it adds",
        )
