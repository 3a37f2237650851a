"""The plain Python value in a numpy scalar or an enum member, as Avro's types expect it."""

from __future__ import annotations

from typing import Any

import numpy as np

from topologies.io.messages.scalars import simple

_FINER = frozenset({"ns", "ps", "fs", "as"})
"""Units of numpy's times in which it gives a number rather than a datetime."""


def plain(value: Any) -> Any:
    """Like ``simple``, but a numpy time finer than Python's is cut off to microseconds, towards minus infinity: to
    Avro it is a time and no text. Raises Misfit for numpy times beyond Python's."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if isinstance(value, np.datetime64) and np.datetime_data(value.dtype)[0] in _FINER:
        return value.astype("datetime64[us]").item()
    return simple(value)
