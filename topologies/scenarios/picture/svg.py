"""A run as one file of SVG: its pictures below each other, each with its legend."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from textwrap import wrap

from topologies.html.colours import DARK, LIGHT
from topologies.html.element import element, escaped
from topologies.scenarios.picture.drawing import AXIS, Drawing, drawn
from topologies.scenarios.picture.legend import how_to_read, legend
from topologies.scenarios.picture.picture import Picture, pictures
from topologies.scenarios.picture.shapes import mark
from topologies.scenarios.picture.style import plain_style
from topologies.scenarios.run.fates import Fate
from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.scenario_model import Scenario

_PAD, _LINE = 16, 20
_NARROWEST = 700
_STORIES = 6
"""Maximum number of events described below a picture."""
_LETTER, _BOLD_LETTER = 7.1, 7.6
"""Width of a letter of 12 pixels in the widest fonts that draw it, DejaVu Sans among them."""
_TEXT = 44
"""Where the text beside a sign begins."""


def svg(scenario: Scenario, answer: Replayed, palette: Mapping[str, str] | None = None) -> str:
    """The run as SVG. ``palette``: one alone; without it the file follows the colours of who looks at it."""
    all_pictures = pictures(scenario, answer)
    drawings = [drawn(picture, told=True) for picture in all_pictures]
    width = max([_NARROWEST, *(drawing.gutter + drawing.width for drawing in drawings)]) + 2 * _PAD
    parts, height = [], float(_PAD)
    for part, room in _parts(answer, all_pictures, drawings, width):
        parts.append(f"<g transform='translate({_PAD} {height:.0f})'>{part}</g>")
        height += room
    style = plain_style(palette or LIGHT)
    if palette is None:
        style += f"@media (prefers-color-scheme:dark){{{plain_style(DARK)}}}"
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' class='wb' role='img' width='{width}' height='{height + _PAD:.0f}' "
        f"viewBox='0 0 {width} {height + _PAD:.0f}'><title>{escaped(answer.name)}</title>"
        f"<style>{style}</style><rect class='surface' width='{width}' height='{height + _PAD:.0f}'/>"
        f"{''.join(parts)}</svg>\n"
    )


def _parts(
    answer: Replayed, all_pictures: Sequence[Picture], drawings: Sequence[Drawing], width: int
) -> Iterator[tuple[str, float]]:
    """Each part, and the room that it takes downwards."""
    letters, beside = _letters(width), _letters(width - _TEXT)
    verdict = {True: ("as expected", "good"), False: ("not as expected", "bad"), None: ("", "")}[answer.ok]
    yield (
        f"<text class='title' y='14'>{escaped(answer.name)}<tspan class='{verdict[1]}' dx='12' font-size='13'>"
        f"{verdict[0]}</tspan></text>",
        26,
    )
    for difference in answer.differences[:8]:
        yield f"<text class='bad' y='12'>{escaped(difference, letters)}</text>", _LINE
    for picture, drawing in zip(all_pictures, drawings, strict=True):
        if len(all_pictures) > 1:
            yield f"<text class='bolt' y='18'>{escaped(picture.bolt)}</text>", 28
        for line in wrap(how_to_read(picture), letters):
            yield f"<text class='quietly' y='13'>{escaped(line)}</text>", 18
        up = {"x": drawing.gutter - 10, "y": drawing.height + 38, "text_anchor": "end"}
        axis = element("g", drawing.axis, transform=f"translate(0 {drawing.height})")
        plot = element("g", drawing.plot, axis, transform=f"translate({drawing.gutter} 0)")
        name = element("text", "processing time ↑", class_="name", **up)
        yield element("g", drawing.labels, plot, name, transform="translate(0 6)"), drawing.height + AXIS + 14
        yield from _told(picture, _letters(width - _TEXT, _BOLD_LETTER))
        for sample, name, meaning in legend(picture):
            lines = wrap(f"{name}: {meaning}", beside)
            text = "".join(
                f"<tspan x='{_TEXT}' dy='{0 if number == 0 else 15}'>{escaped(line)}</tspan>"
                for number, line in enumerate(lines)
            )
            yield f"{sample}<text y='14'>{text}</text>", 7.0 + 15 * len(lines)
        yield "", 10


def _letters(width: float, letter: float = _LETTER) -> int:
    """How many letters fit a picture of this width."""
    return int((width - 2 * _PAD) / letter)


def _told(picture: Picture, letters: int) -> Iterator[tuple[str, float]]:
    """The stories of the first events that went otherwise than usual."""
    unusual = [moment for moment in picture.moments if moment.fate is not None and moment.fate.is_unusual]
    for moment in unusual[:_STORIES]:
        lines = wrap(picture.stories[moment.number], letters)
        spans = [element("tspan", escaped(line), x=_TEXT, dy=0 if at == 0 else 15) for at, line in enumerate(lines)]
        told = element("text", *spans, class_="told", y=14)
        yield element("g", mark(moment.fate or Fate.LATE, 17, 10), told), 9.0 + 15 * len(lines)
    if len(unusual) > _STORIES:
        yield element("text", f"and {len(unusual) - _STORIES} more", class_="quietly", x=_TEXT, y=14), 22
    if unusual:
        yield "", 10
