"""The name that a user may have meant by one that does not exist."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: object, known: Iterable[object], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Up to ``most`` of the known names that are most like ``name``, the nearest first; upper and lower case are equal.

    ``likeness``: from 0, anything, to 1, the same. Empty if none is as similar, or if ``name`` is not a text.
    """
    if not isinstance(name, str):
        return []
    names = {str(each).lower(): str(each) for each in known}
    return [names[close] for close in difflib.get_close_matches(name.lower(), names, most, likeness)]


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """The end of a message about a name that does not exist: ``; did you mean 'revenue'?``, or nothing."""
    close = [each for each in nearest(name, known) if each != name]
    return f"; did you mean {close[0]!r}?" if close else ""


def did_you_mean_column(name: object, columns: Iterable[str]) -> str:
    """The same of a column: ``; did you mean 'purchases_id' or 'refunds_id'?`` for ``'id'``.

    A join puts the stream before, or behind, the names of columns that both of its streams have; such columns are
    meant, and not what is merely spelled alike.
    """
    columns = list(columns)
    if not isinstance(name, str) or not name or name in columns:
        return ""
    renamed = [each for each in columns if each.endswith(f"_{name}") or each.startswith(f"{name}_")]
    return f"; did you mean {' or '.join(map(repr, renamed[:3]))}?" if renamed else did_you_mean(name, columns)
