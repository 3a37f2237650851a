"""The columns of a join: which of them are its key on either side, and what they are called in its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from windowing.bolts.joins.matching import can_be_compared, key_type
from windowing.data.conversion import REFUSED, converted
from windowing.data.schema import TIMESTAMP
from windowing.errors import ConfigError, together
from windowing.suggestions import did_you_mean_column

LEFT, RIGHT, BOTH, START, END = "left", "right", "both", "start", "end"


@dataclass(frozen=True)
class JoinColumn:
    """A column that a join emits: of which side, and what it is called there.

    ``both``: a key of one name, which is the right event's where there is no left one. ``start`` and ``end``: of the
    window, or of the overlap.
    """

    side: str
    source: str
    kind: pa.DataType


@dataclass(frozen=True)
class JoinKeys:
    """The key columns of both streams; those at one place are to be equal."""

    left: tuple[str, ...]
    right: tuple[str, ...]

    def __str__(self) -> str:
        pairs = zip(self.left, self.right, strict=True)
        return ", ".join(one if one == other else f"{one} = {other}" for one, other in pairs)

    @property
    def shared(self) -> frozenset[str]:
        """Keys that have one name on both sides."""
        return frozenset(one for one, other in zip(self.left, self.right, strict=True) if one == other)


On = str | Sequence[str] | Mapping[str, str | Sequence[str]]


def read_keys(on: On, left: str, right: str) -> JoinKeys:
    """The keys of ``on``: a column, several, or columns for each stream by its name; ConfigError for anything else."""
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
    """ConfigError for a pattern that would give columns of two streams one name."""
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
    """ConfigError for names of the columns of the start and the end that are none."""
    for moment, name in names.items():
        if name is not None and not (isinstance(name, str) and name):
            raise ConfigError(
                f"a join with {moment}={name!r:.60}", why="it is the name of a column", do=f"use {moment}='since'"
            )


def check_chosen(asked: Mapping[str, str | None], wanted: pa.Schema) -> None:
    """ConfigError for columns of the start or the end that are asked for, and left out by ``outputs``."""
    for moment, name in asked.items():
        if name is not None and name not in wanted.names:
            raise ConfigError(
                f"a join with {moment}={name!r}, and outputs= without {name!r}",
                why="outputs= has all columns of the rows, so this one would be in none",
                do=f"name it there too, as '{name} timestamp', or leave {moment}= out",
            )


def check_inputs(inputs: Mapping[str, pa.Schema], left: str, right: str, keys: JoinKeys) -> None:
    """ConfigError unless the two streams are what a bolt reads, and have the key columns."""
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
    """ConfigError for all key columns whose values are never equal, because of their types."""
    problems = [*_unequal(left, right, names, keys)]
    if problems:
        raise together("the join", problems)


def _unequal(left: pa.Schema, right: pa.Schema, names: tuple[str, str], keys: JoinKeys) -> Iterator[ConfigError]:
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


def named_columns(
    inputs: Mapping[str, pa.Schema],
    sides: Mapping[str, str],
    keys: JoinKeys,
    rename: str,
    *,
    moments: Mapping[str, str | None],
    without: frozenset[str | None] = frozenset(),
    left_only: bool = False,
) -> dict[str, JoinColumn]:
    """All columns of a join by name: keys of one name, then the columns of either side, its keys first, then moments.

    ``sides``: the streams by side. ``moments``: ``start`` and ``end``, and the names of their columns; None for none.
    ``without``: columns that are left out. ConfigError where two columns have one name.
    """
    left, right = inputs[sides[LEFT]], inputs[sides[RIGHT]]
    named = [(key, JoinColumn(BOTH, key, left.field(key).type)) for key in keys.left if key in keys.shared]
    skipped = keys.shared | without
    ways = [(LEFT, left, right, keys.left), (RIGHT, right, left, keys.right)]
    for side, mine, other, own in ways[: 1 if left_only else 2]:
        stream = "".join(letter if letter.isalnum() else "_" for letter in sides[side])
        for field in sorted(mine, key=lambda field: field.name not in own):
            if field.name not in skipped:
                clash = field.name in other.names and not left_only
                shown = rename.format(stream=stream, column=field.name) if clash else field.name
                named.append((shown, JoinColumn(side, field.name, field.type)))
    named += [(name, JoinColumn(moment, "", TIMESTAMP)) for moment, name in moments.items() if name is not None]
    names = [name for name, _ in named]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"the join has two columns {', '.join(map(repr, twice))}",
            why=f"it has {', '.join(names)}",
            do="choose another rename=, or other names by start= and end=",
        )
    return dict(named)


def chosen(columns: dict[str, JoinColumn], wanted: pa.Schema) -> dict[str, JoinColumn]:
    """The columns that ``outputs`` declares; ConfigError for others, and for types that they cannot have."""
    problems = [*_not_to_be_had(columns, wanted)]
    if problems:
        raise together("the join", problems)
    return {name: columns[name] for name in wanted.names}


def _not_to_be_had(columns: dict[str, JoinColumn], wanted: pa.Schema) -> Iterator[ConfigError]:
    unknown = [name for name in wanted.names if name not in columns]
    if unknown:
        yield ConfigError(
            f"the join has no column {', '.join(map(repr, unknown))}{did_you_mean_column(unknown[0], columns)}",
            why=f"it has {', '.join(columns)}",
            do="declare some of these in outputs=, or leave outputs= out to have all",
        )
    for field in wanted:
        if field.name in unknown:
            continue
        try:
            converted(pa.nulls(0, columns[field.name].kind), field.type)
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
