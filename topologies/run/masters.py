"""Spark's masters: which of them run tasks on this machine, and which on a cluster."""

from __future__ import annotations

import re

LOCAL = "local[*]"
"""The master where nobody names one."""
_LOCAL = re.compile(r"local(?:\[\s*(\d+|\*)\s*(?:,([^]]*))?\])?")


def local_cores(master: str) -> tuple[str, str | None] | None:
    """Of a local master the number of cores (``*`` for all) and how often a task may fail; None of another."""
    match = _LOCAL.fullmatch(master)
    return None if match is None else (match[1] or "1", match[2])


def on_this_machine(master: str) -> bool:
    """Whether all of Spark runs on this machine: ``local``, ``local[N]``, ``local-cluster`` of Spark's own tests."""
    return master.startswith("local")


def is_cluster(master: str) -> bool:
    """Whether tasks run in executors, which are other processes than the driver's."""
    return local_cores(master) is None
