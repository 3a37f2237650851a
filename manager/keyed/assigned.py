"""Evaluates assigned windows, which are not runs of a queue: from live events to TupleWindows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from manager.accounts import Accounts
from manager.keyed.empty_windows import EmptyWindows
from manager.keyed.held import GONE, SEEN, Held
from manager.keyed.last_fired import LastFired
from manager.keyed.pane_states import PaneDecisions, PaneStates
from manager.keyed.released import ReleasedEnds
from manager.keyed.sorted_events import SortedEvents
from manager.keyed.tuple_windows import TupleWindows
from policies.assigners import Assigned, WindowAssigner
from policies.assigners.assigner import limit_at
from windowing.settings.panes import PaneMode
from windowing.time.timestamps import FOREVER
from windowing.window import TupleWindow

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from policies.assigners.assigner import Limit

_LEAST = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class Span:
    """The range of window ends to evaluate, after < end <= upto, in microseconds: scalars, or one value per event."""

    after: Limit
    upto: Limit

    def at(self, indices: NDArray[np.int64]) -> Span:
        """The span of the events at these indices."""
        return Span(limit_at(self.after, indices), limit_at(self.upto, indices))


class AssignedWindows:
    """Evaluates the windows of one task's live events, in order, and tracks the state of each event.

    Usable on its own: give it all events that may still be in a window, then iterate over ``windows``. Afterwards
    ``flags`` says, in the order of the given events, which have been in a window and which are no longer needed.
    """

    def __init__(
        self,
        assigners: Sequence[WindowAssigner],
        events: Held,
        streams: Sequence[str] = ("default",),
        *,
        keys: Sequence[Sequence[str]] = (),
        task: int = 0,
        released: ReleasedEnds | None = None,
        last: tuple[LastFired, NDArray[np.int64]] | None = None,
    ) -> None:
        """``streams`` names the input streams, ``keys`` the columns of the key of each; none for no key. ``task`` is
        the index of the bolt's task.

        ``released`` are the windows released at the last limit; ``windows`` updates it. ``last`` knows the windows
        fired before these, with the indices of the events there; None where the bolt does not ask for expired events.
        """
        self.released = ReleasedEnds.of(None) if released is None else released
        self.assigners = tuple(assigners)
        by_side = any(assigner.by_side for assigner in self.assigners)
        self._events = SortedEvents(events, streams, keys, by_side=by_side)
        self._tuple_windows = TupleWindows(
            self._events, task, several_kinds=len(self.assigners) > 1, last=last,
            timed=all(assigner.ends_by_time for assigner in self.assigners),
        )  # fmt: skip
        self._finished = np.zeros(len(events), np.bool_)

    def __len__(self) -> int:
        return len(self._events)

    @property
    def accounts(self) -> Accounts:
        """The counts of events that were in a window, or are in none."""
        return self._events.accounts

    def span_of(self, after: Limit, upto: Limit) -> Span:
        """A span from limits in the order of the given events."""
        return Span(after, upto).at(self._events.places(np.arange(len(self._events))))

    def windows(self, span: Span) -> Iterator[TupleWindow]:
        """Yield the due windows in order of (end, start, key)."""
        if not len(self._events):
            return
        for kind, piece in self._pieces(span):
            yield from self._tuple_windows.of(piece, kind)
        self._finish(span)

    def windows_and_empty(self, span: Span, empty: EmptyWindows) -> Iterator[TupleWindow]:
        """Yield the due windows in order of (end, start, key), and between them those without events."""
        assert isinstance(span.after, int)
        (assigner,) = self.assigners
        pieces = assigner.assign(self._events.live, span.after, span.upto)
        for piece in empty.among(pieces, self._events, span.after):
            yield from self._tuple_windows.of(piece.windows, keys=piece.keys, hashes=piece.hashes)
        self._finish(span)

    def pass_over(self, span: Span) -> None:
        """Let the due windows pass without making them: events are then seen and finished as after ``windows``."""
        if not len(self._events):
            return
        for _, piece in self._pieces(span):
            self._events.fresh(piece.members)
        self._finish(span)

    def _finish(self, span: Span) -> None:
        self._finished = self._finished_at(span.upto)
        if len(self.released):
            self.released.keep(self._events.key_hashes(np.flatnonzero(~self._finished)))
        self._events.leave_out(self._finished)
        for assigner in self.assigners:
            passed_over = assigner.passed_over(self._events.live, span.upto)
            if passed_over is not None:
                self._events.leave_out(passed_over)

    def _finished_at(self, upto: Limit) -> NDArray[np.bool_]:
        """Which events, in the order of the assigners, no window that ends after the limit can need."""
        finished = np.ones(len(self._events), np.bool_)
        for assigner in self.assigners:
            finished &= assigner.finished(self._events.live, upto)
        return finished

    def panes(self, span: Span, decisions: PaneDecisions) -> Iterator[TupleWindow]:
        """Yield all due firings, early and late ones included, in order of (kind, end, start, key)."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.assign(self._events.live, span.after, FOREVER):
                yield from self._panes_of(piece, kind, decisions)
        self._finish(span)

    def _panes_of(self, piece: Assigned, kind: int, decisions: PaneDecisions) -> Iterator[TupleWindow]:
        """Yield the due firings of the open windows of one kind."""
        events = self._events
        merging = self.assigners[kind].merges
        firsts = piece.members[piece.offsets[:-1]]
        keys = events.key_hashes(firsts)
        windows = decisions.remembered(kind, keys, piece.starts, piece.ends, merging)
        # An event is in one session only: one that has been in a window was shown.
        fresh = ~events.seen[piece.members] if merging else self._fresh(piece, windows.states)
        counts = np.add.reduceat(fresh.astype(np.int64), piece.offsets[:-1])
        came = events.live.closed_until
        opened_at = None if came is None else np.minimum.reduceat(came[piece.members], piece.offsets[:-1])
        fires, panes = decisions.decide(windows, counts, np.diff(piece.offsets), opened_at)
        chosen = _chosen(piece, fires, fresh if decisions.panes.mode is PaneMode.DISCARDING else None)
        fired = zip(keys[fires].tolist(), chosen.starts.tolist(), chosen.ends.tolist(), strict=True)
        idents = [(kind, *window) for window in fired]
        yield from self._tuple_windows.of(chosen, kind, firsts[fires], panes=list(zip(panes, idents, strict=True)))

    def _fresh(self, piece: Assigned, states: PaneStates) -> NDArray[np.bool_]:
        """Which members are new to their window since its last firing."""
        assert self._events.evaluation is not None
        shown = np.repeat(states.shown, np.diff(piece.offsets))
        fresh: NDArray[np.bool_] = self._events.evaluation[piece.members] > shown
        return fresh

    def finished(self, upto: Limit) -> NDArray[np.bool_]:
        """Which events, in the order given, no window that ends after the limit can need."""
        return self._events.as_given(self._finished_at(upto))

    def next_end(self, span: Span) -> int | None:
        """The end of the next window, given the present events, in microseconds; None where no window is open."""
        if not len(self._events):
            return None
        ends = [assigner.next_end(self._events.live, span.upto) for assigner in self.assigners]
        return min((end for end in ends if end is not None), default=None)

    def next_finished(self, span: Span) -> int | None:
        """A time in microseconds before which none of the present events will be finished; None where there is none."""
        if not len(self._events):
            return None
        moments = [assigner.next_finished(self._events.live, span.upto) for assigner in self.assigners]
        return min((moment for moment in moments if moment is not None), default=None)

    def open_ends(self, span: Span) -> list[int]:
        """The ends, in microseconds and sorted, of the windows that hold events and are not due yet."""
        if not len(self._events):
            return []
        pieces = (piece for assigner in self.assigners for piece in assigner.open(self._events.live, span.upto))
        return sorted({end for piece in pieces for end in np.unique(piece.ends).tolist() if end < FOREVER})

    def open_windows(self, span: Span) -> Iterator[tuple[int, Assigned]]:
        """Yield the windows that hold events and are not due yet, with the index of their kind. Their members are
        indices of the events in the order given."""
        if not len(self._events):
            return
        for kind, assigner in enumerate(self.assigners):
            for piece in assigner.open(self._events.live, span.upto):
                yield kind, replace(piece, members=self._events.places(piece.members))

    def flags(self) -> NDArray[np.uint8]:
        """The flags (SEEN, GONE) of each event, in the order given."""
        return self._events.as_given(self._events.seen * np.uint8(SEEN) + self._finished * np.uint8(GONE))

    def _pieces(self, span: Span) -> Iterator[tuple[int, Assigned]]:
        if len(self.assigners) == 1:
            yield from ((0, piece) for piece in self._assigned(0, span))
            return
        # Windows of several kinds are ordered by their ends, one by one.
        windows = [
            (kind, piece, index)
            for kind in range(len(self.assigners))
            for piece in self._assigned(kind, span)
            for index in range(len(piece))
        ]
        for kind, piece, index in sorted(
            windows, key=lambda window: (int(window[1].ends[window[2]]), int(window[1].starts[window[2]]), window[0])
        ):
            yield kind, _one(piece, index)

    def _assigned(self, kind: int, span: Span) -> Iterator[Assigned]:
        """Yield the due windows of one kind that have not been released yet."""
        assigner, live = self.assigners[kind], self._events.live
        if live.ends is None or not assigner.ends_at_limit:
            yield from assigner.assign(live, span.after, span.upto)
            return
        released: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
        for assigned in assigner.assign(live, np.maximum(span.after, _LEAST + 1) - 1, span.upto):
            firsts = assigned.members[assigned.offsets[:-1]]
            keys = self._events.key_hashes(firsts)
            already_released = assigned.ends == limit_at(span.after, firsts)
            if already_released.any():
                already_released[already_released] = self.released.holds(
                    kind, keys[already_released], assigned.ends[already_released]
                )
            piece = _chosen(assigned, ~already_released, None) if already_released.any() else assigned
            keys, firsts = keys[~already_released], firsts[~already_released]
            limits = limit_at(span.upto, firsts)
            at_limit = (piece.ends == limits) | (limits == FOREVER)
            released.append((keys[at_limit], piece.ends[at_limit]))
            if len(piece):
                yield piece
        for keys, ends in released:
            self.released.add(kind, keys, ends)


def _one(piece: Assigned, index: int) -> Assigned:
    low, high = int(piece.offsets[index]), int(piece.offsets[index + 1])
    return Assigned(
        piece.starts[index : index + 1],
        piece.ends[index : index + 1],
        np.array([0, high - low]),
        piece.members[low:high],
    )


def _chosen(piece: Assigned, fires: NDArray[np.bool_], shown: NDArray[np.bool_] | None) -> Assigned:
    """The windows that fire, with all of their events, or with those in ``shown``."""
    sizes = np.diff(piece.offsets)
    kept = np.repeat(fires, sizes)
    if shown is not None:
        kept &= shown
        sizes = np.add.reduceat(shown.astype(np.int64), piece.offsets[:-1])
    offsets = np.concatenate([[0], np.cumsum(sizes[fires])])
    return Assigned(piece.starts[fires], piece.ends[fires], offsets, piece.members[kept])
