"""Loading a step: its file, further files over it, single values over these, and a check of what comes of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topologies.step.config.errors import StepConfigError, StepProblem
from topologies.step.config.explaining import dotted, explained
from topologies.step.config.merging import SET, Merged, assigned
from topologies.step.config.model import StepConfig
from topologies.step.config.reading import READERS, read_tree, with_folders

ENDINGS = tuple(READERS)
"""The endings of files that are steps."""


def is_step(reference: str) -> bool:
    """Whether a reference names the file of a step, by its ending."""
    return reference.lower().endswith(ENDINGS)


def load_step(
    path: str | os.PathLike[str],
    *,
    overlays: Sequence[str | os.PathLike[str]] = (),
    assignments: Mapping[str, str] | None = None,
) -> StepConfig:
    """The step of a file (HOCON, YAML or JSON, by its ending); StepConfigError with everything that is wrong.

    ``overlays`` are files laid over it, in order: mappings merge unless their ``type`` differs, other values are
    replaced, ``null`` takes one away.
    ``assignments`` are laid over these: ``{"trigger.timeout": "5s"}``, values read as HOCON. Relative paths are
    relative to the folder of the file that gives them (what it includes is part of it), and to the current folder in
    assignments. Files that the step names are not read here.
    """
    merged = Merged(str(path))
    problems: list[StepProblem] = []
    for file in (path, *overlays):
        try:
            merged.lay(read_tree(Path(file)), str(file))
        except StepConfigError as error:
            problems += error.problems
    for key, value in (assignments or {}).items():
        try:
            merged.lay(assigned(key, value), SET)
        except StepConfigError as error:
            problems += error.problems
    if problems:
        raise StepConfigError(path, problems)
    return _checked(Path(path), merged)


def step_from(tree: Mapping[str, Any], folder: Path) -> StepConfig:
    """The step that a mapping describes, with paths relative to a folder; StepConfigError as of ``load_step``."""
    merged = Merged("step")
    merged.lay(with_folders(tree, folder.absolute()), "step")
    return _checked(folder / "step", merged)


def _checked(path: Path, merged: Merged) -> StepConfig:
    try:
        config = StepConfig.model_validate(merged.tree)
    except ValidationError as error:
        raise StepConfigError(path, list(_problems(error, merged))) from None
    config._file = path
    problems = list(_mismatches(config, merged))
    if problems:
        raise StepConfigError(path, problems)
    return config


def _problems(error: ValidationError, merged: Merged) -> Iterator[StepProblem]:
    for details in error.errors():
        for each in explained(details):
            yield StepProblem(merged.origin(each.path), dotted(each.path), each.text)


def _mismatches(config: StepConfig, merged: Merged) -> Iterator[StepProblem]:
    """Names of connections that are of another type than their users believe."""
    uses = [(("source", "config"), config.source.config)] if config.source and config.source.type == "kafka" else []
    for path, use in uses:
        connection = config.connections.get(use.name)
        if connection is not None and connection.type != use.type:
            text = f"expected a connection of type {use.type}, found {use.name}, which is of type {connection.type}"
            yield StepProblem(merged.origin(path), dotted(path), text)
