"""bytewax: its own windows, in processes of its own, each with a part of the keys."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.arms.arm import Batch, Job, Taken, not_installed

_ROOT = Path(__file__).parents[2]


@dataclass
class Bytewax:
    """Keyed workloads run in two processes, which share the keys and exchange nothing; others in one."""

    most: int | None
    name: str = "bytewax"
    ours: bool = False
    batched: bool = False

    def missing(self) -> str | None:
        """What is not installed."""
        return not_installed("bytewax")

    def run(self, job: Job) -> Taken:
        """Run to the end of the files. The start of the processes is counted in neither time: they report their own."""
        parts = 2 if job.workload.keyed else 1
        running = [self._start(job, part, parts) for part in range(parts)]
        told = [process.communicate() for process in running]
        for process, (_, complaint) in zip(running, told, strict=True):
            if process.returncode:
                raise RuntimeError(f"bytewax ended with {process.returncode}: {complaint.strip()[-400:]}")
        reports = [json.loads(answer.splitlines()[-1]) for answer, _ in told]
        seconds = max(report["stop"] for report in reports) - min(report["start"] for report in reports)
        return Taken(seconds, sum(report["cpu"] for report in reports), [Batch(seconds, data=True)])

    def _start(self, job: Job, part: int, parts: int) -> subprocess.Popen[str]:
        task = {
            "kind": job.workload.kind, "length": job.workload.length, "folder": str(job.folder),
            "part": part, "parts": parts, "last_end": job.events.last_end,
            "keep": None if job.keep is None else str(job.keep / f"part-{part}.parquet"),
        }  # fmt: skip
        if job.keep is not None:
            job.keep.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "benchmarks.arms.bytewax_flow", json.dumps(task)]
        return subprocess.Popen(command, cwd=_ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
