"""The front door: every public name is found in ``windbolt``, and a user's modules do not hide what is behind it."""

from __future__ import annotations
import __future__

import importlib
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

import windbolt
import windowing
from tests.helpers.examples import sampled
from tests.helpers.places import ROOT

PARTS = (
    "aggregates",
    "kinds",
    "panes",
    "policies",
    "presets",
    "sinks",
    "spouts",
    "state",
    "step",
    "testing",
    "triggers",
)
TOPOLOGY = """
from windbolt import Bolt, TopologyBuilder, sinks, spouts

class Same(Bolt):
    outputs = "n long"

    def execute(self, row):
        return {"n": row["n"]}

builder = TopologyBuilder("same")
builder.set_spout("numbers", spouts.memory("n long", [(1,)]))
builder.set_bolt("same", Same()).shuffle_grouping("numbers")
builder.set_sink("out", sinks.console()).from_("same")
topology = builder.build()
"""


def run(*command: str, folder: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_every_name_that_is_promised_is_there_and_is_the_one_that_windbolt_uses() -> None:
    assert (
        set(windowing.__all__)
        <= set(windbolt.__all__)
        == set(dir(windbolt)) - {name for name in dir(windbolt) if name.startswith("__")}
    )
    for name in windbolt.__all__:
        found = getattr(windbolt, name)
        if name in PARTS:
            assert found is importlib.import_module(f"windbolt.{name}")
        elif name in windowing.__all__:
            assert found is getattr(windowing, name)


def test_the_parts_name_what_is_theirs() -> None:
    for part in PARTS:
        module = importlib.import_module(f"windbolt.{part}")
        assert module.__doc__, part
        offered = {name for name, found in vars(module).items() if not name.startswith("_") and not _is_pythons(found)}
        assert sorted(module.__all__) == sorted(offered), part
        assert offered, part


def _is_pythons(found: object) -> bool:
    """True for a module, and for ``annotations`` of ``__future__``."""
    return isinstance(found, types.ModuleType) or found is __future__.annotations


def test_a_name_that_is_not_there_is_an_error_of_python() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Windowed'"):
        _ = windbolt.Windowed


def test_the_door_opens_before_the_rooms_are_heated() -> None:
    done = run("-c", "import sys, windbolt; dir(windbolt); print({'numpy', 'pyspark'} & {*sys.modules})", folder=ROOT)
    assert done.stdout == "set()\n", done.stderr


def test_a_topology_is_built_without_what_runs_it(tmp_path: Path) -> None:
    code = (
        "import sys; from windbolt import AggregateBolt, TopologyBuilder, aggregates, sinks, spouts; "
        "builder = TopologyBuilder('counts'); "
        "builder.set_spout('orders', spouts.memory('user string, ts timestamp')); "
        "bolt = AggregateBolt(n=aggregates.count()).with_tumbling_window('1m').with_timestamp_field('ts'); "
        "builder.set_bolt('counts', bolt).fields_grouping('orders', 'user'); "
        "builder.set_sink('out', sinks.memory()).from_('counts'); topology = builder.build(); str(topology); "
        "rooms = ('background', 'checkpoints', 'engine', 'local', 'page', 'run', 'spark'); "
        "print({name for name in rooms if 'topologies.' + name in sys.modules})"
    )
    done = run("-c", code, folder=tmp_path, PYTHONPATH=str(ROOT))
    assert (done.stdout, done.stderr) == ("set()\n", "")


def test_it_runs_as_a_module(tmp_path: Path) -> None:
    assert "replay" in run("-m", "windbolt", "--help", folder=tmp_path).stdout


@pytest.mark.parametrize("name", sampled(["policies/__init__.py", "manager.py", "topologies.py"], 3))
def test_a_users_module_that_hides_a_package_is_named(name: str, tmp_path: Path) -> None:
    hiding = tmp_path / name
    hiding.parent.mkdir(exist_ok=True)
    hiding.write_text("")
    (tmp_path / "mine.py").write_text(TOPOLOGY)
    program = run("mine.py", folder=tmp_path)
    assert program.stderr.splitlines()[-1].startswith(f"ImportError: {hiding} hides windbolt's package")
    command = [os.path.join(os.path.dirname(sys.executable), "windbolt"), "run", "mine.py:topology"]
    told = run(*command, "--engine", "local", folder=tmp_path)
    assert told.returncode != 0
    assert name.removesuffix("__init__.py") in told.stderr
    assert "rename it" in told.stderr
    assert "Traceback" not in told.stderr


@pytest.mark.parametrize("name", sampled(["manager.py", "windbolt.py"], 2))
def test_a_topology_cannot_be_named_as_a_package_of_windbolts(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(TOPOLOGY)
    done = run("-m", "topologies.cli.app", "run", str(tmp_path / name) + ":topology", "--engine", "local", folder=ROOT)
    assert done.returncode != 0
    assert f"my_{name}" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("name", sampled(["queue", "http", "types", "pandas"], 4))
def test_a_topology_cannot_be_named_as_a_module_of_python_s(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text(TOPOLOGY)
    for reference, folder in ((str(tmp_path / f"{name}.py"), ROOT), (name, tmp_path)):
        command = [os.path.join(os.path.dirname(sys.executable), "windbolt"), "run", f"{reference}:topology"]
        done = run(*command, "--engine", "local", folder=folder)
        assert done.returncode != 0
        assert f"has a module '{name}'" in " ".join(done.stderr.split())
        assert f"my_{name}.py" in done.stderr
        assert "Traceback" not in done.stderr


def test_modules_of_python_s_are_found_where_files_beside_the_topology_have_their_names(tmp_path: Path) -> None:
    for name in ("http", "statistics", "this"):
        (tmp_path / f"{name}.py").write_text("print('the user s')\nmine = 1")
    (tmp_path / "topology.py").write_text(TOPOLOGY + "\nimport http.server, statistics\nstatistics.mean")
    command = [os.path.join(os.path.dirname(sys.executable), "windbolt"), "run"]
    done = run(*command, "topology.py:topology", "--engine", "local", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the user s" not in done.stdout + done.stderr
    (tmp_path / "mine.py").write_text(TOPOLOGY + "\nfrom statistics import mine")
    done = run(*command, "mine.py:topology", "--engine", "local", folder=tmp_path)
    assert done.returncode != 0
    assert "rename http.py, statistics.py beside it" in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_a_module_in_a_folder_beside_the_packages_is_named_too(tmp_path: Path) -> None:
    for each in ("windbolt", "windowing", "policies", "manager", "topologies"):
        (tmp_path / each).symlink_to(ROOT / each)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "manager.py").write_text("")
    (tmp_path / "mine" / "prog.py").write_text("import windbolt")
    done = run(str(tmp_path / "mine" / "prog.py"), folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {tmp_path / 'mine' / 'manager.py'} hides")


def test_a_folder_of_the_users_without_python_hides_nothing(tmp_path: Path) -> None:
    (tmp_path / "manager").mkdir()
    (tmp_path / "mine.py").write_text(TOPOLOGY + "\nfrom windbolt import run_local\nrun_local(topology)\n")
    done = run("mine.py", folder=tmp_path)
    assert done.returncode == 0, done.stderr


INTERRUPTED = """
import runpy, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "topologies.cli.app":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
runpy.run_module("windbolt", run_name="__main__")
"""


def test_ctrl_c_while_the_command_is_loaded_ends_it_without_a_traceback(tmp_path: Path) -> None:
    done = run("-c", INTERRUPTED, folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
