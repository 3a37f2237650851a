"""The Java of this machine, and jars from Maven Central, pinned.

``broker`` is Apache Kafka, ``connector`` what Spark needs for it; ``delta`` and ``iceberg`` are tables for the Spark
that each is built for (``tests/helpers/spark_of.py``).

``python -m servers.jars connector`` prints where they lie, as ``spark.jars`` wants it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from topologies.spark import java as pinned

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project."""
_LISTS = {name: Path(__file__).with_name(f"{name}.txt") for name in ("broker", "delta", "iceberg")} | {
    "connector": pinned.CONNECTOR
}


def jars(name: str) -> list[str]:
    """The paths of the jars of a list; those that are not in the user's cache are fetched."""
    return pinned.jars(_LISTS[name])


def java_command() -> str:
    """Return the command that starts the Java that Spark uses: JAVA_HOME's, or else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


if __name__ == "__main__":
    print(",".join(jars(sys.argv[1])))
