"""What the tests play a little of: whatever may die on a cluster, in each phase of a batch.

``python -m tests.spark.cluster`` plays all of it; ``python -m tests.spark.cluster executor@commit master@fire``
plays what is named. ``--jars FOLDER`` plays a checkpoint and sinks on a server that speaks S3 instead, and that answers
every tenth request with 503, late or not at all; the folder has hadoop-aws and what it needs, 690 MB from Maven
Central, which is why the tests leave it out. Exit status 1: rows differ from those of a local run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.helpers.s3 import ENVIRONMENT, s3_server
from tests.spark.cluster.playing import app, crashed, in_store, prepared, rows
from tests.spark.cluster.standalone import Standalone, standalone
from topologies.engine.phases import PHASES

WHO = ("executor", "worker", "master", "driver")
FAILURES = ("503", "slow", "lost")


def main() -> int:
    """Play what the arguments name, or all, and print a line for each."""
    parser = argparse.ArgumentParser(prog="tests.spark.cluster", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("wanted", nargs="*", help="such as executor@commit")
    parser.add_argument("--jars", type=Path, help="a folder with hadoop-aws")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if options.jars is not None:
            return _on_a_store(Path(folder), sorted(options.jars.glob("*.jar")))
        with standalone(Path(folder)) as cluster:
            wanted = options.wanted or [f"{who}@{phase}" for phase in PHASES if phase != "committed" for who in WHO]
            return _compared(cluster, {what: partial(crashed, cluster, what) for what in wanted})


def _on_a_store(folder: Path, jars: Sequence[Path]) -> int:
    with s3_server() as store, standalone(folder, more=ENVIRONMENT) as cluster:
        settings = cluster.root / "conf" / "spark-defaults.conf"
        settings.write_text(f"{settings.read_text()}\nspark.jars {','.join(map(str, jars))}\n")
        return _compared(cluster, {how: partial(in_store, cluster, store, how) for how in FAILURES})


def _compared(cluster: Standalone, plays: Mapping[str, Callable[[], dict[str, list[str]]]]) -> int:
    prepared(cluster)
    app(cluster, "expected", "local")
    expected, wrong = rows(cluster, "expected"), 0
    for what, play in plays.items():
        began = time.monotonic()
        right = play() == expected
        wrong += not right
        print(f"{what}: {'as a local run' if right else 'WRONG'}, {time.monotonic() - began:.0f} s", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
