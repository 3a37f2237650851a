"""The keys of batches: how batches are named in files, to users, and in sentences."""

from __future__ import annotations

import re


def batch_key(batch: int, closing: bool) -> str:
    """The key of a batch. Keys sort in order of time; that of a closing before any batch (number -1) is first."""
    return f"{batch:010d}{'-close' if closing else ''}"


def batch_name(key: str) -> str:
    """A batch key as users write it: ``7``, or ``7-close`` for the closing after batch 7."""
    number, closing, _ = key.partition("-close")
    return f"{int(number)}{closing}"


def batch_in_words(key: str) -> str:
    """A batch in a sentence: ``batch 7``, or ``the closing after batch 7``."""
    return f"the closing after batch {batch_of(key)}" if key.endswith("-close") else f"batch {batch_of(key)}"


def key_of(name: str) -> str | None:
    """The key of a batch that is written as ``batch_name`` writes it; None for any other text."""
    found = re.fullmatch(r"(-?\d{1,10})(-close)?", name.strip())
    return None if found is None else batch_key(int(found[1]), found[2] is not None)


def batch_of(key: str) -> int:
    """The batch number in a key; for a closing, that of the batch before it."""
    return int(key.removesuffix("-close"))
