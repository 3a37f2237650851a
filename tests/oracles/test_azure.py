"""Random scenarios of Azure Stream Analytics against an oracle that was written from the list of features alone.

AZ-4, AZ-5, AZ-8, AZ-11, AZ-12, AZ-14, AZ-15, AZ-18 to AZ-22, AZ-25, AZ-26.
"""

import pytest

from tests.helpers.examples import sampled
from tests.oracles.answers import azure_answers
from tests.oracles.azure_cases import azure_case
from tests.oracles.holding import hold

SEED = 20131


@pytest.mark.parametrize("first", sampled(range(0, 200, 20), 8))
def test_answers_are_the_oracles(first: int) -> None:
    held = hold(azure_case, azure_answers, range(first, first + 20), SEED)
    assert held.compared > 10
    assert not held.differences, held.shown()
