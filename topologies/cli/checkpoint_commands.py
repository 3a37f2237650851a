"""The commands for stored runs: ``checkpoint``, ``rescale``, ``reset``, ``savepoint``, ``state``, ``ui``, ``why``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from manager.storage.manifest import batch_name, key_of_batch_name
from topologies.cli.consoles import FAILED, Debug, out, readable_errors, say, warn
from topologies.cli.run import AssignmentOption, NoFileRules, OverlayOption, StepOptions, interrupts, tell_page
from topologies.run.options import PAGE_PORT, address_of
from windowing.errors import ConfigError
from windowing.reprs import printable
from windowing.timestamps import show

if TYPE_CHECKING:
    import pyarrow as pa

    from topologies.checkpoints.going_back import BatchInspection, CheckpointInspection, Rollback
    from topologies.checkpoints.rescale import Rescaled
    from topologies.checkpoints.stored_tasks import StoredState


# ``windbolt checkpoint``: the content and integrity of a checkpoint, and going back to an earlier batch.


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
    deleted. It may be interrupted, and begun again. Exit status 0 if all is whole, 1 if something is damaged, 2 if
    there is no checkpoint, it is in use, or that batch cannot be gone back to.
    """
    from topologies.checkpoints.going_back import go_back, inspect
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint

    with readable_errors(debug=debug):
        halves = PairedCheckpoint(folder)
        halves.check_found()
        if back_to is None:
            halves.lock.share()
            inspection = inspect(halves)
            typer.echo(json.dumps(inspection.to_json(), indent=2)) if as_json else _show(out(), inspection)
            if inspection.damage or inspection.refused:
                raise typer.Exit(FAILED)
            return
        key = key_of_batch_name(back_to)
        if key is None:
            raise ConfigError(
                f"--back-to {back_to!r}",
                why="that is not a batch",
                do="give a number, such as 7, or 7-close for the closing after it",
            )
        halves.lock.take()
        rollback = go_back(halves, key)
        typer.echo(json.dumps(_rollback_as_json(rollback), indent=2)) if as_json else _tell_rollback(out(), rollback)


def _show(console: Console, inspection: CheckpointInspection) -> None:
    say(console, _labelled(f"checkpoint {inspection.path}", _size(inspection.size)))
    say(console, _labelled("  topology", inspection.topology or "not known"))
    if inspection.query is not None:
        planned, last_done = inspection.spark_batches or (-1, -1)
        say(console, _labelled("  query", f"{inspection.query}, batch {last_done} done, {planned} planned"))
    for sink in inspection.sinks:
        say(console, _labelled("  sink", f"{sink['name']}: {sink.get('folder', sink.get('table', sink['kind']))}"))
    for batch in inspection.batches:
        _show_batch(console, batch)
    if not inspection.batches:
        console.print(Text("  no batch has been committed"))
    if inspection.planned:
        say(console, _labelled("  begun, not committed", ", ".join(inspection.planned)))
    for what, why in inspection.damage:
        say(console, Text.assemble(("damaged: ", "bold red"), what, ("\n  why: ", "cyan"), why))
    if inspection.refused:
        say(
            console,
            Text.assemble(
                ("no run will continue: ", "bold red"), inspection.refused, ("\n  do:  ", "cyan"), inspection.advice
            ),
        )
    elif inspection.damage:
        console.print(Text("What a run needs to continue is whole."))
    else:
        console.print(Text("Every file is whole.", "green"))


def _show_batch(console: Console, batch: BatchInspection) -> None:
    """Prints a line for a batch, and one for each bolt."""
    state = f"{batch.sections} section{'' if batch.sections == 1 else 's'}, {_size(batch.size)}"
    say(console, _labelled(f"batch {batch.name}", "cannot be gone back to" if batch.trouble else state))
    for name, bolt in batch.to_json()["bolts"].items():
        accounts = [f"{account} {count:,}" for account, count in bolt["accounts"].items() if count]
        watermark = [f"watermark {bolt['watermark']}"] if bolt["watermark"] else []
        say(console, _labelled(f"  {name}", ", ".join([*watermark, *accounts]) or "no events"), always=True)


