"""``windbolt check``: whether a step can run, and all that is wrong with it."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from typing import Annotated

import typer
from rich.text import Text

from topologies.commands.consoles import out
from topologies.commands.failing import FAILED, Debug, readable_errors
from topologies.commands.steps import NoFileRules, Set, StepOptions, With
from topologies.step.config import StepConfigError
from windowing.errors import TopologyError


def check(
    step: Annotated[str, typer.Argument(metavar="STEP", help="The file of a step: step.conf, step.yaml, step.json.")],
    overlays: With = None,
    assignments: Set = None,
    no_file_rules: NoFileRules = False,
    debug: Debug = False,
) -> None:
    """Check a step: its file, its rules and their functions, schemas, times of day. Nothing is run.

    Exit status 0 where all is well, 1 where something is wrong.
    """
    from topologies.step.building import step_topology
    from topologies.step.checking import step_problems
    from topologies.step.describing import summary
    from topologies.step.missing import missing

    options = StepOptions.of(overlays, assignments, no_file_rules)
    with readable_errors(debug=debug):
        try:
            config = options.load(step)
            with redirect_stdout(sys.stderr):  # what rules print as they are loaded is no result
                problems = step_problems(config)
                if problems:
                    raise StepConfigError(config.file, problems)
                if not missing(config):
                    step_topology(config)
        except (StepConfigError, TopologyError) as error:
            if debug:
                raise
            out().print(Text(str(error).rstrip(".")), soft_wrap=True)
            raise typer.Exit(FAILED) from None
        out().print(Text(summary(config)), soft_wrap=True)
