"""A step in a process of its own, which is killed: ``dying_step_on_kafka.py STEP CHECKPOINT MOMENTS``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from servers.java import jars
from tests.spark.kafka.step_shop import BatchClock, built
from tests.spark.tools import CONF
from topologies.run.options import RunOptions
from topologies.spark.classic_session import open_session
from topologies.spark.runner import SparkRun


def main(step: str, checkpoint: str, *moments: str) -> None:
    """Run, and be killed with the records of the second batch written, and not committed."""
    spark, _ = open_session("local[2]", {**CONF, "spark.jars": ",".join(jars("connector"))}, kafka=True)
    clock = BatchClock(Path(checkpoint), [int(moment) for moment in moments])
    attempt = SparkRun(spark, built(Path(step)), RunOptions(checkpoint, clock=clock))

    def hook(phase: str) -> None:
        if phase == "commit" and attempt.micro_batch.manifest.batch == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with attempt:
        attempt.micro_batch.hook = hook
        attempt.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
