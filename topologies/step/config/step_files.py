"""Loads a step: its file, overlays, single assignments, and a check of the result."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from topologies.io.documents.document_errors import dotted, explain
from topologies.io.documents.showing import brief
from topologies.step.config.connecting import KafkaSource, same_servers
from topologies.step.config.file_problems import StepConfigError, StepProblem
from topologies.step.config.formats import CsvSection
from topologies.step.config.merge_files import SET, Merged, assigned
from topologies.step.config.read_files import ENDINGS, read_tree, with_folders
from topologies.step.config.step_model import Location, Step, StepConfig

Further = Callable[[StepConfig], Iterable[StepProblem]]


def is_step(reference: str) -> bool:
    """Whether a reference names the file of a step, by its suffix."""
    return reference.lower().endswith(ENDINGS)


def load_step(
    path: str | os.PathLike[str],
    *,
    overlays: Sequence[str | os.PathLike[str]] = (),
    assignments: Mapping[str, str] | None = None,
    further: Further | None = None,
) -> StepConfig:
    """Load the step of a file (HOCON, YAML or JSON, by its suffix).

    ``overlays`` are files laid over it, in order: mappings merge unless their ``type`` differs, other values are
    replaced, ``null`` removes one. ``assignments`` are laid over these: ``{"trigger.timeout": "5s"}``, with values read
    as HOCON. Relative paths are relative to the folder of the file that contains them (included files belong to the
    including one), and to the current folder in assignments. Files that the step names are not read here, but
    ``further`` may check them: it is given the step, or as much of it as is valid, and its problems are reported with
    the rest.

    Raises StepConfigError with all problems.
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
    return _checked(Path(path), merged, further)


def step_from(tree: Mapping[str, Any], folder: Path) -> StepConfig:
    """The step that a mapping describes, with paths relative to a folder. Raises StepConfigError as ``load_step``
    does."""
    merged = Merged("step")
    merged.lay(with_folders(tree, folder.absolute()), "step")
    return _checked(folder / "step", merged)


def _checked(path: Path, merged: Merged, further: Further | None = None) -> StepConfig:
    """The step. Raises StepConfigError with all problems: in its sections, between them, and with what they name."""
    problems: list[StepProblem] = []
    broken: list[str] = []
    if (deep := _depth(merged.tree)) > _DEEPEST:
        text = f"expected a chain of at most {_DEEPEST} steps, found {deep}"
        raise StepConfigError(path, [StepProblem(str(path), "", text)])
    try:
        config = StepConfig.model_validate(merged.tree)
    except ValidationError as error:
        explained = explain(error, StepConfig)
        found_in = [_section(merged.tree, problem.path) for problem in explained]
        problems += [StepProblem(merged.origin(each.path), dotted(each.path), each.text) for each in explained]
        broken = [dotted(location) for location in found_in]
        config = StepConfig.model_validate(_without(merged.tree, found_in))
    config._file = path
    further_problems = [*_mismatches(config, merged, broken), *(further(config) if further else ())]
    problems += [
        problem for problem in further_problems if not any(_lies_in(problem.path, location) for location in broken)
    ]
    if problems:
        raise StepConfigError(path, problems)
    return config


_DEEPEST = 50
"""Maximum number of nested steps: each is three bolts of one topology, one after another in every batch."""


def _depth(tree: object) -> int:
    """The maximum nesting depth of steps."""
    deepest, waiting = 0, [(tree, 1)]
    while waiting:
        step, depth = waiting.pop()
        if not isinstance(step, Mapping):
            continue
        deepest = max(deepest, depth)
        branches = step.get("branches")
        further = [step.get("destination"), step.get("error"), *(branches if isinstance(branches, list) else ())]
        waiting += [(child, depth + 1) for child in further if _is_step(child)]
    return deepest


_PLACEHOLDERS: Mapping[str, Any] = {
    "type": "aggregation",
    "format": {"input": "json", "output": "json"},
    "key": {"type": "key"},
    "trigger": {"type": "count", "count": 1, "timeout": 1},
    "dsl": {"path": "rules.py"},
    "destination": {"name": "output", "topic": "output", "config": {"name": "output"}},
}
"""Placeholders for invalid sections, so that the others can be checked; other sections have none."""


