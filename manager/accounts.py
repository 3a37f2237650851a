"""The accounts: counts of what happened to every event, per input stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from windowing.errors import WindboltError

if TYPE_CHECKING:
    from numpy.typing import NDArray

ACCOUNTS = ("windowed", "late", "early", "dropped", "duplicate", "invalid", "unwindowed", "purged")
"""Names of the accounts: every received event is in exactly one of them, or pending."""

FINDINGS = ("adjusted", "early_input", "late_input", "out_of_order", "truncated")
"""Counts beside the accounts: the findings of the time rules, whatever happened to the event (AZ-24), and events with a
time finer than microseconds, which was cut."""

SHOWN = ("adjusted", "truncated")
"""The part of ``FINDINGS`` that is shown with the accounts: events whose times were changed."""

SKIPPED = "skipped"
"""Count of events that were not received because they are older than the first output of the run needs (AZ-13)."""

_NAMES = ("received", SKIPPED, *ACCOUNTS, *FINDINGS)


class AccountsError(WindboltError):
    """Events are missing from the accounts or counted twice: a defect of windbolt, never of the input."""


class Accounts:
    """Monotonic counters per input stream of one bolt; ``pending`` is counted where the events are stored."""

    __slots__ = ("_counts", "streams")

    def __init__(self, streams: Sequence[str], counts: Mapping[str, Sequence[int]] | None = None) -> None:
        self.streams, given = tuple(streams), counts or {}
        self._counts = {name: np.array(given[name], np.int64) for name in _NAMES if name in given}
        """By name, in any order; none if all are 0."""

    def add(self, account: str, by_stream: Iterable[int]) -> None:
        """Add counts, one per stream, to an account (or to ``received``, or ``adjusted``)."""
        self._counts[account] = self._of(account) + np.asarray(by_stream, dtype=np.int64)

    def merge(self, other: Mapping[str, Sequence[int]]) -> None:
        """Add the counts of a task, in the form of ``to_json``."""
        for account, by_stream in other.items():
            self.add(account, by_stream)

    def __getitem__(self, account: str) -> int:
        known = account in self._counts or account not in _NAMES
        return int(self._of(account).sum()) if known else 0

    def by_stream(self, account: str) -> list[int]:
        """Returns the counts of an account, in the order of ``streams``."""
        return [int(count) for count in self._of(account)]

    def check(self, pending: Sequence[int], bolt: str) -> None:
        """Raise AccountsError unless, on every stream, the accounts and ``pending`` add up to what was received."""
        held = sum((self._counts[name] for name in ACCOUNTS if name in self._counts), np.asarray(pending))
        if (held != self._of("received")).any():
            raise AccountsError(
                f"the accounts of bolt {bolt!r} do not add up: {self.to_json()} and pending {list(pending)}",
                why=f"received = {' + '.join(ACCOUNTS)} + pending",
                do="this is a defect in windbolt: please report it; the batch was not committed",
            )

    def totals(self, pending: int) -> dict[str, int]:
        """Returns the totals of all accounts over all streams, with ``received``, those of ``SHOWN`` and
        ``pending``."""
        return {name: self[name] for name in ("received", *ACCOUNTS, *SHOWN)} | {"pending": pending}

    def metrics(self) -> dict[str, int]:
        """Totals of what the time rules found (AZ-24): early, late, out-of-order, adjusted and truncated events."""
        return {name: self[name] for name in FINDINGS}

    def of_streams(self, pending: Sequence[int]) -> dict[str, dict[str, int]]:
        """Returns all counts of each stream, with ``pending``."""
        none = [0] * len(self.streams)
        counts = {name: self._counts[name].tolist() if name in self._counts else none for name in _NAMES}
        return {
            stream: {name: of[index] for name, of in counts.items()} | {"pending": int(pending[index])}
            for index, stream in enumerate(self.streams)
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the non-zero counts: per account a list by stream."""
        found = ((name, self._of(name)) for name in _NAMES if name in self._counts)
        return {name: counts.tolist() for name, counts in found if counts.any()}

    def _of(self, account: str) -> NDArray[np.int64]:
        """Returns the counts of an account by stream. Raises KeyError if there is no such account."""
        counts = self._counts.get(account)
        if counts is not None:
            return counts
        if account not in _NAMES:
            raise KeyError(account)
        return np.zeros(len(self.streams), np.int64)
