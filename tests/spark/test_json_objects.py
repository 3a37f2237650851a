"""What Java reads of JSON for sums, Python reads as the same row; all else Java leaves to it (decision 141)."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.helpers.examples import examples
from tests.spark.kafka import json_texts
from tests.spark.kafka.json_texts import COLUMNS, ODD_OBJECTS, ODD_VALUES, PLAIN_VALUES, objects
from topologies.graph import java_sums
from topologies.io.topics.declared import TopicRows
from topologies.io.topics.decode import decode
from topologies.spark import frame_sums as summed
from topologies.spark.java import compile_class, new_object, one_source
from windowing.schema import parse_schema

SCHEMA = parse_schema(json_texts.SCHEMA)
READER = """
package windbolt;
IMPORTS
import java.io.IOException;
import java.util.HexFormat;
import java.util.HashMap;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter;
import org.apache.spark.unsafe.types.UTF8String;

public class OneByOne {
    static final class FrameSums {
        static final long FIRST_DAY = -719162, AFTER_DAY = 2932897, MICROS_OF_DAY = 86_400_000_000L;
    }
    private final String kinds;
    private final JsonObjects objects;

    public OneByOne(String columns, String kinds) {
        int[] all = new int[kinds.length()];
        for (int at = 0; at < all.length; at++) {
            all[at] = at;
        }
        this.kinds = kinds;
        objects = new JsonObjects(columns.split(" "), all);
    }

    /** Takes values in hexadecimal; a line for each: its columns, or "-" where Java does not read it. */
    public String rows(String values) throws IOException {
        StringBuilder found = new StringBuilder();
        String[] all = values.split(" ", -1);
        for (int at = 0; at < all.length; at++) {
            InternalRow row = objects.row(HexFormat.of().parseHex(all[at]));
            if (row == null) {
                found.append("-");
            }
            for (int column = 0; row != null && column < kinds.length(); column++) {
                found.append(row.isNullAt(column) ? "null" : value(row, column, kinds.charAt(column))).append(" ");
            }
            found.append("\\n");
        }
        return found.toString();
    }

    private static String value(InternalRow row, int at, char kind) {
        switch (kind) {
            case 'T': return "x" + HexFormat.of().formatHex(row.getUTF8String(at).getBytes());
            case 'Z': return String.valueOf(row.getBoolean(at));
            case 'D': return String.valueOf(Double.doubleToRawLongBits(row.getDouble(at)));
            case 'B': return String.valueOf(row.getByte(at));
            case 'S': return String.valueOf(row.getShort(at));
            case 'I': case 'A': return String.valueOf(row.getInt(at));
            default: return String.valueOf(row.getLong(at));
        }
    }

OBJECTS
}
"""
Rows = list[list[Any] | None]
Read = Callable[[Sequence[bytes]], Rows]


@pytest.fixture(scope="module")
def in_java(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Reads objects with Java; None where that leaves one to Python."""
    lines = summed._JSON_SOURCE.read_text("utf-8").splitlines()
    imports = [line for line in lines if line.startswith("import ")]
    body = [line for line in lines if not line.startswith("import ")]
    source = tmp_path_factory.mktemp("java") / "OneByOne.java"
    source.write_text(READER.replace("IMPORTS", "\n".join(imports)).replace("OBJECTS", "\n".join(body)), "utf-8")
    letters = [str(java_sums._key_letter(field.type)) for field in SCHEMA]
    columns = " ".join(letter + name.encode().hex() for letter, name in zip(letters, SCHEMA.names, strict=True))
    reader = new_object(spark, compile_class(spark, source), columns, "".join(letters))

    def read(values: Sequence[bytes]) -> Rows:
        lines = reader.rows(" ".join(value.hex() for value in values)).splitlines()
        return [None if line == "-" else [_from_java(each) for each in line.split()] for line in lines]

    return read


