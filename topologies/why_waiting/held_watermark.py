"""What holds the watermark of a bolt: the mark of each input and partition, and since when it stands."""

from __future__ import annotations

from collections.abc import Sequence

from manager.storage.manifest import BoltState, Manifest
from manager.watermarks.arrival_times import input_of
from policies.marks import NONE
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.why_waiting.why_answer import Holder


def marks_of(timing: BoltTiming, state: BoltState) -> dict[str, int | None]:
    """The watermark that each input or partition would allow alone, in microseconds; None where it has delivered
    nothing. Without those that are idle."""
    if timing.follows_events:
        marks: dict[str, int | None] = {
            source: None if mark.mark <= NONE else mark.mark
            for source, mark in state.watermark.sources.marks.items()
            if source not in state.watermark.sources.idle
        }
        heard = {input_of(source) for source in (*marks, *state.watermark.sources.idle)}
        return marks | {name: None for name in timing.inputs if name not in heard}
    latest = state.watermark.latest
    return {name: latest[name] - timing.delay if name in latest else None for name in timing.inputs}


def own_marks_of(timing: BoltTiming, state: BoltState) -> dict[str, int | None]:
    """Those of the inputs and partitions whose own events move the watermark: not of those that take another's."""
    marks = marks_of(timing, state)
    return {source: mark for source, mark in marks.items() if input_of(source) not in (timing.imports or {})}


def holders_of(bolt: str, timing: BoltTiming, kept: Sequence[Manifest]) -> list[Holder]:
    """What holds the watermark: where an input has delivered nothing, that; else whatever is furthest behind, or ahead
    where the watermark is the greatest of the marks. ``kept``: the manifests, the last one last."""
    state = kept[-1].bolts[bolt]
    marks = own_marks_of(timing, state)
    known = [mark for mark in marks.values() if mark is not None]
    if timing.greatest and known:
        wanted: int | None = max(known)
    else:
        wanted = None if len(known) < len(marks) else min(known, default=None)
    return [
        Holder(input_of(source), source[len(input_of(source)) + 1 :], mark, source, *_since(bolt, timing, source, kept))
        for source, mark in sorted(marks.items())
        if mark == wanted
    ]


def _since(bolt: str, timing: BoltTiming, source: str, kept: Sequence[Manifest]) -> tuple[int | None, bool]:
    """Since which clock a source stands, and whether that is exact; else it is the earliest kept batch that knows."""
    sources = kept[-1].bolts[bolt].watermark.sources
    if source in sources.seen_at:
        return sources.seen_at[source], True
    mark, since = marks_of(timing, kept[-1].bolts[bolt])[source], None
    for manifest in reversed(kept):
        if bolt not in manifest.bolts or marks_of(timing, manifest.bolts[bolt]).get(source) != mark:
            break
        since = manifest.clock
    return since, False
