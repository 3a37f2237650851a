"""A process that ends while runs are in progress in its background: they end with it, cleanly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.topologies.background.test_start import shop, write_orders

BEGINNING = """
import os, signal, sys, threading, warnings
from pathlib import Path
from tests.topologies.background.test_start import Broken, Reached, shop

folder = Path(sys.argv[1])
reached = Reached()
"""
LEAVES = """
topology, _ = shop(folder / "in")
run = topology.start(folder / "ck", engine="local", every="5ms", on_report=reached)
reached.wait_for(1)
print(run.status.phase, flush=True)
"""
LEAVES_IN_A_BATCH = """
inside, out = threading.Event(), []

def late(report):
    inside.set()
    threading.main_thread().join()  # the process is ending
    out.append(report)
    print("committed", report.batch, flush=True)

topology, _ = shop(folder / "in")
topology.start(folder / "ck", engine="local", every="5ms", on_report=late)
assert inside.wait(300)
"""
FORKS = (
    LEAVES
    + """
warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 warns of forks beside threads
child = os.fork()
if child == 0:
    sys.exit(0)  # it has none of the threads: it would wait for them in vain
os.waitpid(child, 0)
"""
)
EXITS = LEAVES + "\nsys.exit(3)\n"
FAILS_UNSEEN = """
topology, _ = shop(folder / "in", Broken())
run = topology.start(engine="local")
run.end_within(60)
"""
FAILS_SEEN = (
    FAILS_UNSEEN
    + """
try:
    run.wait()
except Exception:
    print("seen")
"""
)
INTERRUPTED = """
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and hand that on

def interrupt(report):
    os.kill(os.getpid(), signal.SIGINT)

topology, _ = shop(folder / "in")
try:
    topology.run(folder / "ck", engine="local", every="5ms", on_report=interrupt)
except KeyboardInterrupt:
    print("interrupted")
"""


def program(folder: Path, rest: str) -> subprocess.CompletedProcess[str]:
    """Run a script that is given the folder; at most a minute."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-c", BEGINNING + rest, str(folder)],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    ("script", "said", "status"),
    [
        pytest.param(LEAVES, "running\n", 0, id="leaves", marks=pytest.mark.extended),
        pytest.param(LEAVES_IN_A_BATCH, "committed 0\n", 0, id="in a batch"),
        pytest.param(EXITS, "running\n", 3, id="exits", marks=pytest.mark.extended),
        pytest.param(FORKS, "running\n", 0, id="forks", marks=pytest.mark.extended),
        pytest.param(INTERRUPTED, "interrupted\n", 0, id="interrupted"),
    ],
)
def test_a_run_stops_after_its_batch_and_the_next_one_goes_on(
    script: str, said: str, status: int, tmp_path: Path
) -> None:
    write_orders(tmp_path / "in", 0, 1, 12)
    done = program(tmp_path, script)
    assert (done.stdout, done.stderr, done.returncode) == (said, "", status)
    manifests = sorted(path.name for path in (tmp_path / "ck/windbolt/manifests").iterdir() if path.suffix == ".json")
    assert len(manifests) == 1, "its batch is committed, and the open windows are left to the next run"
    write_orders(tmp_path / "in", 1, 14, 31)
    topology, sink = shop(tmp_path / "in")
    assert topology.run(tmp_path / "ck", engine="local").rows == 2
    assert [row["revenue"] for row in sink.rows] == [2.0, 1.0]


def test_an_error_that_nobody_asked_for_is_told_at_the_end(tmp_path: Path) -> None:
    write_orders(tmp_path / "in", 0, 1, 12)
    done = program(tmp_path, FAILS_UNSEEN)
    what, why, do = done.stderr.splitlines()
    assert what.startswith("windbolt: the run of 'shop' failed: bolt 'revenue' failed in task 0 on the window from")
    assert why.startswith("  why: ValueError: no such thing")
    assert do.startswith("  do:  ")
    done = program(tmp_path, FAILS_SEEN)
    assert (done.stdout, done.stderr) == ("seen\n", "")
