"""What the rules of idleness of a bolt will do about a window that waits, and when."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from manager.storage.manifest import BoltState
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.why_waiting.why_answer import Holder
from windowing.time.durations import Duration
from windowing.time.timestamps import show


def idle_rules(
    timing: BoltTiming, state: BoltState, holders: Sequence[Holder], end: int | None, needed: int | None
) -> Iterator[str]:
    """A sentence for each rule. ``end`` of the window, ``needed``: the watermark at which it fires."""
    sources = state.watermark.sources
    if timing.partition_idle_timeout is not None:
        for holder in holders:
            since = sources.started if holder.since is None else holder.since
            if since is not None and holder.input not in timing.origins:
                moment = show(since + timing.partition_idle_timeout)
                yield (
                    f"If {named(holder)} stays silent, it no longer holds the watermark from {moment} on "
                    f"(by the clock, idle for {Duration(timing.partition_idle_timeout)}), at the next batch then."
                )
    if timing.idle_timeout is not None and sources.heard_at is not None and end is not None:
        begins = max(end, sources.heard_at) if timing.idle_waits_for_end else sources.heard_at
        moment = show(max(begins + timing.idle_timeout, end))
        yield (
            f"If no input delivers anything, the idle timeout of {Duration(timing.idle_timeout)} closes the window at "
            f"{moment} by the clock, at the next batch then, provided that it holds events."
        )
    if timing.late_tolerance is not None and sources.arrived is not None and needed is not None:
        assert sources.arrived_at is not None
        moment = show(needed + timing.late_tolerance - sources.arrived + sources.arrived_at)
        yield f"The watermark follows the clock while nothing arrives: it is there at {moment}, at the next batch then."


def named(holder: Holder) -> str:
    """An input, with its partition."""
    return f"input {holder.input!r}" + (f", partition {holder.partition!r}" if holder.partition else "")
