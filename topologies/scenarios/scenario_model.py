"""A scenario as files contain it: a bolt or a topology, steps in order, and the expected results."""

from __future__ import annotations

import ast
import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, NoReturn

from pydantic import Field, PrivateAttr, ValidationError, model_validator

import windowing
from policies.protocol import EvictionPolicy, Policy, TriggerPolicy
from topologies.engine.failures import line_of
from topologies.io import documents
from topologies.io.documents import brief, explain
from topologies.scenarios.named_topology import load_module
from topologies.scenarios.scenario_bolt import (
    BoltSettings,
    Column,
    bare_bolt,
    columns_named_by,
    columns_of_events,
    imports_of,
    json_cell,
    moment_of,
)
from topologies.scenarios.scenario_values import (
    ClockStep,
    CloseStep,
    EventStep,
    Expect,
    ExpectStep,
    PartitionNames,
    ScenarioStep,
    Strict,
    TextValue,
)
from windowing.errors import USER_EXCEPTIONS, ConfigError, ScenarioError, WindboltError, did_you_mean
from windowing.settings import WindowSettings
from windowing.timestamps import parse_time, to_datetime

# The messages of a scenario for an aggregation step: made from events, and shown as results.


SPOUT = "source"
"""The name of the spout of a step."""

MESSAGE_FIELDS = ("id", "topic", "partition", "offset", "timestamp", "key", "value", "value_base64", "headers")


def message_problems(event: Mapping[str, Any]) -> Iterator[str]:
    """Yields the mistakes in an event that must be a message: a text for each, with its place in the event."""
    for name in event:
        if name not in MESSAGE_FIELDS:
            yield f".{name}: expected some of {', '.join(MESSAGE_FIELDS)}, found {name!r}"
    if event.get("value") is not None and event.get("value_base64") is not None:
        yield ": expected value or value_base64, found both"
    headers = event.get("headers") or {}
    if not isinstance(headers, Mapping) or not all(isinstance(value, str) for value in headers.values()):
        yield f".headers: expected texts by name, found {headers!r}"
    for name in ("key", "topic"):
        if event.get(name) is not None and not isinstance(event[name], str):
            yield f".{name}: expected a text, found {event[name]!r}"
    try:
        if event.get("timestamp") is not None:
            parse_time(event["timestamp"])
        base64.b64decode(event.get("value_base64") or "", validate=True)
    except (ScenarioError, ValueError) as error:
        yield f": {error}"


def message_row(event: Mapping[str, Any], name: str, number: int) -> dict[str, Any]:
    """Returns an event as a line of JSON with the columns of a message. ``value`` is a text; any other value becomes
    JSON."""
    value, key, stamp = event.get("value"), event.get("key"), event.get("timestamp")
    body = event.get("value_base64")
    if value is not None:
        body = _base64(value if isinstance(value, str) else json.dumps(value))
    return {
        "id": name,
        "topic": event.get("topic", "input"),
        "partition": event.get("partition", 0),
        "offset": event.get("offset", number),
        "timestamp": None if stamp is None else to_datetime(parse_time(stamp)).isoformat(),
        "key": None if key is None else _base64(key),
        "value": body,
        "headers": [{"key": name, "value": _base64(text)} for name, text in (event.get("headers") or {}).items()],
    }


def sent_message(row: Mapping[str, Any], read: Any) -> dict[str, Any]:
    """Returns a sent message in the form of scenarios' expectations; ``read``: decodes a value's bytes, or raises."""
    headers = {each["key"]: each["value"] for each in row.get("headers") or []}
    try:
        value = read(row["value"], headers)
    except Exception:
        value = _text(row["value"])
    message = {"value": value, "key": _text(row.get("key")), "topic": row.get("topic")}
    message["headers"] = {name: _text(text) for name, text in headers.items()}
    return {name: part for name, part in message.items() if part is not None and part != {}}


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _text(value: bytes | str | None) -> str | None:
    """Returns bytes as text if they are UTF-8, else in base64."""
    if value is None or isinstance(value, str):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


