"""The windows of each bolt of a run: which are only moments of a ready bolt, and which take back an earlier firing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from topologies.scenarios.run.scenario_answer import AnswerWindow, BoltTrace, Replayed
from windowing.settings.panes import PaneMode


def moments(answer: Replayed) -> Counter[str]:
    """How many windows each ready bolt has that are moments and no windows of a user's: joins by lifetime, unions,
    ``Deduplicate``, ``Silence`` and the like are called at each."""
    return Counter({trace.bolt: len(trace.windows) for trace in answer.traces if trace.windows and _by_moments(trace)})


def at_moments(answer: Replayed) -> set[int]:
    """The places of these windows among all."""
    return {place for trace in answer.traces if _by_moments(trace) for place in trace.windows}


def taken_back(answer: Replayed) -> dict[int, list[int]]:
    """The windows whose rows a window takes back, by its place: of bolts that retract (``mode="retracting"``)."""
    found: dict[int, list[int]] = {}
    for trace in answer.traces:
        panes = trace.settings.panes
        if panes is not None and panes.mode is PaneMode.RETRACTING:
            found |= dict(_of_bolt(trace))
    return found


def _of_bolt(trace: BoltTrace) -> Iterator[tuple[int, list[int]]]:
    standing: dict[int, AnswerWindow] = {}
    sessions = any(kind.merges for kind in trace.settings.kinds)
    for place, window in sorted(trace.windows.items()):
        before = [each for each, other in standing.items() if _is_same(other, window, sessions=sessions)]
        for each in before:
            del standing[each]
        standing[place] = window
        if before:
            yield place, before


def _is_same(earlier: AnswerWindow, later: AnswerWindow, *, sessions: bool) -> bool:
    """Whether a window is an earlier firing of another; sessions may have grown since, or have become one."""
    if any(earlier.get(name) != later.get(name) for name in ("task", "key", "kind")):
        return False
    if not sessions:
        return (earlier["start"], earlier["end"]) == (later["start"], later["end"])
    starts, ends = [each["start"] for each in (earlier, later)], [each["end"] for each in (earlier, later)]
    if None in starts or None in ends:
        return False
    return max(at for at in starts if at is not None) <= min(at for at in ends if at is not None)


def _by_moments(trace: BoltTrace) -> bool:
    return any(kind.of_moments for kind in trace.settings.kinds)
