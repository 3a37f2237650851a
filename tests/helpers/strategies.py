"""Random scenarios of one bare bolt, small enough to be read when one of them fails.

``scenarios()`` draws every kind of window in both modes, with the disorder, the ties, the gaps and the steps that
a stream can bring. Each scenario follows the contract of the scenario files and expects nothing: the expectation
is whatever ``tests.oracles.window_oracle.answer`` says. ``meta`` holds what the drawing knew: kind, mode and
whether windows leave gaps.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Json = dict[str, Any]

MODES = ("event", "processing")
KINDS = ("time/time", "time/count", "count/count", "count/time")  # length/slide
UNITS = {"ms": 1, "s": 1000}  # a scenario uses one of them, for its durations and for the scale of its times


@st.composite
def scenarios(
    draw: st.DrawFn, *, modes: tuple[str, ...] = MODES, kinds: tuple[str, ...] = KINDS, max_steps: int = 30
) -> Json:
    """A scenario: the bolt, its streams, and steps of which the last may be a close."""
    mode, kind = draw(st.sampled_from(modes)), draw(st.sampled_from(kinds))
    unit = draw(st.sampled_from(sorted(UNITS)))
    streams = ["s1", "s2", "s3"][: draw(st.sampled_from([1, 1, 2, 3]))]
    bolt = draw(bolts(mode, kind, unit))
    story = event_time_steps if mode == "event" else processing_time_steps
    steps = draw(story(streams, UNITS[unit], max_steps))
    if draw(st.booleans()):
        steps = [*steps, {"close": True}]
    meta = {"mode": mode, "kind": kind, "gapped": is_gapped(bolt)}
    return {"name": f"{mode}, {kind}", "meta": meta, "bolt": bolt, "streams": streams, "steps": steps}


@st.composite
def bolts(draw: st.DrawFn, mode: str, kind: str, unit: str = "ms") -> Json:
    """The settings: a length, a slide (tumbling, overlapping, gapped or left out), and what goes with them."""
    length_kind, slide_kind = kind.split("/")

    def amount(of: str) -> int | str:
        number = draw(st.integers(1, 5) if of == "count" else st.integers(1, 12))
        return number if of == "count" else f"{number}{unit}"

    bolt: Json = {"length": amount(length_kind)}
    shapes = ["sliding"]
    if length_kind == slide_kind:
        shapes.append("tumbling")
    if slide_kind == "count":
        shapes.append("default")
    match draw(st.sampled_from(shapes)):
        case "sliding":
            bolt["sliding"] = amount(slide_kind)
        case "tumbling":
            bolt["tumbling"] = True
    if mode == "event":
        bolt["timestamp_field"] = "ts"
        if lag := draw(st.sampled_from([0, 0, 1, 3, 10, 40])):
            bolt["lag"] = f"{lag}{unit}"
        if draw(st.booleans()):
            bolt["late_stream"] = "late"
    if slide_kind == "time":  # bounds and alignment mean something for aligned ends only
        if draw(st.booleans()):
            bolt["bounds"] = "[start, end)"
        if offset := draw(st.sampled_from([0, 0, 1, 4, 29])):
            bolt["offset"] = f"{offset}{unit}"
    return bolt


def is_gapped(bolt: Json) -> bool:
    """Whether the slide is longer than the length, both being of one kind."""
    length = bolt["length"]
    slide = length if bolt.get("tumbling") else bolt.get("sliding", 1)
    if isinstance(length, int) and isinstance(slide, int):
        return slide > length
    if isinstance(length, str) and isinstance(slide, str):
        unit = length.lstrip("0123456789")
        return int(slide.removesuffix(unit)) > int(length.removesuffix(unit))
    return False


def stories(moves: st.SearchStrategy[tuple[str, int]], max_steps: int) -> st.SearchStrategy[list[tuple[str, int]]]:
    """Lists of moves, every second one long enough for something to happen."""
    return st.lists(moves, max_size=max_steps) | st.lists(moves, min_size=max_steps // 2, max_size=max_steps)


@st.composite
def event_time_steps(draw: st.DrawFn, streams: list[str], scale: int, max_steps: int) -> list[Json]:
    """Events around a time that wanders on, with ticks, crashes and clock steps between them.

    Each move goes from where the stream has come to: on by a little, a tie, a step back (disorder), a burst of
    equal times, or a leap that leaves windows empty.
    """
    moves = st.one_of(
        st.tuples(st.just("on"), st.integers(0, 4)),
        st.tuples(st.just("back"), st.integers(1, 25)),
        st.tuples(st.just("burst"), st.integers(2, 6)),
        st.tuples(st.just("leap"), st.sampled_from([17, 60, 1000])),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
        st.tuples(st.just("clock"), st.integers(0, 5)),
    )
    now = draw(st.sampled_from([0, -30, 5, 1_700_000_000_000 // scale]))
    clock = 0
    steps: list[Json] = []
    events = 0

    def event(ts: int) -> None:
        nonlocal events
        events += 1
        step: Json = {"event": {"id": f"e{events}", "ts": ts * scale}}
        if len(streams) > 1:
            step["stream"] = draw(st.sampled_from(streams))
        steps.append(step)

    for what, size in draw(stories(moves, max_steps)):
        match what:
            case "on" | "leap":
                now += size
                event(now)
            case "back":
                event(now - size)
            case "burst":
                for _ in range(size):
                    event(now)
            case "tick":
                steps.append({"tick": "watermark"})
            case "crash":
                steps.append({"crash": True})
            case "clock":
                clock += size
                steps.append({"clock": clock * scale})
    return steps


@st.composite
def processing_time_steps(draw: st.DrawFn, streams: list[str], scale: int, max_steps: int) -> list[Json]:
    """Events at a clock that only advances, with bursts, idle steps, long gaps, ticks and crashes."""
    moves = st.one_of(
        st.tuples(st.just("event"), st.integers(0, 4)),
        st.tuples(st.just("event"), st.sampled_from([0, 17, 60, 1000])),
        st.tuples(st.just("burst"), st.integers(2, 6)),
        st.tuples(st.just("clock"), st.sampled_from([0, 1, 2, 5, 12, 40, 1000])),
        st.tuples(st.just("tick"), st.just(0)),
        st.tuples(st.just("crash"), st.just(0)),
    )
    clock = draw(st.sampled_from([0, -30, 5, 1_700_000_000_000 // scale]))
    steps: list[Json] = []
    events = 0

    def event() -> None:
        nonlocal events
        events += 1
        step: Json = {"event": {"id": f"e{events}"}, "clock": clock * scale}
        if len(streams) > 1:
            step["stream"] = draw(st.sampled_from(streams))
        steps.append(step)

    for what, size in draw(stories(moves, max_steps)):
        match what:
            case "event":
                clock += size
                event()
            case "burst":
                for _ in range(size):
                    event()
            case "clock":
                clock += size
                steps.append({"clock": clock * scale})
            case "tick":
                steps.append({"tick": "watermark"})
            case "crash":
                steps.append({"crash": True})
    return steps
