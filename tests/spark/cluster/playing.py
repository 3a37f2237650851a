"""How the user's program is run on a cluster, what dies meanwhile, and what it has written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import threading
import time
from pathlib import Path

from servers.spark import Standalone
from tests.helpers.places import TESTS
from tests.spark.shop import write_orders
from tests.spark.tools import drafts, file_rows

PROGRAM = Path(__file__).with_name("program")
SINKS = ("revenue", "late", "sums")
WINDBOLT = os.path.join(sysconfig.get_path("scripts"), "windbolt")
FILES = 3


def prepared(cluster: Standalone) -> None:
    """Give a cluster what the program reads."""
    (cluster.shared / "hosts").mkdir()
    write_orders(cluster.shared / "orders", range(FILES))


def app(cluster: Standalone, name: str, *what: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the user's program, which chooses no master unless it is told one."""
    return ended(cluster.run(sys.executable, "app.py", str(cluster.shared), name, *what), status)


def ended(process: subprocess.CompletedProcess[str], status: int = 0) -> subprocess.CompletedProcess[str]:
    assert process.returncode == status, process.stdout + process.stderr[-6000:]
    return process


def same_both_ways(process: subprocess.CompletedProcess[str]) -> None:
    """Compare what frames.py has printed of the rows that were added up, and of those that went to Python."""
    answer = json.loads(process.stdout.splitlines()[-1])
    assert answer["added_up"] == [True, True]
    assert answer["sums"]["rows"]
    assert answer["sums"] == answer["rows"]


def rows(cluster: Standalone, name: str) -> dict[str, list[str]]:
    folder = cluster.shared / name
    assert not any(drafts(folder / sink) for sink in SINKS)
    return {sink: file_rows(folder / sink) for sink in SINKS}


def scenarios(cluster: Standalone, folder: str) -> int:
    """Play the scenarios of a folder on a cluster, and return how many there are."""
    (cluster.shared / "tmp").mkdir(exist_ok=True)
    found = sorted(path for path in (TESTS / "scenarios" / folder).iterdir() if path.suffix in (".yaml", ".jsonl"))
    command = [sys.executable, "every_scenario.py", cluster.url, *map(str, found)]
    played = ended(cluster.run(*command, TMPDIR=f"{cluster.shared}/tmp"))
    said = json.loads(played.stdout.splitlines()[-1])
    assert said["wrong"] == {}
    return int(said["scenarios"])


def scenario_folders() -> list[str]:
    """The folders of all scenarios."""
    return sorted(path.name for path in Path(TESTS / "scenarios").iterdir() if path.is_dir() and path.name[0] != "_")


def hosts(cluster: Standalone) -> set[str]:
    """Where bolts have been since this was asked last."""
    found = {path.name for path in (cluster.shared / "hosts").iterdir()}
    for name in found:
        (cluster.shared / "hosts" / name).unlink()
    return found


def crashed(cluster: Standalone, what: str) -> dict[str, list[str]]:
    """The rows of a run during which something dies: ``executor@commit``, in that phase of its second batch."""
    who, _, phase = what.partition("@")
    name = f"{who}-{phase}"
    for marker in ("happened", "done"):
        (cluster.shared / marker).unlink(missing_ok=True)
    killer = threading.Thread(target=_kill, args=(cluster, who))
    killer.start()
    app(cluster, name, what, cluster.url, status=-9 if who == "driver" else 0)
    killer.join()
    assert (cluster.shared / "happened").exists()
    if who == "driver":
        app(cluster, name, "", cluster.url)
    cluster.start()
    return rows(cluster, name)


def _kill(cluster: Standalone, who: str) -> None:
    end = time.monotonic() + cluster.patience
    while not (cluster.shared / "happened").exists() and time.monotonic() < end:
        time.sleep(0.01)
    if who != "driver":
        cluster.kill(who)
    if who == "master":
        cluster.start()
    (cluster.shared / "done").touch()
