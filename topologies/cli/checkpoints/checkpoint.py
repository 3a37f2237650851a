"""``windbolt checkpoint``: what is in a checkpoint, whether it is whole, and back to an earlier batch."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from manager.storage.batch_keys import key_of
from topologies.cli.terminal.consoles import out, say, warn
from topologies.cli.terminal.failing import FAILED, Debug, readable_errors
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from topologies.checkpoints.going_back import Rollback
    from topologies.checkpoints.inspecting import BatchLook, CheckpointLook


def checkpoint(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    back_to: Annotated[
        str | None,
        typer.Option("--back-to", metavar="BATCH", help="Go back to the end of this batch: 7, or 7-close."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Show what is in a checkpoint, and check every file of it; or go back to an earlier batch (--back-to).

    Going back sets aside what came after the batch, in the checkpoint and in the folders of file sinks; nothing is
    deleted. It may be interrupted, and begun again. Exit status 0 where all is whole, 1 where something is damaged, 2
    where there is no checkpoint, it is in use, or that batch cannot be gone back to.
    """
    from topologies.checkpoints.going_back import go_back
    from topologies.checkpoints.inspecting import inspect
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint

    with readable_errors(debug=debug):
        halves = PairedCheckpoint(folder)
        halves.check_found()
        if back_to is None:
            halves.lock.share()
            look = inspect(halves)
            typer.echo(json.dumps(look.to_json(), indent=2)) if as_json else _show(out(), look)
            if look.damage or look.refused:
                raise typer.Exit(FAILED)
            return
        key = key_of(back_to)
        if key is None:
            raise ConfigError(
                f"--back-to {back_to!r}",
                why="that is not a batch",
                do="give a number, such as 7, or 7-close for the closing after it",
            )
        halves.lock.take()
        done = go_back(halves, key)
        typer.echo(json.dumps(_as_json(done), indent=2)) if as_json else _tell(out(), done)


def _show(console: Console, look: CheckpointLook) -> None:
    say(console, _named(f"checkpoint {look.path}", _size(look.size)))
    say(console, _named("  topology", look.topology or "not known"))
    if look.query is not None:
        planned, done = look.spark_batches or (-1, -1)
        say(console, _named("  query", f"{look.query}, batch {done} done, {planned} planned"))
    for sink in look.sinks:
        say(console, _named("  sink", f"{sink['name']}: {sink.get('folder', sink['kind'])}"))
    for batch in look.batches:
        _show_batch(console, batch)
    if not look.batches:
        console.print(Text("  no batch has been committed"))
    if look.planned:
        say(console, _named("  begun, not committed", ", ".join(look.planned)))
    for what, why in look.damage:
        say(console, Text.assemble(("damaged: ", "bold red"), what, ("\n  why: ", "cyan"), why))
    if look.refused:
        say(
            console,
            Text.assemble(("no run will continue: ", "bold red"), look.refused, ("\n  do:  ", "cyan"), look.advice),
        )
    elif look.damage:
        console.print(Text("What a run needs to continue is whole."))
    else:
        console.print(Text("Every file is whole.", "green"))


def _show_batch(console: Console, batch: BatchLook) -> None:
    """A line for a batch, and one for each bolt."""
    state = f"{batch.sections} section{'' if batch.sections == 1 else 's'}, {_size(batch.size)}"
    say(console, _named(f"batch {batch.name}", "cannot be gone back to" if batch.trouble else state))
    for name, bolt in batch.to_json()["bolts"].items():
        accounts = [f"{account} {count:,}" for account, count in bolt["accounts"].items() if count]
        watermark = [f"watermark {bolt['watermark']}"] if bolt["watermark"] else []
        say(console, _named(f"  {name}", ", ".join([*watermark, *accounts]) or "no events"), always=True)


def _tell(console: Console, done: Rollback) -> None:
    console.print(Text(f"The checkpoint is at the end of batch {done.batch}; the next run continues from there."))
    if done.moved:
        say(console, Text(f"{done.moved} files of what came after it are in {done.folder}"))
    for folder, (target, count) in done.sinks.items():
        say(console, Text(f"{count} files of {folder} are in {target}"))
    for words in done.warnings:
        warn(words)


def _as_json(done: Rollback) -> dict[str, Any]:
    return {
        "back_to": done.batch,
        "set_aside": {"folder": done.folder, "files": done.moved},
        "sinks": [{"folder": folder, "set_aside": at, "files": n} for folder, (at, n) in done.sinks.items()],
        "warnings": done.warnings,
    }


def _named(name: str, value: str) -> Text:
    return Text.assemble((name, "bold"), ": ", value)


def _size(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"
