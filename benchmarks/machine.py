"""What the figures were taken on."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "bytewax", "duckdb", "matplotlib")
_ROOT = Path(__file__).parents[1]


def machine() -> dict[str, Any]:
    """Processors, memory, load, and the versions of everything; to be asked before anything runs."""
    return {
        "processors": os.cpu_count(),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": platform.platform(),
        "load_before": [round(each, 2) for each in os.getloadavg()],
        "python": platform.python_version(),
        "java": _said("java", "-version").partition("\n")[0],
        "packages": {name: _version(name) for name in PACKAGES},
        "commit": _said("git", "-C", str(_ROOT), "rev-parse", "--short", "HEAD"),
        "changed_since": bool(_said("git", "-C", str(_ROOT), "status", "--porcelain", "--untracked-files=no")),
    }


def in_words(found: dict[str, Any]) -> str:
    """The same in a sentence."""
    packages = ", ".join(f"{name} {number}" for name, number in found["packages"].items() if number)
    return (
        f"{found['processors']} processors ({found['processor']}), {found['memory_gib']} GiB, load before"
        f" {found['load_before'][0]}; Python {found['python']}, {found['java']}, {packages}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return (done.stdout or done.stderr).strip() if done.returncode == 0 else ""
