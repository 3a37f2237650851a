"""What an operator should know of a run at a glance, in sentences: what holds time, and what was turned away."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from topologies.page.points import Point
from topologies.run.readable import spoken
from windowing.data.reprs import one_line

RECENT = 60_000_000
"""Microseconds that count as recent."""
_LEAD = 60_000_000
"""Microseconds by which others must be ahead of an input, and not less than the length of a window, to be remarked."""

_STANDS = 10_000_000
"""Microseconds after which it is remarked that an input stands."""
_MANY = 20
"""A warning is shown when more than one in this many events is turned away."""

Severity = Literal["bad", "warn", "note"]


def page_remark(severity: Severity, text: str, bolt: str | None = None) -> dict[str, Any]:
    """A remark as plain JSON; ``bolt``: which one it is about."""
    return {"severity": severity, "text": text, "bolt": bolt}


def remarks_of(
    bolts: Mapping[str, Mapping[str, Any]], points: Sequence[Point], clock: int | None
) -> list[dict[str, Any]]:
    """What is to be said of the bolts, worst first; ``clock``: that of the last batch."""
    found: list[dict[str, Any]] = []
    recent = [point for point in points if points and point["at"] >= points[-1]["at"] - RECENT]
    for name, bolt in bolts.items():
        found += _of_time(name, bolt, clock)
    for name in bolts:
        found += _of_accounts(name, recent, points)
    order = ("bad", "warn", "note")
    return sorted(found, key=lambda each: order.index(each["severity"]))


def _of_time(name: str, bolt: Mapping[str, Any], clock: int | None) -> Iterator[dict[str, Any]]:
    """What holds the time of a bolt, where that is one input or partition that others are ahead of."""
    if bolt["ended"]:
        return
    marks = [mark for mark in bolt["marks"] if not mark["idle"]]
    silent = [mark for mark in marks if mark["at"] is None]
    idle = len(bolt["marks"]) - len(marks)
    if silent and len(silent) < len(marks) and bolt["watermark"] is None:
        yield page_remark(
            "warn", f"{_named(silent)} has delivered nothing, so no window of {name!r} can fire yet.", name
        )
    known = [mark["at"] for mark in marks if mark["at"] is not None]
    lead = max(known, default=0) - min(known, default=0)
    if lead > max(_LEAD, bolt["length"] or 0) and not silent:
        holding = [mark for mark in marks if mark["holds"]]
        since = holding[0]["since"] if len(holding) == 1 else None
        stood = 0 if since is None or clock is None else clock - since
        stands = f", and has not moved for {spoken(stood)}" if stood >= _STANDS else ""
        behind = spoken(lead)
        yield page_remark(
            "warn", f"{_named(holding)} holds the time of {name!r}: {behind} behind the furthest{stands}.", name
        )
    if idle:
        words = "1 input or partition is" if idle == 1 else f"{idle:,} inputs or partitions are"
        yield page_remark("note", f"{words} idle, and not waited for by {name!r}.", name)


def _named(marks: Sequence[Mapping[str, Any]]) -> str:
    first = marks[0]
    text = f"Input {first['input']!r}" + (f", partition {first['partition']!r}" if first["partition"] else "")
    return one_line(text) + ("" if len(marks) == 1 else f" (and {len(marks) - 1:,} more)")


def _of_accounts(name: str, recent: Sequence[Point], points: Sequence[Point]) -> Iterator[dict[str, Any]]:
    """How many of the events of the last minute were turned away."""
    if not recent:
        return
    now = recent[-1]["bolts"].get(name, {}).get("accounts", {})
    earlier = [point for point in points if point["n"] < recent[0]["n"]]
    before = earlier[-1]["bolts"].get(name, {}).get("accounts", {}) if earlier else {}
    received = now.get("received", 0) - before.get("received", 0)
    for accounts, words in ((("late", "dropped"), "came too late"), (("invalid",), "could not be read or used")):
        lost = sum(now.get(each, 0) - before.get(each, 0) for each in accounts)
        if lost > 0 and received > 0:
            severity: Severity = "warn" if lost * _MANY > received else "note"
            share = f"{lost / received:.1%}" if lost * 1000 >= received else "less than 0.1%"
            yield page_remark(
                severity, f"{lost:,} of the last {received:,} events of {name!r} {words} ({share}).", name
            )
