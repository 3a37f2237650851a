"""CSV messages: one row, fields by name, numbers that are written as they were read."""

from __future__ import annotations

import csv
import io
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.refusals import reason, unwritable
from topologies.io.messages import CsvMessages
from windowing.errors import ConfigError

AB = CsvMessages(("a", "b"), separator=";")
TEXT = CsvMessages(("a", "b"), separator=";", types={"a": "text", "b": "text"})
ONE = CsvMessages(("a",))
CELLS = st.text() | st.text('"\r\n;,1.e-+ ', max_size=8)


def test_the_example_of_the_description() -> None:
    assert AB.read(b"1;2") == {"a": 1, "b": 2}
    assert AB.write({"a": 1, "b": 2}) == b"1;2"


@given(CELLS, CELLS)
def test_what_was_written_reads_back_the_same(a: str, b: str) -> None:
    event = {"a": a, "b": b}
    assert TEXT.read(TEXT.write(event)) == event


@given(st.lists(CELLS, min_size=1, max_size=4))
def test_rows_are_as_the_standard_library_writes_and_reads_them(values: list[str]) -> None:
    form = CsvMessages(tuple("abcd"[: len(values)]), types=dict.fromkeys("abcd"[: len(values)], "text"))
    event = dict(zip(form.fields, values, strict=True))
    for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL):
        written = io.StringIO(newline="")
        csv.writer(written, quoting=quoting).writerow(values)
        assert form.read(written.getvalue().encode()) == event
    assert next(csv.reader(io.StringIO(form.write(event).decode(), newline=""), strict=True)) == values


@given(CELLS | st.integers().map(str) | st.floats().map(repr))
def test_what_was_read_is_written_as_it_was(text: str) -> None:
    message = TEXT.write({"a": text, "b": ""})
    assert AB.write(AB.read(message)) == message


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_read_back_as_themselves(number: float) -> None:
    read = ONE.read(ONE.write({"a": number}))["a"]
    assert (read, type(read)) == (number, type(number))


@pytest.mark.parametrize(
    "text",
    [
        "007",
        "1e3",
        "",
        "NaN",
        "nan",
        "inf",
        "-inf",
        "-0",
        "+1",
        "1.50",
        ".5",
        "1.",
        "1_000",
        " 1",
        "1 ",
        "0x1",
        "true",
        "٣",
        "1e400",
        "-",
        "9" * 5000,
        "1e16",
        "--1",
        "1-1",
    ],
)
def test_what_python_would_spell_otherwise_stays_text(text: str) -> None:
    assert AB.read(f"{text};1".encode()) == {"a": text, "b": 1}


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1", 1),
        ("-1", -1),
        ("0", 0),
        ("1.5", 1.5),
        ("-0.0", -0.0),
        ("1e+16", 1e16),
        ("1e-07", 1e-7),
        (str(10**30), 10**30),
    ],
)
def test_what_python_spells_so_is_a_number(text: str, number: float) -> None:
    read = AB.read(f"{text};x".encode())["a"]
    assert (repr(read), type(read)) == (repr(number), type(number))


@pytest.mark.parametrize(("message", "found"), [("1", 1), ("1;2;3", 3), (";;;", 4), ("\n", 1), ('"1;2"', 1)])
def test_a_wrong_number_of_values_is_counted(message: str, found: int) -> None:
    assert reason(AB, message.encode()) == f"2 values expected, {found} found"


@pytest.mark.parametrize(
    ("message", "event"),
    [
        ("1;2\n", [1, 2]),
        ("1;2\r\n", [1, 2]),
        ("1;", [1, ""]),
        (";", ["", ""]),
        ('"1";"2"', [1, 2]),
        ('"a""b";"c;d"', ['a"b', "c;d"]),
        ('"a\nb";"\r\n"\r\n', ["a\nb", "\r\n"]),
        ('"";x', ["", "x"]),
        ("\ufeff1;2", [1, 2]),
        (" a ;\tb", [" a ", "\tb"]),
    ],
)
def test_rows(message: str, event: list[Any]) -> None:
    assert list(AB.read(message.encode()).values()) == event


