"""Finding a user's topology: ``my_topology.py:topology``, ``package.module:topology``, or ``step.conf``."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from types import ModuleType

from topologies.builder import TopologyBuilder
from topologies.model import Topology
from topologies.step.config import is_step, load_step
from windowing.errors import ConfigError, WindboltError


def load_topology(reference: str) -> Topology:
    """The topology that a reference names: a Topology, a TopologyBuilder, or a function that returns either.

    The file of a step (``.conf``, ``.hocon``, ``.yaml``, ``.yml``, ``.json``) is a topology by itself.
    """
    if is_step(reference):
        from topologies.step.building import step_topology

        return step_topology(load_step(reference))
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise ConfigError(
            f"{reference!r} does not name a topology",
            why="it takes a file or module, and the name of a variable in it",
            do="write it like my_topology.py:topology, or name the file of a step, such as step.conf",
        )
    module = _load_file(place) if place.endswith(".py") else _import(place)
    found = getattr(module, name, None)
    if callable(found) and not isinstance(found, (Topology, TopologyBuilder)):
        found = found()
    if isinstance(found, TopologyBuilder):
        found = found.build()
    if not isinstance(found, Topology):
        known = [key for key, value in vars(module).items() if isinstance(value, (Topology, TopologyBuilder))]
        raise ConfigError(
            f"{reference!r} is no topology" if found is not None else f"{place} has no {name!r}",
            why=f"topologies in it: {', '.join(known) or 'none'}",
            do="name what TopologyBuilder.build() returned",
        )
    return found


def _load_file(path: str) -> ModuleType:
    full = os.path.abspath(path)
    if not os.path.isfile(full):
        raise ConfigError(f"there is no file {path!r}", do="correct the path")
    name = os.path.splitext(os.path.basename(full))[0]
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, os.path.dirname(full))
    _run(lambda: spec.loader.exec_module(module), path)
    return module


def _import(name: str) -> ModuleType:
    sys.path.insert(0, os.getcwd())
    _run(lambda: importlib.import_module(name), name)
    return sys.modules[name]


def _run(load: object, place: str) -> None:
    try:
        load()  # type: ignore[operator]
    except WindboltError:
        raise
    except Exception as error:
        raise ConfigError(
            f"{place} cannot be loaded", why=f"{type(error).__name__}: {error}", do="mend it, then try again"
        ) from error
