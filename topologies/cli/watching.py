"""Replaying again at every save: which files matter, and a process of its own for each replay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.rule import Rule
from rich.text import Text

from topologies.cli.terminal.consoles import out, say
from topologies.run.clock import system_clock
from topologies.scenarios.schema.scenario_files import Loaded, Problem, located, passed_over
from windowing.time.timestamps import show

_KINDS = (".py", ".yaml", ".yml", ".json", ".jsonl", ".conf", ".hocon")
_SECONDS = 0.5
"""How often the times of files are looked at."""

FileTimes = dict[Path, tuple[int, int]]
"""Files, and of each the time of its last change and its size."""


def replay_at_every_save(command: Sequence[str], folders: Iterable[Path]) -> int:
    """Run a ``windbolt`` command now, and again at every change in these folders, until Ctrl-C.

    Each time in a process of its own, so that what it imports is what was saved. Returns the last exit status.
    """
    status, watched, pause = 0, sorted(set(folders)), threading.Event()
    try:
        while True:
            before = state_of(watched)
            status = subprocess.call([sys.executable, "-m", "windbolt", *command])
            _say_waiting(watched)
            while state_of(watched) == before:
                pause.wait(_SECONDS)
            out().print(Rule(show(system_clock() // 1_000_000 * 1_000_000), style="dim"))
    except KeyboardInterrupt:
        return status


def folders_of(files: Iterable[Path], items: Iterable[Loaded | Problem], topology: str | None) -> set[Path]:
    """The folders that hold scenarios, and those of the topologies' files that they name."""
    found = {file if file.is_dir() else file.parent for file in files}
    named = [located(item.scenario, item.place.path).topology for item in items if isinstance(item, Loaded)]
    for reference in {*named, topology} - {None}:
        place = str(reference).rpartition(":")[0]
        found.add(Path(place).parent if place.endswith(".py") else Path())
    return {folder.resolve() for folder in found if folder.is_dir()}


def state_of(folders: Iterable[Path]) -> FileTimes:
    """The files in folders and below them that a replay may depend on."""
    state: FileTimes = {}
    for folder in folders:
        for top, inner, names in os.walk(folder):
            inner[:] = [name for name in inner if not passed_over(Path(top, name))]
            for name in names:
                if name.endswith(_KINDS):
                    _note(state, Path(top, name))
    return state


def _note(state: FileTimes, path: Path) -> None:
    try:
        status = path.stat()
    except OSError:  # deleted since it was listed, or being rewritten
        return
    state[path] = (status.st_mtime_ns, status.st_size)


def _say_waiting(folders: Sequence[Path]) -> None:
    names = ", ".join(os.path.relpath(folder) for folder in folders)
    say(out(), Text(f"Waiting for a change in {names}; Ctrl-C ends.", "dim"))
