"""A run as an image: its SVG, drawn by resvg."""

from __future__ import annotations

from importlib.util import find_spec

from topologies.html.colours import LIGHT
from topologies.scenarios.picture.svg import svg
from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.scenario_model import Scenario
from windowing.errors import ConfigError

_ZOOM = 2
"""Pixels of the image for each of the SVG, as for screens with small ones."""


def check_png() -> None:
    """Raise ConfigError where the package that draws images is missing."""
    if find_spec("resvg_py") is None:
        raise ConfigError(
            "--png needs the package resvg_py",
            why="it turns SVG into an image, and is not part of a plain installation",
            do="pip install 'windbolt[png]', or write --svg or --html",
        )


def png(scenario: Scenario, answer: Replayed) -> bytes:
    """The run as PNG, in light colours. ConfigError where the package that draws it is missing."""
    check_png()
    import resvg_py

    return bytes(resvg_py.svg_to_bytes(svg_string=svg(scenario, answer, LIGHT), zoom=_ZOOM))