# Users' policies in a scenario's bolt: ``my_policies.py:Near(0.1)``.


Part = Literal["eviction", "trigger"]

_KINDS: dict[Part, type[Policy]] = {"eviction": EvictionPolicy, "trigger": TriggerPolicy}
_DURATIONS = ("millis", "seconds", "minutes", "hours", "days")
_POLICY_HINT = "write it like my_policies.py:Near(0.1), with a path from the folder of the scenario"


def load_policy(part: Part, text: str, folder: Path) -> Any:
    """Returns the policy that a text names. Raises ScenarioError if there is none, or its file cannot be loaded.

    After the file comes one of its variables, or a call of one of its classes or functions; the arguments are Python
    literals, and durations such as ``minutes(30)``.
    """
    place, sign, expression = text.partition(".py:")
    if not sign or not expression.strip():
        raise ScenarioError(f"bolt.{part}: {text!r} names no policy", do=_POLICY_HINT)
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except SyntaxError as error:
        raise ScenarioError(f"bolt.{part}: {expression!r} cannot be read: {error.msg}", do=_POLICY_HINT) from None
    path = folder / f"{place}.py"
    try:
        module = _module(path.absolute(), path.stat().st_mtime_ns if path.is_file() else 0)
    except WindboltError as error:
        raise ScenarioError(f"bolt.{part}: {error.what}", why=error.why, do=error.do) from error
    return _PolicyReader(part, text, module).policy(tree)


@lru_cache(maxsize=64)
def _module(path: Path, changed: int) -> ModuleType:
    """Loads a file once, and again after a change (``changed``)."""
    return load_module(str(path))


