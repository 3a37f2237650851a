"""How many examples a property runs."""

from __future__ import annotations

from typing import Any

from hypothesis import settings

_HUNDRED = 100


def examples(number: int, **others: Any) -> settings:
    """Settings for a property of Hypothesis: so many examples for every hundred that the profile runs, at least one.

    ``others`` are arguments of ``hypothesis.settings``. The profiles are in tests/conftest.py.
    """
    return settings(max_examples=max(1, number * settings().max_examples // _HUNDRED), **others)
