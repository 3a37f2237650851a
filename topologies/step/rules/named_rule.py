"""A rule as a configuration names it, and where that is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from topologies.step.classpath import file_below
from topologies.step.rules.forms import FORMS
from topologies.step.rules.rule import LIMIT_SECONDS, Kind
from windowing.errors import ConfigError

Path = str | os.PathLike[str]


@dataclass(frozen=True)
class NamedRule:
    """A rule as a configuration names it; it need not exist.

    The suffix .tr, which rules of the original have, stands for .py. ``file.py:name`` names the function; without a
    name it is the function with the default name of the kind (key, trigger, time, aggregate), or the only public one
    that the file defines.
    """

    kind: Kind
    source: str
    """``file`` or ``classpath``."""
    path: str
    """Of a ``file``: relative to the first of ``roots``, the folder of the configuration. Of the ``classpath``:
    ``package.module:function``, or a file below one of ``roots`` or of ``sys.path``, with or without a leading ``/``,
    and never above them."""
    roots: Sequence[Path] = ()
    allow_files: bool = True
    """False for configurations from elsewhere: they may use only the classpath, that is what lies below ``roots`` and
    what is installed. A file that is a link to somewhere else is always refused."""
    limit_seconds: float = LIMIT_SECONDS
    """Maximum duration of a call."""


def find_rule(named: NamedRule) -> tuple[str, str | None, bool]:
    """The file or module of a rule, the named function, and whether it is a file. Nothing of it is run."""
    kind, source, path, roots = named.kind, named.source, named.path, named.roots
    if kind not in get_args(Kind):
        raise ConfigError(f"{kind!r} is not a kind of rule", do=f"use one of {get_args(Kind)}")
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ConfigError(f"path={path!r} of the {kind} rule is empty", do="give the path of a file of rules")
    place, name = _split(path)
    match source:
        case "file":
            if not named.allow_files:
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