class _PolicyReader:
    """Evaluates the few expressions that may name a policy."""

    def __init__(self, part: Part, text: str, module: ModuleType) -> None:
        self._part, self._text, self._module = part, text, module

    def policy(self, tree: ast.expr) -> Policy:
        """Returns the policy."""
        value = self._value(tree)
        kind = _KINDS[self._part]
        if isinstance(value, type) and issubclass(value, Policy):
            self._refuse("that is a class", f"write {self._text}()")
        if not isinstance(value, kind):
            self._refuse(f"that is {value!r:.60}, which is no {kind.__name__}", _POLICY_HINT)
        return value

    def _value(self, tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self._look_up(name)
            case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
                return -number
            case ast.List(items) | ast.Tuple(items):
                return (list if isinstance(tree, ast.List) else tuple)(self._value(each) for each in items)
            case ast.Dict(keys, values) if None not in keys:
                return {
                    self._value(key): self._value(value)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case ast.Call(ast.Name(name), arguments, keywords):
                return self._call(name, arguments, keywords)
        self._refuse(
            f"{ast.unparse(tree)!r:.60} cannot stand here",
            "give a variable of the file, or a call with plain values; put what is more into the file",
        )

    def _call(self, name: str, arguments: list[ast.expr], keywords: list[ast.keyword]) -> Any:
        function = self._look_up(name)
        values = [self._value(each) for each in arguments]
        if any(each.arg is None for each in keywords):
            self._refuse("** cannot stand here", "give the arguments by their names")
        by_name = {str(each.arg): self._value(each.value) for each in keywords}
        try:
            return function(*values, **by_name)
        except WindboltError as error:
            raise ScenarioError(f"bolt.{self._part}: {error.what}", why=error.why, do=error.do) from error
        except USER_EXCEPTIONS as error:
            raised_inside = (
                error.__traceback__ is not None and error.__traceback__.tb_next is not None
            )  # else it never began
            self._refuse(
                f"{type(error).__name__}: {error}{line_of(error) if raised_inside else ''}",
                "correct the arguments, or the file",
            )

    def _look_up(self, name: str) -> Any:
        if name in vars(self._module):
            return vars(self._module)[name]
        if name in _DURATIONS:
            return getattr(windowing, name)
        kind = _KINDS[self._part]
        policy_names = [
            each
            for each, value in vars(self._module).items()
            if isinstance(value, type) and issubclass(value, kind) and value is not kind
        ]
        self._refuse(
            f"the file has no {name!r}{did_you_mean(name, policy_names)}",
            f"name one of its policies: {', '.join(policy_names) or 'it has none'}",
        )

    def _refuse(self, why: str, do: str) -> NoReturn:
        raise ScenarioError(f"bolt.{self._part}: {self._text!r} cannot be used", why=why, do=do)


# A scenario as files contain it: a bolt or a topology, steps in order, and their expected results.


class Scenario(Strict):
    """Steps for a bolt or a topology, and their expected results. Unknown keys are errors; ``meta`` is free.

    Construction fills what files may omit: the stream of each event if there is only one, and the id of each event. All
    mistakes in the steps are reported together, with their place (from 0).
    """

    name: TextValue
    meta: dict[str, Any] = Field(default_factory=dict)
    bolt: BoltSettings | None = None
    topology: TextValue | None = None
    step: dict[str, Any] | TextValue | None = None
    """An aggregation step: the content of its file, or the file's path, relative to the folder of the scenario."""
    streams: list[TextValue] = Field(default_factory=list)
    partitions: PartitionNames | None = None
    """The existing values of the bolt's partition column, for every stream or by stream."""
    steps: list[ScenarioStep]
    expect: Expect | None = None

    _folder: Path = PrivateAttr(default_factory=Path)
    _clock_before: int = PrivateAttr(default=0)

    @model_validator(mode="after")
    def _complete(self) -> Scenario:
        given = [name for name in ("bolt", "topology", "step") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ScenarioError(
                f"expected one of bolt, topology and step, found {' and '.join(given) or 'none'}",
                do="give bolt: {...} for a bolt alone, topology: file.py:name for your own, step: file.conf for a step",
            )
        if self.step is not None and not self.streams:
            self.__dict__["streams"] = [SPOUT]
        if self.bolt is not None and not self.streams:
            self.__dict__["streams"] = ["s1"]
        if len(set(self.streams)) != len(self.streams):
            raise ScenarioError(f"streams: a stream is named twice in {self.streams}")
        self._check_rules()
        self.__dict__["steps"] = list(self._complete_steps())
        problems = [*self._stream_problems(), *self._clock_problems(), *self._event_problems(), *self._close_problems()]
        if problems:
            raise ScenarioError("\n".join(f"steps[{at}]{text}" for at, text in sorted(problems)))
        return self

    @property
    def midway(self) -> dict[str, Scenario]:
        """For each ``expect`` among the steps, by its place in the file, a scenario that ends there with this
        expectation."""
        prefixes = {}
        for at, step in enumerate(self.steps):
            if isinstance(step, ExpectStep):
                prefixes[f"steps[{at}]"] = prefix = self.model_copy(
                    update={"steps": _without_expectations(self.steps[:at]), "expect": step.expect}
                )
                prefix._clock_before = self.first_clock
        return prefixes

    @property
    def first_clock(self) -> int:
        """Returns the initial clock, which is the first time to which a step moves it."""
        clocks = (step.moved for step in self.steps if isinstance(step, EventStep | ClockStep))
        return next((clock for clock in clocks if clock is not None), self._clock_before)

    @property
    def folder(self) -> Path:
        """Folder of the scenario; its paths are relative to it."""
        return self._folder

    def in_folder(self, folder: Path) -> Scenario:
        """Returns the scenario with paths relative to a folder."""
        self._folder = folder
        return self

    def with_stream(self, stream: str) -> Scenario:
        """Returns the scenario with ``stream`` for each event that names none."""
        steps = [
            step.model_copy(update={"stream": step.stream or stream}) if isinstance(step, EventStep) else step
            for step in self.steps
        ]
        return self.model_copy(update={"steps": steps})

    @cached_property
    def rules(self) -> WindowSettings:
        """Returns the bolt's settings, including those of its preset; for a topology, the defaults."""
        return WindowSettings() if self.bolt is None else bare_bolt(self.bolt, partitions=self.partitions).settings

    @property
    def names_policies(self) -> bool:
        """True if the bolt has users' policies."""
        return self.bolt is not None and (self.bolt.eviction is not None or self.bolt.trigger is not None)

    @cached_property
    def policies(self) -> dict[str, Policy]:
        """The policies of the bolt, by ``eviction`` and ``trigger``. Raises ScenarioError if they cannot be used.

        Available once the folder of the scenario is known.
        """
        if self.bolt is None:
            return {}
        texts = {"eviction": self.bolt.eviction, "trigger": self.bolt.trigger}
        parts: list[Part] = ["eviction", "trigger"]
        return {part: load_policy(part, text, self._folder) for part in parts if (text := texts[part]) is not None}

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The columns of a bare bolt's events, besides ``id``; with policies, all fields of the events."""
        by_rules = columns_named_by(self.rules)
        if not self.names_policies:
            return by_rules
        return {**columns_of_events(step.event for step in self.event_steps), **by_rules}

    @property
    def event_steps(self) -> list[EventStep]:
        """The events in the order of their arrival."""
        return [step for step in self.steps if isinstance(step, EventStep)]

    @property
    def is_event_time(self) -> bool:
        """True if the bolt reads its time from a field. False for a topology, whose bolts may differ."""
        return self.time_field is not None

    @property
    def time_field(self) -> str | None:
        """The field from which the bolt reads its time: its timestamp or, for Azure, its arrival (AZ-1)."""
        if self.bolt is None or self.bolt.timestamp_field is not None:
            return None if self.bolt is None else self.bolt.timestamp_field
        arrival = self.rules.arrival
        return arrival.field if arrival is not None and self.rules.arrival_is_time else None

    @property
    def has_clock(self) -> bool:
        """True if some step sets the clock."""
        return any(isinstance(step, EventStep | ClockStep) and step.moved is not None for step in self.steps)

    def event_time(self, step: EventStep) -> int | None:
        """Returns an event's own time in microseconds; None without one, or outside the years 1 to 9999."""
        field = self.time_field
        value = step.event.get(field) if field else None
        if value is None:
            return None
        return moment_of(value)

    def is_watermark(self, step: EventStep) -> bool:
        """True if a step is a watermark that the source inserts, not an event."""
        field = self.rules.watermark_field
        return field is not None and step.event.get(field) is not None

    def _check_rules(self) -> None:
        if self.bolt is None or "watermark_partition" not in self.bolt.single_settings:
            if self.partitions is not None:
                raise ScenarioError(
                    "partitions without bolt.watermark_partition",
                    why="they are the values of that column that exist",
                    do="name the column: bolt: {watermark_partition: p}",
                )
        elif isinstance(self.partitions, dict):
            unknown = [name for name in self.partitions if name not in self.streams]
            if unknown:
                found = ", ".join(map(repr, unknown))
                raise ScenarioError(f"partitions: expected streams among {', '.join(self.streams)}, found {found}")
        if self.bolt is None:
            return
        try:
            _ = self.rules
        except ConfigError as error:
            raise ScenarioError(f"bolt: {error}") from None
        imports = imports_of(self.bolt) or {}
        unknown = [name for pair in imports.items() for name in pair if name not in self.streams]
        if unknown:
            raise ScenarioError(
                f"bolt.imports: expected streams among {', '.join(self.streams)}, found {', '.join(map(repr, unknown))}"
            )

    def _complete_steps(self) -> Iterator[ScenarioStep]:
        only_stream = self.streams[0] if len(self.streams) == 1 else None
        number = 0
        for step in self.steps:
            if not isinstance(step, EventStep):
                yield step
                continue
            number += 1
            yield step.with_id_and_stream(number, only_stream, with_id=self.topology is None)

    def _stream_problems(self) -> Iterator[tuple[int, str]]:
        if not self.streams:
            return
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep) or step.stream in self.streams:
                continue
            given = "nothing" if step.stream is None else repr(step.stream)
            yield at, f".stream: expected one of {', '.join(self.streams)}, found {given}"

    def _clock_problems(self) -> Iterator[tuple[int, str]]:
        clock: int | None = None
        for at, step in enumerate(self.steps):
            moved = step.moved if isinstance(step, EventStep | ClockStep) else None
            arrives = isinstance(step, EventStep) and step.arrival is not None
            if isinstance(step, EventStep) and arrives and step.clock is not None:
                yield at, ": expected clock (the clock moves first) or arrival (the event is in its batch), found both"
            if moved is not None and clock is not None and moved < clock:
                key = "arrival" if arrives else "clock"
                yield at, f".{key}: the clock goes back, from {clock / 1000:.15g} to {moved / 1000:.15g}"
            clock = clock if moved is None else max(moved, clock if clock is not None else moved)
            if clock is None and isinstance(step, EventStep) and self.topology is None and not self.is_event_time:
                yield (
                    at,
                    ".clock: expected a time, found none yet; a bolt without timestamp_field reads the clock",
                )

    def _event_problems(self) -> Iterator[tuple[int, str]]:
        if self.topology is not None:
            return
        seen: dict[str, int] = {}
        for at, step in enumerate(self.steps):
            if not isinstance(step, EventStep):
                continue
            if step.event.get("id") != step.id:
                yield at, f".event.id: expected a text, found {step.event.get('id')!r}"
            elif step.id in seen and self.rules.message_id_field != "id":  # such ids may be repeated
                yield at, f".event.id: {step.id!r} is the id of steps[{seen[step.id]}] already"
            seen.setdefault(step.id, at)
            yield from self._cell_problems(at, step)

    def _cell_problems(self, at: int, step: EventStep) -> Iterator[tuple[int, str]]:
        if self.step is not None:
            yield from ((at, f".event{text}") for text in message_problems(step.event))
            return
        for name, kind in columns_named_by(self.rules).items():
            try:
                json_cell(kind, step.event.get(name))
            except WindboltError as error:
                yield at, f".event.{name}: {error}"
        if self.names_policies:
            try:
                columns_of_events([step.event])
            except ScenarioError as error:
                yield at, f".event.{error}"

    def _close_problems(self) -> Iterator[tuple[int, str]]:
        closings = (at for at, step in enumerate(self.steps) if isinstance(step, CloseStep))
        close_index = next(closings, len(self.steps))
        for at, step in enumerate(self.steps[close_index + 1 :], close_index + 1):
            if not isinstance(step, ExpectStep):
                yield at, f": nothing can follow the close of steps[{close_index}]"
                return


def _without_expectations(steps: list[ScenarioStep]) -> list[ScenarioStep]:
    """Returns the steps without the expectations between them."""
    return [step for step in steps if not isinstance(step, ExpectStep)]


# Scenario files in YAML, JSON and JSON lines, read one scenario at a time, each with its place.


_ENDINGS = (".yaml", ".yml", ".json", ".jsonl")
SCENARIO_ENDINGS = tuple(f".scenario{ending}" for ending in _ENDINGS)
"""Endings of file names that mark scenarios, whatever the content."""
_FOREIGN = ("node_modules", "__pycache__")


@dataclass(frozen=True)
class ScenarioPlace:
    """Place of a scenario: a file, and in it a line (from 1) or a list index (from 0)."""

    path: Path
    line: int | None = None
    index: int | None = None

    def __str__(self) -> str:
        index = "" if self.index is None else f"[{self.index}]"
        line = "" if self.line is None else f":{self.line}"
        return f"{self.path}{line}{index}"


@dataclass(frozen=True)
class LoadedScenario:
    """A scenario that was read, and its place."""

    place: ScenarioPlace
    scenario: Scenario


@dataclass(frozen=True)
class Problem:
    """Mistakes at a place, one text each."""

    place: ScenarioPlace
    texts: tuple[str, ...]
    name: str | None = None
    """The scenario's name, if it could be read."""

    def __str__(self) -> str:
        who = f"{self.place} ({self.name})" if self.name else str(self.place)
        if len(self.texts) == 1:
            return f"{who}: {self.texts[0]}"
        return "\n  ".join([f"{who}:", *self.texts])


def scenario_files(folder: Path) -> list[Path]:
    """Returns the scenario files in a folder and below it, sorted.

    These are files whose names end in ``.scenario.yaml`` (.yml, .json, .jsonl), and files with these endings whose
    content is a scenario. Hidden folders, virtual environments and node_modules are skipped.
    """
    files = []
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not is_foreign_folder(Path(top, name))]
        paths = [Path(top, name) for name in names if name.endswith(_ENDINGS) and not name.startswith(".")]
        files += [path for path in paths if path.name.endswith(SCENARIO_ENDINGS) or looks_like_scenarios(path)]
    return sorted(files)


def is_foreign_folder(folder: Path) -> bool:
    """True for hidden folders, virtual environments, and other folders without files of the project."""
    return folder.name.startswith(".") or folder.name in _FOREIGN or (folder / "pyvenv.cfg").is_file()


def looks_like_scenarios(path: Path) -> bool:
    """True if a file has the keys of every scenario: ``steps``, and a ``bolt``, a ``topology`` or a ``step``."""
    try:
        text = path.read_bytes()
    except OSError:
        return False
    keys = (b"steps", b"bolt|topology|step")
    return all(re.search(rb"\b(?:%s)[\"']?[ \t]*:" % key, text) is not None for key in keys)


def load(path: str | Path) -> Iterator[LoadedScenario | Problem]:
    """Yields the scenarios of a file in order. A scenario that cannot be read is a Problem; the others still come.

    ``.yaml`` and ``.yml`` contain one scenario, several documents, or a list; ``.json`` one scenario or a list;
    ``.jsonl`` one per line. Raises no exception for the content of a file, nor for a missing file.
    """
    path, empty = Path(path), True
    for document in documents.load(path, _ENDINGS, lists=True):
        empty = False
        place = ScenarioPlace(path, document.line, document.index)
        yield Problem(place, (document.mistake,)) if document.mistake else _scenario_or_problem(place, document.content)
    if empty:
        yield Problem(ScenarioPlace(path), ("expected a scenario, found an empty file",))


def with_topology_path(scenario: Scenario, file: Path, *roots: Path) -> Scenario:
    """Returns the scenario with the file of its ``topology`` found: beside its own file, under one of the roots, or in
    the current folder."""
    if scenario.topology is None:
        return scenario
    place, sign, name = scenario.topology.rpartition(":")
    if not sign or not place.endswith(".py") or os.path.isabs(place):
        return scenario
    for folder in (file.absolute().parent, *roots, Path.cwd()):
        if (folder / place).is_file():
            return scenario.model_copy(update={"topology": f"{folder / place}:{name}"})
    return scenario


def read_scenario(content: object) -> Scenario:
    """Returns the scenario in a mapping. Raises ScenarioError with all its mistakes."""
    if not isinstance(content, dict):
        raise ScenarioError(f"expected a scenario (a mapping with name, bolt, steps), found {brief(content)}")
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        raise ScenarioError("\n".join(map(str, explain(error, Scenario)))) from None


def _scenario_or_problem(place: ScenarioPlace, content: object) -> LoadedScenario | Problem:
    try:
        scenario = read_scenario(content).in_folder(place.path.parent)
        _ = scenario.policies
        return LoadedScenario(place, scenario)
    except ScenarioError as error:
        name = content.get("name") if isinstance(content, dict) else None
        texts = tuple(line.rstrip(".") for line in str(error).split("\n"))
        return Problem(place, texts, name if isinstance(name, str) else None)
