"""Windows of joins that are not inner, formed step by step with what they still need, against all events at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.assigners import LiveEvents, MeetingWindows
from tests.helpers.examples import examples
from windowing.settings.rules import How
from windowing.timestamps import FOREVER

HOWS: tuple[How, ...] = tuple(how for how in get_args(How) if how != "inner")


@dataclass(frozen=True)
class Event:
    key: int
    side: int
    start: int
    end: int
    comes: int
    """Before which step it comes."""
    known: int
    """Before which step its end is known; it has none until then."""


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Event], list[int]]:
    """Events that come when the limits allow it, and the limits of the steps."""
    limits = sorted(draw(st.sets(st.integers(-2, 40), min_size=1, max_size=8)))
    events = []
    for _ in range(draw(st.integers(0, 16))):
        comes = draw(st.integers(0, len(limits) - 1))
        start = draw(st.integers(limits[comes - 1] if comes else -2, limits[comes] + 8))
        end = draw(st.sampled_from([start - 1, start, start + 1, start + 2, start + 9, start + 30, FOREVER]))
        may_be_known = [step for step in range(comes, len(limits)) if not step or end >= limits[step - 1]]
        known = draw(st.sampled_from(may_be_known)) if end > start and end < FOREVER and may_be_known else comes
        events.append(Event(draw(st.integers(0, 2)), draw(st.integers(0, 1)), start, end, comes, known))
    return sorted(events, key=lambda event: (event.key, event.start)), limits


def live(events: list[Event], step: int) -> LiveEvents:
    ends = [event.end if event.known <= step else FOREVER for event in events]
    starts, keys = (np.array([getattr(event, name) for event in events], np.int64) for name in ("start", "key"))
    sides = np.array([event.side for event in events], np.int8)
    return LiveEvents(starts, keys, np.array(ends, np.int64), sides=sides)


def found(kind: MeetingWindows, held: LiveEvents, after: int, upto: int) -> list[tuple[int, list[int]]]:
    """The moment of each window, and its members."""
    windows = []
    for piece in kind.assign(held, after, upto):
        assert (piece.ends == piece.starts + 1).all()
        for number in range(len(piece)):
            members = piece.members[piece.offsets[number] : piece.offsets[number + 1]]
            windows.append((int(piece.starts[number]), members.tolist()))
    return windows


def wanted(how: How, events: list[Event], left: int) -> list[tuple[int, list[int]]]:
    """The same from all events, one against every other."""
    lasting = [event.end > event.start for event in events]
    meetings: list[list[int]] = [
        [
            max(one.start, other.start)
            for j, other in enumerate(events)
            if lasting[i] and lasting[j] and one.key == other.key and one.side != other.side
            and max(one.start, other.start) < min(one.end, other.end)
        ]
        for i, one in enumerate(events)
    ]  # fmt: skip
    outer = {"left": {left}, "semi": {left}, "anti": {left}, "right": {1 - left}, "full": {0, 1}}[how]
    windows: dict[tuple[int, int, int], list[int]] = {}
    for i, event in enumerate(events):
        if event.side in outer and how == "semi" and meetings[i]:
            windows.setdefault((min(meetings[i]), event.key, 1), []).append(i)
        ended = max(event.end, event.start)
        if event.side in outer and how != "semi" and not meetings[i] and ended < FOREVER:
            windows.setdefault((ended, event.key, 1), []).append(i)
        if how not in ("semi", "anti") and lasting[i]:
            windows[event.start, event.key, 0] = [
                j
                for j, other in enumerate(events)
                if other.key == event.key and other.start <= event.start < other.end and lasting[j]
            ]
    return [(moment, windows[moment, key, which]) for moment, key, which in sorted(windows, key=_in_order)]


def _in_order(window: tuple[int, int, int]) -> tuple[int, int, int]:
    moment, key, which = window
    return moment, which, key


@pytest.mark.parametrize("how", HOWS)
@examples(300)
@given(histories(), st.integers(0, 1))
def test_what_is_kept_suffices_for_every_later_window(
    how: How, history: tuple[list[Event], list[int]], left: int
) -> None:
    events, limits = history
    kind = MeetingWindows(how, left, edges=True)
    kept: list[int] = []
    windows, after = [], -FOREVER
    for step, upto in enumerate(limits):
        kept = sorted([*kept, *(i for i, event in enumerate(events) if event.comes == step)])
        held = live([events[i] for i in kept], step)
        following = kind.next_end(held, after)
        due = found(kind, held, after, upto)
        assert (following is not None and following <= upto) or not due
        windows += [(moment, [kept[member] for member in members]) for moment, members in due]
        gone = kind.finished(held, upto)
        kept = [i for i, over in zip(kept, gone.tolist(), strict=True) if not over]
        after = upto
    assert windows == [window for window in wanted(how, events, left) if window[0] < after]
    over = [events[i] for i in kept if max(events[i].end, events[i].start) < after]
    assert len({(event.key, event.side) for event in over}) == len(over), "one of a key and side tells it all"
    last = live([events[i] for i in kept], len(limits))
    assert kind.finished(last, FOREVER).all()


@pytest.mark.parametrize("how", HOWS)
def test_who_never_ends_ends_with_the_streams_after_everything_else(how: How) -> None:
    events = [Event(0, 0, 3, FOREVER, 0, 0), Event(1, 0, 5, FOREVER, 0, 0), Event(1, 1, 4, 9, 0, 0)]
    held, kind = live(events, 0), MeetingWindows(how, 0)
    assert not any(0 in members for moment, members in found(kind, held, 4, FOREVER - 1) if moment > 3)
    closing = [(moment, members) for moment, members in found(kind, held, 4, FOREVER) if moment > 5]
    later = [(moment, members) for moment, members in found(kind, held, 70, FOREVER) if moment > 5]
    assert closing == ([(10, [0])] if how in ("left", "full", "anti") else [])
    assert later == ([(70, [0])] if how in ("left", "full", "anti") else [])


def test_who_never_ends_ends_after_the_latest_of_its_kind_too() -> None:
    events = [Event(0, 0, 3, FOREVER, 0, 0), Event(1, 0, 8, FOREVER, 0, 0), Event(1, 1, 8, FOREVER, 0, 0)]
    assert (9, [0]) in found(MeetingWindows("left", 0), live(events, 0), 4, FOREVER)


@pytest.mark.parametrize("how", ["semi", "anti"])
def test_who_has_met_a_partner_is_kept_only_for_its_end(how: How) -> None:
    """With edges the end of an endless event may yet come, and must find it; the orders that are paid go at once, with
    the payments that show it."""
    events = [Event(0, 0, 3, 50, 0, 0), Event(0, 0, 4, FOREVER, 0, 0), Event(0, 1, 5, 6, 0, 0)]
    held = live(events, 0)
    assert MeetingWindows(how, 0).finished(held, 7).tolist() == [True, True, True]
    assert MeetingWindows(how, 0, edges=True).finished(held, 7).tolist() == [True, False, False]
    assert MeetingWindows(how, 0).finished(held, 5).tolist() == [False, False, False]
