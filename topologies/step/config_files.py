"""The file of an aggregation step: reading, overlays, and all its problems at once."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from pydantic import Discriminator, Field, PrivateAttr, Tag, ValidationError, field_validator

from topologies.io.documents import brief, dotted, explain, kind_shown, load
from topologies.step.config import (
    Connection,
    CsvSection,
    Destination,
    Details,
    Flag,
    Formats,
    KafkaSource,
    KeySection,
    PathText,
    Place,
    Section,
    SourceSection,
    Text,
    TimeSetting,
    TriggerSection,
    Whole,
    at_most,
    same_servers,
)
from windowing.durations import millis
from windowing.errors import ConfigError

# Problems of a step's file, each with its place, reported as one error.


@dataclass(frozen=True)
class StepProblem:
    """One mistake: ``step.conf: trigger.timeout: expected a time above zero, found -1``."""

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


# Merges several files: later values replace earlier ones, and each value keeps its origin.


_HOCON_SIGNS, _HOCON_WORD = re.compile(r'["{}\[\]$\n]'), re.compile(r"\s*[-+.\w][-+.\w\s]*")
"""Match values of assignments that are HOCON: values with HOCON's signs, and numbers and words."""

SET = "--set"
"""The origin of values from the command line."""


class MergedTree:
    """The trees of several files, merged: mappings merge, other values are replaced.

    A mapping with another ``type`` also replaces. ``null`` removes the value of an earlier file.
    """

    def __init__(self, first: str) -> None:
        self.first = first
        self.tree: Tree = {}
        self._origins: dict[tuple[str, ...], str] = {}

    def overlay(self, tree: Mapping[str, Any], origin: str) -> None:
        """Lays a tree over the present one."""
        self._overlay(self.tree, tree, origin, ())

    def origin(self, path: tuple[str | int, ...]) -> str:
        """Returns the file with the value at a path, or with the mapping around it; the first file if there is none."""
        names = tuple(str(part) for part in path)
        for length in range(len(names), 0, -1):
            if names[:length] in self._origins:
                return self._origins[names[:length]]
        return self.first

    def _overlay(self, below: Tree, above: Mapping[str, Any], origin: str, at: tuple[str, ...]) -> None:
        for key, value in above.items():
            path = (*at, str(key))
            present = below.get(key)
            if value is None:
                below.pop(key, None)
                self._origins.pop(path, None)
            elif isinstance(value, Mapping):
                if not isinstance(present, dict) or _has_other_type(str(key), present, value):
                    present = below[key] = {}
                    self._origins[path] = origin
                self._overlay(present, value, origin, path)
            else:
                below[key] = value
                self._origins[path] = origin


def _has_other_type(key: str, present: Tree, value: Mapping[str, Any]) -> bool:
    """True if a mapping has another type than the mapping under it; a topic may omit its type."""
    before = present.get("type", "destination" if key in ("destination", "error") else None)
    return before is not None and "type" in value and before != value["type"]


def parse_assignment(key: str, value: str) -> Tree:
    """Returns an assignment, such as ``trigger.timeout`` and ``5s``, as a mapping.

    The value is read as HOCON, which includes JSON. A value without quotes, brackets, braces and references is plain
    text, so that ``localhost:9092`` needs no quotes within the quotes of the shell.
    """
    from topologies.io.hocon import HoconError, parse_hocon

    text = value if _HOCON_SIGNS.search(value) or _HOCON_WORD.fullmatch(value) else json.dumps(value.strip())
    try:
        tree = parse_hocon(f"{key} = {text}", Path.cwd())
    except HoconError as error:
        problem = StepProblem(SET, key, f"expected a value, found a mistake: {error}")
        raise StepConfigError(SET, [problem]) from None
    assignment: Tree = with_folders(tree, Path.cwd())
    return assignment


# Files of steps as plain mappings: HOCON, YAML and JSON.


Tree = dict[str, Any]

ENDINGS = (".conf", ".hocon", ".yaml", ".yml", ".json")
"""File suffixes of steps."""


