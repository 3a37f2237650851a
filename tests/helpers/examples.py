"""Decides how many cases of a kind run: a few by default, all with ``--all``. tests/README.md has the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import settings

_HUNDRED = 100
_BY_DEFAULT = 20
"""Examples of the profile without ``--all`` (tests/conftest.py)."""


def examples(number: int, *, by_default: int | None = None, **others: Any) -> settings:
    """Settings for a property of Hypothesis: so many examples for every hundred that the profile runs, at least one.

    ``by_default`` is the number without ``--all``, where that is another. ``others`` are arguments of
    ``hypothesis.settings``. The profiles are in tests/conftest.py.
    """
    chosen = number if by_default is None or with_all() else by_default
    return settings(max_examples=max(1, chosen * settings().max_examples // _HUNDRED), **others)


def share(number: int, least: int = 1) -> int:
    """So many of a larger number of random cases, for every hundred examples that the profile runs."""
    return max(least, number * settings().max_examples // _HUNDRED)


def with_all() -> bool:
    """True where all cases run: with ``--all``, or a larger profile."""
    return settings().max_examples > _BY_DEFAULT


def every(nth: int, of_all: int = 1) -> int:
    """The step through many similar cases: each n-th by default, each one with ``--all``, or each ``of_all``-th."""
    return of_all if with_all() else nth


def sampled(cases: Iterable[Any], one_in: int, name: Callable[[Any], str] = str, *, first: int = 0) -> list[Any]:
    """Parameters for a test of many similar cases: by default one of every so many, and all with ``--all``.

    Where several tests go through the same cases, each begins with another one as its ``first``.
    """
    return [
        pytest.param(case, id=name(case), marks=pytest.mark.extended if at % one_in != first else ())
        for at, case in enumerate(cases)
    ]
