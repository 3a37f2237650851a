"""Which sessions are of Spark Connect, and which classic ones."""

from __future__ import annotations

import os
from typing import Any

REMOTE = "SPARK_REMOTE"
"""PySpark's variable with the address of a Connect server."""


def is_over_connect(spark: Any, master: str | None) -> bool:
    """True if a run in this session, or in one that it opens, goes over Spark Connect."""
    if spark is not None:
        return not hasattr(spark, "_jsparkSession")
    return is_remote_master(master) or (not master and REMOTE in os.environ)


def is_remote_master(master: str | None) -> bool:
    """True for the address of a Connect server."""
    return (master or "").startswith("sc://")
