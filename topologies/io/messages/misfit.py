"""The place of a value in an event, and why it cannot be read or written. The place is assembled while the exception
propagates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from topologies.io.messages.message_errors import Unwritable

LONGEST_SHOWN = 80


class Misfit(Exception):
    """A value that cannot be read or written; each level that the exception passes adds its place."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.steps: list[str | int] = []

    def inside(self, step: str | int) -> Misfit:
        self.steps.append(step)
        return self

    def unwritable(self) -> Unwritable:
        place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in reversed(self.steps))
        return Unwritable(f"{_shortened(place.removeprefix('.')) or 'the event'}: {self.reason}")


@contextmanager
def unwritable_if_it_fails() -> Iterator[None]:
    """Whatever keeps an event from being written is raised as Unwritable, with the place of the value that does not
    fit."""
    try:
        yield
    except Misfit as misfit:
        raise misfit.unwritable() from None
    except Unwritable:
        raise
    except Exception as error:  # objects may run their own code
        raise Unwritable(f"the event cannot be written: {error!r}") from error


def value_and_type(value: Any) -> str:
    """A value and its type, as shown in reasons."""
    if value is None:
        return "None"
    kind = type(value).__name__
    try:
        text = ascii(value) if isinstance(value, str | bytes | int | float) else str(value)
    except Exception:  # any object, including its own code
        return f"a {kind}"
    return f"{text if len(text) <= LONGEST_SHOWN else text[:LONGEST_SHOWN] + '...'} ({kind})"


def _shortened(place: str) -> str:
    return place if len(place) <= 2 * LONGEST_SHOWN else f"{place[:LONGEST_SHOWN]}...{place[-LONGEST_SHOWN:]}"
