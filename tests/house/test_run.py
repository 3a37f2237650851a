"""The script ``run`` in the root of the project."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path

import pytest

from tests.helpers.places import ROOT


def loaded():
    loader = SourceFileLoader("run_of_the_project", str(ROOT / "run"))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


BEGIN = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from {__name__} import loaded
run = loaded()
wait = [sys.executable, "-c", "print('begun', flush=True); input()"]
"""


def assert_all_end(program: str) -> None:
    """Runs a program that begins ``wait``, and tells it to end: it does, and nobody is left who could write."""
    command = [sys.executable, "-c", BEGIN + program]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as script:
        assert script.stdout is not None
        assert script.stdout.readline() == "begun\n"
        script.send_signal(signal.SIGTERM)
        assert script.wait(30) == 128 + signal.SIGTERM
        assert script.stdout.read() == ""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_command_ends_with_the_script_that_is_told_to_end() -> None:
    assert_all_end("sys.exit(run.status_of(wait, '.'))")


def test_tests_that_run_beside_others_are_shown_behind_them(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = loaded()
    beside = run.Beside(sys.executable, ["--collect-only", "-q", "tests/house/no_such_file.py"], str(tmp_path))
    beside.show()
    assert "no_such_file.py" in capfd.readouterr().err.split("they began beside those above")[1]
    status, (seconds, of_cpu), ran_twice = beside.tested()
    assert (status, ran_twice) == (4, False)  # pytest's own status of wrong arguments
    assert 0 < of_cpu < seconds * 64
    assert run.RUNNING == []


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_both_end_with_the_script_that_is_told_to_end(tmp_path: Path) -> None:
    begin = f"beside = run.Beside(sys.executable, ['--collect-only'], {str(tmp_path)!r})"
    assert_all_end(f"with run.signals_passed_on(): {begin}; sys.exit(run.status_of(wait, '.'))")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_no_part_begins_behind_one_that_was_told_to_end() -> None:
    parts = "[(name, *run.timed(wait), False) for name in ('one', 'other')]"
    assert_all_end(f"run.checks = lambda: {parts}; sys.exit(run.tests(['--version']))")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_that_comes_before_a_command_begins_is_not_lost() -> None:
    run = loaded()
    with run.signals_passed_on():
        signal.raise_signal(signal.SIGTERM)
        with pytest.raises(SystemExit, match=str(128 + signal.SIGTERM)):
            run.status_of([sys.executable, "-c", "pass"], ".")


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_to_a_command_that_has_just_ended_leaves_its_exit_status() -> None:
    run = loaded()
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    run.RUNNING.append(process)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    with run.signals_passed_on():
        signal.raise_signal(signal.SIGTERM)
        assert run.ended(process)[0] == 3


@pytest.mark.skipif(sys.platform == "win32", reason="a script of a shell")
def test_tests_that_run_beside_others_end_where_these_cannot_begin(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run, python = loaded(), tmp_path / "python"
    python.write_text("#!/bin/sh\nexec sleep 60\n")
    python.chmod(0o755)

    def no_memory(*_: object, **__: object) -> None:
        raise OSError("no memory")

    for name, value in (("venv_python", lambda: str(python)), ("checks", list), ("tested", no_memory)):
        monkeypatch.setattr(run, name, value)
    monkeypatch.setattr(run, "CACHE", str(tmp_path))
    with pytest.raises(OSError, match="no memory"):
        run.tests([])
    assert run.RUNNING == []


def test_an_option_of_the_environment_hides_no_test_behind_one_that_passes_the_second_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = loaded()
    (tmp_path / "test_both.py").write_text(
        "import os\n\n\ndef test_first():\n"
        "    known = os.path.exists('known')\n    os.makedirs('known', exist_ok=True)\n"
        "    assert known\n\n\ndef test_second():\n    raise AssertionError\n"
    )
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x")
    monkeypatch.setattr(run, "ROOT", str(tmp_path))
    monkeypatch.setattr(run, "CACHE", str(tmp_path / ".pytest_cache"))
    assert run.tested(sys.executable, ["-q", "test_both.py"])[0] == run.TESTS_FAILED


def test_an_old_python_can_read_it() -> None:
    ast.parse((ROOT / "run").read_text(), feature_version=(3, 6))
