"""Command-line options that lay settings over a step's file, such as its surroundings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from topologies.step.config import StepConfig, StepProblem, is_step, load_step
from topologies.step.config.step_files import Further
from windowing.errors import ConfigError

With = Annotated[
    list[Path] | None,
    typer.Option("--with", metavar="FILE", help="A file laid over the step's; may be repeated."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="A.B=VALUE",
        help="A value laid over the step's; may be repeated. A text with special characters needs quotes of its own: "
        "--set 'trigger.time=\"11:05\"'.",
    ),
]
NoFileRules = Annotated[
    bool, typer.Option("--no-file-rules", help="Take rules from the path of Python's modules only, not from files.")
]


@dataclass(frozen=True)
class StepOptions:
    """The options of a step on the command line."""

    overlays: Sequence[Path] = ()
    assignments: Sequence[str] = ()
    file_rules: bool = True

    @classmethod
    def of(cls, overlays: list[Path] | None, assignments: list[str] | None, no_file_rules: bool) -> StepOptions:
        """The options from the values of the command line."""
        return cls(tuple(overlays or ()), tuple(assignments or ()), not no_file_rules)

    def load(self, reference: str, further: Further | None = None) -> StepConfig:
        """The step of a file, with these options laid over it; ``further`` as in ``load_step``."""
        if not is_step(reference):
            raise ConfigError(
                f"{reference!r} is not a step",
                why="a step is a file that ends in .conf, .hocon, .yaml, .yml or .json",
                do="name such a file; for a topology in Python use windbolt describe",
            )

        def looked(config: StepConfig) -> Iterable[StepProblem]:
            return () if further is None else further(self._allowed(config))

        pairs = _pairs(self.assignments)
        return self._allowed(load_step(reference, overlays=self.overlays, assignments=pairs, further=looked))

    def _allowed(self, config: StepConfig) -> StepConfig:
        return config if self.file_rules else config.without_file_rules()

    def refuse(self, reference: str) -> None:
        """Raise ConfigError if there are options for a step although the reference names a topology in Python."""
        self._refuse(f"with {reference!r}", do="leave them out")

    def refuse_without_step(self) -> None:
        """Raise ConfigError if there are options for a step although no file of one is named."""
        self._refuse("without a step", do="name its file with --topology, or leave them out")

    def _refuse(self, where: str, do: str) -> None:
        if self.overlays or self.assignments or not self.file_rules:
            raise ConfigError(
                f"--with, --set or --no-file-rules {where}",
                why="these options are for steps, whose files end in .conf, .hocon, .yaml, .yml or .json",
                do=do,
            )


NO_OPTIONS = StepOptions()


def _pairs(given: Sequence[str]) -> dict[str, str]:
    pairs = {}
    for assignment in given:
        key, sign, value = assignment.partition("=")
        if not sign or not key.strip():
            raise ConfigError(
                f"--set {assignment!r}", why="it takes a place and a value", do="write --set trigger.timeout=100"
            )
        pairs[key.strip()] = value
    return pairs
