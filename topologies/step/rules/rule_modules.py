"""Loads the rules that a configuration names: runs their files or modules, and checks their functions."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from topologies.step.rules.compiled_rules import error_on_one_line, module_of
from topologies.step.rules.forms import FORMS, unclear_error, unfit_error
from topologies.step.rules.named_rule import NamedRule, find_rule
from topologies.step.rules.rule import Kind, Rule
from windowing.errors import ConfigError


def load_rule(named: NamedRule) -> Rule:
    """The rule that a configuration names.

    The file or module is run here, without a time limit. Raises ConfigError for a rule that cannot be found, loaded or
    called.
    """
    place, name, in_file = find_rule(named)
    load = _of_file if in_file else _of_module
    return load(named.kind, place, name, named.limit_seconds)


def _of_file(kind: Kind, file: str, name: str | None, limit: float) -> Rule:
    source = text_of(file)
    return Rule(kind, file, _function(kind, file, module_of(file, source), name), source, limit)


def text_of(file: str) -> str:
    """The text of a file of rules. Raises ConfigError where it cannot be read."""
    try:
        with open(file, "rb") as opened:
            return importlib.util.decode_source(opened.read())
    except (OSError, SyntaxError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{file} cannot be read", why=error_on_one_line(error), do="save it as UTF-8, readable for this user"
        ) from error


def _of_module(kind: Kind, place: str, name: str | None, limit: float) -> Rule:
    try:
        module = importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(
            f"the {kind} rule {place!r} cannot be imported",
            why=error_on_one_line(error),
            do="write it like package.module:function, or folder/file.py, and install what it needs",
        ) from error
    return Rule(kind, place, _function(kind, place, module, name), None, limit)


def _function(kind: Kind, place: str, module: ModuleType, name: str | None) -> str:
    """The name of the function to call."""
    own = dict(_own(module))
    if name is None:
        name = FORMS[kind].name
        if not callable(getattr(module, name, None)):
            if len(own) != 1:
                raise unclear_error(kind, place, name, list(own))
            (name,) = own
    function = getattr(module, name, None)
    if function is None:
        raise unclear_error(kind, place, name, list(own))
    _check(kind, place, name, function)
    return name


def _own(module: ModuleType) -> Iterator[tuple[str, Any]]:
    """The public functions that a module defines itself."""
    for name, value in vars(module).items():
        if inspect.isfunction(value) and not name.startswith("_") and value.__module__ == module.__name__:
            yield name, value


def _check(kind: Kind, place: str, name: str, function: Callable[..., Any]) -> None:
    form = FORMS[kind]
    why = ""
    if not callable(function) or inspect.isclass(function) or inspect.isbuiltin(function):
        why = "it is not a function of Python"
    elif inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        why = "it is async"
    elif kind != "dsl" and inspect.isgeneratorfunction(function):
        why = "it yields, and is to return"
    else:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            return
        try:
            signature.bind(*form.parameters)
        except TypeError:
            why = f"it has the parameters {signature}"
    if why:
        line = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_firstlineno", None)
        raise unfit_error(kind, place, name, line, why)
