"""Scenario files: YAML, JSON and JSON lines, read one scenario at a time, each with its place."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from topologies.io.documents import Yaml, no_constant, shown, unique_pairs
from topologies.scenarios.schema.expected import Expect, ExpectedEvent, ExpectedPane, ExpectedWindow
from topologies.scenarios.schema.model import Scenario
from topologies.scenarios.schema.settings import BoltSettings
from topologies.scenarios.schema.steps import ClockStep, CloseStep, CrashStep, EventStep, ExpectStep, TickStep
from windowing.errors import ScenarioError


@dataclass(frozen=True)
class Place:
    """Where a scenario stands: a file, and in it a line (from 1) or an index of a list (from 0)."""

    path: Path
    line: int | None = None
    index: int | None = None

    def __str__(self) -> str:
        index = "" if self.index is None else f"[{self.index}]"
        line = "" if self.line is None else f":{self.line}"
        return f"{self.path}{line}{index}"


@dataclass(frozen=True)
class Loaded:
    """A scenario that was read, and its place."""

    place: Place
    scenario: Scenario


@dataclass(frozen=True)
class Problem:
    """What is wrong at a place: one text for each thing that was expected and not found."""

    place: Place
    texts: tuple[str, ...]
    name: str | None = None
    """The scenario's name, where it could be read."""

    def __str__(self) -> str:
        who = f"{self.place} ({self.name})" if self.name else str(self.place)
        if len(self.texts) == 1:
            return f"{who}: {self.texts[0]}"
        return "\n  ".join([f"{who}:", *self.texts])


def load(path: str | Path) -> Iterator[Loaded | Problem]:
    """The scenarios of a file in order; each that cannot be read is a problem, and the others still come.

    ``.yaml`` and ``.yml`` hold one scenario, several documents, or a list; ``.json`` one or a list;
    ``.jsonl`` one a line. Nothing is raised for what a file holds, nor for one that is not there.
    """
    path = Path(path)
    readers = {".yaml": _yaml, ".yml": _yaml, ".json": _json, ".jsonl": _jsonl}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        ending = path.suffix or "no ending"
        yield _problem(Place(path), f"expected a .yaml, .yml, .json or .jsonl file, found {ending}")
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        yield _problem(Place(path), "expected a scenario file, found none of this name")
        return
    except OSError as error:
        yield _problem(Place(path), f"expected a file that can be read, found: {error.strerror}")
        return
    except UnicodeDecodeError as error:
        yield _problem(Place(path), f"expected text in UTF-8, found byte {error.object[error.start]:#04x}")
        return
    empty = True
    for item in reader(path, text):
        empty = False
        yield item
    if empty:
        yield _problem(Place(path), "expected a scenario, found an empty file")


def located(scenario: Scenario, file: Path, *roots: Path) -> Scenario:
    """The scenario with its ``topology`` found: beside its file, under one of the roots, or in the current folder."""
    if scenario.topology is None:
        return scenario
    place, sign, name = scenario.topology.rpartition(":")
    if not sign or not place.endswith(".py") or os.path.isabs(place):
        return scenario
    for folder in (file.absolute().parent, *roots, Path.cwd()):
        if (folder / place).is_file():
            return scenario.model_copy(update={"topology": f"{folder / place}:{name}"})
    return scenario


def read_scenario(given: object) -> Scenario:
    """The scenario that a mapping describes; raises ScenarioError with everything that is wrong with it."""
    if not isinstance(given, dict):
        raise ScenarioError(f"expected a scenario (a mapping with name, bolt, steps), found {shown(given)}")
    try:
        return Scenario.model_validate(given)
    except ValidationError as error:
        raise ScenarioError("\n".join(explain(error))) from None


def explain(error: ValidationError) -> list[str]:
    """pydantic's errors in the words of the contract: ``steps[3].tick: expected 'watermark', found 'wm'``."""
    return [line for details in error.errors() for line in _explained(details)]


def _problem(place: Place, *texts: str) -> Problem:
    return Problem(place, texts)


def _checked(place: Place, given: object) -> Loaded | Problem:
    try:
        return Loaded(place, read_scenario(given).at(place.path.parent))
    except ScenarioError as error:
        name = given.get("name") if isinstance(given, dict) else None
        texts = tuple(line.rstrip(".") for line in str(error).split("\n"))
        return Problem(place, texts, name if isinstance(name, str) else None)


