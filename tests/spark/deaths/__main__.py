"""``python -m tests.spark.deaths``: kill real runs at operations on files, and say which do not continue well."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.spark.deaths.deadly import TASKS, Death, drawn, fresh, library, run
from tests.spark.deaths.judging import differences, output
from tests.spark.shop import write_orders


def main() -> int:
    """0 if all went well."""
    parser = argparse.ArgumentParser(prog="python -m tests.spark.deaths", description=__doc__)
    parser.add_argument("--deaths", type=int, default=20, help="how many")
    parser.add_argument("--from", type=int, default=0, dest="first", help="the number of the first")
    chosen = parser.parse_args()
    started, failed, met = time.monotonic(), 0, Counter[str]()
    with tempfile.TemporaryDirectory(prefix="windbolt-deaths-") as name:
        folder = Path(name)
        killer, orders = library(folder), folder / "orders"
        write_orders(orders, range(3))
        whole = {tasks: run(killer, orders, fresh(folder / tasks), Death(0, "one", tasks)) for tasks in TASKS}
        expected = output(folder / TASKS[0] / "data")
        operations = {tasks: outcome.operations for tasks, outcome in whole.items()}
        for seed in range(chosen.first, chosen.first + chosen.deaths):
            death = drawn(seed, operations)
            here = fresh(folder / "killed")
            killed = run(killer, orders, here, death)
            again = run(killer, orders, here, Death(0, "one", death.tasks))
            problems = [again.said] if again.status else differences(here / "data", expected)
            print(f"{seed}: {death}, at {killed.last}: {'; '.join(problems) or 'well'}", flush=True)
            failed += bool(problems)
            met[killed.last.partition(" ")[0]] += 1
    print(f"{chosen.deaths} deaths in {time.monotonic() - started:.0f} s: {failed} did not continue well; {dict(met)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
