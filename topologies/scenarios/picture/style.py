"""The style sheet of pictures: with variables for pages, with plain colours for files of SVG."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from topologies.html.colours import FONT


@cache
def asset(name: str) -> str:
    """A file that goes into pages."""
    return files("topologies.scenarios.picture").joinpath("assets", name).read_text(encoding="utf-8")


def plain_style(palette: Mapping[str, str]) -> str:
    """The style of pictures without variables, which viewers other than browsers do not know."""
    values = {**palette, "font": FONT}
    return re.sub(r"var\(--([a-z-]+)\)", lambda found: values[found[1]], asset("picture.css"))
