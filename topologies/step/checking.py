"""Checks of a step that need the files it names: rules, schemas, variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from topologies.io.documents.document_errors import dotted
from topologies.io.documents.showing import brief
from topologies.step.bolts.calling import rules_of
from topologies.step.config import Step, StepConfig, StepProblem
from topologies.step.config.connecting import KafkaSource
from topologies.step.config.formats import AvroSection
from topologies.step.finding import read_variables
from topologies.step.formatting import messages_of, schema_of
from topologies.step.missing import missing, snippet
from topologies.step.rules import load_rule, look_at_rule
from windowing.errors import WindboltError
from windowing.suggestions import did_you_mean


def step_problems(config: StepConfig, *, load: bool, complete: bool = False) -> list[StepProblem]:
    """All problems with the files that a step names.

    ``load``: rules are loaded, that is, their files are run, but no rule is called; otherwise only their text is
    checked. ``complete``: what a run needs and the step does not say is a problem, too.
    """
    file = str(config.file)
    problems = [*_problems(config, load), *(_gaps(config) if complete else ())]
    return [StepProblem(file, path, text) for path, text in problems]


def _gaps(config: StepConfig) -> Iterator[tuple[str, str]]:
    gaps = [name for name in missing(config) if name == "source" or not config.connections]
    if gaps:
        said = f"it does not say {' and '.join(gaps)}, which a run needs"
        yield gaps[0].split(".")[0], f"{said}. Add this, here or in a file given with --with:\n{snippet(config)}"


def _unknown(config: StepConfig) -> Iterator[tuple[str, str]]:
    """Named connections that are missing; where there are none at all, they are given elsewhere."""
    uses = [(dotted(location), to.config.name) for location, to in config.destinations]
    if isinstance(config.source, KafkaSource):
        uses.append(("source", config.source.config.name))
    for section, name in uses:
        if config.connections and name not in config.connections:
            known, meant = ", ".join(config.connections), did_you_mean(name, config.connections)
            yield f"{section}.config.name", f"expected one of the connections ({known}), found {brief(name)}{meant}"


def _problems(config: StepConfig, load: bool) -> Iterator[tuple[str, str]]:
    yield from _unknown(config)
    for location, step in config.steps:
        for path, text in _of_step(step, load, files=config.allow_file_rules):
            yield f"{dotted(location)}.{path}" if location else path, text


def _of_step(step: Step, load: bool, *, files: bool) -> Iterator[tuple[str, str]]:
    """The problems with the files that one of the steps names, with their places in its section."""
    if step.environment_variables:
        yield from _tried("environmentVariables", read_variables, step.environment_variables)
    for name, given in (("input", step.format.input), ("output", step.format.output)):
        path = f"format.{name}"
        if isinstance(given, AvroSection):
            results = [
                _tried(f"{path}.schema[{index}]", schema_of, schema) for index, schema in enumerate(given.schemas)
            ]
            wrong = [problem for problems in results for problem in problems]
            yield from wrong or _tried(path, messages_of, given)
        else:
            yield from _tried(path, messages_of, given)
    for path, rules in rules_of(step, files=files).items():
        yield from _tried(path, load_rule if load else look_at_rule, rules)


def _tried(path: str, call: Callable[[Any], object], argument: Any) -> Iterator[tuple[str, str]]:
    try:
        call(argument)
    except WindboltError as error:
        yield path, str(error).rstrip(".")
