"""What is known of an input is one value, and merging two does not depend on their order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.engine.task_data import InputProgress

TIMES = st.none() | st.integers(-(1 << 40), 1 << 40)
PROGRESS = st.builds(InputProgress, *[TIMES] * 5)


@examples(100)
@given(PROGRESS, PROGRESS, PROGRESS)
def test_merging_does_not_depend_on_the_order(one: InputProgress, two: InputProgress, three: InputProgress) -> None:
    assert one.merge(two) == two.merge(one)
    assert one.merge(two).merge(three) == one.merge(two.merge(three))
    assert one.merge(InputProgress()) == one.merge(one) == one


def test_the_latest_of_times_and_the_first_and_last_of_clocks_remain() -> None:
    one, two = InputProgress(5, 1, 7, 10, 20), InputProgress(3, 2, None, 12, 30)
    assert one.merge(two) == InputProgress(5, 2, 7, 10, 30)
