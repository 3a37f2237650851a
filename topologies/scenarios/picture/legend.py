"""What a picture shows, in words: the marks that it has, and how to read it."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.scenarios.picture.picture import Picture
from topologies.scenarios.picture.shapes import mark
from topologies.scenarios.picture.story import source_name
from topologies.scenarios.run.fates import Fate

_SOURCES = 4
"""Maximum number of inputs named."""


def legend(picture: Picture) -> Iterator[tuple[str, str, str]]:
    """Of each kind of thing in the picture: a sample (SVG, 34 pixels wide, 20 high), its name, and what it means."""
    event_time = picture.trace.event_time and not picture.by_arrival
    shown = {moment.fate for moment in picture.moments}
    for fate in Fate:
        if fate in shown:
            yield mark(fate, 17, 10), fate.word, fate.meaning
    if event_time and picture.watermark.points:
        line = "<path class='passed' d='M1 1h18v18h-18Z'/><path class='line watermark' d='M1 19h9v-9h9v-9h14'/>"
        yield (
            line,
            "watermark",
            "the time up to which the bolt takes events to be complete; what lies in its shade is behind",
        )
    for number, source in enumerate(picture.sources[:_SOURCES]):
        more = len(picture.sources) - _SOURCES
        also = f", and {more} more" if more > 0 and number == _SOURCES - 1 else ""
        yield (
            f"<path class='line source s{number}' d='M1 10h32'/>",
            f"{source_name(source.name)}{also}",
            "how far this input alone would let the watermark go",
        )
    if any(box.windows for box in picture.boxes):
        box = "<g class='box'><rect x='2' y='3' width='30' height='14' rx='3'/></g>"
        yield box, "window", "as wide as its times; it opens below, with its first event, and closes above"
        bar = "<rect class='bar' x='2' y='6' width='30' height='8' rx='4'/>"
        dots = "<circle class='new' cx='12' cy='10' r='3.4'/><circle class='again' cx='23' cy='10' r='3.4'/>"
        yield (
            f"<g class='firing'>{bar}{dots}</g>",
            "it fires",
            "filled dots: events new in it; rings: events that it, or the one before it, had before",
        )
        panes = [window["pane"] for window in picture.trace.windows.values() if "pane" in window]
        if not all(pane["last"] for pane in panes):
            yield f"<g class='firing early'>{bar}{dots}</g>", "not its last time", "it stays open, and may fire again"
    if any(not box.windows for box in picture.boxes):
        box = "<g class='box waiting'><rect x='2' y='3' width='30' height='14' rx='3'/></g>"
        yield box, "open window", "it has events, and has not fired by the end of the run"
    if picture.ideal.points:
        meaning = "an event would lie here if it came the moment it happened"
        if not picture.ideal_is_clock:
            meaning = "the furthest time so far: events that come in order lie here, others to the left"
        yield "<path class='line ideal' d='M1 19L33 1'/>", "ideal", meaning


def how_to_read(picture: Picture) -> str:
    """Where time runs in the picture, in a sentence or two."""
    up = "Processing time runs upwards: each row is a thing that happened, the first one at the bottom."
    if picture.by_arrival:
        return f"{up} Events stand side by side in the order in which they came."
    if not picture.trace.event_time:
        return f"{up} To the right is the time of the events, which here is the clock at their arrival."
    return f"{up} To the right is event time: when a thing happened, whenever it came."
