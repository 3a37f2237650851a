"""The script ``run`` in the root of the project."""

from __future__ import annotations

import signal
import subprocess
import sys
from importlib.machinery import SourceFileLoader

import pytest

from tests.helpers.places import ROOT

CALL = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from {__name__} import loaded
sys.exit(loaded().status_of([sys.executable, "-c", "print('begun', flush=True); input()"], "."))
"""


def loaded():
    return SourceFileLoader("run_of_the_project", str(ROOT / "run")).load_module()


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_command_ends_with_the_script_that_is_told_to_end() -> None:
    command = [sys.executable, "-c", CALL]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "begun\n"
        script.send_signal(signal.SIGTERM)
        assert script.wait(30) == 128 + signal.SIGTERM
        assert script.stdout.read() == ""  # nobody is left who could write