def test_a_single_empty_value_is_a_message_too() -> None:
    assert ONE.write({"a": ""}) == ONE.write({"a": None}) == b'""'
    assert ONE.read(b'""') == ONE.read(b"\n") == {"a": ""}


TYPED = CsvMessages(("t", "i", "f", "b"), types={"t": "text", "i": "int", "f": "float", "b": "bool"})


def test_a_field_with_a_type_is_of_that_type() -> None:
    assert TYPED.read(b"1,007,1e3,true") == {"t": "1", "i": 7, "f": 1000.0, "b": True}
    assert TYPED.read(b"1,+7,+0,true") == {"t": "1", "i": 7, "f": 0.0, "b": True}
    assert TYPED.read(b",,,") == {"t": "", "i": None, "f": None, "b": None}
    event = {"t": "x", "i": -3, "f": 0.5, "b": False}
    assert TYPED.write(event) == b"x,-3,0.5,false"
    assert TYPED.read(TYPED.write(event)) == event


@pytest.mark.parametrize(
    "message",
    [
        "x,1.0,1,true",
        "x,a,1,true",
        "x, 1,1,true",
        "x,٣,1,true",
        "x,1,nan,true",
        "x,1,1e400,true",
        "x,1,1e-400,true",
        "x,1,0.1000000000000000055511151231257827,true",
        "x,1,12345678901234567890,true",
        "x,1,.,true",
        "x,1,1,True",
        "x,1,1,1",
        f"x,{'9' * 5000},1,true",
    ],
)
def test_a_value_that_does_not_fit_its_type_is_unreadable(message: str) -> None:
    assert reason(TYPED, message.encode()).startswith("field ")


@pytest.mark.parametrize(
    "change", [{"i": "1"}, {"i": 1.0}, {"i": True}, {"f": "x"}, {"f": float("nan")}, {"b": 1}, {"b": "true"}, {"t": []}]
)
def test_a_value_of_another_type_is_unwritable(change: dict[str, Any]) -> None:
    event = {"t": "x", "i": 1, "f": 1.5, "b": True} | change
    assert unwritable(TYPED, event).startswith(f"{next(iter(change))}: ")


def test_a_missing_and_an_extra_field_are_unwritable_by_name() -> None:
    assert unwritable(AB, {"a": 1}).startswith("b: the field is missing")
    assert "'c'" in unwritable(AB, {"a": 1, "b": 2, "c": 3})
    for wrong in (
        [1, 2],
        None,
        "1;2",
        {"a": 1, "b": {}},
        {"a": 1, "b": [1]},
        {"a": 1, "b": "\ud800"},
        {"a": 1, "b": float("inf")},
    ):
        unwritable(AB, wrong)


def test_values_become_text() -> None:
    assert AB.write({"a": None, "b": True}) == b";true"
    assert AB.write({"a": Decimal("1.50"), "b": 'x;"'}) == b'1.50;"x;"""'


@pytest.mark.parametrize(
    "wrong",
    [
        {"fields": ()},
        {"fields": ("a", "a")},
        {"fields": ("",)},
        {"fields": "ab"},
        {"separator": ""},
        {"separator": ";;"},
        {"separator": '"'},
        {"separator": "\n"},
        {"types": {"c": "int"}},
        {"types": {"a": "integer"}},
    ],
)
def test_settings_that_cannot_be_are_told(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        CsvMessages(**({"fields": ("a", "b")} | wrong))


@pytest.mark.parametrize("separator", ["\t", "|", "^", "]", "-", "\\", " ", "€", "."])
def test_any_character_may_separate(separator: str) -> None:
    form = CsvMessages(("a", "b"), separator)
    for event in ({"a": "x", "b": "y"}, {"a": f"x{separator}", "b": f'"{separator}'}):
        assert form.read(form.write(event)) == event
