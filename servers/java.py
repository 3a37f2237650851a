"""Java on this machine: its command, jars from Maven Central, pinned, and an archive of the classes that Spark loads.

Of the lists of jars ``broker`` is Apache Kafka, ``connector`` what Spark needs for it; ``delta`` and ``iceberg`` are
tables for the Spark that each is built for (``tests/helpers/spark_of.py``).

With the archive a session starts in about half the time. ``./run tests`` makes it as it sets up. The tests of
``tests/spark`` tell every Java that they start of it, by SPARK_SUBMIT_OPTS. Java ignores one that does not fit.

    python -m servers.java connector     prints where the jars of a list lie, as ``spark.jars`` wants it
    python -m servers.java classes       makes the archive, unless there is one for this Java and this Spark
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyspark

from topologies.spark import java as pinned

ROOT = Path(__file__).resolve().parents[1]
"""The folder of the project."""
_LISTS = {name: Path(__file__).with_name(f"{name}.txt") for name in ("broker", "delta", "iceberg")} | {
    "connector": pinned.CONNECTOR
}


def jars(name: str) -> list[str]:
    """Returns the paths of the jars of a list; those that are not in the user's cache are fetched."""
    return pinned.jars(_LISTS[name])


def java_command() -> str:
    """Return the command that starts the Java that Spark uses: JAVA_HOME's, or else the first on the PATH."""
    home = os.environ.get("JAVA_HOME")
    return os.path.join(home, "bin", "java") if home else "java"


# The archive of the classes that Java loads for Spark.


ARCHIVE = Path(sys.prefix) / "windbolt-java-classes.jsa"
_STAMP = ARCHIVE.with_suffix(".txt")
_SUBMIT = "SPARK_SUBMIT_OPTS"
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Short runs are faster without the optimising compiler."""
_LONGEST = 300


def options() -> str:
    """Returns the options for a Java that runs Spark for a short time; the archive only if there is one."""
    archived = f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""
    return QUICK + archived


def use() -> None:
    """Makes each Java that spark-submit starts from now on use the options, in this process or its children."""
    os.environ[_SUBMIT] = options()


def make() -> bool:
    """Make the archive if there is none that fits; False if it could not be made."""
    version = subprocess.run([java_command(), "-version"], capture_output=True, text=True, check=True).stderr
    wanted = f"{version}\n{pyspark.__version__} {Path(pyspark.__file__).parent}\n"
    if ARCHIVE.exists() and _STAMP.exists() and _STAMP.read_text() == wanted:
        return True
    print("archiving the classes that Java loads for Spark, which takes a minute", file=sys.stderr)
    draft = ARCHIVE.with_suffix(".draft")
    program = [sys.executable, "-m", "servers.java", "run"]
    environment = {**os.environ, _SUBMIT: f"-XX:ArchiveClassesAtExit={draft} -Xlog:disable"}
    subprocess.run(program, env=environment, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if not draft.exists():
        return False
    draft.replace(ARCHIVE)
    _STAMP.write_text(wanted)
    return True


def _run() -> None:
    """Runs typical work of tests on Spark, and lets Java end by itself: it then writes the archive."""
    from topologies.run.options import RunOptions
    from topologies.spark.classic_session import open_session
    from topologies.spark.running import run_on_spark
    from windbolt import TopologyBuilder, sinks, spouts
    from windowing import AggregateBolt
    from windowing.aggregates import count

    session, _ = open_session("local[2]", {})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in").mkdir()
        (folder / "in" / "a.jsonl").write_text('{"n": 1, "ts": 1000}\n')
        builder = TopologyBuilder("classes")
        builder.set_spout("in", spouts.files(f"{folder}/in/*.jsonl", "n long, ts long"))
        bolt = AggregateBolt("n", events=count()).with_tumbling_window("1s").with_timestamp_field("ts")
        builder.set_bolt("counts", bolt).fields_grouping("in", "n")
        builder.set_sink("out", sinks.files(folder / "out", "jsonl")).from_("counts")
        session.conf.set("spark.windbolt.tasks", "spark")
        run_on_spark(builder.build(), RunOptions(f"{folder}/checkpoint"))
        frame = session.createDataFrame([(1, "a")], "n int, name string")
        frame.write.parquet(f"{folder}/table")
        session.read.parquet(f"{folder}/table").groupBy("name").count().collect()
    process: Any = session.sparkContext._gateway.proc  # type: ignore[union-attr]
    session.stop()
    process.stdin.close()
    process.wait(_LONGEST)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["classes"]:
            sys.exit(not make())
        case ["run"]:
            _run()
        case [name]:
            print(",".join(jars(name)))
        case _:
            sys.exit(__doc__)
