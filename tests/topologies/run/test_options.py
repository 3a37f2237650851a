"""The options of a run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from windbolt import ConfigError, RunOptions, seconds, sinks, spouts
from windowing.durations import Duration


@pytest.mark.parametrize("every", ["2s", timedelta(seconds=2), seconds(2)])
def test_an_interval_is_given_as_every_other_duration(every: Any) -> None:
    assert RunOptions("ck", every=every).interval == Duration(2_000_000)
    assert RunOptions("ck").interval is None


@pytest.mark.parametrize(
    ("every", "told"), [(2, "a bare number has no unit"), ("2 fortnights", "fortnights"), ("0s", "longer than zero")]
)
def test_one_that_is_none_is_told_where_it_is_given(every: Any, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        RunOptions("ck", every=every)


@pytest.mark.parametrize("make", [spouts.files, sinks.files])
def test_a_format_that_is_none_is_told_with_the_one_that_is_meant(make: Any) -> None:
    with pytest.raises(ConfigError, match="'jsonlines' is not a file format; did you mean 'jsonl'"):
        make("orders", format="jsonlines")
