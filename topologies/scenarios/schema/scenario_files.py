"""Scenario files: YAML, JSON and JSON lines, read one scenario at a time, each with its place."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from topologies.io.documents import document_files as documents
from topologies.io.documents.document_errors import explain
from topologies.io.documents.showing import brief
from topologies.scenarios.schema.scenario_model import Scenario
from windowing.errors import ScenarioError

_ENDINGS = (".yaml", ".yml", ".json", ".jsonl")
NAMED = tuple(f".scenario{ending}" for ending in _ENDINGS)
"""The ends of names by which files are scenarios, whatever they hold."""
_FOREIGN = ("node_modules", "__pycache__")


@dataclass(frozen=True)
class ScenarioPlace:
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

    place: ScenarioPlace
    scenario: Scenario


@dataclass(frozen=True)
class Problem:
    """What is wrong at a place: one text for each thing that was expected and not found."""

    place: ScenarioPlace
    texts: tuple[str, ...]
    name: str | None = None
    """The scenario's name, where it could be read."""

    def __str__(self) -> str:
        who = f"{self.place} ({self.name})" if self.name else str(self.place)
        if len(self.texts) == 1:
            return f"{who}: {self.texts[0]}"
        return "\n  ".join([f"{who}:", *self.texts])


def scenario_files(folder: Path) -> list[Path]:
    """The scenario files in a folder and below it, sorted.

    Those whose names end in ``.scenario.yaml`` (.yml, .json, .jsonl), and those of these kinds that speak of scenarios.
    Hidden folders, virtual environments and node_modules are passed over.
    """
    found = []
    for top, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not passed_over(Path(top, name))]
        paths = [Path(top, name) for name in names if name.endswith(_ENDINGS) and not name.startswith(".")]
        found += [path for path in paths if path.name.endswith(NAMED) or speaks_of_scenarios(path)]
    return sorted(found)


def passed_over(folder: Path) -> bool:
    """Whether a folder holds no files of a project's own."""
    return folder.name.startswith(".") or folder.name in _FOREIGN or (folder / "pyvenv.cfg").is_file()


def speaks_of_scenarios(path: Path) -> bool:
    """Whether a file has what every scenario has: ``steps``, and a ``bolt``, a ``topology`` or a ``step``."""
    try:
        text = path.read_bytes()
    except OSError:
        return False
    keys = (b"steps", b"bolt|topology|step")
    return all(re.search(rb"\b(?:%s)[\"']?[ \t]*:" % key, text) is not None for key in keys)


def load(path: str | Path) -> Iterator[Loaded | Problem]:
    """The scenarios of a file in order; each that cannot be read is a problem, and the others still come.

    ``.yaml`` and ``.yml`` hold one scenario, several documents, or a list; ``.json`` one or a list;
    ``.jsonl`` one a line. Nothing is raised for what a file holds, nor for one that is not there.
    """
    path, empty = Path(path), True
    for document in documents.load(path, _ENDINGS, lists=True):
        empty = False
        place = ScenarioPlace(path, document.line, document.index)
        yield Problem(place, (document.mistake,)) if document.mistake else _checked(place, document.content)
    if empty:
        yield Problem(ScenarioPlace(path), ("expected a scenario, found an empty file",))


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
        raise ScenarioError(f"expected a scenario (a mapping with name, bolt, steps), found {brief(given)}")
    try:
        return Scenario.model_validate(given)
    except ValidationError as error:
        raise ScenarioError("\n".join(map(str, explain(error, Scenario)))) from None


def _checked(place: ScenarioPlace, given: object) -> Loaded | Problem:
    try:
        scenario = read_scenario(given).at(place.path.parent)
        _ = scenario.policies
        return Loaded(place, scenario)
    except ScenarioError as error:
        name = given.get("name") if isinstance(given, dict) else None
        texts = tuple(line.rstrip(".") for line in str(error).split("\n"))
        return Problem(place, texts, name if isinstance(name, str) else None)
