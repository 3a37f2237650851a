"""Drawn bolts in every pair of settings, drawn topologies, and kept cases: windbolt answers as the interpreter of its
specification.

``python -m tests.oracles.interpreter 5000`` draws more.
"""

from pathlib import Path

import pytest
import yaml

from tests.combinations_page import SEED
from tests.oracles.interpreter.cases import VALUES
from tests.oracles.interpreter.holding import FIXED, case, differs, hold, topology_case
from tests.oracles.interpreter.topology_cases import SHAPES
from windowing.settings import DECLARED

BESIDE = {"timestamp_field"}
"""What each bolt in event time is drawn with."""
KEPT = sorted((Path(__file__).parent / "kept").glob("*.yaml"))
"""Cases in which windbolt or the interpreter was once wrong, as differences are printed."""


@pytest.mark.parametrize("first", range(0, FIXED, 300))
def test_drawn_bolts_answer_as_the_interpreter(first: int) -> None:
    held = hold(case(number, SEED) for number in range(first, first + 30))
    assert held.held > 10
    assert not held.differences, "\n\n".join(held.differences)


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("shape", sorted(set(SHAPES)))
def test_drawn_topologies_answer_as_the_interpreter(shape: str, first: int) -> None:
    held = hold(topology_case(number, SEED, shape) for number in range(first, first + 10))
    assert held.held > 3
    assert not held.differences, "\n\n".join(held.differences)


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_case_that_differed_is_answered_as_by_the_interpreter(path: Path) -> None:
    made = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert not differs(made, made.pop("variant", "as it is"))


def test_there_are_kept_cases() -> None:
    assert KEPT


def test_every_setting_of_scenario_files_is_drawn() -> None:
    assert {each.scenario for each in DECLARED.values() if each.scenario is not None} <= {*VALUES, *BESIDE}