def read_tree(path: Path) -> Tree:
    """Returns the content of a file, by its suffix. Every text under a key ``path`` remembers the folder of its file,
    to which it is relative.

    Raises StepConfigError, with line and column, if it cannot be read.
    """
    documents = list(load(path, ENDINGS))
    mistake = next((document.mistake for document in documents if document.mistake), "")
    if not mistake and len(documents) > 1:
        mistake = f"expected one document, found another at line {documents[1].line}"
    if mistake:
        raise _unreadable_error(path, mistake)
    content = documents[0].content if documents else None
    try:
        _ = json.dumps(content, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError as error:
        raise _unreadable_error(path, f"half a character, {error.object[error.start]!r}, is not text") from None
    except RecursionError:
        raise _unreadable_error(path, "it is nested too deep") from None
    if not isinstance(content, dict):
        raise _unreadable_error(
            path, f"expected a mapping with name, type, format and so on, found {kind_shown(content)}"
        )
    tree: Tree = with_folders(content, path.absolute().parent)
    return tree


def with_folders(value: Any, folder: Path) -> Any:
    """Returns the value; each text under a key ``path`` remembers its folder."""
    if isinstance(value, Mapping):
        return {
            str(key): PathText.of(item, folder)
            if key == "path" and isinstance(item, str)
            else with_folders(item, folder)
            for key, item in value.items()
        }
    return [with_folders(item, folder) for item in value] if isinstance(value, list) else value


def _unreadable_error(path: Path, text: str) -> StepConfigError:
    return StepConfigError(path, [StepProblem(str(path), "", text)])


# The model of a step's file (UH-1); names are those of the file, in Python's spelling.


Tasks = Annotated[Whole, at_most(1_000, "each task has state and work of its own in every batch")]


Location = tuple[str | int, ...]
"""A place in the file, such as ``("destination", "branches", 0)``; empty for the first step."""

T = TypeVar("T")


class Placed(NamedTuple, Generic[T]):
    """A part of the file, with its place."""

    place: Location
    part: T


def _kind(value: object) -> str:
    """Returns the kind of a section for a destination: a topic, unless its type is that of a step."""
    kind = value.get("type", "destination") if isinstance(value, Mapping) else getattr(value, "type", "destination")
    return kind if isinstance(kind, str) else brief(kind)


Next: TypeAlias = Annotated[
    Annotated[Destination, Tag("destination")] | Annotated["Step", Tag("aggregation")], Discriminator(_kind)
]
"""Destination of messages: a topic, or a further step of the same run (UH-32)."""


class Step(Section):
    """A step: its processing of messages, and their destinations. Further steps are such sections too."""

    name: Text = Field(description='what the step is called: name: "orders"')
    type: Literal["aggregation"] = Field(description='what the step does: type: "aggregation"')
    environment_variables: Place | None = None
    """A JSON file that rules see as loadedVariables (UH-29)."""
    format: Formats = Field(
        description='the formats of messages that come in and go out: format: {input: "json", output: "json"}'
    )
    key: KeySection = Field(
        description="how the key is computed by which events are gathered, such as key: {type: key}, "
        "{type: headers, keys: [shop]}, {type: hash} or {type: dsl, path: ...}"
    )
    trigger: TriggerSection = Field(
        description="when the gathered events of a key are aggregated, such as trigger: {type: count, count: 2, "
        "timeout: 100}, or one of type dsl, time or timeFromEvent"
    )
    dsl: Place = Field(description='where the rules are that aggregate the events: dsl: {source: "file", path: ...}')
    state_full: Flag = False
    """True if the rules' cache survives a restart (UH-30)."""
    destination: Next = Field(
        description='where the results go: destination: {name: "output", topic: "output", '
        'config: {type: "kafka", name: "output"}}, or a further step, of type "aggregation"'
    )
    error: Next | None = None
    """Destination of failed events (UH-31); without it they stop the run."""
    error_details: Details = "full"
    """Part of an exception in the reason of a failed event, because its text may contain parts of messages."""
    branches: list[Next] = Field(default_factory=list)
    """Destinations and steps that rules choose by name (BranchName, UH-32)."""
    parallelism: Tasks = 2
    """Number of tasks that share the keys."""
    rule_time_limit: TimeSetting = millis(5_000)
    """Longest duration of a call of the rules."""

    @property
    def targets(self) -> Iterator[tuple[Location, Destination | Step]]:
        """Yields the destinations of its messages, with their places in the step: the main one, the branches, and that
        of errors."""
        yield ("destination",), self.destination
        for index, branch in enumerate(self.branches):
            yield ("branches", index), branch
        if self.error is not None:
            yield ("error",), self.error

    @field_validator("branches")
    @classmethod
    def _distinct(cls, value: list[Next]) -> list[Next]:
        names = [branch.name for branch in value]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"expected names that differ, found {', '.join(map(repr, twice))} more than once")
        return value


