"""Drawn JSON objects: plain ones, which Java reads for sums, and what may stand there instead."""

from __future__ import annotations

from hypothesis import strategies as st

COLUMNS = {
    "ts": "timestamp", "k": "string", "v": "long", "d": "double", "b": "boolean", "i": "int", "s": "smallint",
    "n": "tinyint", "day": "date", "größe": "string",
}  # fmt: skip
"""The declared columns, and their types."""
SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in COLUMNS.items())
_WHOLE = [b"null", b"0", b"-1", b"12", b"-0"]
_TEXTS = r'"" "a" "b" "\u00e4" "ä" "\ud83d\ude00" "😀" "x\n\"y\\" "null" "\u0000" "日本" "\/" "a b"'.replace(
    "a b", "a\xa0b"
)
PLAIN_VALUES: dict[str, list[bytes]] = {
    "timestamp": [
        b'"2024-01-01T00:00:05Z"', b'"2024-01-01 00:00:06.5"', b'"2024-01-01T01:00:07.000001+01:00"',
        b"1704067208000", b'"\\u0032024-01-01T00:00:09Z"', b'"2023-12-31T10:00:10-14:00"',
        b'"2024-02-29T23:59:59.999999"',
        b'"0001-01-01T00:00:00Z"', b'"9999-12-31T23:59:59.9Z"', b'"1969-12-31T23:59:59.999999Z"',
        b'"2000-02-29T00:00:00"',
        b"0", b"-1", b"null",
    ],
    "string": [b"null", *(text.encode() for text in _TEXTS.split(" "))],
    "long": [*_WHOLE, b"9223372036854775807", b"-9223372036854775808"],
    "double": [
        b"null", b"0", b"1.5", b"-0.0", b"1e3", b"1E-320", b"0.1", b"17976931348623157e292", b"123", b"-7",
        b"4.9e-324",
        b"0.30000000000000004", b"9007199254740992", b"2.2250738585072011e-308", b"-0e0", b"1e-400",
        b"0.1234567890123456789012345678901234567890", b"9007199254740993.0",
    ],
    "boolean": [b"null", b"true", b"false"],
    "int": [*_WHOLE, b"2147483647", b"-2147483648"],
    "smallint": [*_WHOLE, b"32767", b"-32768"],
    "tinyint": [*_WHOLE, b"127", b"-128"],
    "date": [
        b"null", b'"2024-02-29"', b'"0001-01-01"', b'"9999-12-31"', b'"1970-01-01"', b'"1969-12-31"', b'"1900-03-01"',
    ],
}  # fmt: skip
"""The texts of each type that Java reads."""
ODD_VALUES = [
    *(text for texts in PLAIN_VALUES.values() for text in texts),
    b'"NaN"', b"1e400", b"1.0", b'"5"', b"9223372036854775808", b"-9223372036854775809", b"128", b"2147483648",
    b"tru", b"TRUE",
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'{"a": 1}', b"[1]", b"[]",
    b"{}", b'"\\x"',
    b'"\\u12"', b'"a\nb"', b'"a\x01b"', b'"2024-02-30"', b'"2023-02-29T00:00:00Z"', b'"2024-01-01T00:00:05.1234567Z"',
    b'"0000-01-01T00:00:00Z"', b'"2024-01-01"', b"9007199254740993", b"01", b"1.", b".5", b"+1", b"0x1F", b'"x',
    b"NaN", b"Infinity",
    b"-Infinity", b'"2024-01-01T24:00:00Z"', b'"2024-01-01T23:60:00Z"', b'"2024-01-01T23:59:60Z"',
    b'"9999-12-31T23:59:59-01:00"',
    b'"0001-01-01T00:00:00+01:00"', b"1e5", b"1704067208000.5", b"253402300800000", b"-62135596800001",
    b"9223372036854775807",
    b'"2024-01-01T00:00:05+0100"', b'"2024-01-01T00:00:05+01"', b'"2024-01-01T00:00:05+15:00"',
    b'"2024-01-01T00:00:05.Z"',
    b'"2024-01-01T00:00:05 Z"', b'"2024-01-01t00:00:05z"', b'" 2024-01-01T00:00:05Z"', b'"20240101T000005Z"',
    b'"2024-1-1T00:00:05Z"',
    b'"2024-01-01T00:00"', b'"+2024-01-01T00:00:05Z"', b'"12024-01-01T00:00:05Z"', b'"2024-00-10"', b'"2024-13-10"',
    b'"2024-01-00"',
    b'"1900-02-29"', b'"2024-01-01T00:00:05Z" x', b"", b"1 2", b"0" * 2, b"9" * 1_100, b'"2024\\u002d01-01"', b"1e",
    b"-",
    b"[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]",
]  # fmt: skip
"""More texts: of the wrong type, at and beyond bounds, in other spellings, and of no value at all."""
_EXTRA = [
    b'"x": {"k": "other", "v": [1, {"v": 2}], "v": 3}', b'"y": "\\ud800"', b'"z": 1e999', b'"\xc3\xbc": 1',
    b'"K": "other"', b'"": null',
    b'"x": "1", "x": "2"', b'"long": "' + b"a" * 300 + b'"', b'"q": "\\"k\\": 1"', b'"deep": [[[[[[[[1]]]]]]]]',
    b'"k ": {}',
    b'"\\u0078": 1',
]  # fmt: skip
"""Members of no column, which objects may have."""
_ODD_EXTRA = [
    b'"v": 1', b'"\\u0076": 2', b'"x": "\xff"', b'"x": "\xed\xa0\x80"', b'"x": "\\q"', b'"x": "a\tb"', b'"x": tru',
    b'"x": 01', b'"x"', b"x: 1",
    b'"x": ' + b"[" * 17 + b"]" * 17, b'"x": ' + b"[" * 990 + b"]" * 990, b'"x": ' + b"[" * 5_000 + b"]" * 5_000,
    b'"x": ' + b"9" * 2_000,
    b'"x": [1,]', b'"x": NaN', b'"\\ud800": 1', b"'x': 1", b"/* x */", b'"x": "' + b"a" * 70_000 + b'"',
]  # fmt: skip
ODD_OBJECTS = [
    b"", b" ", b"null", b"[]", b"[{}]", b"1", b'"a"', b"{", b'{"v": 1', b'{"v": 1}}', b'{"v": 1}{"v": 1}',
    b'{"v": 1} x', b'{"v": 1,}', b"{,}",
    b'\xef\xbb\xbf{"v": 1}', '{"v": 1}'.encode("utf-16"), '{"v": 1}'.encode("utf-16-le"),
    '{"v": 1}'.encode("utf-32-le"),
    '{"v": 1}'.encode("utf-16-be"), b'{"v": 1}\0', b'{"v": 1} \xc2\xa0', b'{\0"v": 1}', b"{v: 1}", b'{"v" 1}',
    b'{"v": 1 "d": 2}', b"{'v': 1}",
    b'{"v": 1, "v": 1}', b'{"v": 1, "\\u0076": 1}', b'{"k": "\\ud800"}',
]  # fmt: skip
"""Values of records that are none of these objects."""
_AROUND = [(b"{", b"}", b", ", b": "), (b"{", b"}", b",", b":"), (b"{\n  ", b"\r\n}\n", b" ,\n\t", b" : ")]


@st.composite
def objects(draw: st.DrawFn, *, odd: bool, required: dict[str, list[bytes]] | None = None) -> bytes:
    """An object with some of the columns, in any order. ``odd``: its texts may be anything; ``required``: columns that
    it has in any case, with one of these texts."""
    begin, end, comma, colon = draw(st.sampled_from(_AROUND))
    names = draw(st.lists(st.sampled_from(list(COLUMNS)), unique=True))
    texts = {name: PLAIN_VALUES[COLUMNS[name]] for name in names} | (required or {})
    found = []
    for name, plain in texts.items():
        strange = odd and name not in (required or {}) and draw(st.integers(0, 4)) == 0
        found.append(b'"' + name.encode() + b'"' + colon + draw(st.sampled_from(ODD_VALUES if strange else plain)))
    found += draw(st.lists(st.sampled_from(_EXTRA + (_ODD_EXTRA if odd else [])), max_size=2, unique=True))
    if odd and draw(st.integers(0, 9)) == 0:
        return draw(st.sampled_from(ODD_OBJECTS))
    return begin + comma.join(draw(st.permutations(found))) + end
