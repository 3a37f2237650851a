"""Azure's windows over a list of events with their final times (AZ-19 to AZ-22, AZ-25, AZ-26)."""

from dataclasses import dataclass
from typing import Any

from tests.oracles.expected import Json, Window
from tests.oracles.units import above, duration, floor_multiple


@dataclass(frozen=True)
class Taken:
    """An event that was let in; the list that holds it is in order of arrival."""

    name: str
    time: int
    key: Any = None


def windows_of(bolt: Json, taken: list[Taken]) -> list[Window]:
    """Every window that has an event, whenever it closes."""
    found = []
    for kind, settings in _kinds(bolt):
        for key in {one.key for one in taken}:
            group = sorted((one for one in taken if one.key == key), key=lambda one: one.time)  # ties: as they arrived
            for start, end, members in _spans(settings, group):
                found.append(Window(end, tuple(one.name for one in members), start, key, kind))
    return found


def unwindowed(bolt: Json, one: Taken) -> bool:
    """Whether no window can hold it: it lies in a gap of every kind."""
    return all(not _spans(settings, [one]) for _, settings in _kinds(bolt))


def _kinds(bolt: Json) -> list[tuple[int | None, Json]]:
    if "windows" not in bolt:
        return [(None, bolt)]
    return [(place, _as_of_a_bolt(settings)) for place, settings in enumerate(bolt["windows"])]


def _as_of_a_bolt(settings: Json) -> Json:
    match settings:
        case {"tumbling": length}:
            return {"length": length, "tumbling": True}
        case {"hopping": {"length": length, "slide": slide}}:
            return {"length": length, "sliding": slide}
        case _:
            return settings


Span = tuple[int | None, int, list[Taken]]


def _spans(settings: Json, events: list[Taken]) -> list[Span]:
    if "session" in settings:
        return _sessions(settings["session"], events)
    if "snapshot" in settings:
        return [(None, time, [e for e in events if e.time == time]) for time in sorted({e.time for e in events})]
    if "sliding_log" in settings:
        return _sliding(duration(settings["sliding_log"]), events)
    length = duration(settings["length"])
    hop = length if settings.get("tumbling") else duration(settings["sliding"])
    return _hopping(length, hop, duration(settings.get("offset", "0s")), events)


def _hopping(length: int, hop: int, offset: int, events: list[Taken]) -> list[Span]:
    """`(start, end]` for every start that is a multiple of the hop, and has events (AZ-19, AZ-20)."""
    starts = set()
    for event in events:
        start = floor_multiple(event.time - 1, hop, offset)  # the last one before it
        while event.time <= start + length:
            starts.add(start)
            start -= hop
    return [(s, s + length, [e for e in events if s < e.time <= s + length]) for s in sorted(starts)]


def _sliding(length: int, events: list[Taken]) -> list[Span]:
    """`(t - length, t]` for every moment t at which an event comes or leaves, unless it is empty then (AZ-21)."""
    moments = {event.time for event in events} | {event.time + length for event in events}
    spans: list[Span] = [(t - length, t, [e for e in events if t - length < e.time <= t]) for t in sorted(moments)]
    return [span for span in spans if span[2]]


@dataclass
class _Session:
    start: int
    last: int  # when it was opened, or its last event
    members: list[Taken]


def _sessions(settings: Json, events: list[Taken]) -> list[Span]:
    """Events closer than the timeout; longer than the longest duration at a multiple of that, it is cut (AZ-22)."""
    gap, longest = duration(settings["gap"]), settings.get("max_duration")
    spans: list[Span] = []
    session: _Session | None = None
    for event in events:
        session = _until(event.time, session, gap, None if longest is None else duration(longest), spans)
        session = session or _Session(event.time, event.time, [])
        session.members.append(event)
        session.last = event.time
    _until(None, session, gap, None if longest is None else duration(longest), spans)
    return [span for span in spans if span[2]]


def _until(
    moment: int | None, session: _Session | None, gap: int, longest: int | None, spans: list[Span]
) -> _Session | None:
    """Close what closes before an event of that moment, and say which session is open then; None: nothing comes."""
    while session is not None:
        timeout = session.last + gap
        look = None if longest is None else _look(session.start, longest)
        if look is not None and look < timeout and (moment is None or moment > look):  # `(start, end]`
            spans.append((session.start, look, session.members))
            if moment is None:
                return None
            session = _Session(look, look, [])  # a new one opens there
        elif moment is None or moment >= timeout:
            spans.append((session.start, timeout, session.members))
            session = None
        else:
            return session
    return None


def _look(start: int, longest: int) -> int:
    """The first multiple of the longest duration at which it has lasted longer than that."""
    look = above(start, longest)
    while look - start <= longest:
        look += longest
    return look