class StepConfig(Step):
    """The whole file: the first step, the steps that follow it, and their input, connections and settings."""

    source: SourceSection | None = None
    connections: dict[str, Connection] = Field(default_factory=dict, repr=False)  # secret
    allow_loops: Flag = False
    """True if messages may be sent to topics that the step itself reads."""
    allow_file_rules: Flag = True
    """True if rules may be read from files; otherwise they come only from Python's module folders."""

    _file: Path = PrivateAttr(default_factory=Path)

    @property
    def file(self) -> Path:
        """The file that was loaded."""
        return self._file

    @property
    def steps(self) -> list[Placed[Step]]:
        """Returns all steps: the first one, each followed by its next steps: the main one, the branches, that of
        errors."""
        return list(_steps((), self))

    @property
    def destinations(self) -> list[Placed[Destination]]:
        """The topics to which messages finally go, step by step."""
        return [
            Placed((*location, *place), to)
            for location, step in self.steps
            for place, to in step.targets
            if isinstance(to, Destination)
        ]

    @property
    def last(self) -> tuple[Step, Destination]:
        """The last step in the chain of main destinations, and its topic."""
        step: Step = self
        while isinstance(step.destination, Step):
            step = step.destination
        return step, step.destination

    def without_file_rules(self) -> StepConfig:
        """Returns the step without permission to read rules from files."""
        return self.model_copy(update={"allow_file_rules": False})


def _steps(location: Location, step: Step) -> Iterator[Placed[Step]]:
    yield Placed(location, step)
    for place, to in step.targets:
        if isinstance(to, Step):
            yield from _steps((*location, *place), to)


# Loads a step: its file, overlays and single assignments; checks the result.


FurtherChecks = Callable[[StepConfig], Iterable[StepProblem]]


def names_step_file(reference: str) -> bool:
    """True if a reference names the file of a step, by its suffix."""
    return reference.lower().endswith(ENDINGS)


def load_step(
    path: str | os.PathLike[str],
    *,
    overlays: Sequence[str | os.PathLike[str]] = (),
    assignments: Mapping[str, str] | None = None,
    further: FurtherChecks | None = None,
) -> StepConfig:
    """Loads the step of a file (HOCON, YAML or JSON, by its suffix).

    ``overlays``: files laid over it, in order. Mappings merge unless their ``type`` differs, other values are replaced,
    and ``null`` removes one. ``assignments``: laid over these, ``{"trigger.timeout": "5s"}``, with values read as
    HOCON. Relative paths are relative to the folder of their file (included files belong to the including one), and in
    assignments to the current folder. Files that the step names are not read here, but ``further`` may check them: it
    gets the step, or its valid parts, and returns problems, which are reported with the rest.

    Raises StepConfigError with all problems.
    """
    merged = MergedTree(str(path))
    problems: list[StepProblem] = []
    for file in (path, *overlays):
        try:
            merged.overlay(read_tree(Path(file)), str(file))
        except StepConfigError as error:
            problems += error.problems
    for key, value in (assignments or {}).items():
        try:
            merged.overlay(parse_assignment(key, value), SET)
        except StepConfigError as error:
            problems += error.problems
    if problems:
        raise StepConfigError(path, problems)
    return _validated_step(Path(path), merged, further)


def step_from(tree: Mapping[str, Any], folder: Path) -> StepConfig:
    """Returns the step in a mapping, with paths relative to a folder. Raises StepConfigError as ``load_step`` does."""
    merged = MergedTree("step")
    merged.overlay(with_folders(tree, folder.absolute()), "step")
    return _validated_step(folder / "step", merged)


def _validated_step(path: Path, merged: MergedTree, further: FurtherChecks | None = None) -> StepConfig:
    """Returns the step. Raises StepConfigError with all problems: in its sections, between them, and with the files
    that they name."""
    problems: list[StepProblem] = []
    broken: list[str] = []
    if (nested := _depth(merged.tree)) > _MOST_NESTED:
        text = f"expected a chain of at most {_MOST_NESTED} steps, found {nested}"
        raise StepConfigError(path, [StepProblem(str(path), "", text)])
    try:
        config = StepConfig.model_validate(merged.tree)
    except ValidationError as error:
        explained = explain(error, StepConfig)
        broken_sections = [_section_of(merged.tree, problem.path) for problem in explained]
        problems += [StepProblem(merged.origin(each.path), dotted(each.path), each.text) for each in explained]
        broken = [dotted(location) for location in broken_sections]
        config = StepConfig.model_validate(_with_placeholders(merged.tree, broken_sections))
    config._file = path
    further_problems = [*_mismatches(config, merged, broken), *(further(config) if further else ())]
    problems += [
        problem for problem in further_problems if not any(_lies_in(problem.path, location) for location in broken)
    ]
    if problems:
        raise StepConfigError(path, problems)
    return config


