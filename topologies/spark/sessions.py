"""Which sessions are of Spark Connect, and which classic ones."""

from __future__ import annotations

import os
from typing import Any

from pyspark.sql import SparkSession

REMOTE = "SPARK_REMOTE"
"""PySpark's variable with the address of a Connect server."""


def is_over_connect(spark: Any, master: str | None) -> bool:
    """True if a run in this session, or in one that it opens, goes over Spark Connect."""
    if spark is not None:
        return not hasattr(spark, "_jsparkSession")
    return is_remote_master(master) or (not master and bool(os.environ.get(REMOTE)))


def session_for(spark: Any, master: str | None) -> Any:
    """The session of a run: the one given; else a new one, where ``master`` is the address of a Connect server; else
    the active one of this thread. None where a new one is opened."""
    if spark is not None:
        return spark
    return None if is_remote_master(master) else SparkSession.getActiveSession()


def is_remote_master(master: str | None) -> bool:
    """True for the address of a Connect server."""
    return (master or "").startswith("sc://")