def _section(tree: Mapping[str, Any], path: Location) -> Location:
    """The section of a step that contains a place: the steps around it are checked nevertheless."""
    if not path:
        return path
    inner: Any = tree.get(str(path[0]))
    match path:
        case ("branches", int(at), *_) if isinstance(inner, list):
            inner, length = inner[at], 2
        case ("destination" | "error", _, *_):
            length = 1
        case _:
            return path[:1]
    return (*path[:length], *_section(inner, path[length:])) if _is_step(inner) else path[:length]


def _is_step(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "aggregation"


def _without(tree: Mapping[str, Any], broken: Collection[Location]) -> dict[str, Any]:
    """The tree with placeholders for its invalid sections."""
    whole = deepcopy(dict(tree))
    for index, location in enumerate(sorted(set(broken), key=len)):
        *before, name = location
        within: Any = whole
        for part in before:
            within = within[part]
        if isinstance(name, int):
            within[name] = {**_PLACEHOLDERS["destination"], "name": f"output {index}"}
        elif name == "name":
            within[name] = f"step {index}"
        elif name in _PLACEHOLDERS:
            within[name] = deepcopy(_PLACEHOLDERS[name])
        else:
            within.pop(name, None)
    return whole


def _lies_in(path: str, place: str) -> bool:
    """Whether a place of the file lies within another one, or equals it."""
    return path == place or path.startswith((f"{place}.", f"{place}["))


def _mismatches(config: StepConfig, merged: Merged, broken: Collection[str] = ()) -> Iterator[StepProblem]:
    """Inconsistencies: names, formats, types of connections, and loops. ``broken``: places that hold placeholders."""
    for path, text in (*_same_names(config), *_misfits(config, broken), *_loops(config), *_other_types(config)):
        yield StepProblem(merged.origin(path), dotted(path), text)


def _same_names(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Steps of equal names: their windows, counts and errors could not be distinguished."""
    seen: dict[str, Location] = {}
    for location, step in config.steps:
        if step.name in seen:
            other = dotted(seen[step.name]) or "the first step"
            yield (*location, "name"), f"expected a name of its own, found {brief(step.name)}, which is that of {other}"
        seen.setdefault(step.name, location)


def _misfits(config: StepConfig, broken: Collection[str]) -> Iterator[tuple[Location, str]]:
    """Steps that can read nothing of their input. Those for errors also get messages that were unreadable elsewhere."""
    for location, step in config.steps:
        for way, to in step.ways:
            if not isinstance(to, Step) or way == ("error",) or dotted((*location, "format")) in broken:
                continue
            made, read = step.format.output, to.format.input
            if {made.type, read.type} == {"json", "xml"}:
                yield (
                    (*location, *way, "format", "input"),
                    f"expected {made.type}, which is what {step.name} writes, found {read.type}",
                )
            elif isinstance(made, CsvSection) and isinstance(read, CsvSection):
                fields = len(made.field_names), len(read.field_names)
                if made.column_separator == read.column_separator and fields[0] != fields[1]:
                    text = f"expected {fields[0]} fields, as {step.name} writes them, found {fields[1]}"
                    yield (*location, *way, "format", "input", "fieldNames"), text


def _other_types(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Connections whose type differs from what their users expect."""
    uses = [(("source", "config"), config.source.config)] if config.source and config.source.type == "kafka" else []
    for path, use in uses:
        connection = config.connections.get(use.name)
        if connection is not None and connection.type != use.type:
            yield (
                path,
                f"expected a connection of type {use.type}, found {use.name}, which is of type {connection.type}",
            )


def _loops(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Destinations that the first step itself reads: each message would produce another one, without end."""
    source = config.source
    if config.allow_loops or not isinstance(source, KafkaSource):
        return
    for location, destination in config.destinations:
        if destination.topic in source.topics and same_servers(
            config.connections, source.config.name, destination.config.name
        ):
            text = f"expected a topic that the step does not read itself, found {destination.topic!r}: a loop"
            yield (*location, "topic"), f"{text}; if it is meant to be, say allowLoops: true"