def _from_java(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    return bytes.fromhex(text[1:]).decode() if text[0] == "x" else int(text)


_WORDS = {"null": None, "true": True, "false": False}


def in_python(values: Sequence[bytes]) -> Rows:
    """The rows as Python reads them, with numbers for times and doubles; None where a record is bad."""
    records = pa.table({"offset": range(len(values)), "value": pa.array(values, pa.binary())})
    rows, offsets, _ = decode(TopicRows(SCHEMA), records)
    found: Rows = [None] * len(values)
    for offset, row in zip(offsets.tolist(), rows.to_pylist(), strict=True):
        found[offset] = [_number(each) for each in row.values()]
    return found


def assert_alike(in_java: Read, *values: bytes) -> None:
    """What Java reads is what Python reads."""
    for value, found, expected in zip(values, in_java(values), in_python(values), strict=True):
        assert found is None or found == expected, value


def _number(value: Any) -> Any:
    if isinstance(value, datetime):
        delta = value - datetime(1970, 1, 1, tzinfo=UTC)
        return (delta.days * 86_400 + delta.seconds) * 1_000_000 + delta.microseconds
    if isinstance(value, date):
        return (value - date(1970, 1, 1)).days
    return struct.unpack("<q", struct.pack("<d", value))[0] if isinstance(value, float) else value


@given(objects(odd=False))
@examples(500, by_default=150, deadline=None)
def test_java_reads_plain_objects_as_python_does(in_java: Read, value: bytes) -> None:
    assert in_java([value]) == in_python([value]) != [None]


@given(objects(odd=True))
@examples(2_000, by_default=250, deadline=None)
def test_java_reads_no_other_object_in_its_own_way(in_java: Read, value: bytes) -> None:
    assert_alike(in_java, value)


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,18})?([eE][-+]?[0-9]{1,3})?", fullmatch=True))
@examples(2_000, by_default=250, deadline=None)
def test_numbers_are_read_to_their_last_bit(in_java: Read, number: str) -> None:
    assert_alike(in_java, f'{{"d":{number}}}'.encode(), f'{{"v":{number}}}'.encode())


@given(st.floats(allow_nan=False, allow_infinity=False))
@examples(2_000, by_default=250, deadline=None)
def test_doubles_as_they_are_usually_written_are_read_in_java(in_java: Read, number: float) -> None:
    (found,) = in_java([f'{{"d": {number!r}}}'.encode()])
    assert found is not None
    assert found[list(COLUMNS).index("d")] == _number(number)


@pytest.mark.parametrize("column", COLUMNS)
def test_every_text_of_a_column_is_read_alike_or_left_to_python(in_java: Read, column: str) -> None:
    plain, odd = (
        [b'{"%b": %b}' % (column.encode(), text) for text in texts]
        for texts in (PLAIN_VALUES[COLUMNS[column]], ODD_VALUES)
    )
    assert in_java(plain) == in_python(plain)
    assert None not in in_java(plain)
    assert_alike(in_java, *odd)


def test_what_is_no_plain_object_is_left_to_python(in_java: Read) -> None:
    assert [value for value, found in zip(ODD_OBJECTS, in_java(ODD_OBJECTS), strict=True) if found is not None] == []


@given(st.binary(max_size=12), st.integers(0, 60))
@examples(1_000, by_default=150, deadline=None)
def test_bytes_that_were_damaged_are_read_alike_or_left_to_python(in_java: Read, bytes_: bytes, at: int) -> None:
    whole = '{"k": "ä\\u00e4", "v": 12, "d": 1.5, "x": ["😀", {"y": null}]}'.encode()
    assert_alike(in_java, whole[:at] + bytes_ + whole[at + len(bytes_) :])


def test_the_program_has_its_imports_first(tmp_path: Path) -> None:
    lines = one_source(summed._SUMS_SOURCE, summed._JSON_SOURCE).splitlines()
    last = max(at for at, line in enumerate(lines) if line.startswith("import "))
    assert all(line.startswith("import ") for line in lines[: last + 1])
