"""``python -m tests.simulation``: play seeds, and say which of them go wrong."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.simulation.case import CASES, Case
from tests.simulation.coverage import Coverage
from tests.simulation.mutants import MUTANTS, file_of, plant
from tests.simulation.playing import play
from tests.simulation.shrinking import keep, shrunk
from tests.simulation.side_by_side import played_side_by_side


def main() -> int:
    """0 if all seeds went well."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many seeds")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the first of them")
    parser.add_argument("--minutes", type=float, help="stop after so many minutes")
    parser.add_argument("--case", type=Path, help="play what a file describes instead")
    parser.add_argument("--plant", help="make the case of a planted defect anew; all: of those that show none")
    parser.add_argument("--keep", type=Path, default=CASES, help="the folder for files of what has gone wrong")
    parser.add_argument("--most", type=int, default=3, help="stop after so many failures")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="that play seeds side by side")
    chosen = parser.parse_args()
    if chosen.plant is not None:
        return planted(chosen.plant, chosen.first)
    if chosen.case is not None or chosen.seeds == 1:
        played = play(chosen.first if chosen.case is None else Case.read(chosen.case))
        print(played if chosen.case is not None or not played.problems else keep(shrunk(played), chosen.keep))
        return 1 if played.problems else 0
    started, failed, coverage = time.monotonic(), 0, Coverage()
    for found, failures in played_side_by_side(chosen.first, chosen.seeds, chosen.processes, chosen.keep):
        coverage.join(found)
        for failure in failures:
            print(failure, end="\n\n", flush=True)
        failed += len(failures)
        if coverage.seeds % 1_000 == 0:
            print(f"up to seed {chosen.first + coverage.seeds - 1}, in {time.monotonic() - started:.0f} s", flush=True)
        if failed >= chosen.most or (chosen.minutes and time.monotonic() - started > 60 * chosen.minutes):
            break
    print(coverage)
    print(f"{coverage.seeds} seeds in {time.monotonic() - started:.0f} s: {failed} went wrong")
    print(f"the next seed: --from {chosen.first + coverage.seeds}")
    return 1 if failed else 0


def planted(wanted: str, first: int) -> int:
    """Write the case of one planted defect, or of all whose case does not show it."""
    for name in MUTANTS if wanted == "all" else [wanted]:
        path = file_of(name)
        if wanted == "all" and path.exists():
            with MUTANTS[name]():
                if play(Case.read(path)).problems:
                    continue
        started = time.monotonic()
        path.parent.mkdir(exist_ok=True)
        path.write_text(str(plant(name, first)), encoding="utf-8")
        print(f"{path.name}: seed {Case.read(path).seed}, {time.monotonic() - started:.0f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
