"""``windbolt why``: what a window waits for, from the checkpoint alone."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from topologies.cli.terminal.failing import Debug, readable_errors
from windowing.data.printable import printable


def why(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    bolt: Annotated[
        str | None, typer.Option(metavar="NAME", help="The bolt. Needed where several have windows.")
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="KEY", help="Only events of this key count.")] = None,
    window: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="The end of the window: ISO 8601, or 12:00 (UTC). By default the next one."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Say why a window has not fired: what it waits for, since when, and what will happen.

    A run on the checkpoint may be in progress.
    """
    from topologies.why_waiting.why import why as asked

    with readable_errors(debug=debug):
        answer = asked(folder, bolt, key=key, window=window)
        typer.echo(json.dumps(answer.to_json(), indent=2) if as_json else printable(str(answer), keep="\n"))
