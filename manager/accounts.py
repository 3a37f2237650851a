"""The accounts of events: each received event is in exactly one account; counts are kept per input stream."""

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
"""Further counts, which overlap the accounts: findings of the time rules (AZ-24), and events whose time was rounded
down to microseconds (``truncated``)."""

SHOWN_FINDINGS = ("adjusted", "truncated")
"""The counts of ``FINDINGS`` that users see with the accounts: events whose times were changed."""

SKIPPED = "skipped"
"""Count of events that are not received, because they are too old for the first output of the run (AZ-13)."""

_NAMES = ("received", SKIPPED, *ACCOUNTS, *FINDINGS)


class AccountsError(WindboltError):
    """Events that are missing from the accounts or counted twice: always a defect of windbolt, not of the input."""


class Accounts:
    """Counts of the events of one bolt, per input stream. The counts only grow. ``pending`` events are counted where
    they are stored, not here."""

    __slots__ = ("_counts", "streams")

    def __init__(self, streams: Sequence[str], counts: Mapping[str, Sequence[int]] | None = None) -> None:
        self.streams, earlier_counts = tuple(streams), counts or {}
        self._counts = {name: np.array(earlier_counts[name], np.int64) for name in _NAMES if name in earlier_counts}
        """The counts by name; a name whose counts are all 0 may be missing."""

    def add(self, account: str, by_stream: Iterable[int]) -> None:
        """Add counts, one per stream, to an account, ``received`` or a finding."""
        self._counts[account] = self._counts_of(account) + np.asarray(by_stream, dtype=np.int64)

    def merge(self, other: Mapping[str, Sequence[int]]) -> None:
        """Add the counts of a task, in the form of ``to_json``."""
        for account, by_stream in other.items():
            self.add(account, by_stream)

    def __getitem__(self, account: str) -> int:
        known = account in self._counts or account not in _NAMES
        return int(self._counts_of(account).sum()) if known else 0

    def by_stream(self, account: str) -> list[int]:
        """Returns the counts of an account, in the order of ``streams``."""
        return [int(count) for count in self._counts_of(account)]

    def check(self, pending: Sequence[int], bolt: str) -> None:
        """Raise AccountsError unless, on every stream, the accounts and ``pending`` add up to ``received``."""
        accounted = sum((self._counts[name] for name in ACCOUNTS if name in self._counts), np.asarray(pending))
        if (accounted != self._counts_of("received")).any():
            raise AccountsError(
                f"the accounts of bolt {bolt!r} do not add up: {self.to_json()} and pending {list(pending)}",
                why=f"received = {' + '.join(ACCOUNTS)} + pending",
                do="this is a defect in windbolt: please report it; the batch was not committed",
            )

    def totals(self, pending: int) -> dict[str, int]:
        """Returns the totals over all streams: ``received``, the accounts, ``SHOWN_FINDINGS``, and ``pending``."""
        return {name: self[name] for name in ("received", *ACCOUNTS, *SHOWN_FINDINGS)} | {"pending": pending}

    def metrics(self) -> dict[str, int]:
        """Returns the totals of ``FINDINGS`` over all streams (AZ-24)."""
        return {name: self[name] for name in FINDINGS}

    def all_by_stream(self, pending: Sequence[int]) -> dict[str, dict[str, int]]:
        """Returns all counts of each stream, and its ``pending`` events."""
        zeros = [0] * len(self.streams)
        counts = {name: self._counts[name].tolist() if name in self._counts else zeros for name in _NAMES}
        return {
            stream: {name: by_stream[index] for name, by_stream in counts.items()} | {"pending": int(pending[index])}
            for index, stream in enumerate(self.streams)
        }

    def to_json(self) -> dict[str, Any]:
        """Returns the counts that are not all 0: for each name a list with a count per stream."""
        known = ((name, self._counts_of(name)) for name in _NAMES if name in self._counts)
        return {name: counts.tolist() for name, counts in known if counts.any()}

    def _counts_of(self, account: str) -> NDArray[np.int64]:
        """Returns the counts of an account by stream. Raises KeyError if there is no such account."""
        counts = self._counts.get(account)
        if counts is not None:
            return counts
        if account not in _NAMES:
            raise KeyError(account)
        return np.zeros(len(self.streams), np.int64)
