"""Gives executors the code of a run: windbolt as it is here, and the user's modules."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from pathlib import Path

from pyspark import SparkContext

from topologies.spark.code.archive import PREFIX, write_archive
from topologies.spark.code.module_owner import WINDBOLT

_HOME = Path(__file__).resolve().parents[3]


def ship(context: SparkContext, users: dict[str, str]) -> list[str]:
    """Send the user's modules (files and folders by name), and windbolt itself, to all executors of now and later.

    They find them before anything that is installed there, so all processes of a run have the same code. Returns the
    names of the folders that Spark unpacks them to.
    """
    windbolt = {name: str(_HOME / name) for name in WINDBOLT}
    names = [_sent(context, places) for places in (users, windbolt) if places]
    includes = context._python_includes
    assert includes is not None
    # The last one is the first in sys.path; what an earlier run has sent is not for this one.
    includes[:] = [name for name in includes if not name.startswith(PREFIX)] + names[::-1]
    return names


def forget_others(names: Iterable[str]) -> None:
    """In a worker: let no module be found, or be loaded already, that another run has sent."""
    kept = tuple(names)
    sys.path[:] = [path for path in sys.path if _sent_folder(path) in (None, *kept)]
    for name, module in list(sys.modules.items()):
        folder = _sent_folder(getattr(module, "__file__", None) or "")
        if folder is not None and folder not in kept and name.partition(".")[0] not in WINDBOLT:
            del sys.modules[name]


def _sent(context: SparkContext, places: dict[str, str]) -> str:
    """Add an archive to a session that may have had it already, and return the name of its folder."""
    path, name = write_archive(context._temp_dir, places)
    if not any(archive.partition("#")[0].endswith(f"/{name}.zip") for archive in context.listArchives):
        context.addArchive(f"{Path(path).as_uri()}#{name}")
    return name


def _sent_folder(path: str) -> str | None:
    """The name of the folder of an archive that a path is in; None where it is in none."""
    return next((part for part in path.split(os.sep) if part.startswith(PREFIX)), None)
