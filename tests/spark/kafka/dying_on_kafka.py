"""A run between topics in a process of its own, which is killed: ``dying_on_kafka.py SERVERS ORDERS OUT COPIES CK``."""

from __future__ import annotations

import os
import signal
import sys

from servers.java import jars
from servers.kafka import Kafka
from tests.spark.kafka.kafka_shop import shop
from tests.spark.tools import CONF
from topologies.run.options import RunOptions
from topologies.spark.classic_session import open_session
from topologies.spark.runner import SparkRun


def main(servers: str, orders: str, out: str, copies: str, checkpoint: str) -> None:
    """Run, and be killed with records of the second batch written, and not committed."""
    spark, _ = open_session("local[2]", {**CONF, "spark.jars": ",".join(jars("connector"))}, kafka=True)
    attempt = SparkRun(spark, shop(Kafka(servers), orders, out, copies), RunOptions(checkpoint))

    def hook(phase: str) -> None:
        if phase == "commit" and attempt.micro_batch.manifest.batch == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    with attempt:
        attempt.micro_batch.hook = hook
        attempt.run()


if __name__ == "__main__":
    main(*sys.argv[1:])
