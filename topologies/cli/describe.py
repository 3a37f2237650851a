"""``windbolt describe``: what a topology is made of."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.run import Reference
from topologies.cli.running import loaded
from topologies.cli.step_options import NoFileRules, Set, StepOptions, With
from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import Debug, readable_errors
from topologies.step.config import is_step
from windowing.errors import ConfigError


def describe(
    reference: Reference,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart in Mermaid's language.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    debug: Debug = False,
) -> None:
    """Describe a topology: spouts, bolts and their windows, groupings, streams, sinks; or a step, in words."""
    from topologies.graph.as_json import to_json
    from topologies.graph.describing import topology_text
    from topologies.graph.mermaid import as_mermaid as flowchart
    from topologies.step import describe_step as steps

    with readable_errors(debug=debug):
        if mermaid and as_json:
            raise ConfigError(
                "--mermaid and --json", why="the description is printed in one form", do="choose one of them"
            )
        options = StepOptions.of(overlays, assignments, no_file_rules)
        if is_step(reference):
            step = options.load(reference)
            said = steps.as_mermaid(step) if mermaid else steps.step_text(step)
            data = steps.to_json(step)
        else:
            topology = loaded(reference, options)
            said = flowchart(topology) if mermaid else topology_text(topology)
            data = to_json(topology)
        if as_json or mermaid:
            typer.echo(json.dumps(data, indent=2) if as_json else said)
        else:
            say(out(), Text(said), whole_types=True)
