"""Every public call of windbolt, as the package itself lists it, and the mistakes one can make in its arguments."""

from __future__ import annotations

import builtins
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from inspect import Parameter
from typing import Any, Literal, Union, get_args, get_origin

import windbolt

OWN = ("windowing", "policies", "manager", "topologies", "windbolt")


@cache
def public_calls() -> dict[str, Callable[..., Any]]:
    """Functions, classes that can be called, and methods, by name: ``spouts.files``, ``WindowedBolt.with_lag``.

    Found in ``windbolt`` and in its modules, and from there in what the calls return. A method that several classes
    share is that of the class which defines it.
    """
    found: dict[str, Callable[..., Any]] = {}
    waiting = list(_exported())
    while waiting:
        name, value = waiting.pop(0)
        if not callable(value) or get_origin(value) is Literal or found.get(name) is value:
            continue
        if not inspect.isclass(value):
            found[name] = value
        elif not issubclass(value, Enum | BaseException):
            found[name] = value
            waiting += [each for each in _methods(value) if each[0] not in found]
        else:
            continue
        returned = _returned(value)
        if returned is not None and not any(each is returned for each in found.values()):
            waiting += [each for each in _methods(returned) if each[0] not in found]
    return found


def _exported() -> Iterator[tuple[str, Any]]:
    modules = [
        windbolt,
        *(getattr(windbolt, each) for each in windbolt.__all__ if inspect.ismodule(getattr(windbolt, each))),
    ]
    seen: list[Any] = []
    for module in modules:
        short = module.__name__.removeprefix("windbolt").removeprefix(".")
        for name in module.__all__:
            value = getattr(module, name)
            if not inspect.ismodule(value) and not any(value is each for each in seen):
                seen.append(value)
                yield f"{short}.{name}" if short else name, value


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    for each in kind.__mro__:
        if each.__module__.partition(".")[0] in OWN:
            for name, value in vars(each).items():
                function = value.__func__ if isinstance(value, staticmethod | classmethod) else value
                if inspect.isfunction(function) and not name.startswith("_"):
                    yield f"{each.__name__}.{name}", function


def _returned(call: Any) -> type | None:
    """The class that a call returns, if that is one of windbolt's."""
    annotation = getattr(call, "__annotations__", {}).get("return")
    kind = resolved(annotation, call)
    own = inspect.isclass(kind) and kind.__module__.partition(".")[0] in OWN
    return kind if own and not issubclass(kind, Enum | BaseException) else None


class _Anything(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name) if hasattr(builtins, name) else _for_type_checkers(name)


_WITH_TYPES = (
    "topologies", "topologies.graph.declarations", "topologies.io.sinks", "topologies.io.spouts",
    "topologies.scenarios.scenario_answer", "topologies.scenarios.scenario_model",
    "topologies.testing.given_rows", "windowing",
    "windowing.settings.presets",
)  # fmt: skip


@cache
def _for_type_checkers(name: str) -> Any:
    """A name that a module imports for type checkers only."""
    for module in _WITH_TYPES:
        found = getattr(importlib.import_module(module), name, None)
        if found is not None:
            return found
    return Any


def resolved(annotation: Any, call: Any) -> Any:
    """An annotation of a call as a type."""
    function = call.__init__ if inspect.isclass(call) else call
    names = vars(
        importlib.import_module(
            inspect.unwrap(function).__module__ if hasattr(function, "__module__") else call.__module__
        )
    )
    while isinstance(annotation, str):
        try:
            annotation = eval(annotation, {}, _Anything(names))
        except (TypeError, AttributeError):
            return Any
    return annotation


# -- what is wrong for a type

_CANDIDATES: tuple[Any, ...] = (None, object(), 3, 1.5, True, "no such thing", b"bytes", [], [object()], {}, dict)
"""Values of which most types refuse most."""


def wrong_values(annotation: Any) -> list[Any]:
    """Values that are not of a type; the type is what an annotation of a public call says."""
    kinds = list(_alternatives(annotation))
    if any(kind in (Any, object) or isinstance(kind, typing.TypeVar) for kind in kinds):
        return []
    wrong = [each for each in _CANDIDATES if not any(_may_be(each, kind) for kind in kinds)]
    if any(kind in (int, float) for kind in kinds):
        wrong.append(-1)
    if any(getattr(kind, "__name__", "") == "Duration" for kind in kinds):
        wrong += ["5 parsecs", "-5s"]
    return wrong