def _tell_rollback(console: Console, rollback: Rollback) -> None:
    console.print(Text(f"The checkpoint is at the end of batch {rollback.batch}; the next run continues from there."))
    if rollback.moved:
        say(console, Text(f"{rollback.moved} files of what came after it are in {rollback.folder}"))
    for folder, (target, count) in rollback.sinks.items():
        say(console, Text(f"{count} files of {folder} are in {target}"))
    for words in rollback.warnings:
        warn(words)


def _rollback_as_json(rollback: Rollback) -> dict[str, Any]:
    return {
        "back_to": rollback.batch,
        "set_aside": {"folder": rollback.folder, "files": rollback.moved},
        "sinks": [{"folder": folder, "set_aside": at, "files": n} for folder, (at, n) in rollback.sinks.items()],
        "warnings": rollback.warnings,
    }


def _labelled(name: str, value: str) -> Text:
    return Text.assemble((name, "bold"), ": ", value)


def _size(size: int) -> str:
    for unit, scale in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.1f} {unit}"
    return f"{size} bytes"


# ``windbolt rescale``: changes the numbers of tasks in a checkpoint.


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
    overlays: OverlayOption = None,
    assignments: AssignmentOption = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Move what the tasks of bolts keep to another number of tasks, while no run is on.

    From then on the output is that of a run that always had these numbers. The next run must have a topology with the
    same numbers. What cannot be moved is named, and nothing is written: exit status 2. A run on a checkpoint in an
    object store or in HDFS, if no lock keeps it off, stops.
    """
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
    from topologies.checkpoints.rescale import move_tasks
    from topologies.cli.run import load_reference

    with readable_errors(debug=debug):
        wanted = parse_parallelism(parallelism)
        step_options, topology = StepOptions.of(overlays, assignments, no_file_rules), None
        if reference is not None:
            topology = load_reference(reference, step_options)
        else:
            step_options.refuse_without_step()
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.take()
        rescaled = move_tasks(halves, wanted, topology)
        if as_json:
            typer.echo(json.dumps(_rescaled_as_json(rescaled), indent=2))
            return
        _tell_rescaled(rescaled)


def parse_parallelism(options: Sequence[str]) -> dict[str, int]:
    """Returns numbers of tasks from the command line."""
    wanted: dict[str, int] = {}
    for option in options:
        name, sign, number = option.rpartition("=")
        if not sign or not name or not number.strip().isdecimal():
            raise ConfigError(
                f"--parallelism {option!r}",
                why="it names a bolt and a number of tasks",
                do="write --parallelism revenue=16",
            )
        if name in wanted:
            raise ConfigError(
                f"--parallelism names {name!r} twice", why="only one number can be meant", do="leave one of them out"
            )
        wanted[name] = int(number)
    return wanted


def _tell_rescaled(rescaled: Rescaled) -> None:
    console = out()
    for name, (before, now) in rescaled.tasks.items():
        say(
            console,
            Text(f"{name}: {before} tasks before, {now} now; {rescaled.events.get(name, 0):,} stored rows moved"),
        )
    if not rescaled.tasks:
        console.print(Text("The bolts already have these numbers of tasks; nothing was changed."))
        return
    after = f"after batch {batch_name(rescaled.batch)}" if rescaled.batch else "before the first batch"
    say(console, Text(f"This is the state {after}; the next run continues from there."))


def _rescaled_as_json(rescaled: Rescaled) -> dict[str, object]:
    return {
        "batch": batch_name(rescaled.batch) if rescaled.batch else None,
        "bolts": {
            name: {"before": before, "tasks": now, "rows": rescaled.events.get(name, 0)}
            for name, (before, now) in rescaled.tasks.items()
        },
    }


# ``windbolt reset``: resets bolts of a checkpoint, to another topology.


def reset(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    bolts: Annotated[list[str], typer.Argument(metavar="BOLT...", help="The windowed bolts that start over.")],
    reference: Annotated[
        str, typer.Option("--topology", metavar="FILE:NAME", help="The topology that continues, as it is now.")
    ],
    overlays: OverlayOption = None,
    assignments: AssignmentOption = None,
    no_file_rules: NoFileRules = False,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object.")] = False,
    debug: Debug = False,
) -> None:
    """Let bolts start over whose windows, columns or groupings have changed, while no run is on; the rest continues.

    Also for bolts that are new in the topology, or gone. Their events that were in no window yet are purged. If this is
    interrupted, no run begins, and the same command completes it. A run on a checkpoint in an object store or in HDFS,
    if no lock keeps it off, stops.
    """
    from topologies.checkpoints.going_back import reset_bolts
    from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
    from topologies.cli.run import load_reference

    with readable_errors(debug=debug):
        topology = load_reference(reference, StepOptions.of(overlays, assignments, no_file_rules))
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.take()
        result = reset_bolts(halves, list(dict.fromkeys(bolts)), topology)
        if as_json:
            fields = {"batch": result.batch, "discarded": result.discarded, "warnings": result.warnings}
            typer.echo(json.dumps(fields, indent=2))
            return
        for words in result.warnings:
            warn(words)
        for name, events in result.discarded.items():
            say(out(), Text(f"{name}: starts over; {events:,} events that were in no window yet are purged"))
        after = "before the first batch" if result.batch is None else f"after batch {result.batch}"
        say(out(), Text(f"This is the state {after}; the next run continues from there."))


# ``windbolt savepoint``: copies the state of a checkpoint to another place.


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
    from topologies.checkpoints.savepoint import take_savepoint

    with readable_errors(debug=debug):
        folders = [_parse_moved(each) for each in moved or ()]
        halves = PairedCheckpoint(folder)
        halves.check_found()
        halves.lock.share()
        result = take_savepoint(halves, target, folders)
        if as_json:
            typer.echo(
                json.dumps({"savepoint": result.path, "batch": result.batch, **_size_fields(asdict(result))}, indent=2)
            )
            return
        files = "1 file" if result.segments == 1 else f"{result.segments:,} files"
        say(
            out(),
            Text(f"The state after batch {result.batch} is in {result.path}: {files} of rows, {result.size:,} bytes."),
        )
        say(out(), Text("A run continues from it with --checkpoint; this checkpoint is as it was."))


def _size_fields(values: dict[str, object]) -> dict[str, object]:
    return {"segments": values["segments"], "bytes": values["size"]}


def _parse_moved(option: str) -> tuple[str, str]:
    before, sign, now = option.partition("=")
    if not sign or not before.strip() or not now.strip():
        raise ConfigError(
            f"--moved {option!r}",
            why="it names where input files were, and where they are",
            do="write --moved /data/in=s3a://bucket/in",
        )
    return before, now


# ``windbolt state``: the content of a checkpoint as tables.


_ROWS = 20


def state(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    bolt: Annotated[
        str | None, typer.Argument(metavar="[BOLT]", help="A windowed bolt; without one, a line for each bolt.")
    ] = None,
    table: Annotated[str | None, typer.Option(metavar="NAME", help="Only this table, such as windows.")] = None,
    task: Annotated[int | None, typer.Option(metavar="N", help="Only of this task, from 0 on.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Only of this key; of several columns with commas between them.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only events, and ends of windows, from this time on (ISO 8601).")
    ] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Only those before this time.")] = None,
    batch: Annotated[
        str | None, typer.Option(metavar="BATCH", help="After an earlier batch that is kept: 7, or 7-close.")
    ] = None,
    rows: Annotated[int, typer.Option(metavar="N", min=0, help="Maximum number of rows shown of a table.")] = _ROWS,
    to: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Write each table as a file of this folder, all of its rows.")
    ] = None,
    form: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help="Of these files: parquet (default), csv, jsonl, arrow."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As one JSON object, with all rows.")] = False,
    debug: Debug = False,
) -> None:
    """Show what a checkpoint holds: open windows, keys, events, the state of bolts; or write it to files (--to).

    Nothing is changed, and a run on the checkpoint may be in progress.
    """
    from topologies.checkpoints import state_tables

    with readable_errors(debug=debug):
        if form is not None and to is None:
            raise ConfigError(f"--format {form}", why="it is that of files", do="say where these go: --to FOLDER")
        if to is not None and not to.strip():
            raise ConfigError(
                "--to ''", why="it names no folder", do="name the folder of the files, such as --to tables"
            )
        if bolt is None:
            bolt_options = {
                "--table": table,
                "--task": task,
                "--key": key,
                "--since": since,
                "--until": until,
                "--to": to,
            }
            _refuse_without_bolt([name for name, value in bolt_options.items() if value is not None])
            _tell_bolts(state_tables.bolts(folder, batch=batch), as_json=as_json)
            return
        stored = state_tables.read(folder, bolt, task=task, key=key, since=since, until=until, batch=batch)
        if table is not None:
            stored = stored.only(table)
        if to is not None:
            paths = stored.write(to, form or "parquet")  # type: ignore[arg-type]  # it is checked there
            typer.echo(json.dumps(paths) if as_json else printable("\n".join(paths), keep="\n"))
        elif as_json:
            typer.echo(json.dumps(stored.to_json(), indent=2))
        else:
            _tell_state(out(), stored, rows)


def _refuse_without_bolt(options: list[str]) -> None:
    if options:
        raise ConfigError(
            f"{options[0]} without a bolt",
            why="tables are those of one windowed bolt",
            do="name the bolt after the folder",
        )


def _tell_bolts(table: pa.Table, *, as_json: bool) -> None:
    from topologies.io.formats.write_table import json_rows

    if as_json:
        typer.echo(json.dumps({"bolts": json_rows(table)}, indent=2))
    elif table.num_rows:
        _print_table(out(), table, table.num_rows)
    else:
        out().print(Text("No batch has been committed."))


def _tell_state(console: Console, stored: StoredState, rows: int) -> None:
    if not stored.tables:
        console.print(Text("No batch has been committed."))
        return
    clock = "" if stored.clock is None else f", by the clock at {show(stored.clock)}"
    say(console, Text(f"{stored.bolt} after batch {stored.batch}{clock}"))
    for name, table in stored.tables.items():
        count = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        say(console, Text.assemble((f"\n{name}", "bold"), f": {count}"))
        if table.num_rows:
            _print_table(console, table, rows)


def _print_table(console: Console, table: pa.Table, rows: int) -> None:
    """Prints the first rows, without empty columns. If the terminal is too narrow, prints several tables, each
    beginning with the first column."""
    shown = table.slice(0, rows)
    filled = [name for name in shown.column_names if shown.column(name).null_count < shown.num_rows]
    columns = [[name, *(_cell(value) for value in shown.column(name).to_pylist())] for name in filled]
    for number, group in enumerate(_side_by_side(columns, console.width) if console.is_terminal else [columns]):
        if number:
            console.print()
        for line in zip(*map(_aligned, group), strict=True):
            console.print(Text("  " + "  ".join(line).rstrip()), soft_wrap=True)
    if table.num_rows > rows:
        console.print(Text(f"  ... and {table.num_rows - rows:,} more (--rows, --to)"))


def _aligned(column: list[str]) -> list[str]:
    width = max(map(len, column))
    return [cell.ljust(width) for cell in column]


def _side_by_side(columns: list[list[str]], width: int) -> list[list[list[str]]]:
    """Returns the columns in groups that fit a line, each with the first column; a column that is too wide has its own
    group."""
    first, *others = columns
    groups, used = [[first]], _column_width(first)
    for column in others:
        if used + _column_width(column) > width and len(groups[-1]) > 1:
            groups.append([first])
            used = _column_width(first)
        groups[-1].append(column)
        used += _column_width(column)
    return groups


def _column_width(column: list[str]) -> int:
    return 2 + max(map(len, column))


def _cell(value: object) -> str:
    from datetime import datetime

    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return printable(str(value))[:60]


# ``windbolt ui``: a run's page, from its checkpoint.


def ui(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The checkpoint of runs, on either engine.")],
    port: Annotated[str, typer.Option(metavar="[HOST:]PORT", help="Where to serve the page.")] = str(PAGE_PORT),
    debug: Debug = False,
) -> None:
    """Show the runs on a checkpoint on a page in the browser, until Ctrl-C.

    A run on the checkpoint may be in progress.
    """
    from topologies.page.site import StoredRun, show_page

    with readable_errors(debug=debug):
        address = address_of(port, "the page")
        show_page(address, StoredRun(folder))
        with interrupts() as wait:
            tell_page(address, "the runs on the checkpoint, until Ctrl-C")
            wait()


# ``windbolt why``: explains from a checkpoint why a window has not fired.


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
    from topologies.checkpoints.why import why as explain

    with readable_errors(debug=debug):
        answer = explain(folder, bolt, key=key, window=window)
        typer.echo(json.dumps(answer.to_json(), indent=2) if as_json else printable(str(answer), keep="\n"))
