"""A ready bolt tells all columns that are wrong for it, in one error."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from windowing import (
    AggregateBolt,
    AlterLifetime,
    Changes,
    ConfigError,
    Deduplicate,
    Rank,
    RateLimit,
    ShiftTime,
    Silence,
    TemporalJoin,
    TopN,
    WindowJoin,
)
from windowing.aggregates import count, sum
from windowing.bolts.bolt import Component
from windowing.schema import parse_schema

ONE = {"in": "id string, price double, tags array<string>, others array<long>, at long"}
TWO = {"left": "k string, l long, m array<long>", "right": "k long, l string, m array<long>"}
CASES: list[tuple[Component, Mapping[str, str], list[str]]] = [
    (AggregateBolt(["x", "tags", "others"], n=count(), s=sum("y")), ONE, ["'x'", "'tags'", "'others'", "'y'"]),
    (Deduplicate(["x", "tags", "y"], within="1m"), ONE, ["by='x'", "by='tags'", "by='y'"]),
    (Changes(["x", "tags"], of=["y", "others"]), ONE, ["by='x'", "by='tags'", "of='y'", "of='others'"]),
    (RateLimit(3, per="1m", by=["x", "y"]), ONE, ["by='x'", "by='y'"]),
    (Silence("1m", by=["x", "tags"], end="id"), ONE, ["by='x'", "by='tags'", "two columns 'id'"]),
    (Rank("tags", by=["x", "y"], start="id"), ONE, ["by='x'", "by='y'", "order_by='tags'", "two columns 'id'"]),
    (TopN(1, "x", by="y", start="s", end="s"), ONE, ["by='y'", "order_by='x'", "two columns 's'"]),
    (ShiftTime("1us", fields=["x", "id", "at"]), ONE, ["column 'x'", "column 'id'", "column 'at'"]),
    (AlterLifetime("id", start="x", duration="1s"), ONE, ["column 'x'", "column 'id'"]),
    (AlterLifetime("y", start="x", extend="1s"), ONE, ["column 'x'", "column 'y'"]),
    (WindowJoin("left", "right", on=["k", "l", "m"]), TWO, ["on 'k'", "on 'l'", "on 'm'"]),
    (TemporalJoin("left", "right", on=["x", "y"]), TWO, ["'x' of 'left'", "'y' of 'left'", "'x' of 'right'"]),
    (
        WindowJoin("left", "right", on={"left": "l", "right": "k"}, outputs="no long, neither long, left_m long"),
        TWO,
        ["'no'", "'neither'", "column 'left_m'"],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("bolt", "inputs", "wrong"), CASES, ids=repr)
def test_all_of_them_are_told(bolt: Component, inputs: Mapping[str, str], wrong: list[str]) -> None:
    with pytest.raises(ConfigError) as found:
        bolt.for_inputs({name: parse_schema(columns) for name, columns in inputs.items()})
    assert [word for word in wrong if word not in str(found.value)] == []


def test_a_single_one_is_told_alone() -> None:
    with pytest.raises(ConfigError, match=r"^Deduplicate\(by='x'\), and there is no such column"):
        Deduplicate(["id", "x"], within="1m").for_inputs({"in": parse_schema(ONE["in"])})
