"""Drawn topologies: several tasks, chains, ready bolts, joins and aggregates answer as the interpreter."""

import pytest

from tests.oracles.interpreter.graph_cases import SHAPES
from tests.oracles.interpreter.graph_holding import hold

SEED = 31


@pytest.mark.parametrize("first", [0, 20])
@pytest.mark.parametrize("shape", sorted(set(SHAPES)))
def test_drawn_topologies_answer_as_the_interpreter(shape: str, first: int) -> None:
    held = hold(range(first, first + 10), SEED, shape=shape)
    assert held.held > 3
    assert not held.differences, "\n\n".join(held.differences)
