"""Random scenarios of StreamInsight against an oracle that was written from the list of features alone.

SI-2 to SI-16, SI-19 to SI-23, SI-26 to SI-30.
"""

import pytest

from tests.helpers.examples import sampled
from tests.oracles.answers import streaminsight_answers
from tests.oracles.holding import hold
from tests.oracles.streaminsight_cases import streaminsight_case

SEED = 20131


@pytest.mark.parametrize("first", sampled(range(0, 200, 20), 8))
def test_answers_are_the_oracles(first: int) -> None:
    held = hold(streaminsight_case, streaminsight_answers, range(first, first + 20), SEED)
    assert held.compared > 10
    assert not held.differences, held.shown()
