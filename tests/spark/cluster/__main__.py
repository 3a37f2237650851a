"""What the tests play a little of: whatever may die on a cluster, in each phase of a batch.

``python -m tests.spark.cluster`` plays all of it; ``python -m tests.spark.cluster executor@commit master@fire``
plays what is named, and ``scenarios`` all scenarios. Exit status 1: rows differ from those of a local run, or a
scenario comes out otherwise than it expects.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from servers.spark import standalone
from tests.spark.cluster.playing import PROGRAM, app, crashed, prepared, rows, scenario_folders, scenarios
from topologies.engine.micro_batch import PHASES

WHO = ("executor", "worker", "master", "driver")


def main() -> int:
    """Play what the arguments name, or all, and print a line for each."""
    deaths = [f"{who}@{phase}" for phase in PHASES if phase != "committed" for who in WHO]
    wanted = sys.argv[1:] or ["scenarios", *deaths]
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, standalone(Path(folder), program=PROGRAM) as cluster:
        prepared(cluster)
        app(cluster, "expected", "local")
        expected = rows(cluster, "expected")
        for folder_name in scenario_folders() if "scenarios" in wanted else ():
            began = time.monotonic()
            count = scenarios(cluster, folder_name)
            print(f"{folder_name}: {count} scenarios, {time.monotonic() - began:.0f} s", flush=True)
        for what in [each for each in wanted if each != "scenarios"]:
            began = time.monotonic()
            right = crashed(cluster, what) == expected
            wrong += not right
            print(f"{what}: {'as a local run' if right else 'WRONG'}, {time.monotonic() - began:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
