"""The policies of a user's own that a scenario's bolt names: ``my_policies.py:Near(0.1)``."""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NoReturn

import windowing
from policies.protocol import EvictionPolicy, Policy, TriggerPolicy
from topologies.engine.failures.user_code import line_of
from topologies.named_topology import load_module
from windowing.errors import ScenarioError, WindboltError
from windowing.suggestions import did_you_mean

Part = Literal["eviction", "trigger"]

_KINDS: dict[Part, type[Policy]] = {"eviction": EvictionPolicy, "trigger": TriggerPolicy}
_DURATIONS = ("millis", "seconds", "minutes", "hours", "days")
_LIKE = "write it like my_policies.py:Near(0.1), with a path from the folder of the scenario"


def load_policy(part: Part, text: str, folder: Path) -> Any:
    """The policy that a text names. Raises ScenarioError where there is none, and where its file cannot be loaded.

    Behind the file comes a variable of it, or a call of a class or function of it; the arguments are values as Python
    writes them, and durations such as ``minutes(30)``.
    """
    place, sign, expression = text.partition(".py:")
    if not sign or not expression.strip():
        raise ScenarioError(f"bolt.{part}: {text!r} names no policy", do=_LIKE)
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ScenarioError(f"bolt.{part}: {expression!r} cannot be read: {error.msg}", do=_LIKE) from None
    path = folder / f"{place}.py"
    try:
        module = _module(path.absolute(), path.stat().st_mtime_ns if path.is_file() else 0)
    except WindboltError as error:
        raise ScenarioError(f"bolt.{part}: {error.what}", why=error.why, do=error.do) from error
    return _Reader(part, text, module).policy(tree)


@lru_cache(maxsize=64)
def _module(path: Path, changed: int) -> ModuleType:
    """A file that is loaded once, and again where it has ``changed``."""
    return load_module(str(path))


class _Reader:
    """Evaluates the few expressions that may name a policy."""

    def __init__(self, part: Part, text: str, module: ModuleType) -> None:
        self._part, self._text, self._module = part, text, module

    def policy(self, tree: ast.expr) -> Policy:
        """The policy."""
        found = self._value(tree)
        kind = _KINDS[self._part]
        if isinstance(found, type) and issubclass(found, Policy):
            self._refuse("that is a class", f"write {self._text}()")
        if not isinstance(found, kind):
            self._refuse(f"that is {found!r:.60}, which is no {kind.__name__}", _LIKE)
        return found

    def _value(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self._named(name)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return -number
            case ast.List(items) | ast.Tuple(items):
                return (list if isinstance(tree, ast.List) else tuple)(self._value(each) for each in items)
            case ast.Dict(keys, values) if None not in keys:
                return {
                    self._value(key): self._value(value)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case ast.Call(ast.Name(name), arguments, named):
                return self._called(name, arguments, named)
        self._refuse(
            f"{ast.unparse(tree)!r:.60} cannot stand here",
            "give a variable of the file, or a call with plain values; put what is more into the file",
        )

    def _called(self, name: str, arguments: list[ast.expr], named: list[ast.keyword]) -> Any:
        called = self._named(name)
        given = [self._value(each) for each in arguments]
        if any(each.arg is None for each in named):
            self._refuse("** cannot stand here", "give the arguments by their names")
        by_name = {str(each.arg): self._value(each.value) for each in named}
        try:
            return called(*given, **by_name)
        except WindboltError as error:
            raise ScenarioError(f"bolt.{self._part}: {error.what}", why=error.why, do=error.do) from error
        except Exception as error:
            own = error.__traceback__ is not None and error.__traceback__.tb_next is not None  # else it never began
            self._refuse(
                f"{type(error).__name__}: {error}{line_of(error) if own else ''}", "correct the arguments, or the file"
            )

    def _named(self, name: str) -> Any:
        if name in vars(self._module):
            return vars(self._module)[name]
        if name in _DURATIONS:
            return getattr(windowing, name)
        kind = _KINDS[self._part]
        known = [
            each
            for each, value in vars(self._module).items()
            if isinstance(value, type) and issubclass(value, kind) and value is not kind
        ]
        self._refuse(
            f"the file has no {name!r}{did_you_mean(name, known)}",
            f"name one of its policies: {', '.join(known) or 'it has none'}",
        )

    def _refuse(self, why: str, do: str) -> NoReturn:
        raise ScenarioError(f"bolt.{self._part}: {self._text!r} cannot be used", why=why, do=do)
