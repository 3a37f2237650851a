"""Jars for the tests, from Maven Central, pinned: ``broker`` is Apache Kafka, ``connector`` what Spark needs for it;
``delta`` and ``iceberg`` are tables for the Spark that each is built for (``spark_of.py``).

``python -m tests.helpers.jars connector`` prints where they lie, as ``spark.jars`` wants it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from topologies.spark.jvm import java as pinned

_LISTS = {name: Path(__file__).with_name(f"{name}.txt") for name in ("broker", "delta", "iceberg")} | {
    "connector": pinned.CONNECTOR
}


def jars(name: str) -> list[str]:
    """The paths of the jars of a list; those that are not in the user's cache are fetched."""
    return pinned.jars(_LISTS[name])


if __name__ == "__main__":
    print(",".join(jars(sys.argv[1])))
