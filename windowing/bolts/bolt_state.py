"""The state of a stateful bolt: declared types, JSON and Arrow, never pickle (ST-27)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from windowing.data.returned_rows import conform
from windowing.data.schema import parse_schema
from windowing.errors import ConfigError, SchemaError

StateType: TypeAlias = type | str | pa.Schema
_JSON: dict[type, Any] = {int: 0, float: 0.0, str: "", bool: False, list: [], dict: {}}


def check_types(types: Mapping[str, StateType]) -> None:
    """Raise ConfigError for a declaration that cannot be kept."""
    for name, kind in types.items():
        if isinstance(kind, type):
            if kind not in _JSON:
                raise ConfigError(
                    f"state {name!r} is declared {kind.__name__}",
                    why="state is kept as JSON or Arrow, never pickled",
                    do="use int, float, str, bool, list, dict, or a schema such as 'user string, n long'",
                )
        else:
            parse_schema(kind)


def new_state(types: Mapping[str, StateType]) -> dict[str, Any]:
    """The state before anything has happened: zeros, and empty texts, lists, dicts and tables."""
    return {
        name: json.loads(json.dumps(_JSON[kind])) if isinstance(kind, type) else parse_schema(kind).empty_table()
        for name, kind in types.items()
    }


def pack_state(state: Mapping[str, Any], types: Mapping[str, StateType]) -> tuple[str, dict[str, pa.Table]]:
    """The JSON part as text, and the tables, of a state; SchemaError where it is not what was declared."""
    undeclared, missing = sorted(set(state) - set(types)), sorted(set(types) - set(state))
    if undeclared or missing:
        raise SchemaError(
            f"the bolt's state has {sorted(state)}, but {sorted(types)} are declared",
            why=f"undeclared: {undeclared}; missing: {missing}",
            do="declare every name in `state_types`, and keep it in `self.state`",
        )
    plain: dict[str, Any] = {}
    kept: dict[str, pa.Table] = {}
    for name, kind in types.items():
        value = state[name]
        if not isinstance(kind, type):
            if not isinstance(value, pa.Table):
                raise SchemaError(
                    f"state {name!r} is {type(value).__name__} {value!r:.60}, and was declared a table",
                    do="keep a pyarrow table of the declared columns, or change `state_types`",
                )
            kept[name] = conform(value, parse_schema(kind))
            continue
        good = isinstance(value, kind) or (kind is float and isinstance(value, int))
        if not good or (kind is int and isinstance(value, bool)):
            raise SchemaError(
                f"state {name!r} is {type(value).__name__} {value!r:.60}, and was declared {kind.__name__}",
                do="keep the declared type, or change `state_types`",
            )
        plain[name] = value
    try:
        text = json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise SchemaError(
            "the bolt's state cannot be written as JSON", why=str(error), do="keep lists, dicts, texts and numbers"
        ) from error
    if not _same(json.loads(text), plain):
        raise SchemaError(
            "the bolt's state would change when it is saved as JSON",
            why="JSON turns tuples into lists and the keys of dicts into texts",
            do="use lists, and texts as keys",
        )
    return text, kept


def _same(read: Any, kept: Any) -> bool:
    """Whether JSON gave back what it was given; unlike ``==``, NaN is NaN, and a tuple is not a list."""
    if isinstance(kept, dict):
        return (
            isinstance(read, dict) and read.keys() == kept.keys() and all(_same(read[key], kept[key]) for key in kept)
        )
    if isinstance(kept, list):
        return isinstance(read, list) and len(read) == len(kept) and all(map(_same, read, kept))
    return bool(read == kept) or (kept != kept and read != read)  # noqa: PLR0124 - only NaN differs from itself
