"""Messages that no format may take: for each at least two hundred, all different, each with a name.

They are small enough for a broker as it is set up by default (900 KB each, 20 MB together), and all are
Unreadable for ``FORMATS[format_name]``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

from topologies.io.messages import AvroMessages, AvroSchema, CsvMessages, JsonMessages, MessageFormat, XmlMessages

Named = tuple[str, bytes]

LONG = 800_000
GOOD = MappingProxyType(
    {
        "json": '{"id": "заказ-1", "n": [1, -2.5, true, null], "to": {"city": "Köln"}, "e": ""}'.encode(),
        "xml": '<?xml version="1.0"?><order id="7"><i n="1">Köln</i><i>&amp;<![CDATA[<]]></i></order>'.encode(),
        "csv": 'заказ;"2;5";3.5'.encode(),
        "avro": bytes.fromhex("0a6f722d3131 04 02 00  02026100 02024b0100  029a9999999999f13f 01 04ff07 00 00"),
    }
)
AVRO_SCHEMA = """
{"type": "record", "name": "tests.Order", "fields": [
  {"name": "id", "type": "string"},
  {"name": "n", "type": "int"},
  {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "PAID", "SENT"]}},
  {"name": "parent", "type": ["null", "Order"]},
  {"name": "tags", "type": {"type": "array", "items": "string"}},
  {"name": "counts", "type": {"type": "map", "values": "long"}},
  {"name": "price", "type": ["null", "double"]},
  {"name": "paid", "type": "boolean"},
  {"name": "raw", "type": "bytes"},
  {"name": "at", "type": {"type": "int", "logicalType": "time-millis"}},
  {"name": "end", "type": {"type": "enum", "name": "End", "symbols": ["END"]}}
]}
"""
FORMATS: Mapping[str, MessageFormat] = MappingProxyType(
    {
        "json": JsonMessages(),
        "xml": XmlMessages(),
        "csv": CsvMessages(("a", "b", "c"), separator=";"),
        "avro": AvroMessages((AvroSchema.parse(AVRO_SCHEMA),)),
    }
)

_WRONG_JSON = [
    "NaN", "Infinity", "-Infinity", "nan", "inf", "undefined", "None", "True", "False", "TRUE", "nul", "tru", "nullx",
    "truefalse", "01", "-01", "1.", ".5", "+1", "-", "1e", "1e+", "1.e5", "0x1F", "1_000", "1e400", "-1e400", "'",
    "'a'", "a", "{a:1}", "{'a':1}", "{1:2}", "{null:1}", '{"a"}', '{"a":}', '{"a":1,}', "{,}", "{:1}", "[1,]", "[,1]",
    "[,]", "[1,,2]", "[1}2]", '{"a":1]', "[1;2]", '{"a"=1}', '{"a":1;}', '{"a":1"b":2}', '{"a"', '"b"}', "[1]]",
    "{}}", '{"a":1}{"b":2}', "[][]", "1,2", "1;2", "//", "/**/1", "#1", '"', '"a', '"a\\"', '"\\x41"', '"\\u12"',
    '"\\ud800"', '"\\udc00"', '"\\ud800\\ud800"', '"\\ud83dx"', '"\\z"', '"\\u00g0"', "[NaN]", '{"a":NaN}', "[-]",
    "[1.]", "[01]", "{[]:1}", "{{}:1}", "[[]", "[[[", "]]]", "}", "]", ":", ",", "\\", "\\u0041", "<a/>", "a;b;c",
    "...",
]  # fmt: skip
_WRONG_XML = [
    "a", "<", ">", "<>", "</>", "<a", "<a>", "</a>", "<a></b>", "<a><b></a></b>", "<a/><b/>", "<a/>text", "text<a/>",
    "<1a/>", "<-a/>", "<a b/>", "<a b=/>", "<a b=c/>", "<a b='1' b='2'/>", "<a b='<'/>", '<a b=\'1"/>', "<a 1='1'/>",
    "<a b='1'c='2'/>", "<a>&</a>", "<a>&b</a>", "<a>&b;</a>", "<a>&#;</a>", "<a>&#0;</a>", "<a>&#1;</a>",
    "<a>&#xD800;</a>", "<a>&#x110000;</a>", "<a>&#99999999999;</a>", "<a>&nbsp;</a>", "<a>]]></a>",
    "<a><!-- -- --></a>", "<a><!-- </a>", "<a><![CDATA[</a>", "<a><![cdata[]]></a>", "<a><?xml?></a>", "<?xml?><a/>",
    " <?xml version='1.0'?><a/>", "<?xml version='1.0'?>", "<?xml version='1.0' encoding=''?><a/>", "<a><?></a>",
    "<a ><b></a >", "< a/>", "<a / >", "<a/ >", "<a><a><a></a></a>", "<!-- only --> ", "<?pi only?>",
    "<a xmlns:b='c'><b:d></a>", "<a></a></a>", '{"a":1}', "1;2;3", "<a>\x01</a>", "<a>\x0b</a>", "<a>\x1f</a>",
    "<a>\ufffe</a>", "<a>\uffff</a>", "<a b='\x02'/>", "<\x00a/>", "<a>\x00</a>", "<a,b/>", "<a$/>",
    "<a&b/>", "<a;/>", "<!a/>", "<a b='&c;'/>", "<a b='&#8;'/>", '<a b="1/>',
]  # fmt: skip
_WRONG_CSV = [
    '"', '1;2;"', '";1;2', '"1;2;3', '1;"2;3', '1;2;"3', '1;2;3"', '1;2"2;3', '1;"2"2;3', '1;"2" ;3', '1; "2";3',
    '1;"2"";3', '""1;2;3', '1;""2;3', '"1"2";2;3', '1;"2\n;3', "1;2\n2;3", "1;2\r2;3", '1;2;3\n"', '"1;2;3"', '"1;2";3',
    '1;"2;3"', "'1;2';3;4", "1;2;3;", ";1;2;3", "1\\;2;3;4", '"1;2;3\n', '1;2;3"\n', '"";""', '"";"";"";""',
    '1;"2"\n;3', '"1"\r;2;3', '{"a":1}', "<a>1</a>", '""""', '"""', '1;2;3;"', '1;2;3"";4',
]  # fmt: skip


