"""Closed choices: whoever writes a call sees what it may be given, in an editor and by a type checker."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Literal, get_args, get_origin, get_type_hints

import pytest

from windowing import Arrival, Panes, WindowedBolt, presets
from windowing.bolts.bolt import Unset
from windowing.settings.rules import LateAction, Partition

FEWER = {
    "Arrival(action)": {"adjust", "drop", "divert", "error"},  # a lifetime is cut at a watermark, not by its arrival
    "azure(action)": {"adjust", "drop", "error", "Adjust", "Drop"},
}


def arguments() -> Iterator[tuple[str, type[Enum], frozenset[Any]]]:
    """The arguments that take a member of an Enum: each with it, and with the texts that its type allows."""
    methods: list[Callable[..., Any]] = [
        each for name, each in inspect.getmembers(WindowedBolt, inspect.isfunction) if name.startswith("with_")
    ]
    makers: list[Callable[..., Any]] = [presets.storm, presets.atlas, presets.streaminsight, presets.azure]
    named = [(each, each.__name__) for each in (*methods, *makers)]
    for function, name in [*named, (Panes.__init__, "Panes"), (Arrival.__init__, "Arrival")]:
        for argument, kind in _hints(function).items():  # type: ignore[arg-type]
            for choices in _choices(kind):
                texts = frozenset(text for each in get_args(kind) for text in _texts(each))
                yield f"{name}({argument})", choices, texts


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    here = {**vars(inspect.getmodule(function)), "Tuple": Any}
    return get_type_hints(function, globalns=here)


def _choices(kind: Any) -> list[type[Enum]]:
    return [
        each for each in get_args(kind)
        if isinstance(each, type) and issubclass(each, Enum) and each not in (Unset, Partition)
    ]  # fmt: skip


def _texts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) is Literal else ()


ALL = list(arguments())


@pytest.mark.parametrize(("argument", "choices", "texts"), ALL, ids=[each[0] for each in ALL])
def test_a_choice_names_its_texts(argument: str, choices: type[Enum], texts: frozenset[Any]) -> None:
    assert texts == FEWER.get(argument, {each.value for each in choices})


def test_the_choices_are_found() -> None:
    assert {choices.__name__ for _, choices, _ in ALL} >= {"LateAction", "LateBy", "IdleRule", "OutputTime", "Bounds"}
    assert set(FEWER) <= {argument for argument, _, _ in ALL}
    assert FEWER["Arrival(action)"] < {each.value for each in LateAction}
