"""The accounts: where every event is at any time, per input stream."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from windowing.errors import WindboltError

ACCOUNTS = ("windowed", "late", "early", "dropped", "duplicate", "invalid", "unwindowed", "purged")
"""Every event received is in exactly one of these, or pending."""

BESIDE = ("adjusted", "early_input", "late_input", "out_of_order")
"""Counted beside the accounts: what the rules of time found, whatever became of the event (AZ-24)."""

SKIPPED = "skipped"
"""Events that were never received: they are older than what the first output of the run needs (AZ-13)."""


class AccountsError(WindboltError):
    """Events are missing from the accounts, or counted twice: a defect of windbolt, never of the input."""


class Accounts:
    """Counters per input stream of one bolt that only grow; ``pending`` is counted where the events lie."""

    __slots__ = ("_counts", "streams")

    def __init__(self, streams: Sequence[str], counts: Mapping[str, Sequence[int]] | None = None) -> None:
        self.streams = tuple(streams)
        self._counts = {
            name: np.array((counts or {}).get(name, np.zeros(len(self.streams))), np.int64)
            for name in ("received", SKIPPED, *ACCOUNTS, *BESIDE)
        }

    def add(self, account: str, by_stream: Iterable[int]) -> None:
        """Put so many more events of each stream into an account (or into ``received``, or ``adjusted``)."""
        self._counts[account] += np.asarray(by_stream, dtype=np.int64)

    def merge(self, other: Mapping[str, Sequence[int]]) -> None:
        """Add the counts of a part, as ``to_json`` gives them."""
        for account, by_stream in other.items():
            self.add(account, by_stream)

    def __getitem__(self, account: str) -> int:
        return int(self._counts[account].sum())

    def by_stream(self, account: str) -> list[int]:
        """The count of each stream, in the order of ``streams``."""
        return [int(count) for count in self._counts[account]]

    def check(self, pending: Sequence[int], bolt: str) -> None:
        """Raise AccountsError unless, on every stream, what was received is all accounted for."""
        held = sum(self._counts[account] for account in ACCOUNTS) + np.asarray(pending)
        if (held != self._counts["received"]).any():
            raise AccountsError(
                f"the accounts of bolt {bolt!r} do not add up: {self.to_json()} and pending {list(pending)}",
                why=f"received = {' + '.join(ACCOUNTS)} + pending",
                do="this is a defect of windbolt; nothing of the batch was committed; please report it",
            )

    def totals(self, pending: int) -> dict[str, int]:
        """All accounts over all streams, with ``received``, ``adjusted`` and what is pending."""
        return {name: self[name] for name in ("received", *ACCOUNTS, "adjusted")} | {"pending": pending}

    def metrics(self) -> dict[str, int]:
        """What the rules of time found (AZ-24): events that were early, late, out of order, and adjusted."""
        return {name: self[name] for name in BESIDE}

    def of_streams(self, pending: Sequence[int]) -> dict[str, dict[str, int]]:
        """For each stream all counts, with what is pending."""
        return {
            stream: {name: int(counts[at]) for name, counts in self._counts.items()} | {"pending": int(pending[at])}
            for at, stream in enumerate(self.streams)
        }

    def to_json(self) -> dict[str, Any]:
        """The counts that are not zero, each a list by stream."""
        return {name: counts.tolist() for name, counts in self._counts.items() if counts.any()}
