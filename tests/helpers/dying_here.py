"""A local run in a process of its own, which is killed at a place: ``dying_here.py FILES FOLDER WHERE BATCH``.

WHERE is a phase of the micro-batch; ``before X`` and ``after X``: as a file is written, X being ``sources``,
``offsets``, ``commits`` or ``plans``.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

from manager.storage.sealed_files import SealedFolder
from tests.helpers.damage import topology
from topologies.checkpoints import file_journal, spark_checkpoint
from topologies.local import LocalRun
from topologies.run.options import RunOptions


def main(files: str, folder: str, where: str, batch: str) -> None:
    """Run, and be killed on the way."""
    run = LocalRun(topology(Path(files), Path(folder) / "out"), RunOptions(f"{folder}/ck"))
    moment, _, what = where.rpartition(" ")

    def die(phase: str) -> None:
        if phase == where and run.micro_batch.manifest.batch == int(batch) - (where not in ("publish", "committed")):
            os.kill(os.getpid(), signal.SIGKILL)

    write_log, write_document = spark_checkpoint.write_spark_file, SealedFolder.write

    def logged(filesystem: Any, path: str, text: str, **rest: Any) -> None:
        mine = f"/spark/{what}/" in path and moment
        after = int(batch) - (what != "commits")
        if mine == "before" and run.micro_batch.manifest.batch == after:
            os.kill(os.getpid(), signal.SIGKILL)
        write_log(filesystem, path, text, **rest)
        if mine == "after" and run.micro_batch.manifest.batch == after:
            os.kill(os.getpid(), signal.SIGKILL)

    def written(folder: SealedFolder, name: str, values: Any) -> None:
        mine = name.startswith(f"{what}/") and run.micro_batch.manifest.batch == int(batch) - 1 and moment
        if mine == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write_document(folder, name, values)
        if mine == "after":
            os.kill(os.getpid(), signal.SIGKILL)

    with run, patch.object(file_journal, "write_spark_file", logged), patch.object(SealedFolder, "write", written):
        run.micro_batch.hook = die
        run.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
