"""``windbolt savepoint``: the state of a checkpoint at another place, whole."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import Debug, readable_errors
from windowing.errors import ConfigError


def savepoint(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    target: Annotated[str, typer.Argument(metavar="DEST", help="A folder, or s3://..., that holds nothing yet.")],
    moved: Annotated[
        list[str] | None,
        typer.Option(metavar="BEFORE=NOW", help="A folder of input files that are elsewhere now; may be repeated."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Write the state after the last batch to another place, while no run is on; the checkpoint stays as it is.

    What is written is a checkpoint: a run continues from it with --checkpoint DEST, on either engine and any machine.
    If this is interrupted, no run begins there, and the same command starts over.
    """
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
    from topologies.checkpoints.savepoints.savepoint import take_savepoint

    with readable_errors(debug=debug):
        folders = [_folders(each) for each in moved or ()]
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.share()
        done = take_savepoint(halves, target, folders)
        if as_json:
            typer.echo(json.dumps({"savepoint": done.path, "batch": done.batch, **_sizes(asdict(done))}, indent=2))
            return
        files = "1 file" if done.segments == 1 else f"{done.segments:,} files"
        say(out(), Text(f"The state after batch {done.batch} is in {done.path}: {files} of rows, {done.size:,} bytes."))
        say(out(), Text("A run continues from it with --checkpoint; this checkpoint is as it was."))


def _sizes(values: dict[str, object]) -> dict[str, object]:
    return {"segments": values["segments"], "bytes": values["size"]}


def _folders(given: str) -> tuple[str, str]:
    before, sign, now = given.partition("=")
    if not sign or not before.strip() or not now.strip():
        raise ConfigError(
            f"--moved {given!r}",
            why="it names where input files were, and where they are",
            do="write --moved /data/in=s3a://bucket/in",
        )
    return before, now
