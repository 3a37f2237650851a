"""What of a step can only be known by looking into the files that it names: rules, schemas, variables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from topologies.step.calling import RuleAt, rules_of
from topologies.step.config import StepConfig, StepProblem
from topologies.step.config.formats import AvroFormat
from topologies.step.finding import read_variables
from topologies.step.formatting import messages_of, schema_of
from windowing.errors import WindboltError


def step_problems(config: StepConfig) -> list[StepProblem]:
    """Everything that is wrong with the files that a step names; it may load rules, and calls none of them."""
    file = str(config.file)
    return [StepProblem(file, path, text) for path, text in _problems(config)]


def _problems(config: StepConfig) -> Iterator[tuple[str, str]]:
    if config.environment_variables:
        yield from _tried("environmentVariables", read_variables, config.environment_variables)
    for name, given in (("input", config.format.input), ("output", config.format.output)):
        path = f"format.{name}"
        if isinstance(given, AvroFormat):
            found = [_tried(f"{path}.schema[{at}]", schema_of, schema) for at, schema in enumerate(given.schemas)]
            wrong = [problem for each in found for problem in each]
            yield from wrong or _tried(path, messages_of, given)
        else:
            yield from _tried(path, messages_of, given)
    for path, rules in rules_of(config).items():
        yield from _tried(path, RuleAt.load, rules)


def _tried(path: str, call: Callable[[Any], object], argument: Any) -> Iterator[tuple[str, str]]:
    try:
        call(argument)
    except WindboltError as error:
        yield path, str(error).rstrip(".")