def _jsonl(path: Path, text: str) -> Iterator[Loaded | Problem]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip():
            yield from _json_text(Place(path, line=number), line)


def _json(path: Path, text: str) -> Iterator[Loaded | Problem]:
    if text.strip():
        yield from _json_text(Place(path), text, lists=True)


def _json_text(place: Place, text: str, *, lists: bool = False) -> Iterator[Loaded | Problem]:
    try:
        given = json.loads(text, object_pairs_hook=unique_pairs, parse_constant=no_constant)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}" if place.line is None else f"column {error.colno}"
        yield _problem(place, f"expected JSON, found a mistake at {at}: {error.msg}")
        return
    except (ValueError, RecursionError) as error:
        yield _problem(place, f"expected JSON, found {error}")
        return
    if lists and isinstance(given, list):
        for index, item in enumerate(given):
            yield _checked(Place(place.path, index=index), item)
    else:
        yield _checked(place, given)


def _yaml(path: Path, text: str) -> Iterator[Loaded | Problem]:
    try:
        loader = Yaml(text)
    except yaml.YAMLError as error:
        yield _yaml_problem(Place(path), error)
        return
    try:
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield from _yaml_document(path, loader, node)
    except yaml.YAMLError as error:
        yield _yaml_problem(Place(path), error)
    except RecursionError:
        yield _problem(Place(path), "expected YAML, found it nested too deep")
    finally:
        loader.dispose()


def _yaml_document(path: Path, loader: Yaml, node: yaml.Node) -> Iterator[Loaded | Problem]:
    if node.tag == "tag:yaml.org,2002:null":
        return
    listed = isinstance(node, yaml.SequenceNode)
    for index, item in enumerate(node.value if listed else [node]):
        place = Place(path, line=item.start_mark.line + 1, index=index if listed else None)
        try:
            given = loader.construct_document(item)
        except yaml.YAMLError as error:
            yield _yaml_problem(place, error)
        except ValueError as error:
            yield _problem(place, f"expected YAML, found {error}")
        else:
            yield _checked(place, given)


def _yaml_problem(place: Place, error: yaml.YAMLError) -> Problem:
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        at = f"line {mark.line + 1}, column {mark.column + 1}"
        return _problem(place, f"expected YAML, found a mistake at {at}: {error.problem}")
    return _problem(place, f"expected YAML, found {' '.join(str(error).split())}")


def _explained(details: ErrorDetails) -> Iterator[str]:
    path = _path(details["loc"])
    context = details.get("ctx", {})
    found = shown(details["input"])
    match details["type"]:
        case "value_error":
            for line in str(context["error"]).split("\n"):
                yield f"{path}: {line}" if path else line
        case "missing":
            yield f"{path}: expected, and not there"
        case "extra_forbidden":
            yield f"{path}: unknown key{_meant(str(details['loc'][-1]))}"
        case "literal_error":
            yield f"{path}: expected {_literal(context['expected'])}, found {found}"
        case "step_form":
            yield f"{path}: {details['msg']}, found {found}"
        case kind:
            yield f"{path}: expected {_WANTED.get(kind, details['msg'])}, found {found}"


_WANTED = {
    "string_type": "a text",
    "string_too_short": "a text that is not empty",
    "int_type": "a whole number",
    "greater_than_equal": "a number that is not negative",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _literal(expected: str) -> str:
    return "true" if expected == "True" else expected


def _path(location: tuple[int | str, ...]) -> str:
    """``steps[3].tick``; the names of the step forms, in angle brackets, are not of the file."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif not part.startswith("<"):
            path += f".{part}" if path else part
    return path


_MODELS: tuple[type[BaseModel], ...] = (
    Scenario,
    BoltSettings,
    EventStep,
    TickStep,
    ClockStep,
    CrashStep,
    CloseStep,
    ExpectStep,
    Expect,
    ExpectedWindow,
    ExpectedEvent,
    ExpectedPane,
)


def _meant(key: str) -> str:
    known = {name for model in _MODELS for name in model.model_fields}
    close = difflib.get_close_matches(key, sorted(known), n=1)
    return f"; did you mean {close[0]!r}?" if close and close[0] != key else ""
