"""Runs an engine beside a probe: a client in a process of its own, which feeds the engine and takes the times."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

_ROOT = Path(__file__).parents[1]

Probe = subprocess.Popen[str]


def probed(module: str, task: Mapping[str, Any], engine: Callable[[Probe], None]) -> str:
    """What ``python -m MODULE TASK`` prints, while the engine runs until it has ended. RuntimeError if it fails."""
    command = [sys.executable, "-m", module, json.dumps(task)]
    # Files, not pipes: nobody would read a pipe before the engine has ended, and the engine ends after the probe.
    with tempfile.TemporaryFile("w+") as printed, tempfile.TemporaryFile("w+") as complaint:
        probe = subprocess.Popen(command, cwd=_ROOT, stdout=printed, stderr=complaint, text=True)
        try:
            engine(probe)
        finally:
            if probe.poll() is None:
                probe.kill()
            probe.wait()
        printed.seek(0)
        complaint.seek(0)
        if probe.returncode:
            raise RuntimeError(complaint.read().strip()[-300:] or f"{module} ended with status {probe.returncode}")
        return printed.read()


def stop_after(probe: Probe, stop: threading.Event) -> None:
    """Set ``stop``, which ends a run of windbolt's, when the probe has ended; returns at once."""

    def wait() -> None:
        probe.wait()
        stop.set()

    threading.Thread(target=wait, daemon=True).start()


def run_until_end(probe: Probe, query: StreamingQuery) -> None:
    """Let a query of Spark's run until the probe has ended."""
    try:
        while probe.poll() is None and not query.awaitTermination(0.1):  # type: ignore[arg-type]
            pass
    finally:
        query.stop()
