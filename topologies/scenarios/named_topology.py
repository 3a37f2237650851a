"""Finding a user's topology: ``my_topology.py:topology``, ``package.module:topology``, or ``step.conf``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import TypeVar

from manager.remote import is_transient
from topologies.engine.failures import line_of
from topologies.graph.builder import GraphBuilder
from topologies.graph.graph import Graph
from topologies.step.config_files import load_step, names_step_file
from windowing.errors import USER_EXCEPTIONS, ConfigError, WindboltError


def load_topology(reference: str) -> Graph:
    """Returns the topology that a reference names: a topology, its builder, or a function that returns either.

    The file of a step (``.conf``, ``.hocon``, ``.yaml``, ``.yml``, ``.json``) is itself a topology.
    """
    if names_step_file(reference):
        from topologies.step.compile_step import step_problems, step_topology

        problems = partial(step_problems, load=True, complete=True)
        return step_topology(load_step(reference, further=problems))
    place, _, name = reference.rpartition(":")
    if not place or not name:
        file = reference.strip(":")
        like = f"{file}:topology" if file.endswith(".py") else "my_topology.py:topology"
        raise ConfigError(
            f"{reference!r} does not name a topology",
            why="it takes a file or module, and the name of a variable in it",
            do=f"write it like {like}, or name the file of a step, such as step.conf",
        )
    module = load_module(place) if place.endswith(".py") else _import(place)
    found = getattr(module, name, None)
    if callable(found) and not isinstance(found, (Graph, GraphBuilder)):
        found = _run_users_code(found, reference, os.path.dirname(place))
    if isinstance(found, GraphBuilder):
        found = found.build()
    if not isinstance(found, Graph):
        known = [key for key, value in vars(module).items() if isinstance(value, (Graph, GraphBuilder))]
        raise ConfigError(
            f"{reference!r} is not a topology" if found is not None else f"{place} has no {name!r}",
            why=f"topologies in it: {', '.join(known) or 'none'}",
            do="name what TopologyBuilder.build() returned",
        )
    return found


def load_module(path: str) -> ModuleType:
    """Returns the module of a user's file, loaded anew. From then on its folder is searched first. Raises
    ConfigError."""
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise ConfigError(f"there is no file {path!r}", do="correct the path")
    name = os.path.splitext(os.path.basename(full))[0]
    folder = os.path.dirname(full)
    _refuse_names_of_packages(folder)
    _refuse_names_of_modules(name, path)
    _load_before_hiding(folder)
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    loader = spec.loader
    assert loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, folder)
    _run_users_code(lambda: loader.exec_module(module), path, folder)
    return module


def _import(name: str) -> ModuleType:
    folder = os.getcwd()
    _refuse_names_of_packages(folder)
    _refuse_names_of_modules(name.partition(".")[0], name, folder)
    _load_before_hiding(folder)
    sys.path.insert(0, folder)
    _run_users_code(lambda: importlib.import_module(name), name, folder)
    return sys.modules[name]


_PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")


def _refuse_names_of_packages(folder: str) -> None:
    """Raises an error if the file of a topology, or a module in the same folder, has the name of a package of
    windbolt."""
    home = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if os.path.realpath(folder) == os.path.realpath(home):
        return
    found = [f"{each}.py" for each in _PACKAGES if os.path.isfile(os.path.join(folder, f"{each}.py"))]
    found += [f"{each}/" for each in _PACKAGES if os.path.isfile(os.path.join(folder, each, "__init__.py"))]
    if found:
        raise ConfigError(
            f"{', '.join(found)} in {folder} cannot be used",
            why="windbolt's own packages have these names, and Python loads only one module of a name",
            do="rename it, for example to my_" + found[0],
        )


_NEEDED_MODULES = frozenset({"numpy", "pandas", "py4j", "pyarrow", "pydantic", "pyspark", "rich", "typer", "yaml"})
"""Modules that windbolt and Spark load, some only on demand."""
_WITH_EFFECTS = frozenset({"antigravity", "this"})
"""Modules of Python's standard library that open a browser, or print, when they are loaded."""


def _refuse_names_of_modules(name: str, place: str, folder: str | None = None) -> None:
    """Refuses a topology's module with the name of a standard module, or of a module that windbolt needs, because
    importers of that name would get the topology. With ``folder``, refuses only modules found there."""
    if folder is not None and not os.path.exists(os.path.join(folder, f"{name}.py")):
        return
    if name in sys.stdlib_module_names or name in _NEEDED_MODULES:
        owner = "Python's own library" if name in sys.stdlib_module_names else "a package that windbolt uses"
        raise ConfigError(
            f"{place} cannot be used",
            why=f"{owner} has a module {name!r}, and Python loads only one module of a name",
            do=f"rename it, for example to my_{name}.py",
        )


def _load_before_hiding(folder: str) -> None:
    """Loads the modules that files in a folder would hide once the folder is searched first: standard modules, and
    those that windbolt needs. Later imports then find the loaded ones."""
    for name in _hidden_by(folder):
        with suppress(ImportError):
            importlib.import_module(name)


def _hidden_by(folder: str) -> list[str]:
    """Returns the names of the modules that a folder would hide."""
    names = sorted((sys.stdlib_module_names | _NEEDED_MODULES) - _WITH_EFFECTS)
    return [name for name in names if os.path.isfile(os.path.join(folder, f"{name}.py"))]


LoadResult = TypeVar("LoadResult")


def _run_users_code(load: Callable[[], LoadResult], place: str, folder: str) -> LoadResult:
    try:
        return load()
    except WindboltError:
        raise
    except USER_EXCEPTIONS as error:
        do = "fix it, then try again"
        if isinstance(error, SystemExit):
            do = 'let it end the process only where it is run itself, below `if __name__ == "__main__":`'
        hidden = _hidden_by(folder) if isinstance(error, (ImportError, AttributeError)) else []
        if hidden:
            files = ", ".join(f"{name}.py" for name in hidden)
            do += f"; rename {files} beside it: Python or windbolt has a module of that name, which is imported instead"
        line = "" if isinstance(error, SyntaxError) else line_of(error)  # its text has the line
        why = f"{type(error).__name__}: {error}{line}"
        raise ConfigError(f"{place} cannot be loaded", why=why, do=do, transient=is_transient(error)) from error
