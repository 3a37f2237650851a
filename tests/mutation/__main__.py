"""``python -m tests.mutation``: plant defects at random, and say which of them the tests without Spark find.

    python -m tests.mutation plant FOLDER [--seed 29] [--count 200]   copy the project, and plant defects in the copy
    python -m tests.mutation reach FOLDER [arguments of pytest]       run the tests there: which test reaches which
    python -m tests.mutation hunt FOLDER [arguments of pytest]        for each defect, the tests that reach it
    python -m tests.mutation show FOLDER                              how many are found, and the others by name

``hunt`` continues where it was stopped. A defect that no test finds asks for a test, or shows code that makes no
difference. Tests of the source as text (``tests/house``) and tests of mutants themselves are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tests.helpers.places import ROOT
from tests.mutation import switch
from tests.mutation.hunting import ENDS, PLAN, SECONDS
from tests.mutation.sites import FOLDERS, SWITCH, Mutant, plant

COPIED = ("windbolt", "windowing", "policies", "manager", "topologies", "tests", "docs", "README.md", "pyproject.toml")
LEFT_OUT = ("tests/spark", "tests/house", "tests/mutation")


def main() -> int:
    """Run one of the commands; 0 if it was done."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("what", choices=["plant", "reach", "hunt", "show"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=29)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--under", nargs="*", default=FOLDERS, help="folders and files in which they are planted")
    parser.add_argument("--only", type=int, nargs="*", help="hunt these defects again")
    parser.add_argument("--longest", type=float, default=3600, help="seconds after which a defect is given up")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options, rest = parser.parse_known_args()
    folder = options.folder.absolute()
    match options.what:
        case "plant":
            copied(folder, options.seed, options.count, options.under)
        case "reach":
            reach(folder, rest, options.processes)
        case "hunt":
            hunt(folder, rest, options)
    print(shown(folder))
    return 0


def copied(folder: Path, seed: int, count: int, under: Sequence[str]) -> None:
    """Copies the project into a folder that is not there yet, and plants defects in the copy."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    mutants = plant(folder, seed, count, under)
    shutil.copy(switch.__file__, folder / f"{SWITCH}.py")
    (folder / "mutants.json").write_text(json.dumps([asdict(each) for each in mutants], indent=1), "utf-8")


def reach(folder: Path, arguments: list[str], processes: int) -> None:
    """Runs the tests with no defect active, and notes the time of each, and which defects it reaches."""
    for name in ("reached.txt", "results.jsonl"):
        (folder / name).unlink(missing_ok=True)
    noted = {switch.REACHED: str(folder / "reached.txt"), SECONDS: str(folder / "seconds.json")}
    _pytest(folder, ["-n", str(processes), *arguments], noted).wait()


def hunt(folder: Path, arguments: list[str], options: argparse.Namespace) -> None:
    """Looks for each defect that has no result yet, or was given up, in several processes."""
    only, processes = options.only, options.processes
    times = json.loads((folder / "seconds.json").read_text("utf-8"))
    reaching: dict[int, list[str]] = defaultdict(list)
    for line in (folder / "reached.txt").read_text("utf-8").splitlines():
        number, _, test = line.partition("\t")
        if test in times["seconds"]:
            reaching[int(number)].append(test)
    done = set() if only else {result["mutant"] for result in _results(folder) if result["how"] != "given up"}
    todo = [number for number in (only or range(len(_mutants(folder)))) if number not in done]
    plan = {
        "reaching": {str(number): list(dict.fromkeys(reaching[number])) for number in todo},
        "seconds": times["seconds"],
        "results": str(folder / "results.jsonl"),
        "shares": processes,
        "longest": options.longest,
    }
    running = []
    for share in range(processes):
        path = folder / f"plan-{share}.json"
        path.write_text(json.dumps(plan | {"share": share}), "utf-8")
        running.append(_pytest(folder, ["-p", "no:cacheprovider", "-p", "no:xdist", *arguments], {PLAN: str(path)}))
    for process in running:
        process.wait()


def _pytest(folder: Path, arguments: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Runs pytest on the copy; processes that tests start find the copy before the project itself."""
    ignored = [argument for path in LEFT_OUT for argument in ("--ignore", path)]
    command = [sys.executable, "-m", "pytest", "tests", "-p", "tests.mutation.hunting", "-q", *ignored, *arguments]
    paths = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(command, cwd=folder, env={**os.environ, "PYTHONPATH": paths, **environment})


def shown(folder: Path) -> str:
    """Says what became of the defects; those that were not found, one a line."""
    latest = {result["mutant"]: result for result in _results(folder)}
    counted = Counter(result["how"] for result in latest.values())
    left = [mutant for mutant in _mutants(folder) if latest.get(mutant.number, {}).get("how") in ENDS]
    lines = [
        f"{mutant}   ({latest[mutant.number]['how']}; {latest[mutant.number]['tests']} tests reach it)"
        for mutant in left
    ]
    found = counted["killed"] + counted["hung"]
    return "\n".join([*lines, f"{found} found of {len(latest)}, {len(_mutants(folder))} planted"])


def _mutants(folder: Path) -> list[Mutant]:
    return [Mutant(**told) for told in json.loads((folder / "mutants.json").read_text("utf-8"))]


def _results(folder: Path) -> list[dict[str, object]]:
    path = folder / "results.jsonl"
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


if __name__ == "__main__":
    sys.exit(main())
