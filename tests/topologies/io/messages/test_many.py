"""Messages that are read many at once: the same events, and the same reasons, as one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.malformed import FORMATS, GOOD, malformed
from topologies.io.messages import SCHEMA_NAME, JsonMessages, MessageFormat, Unreadable, read_many
from topologies.io.messages.json import joined

FRAGMENTS = (
    b"[1", b"2]", b"1,2", b"1", b"", None, b" ", b"]", b"[", b'"a', b'b"', b'"a\\', b'","', b"{", b"}", b'{"a":1',
    b',"b":2}', b"\xef\xbb\xbf1", b"\xff", b"null", b"nul", b"l",
)  # fmt: skip
"""Pieces of JSON, some of which are messages only together with their neighbours."""

ODD = (
    b'{"a":1,"a":2}', b"1.50", b"1e400", b"0.1000000000000000055511151231257827", b"123456789012345678901234567890",
    b'"\\ud800"', b'"\\u00e9"', b"NaN", b"-0", b"[" * 150 + b"]" * 150, b"[" * 300 + b"]" * 300,
    b"[" * 2000 + b"]" * 2000, b'"' + b"a" * 500 + b'"',
)  # fmt: skip
"""Messages that are not written as they were read, or nest deep."""

messages_of_json = st.one_of(
    st.sampled_from((*FRAGMENTS, *ODD)),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=5,
    ).map(lambda value: json.dumps(value).encode()),
)


def one_by_one(form: MessageFormat, values: Sequence[bytes | None]) -> list[Any]:
    read: list[Any] = []
    for value in values:
        try:
            read.append(form.read(value))
        except Unreadable as error:
            read.append(error)
    return read


def told(read: Sequence[Any]) -> list[str]:
    """What was read, with types: 1, 1.0 and True are equal, and not the same."""
    return [f"{type(value).__name__} {value!s}" for value in read]


@given(st.lists(messages_of_json, max_size=12))
def test_messages_in_json_are_the_same_together_as_one_by_one(values: list[bytes | None]) -> None:
    assert told(read_many(JsonMessages(), values)) == told(one_by_one(JsonMessages(), values))


@given(st.lists(messages_of_json, max_size=12))
def test_messages_that_have_been_read_are_the_same_when_they_are_read_again(values: list[bytes | None]) -> None:
    known = one_by_one(JsonMessages(), values)
    good = [value for value, event in zip(values, known, strict=True) if not isinstance(event, Unreadable)]
    assert told(read_many(JsonMessages(), good, again=True)) == told(one_by_one(JsonMessages(), good))


@pytest.mark.parametrize("number", [b"18446744073709551616", b"-9223372036854775809", b"0.10000000000000000000", b"-0"])
def test_numbers_are_exact_when_they_are_read_again(number: bytes) -> None:
    values = [b"1", b'{"a":' + number + b"}", b"2"]
    assert told(read_many(JsonMessages(), values, again=True)) == told(one_by_one(JsonMessages(), values))


@pytest.mark.parametrize("name", list(FORMATS))
def test_malformed_messages_do_not_harm_their_neighbours(name: str) -> None:
    form = FORMATS[name]
    values = [value for _, bad in malformed(name) for value in (GOOD[name], bad, GOOD[name])]
    assert told(read_many(form, values)) == told(one_by_one(form, values))


@pytest.mark.parametrize("values", [[b'"abcd"', b"1"], [b"1", b"[[2]]"]])
def test_limits_hold_for_each_message(values: list[bytes]) -> None:
    form = JsonMessages(max_bytes=5, max_depth=1)
    read = read_many(form, values)
    assert told(read) == told(one_by_one(form, values))
    assert sum(isinstance(value, Unreadable) for value in read) == 1


def test_a_message_that_contains_the_mark_between_messages_is_one_message() -> None:
    mark = joined._MARK.encode()
    values = [b'1,"' + mark + b'",2', b'"' + mark + b'"', b'["a","' + mark + b'"]', b"3"]
    assert told(read_many(JsonMessages(), values)) == told(one_by_one(JsonMessages(), values))


def test_very_large_messages_are_not_joined() -> None:
    values = [b'"' + b"a" * (1 << 20) + b'"', b"1"]
    assert joined.read_joined(values) is None
    assert read_many(JsonMessages(), values) == one_by_one(JsonMessages(), values)


def test_headers_belong_to_their_message() -> None:
    form = FORMATS["avro"]
    headers = [{}, {SCHEMA_NAME: b"nothing of the kind"}]
    read = read_many(form, [GOOD["avro"]] * 2, headers)
    assert read[0] == form.read(GOOD["avro"])
    assert isinstance(read[1], Unreadable)
