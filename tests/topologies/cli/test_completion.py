"""Shells complete commands, options and their values."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.examples import sampled
from tests.helpers.places import ROOT


def _asked(tmp_path: Path, **env: str) -> str:
    """What the command answers to a shell."""
    done = subprocess.run(
        [sys.executable, "-m", "windbolt"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.stdout


COMPLETED = {
    "windbolt re": ["replay", "rescale", "reset"],
    "windbolt s": ["state", "savepoint"],
    "windbolt che": ["check", "checkpoint"],
    "windbolt run --eng": ["--engine"],
    "windbolt run --engine l": ["local"],
    "windbolt replay --w": ["--watch"],
}


@pytest.mark.parametrize("words", sampled(COMPLETED, 6))
def test_commands_options_and_values_are_completed_in_bash(tmp_path: Path, words: str) -> None:
    at, completed = len(words.split()) - 1, COMPLETED[words]
    answer = _asked(tmp_path, COMP_WORDS=words, COMP_CWORD=str(at), _WINDBOLT_COMPLETE="complete_bash")
    assert answer.split() == completed


@pytest.mark.parametrize("shell", sampled(["zsh", "fish"], 2))
def test_in_zsh_and_fish_with_what_they_are_for(tmp_path: Path, shell: str) -> None:
    answer = _asked(
        tmp_path,
        _TYPER_COMPLETE_ARGS="windbolt re",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
        _WINDBOLT_COMPLETE=f"complete_{shell}",
    )
    assert "replay" in answer
    assert "Replay scenarios" in answer


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_what_is_installed_is_a_script_that_bash_takes(tmp_path: Path) -> None:
    script = _asked(tmp_path, _WINDBOLT_COMPLETE="source_bash")
    done = subprocess.run(
        ["bash", "-c", f"{script}\ncomplete -p windbolt"], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "-o default" in done.stdout  # files are completed where windbolt has nothing to say
