"""Why rows are invalid, in words, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Reasons: TypeAlias = "NDArray[Any] | None"
"""Why each row is invalid, "" where it is valid; None where all are valid."""


def reasons_of(invalid: NDArray[np.bool_], texts: str | Sequence[str]) -> Reasons:
    """Reasons for the rows that are invalid: one text for all, or one for each of them."""
    if not invalid.any():
        return None
    reasons = np.full(len(invalid), "", dtype=object)
    reasons[invalid] = texts
    return reasons


def first_reasons(*given: Reasons) -> Reasons:
    """The first of several reasons for each row."""
    first: Reasons = None
    for reasons in given:
        if reasons is not None:
            first = reasons.astype(object) if first is None else np.where(first == "", reasons, first)
    return first
