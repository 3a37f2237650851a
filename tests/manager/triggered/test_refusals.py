"""Reasons of events that a rule of a trigger has refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial, singledispatch
from typing import Any

import numpy as np
import pytest

from manager.triggered_windows import Refusals


def by_function(event: Any) -> Any:
    return json.loads(event)


class ByObject:
    def __call__(self, event: Any) -> Any:
        return json.loads(event)


def by_two(strict: bool, event: Any) -> Any:
    return json.loads(event)


@pytest.mark.parametrize(
    ("rule", "name", "code"),
    [
        (by_function, "by_function", by_function.__code__),
        (ByObject(), "ByObject", ByObject.__call__.__code__),
        (partial(by_two, True), "by_two", by_two.__code__),
        (partial(ByObject()), "ByObject", ByObject.__call__.__code__),
        (singledispatch(by_function), "by_function", by_function.__code__),  # in a file of Python's own
    ],
)
def test_the_line_is_that_of_the_rule_where_a_library_raised(rule: Callable[[Any], Any], name: str, code: Any) -> None:
    refusals = Refusals(1)
    with pytest.raises(ValueError, match="Expecting") as caught:
        rule("{")
    refusals.refuse(0, rule, caught.value)
    ((_, reason),) = refusals.by_row(np.zeros(1, np.int64))
    assert f"rule {name}, line {code.co_firstlineno + 1}: JSONDecodeError" in reason