def _alternatives(kind: Any) -> Iterator[Any]:
    if get_origin(kind) in (Union, types.UnionType):
        for each in get_args(kind):
            yield from _alternatives(each)
    else:
        yield kind


def _may_be(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    plain = get_origin(kind) or kind
    if plain is float:
        return type(value) in (int, float)
    if plain in (int, bool, str):
        return type(value) is plain
    if not inspect.isclass(plain):
        return True
    if isinstance(value, str | bytes):
        return False
    return isinstance(value, plain) and value != [object] and not (isinstance(value, list) and value)


# -- a row of the table, and the mistakes


@dataclass(frozen=True)
class Valid:
    """A valid example of a call."""

    args: Mapping[str, Any] = field(default_factory=dict)
    """Its arguments by name: all that it has, as far as they go together."""
    more: Iterable[Any] = ()
    """Values of ``*args``."""
    on: Callable[[], Any] | None = None
    """Makes the object whose method it is."""
    then: Callable[[Any, Any], Any] = lambda _, result: result
    """Called with the object and the result: where a mistake may be told later, such as by ``build()``."""
    also: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that do not go together with those of ``args``: each is tried alone, in place of none."""
    types: bool = True
    """Whether types are checked: not where windbolt makes such a value for each event."""
    fine: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    """By argument: values that the annotation does not tell, and that are right (a negative number)."""


@dataclass(frozen=True)
class Mistake:
    """A call with one mistake."""

    label: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]


def parameters(call: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a call, without ``self``."""
    return {name: each for name, each in inspect.signature(call).parameters.items() if name != "self"}


def mistakes(call: Callable[..., Any], row: Valid) -> Iterator[Mistake]:
    """Each argument misspelled, of the wrong type, missing and doubled; and one argument too many."""
    known = parameters(call)
    more = tuple(row.more)
    named = dict(row.args)
    if more:
        lead = [name for name, each in known.items() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
        args = (*(named.pop(name) for name in lead if name in named), *more)
    else:
        args = ()
    options = any(each.kind is Parameter.VAR_KEYWORD for each in known.values())
    for name, each in known.items():
        if each.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            yield from _wrong_star(call, row, each, args, named)
            continue
        value = {**row.args, **row.also}.get(name, each.default)
        slip = name[:-1] if len(name) > 3 else name + "x"
        if not (options and call.__name__ == "AggregateBolt"):
            yield Mistake(f"{name} misspelled", args, {**{k: v for k, v in named.items() if k != name}, slip: value})
        yield from _wrong_types(call, row, name, each, args, named)
        if each.default is Parameter.empty and not more:
            yield Mistake(f"{name} missing", (), {k: v for k, v in named.items() if k != name})
    yield from _doubled(known, row, args, named)
    if not any(each.kind is Parameter.VAR_POSITIONAL for each in known.values()):
        yield Mistake("one too many", (*(None for _ in known), 1, 2), {})


def _wrong_types(
    call: Any, row: Valid, name: str, each: Parameter, args: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[Mistake]:
    for wrong in wrong_values(resolved(each.annotation, call)) if row.types else ():
        if any(type(wrong) is type(fine) and wrong == fine for fine in (*row.fine.get(name, ()), each.default)):
            continue
        if name in named or name in row.also or each.default is not Parameter.empty:
            kwargs = {**named, name: wrong}
            yield Mistake(f"{name}={wrong!r:.30}", args, kwargs)


def _wrong_star(
    call: Any, row: Valid, each: Parameter, args: tuple[Any, ...], named: dict[str, Any]
) -> Iterator[Mistake]:
    for wrong in wrong_values(resolved(each.annotation, call)):
        if any(type(wrong) is type(fine) and wrong == fine for fine in row.fine.get(each.name, ())):
            continue
        if each.kind is Parameter.VAR_KEYWORD:
            yield Mistake(f"**{wrong!r:.30}", args, {**named, "other": wrong})
        else:
            yield Mistake(f"*{wrong!r:.30}", (*args, wrong), named)


def _doubled(
    known: Mapping[str, Parameter], row: Valid, args: tuple[Any, ...], named: Mapping[str, Any]
) -> Iterator[Mistake]:
    lead = [name for name, each in known.items() if each.kind is Parameter.POSITIONAL_OR_KEYWORD]
    for at, name in enumerate(lead):
        if all(each in row.args for each in lead[: at + 1]):
            both = tuple(row.args[each] for each in lead[: at + 1])
            rest = {k: v for k, v in row.args.items() if k not in lead[:at]}
            yield Mistake(f"{name} twice", both, rest)
