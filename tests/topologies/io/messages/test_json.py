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
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.helpers.refusals import reason, unwritable
from topologies.io.messages import JsonMessages, Unreadable

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


KEPT = {
    "0.1": 0.1,
    "0.10000000000000001": 0.1,
    "0.1000000000000000055511151231257827021181583404541015625": 0.1,
    "1.5000000000000000000000000000000": 1.5,
    "1e23": 1e23,
    "-0.0": -0.0,
    "0E999999999999999999999": 0.0,
    "5e-324": 5e-324,
    "1.7976931348623157e308": 1.7976931348623157e308,
    "9007199254740992.0": 2.0**53,
}
LOST = [
    "0.1000000000000000055511151231257827",
    "0.1234567890123456789",
    "12345678901234567890e0",
    "12345678901234567890123.0",
    "9007199254740993.0",
    "0.12345678901234567",
    "-1E-400",
    "3e-324",
    "1e-99999999999999999999999",
]


@pytest.mark.parametrize(("text", "value"), KEPT.items())
def test_a_number_that_a_double_can_be_is_that_double(text: str, value: float) -> None:
    read = JSON.read(f'{{"x": [{text}]}}'.encode())
    assert repr(read) == repr({"x": [value]})


@pytest.mark.parametrize("text", LOST)
def test_digits_that_a_double_would_lose_are_told(text: str) -> None:
    assert f"the number {text} cannot be kept as it is" in reason(JSON, f'{{"x":[{text}]}}'.encode())


@given(st.decimals(allow_nan=False, allow_infinity=False))
@example(Decimal("970843.11565764000"))  # three zeros more than it needs, and than its double has
@example(Decimal("5.960464477539063e-08"))  # 2 ** -24, which is halfway between this and ...062e-08
def test_a_number_is_kept_as_far_as_it_is_spelled_or_told(number: Decimal) -> None:
    text = f"{number:e}".encode()
    try:
        read = JSON.read(text)
    except Unreadable:
        assert Decimal(repr(float(number))) != number
    else:
        digits = "".join(map(str, number.as_tuple().digits)).rstrip("0") or "0"
        assert number in (Decimal(repr(read)), Decimal(f"{read:.{len(digits) - 1}e}"))


def test_long_digits_in_texts_are_no_numbers() -> None:
    text = b'{"id":"12345678901234567890\\"98765432109876543210","x":"0.1234567890123456789"}'
    assert JSON.read(text) == json.loads(text)


def test_a_number_beyond_a_double_is_unreadable() -> None:
    assert "not valid JSON" in reason(JSON, b"1e400")
    assert "not valid JSON" in reason(JSON, b'{"a":1E400}')
    reason(JSON, b"9" * 400)


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":1,"a":1}',
        b'[{"b": {"a":1, "\\u0061":2}}]',
        b'{"a":100000000000000000000,"a":2,"b":100000000000000000001}',
        b'\xef\xbb\xbf{"a":1,"a":1}',
    ],
)
def test_a_name_given_twice_is_unreadable(text: bytes) -> None:
    assert reason(JSON, text) == "the key 'a' twice in one mapping"


def test_a_name_given_twice_is_found_soon_among_many() -> None:
    names = ",".join(f'"n{at}":0' for at in range(300_000))
    assert "'n299999' twice" in reason(
        JSON, f'{{{names},"n299999":1}}'.encode()
    )  # compared with one another: for hours


def test_a_name_in_several_objects_is_given_once_in_each() -> None:
    assert JSON.read(b'[{"a": 1}, {"a": {"a": 1.50}}]') == [{"a": 1}, {"a": {"a": 1.5}}]


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
        (dt.datetime(1850, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), "1850-01-01T00:00:00+00:53:28"),
        (dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(seconds=28))), "2024-01-01T00:00:00+00:00:28"),
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
        (np.datetime64("2024-01-01T00:00:00.123456789"), "2024-01-01T00:00:00.123456789Z"),
        (np.array(["2024-01-01T01"], "datetime64[ns]"), ["2024-01-01T01:00:00.000000000Z"]),
        (np.bool_(True), True),
        ((1, (2,)), [1, [2]]),
        ("x", "x"),
    ],
)
def test_values_beyond_json_have_one_form_whatever_is_beside_them(value: Any, written: Any) -> None:
    assert JSON.read(JSON.write({"a": value})) == {"a": written}
    assert JSON.read(JSON.write([None, b"", value])) == [None, "", written]  # the slow way


def test_a_time_in_an_array_without_axes_is_a_time_and_no_number() -> None:
    for unit in ("us", "ns"):
        written = JsonMessages().write({"a": np.array("2024-01-01T01", f"datetime64[{unit}]")})
        assert b'"2024-01-01T01:00:00' in written
