"""Whose a module is: Python's, windbolt's, installed, or a file of the user's own."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterator
from enum import Enum
from types import ModuleType

WINDBOLT = ("windbolt", "windowing", "policies", "manager", "topologies")
"""The packages of windbolt."""
_SPARK = ("pyspark", "py4j")
_STANDARD = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib"))
_INSTALLED = ("site-packages", "dist-packages")


class ModuleOwner(Enum):
    """Whose a module is."""

    PYTHON = "python"
    WINDBOLT = "windbolt"
    INSTALLED = "installed"
    USER = "user"
    NOBODY = "nobody"
    """There is no module of this name."""


def owner_of(name: str) -> ModuleOwner:
    """Whose the module is that is imported by this name; its top-level package decides."""
    top = name.partition(".")[0]
    if top in WINDBOLT:
        return ModuleOwner.WINDBOLT
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return ModuleOwner.PYTHON
    if top in _SPARK:
        return ModuleOwner.INSTALLED
    places = module_places(top)
    if not places:
        return ModuleOwner.NOBODY
    return ModuleOwner.USER if all(is_users_path(place) for place in places) else ModuleOwner.INSTALLED


def is_users(module: ModuleType) -> bool:
    """Whether a module is a file of the user's, which a worker may not be able to import."""
    path = getattr(module, "__file__", None)
    return (
        path is not None and module.__name__ != "__main__" and owner_of_file(module.__name__, path) is ModuleOwner.USER
    )


def owner_of_file(name: str, path: str) -> ModuleOwner:
    """Whose a module is that was loaded from a file."""
    top = name.partition(".")[0]
    if top in WINDBOLT:
        return ModuleOwner.WINDBOLT
    return ModuleOwner.USER if top not in _SPARK and is_users_path(path) else ModuleOwner.INSTALLED


def is_users_path(path: str) -> bool:
    """Whether a file or folder of modules is neither Python's own nor installed."""
    return not any(each in path for each in _INSTALLED) and not path.startswith(_STANDARD)


def module_places(top: str) -> list[str]:
    """The file of a top-level module, or the folders of a package; none where there is no such module."""
    module = sys.modules.get(top)
    if module is not None:
        found = [getattr(module, "__file__", None) or ""]
        if hasattr(module, "__path__"):
            found = list(module.__path__)
        return [os.path.abspath(place) for place in found if place]
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    folders = list(spec.submodule_search_locations or ())
    return [os.path.abspath(place) for place in folders or filter(None, [spec.origin])]


def own_paths() -> list[str]:
    """The entries of ``sys.path`` for the user's own modules, in order."""
    paths: Iterator[str] = (path or os.getcwd() for path in sys.path)
    return [path for path in paths if is_users_path(path)]
