"""``windbolt state``: what a checkpoint holds, as tables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import Debug, readable_errors
from windowing.data.printable import printable
from windowing.errors import ConfigError
from windowing.time.timestamps import show

if TYPE_CHECKING:
    import pyarrow as pa

    from topologies.state_tables.stored_state import StoredState

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
    from topologies.state_tables import read_state

    with readable_errors(debug=debug):
        if form is not None and to is None:
            raise ConfigError(f"--format {form}", why="it is that of files", do="say where these go: --to FOLDER")
        if to is not None and not to.strip():
            raise ConfigError(
                "--to ''", why="it names no folder", do="name the folder of the files, such as --to tables"
            )
        if bolt is None:
            given = {"--table": table, "--task": task, "--key": key, "--since": since, "--until": until, "--to": to}
            _refuse_without_bolt([name for name, value in given.items() if value is not None])
            _tell_bolts(read_state.bolts(folder, batch=batch), as_json=as_json)
            return
        found = read_state.read(folder, bolt, task=task, key=key, since=since, until=until, batch=batch)
        if table is not None:
            found = found.only(table)
        if to is not None:
            paths = found.write(to, form or "parquet")  # type: ignore[arg-type]  # it is checked there
            typer.echo(json.dumps(paths) if as_json else printable("\n".join(paths), keep="\n"))
        elif as_json:
            typer.echo(json.dumps(found.to_json(), indent=2))
        else:
            _tell(out(), found, rows)


def _refuse_without_bolt(given: list[str]) -> None:
    if given:
        raise ConfigError(
            f"{given[0]} without a bolt",
            why="tables are those of one windowed bolt",
            do="name the bolt after the folder",
        )


def _tell_bolts(table: pa.Table, *, as_json: bool) -> None:
    from topologies.io.formats.write_table import json_rows

    if as_json:
        typer.echo(json.dumps({"bolts": json_rows(table)}, indent=2))
    elif table.num_rows:
        _print(out(), table, table.num_rows)
    else:
        out().print(Text("No batch has been committed."))


def _tell(console: Console, found: StoredState, rows: int) -> None:
    if not found.tables:
        console.print(Text("No batch has been committed."))
        return
    clock = "" if found.clock is None else f", by the clock at {show(found.clock)}"
    say(console, Text(f"{found.bolt} after batch {found.batch}{clock}"))
    for name, table in found.tables.items():
        count = "1 row" if table.num_rows == 1 else f"{table.num_rows:,} rows"
        say(console, Text.assemble((f"\n{name}", "bold"), f": {count}"))
        if table.num_rows:
            _print(console, table, rows)


def _print(console: Console, table: pa.Table, rows: int) -> None:
    """The first rows, without columns in which nothing stands. Where the terminal is too narrow for all columns they
    come as several tables, each of which begins with the first column."""
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
    """The columns in groups that fit a line, the first column in each; one that is too wide is in a group alone."""
    first, *others = columns
    groups, used = [[first]], _width(first)
    for column in others:
        if used + _width(column) > width and len(groups[-1]) > 1:
            groups.append([first])
            used = _width(first)
        groups[-1].append(column)
        used += _width(column)
    return groups


def _width(column: list[str]) -> int:
    return 2 + max(map(len, column))


def _cell(value: object) -> str:
    from datetime import datetime

    if value is None:
        return "-"
    if isinstance(value, datetime):
        return value.isoformat().replace("+00:00", "Z")
    return printable(str(value))[:60]
