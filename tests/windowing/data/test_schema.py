"""Declared columns: reading them, writing them, and where they are wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from windowing import ConfigError
from windowing.schema import TIMESTAMP, format_schema, is_read_back, parse_schema, read_written_schema


def test_every_type_by_its_names() -> None:
    declared = (
        "a string, b binary, c boolean, d tinyint, e smallint, f int, g long, h float, i double, j date, k timestamp, "
        "l decimal(12, 3), m decimal, n decimal(5), o array<int>, p map<string, double>, "
        "q struct<x: int, y: array<string>>, `r s` BIGINT, t: byte, u Str, v bool, w short, x integer, y real"
    )
    kinds = dict(zip(parse_schema(declared).names, parse_schema(declared).types, strict=True))
    assert kinds["k"] == TIMESTAMP
    assert kinds["m"] == pa.decimal128(10, 0)
    assert kinds["l"] == pa.decimal128(12, 3)
    assert kinds["o"] == pa.list_(pa.int32())
    assert kinds["p"] == pa.map_(pa.string(), pa.float64())
    assert kinds["q"] == pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])
    assert kinds["r s"] == pa.int64()
    assert len(kinds) == 24


def test_an_arrow_schema_is_taken_as_it_is() -> None:
    schema = pa.schema([("a", pa.uint16())])
    assert parse_schema(schema) is schema


@pytest.mark.parametrize(
    ("declared", "at", "complaint"),
    [
        ("", 1, "expected a column name"),
        ("a int,", 7, "expected a column name"),
        ("1a int", 1, "expected a column name, found '1'"),
        ("größe int", 3, "put the name in backticks"),
        ("état int", 1, "put the name in backticks, as in"),
        ("` int", 1, "expected a column name"),
        ("`` int", 1, "expected a column name"),
        ("a", 2, "expected a type"),
        ("a strin", 3, "'strin' is not a type"),
        ("a int b int", 7, "expected 'the end', found 'b'"),
        ("a array int", 9, "expected '<', found 'int'"),
        ("a array<int", 12, "expected '>'"),
        ("a map<int>", 10, "expected ','"),
        ("a decimal(x)", 11, "expected a number from 1 to 38, found 'x'"),
        ("a decimal()", 11, "expected a number"),
        ("a decimal(39)", 11, "found '39'"),
        ("a decimal(0)", 11, "found '0'"),
        ("a decimal(5, -2)", 14, "found '-'"),
        ("a decimal(5, 6)", 14, "from 0 to 5"),
        ("a decimal(5", 12, "expected ')'"),
        ("a struct<x: int, y: int, x: long>", 33, "a struct names 'x' more than once"),
    ],
)
def test_mistakes_are_reported_with_their_place(declared: str, at: int, complaint: str) -> None:
    with pytest.raises(ConfigError) as found:
        parse_schema(declared)
    assert f"at character {at}: " in str(found.value)
    assert complaint in str(found.value)


def test_a_backtick_in_a_name_is_written_twice() -> None:
    assert parse_schema("`a``b` int, ```` long").names == ["a`b", "`"]
    assert format_schema(pa.schema([("a`b", pa.int32())])) == "`a``b` int"


def test_a_name_that_is_given_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match="names 'a' more than once"):
        parse_schema("a int, b int, a string")
    with pytest.raises(ConfigError, match="names 'a' more than once"):
        parse_schema(pa.schema([("a", pa.int32()), ("a", pa.string())]))


@pytest.mark.parametrize("declared", [None, 5, ["a int"], {"a": "int"}])
def test_what_is_no_schema_at_all_is_refused(declared: Any) -> None:
    with pytest.raises(ConfigError, match="is not a schema"):
        parse_schema(declared)


NAMES = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,5}|[a-z] [a-z,:<>()`]{1,4}", fullmatch=True)
SIMPLE = [pa.string(), pa.binary(), pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32()]
KINDS = st.recursive(
    st.sampled_from([*SIMPLE, pa.float64(), pa.date32(), TIMESTAMP, pa.decimal128(12, 3), pa.decimal128(38, 0)]),
    lambda inner: st.one_of(
        inner.map(pa.list_),
        st.tuples(inner, inner).map(lambda pair: pa.map_(*pair)),
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=3, unique_by=lambda pair: pair[0]).map(pa.struct),
    ),
    max_leaves=5,
)


@given(st.lists(st.tuples(NAMES, KINDS), min_size=1, max_size=5, unique_by=lambda pair: pair[0]))
def test_what_is_written_is_read_back(fields: list[tuple[str, pa.DataType]]) -> None:
    schema = pa.schema(fields)
    assert parse_schema(format_schema(schema)) == schema


@given(st.lists(st.tuples(NAMES, KINDS), min_size=1, max_size=5, unique_by=lambda pair: pair[0]))
def test_what_is_written_is_read_back_beside_types_that_have_no_name(fields: list[tuple[str, pa.DataType]]) -> None:
    others = [
        ("o1", pa.dictionary(pa.int32(), pa.string())), ("o2", pa.list_(pa.int32(), 2)),
        ("o3", pa.list_(pa.dictionary(pa.int8(), pa.int64()))), ("o4", pa.uint8()), ("", pa.list_(pa.time64("us"))),
    ]  # fmt: skip
    mixed = [each for pair in zip(others, [*fields, *[None] * 5], strict=False) for each in pair if each is not None]
    found = read_written_schema(format_schema(pa.schema(mixed)))
    assert found.names == [name for name, _ in mixed]
    assert [found.field(name).type for name, _ in fields] == [kind for _, kind in fields]
    assert [found.field(f"o{number}").type for number in range(1, 4)] == [pa.null(), pa.null(), pa.list_(pa.null())]
    assert [is_read_back(found.field(name).type) for name, _ in others] == [False, False, False, True, True]
    assert found.field("").type == pa.list_(pa.time64("us"))


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint8(), pa.uint64(), pa.float16(), pa.large_string(), pa.string_view(), pa.large_binary(), pa.binary(16),
        pa.decimal256(50, 2), pa.decimal256(76, -3), pa.decimal128(5, -2), pa.date64(), pa.time32("s"), pa.time64("ns"),
        pa.duration("ms"), pa.json_(), pa.uuid(), pa.month_day_nano_interval(),
    ],
    ids=str,
)  # fmt: skip
def test_types_that_only_arrow_names_are_read_back(kind: pa.DataType) -> None:
    assert read_written_schema(format_schema(pa.schema([("a", kind), ("b", pa.int64())]))).types == [kind, pa.int64()]
    with pytest.raises(ConfigError):
        parse_schema(format_schema(pa.schema([("a", kind)])))
