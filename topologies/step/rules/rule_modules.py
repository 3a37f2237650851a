"""Finds and loads the rules that a configuration names."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple, get_args

from topologies.step.classpath import file_below
from topologies.step.rules.rule import LIMIT_SECONDS, Kind, Rule
from topologies.step.rules.sources import module_of, said
from windowing.errors import ConfigError

Path = str | os.PathLike[str]


class _Form(NamedTuple):
    """The expected function of a rule: its default name and its parameters."""

    name: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return self.named(self.name)

    def named(self, name: str) -> str:
        """The first line of such a function with this name."""
        return f"def {name}({', '.join(self.parameters)})"


FORMS: dict[str, _Form] = {
    "key": _Form("key", ("event",)),
    "trigger": _Form("trigger", ("event", "call")),
    "time": _Form("time", ("event",)),
    "dsl": _Form("aggregate", ("events", "call")),
}


def load_rule(
    kind: Kind,
    source: str,
    path: str,
    *,
    roots: Sequence[Path] = (),
    allow_files: bool = True,
    limit_seconds: float = LIMIT_SECONDS,
) -> Rule:
    """The rule that a configuration names.

    ``source="file"``: ``path`` is a file, relative to the first of ``roots``, the folder of the configuration.
    ``source="classpath"``: ``path`` is ``package.module:function``, or a file below one of ``roots`` or of
    ``sys.path``, with or without a leading ``/``, and never above them.

    The suffix .tr, which rules of the original have, stands for .py. ``file.py:name`` names the function; without a
    name it is the function with the default name of the kind (key, trigger, time, aggregate), or the only public one
    that the file defines.

    ``allow_files=False`` is for configurations from elsewhere: they may use only the classpath, that is what lies below
    ``roots`` and what is installed. A file that is a link to somewhere else is always refused.

    The file or module is run here, without a time limit. Raises ConfigError for a rule that cannot be found, loaded or
    called.
    """
    place, name, in_file = find_rule(kind, source, path, roots, allow_files)
    load = _of_file if in_file else _of_module
    return load(kind, place, name, limit_seconds)


def find_rule(
    kind: Kind, source: str, path: str, roots: Sequence[Path], allow_files: bool
) -> tuple[str, str | None, bool]:
    """The file or module of a rule, the named function, and whether it is a file. Nothing of it is run."""
    if kind not in get_args(Kind):
        raise ConfigError(f"{kind!r} is not a kind of rule", do=f"use one of {get_args(Kind)}")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ConfigError(f"path={path!r} of the {kind} rule is empty", do="give the path of a file of rules")
    place, name = _split(path)
    match source:
        case "file":
            if not allow_files:
                raise ConfigError(
                    f"the {kind} rule {path!r} is a file",
                    why='rules of source "file" are not allowed here, because they may run code from any folder',
                    do='put it below the folder of the rules and use source "classpath"',
                )
            return _file(kind, place, roots), name, True
        case "classpath" if "/" in place or place.endswith((".py", ".tr")):
            return _below(kind, place, roots), name, True
        case "classpath":
            return place, name, False
    raise ConfigError(f"source={source!r} of the {kind} rule {path!r}", do='use "file" or "classpath"')


def _split(path: str) -> tuple[str, str | None]:
    place, _, name = path.rpartition(":")
    return (place, name) if place and name.isidentifier() else (path, None)


def _file(kind: Kind, place: str, roots: Sequence[Path]) -> str:
    folder = os.fspath(roots[0]) if roots else os.curdir
    file = os.path.abspath(os.path.join(folder, _python(place)))
    if not os.path.isfile(file):
        raise _missing(kind, place, [file])
    return file


def _below(kind: Kind, place: str, roots: Sequence[Path]) -> str:
    """The file of a path on the classpath: below one of its folders."""
    file, tried = file_below(roots, _python(place), f"the {kind} rule {place!r}")
    if file is None:
        raise _missing(kind, place, tried)
    return file


def _python(place: str) -> str:
    return f"{place.removesuffix('.tr')}.py" if place.endswith(".tr") else place


def _missing(kind: Kind, place: str, tried: Sequence[str]) -> ConfigError:
    original = [file for file in (f"{path.removesuffix('.py')}.tr" for path in tried) if os.path.isfile(file)]
    if original:
        return ConfigError(
            f"the {kind} rule {original[0]} is in the original's language of rules",
            why="windbolt's rules are Python functions",
            do=f"write {FORMS[kind]} into {os.path.basename(_python(original[0]))} beside it",
        )
    more = f" and in {len(tried) - 3} more folders" if len(tried) > 3 else ""
    return ConfigError(
        f"there is no {kind} rule {place!r}",
        why=f"looked for {', '.join(tried[:3]) or 'nothing'}{more}",
        do=f"correct the path, or write {FORMS[kind]} there",
    )


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
            f"{file} cannot be read", why=said(error), do="save it as UTF-8, readable for this user"
        ) from error


def _of_module(kind: Kind, place: str, name: str | None, limit: float) -> Rule:
    try:
        module = importlib.import_module(place)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ConfigError(
            f"the {kind} rule {place!r} cannot be imported",
            why=said(error),
            do="write it like package.module:function, or folder/file.py, and install what it needs",
        ) from error
    return Rule(kind, place, _function(kind, place, module, name), None, limit)


# ---- the function


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


def unclear_error(kind: Kind, place: str, name: str, own: Sequence[str]) -> ConfigError:
    """The error for a file without the named function, or without one that could be meant."""
    return ConfigError(
        f"{place} has no function {name!r}",
        why=f"its functions are {', '.join(own)}" if own else "it has no public functions",
        do=f"write {FORMS[kind]}, or name another one: {os.path.basename(place)}:name",
    )


def _check(kind: Kind, place: str, name: str, function: Callable[..., Any]) -> None:
    form = FORMS[kind]
    why = ""
    if not callable(function) or inspect.isclass(function) or inspect.isbuiltin(function):
        why = "it is no function of Python"
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


def unfit_error(kind: Kind, place: str, name: str, line: int | None, why: str) -> ConfigError:
    """The error for a function that cannot be a rule of this kind."""
    where = f"{place}, line {line}" if line else place
    return ConfigError(f"{where}: {name!r} cannot be the {kind} rule", why=why, do=f"write {FORMS[kind].named(name)}")
