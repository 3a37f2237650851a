"""``windbolt describe``: what a topology is made of."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from topologies.commands.failing import Debug, readable_errors
from topologies.commands.run import Reference
from topologies.commands.running import loaded
from windowing.errors import ConfigError


def describe(
    reference: Reference,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a flowchart in Mermaid's language.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Describe a topology: spouts, bolts and their windows, groupings, streams, sinks."""
    from topologies.describing import as_mermaid, as_text, to_json

    with readable_errors(debug=debug):
        if mermaid and as_json:
            raise ConfigError("--mermaid and --json", why="there is one description", do="choose one of them")
        topology = loaded(reference)
        in_words = as_mermaid if mermaid else as_text
        typer.echo(json.dumps(to_json(topology), indent=2) if as_json else in_words(topology))
