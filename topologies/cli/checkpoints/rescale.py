"""``windbolt rescale``: other numbers of tasks for the bolts of a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from manager.storage.batch_keys import batch_name
from topologies.cli.step_options import NoFileRules, Set, StepOptions, With
from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import Debug, readable_errors
from windowing.errors import ConfigError

if TYPE_CHECKING:
    from topologies.checkpoints.rescaling.rescale import Rescaled


def rescale(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    parallelism: Annotated[
        list[str], typer.Option(metavar="BOLT=TASKS", help="A bolt and its number of tasks; may be repeated.")
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            "--topology", metavar="FILE:NAME", help="The topology, for bolts that move their state by a method."
        ),
    ] = None,
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Move what the tasks of bolts keep to another number of tasks, while no run is on.

    From then on the output is that of a run that always had these numbers. The next run must have a topology with
    the same numbers. What cannot be moved is named, and nothing is written: exit status 2. A run on a checkpoint in an
    object store or in HDFS, where no lock keeps it off, stops.
    """
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
    from topologies.checkpoints.rescaling.rescale import move_tasks
    from topologies.cli.running import loaded

    with readable_errors(debug=debug):
        wanted = tasks_of(parallelism)
        step_options, topology = StepOptions.of(overlays, assignments, no_file_rules), None
        if reference is not None:
            topology = loaded(reference, step_options)
        else:
            step_options.refuse_without_step()
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.take()
        done = move_tasks(halves, wanted, topology)
        if as_json:
            typer.echo(json.dumps(_as_json(done), indent=2))
            return
        _tell(done)


def tasks_of(given: Sequence[str]) -> dict[str, int]:
    """Numbers of tasks as the command line gives them."""
    wanted: dict[str, int] = {}
    for each in given:
        name, sign, number = each.rpartition("=")
        if not sign or not name or not number.strip().isdecimal():
            raise ConfigError(
                f"--parallelism {each!r}",
                why="it names a bolt and a number of tasks",
                do="write --parallelism revenue=16",
            )
        if name in wanted:
            raise ConfigError(
                f"--parallelism names {name!r} twice", why="only one number can be meant", do="leave one of them out"
            )
        wanted[name] = int(number)
    return wanted


def _tell(done: Rescaled) -> None:
    console = out()
    for name, (before, now) in done.tasks.items():
        say(console, Text(f"{name}: {before} tasks before, {now} now; {done.events.get(name, 0):,} stored rows moved"))
    if not done.tasks:
        console.print(Text("The bolts already have these numbers of tasks; nothing was changed."))
        return
    after = f"after batch {batch_name(done.batch)}" if done.batch else "before the first batch"
    say(console, Text(f"This is the state {after}; the next run continues from there."))


def _as_json(done: Rescaled) -> dict[str, object]:
    return {
        "batch": batch_name(done.batch) if done.batch else None,
        "bolts": {
            name: {"before": before, "tasks": now, "rows": done.events.get(name, 0)}
            for name, (before, now) in done.tasks.items()
        },
    }
