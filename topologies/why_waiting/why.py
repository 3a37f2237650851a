"""``windbolt.why``: asks a checkpoint why a window has not fired."""

from __future__ import annotations

import os
import re
from datetime import datetime

from manager.storage.manifest import Manifest
from manager.storage.segments.file_segments import FileSegments
from manager.storage.verified_reads import read_manifest
from topologies.checkpoints.note_names import START
from topologies.checkpoints.notes.looked_at import checkpoint_at, known_timing, the_only_bolt, timing_of
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.engine.time.first_output import as_moment
from topologies.why_waiting.by_kind_of_windows import answered
from topologies.why_waiting.explanation import Explanation
from topologies.why_waiting.question import Question
from topologies.why_waiting.why_answer import WhyAnswer, WhyReason
from windowing.calls.checked import checked
from windowing.errors import ConfigError
from windowing.time.timestamps import show

_TIME_OF_DAY = re.compile(r"\d{1,2}:\d{2}(:\d{2}(\.\d{1,6})?)?")


@checked
def why(
    checkpoint: str | os.PathLike[str],
    bolt: str | None = None,
    *,
    key: str | None = None,
    window: datetime | str | None = None,
) -> WhyAnswer:
    """Why a window of a bolt has not fired, from the checkpoint alone; ``print(why("ck/", "revenue"))``.

    ``bolt``: its name; None where only one has windows. ``window``: its end, a datetime or in ISO 8601; ``"12:00"`` is
    that time (UTC) of the day of the last watermark; None: the next window that holds events. ``key``: only events of
    this key count; of several columns with commas between them.

    Nothing is changed, and no run is disturbed: a run on the checkpoint may be in progress. Raises CheckpointError
    where there is no checkpoint, or one of an older form; ConfigError for a bolt or a key that it does not have, and
    where several bolts have windows and none is named.
    """
    halves = checkpoint_at(os.fspath(checkpoint))
    timings = known_timing(halves)
    bolt = the_only_bolt(halves, timings) if bolt is None else bolt
    timing_of(timings, bolt, key)
    kept = kept_manifests(halves)
    if not kept or (kept[-1].batch < 0 and not kept[-1].spouts):
        return not_started(bolt, key)
    start = halves.files.read(START) or {}
    question = Question(bolt, key, None if window is None else moment_of(window, kept[-1], bolt))
    store = FileSegments(f"{halves.files.root}/segments", halves.uri)
    return answered(Explanation(question, timings, kept, store, start.get("first_output")))


def not_started(bolt: str, key: str | None) -> WhyAnswer:
    """The answer before the first batch."""
    words = "No batch has been committed yet: nothing has been read, or the first batch is not done."
    return WhyAnswer(bolt=bolt, reason=WhyReason.NOT_STARTED, sentences=(words,), key=key)


def kept_manifests(halves: PairedCheckpoint) -> list[Manifest]:
    """The manifests that are kept; a run in progress may delete the first ones meanwhile."""
    names = halves.files.names("manifests")
    return [
        read_manifest(halves.files, name)
        for name in names
        if name == names[-1] or halves.files.has(f"manifests/{name}")
    ]


def moment_of(given: datetime | str, last: Manifest, bolt: str) -> int:
    """The end of a window; of a time of day, on the day of the watermark, or of the clock where there is none."""
    if isinstance(given, str) and _TIME_OF_DAY.fullmatch(given.strip()):
        near = last.bolts[bolt].watermark.current
        near = last.clock if near is None else near
        day = show(near or 0).partition("T")[0]
        given = f"{day}T{given.strip():0>5}Z"
    try:
        return as_moment(given)
    except ConfigError as error:
        raise ConfigError(
            f"the window {given!r} is not a time",
            why="a window is named by its end",
            do="write it in ISO 8601, such as 2024-01-01T12:00:00Z, or as a time of day (UTC) such as 12:00",
        ) from error