_MOST_NESTED = 50
"""Most nested steps: each is three bolts of one topology, one after another in every batch."""


def _depth(tree: object) -> int:
    """Returns the maximum nesting depth of steps."""
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
"""Placeholders for invalid sections, so that the others can be checked; other kinds of section have none."""


def _section_of(tree: Mapping[str, Any], path: Location) -> Location:
    """Returns the section of a step that contains a place; the steps around it can still be checked."""
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
    return (*path[:length], *_section_of(inner, path[length:])) if _is_step(inner) else path[:length]


def _is_step(value: object) -> bool:
    return isinstance(value, Mapping) and value.get("type") == "aggregation"


def _with_placeholders(tree: Mapping[str, Any], broken: Collection[Location]) -> dict[str, Any]:
    """Returns the tree with placeholders for its invalid sections."""
    valid_tree = deepcopy(dict(tree))
    for index, location in enumerate(sorted(set(broken), key=len)):
        *before, name = location
        container: Any = valid_tree
        for part in before:
            container = container[part]
        if isinstance(name, int):
            container[name] = {**_PLACEHOLDERS["destination"], "name": f"output {index}"}
        elif name == "name":
            container[name] = f"step {index}"
        elif name in _PLACEHOLDERS:
            container[name] = deepcopy(_PLACEHOLDERS[name])
        else:
            container.pop(name, None)
    return valid_tree


def _lies_in(path: str, place: str) -> bool:
    """True if a place of the file is inside another one, or equal to it."""
    return path == place or path.startswith((f"{place}.", f"{place}["))


def _mismatches(config: StepConfig, merged: MergedTree, broken: Collection[str] = ()) -> Iterator[StepProblem]:
    """Yields inconsistencies: names, formats, types of connections, and loops. ``broken``: places with placeholders."""
    for path, text in (
        *_same_names(config),
        *_format_mismatches(config, broken),
        *_destination_loops(config),
        *_connection_mismatches(config),
    ):
        yield StepProblem(merged.origin(path), dotted(path), text)


def _same_names(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Yields steps with equal names, whose windows, counts and errors could not be distinguished."""
    seen: dict[str, Location] = {}
    for location, step in config.steps:
        if step.name in seen:
            other = dotted(seen[step.name]) or "the first step"
            yield (*location, "name"), f"expected a name of its own, found {brief(step.name)}, which is that of {other}"
        seen.setdefault(step.name, location)


def _format_mismatches(config: StepConfig, broken: Collection[str]) -> Iterator[tuple[Location, str]]:
    """Yields steps whose input has no message that they can read. Steps for errors also get messages that other steps
    could not read."""
    for location, step in config.steps:
        for place, to in step.targets:
            if not isinstance(to, Step) or place == ("error",) or dotted((*location, "format")) in broken:
                continue
            written, read_format = step.format.output, to.format.input
            if {written.type, read_format.type} == {"json", "xml"}:
                yield (
                    (*location, *place, "format", "input"),
                    f"expected {written.type}, which is what {step.name} writes, found {read_format.type}",
                )
            elif isinstance(written, CsvSection) and isinstance(read_format, CsvSection):
                fields = len(written.field_names), len(read_format.field_names)
                if written.column_separator == read_format.column_separator and fields[0] != fields[1]:
                    text = f"expected {fields[0]} fields, as {step.name} writes them, found {fields[1]}"
                    yield (*location, *place, "format", "input", "fieldNames"), text


def _connection_mismatches(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Yields connections of another type than their users expect."""
    uses = [(("source", "config"), config.source.config)] if config.source and config.source.type == "kafka" else []
    for path, use in uses:
        connection = config.connections.get(use.name)
        if connection is not None and connection.type != use.type:
            yield (
                path,
                f"expected a connection of type {use.type}, found {use.name}, which is of type {connection.type}",
            )


def _destination_loops(config: StepConfig) -> Iterator[tuple[Location, str]]:
    """Yields destinations that the first step itself reads: each message would produce another one, without end."""
    source = config.source
    if config.allow_loops or not isinstance(source, KafkaSource):
        return
    for location, destination in config.destinations:
        if destination.topic in source.topics and same_servers(
            config.connections, source.config.name, destination.config.name
        ):
            text = f"expected a topic that the step does not read itself, found {destination.topic!r}: a loop"
            yield (*location, "topic"), f"{text}; if it is meant to be, say allowLoops: true"
