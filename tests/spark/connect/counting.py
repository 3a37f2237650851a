"""A run that a test ends in the middle: ``python -m tests.spark.connect.counting ADDRESS INPUT FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.helpers.damage import topology
from windbolt import RunOptions, run_on_spark


def main(address: str, files: str, folder: str) -> None:
    """Run to the end of the input."""
    built = topology(Path(files), Path(folder) / "out")
    run_on_spark(built, RunOptions(f"{folder}/ck"), master=address)


if __name__ == "__main__":
    main(*sys.argv[1:])
