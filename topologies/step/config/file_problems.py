"""Problems of a step's file: each with its place there, and all of them as one error."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from windowing.errors import ConfigError


@dataclass(frozen=True)
class StepProblem:
    """One thing that is wrong: ``step.conf: trigger.timeout: expected a time above zero, found -1``."""

    file: str
    """The file with the problem, or ``--set`` for the command line."""
    path: str
    """The place in the file, such as ``trigger.timeout``; empty for the file as a whole."""
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.path, self.text) if part)


class StepConfigError(ConfigError):
    """All problems of a step, reported together."""

    def __init__(self, file: str | os.PathLike[str], problems: Sequence[StepProblem]) -> None:
        self.file, self.problems = str(file), tuple(problems)
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        super().__init__(f"the step {self.file} cannot be used, {count}:\n{lines}")

    def __reduce__(self) -> tuple[type[StepConfigError], tuple[str, tuple[StepProblem, ...]]]:
        return StepConfigError, (self.file, self.problems)
