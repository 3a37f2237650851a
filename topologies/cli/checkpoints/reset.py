"""``windbolt reset``: bolts of a checkpoint start over, by another topology."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.step_options import NoFileRules, Set, StepOptions, With
from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import Debug, readable_errors


def reset(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    bolts: Annotated[list[str], typer.Argument(metavar="BOLT...", help="The windowed bolts that start over.")],
    reference: Annotated[
        str, typer.Option("--topology", metavar="FILE:NAME", help="The topology that continues, as it is now.")
    ],
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Let bolts start over whose windows, columns or groupings have changed, while no run is on; the rest continues.

    Also for bolts that are new in the topology, or gone. Their events that were in no window yet are purged. If this is
    interrupted, no run begins, and the same command completes it. A run on a checkpoint in an object store or in HDFS,
    where no lock keeps it off, stops.
    """
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
    from topologies.checkpoints.resetting import reset_bolts
    from topologies.cli.running import loaded

    with readable_errors(debug=debug):
        topology = loaded(reference, StepOptions.of(overlays, assignments, no_file_rules))
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.take()
        done = reset_bolts(halves, list(dict.fromkeys(bolts)), topology)
        if as_json:
            typer.echo(json.dumps({"batch": done.batch, "discarded": done.discarded}, indent=2))
            return
        for name, events in done.discarded.items():
            say(out(), Text(f"{name}: starts over; {events:,} events that were in no window yet are purged"))
        after = "before the first batch" if done.batch is None else f"after batch {done.batch}"
        say(out(), Text(f"This is the state {after}; the next run continues from there."))
