"""Messages that are read many at once: the same events, and the same reasons, as one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.helpers.malformed import FORMATS, GOOD, malformed
from topologies.io.documents import exact_float, unique_pairs
from topologies.io.messages import SCHEMA_NAME, JsonMessages, MessageFormat, Unreadable, read_many
from topologies.io.messages import json as joined

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


NUMBERS = st.from_regex(r"-?(0|[1-9][0-9]{0,22})(\.[0-9]{1,20})?([eE][-+]?[0-9]{1,3})?", fullmatch=True)
SPELLED = st.recursive(
    NUMBERS | st.sampled_from(['"a"', '"1e999"', r'"\u0022:"', r'"\":"', '"12345678901234567890"', "true"]),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.lists(st.tuples(st.sampled_from(['"a"', '"b" ', r'"\u0061"']), inner), max_size=3).map(
            lambda fields: f"{{{','.join(f'{name}:{value}' for name, value in fields)}}}"
        )
    ),
    max_leaves=5,
)
"""Numbers of all lengths, names that may be repeated, and texts that look like either."""


@examples(300)
@given(st.lists(SPELLED, max_size=4))
def test_what_a_reader_would_lose_is_found_however_it_is_spelled(texts: list[str]) -> None:
    """Against Python's reader, which is given each number as it stands."""
    expected, found = [], [text.encode() for text in texts]
    for text in texts:
        try:
            expected.append(json.loads(text, object_pairs_hook=unique_pairs, parse_float=exact_float))
        except ValueError as error:
            expected.append(Unreadable(str(error)))
    read = [event if isinstance(event, Unreadable) else told([event])[0] for event in read_many(JsonMessages(), found)]
    for event, wanted in zip(read, expected, strict=True):
        assert event == told([wanted])[0] or (isinstance(event, Unreadable) and isinstance(wanted, Unreadable))


@pytest.mark.parametrize("values", [[b"1,2", b"[3", b"4]"], [b'{"a":1,"a":2}', b"1"], [b"0.12345678901234567890"] * 2])
def test_messages_of_another_format_are_not_taken_for_json(values: list[bytes]) -> None:
    """Messages of windows that were open when the format of a step was changed."""
    assert any(isinstance(event, Unreadable) for event in read_many(JsonMessages(), values))
    assert told(read_many(JsonMessages(), values)) == told(one_by_one(JsonMessages(), values))


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
