"""The steps of a scenario: what happens, in order."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, PrivateAttr, Tag

from topologies.scenarios.schema.expected import Expect
from topologies.scenarios.schema.scenario_values import Strict, TextValue, TimeValue, Yes


class EventStep(Strict):
    """An event arrives; a ``clock`` moves the clock first, in a batch of its own where the bolt minds.

    With an ``arrival`` the event comes in the batch of that clock: no quiet batch goes before it.
    """

    event: dict[str, Any]
    stream: TextValue | None = None
    clock: TimeValue | None = None
    arrival: TimeValue | None = None
    _id: str = PrivateAttr(default="")

    @property
    def moved(self) -> int | None:
        """What the clock is at this step, if it says so."""
        return self.clock if self.arrival is None else self.arrival

    @property
    def id(self) -> str:
        """The event's own id, or ``e<n>`` for the n-th event of the scenario."""
        return self._id

    def filled(self, number: int, stream: str | None, *, with_id: bool) -> EventStep:
        """This step with its id, and the only stream there is where it names none."""
        given = self.event.get("id")
        known = isinstance(given, str | int) and given != "" and not isinstance(given, bool)
        name = str(given) if known else f"e{number}"
        event = {**self.event, "id": name} if with_id and (known or given is None) else self.event
        filled = self.model_copy(update={"event": event, "stream": self.stream or stream})
        filled._id = name
        return filled


class TickStep(Strict):
    """The watermark interval has passed."""

    tick: Literal["watermark"]


class ClockStep(Strict):
    """The clock moves on."""

    clock: TimeValue

    @property
    def moved(self) -> int:
        """What the clock is then."""
        return self.clock


class CrashStep(Strict):
    """Everything in memory is gone; the run recovers from its last commit."""

    crash: Yes


class CloseStep(Strict):
    """The streams end."""

    close: Yes


class ExpectStep(Strict):
    """What must have come out so far: the answer to a scenario that ended here."""

    expect: Expect


_KINDS = ("event", "tick", "crash", "close", "expect")


def _kind(step: object) -> str | None:
    if isinstance(step, EventStep | TickStep | ClockStep | CrashStep | CloseStep | ExpectStep):
        return f"<{type(step).__name__.removesuffix('Step').lower()}>"
    if not isinstance(step, dict):
        return None
    named = [key for key in _KINDS if key in step] or [key for key in ("clock",) if key in step]
    return f"<{named[0]}>" if len(named) == 1 else None


STEP_FORMS = "{event: {...}}, {tick: watermark}, {clock: time}, {crash: true}, {close: true} or {expect: {...}}"

ScenarioStep = Annotated[
    Annotated[EventStep, Tag("<event>")]
    | Annotated[TickStep, Tag("<tick>")]
    | Annotated[ClockStep, Tag("<clock>")]
    | Annotated[CrashStep, Tag("<crash>")]
    | Annotated[CloseStep, Tag("<close>")]
    | Annotated[ExpectStep, Tag("<expect>")],
    Discriminator(_kind, custom_error_type="step_form", custom_error_message=f"expected one of {STEP_FORMS}"),
]
