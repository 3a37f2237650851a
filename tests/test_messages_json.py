"""JSON messages: strict, exact, and no NaN that becomes null."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.test_messages import reason, unwritable
from topologies.messages import JsonMessages

JSON = JsonMessages()
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=20,
)


@given(VALUES)
def test_what_was_written_reads_back_the_same(event: Any) -> None:
    assert JSON.read(JSON.write(event)) == event


@given(VALUES)
def test_reading_is_as_the_standard_library_reads(event: Any) -> None:
    text = json.dumps(event, ensure_ascii=False).encode()
    assert repr(JSON.read(text)) == repr(json.loads(text))


WIDE = [2**63 - 1, 2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**18, 10**19, 10**30 + 1, -(10**300)]


@pytest.mark.parametrize("number", WIDE)
def test_whole_numbers_are_exact_however_long(number: int) -> None:
    for event in (number, [number], {"a": {"b": number, "c": "x" * 30}, "d": 1.5}):
        read = JSON.read(json.dumps(event).encode())
        assert read == event
        assert JSON.read(JSON.write(event)) == event
    assert type(JSON.read(str(number).encode())) is int


def test_long_digits_in_texts_and_fractions_are_no_whole_numbers() -> None:
    text = b'{"id":"12345678901234567890\\"98765432109876543210","x":0.1234567890123456789,"y":12345678901234567890e0}'
    assert JSON.read(text) == json.loads(text)
    assert type(JSON.read(b"12345678901234567890123.0")) is float


def test_a_number_beyond_a_double_is_unreadable() -> None:
    assert "not valid JSON" in reason(JSON, b"1e400")
    reason(JSON, b"9" * 400)


def test_of_a_name_given_twice_the_last_value_counts_also_beside_long_numbers() -> None:
    assert JSON.read(b'{"a":1,"a":2}') == {"a": 2}
    assert JSON.read(b'{"a":100000000000000000000,"a":2,"b":100000000000000000001}') == {"a": 2, "b": 10**20 + 1}


def test_a_byte_order_mark_is_skipped_once() -> None:
    assert JSON.read(b'\xef\xbb\xbf{"a":1}') == {"a": 1}
    reason(JSON, b"\xef\xbb\xbf\xef\xbb\xbf1")
    assert "empty" in reason(JSON, b"\xef\xbb\xbf")


def lists(depth: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(depth - 1):
        made = [made]
    return made


@pytest.mark.parametrize("limit", [1, 3, 200, 250])
def test_the_limit_of_depth_holds_at_both_sides(limit: int) -> None:
    form = JsonMessages(max_depth=limit)
    assert form.read(b"[" * limit + b"]" * limit) == lists(limit)
    assert form.read(form.write(lists(limit))) == lists(limit)
    assert "deeper than" in reason(form, b"[" * (limit + 1) + b"]" * (limit + 1))
    assert "nested too deep" in unwritable(form, lists(limit + 1))
    objects = b'{"a":' * limit + b"1" + b"}" * limit
    assert form.write(form.read(objects)) == objects
    reason(form, b'{"a":' + objects + b"}")
    reason(form, b"[1," + objects + b",2]")


def test_many_values_beside_one_another_are_not_deep() -> None:
    form = JsonMessages(max_depth=3)
    wide = [[{"a": 1}, {}, []]] * 1000
    assert form.read(form.write(wide)) == wide


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, Decimal("NaN"), np.float64("nan"), pd.NaT])
def test_what_is_no_number_is_unwritable_and_told_where(wrong: Any) -> None:
    assert unwritable(JSON, {"a": [None, {"b": wrong}]}).startswith("a[1].b: ")
    assert unwritable(JSON, wrong).startswith("the event: ")
    unwritable(JSON, (wrong,))


class Colour(Enum):
    RED = "red"
    NONE = math.nan


@dataclass
class Record:
    a: int


@pytest.mark.parametrize(
    "wrong", [{1}, {1: 2}, {None: 1}, object(), Record(1), "\ud800", {"\udfff": 1}, 1j, Colour.NONE, ...]
)
def test_what_json_has_not_is_unwritable_and_told_where(wrong: Any) -> None:
    assert unwritable(JSON, {"x": [wrong]}).startswith("x[0]")


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (dt.datetime(2024, 1, 1, 6), "2024-01-01T06:00:00Z"),  # noqa: DTZ001
        (dt.datetime(2024, 1, 1, 6, 0, 3, 25, tzinfo=dt.UTC), "2024-01-01T06:00:03.000025Z"),
        (dt.datetime(2024, 1, 1, 6, tzinfo=dt.timezone(dt.timedelta(hours=3))), "2024-01-01T06:00:00+03:00"),
        (pd.Timestamp("2024-01-01T06:00:00Z"), "2024-01-01T06:00:00Z"),
        (dt.date(2024, 1, 1), "2024-01-01"),
        (dt.time(6, 5), "06:05:00"),
        (dt.time(6, 5, tzinfo=dt.UTC), "06:05:00+00:00"),
        (Decimal("1.500"), "1.500"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (b"\xff\x00", "/wA="),
        (Colour.RED, "red"),
        (np.int64(5), 5),
        (np.float32(0.5), 0.5),
        (np.array([1, 2]), [1, 2]),
        (np.bool_(True), True),
        ((1, (2,)), [1, [2]]),
        ("x", "x"),
    ],
)
def test_values_beyond_json_have_one_form_whatever_is_beside_them(value: Any, written: Any) -> None:
    assert JSON.read(JSON.write({"a": value})) == {"a": written}
    assert JSON.read(JSON.write([None, b"", value])) == [None, "", written]  # the slow way
