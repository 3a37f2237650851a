"""Complaints about input in a terminal: each once, with its first file, and at the end how many more there were."""

from __future__ import annotations

from collections import Counter

from rich.console import Console

from topologies.cli.terminal.consoles import warn
from topologies.engine.batch.report import BatchReport


class Complaints:
    """What has been complained about in a run; two complaints are the same if only their files differ."""

    def __init__(self) -> None:
        self._times: Counter[tuple[str, str]] = Counter()

    def tell(self, report: BatchReport, console: Console | None = None) -> None:
        """Warn of what a batch complains about for the first time."""
        for complaint in report.complaints:
            same = _without_file(complaint)
            self._times[same] += 1
            if self._times[same] == 1:
                warn(complaint, console)

    def end(self, console: Console | None = None) -> None:
        """Say how often each complaint came again."""
        for (component, reason), times in self._times.items():
            if times > 1:
                warn(f"{component}: {times - 1:,} more of these: {reason}", console)
        self._times.clear()


def _without_file(complaint: str) -> tuple[str, str]:
    """The component, and the reason without the file."""
    component, _, rest = complaint.partition(": ")
    source, _, reason = rest.partition(": ")
    return component, reason.replace(repr(source), "").strip() if reason else rest
