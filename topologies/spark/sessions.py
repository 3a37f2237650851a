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


def given_or_active(spark: Any) -> Any:
    """The session given, or else the active one where that is of Spark Connect: a run in a classic session finds it
    itself. None where there is none."""
    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    return active if active is not None and is_over_connect(active, None) else None


def is_remote_master(master: str | None) -> bool:
    """True for the address of a Connect server."""
    return (master or "").startswith("sc://")
