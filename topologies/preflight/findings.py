"""What was found out about a part of a topology."""

from __future__ import annotations

from dataclasses import dataclass

from windowing.errors import WindboltError


@dataclass(frozen=True)
class Findings:
    """What was seen of a spout or a sink, what of it keeps a run from succeeding, and what is probably not meant."""

    facts: tuple[tuple[str, str], ...] = ()
    """Pairs of a word and what there is to say: ``("read", "8 rows")``."""
    problems: tuple[WindboltError, ...] = ()
    warnings: tuple[WindboltError, ...] = ()
