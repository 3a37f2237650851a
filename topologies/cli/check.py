"""``windbolt check``: whether a step can run, and all that is wrong with it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.consoles import out
from topologies.cli.failing import FAILED, Debug, readable_errors
from topologies.cli.steps import NoFileRules, Set, StepOptions, With
from topologies.step.config import StepConfigError
from windowing.errors import TopologyError


def check(
    step: Annotated[str, typer.Argument(metavar="STEP", help="The file of a step: step.conf, step.yaml, step.json.")],
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    load: Annotated[
        bool, typer.Option("--load", help="Load the rules too, as a run does: the top level of their files is run.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Check a step: its file, its rules and their functions, schemas, times of day.

    Nothing is run: of rules the text is looked at. With --load their files are loaded, with all that these import.

    Exit status 0 where all is well, 1 where something is wrong.
    """
    from topologies.step.checking import step_problems
    from topologies.step.compile import step_topology
    from topologies.step.describing import summary
    from topologies.step.missing import missing

    options = StepOptions.of(overlays, assignments, no_file_rules)
    with readable_errors(debug=debug):
        try:
            with redirect_stdout(sys.stderr):  # what rules print as they are loaded is no result
                config = options.load(step, lambda config: step_problems(config, load=load))
                if not missing(config):
                    step_topology(config, load=load)
        except (StepConfigError, TopologyError) as error:
            if debug:
                raise
            out().print(Text(str(error).rstrip(".")), soft_wrap=True)
            raise typer.Exit(FAILED) from None
        out().print(Text(summary(config)), soft_wrap=True)
