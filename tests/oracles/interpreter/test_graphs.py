"""Drawn topologies: several tasks, chains, ready bolts, joins and aggregates answer as the interpreter."""

import pytest

from tests.helpers.examples import sampled
from tests.oracles.interpreter.graph_cases import SHAPES
from tests.oracles.interpreter.graph_holding import hold

SEED = 31


@pytest.mark.parametrize("first", sampled(range(0, 30, 10), 2))
@pytest.mark.parametrize("shape", sorted(set(SHAPES)))
def test_drawn_topologies_answer_as_the_interpreter(shape: str, first: int) -> None:
    held = hold(range(first, first + 10), SEED, shape=shape)
    assert held.held > 3
    assert not held.differences, "\n\n".join(held.differences)
