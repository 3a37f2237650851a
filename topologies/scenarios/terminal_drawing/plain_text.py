"""A scenario and its answer as plain text: what a test prints that has failed."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from topologies.scenarios.run.scenario_answer import Replayed
from topologies.scenarios.schema.scenario_model import Scenario
from topologies.scenarios.terminal_drawing.timeline import timeline

_WIDTH = 110


def picture(scenario: Scenario, answer: Replayed) -> str:
    """The timeline without colours; the differences from what was expected are its last part."""
    file = StringIO()
    console = Console(
        file=file,
        width=_WIDTH,
        color_system=None,
        force_terminal=False,
        force_jupyter=False,  # rich would show it in the notebook, and not write it
        legacy_windows=False,
    )
    console.print(timeline(scenario, answer))
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines())
