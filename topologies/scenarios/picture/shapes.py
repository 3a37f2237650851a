"""The shapes of a picture: a mark for each fate of an event, which tells them apart without colours."""

from __future__ import annotations

from topologies.html.element import element
from topologies.scenarios.run.fates import Fate

_PATHS = {
    Fate.EARLY: "m-4 -6l10 6l-10 6Z",
    Fate.ADJUSTED: "m0 -6.5l6.5 6.5l-6.5 6.5l-6.5 -6.5Z",
    Fate.NOWHERE: "m-4 -4h8v8h-8Z",
    Fate.WATERMARK: "m-6 -5h12l-6 11Z",
    Fate.ELSEWHERE: "m-4 0h8",
    Fate.LATE: "m-4.5 -4.5l9 9m0 -9l-9 9",
    Fate.DROPPED: "m-4.5 -4.5l9 9m0 -9l-9 9",
    Fate.INVALID: "m-6.5 -6.5h13v13h-13Z",
}
_RINGS: dict[Fate, tuple[tuple[float, float], ...]] = {
    Fate.WINDOWED: ((0, 5),),
    Fate.PENDING: ((0, 5),),
    Fate.DROPPED: ((0, 8),),
    Fate.DUPLICATE: ((-2.5, 4.5), (2.5, 4.5)),
}
"""How far to the right of the point each circle stands, and its radius."""


def mark(fate: Fate, x: float, y: float) -> str:
    """The shape of a fate around a point, as SVG; its class is that of the fate."""
    kind = f"m {fate.value}"
    rings = [element("circle", class_=kind, cx=float(x + right), cy=float(y), r=r) for right, r in _RINGS.get(fate, ())]
    path = [element("path", class_=kind, d=f"M{x:.1f} {y:.1f}{_PATHS[fate]}")] if fate in _PATHS else []
    sign = [element("text", "?", class_="invalid-sign", x=float(x), y=y + 4, text_anchor="middle")]
    return "".join([*rings, *path, *(sign if fate is Fate.INVALID else [])])
