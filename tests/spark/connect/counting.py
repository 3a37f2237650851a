"""A run that a test ends in the middle: ``python -m tests.spark.connect.counting ADDRESS INPUT FOLDER [restart]``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.helpers.damage import topology
from topologies.run.options import Restart
from windbolt import RunOptions, run_on_spark


def main(address: str, files: str, folder: str, how: str = "") -> None:
    """Run to the end of the input; ``restart``: and start again after what passes by itself."""
    built = topology(Path(files), Path(folder) / "out")
    restart = Restart(initial_backoff="1s") if how else None
    run_on_spark(built, RunOptions(f"{folder}/ck", restart=restart), master=address)


if __name__ == "__main__":
    main(*sys.argv[1:])
