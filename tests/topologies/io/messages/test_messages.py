"""Messages of every format: what cannot be read is told in a line, and nothing else happens."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.malformed import FORMATS, GOOD, malformed
from tests.helpers.refusals import one_line, reason, unwritable
from topologies.io.messages import (
    MAX_BYTES,
    AvroMessages,
    CsvMessages,
    JsonMessages,
    Unreadable,
    Unwritable,
    XmlMessages,
)
from windowing.errors import ConfigError

NAMES = list(FORMATS)
READ = {
    "json": {"id": "заказ-1", "n": [1, -2.5, True, None], "to": {"city": "Köln"}, "e": ""},
    "xml": {"order": {"@id": "7", "i": [{"@n": "1", "#text": "Köln"}, "&<"]}},
    "csv": {"a": "заказ", "b": "2;5", "c": 3.5},
}
every_format = pytest.mark.parametrize("name", NAMES)


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __repr__(self) -> str:
        return "Hostile()"


def in_itself() -> dict[str, Any]:
    made: dict[str, Any] = {}
    made["a"] = made
    return made


@every_format
def test_a_good_message_is_read_and_what_it_says_can_be_written_and_read_again(name: str) -> None:
    form = FORMATS[name]
    event = form.read(GOOD[name])
    assert event == READ.get(name, event)
    assert form.read(form.write(event)) == event
    assert form.name == name


@every_format
def test_malformed_messages_are_unreadable_each_and_soon(name: str) -> None:
    messages = malformed(name)
    began = time.perf_counter()
    for _, message in messages:
        reason(FORMATS[name], message)
    assert time.perf_counter() - began < 10


@every_format
def test_there_are_two_hundred_malformed_messages_and_a_broker_takes_them(name: str) -> None:
    messages = malformed(name)
    assert len({message for _, message in messages}) == len(messages) >= 200
    assert len({what for what, _ in messages}) == len(messages)
    assert max(len(message) for _, message in messages) < 900_000
    assert sum(len(message) for _, message in messages) < 20_000_000
    assert messages == malformed(name)


@every_format
def test_a_tombstone_and_an_empty_message_are_unreadable(name: str) -> None:
    assert "no value" in reason(FORMATS[name], None)
    assert "empty" in reason(FORMATS[name], b"")


@every_format
def test_a_message_over_the_limit_is_unreadable_and_is_not_looked_into(name: str) -> None:
    assert "more than the 16,777,216" in reason(FORMATS[name], bytes(MAX_BYTES + 1))


LARGE = {
    "json": b'["' + b"x" * (MAX_BYTES - 4) + b'"]',
    "xml": b"<a>" + b"x" * (MAX_BYTES - 7) + b"</a>",
    "csv": b"1;2;" + b"x" * (MAX_BYTES - 4),
}


@pytest.mark.parametrize("name", list(LARGE))
def test_a_message_of_just_the_limit_is_read(name: str) -> None:
    assert len(LARGE[name]) == MAX_BYTES
    event = FORMATS[name].read(LARGE[name])
    assert event
    if name == "xml":  # the prolog is too much
        assert "more than" in unwritable(FORMATS[name], event)
    else:
        assert FORMATS[name].write(event) == LARGE[name]


@every_format
def test_a_format_can_be_pickled_compared_and_pasted(name: str) -> None:
    form = FORMATS[name]
    copy = pickle.loads(pickle.dumps(form))
    assert copy == form
    assert copy.read(GOOD[name]) == form.read(GOOD[name])
    assert isinstance(hash(form), int)
    if name != "avro":
        assert eval(repr(form)) == form


def test_the_errors_can_be_pickled_and_stay_one_line() -> None:
    for kind in (Unreadable, Unwritable):
        error = kind("one\ntwo\u2028three\x85four \ud800" + "x" * 500)
        copy = pickle.loads(pickle.dumps(error))
        assert type(copy) is kind
        assert one_line(copy) == one_line(error)
        assert str(error).startswith("one two three four \\ud800xxx")


@every_format
@given(value=st.binary(max_size=200))
def test_any_bytes_are_read_or_unreadable(name: str, value: bytes) -> None:
    try:
        FORMATS[name].read(value)
    except Unreadable as error:
        one_line(error)


@every_format
@given(data=st.data())
def test_a_good_message_with_something_changed_is_read_or_unreadable(name: str, data: st.DataObject) -> None:
    good = bytearray(GOOD[name])
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(good) - 1))
        good[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3)) or b"0"
    try:
        FORMATS[name].read(bytes(good))
    except Unreadable as error:
        one_line(error)


ANY = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.text(),
        st.text(st.characters(codec=None)),
        st.binary(),
        st.datetimes(),
        st.dates(),
        st.times(),
        st.decimals(),
        st.complex_numbers(),
        st.uuids(),
        st.sampled_from([Hostile(), Hostile, object(), ..., in_itself(), {1}, range(3)]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.tuples(inner),
        st.dictionaries(
            st.one_of(st.text(max_size=5), st.sampled_from(["a", "b", "c", "@a", "#text", 1, None])), inner, max_size=3
        ),
    ),
    max_leaves=8,
)


@every_format
@given(event=ANY)
def test_any_object_is_written_or_unwritable(name: str, event: Any) -> None:
    for form in (FORMATS[name], XmlMessages(max_depth=3)):
        for one in (event, {"a": event}, {"a": 1, "b": event, "c": ""}):
            try:
                message = form.write(one)
            except Unwritable as error:
                one_line(error)
            else:
                form.read(message)  # what is written can be read


@every_format
def test_objects_with_hostile_code_or_in_themselves_are_unwritable(name: str) -> None:
    for event in (Hostile(), {"a": Hostile()}, [Hostile()], in_itself(), [in_itself()]):
        unwritable(FORMATS[name], event)


def test_limits_that_cannot_be_are_told() -> None:
    for wrong in ({"max_bytes": 0}, {"max_depth": 0}, {"max_depth": 251}):
        for kind in (JsonMessages, XmlMessages):
            with pytest.raises(ConfigError):
                kind(**wrong)
    with pytest.raises(ConfigError):
        CsvMessages(("a",), max_bytes=0)
    with pytest.raises(ConfigError):
        AvroMessages(FORMATS["avro"].schemas, max_depth=0)  # type: ignore[attr-defined]


def test_a_smaller_limit_holds_for_reading_and_writing() -> None:
    for form, fits, too_long in (
        (JsonMessages(max_bytes=5), b'"abc"', b'"abcd"'),
        (CsvMessages(("a",), max_bytes=5), b"abcde", b"abcdef"),
    ):
        assert form.write(form.read(fits)) == fits
        assert "more than the 5" in reason(form, too_long)
        assert "more than the 5" in unwritable(form, "abcd" if form.name == "json" else {"a": "abcdef"})
