"""The command ``windbolt``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from topologies.cli.check import check
from topologies.cli.checkpoint import checkpoint
from topologies.cli.demo import demo
from topologies.cli.describe import describe
from topologies.cli.new import new
from topologies.cli.replay import replay
from topologies.cli.run import run

app = typer.Typer(
    name="windbolt",
    help="Windowed bolts, as Apache Storm has them, in Python, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(new)
app.command()(run)
app.command()(replay)
app.command()(describe)
app.command()(check)
app.command()(checkpoint)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            installed = version("windbolt")
        except PackageNotFoundError:
            installed = "(not installed)"
        typer.echo(f"windbolt {installed}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command; called by the ``windbolt`` script."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no reason to fail
    app(prog_name="windbolt")


if __name__ == "__main__":
    main()
