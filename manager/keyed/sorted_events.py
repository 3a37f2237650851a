"""The live events of a task in order of (key, time), as assigners see them; their flags, and their accounts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from manager.accounts import Accounts
from manager.keyed.held import Held
from manager.storage.segments.take_rows import take_rows
from policies.assigners import Live
from windowing.data.events import count_by_stream
from windowing.data.order import group_numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray


class SortedEvents:
    """Events of one task, sorted; a *member* is the index of an event in this order, a *place* the one among the events
    as given."""

    def __init__(
        self, events: Held, streams: Sequence[str], keys: Sequence[Sequence[str]] = (), *, by_side: bool = False
    ) -> None:
        """``streams`` names the input streams, ``keys`` the columns of the key of each; none for no key. ``by_side``:
        assigners see the input of each event, and an event whose key has a null has a key of its own."""
        self.stream_names = tuple(streams)
        self.accounts = Accounts(streams)
        self._events, self._keys = events, tuple(map(tuple, keys))
        self._order = events.order()
        self.hashes: NDArray[np.int64] | None = self._sorted(events.keys)
        """Hash of the key of each event; None without keys."""
        self.evaluation: NDArray[np.int64] | None = self._sorted(events.evaluation)
        """Number of the evaluation before which each event was admitted; None where windows fire once."""
        codes = None if self.hashes is None else group_numbers(self.hashes)
        sides = None
        if by_side:
            codes, sides = self._apart(codes), self.stream_codes(np.arange(len(events)))
        columns = (events.times, events.ends, events.closed_until, events.gaps)
        times, ends, closed_until, gaps = map(self._sorted, columns)
        self.live = Live(times, codes, ends, closed_until, gaps, sides, self._sorted(events.seen), self._order)
        """The events as assigners see them, before any window of this evaluation."""
        self.seen = np.zeros(len(events), np.bool_) if events.seen is None else self._sorted(events.seen).copy()
        """Which events have been in a window, or are known to be in none."""

    def __len__(self) -> int:
        return len(self._events)

    @property
    def keyed(self) -> bool:
        """Whether events have a key, which their windows then have too."""
        return any(self._keys)

    @property
    def in_order(self) -> bool:
        """True if the events were given in order, so that members are places."""
        return self._order is None

    def places(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """The indices, among the events as given, of these members."""
        return members if self._order is None else self._order[members]

    def as_given(self, column: NDArray[Any]) -> NDArray[Any]:
        """A column with a value for each event, put back into the order in which the events were given."""
        if self._order is None:
            return column
        given = np.empty(len(column), column.dtype)
        given[self._order] = column
        return given

    def fresh(self, members: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which members of windows that fire now are in a window for the first time, each once; counts them as
        windowed."""
        fresh: NDArray[np.bool_] = ~self.seen[members]
        if fresh.any():
            first = np.zeros(len(members), np.bool_)
            first[np.unique(members, return_index=True)[1]] = True
            fresh &= first
            now = np.zeros(len(self.seen), np.bool_)
            now[members[fresh]] = True
            self.count("windowed", now)
            self.seen |= now
        return fresh

    def leave_out(self, which: NDArray[np.bool_]) -> None:
        """Count these events as unwindowed, except for those that are in an account; ``which`` is a mask over all
        events."""
        self.count("unwindowed", which & ~self.seen)
        self.seen |= which

    def count(self, account: str, which: NDArray[np.bool_]) -> None:
        """Add events to an account; ``which`` is a mask over all events."""
        streams = self._events.streams
        codes = None if streams is None else self._sorted(streams)[which]
        self.accounts.add(account, count_by_stream(codes, int(np.count_nonzero(which)), len(self.stream_names)))

    @cached_property
    def payload(self) -> pa.Table:
        """The payload of the events as given, with contiguous columns; combined once for all windows."""
        return self._events.payload.combine_chunks()

    def key_hashes(self, members: NDArray[np.int64]) -> NDArray[np.int64]:
        """The hash of the key of each of these events; 0 without keys."""
        return np.zeros(len(members), np.int64) if self.hashes is None else self.hashes[members]

    def keys_of(self, members: NDArray[np.int64]) -> list[Any]:
        """The keys of these events: a value where the key is one column, else a tuple of values."""
        if len(set(self._keys)) == 1:
            return self._keys_by(self._keys[0], members)
        keys: list[Any] = [None] * len(members)
        codes = self.stream_codes(members)
        for code in np.unique(codes).tolist():
            of_stream = np.flatnonzero(codes == code)
            values = self._keys_by(self._keys[code], members[of_stream])
            for index, key in zip(of_stream.tolist(), values, strict=True):
                keys[index] = key
        return keys

    def key_rows(self, members: NDArray[np.int64], columns: Sequence[str]) -> pa.Table:
        """The columns of the key of these events, which all streams name alike."""
        return take_rows(self.payload.select(list(columns)), self.places(members))

    def _keys_by(self, names: Sequence[str], members: NDArray[np.int64]) -> list[Any]:
        rows = take_rows(self.payload.select(list(names)), self.places(members))
        columns = [column.to_pylist() for column in rows.columns]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def stream_codes(self, members: NDArray[np.int64]) -> NDArray[np.int8]:
        """Of which stream each of these events is."""
        codes = self._events.streams
        return np.zeros(len(members), np.int8) if codes is None else codes[self.places(members)]

    def streams_of(self, members: NDArray[np.int64]) -> list[str]:
        """The names of the streams of these events."""
        return [self.stream_names[code] for code in self.stream_codes(members).tolist()]

    def _apart(self, codes: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
        """The codes of keys, with one of its own for each event whose key has a null: that equals no other."""
        null = np.zeros(len(self), np.bool_)
        sides = self.stream_codes(np.arange(len(self)))
        for side, names in enumerate(self._keys):
            of_side = sides == side
            for name in names:
                null |= of_side & self._sorted(self._events.payload.column(name).is_null().to_numpy())
        if codes is None or not null.any():
            return codes
        steps = np.zeros(len(codes), np.int64)
        steps[1:] = (codes[1:] != codes[:-1]) | null[1:] | null[:-1]
        return np.cumsum(steps)

    def _sorted(self, column: NDArray[Any] | None) -> Any:
        return column if column is None or self._order is None else column[self._order]
