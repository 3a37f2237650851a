"""A case that differs is made small."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import inf
from time import process_time

from tests.oracles.interpreter.values import Json


def shrunk(
    case: Json,
    found: list[str],
    without_one: Callable[[Json], Iterable[Json]],
    refusal: Callable[[Json], str | None],
    differs: Callable[[Json], list[str]],
    seconds: float = inf,
) -> tuple[Json, list[str]]:
    """The case without all that the difference ``found`` does not need, and what is found then.

    It ends after so many seconds of CPU at the latest.
    ``without_one`` gives the cases that lack one thing, and ``refusal`` says why windbolt takes one of them not.
    """
    is_error, until, is_smaller = _is_error(found), process_time() + seconds, True
    while is_smaller and process_time() < until:
        is_smaller = False
        for candidate in without_one(case):
            if process_time() > until:
                break
            if refusal(candidate) is not None:
                continue
            try:
                now = differs(candidate)
            except Exception:
                continue
            if now and _is_error(now) == is_error:
                case, found, is_smaller = candidate, now, True
                break
    return case, found


def _is_error(found: list[str]) -> bool:
    """Whether it is an error; a difference does not become one."""
    return bool(found) and "Error" in found[0].split(":")[0]
