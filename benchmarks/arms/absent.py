"""Peers that are named, and cannot be run from here."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.arms.arm import Job, Taken

FLINK = "apache-flink 2.3 wants an apache-beam that wants pyarrow under 17, so it cannot be installed beside windbolt"


@dataclass
class Absent:
    """A peer, and why it is not here."""

    name: str
    why: str
    ours: bool = False
    batched: bool = False
    most: int | None = None

    def missing(self) -> str | None:
        """Always the reason."""
        return self.why

    def run(self, job: Job) -> Taken:
        """Never called."""
        raise NotImplementedError(self.why)
