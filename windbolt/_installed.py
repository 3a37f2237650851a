"""Check that the packages of windbolt are its own, and not a user's modules of the same names."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path

PACKAGES = ("windowing", "policies", "manager", "topologies")
_HOME = Path(__file__).resolve().parents[1]


def check_installed() -> None:
    """Raise ImportError where Python would find a module of the user's in place of one of windbolt's packages."""
    for name in PACKAGES:
        loaded = sys.modules.get(name)
        spec = loaded.__spec__ if loaded is not None else PathFinder.find_spec(name)
        if spec is None or spec.origin is None:
            continue  # nothing there, or a namespace: the import itself will say so
        if Path(spec.origin).resolve() != _HOME / name / "__init__.py":
            raise ImportError(f"{spec.origin} hides windbolt's package {name!r}. {WHY} {DO}", name=name)


WHY = "Python takes the first module of a name that it finds, and looks beside the program first."
DO = "Give that file or folder another name."
