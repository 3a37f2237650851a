"""The command ``windbolt``."""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from topologies.cli.checkpoint_commands import checkpoint, rescale, reset, savepoint, state, ui, why
from topologies.cli.demo import demo
from topologies.cli.new import new
from topologies.cli.replay import replay
from topologies.cli.run import check, describe, run
from topologies.run.options import PAGE_PORT

_ADDRESS = re.compile(r"(\S*:)?\d+")


def with_page_port(args: Sequence[str]) -> list[str]:
    """Returns the words of a command with a port behind each ``--ui`` that has none: it may stand alone."""
    following = [*args, ""][1:]
    return [
        word
        for given, after in zip(args, following, strict=True)
        for word in ([given, str(PAGE_PORT)] if given == "--ui" and not _ADDRESS.fullmatch(after) else [given])
    ]


class Command(TyperCommand):
    """A command that takes each option once: of two values the last would silently win."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Called with the words after the command."""
        args = with_page_port(args)
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        times = Counter(each.name for each in given if each.param_type_name == "option" and not each.multiple)
        for each in given:
            if times[each.name] > 1 and not ctx.resilient_parsing:
                raise typer.BadParameter(
                    f"it is given {'twice' if times[each.name] == 2 else 'several times'}, "
                    "and only one of them could count; leave the others out.",
                    ctx=ctx,
                    param_hint=" / ".join(each.opts),
                )
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed


app = typer.Typer(
    name="windbolt",
    help="Windowed bolts, as Apache Storm has them, in Python, on Spark.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(cls=Command)(demo)
app.command(cls=Command)(new)
app.command(cls=Command)(run)
app.command(cls=Command)(replay)
app.command(cls=Command)(describe)
app.command(cls=Command)(check)
app.command(cls=Command)(checkpoint)
app.command(cls=Command)(rescale)
app.command(cls=Command)(reset)
app.command(cls=Command)(why)
app.command(cls=Command)(state)
app.command(cls=Command)(savepoint)
app.command(cls=Command)(ui)


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
