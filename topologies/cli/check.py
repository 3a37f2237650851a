"""``windbolt check``: whether a topology or a step can run, and all that is wrong with it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.running import loaded
from topologies.cli.step_options import NoFileRules, Set, StepOptions, With
from topologies.cli.terminal.consoles import out, say
from topologies.cli.terminal.failing import FAILED, Debug, in_words, readable_errors
from topologies.step.config import StepConfigError, is_step
from windowing.errors import ConfigError, TopologyError


def check(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="FILE:NAME",
            help="A topology: my_topology.py:topology, package.module:topology, or a step: step.conf.",
        ),
    ],
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    load: Annotated[
        bool,
        typer.Option(
            "--load", help="Of a step, load the rules too, as a run does: the top level of their files is run."
        ),
    ] = False,
    strict: Annotated[bool, typer.Option("--strict", help="A warning about a topology is an error.")] = False,
    debug: Debug = False,
) -> None:
    """Check a topology or a step, without running it.

    A topology: all that build() checks, the first rows of its sources, the folders of its sinks. A step: its file, its
    rules and their functions, schemas, times of day; of rules the text is looked at, and with --load their files are
    loaded.

    Exit status 0 where all is well, 1 where something is wrong.
    """
    options = StepOptions.of(overlays, assignments, no_file_rules)
    with readable_errors(debug=debug):
        try:
            if load and not is_step(reference):
                raise ConfigError(
                    f"--load with {reference!r}",
                    why="it is for the rules of steps",
                    do="leave it out, a topology is loaded",
                )
            well = _step(reference, options, load=load) if is_step(reference) else _topology(reference, options, strict)
        except (StepConfigError, TopologyError) as error:
            if debug:
                raise
            step = is_step(reference)
            say(out(), Text(str(error).rstrip(".")) if step else in_words(error))
            raise typer.Exit(FAILED) from None
    if not well:
        raise typer.Exit(FAILED)


def _step(reference: str, options: StepOptions, *, load: bool) -> bool:
    from topologies.step.checking import step_problems
    from topologies.step.compile_step import step_topology
    from topologies.step.describe_step import summary
    from topologies.step.missing import missing

    with redirect_stdout(sys.stderr):  # what rules print as they are loaded is no result
        config = options.load(reference, lambda config: step_problems(config, load=load))
        if not missing(config):
            step_topology(config, load=load)
    say(out(), Text(summary(config)))
    return True


def _topology(reference: str, options: StepOptions, strict: bool) -> bool:
    from topologies.cli.terminal.check_report import print_report

    return print_report(out(), loaded(reference, options), strict=strict)