def malformed(format_name: str) -> list[Named]:
    """Malformed messages of ``json``, ``xml``, ``csv`` (fields a, b, c; separator ";") or ``avro`` (AVRO_SCHEMA)."""
    made: dict[bytes, str] = {}
    for name, message in _MAKERS[format_name]():
        made.setdefault(message, name)
    return [(name, message) for message, name in made.items()]


def _cut(format_name: str) -> Iterator[Named]:
    good = GOOD[format_name]
    yield from ((f"cut after {end} bytes", good[:end]) for end in range(len(good)))


def _garbage(seed: int, count: int, head: bytes = b"", longest: int = 300) -> Iterator[Named]:
    """Random bytes, by fixed seeds."""
    for number in range(count):
        dice = random.Random(1000 * seed + number)
        yield f"garbage {seed}.{number}", head + dice.randbytes(dice.randint(1, longest))


def _encoded(format_name: str) -> Iterator[Named]:
    text = GOOD[format_name].decode()
    for encoding in ("utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be"):
        yield f"in {encoding}", text.encode(encoding)
    for at, byte in enumerate(b"\x80\xbf\xc0\xc1\xf5\xff"):
        yield f"a byte {byte:02x} that UTF-8 has not", text[:5].encode() + bytes([byte]) + text[5:].encode()
        yield f"a byte {byte:02x} at the end {at}", text.encode() + bytes([byte])


