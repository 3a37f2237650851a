"""Walks a page of the documents: writes its files, runs its examples and commands, and compares what comes out.

Of the blocks of code on a page these are used; others are only read.

- A block after a line with nothing but the name of a file in backquotes and a colon: the file is written.
- ``python``: it is executed, all such blocks of a page in one namespace. A line that begins with ``print`` and ends
  with a comment says what is printed.
- ``console``: lines that begin with ``$`` are commands, and the lines below each are its output. ``>`` continues a
  command, and ``cd`` holds for those after it. ``...`` stands for any lines, and within a line for any text.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.helpers.places import ROOT

BLOCK = re.compile(r"(?:^`(?P<file>[\w./-]+)`:\n\n)?^```(?P<language>\w+)\n(?P<text>.*?)^```$", re.M | re.S)
PRINTED = re.compile(r"^ *print\(.*\)  # (.*)$", re.M)
SECONDS = 300


@dataclass(frozen=True)
class Walk:
    """What was done on the way: how many files, examples and commands there were."""

    files: int = 0
    examples: int = 0
    commands: int = 0


def walk(text: str, folder: Path) -> Walk:
    """Walk a page within ``folder``, which has to be the current one. AssertionError where a page does not hold."""
    namespace: dict[str, Any] = {"__name__": "page"}
    files = examples = commands = 0
    current = folder
    for block in BLOCK.finditer(text):
        if block["file"]:
            path = folder / block["file"]
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block["text"], encoding="utf-8")
            files += 1
        elif block["language"] == "python":
            run_example(block["text"], namespace)
            examples += 1
        elif block["language"] == "console":
            for command, expected in commands_of(block["text"]):
                if command.startswith("cd "):
                    current = current / command.removeprefix("cd ")
                else:
                    run_command(command, expected, current)
                commands += 1
    return Walk(files, examples, commands)


def run_example(code: str, namespace: dict[str, Any]) -> None:
    """Execute an example; its output has to be that of its comments, if it has any."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<example>", "exec"), namespace)
    expected = PRINTED.findall(code)
    if expected:
        assert printed.getvalue().splitlines() == expected, f"{code}\n{printed.getvalue()}"


def run_command(command: str, expected: list[str], folder: Path) -> None:
    """Run a command; it has to print what is expected."""
    shell = ["bash", "-c", command]
    done = subprocess.run(
        shell, cwd=folder, env=environment(), capture_output=True, text=True, check=False, timeout=SECONDS
    )
    output = [line.rstrip() for line in done.stdout.splitlines()]
    assert matches(expected, output), f"{command}\n{done.stdout}\n{done.stderr}"


def commands_of(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each command of a block, with the lines below it."""
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, *lines = part.rstrip("\n").split("\n")
        while lines and lines[0].startswith("> "):
            command += "\n" + lines.pop(0).removeprefix("> ")
        yield command, [line.rstrip() for line in lines]


def matches(expected: list[str], output: list[str]) -> bool:
    """Whether the lines of an output are those expected; nothing is expected of a command without lines."""
    if not expected:
        return True
    any_text = re.escape("...")
    lines = (r"(?:.*\n)*" if line == "..." else re.escape(line).replace(any_text, ".*") + "\n" for line in expected)
    pattern = "".join(lines)
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in output)) is not None


def environment() -> dict[str, str]:
    """The environment of commands: ``windbolt`` and ``pytest`` are those of this Python, from this source."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    paths = os.pathsep.join([str(Path(sys.executable).parent), kept.get("PATH", os.defpath)])
    return {**kept, "PATH": paths, "PYTHONPATH": str(ROOT), "COLUMNS": "80"}
