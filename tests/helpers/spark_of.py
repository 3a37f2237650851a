"""An earlier Spark for the tables that are not built for the newest one: PySpark in a folder of its own.

All other packages are those of the tests' environment. It is installed once, into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from servers.java import jars
from tests.helpers.places import ROOT

VERSIONS = {"delta": "4.2.0", "iceberg": "4.1.4"}
"""The newest that each is built for, in November 2026: ``delta-spark`` 4.4.0, ``iceberg-spark-runtime`` 1.12.0."""

CLIENT = "4.2.0"
"""The newest of ``pyspark-client``, the package without Java, in November 2026."""

SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.databricks.delta.snapshotPartitions": "1",  # by default 50 tasks for each look at a table
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
    },
}


def spark_home(format: str) -> Path:
    """The folder of PySpark for a format of tables; it is installed where it is not there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt")
    folder = cache / f"pyspark-{VERSIONS[format]}"
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        draft = tempfile.mkdtemp(dir=cache)
        install = ["uv", "pip", "install", "--quiet", "--target", draft, f"pyspark=={VERSIONS[format]}"]
        subprocess.run([sys.executable, "-m", *install, "--python", sys.executable], check=True)
        try:
            os.rename(draft, folder)
        except OSError:  # another test was quicker
            shutil.rmtree(draft)
    return folder / "pyspark"


def environment(format: str) -> dict[str, str]:
    """The environment of a process that is to use it."""
    home = spark_home(format)
    path = os.pathsep.join([str(home.parent), str(ROOT)])
    return os.environ | {
        "SPARK_HOME": str(home), "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1",
    }  # fmt: skip


def settings(format: str) -> dict[str, str]:
    """The settings of a session that has these tables."""
    return {"spark.jars": ",".join(jars(format)), **SETTINGS[format]}


def client_alone() -> Path:
    """A Python with windbolt's dependencies, and ``pyspark-client`` in place of PySpark; it is made where it is not
    there."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "windbolt")
    folder = cache / f"pyspark-client-{CLIENT}-{sys.version_info.major}.{sys.version_info.minor}"
    python = folder / "bin" / "python"
    if not (folder / "complete").exists():
        cache.mkdir(parents=True, exist_ok=True)
        needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
        others = [each for each in needed if not each.startswith("pyspark")]
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(folder)], check=True)
        install = ["pip", "install", "--quiet", "--python", str(python), f"pyspark-client=={CLIENT}", *others]
        subprocess.run([*uv, *install], check=True)
        (folder / "complete").touch()
    return python
