"""Drawn bolts and streams, in every pair of settings: windbolt answers as the interpreter of its specification.

``python -m tests.oracles.interpreter 5000`` draws more.
"""

import pytest

from tests.combinations_page import SEED
from tests.oracles.interpreter.cases import VALUES
from tests.oracles.interpreter.holding import FIXED, hold
from windowing.settings import DECLARED

BESIDE = {"timestamp_field"}
"""What each bolt in event time is drawn with."""


@pytest.mark.parametrize("first", range(0, FIXED, 300))
def test_drawn_bolts_answer_as_the_interpreter(first: int) -> None:
    held = hold(range(first, first + 30), SEED)
    assert held.held > 10
    assert not held.differences, "\n\n".join(difference.shown() for difference in held.differences)


def test_every_setting_of_scenario_files_is_drawn() -> None:
    assert {each.scenario for each in DECLARED.values() if each.scenario is not None} <= {*VALUES, *BESIDE}