def _json() -> Iterator[Named]:
    good = GOOD["json"]
    yield from _cut("json")
    yield from _garbage(1, 60)
    yield from _encoded("json")
    yield from ((f"wrong: {text!a}", text.encode()) for text in _WRONG_JSON)
    yield from ((f"control character {byte:02x} in a text", b'["a' + bytes([byte]) + b'"]') for byte in range(32))
    yield from ((f"{byte:02x} after the value", good + bytes([byte])) for byte in (*range(9), 11, 12, *range(14, 32)))
    yield from (
        (f"only {name}", text) for name, text in (("blanks", b"   "), ("lines", b"\n\r\n"), ("a mark", b"\xef\xbb\xbf"))
    )
    yield "two marks", b"\xef\xbb\xbf\xef\xbb\xbf1"
    yield "a zero before it", b"\0" + good
    for depth in (201, 202, 500, 1023, 1024, 1025, 5000, 100_000, LONG // 2):
        yield f"{depth} lists in one another", b"[" * depth + b"]" * depth
        yield f"{depth} lists that are never closed", b"[" * depth
        yield f"{depth} closings", b"]" * depth
    for depth in (201, 1024, 5000, LONG // 6):
        yield f"{depth} objects in one another", b'{"a":' * depth + b"1" + b"}" * depth
        yield f"{depth} objects that are never closed", b'{"a":' * depth
    yield "a long text that is never closed", b'"' + b"a" * LONG
    yield "a long number with a tail", b"1" * LONG + b"x"
    yield "a number of 1,000 digits", b"9" * 1000
    yield "many values", b"1 " * (LONG // 2)
    yield "a good one twice", good + good
    yield "two lines", good + b"\n" + good


def _xml() -> Iterator[Named]:
    good = GOOD["xml"]
    yield from _cut("xml")
    yield from _garbage(2, 50)
    yield from _garbage(3, 20, b"<a>")
    yield from _hostile()
    yield from ((f"wrong: {text!a}", text.encode()) for text in _WRONG_XML)
    for byte in (*range(9), 11, 12, *range(14, 32)):
        yield f"control character {byte:02x} in a text", b"<a>b" + bytes([byte]) + b"</a>"
        yield f"control character {byte:02x} after the root", b"<a/>" + bytes([byte])
    for encoding in (
        "utf-99",
        "utf-7",
        "utf-32",
        "shift_jis",
        "gb2312",
        "big5",
        "euc-jp",
        "cp037",
        "hex",
        "zip",
        "rot13",
        "idna",
        "x",
    ):
        yield f"the unknown encoding {encoding}", f"<?xml version='1.0' encoding='{encoding}'?><a>b</a>".encode()
    yield "UTF-8 that is said to be UTF-16", b"<?xml version='1.0' encoding='utf-16'?><a>b</a>"
    yield "windows-1251 that is not said", "<a>заказ</a>".encode("cp1251")
    yield "Latin-1 that is said to be US-ASCII", b"<?xml version='1.0' encoding='us-ascii'?><a>\xe4</a>"
    yield "a byte that UTF-8 has not", b"<a>\xff</a>"
    yield "half a surrogate", b"<a>\xed\xa0\x80</a>"
    yield "UTF-32", "<a>b</a>".encode("utf-32")
    for depth in (201, 202, 1000, 10_000, LONG // 7):
        yield f"{depth} elements in one another", b"<a>" * depth + b"</a>" * depth
        yield f"{depth} elements that are never closed", b"<a>" * depth
    yield "a long name", b"<" + b"a" * LONG
    yield "a long text", b"<a>" + b"b" * LONG
    yield "many attributes", b"<a " + b" ".join(b"b%d='1'" % number for number in range(20_000)) + b">"
    yield "many roots", b"<a/>" * (LONG // 4)
    yield "a good one twice", good + good


def _hostile() -> Iterator[Named]:
    entities = "".join(f"<!ENTITY l{at} '{f'&l{at - 1};' * 10}'>" for at in range(1, 10))
    declarations = {
        "billion laughs": f"<!ENTITY l0 'lol'>{entities}",
        "quadratic blow-up": f"<!ENTITY l9 '{'x' * 50_000}'>",
        "an external entity, a file": "<!ENTITY l9 SYSTEM 'file:///etc/passwd'>",
        "an external entity, a network": "<!ENTITY l9 SYSTEM 'http://127.0.0.1:9/'>",
        "an external parameter entity": "<!ENTITY % p SYSTEM 'http://127.0.0.1:9/'>%p;",
        "a parameter entity": "<!ENTITY % p \"<!ENTITY l9 'x'>\">%p;",
        "an entity in itself": "<!ENTITY l9 '&l9;'>",
        "a harmless entity": "<!ENTITY l9 'x'>",
        "an unparsed entity": "<!NOTATION n SYSTEM 'n'><!ENTITY l9 SYSTEM 'x' NDATA n>",
        "a default attribute": "<!ATTLIST a b CDATA 'from the type'>",
        "an element declared": "<!ELEMENT a ANY>",
        "nothing declared": "",
        "a deep model": "<!ELEMENT a " + "(" * 20_000 + "b" + ")" * 20_000 + ">",
    }
    for name, declared in declarations.items():
        yield name, f"<!DOCTYPE a [{declared}]><a>{'&l9;' * (2000 if 'quadratic' in name else 1)}</a>".encode()
        yield f"{name}, not used", f"<?xml version='1.0'?><!DOCTYPE a [{declared}]><a/>".encode()
    yield "an external type", b"<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'><a/>"
    yield "an external type, a file", b"<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>"
    yield "a public type", b"<!DOCTYPE a PUBLIC '-//A//B' 'http://127.0.0.1:9/a.dtd'><a/>"
    yield "a plain type", b"<!DOCTYPE a><a/>"
    yield "a type in UTF-16", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>".encode("utf-16")
    yield "a type after a comment", b"<!-- --><!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>"


def _csv() -> Iterator[Named]:
    for count in (*range(1, 3), *range(4, 60), 1000, LONG // 2):
        yield f"{count} numbers", ";".join(["1"] * count).encode()
        yield f"{count} empty values", b";" * (count - 1) + b"\n" * (count == 1)
        if count < 60:
            yield f"{count} quoted values", ";".join(['"a;b"'] * count).encode()
    yield from ((f"rows of {end!r}", f"1;2;3{end}4;5;6".encode()) for end in ("\n", "\r\n", "\r", "\n\r", "\n\n"))
    yield from ((f"the end {end!r}", f"1;2;3{end}".encode()) for end in ("\n\n", "\r\n\r\n", "\r", "\n\r", "\r\r\n"))
    yield from ((f"the head {head!r}", f"{head}1;2;3".encode()) for head in ("\n", "\r\n", "\r", ";", "a;b;c\n"))
    yield from ((f"wrong separator {other!r}", f"1{other}2{other}3".encode()) for other in ",|\t:/ &")
    yield from ((f"wrong: {text!a}", text.encode()) for text in _WRONG_CSV)
    for byte in (*range(0x80, 0x90), *range(0xC0, 0xC2), *range(0xF5, 0x100)):
        yield f"a byte {byte:02x} that UTF-8 has not", b"1;" + bytes([byte]) + b";3"
    for cut in (b"\xd0", b"\xe2\x82", b"\xf0\x9f\x98", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf4\x90\x80\x80"):
        yield f"no whole character: {cut.hex()}", b"1;2;" + cut
    yield "in windows-1251", "заказ;2;3".encode("cp1251")
    yield "in UTF-16", "1;2;3".encode("utf-16")
    yield from _garbage(4, 80, b"\xff", longest=500)
    yield "a long value", b"x" * LONG
    yield "a long value in quotes that are never closed", b'1;2;"' + b"x" * LONG
    yield "many quotes", b'"' * (LONG - 1)
    yield "many quotes that are never closed", b'1;2;"' + b'""' * (LONG // 2)
    yield "many rows", b"1;2;3\n" * (LONG // 6)


def _avro() -> Iterator[Named]:
    good = GOOD["avro"]
    yield from _cut("avro")
    yield from ((f"{more} bytes too many", good + bytes(more)) for more in (1, 2, 10, 1000, LONG))
    yield from ((f"a byte {byte:02x} too many", good + bytes([byte])) for byte in (1, 2, 0x7F, 0x80, 0xFF))
    yield from _garbage(5, 120)
    yield from _lengths()
    yield from _fields()
    level = bytes.fromhex("00000002")  # no id, 0, NEW, and a parent
    for depth in (201, 1000, 10_000, LONG // 4):
        yield f"{depth} parents, then nothing", level * depth
    last = bytes.fromhex("0000000000000000000000")
    rest = last[4:]
    for depth in (200, 201, 1000, LONG // 12):
        yield f"{depth} parents, all whole", level * depth + last + rest * depth
    yield "a container file", b"Obj\x01" + good
    yield "a message of a schema registry", b"\0\0\0\0\x07" + good
    yield "JSON", b'{"id": "or-11"}'
    yield "zeros", bytes(LONG)
    yield "ones", b"\xff" * LONG
    yield "a good one twice", good + good


def _lengths() -> Iterator[Named]:
    """Lengths and counts that are negative, or far beyond what follows."""
    hostile = [-1, -2, -(2**31), -(2**62), -(2**63), 1000, 2**20, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1]
    for length in hostile:
        number = _zigzag(length)
        yield f"a text of {length} bytes", number + b"abc"
        yield f"an array of {length} items", b"\0\0\0\0" + number + b"abc"
        yield f"an array of a block of {length} bytes", b"\0\0\0\0\x01" + number + b"\0\0\0\0\0\0\0\0"
        yield f"a map of {length} entries", b"\0\0\0\0\0" + number + b"abc"
        yield f"a map whose name has {length} bytes", b"\0\0\0\0\0\x02" + number + b"abc"
        yield f"bytes of {length} bytes", b"\0\0\0\0\0\0\0\0" + number + b"abc"
    for tail in (b"", b"\x01", b"\x7f", b"\x80" * 10, b"\xff" * 20):
        yield f"a number without an end, {tail.hex()}", b"\xff" * 10 + tail


def _fields() -> Iterator[Named]:
    """A whole message in which one thing is wrong."""
    head, after_parent = b"\0\0\0", b"\0\0\0\0\0\0\0"
    yield from (
        (f"symbol {at}", b"\0\0" + _zigzag(at) + b"\0" + after_parent) for at in (-3, -1, 3, 4, 100, 2**31, -(2**63))
    )
    yield from ((f"branch {at}", head + _zigzag(at) + after_parent) for at in (-2, -1, 2, 3, 100, 2**40, -(2**63)))
    yield from (
        (f"branch {at} of the price", head + b"\0\0\0" + _zigzag(at) + b"\0\0\0\0") for at in (-2, -1, 2, 77, 2**60)
    )
    yield from (
        (f"boolean {byte}", head + b"\0\0\0\0" + bytes([byte]) + b"\0\0\0") for byte in (2, 3, 0x7F, 0x80, 0xFF)
    )
    yield from ((f"end {at}", head + b"\0\0\0\0\0\0\0" + _zigzag(at)) for at in (-1, 1, 2, 50, 2**33))
    yield from (
        (f"time {at}", head + b"\0\0\0\0\0\0" + _zigzag(at) + b"\0") for at in (-1, -1000, 86_400_000, 2**31 - 1, 2**40)
    )
    yield from (
        (f"number {at}", b"\0" + _zigzag(at) + b"\0\0" + after_parent) for at in (2**31, -(2**31) - 1, 2**40, 2**63 - 1)
    )
    for text in (b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"ab\x80", b"\xf0\x9f\x98"):
        yield f"a text {text.hex()}", _zigzag(len(text)) + text + b"\0\0\0" + after_parent
        yield f"an item {text.hex()}", head + b"\0\x02" + _zigzag(len(text)) + text + b"\0\0\0\0\0\0\0"
    yield "a block shorter than it says", head + b"\0\x01\x04\0\0" + b"\0\0\0\0\0\0"
    yield "a block longer than it says", head + b"\0\x01\0\x02a\0" + b"\0\0\0\0\0\0"


def _zigzag(number: int) -> bytes:
    left, made = (number << 1) ^ (number >> 63), bytearray()
    while left > 0x7F:
        made.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes([*made, left])


_MAKERS: Mapping[str, Callable[[], Iterator[Named]]] = MappingProxyType(
    {"json": _json, "xml": _xml, "csv": _csv, "avro": _avro}
)
