"""XML messages: the mapping, what is refused, and that nothing but text gets out of a text."""

from __future__ import annotations

import socket
from decimal import Decimal
from typing import Any

import pytest
import xmltodict  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.refusals import reason, unwritable
from topologies.io.messages import Unwritable, XmlMessages

XML = XmlMessages()
TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"], exclude_characters="\ufffe\uffff")
    | st.sampled_from("\t\r\n \"'<>&]")
)
NAMES = st.from_regex(r"[A-Za-z_а-я][A-Za-z0-9_.:а-я-]{0,8}", fullmatch=True)


@st.composite
def objects(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Objects as reading gives them: with an entry at least, and not with a text only."""
    attributes = draw(st.dictionaries(NAMES.map("@{}".format), TEXTS, max_size=2))
    elements = draw(
        st.dictionaries(NAMES, inner | st.lists(inner, min_size=2, max_size=3), min_size=not attributes, max_size=3)
    )
    text = draw(TEXTS.filter(lambda text: text and not text.isspace()) | st.none())
    return attributes | elements | ({"#text": text} if text else {})


DOCUMENTS = st.dictionaries(NAMES, st.recursive(TEXTS, objects, max_leaves=10), min_size=1, max_size=1)


@given(DOCUMENTS)
def test_what_was_written_reads_back_the_same(event: Any) -> None:
    assert XML.read(XML.write(event)) == event


def stripped(value: Any) -> Any:
    """As xmltodict has it: texts without blanks around them, None for no text, no list of one."""
    if isinstance(value, dict):
        return {
            key: item if key[0] == "@" else stripped(item)
            for key, item in value.items()
            if stripped(item) or key != "#text"
        }
    if isinstance(value, list):
        return [stripped(item) for item in value]
    return value.strip() or None


@given(DOCUMENTS)
def test_the_mapping_is_that_of_xmltodict(event: Any) -> None:
    message = XML.write(event)
    assert stripped(XML.read(message)) == xmltodict.parse(message)


@pytest.mark.parametrize(
    ("document", "event"),
    [
        ("<a/>", {"a": ""}),
        ("<a></a>", {"a": ""}),
        ("<a>1</a>", {"a": "1"}),
        ("<a> </a>", {"a": " "}),
        ("<a>\n <b>1</b>\n</a>", {"a": {"b": "1"}}),
        ("<a x='1'/>", {"a": {"@x": "1"}}),
        ("<a x='1'> </a>", {"a": {"@x": "1", "#text": " "}}),
        ("<a x='1'>t</a>", {"a": {"@x": "1", "#text": "t"}}),
        ("<a><b>1</b><c/><b>2</b></a>", {"a": {"b": ["1", "2"], "c": ""}}),
        ("<a><b/><b/><b x='1'/></a>", {"a": {"b": ["", "", {"@x": "1"}]}}),
        ("<a>x<b/>y</a>", {"a": {"b": "", "#text": "xy"}}),
        ("<a><![CDATA[<b>]]>&amp;&lt;&#65;</a>", {"a": "<b>&<A"}),
        ("<!-- c --><a><!-- c -->1<?pi x?></a><!-- c -->", {"a": "1"}),
        ("<n:a xmlns:n='u'><n:b/></n:a>", {"n:a": {"@xmlns:n": "u", "n:b": ""}}),
    ],
)
def test_the_mapping(document: str, event: Any) -> None:
    assert XML.read(document.encode()) == event
    assert XML.read(XML.write(event)) == event


@pytest.mark.parametrize(
    "encoding", ["utf-8", "UTF-16", "iso-8859-5", "windows-1251", "koi8-r", "koi8-u", "cp866", "ISO-8859-1", "us-ascii"]
)
def test_a_declared_encoding_is_honoured(encoding: str) -> None:
    text = "заказ" if encoding not in ("ISO-8859-1", "us-ascii") else "a"
    assert XML.read(f"<?xml version='1.0' encoding='{encoding}'?><a>{text}</a>".encode(encoding)) == {"a": text}


@pytest.mark.parametrize("encoding", ["utf-7", "shift_jis", "no-such", "cp037"])
def test_any_other_encoding_is_refused_by_name(encoding: str) -> None:
    assert encoding in reason(XML, f"<?xml version='1.0' encoding='{encoding}'?><a/>".encode())


def test_a_byte_order_mark_is_skipped() -> None:
    assert XML.read(b"\xef\xbb\xbf<a>1</a>") == {"a": "1"}


def test_neither_files_nor_networks_are_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*arguments: Any, **options: Any) -> None:
        raise AssertionError("opened")

    monkeypatch.setattr(socket, "socket", forbidden)
    monkeypatch.setattr("builtins.open", forbidden)
    for outside in ("file:///etc/passwd", "http://127.0.0.1:9/"):
        for document in (
            f"<!DOCTYPE a SYSTEM '{outside}'><a/>",
            f"<!DOCTYPE a [<!ENTITY b SYSTEM '{outside}'>]><a>&b;</a>",
            f"<!DOCTYPE a [<!ENTITY % b SYSTEM '{outside}'>%b;]><a/>",
        ):
            assert "DOCTYPE" in reason(XML, document.encode())


@pytest.mark.parametrize("limit", [1, 3, 200])
def test_the_limit_of_depth_holds_at_both_sides(limit: int) -> None:
    form = XmlMessages(max_depth=limit)
    event = form.read(b"<a>" * limit + b"</a>" * limit)
    assert form.read(form.write(event)) == event
    assert "deeper than" in reason(form, b"<a>" * (limit + 1) + b"</a>" * (limit + 1))
    assert "deeper than" in unwritable(form, {"a": event})


NO_NAMES = [
    "a><b",
    "a b",
    "",
    "1",
    "a/",
    "/a",
    "a>",
    "<a",
    "a&b",
    "a;b",
    "a='1'",
    'a"',
    "!--",
    "?xml",
    "a\n",
    "a\x00",
    "@",
    "@@a",
    "#",
    "#comment",
    "-a",
    "a,b",
    "\ud800",
    "a\u2028b",
    "\u0301",
]


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_is_none_is_unwritable(name: str) -> None:
    assert "not a name in XML" in unwritable(XML, {name: "1"})
    assert unwritable(XML, {"r": {"x": {name: "1"}}}).startswith("r.x")
    unwritable(XML, {"r": {f"@{name}": "1"}})


@given(st.text(max_size=8), st.text(max_size=8))
def test_nothing_gets_out_of_a_name_or_a_text(name: str, text: str) -> None:
    for event in ({name: text}, {"r": {f"@{name}": text}}, {"r": {name: [text, text]}}):
        try:
            message = XML.write(event)
        except Unwritable:
            continue
        read = XML.read(message)
        assert read == event or (name == "#text" and event != {name: text})


@pytest.mark.parametrize("character", [*map(chr, [*range(9), 11, 12, *range(14, 32)]), "\ud800", "\ufffe", "\uffff"])
def test_a_character_that_xml_forbids_is_unwritable(character: str) -> None:
    assert "forbidden" in unwritable(XML, {"a": {"b": ["", f"x{character}"]}})
    assert unwritable(XML, {"a": {"@b": character}}).startswith("a.@b: ")


@pytest.mark.parametrize(
    "event",
    [
        None,
        "a",
        [],
        {},
        {"a": 1, "b": 2},
        {"a": [1, 2]},
        {"a": []},
        {1: 2},
        {"a": {"b": [[1]]}},
        {"a": {"@b": [1]}},
        {"a": {"@b": {}}},
        {"a": {"#text": {}}},
        {"a": {1}},
    ],
)
def test_what_is_no_document_is_unwritable(event: Any) -> None:
    unwritable(XML, event)


def test_values_become_text() -> None:
    event: Any = {
        "a": {"@t": True, "n": None, "i": 10**30, "f": 1.5, "d": Decimal("1.50"), "b": b"\xff", "e": {}, "l": [1, None]}
    }
    assert XML.read(XML.write(event)) == {
        "a": {"@t": "true", "n": "", "i": str(10**30), "f": "1.5", "d": "1.50", "b": "/w==", "e": "", "l": ["1", ""]}
    }
    assert unwritable(XML, {"a": {"b": float("nan")}}).startswith("a.b: ")


def test_many_references_to_one_object_stop_at_the_limit() -> None:
    event: Any = "x"
    for _ in range(100):
        event = {"a": [event, event]}
    assert "more than the" in unwritable(XmlMessages(max_bytes=10_000), {"r": event})


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2003", "\u0085"])
def test_only_the_white_space_of_xml_is_layout(blank: str) -> None:
    event = {"a": {"b": "1", "#text": blank}}
    assert XML.read(f"<a>{blank}<b>1</b></a>".encode()) == event
    assert XML.read(XML.write(event)) == event
    assert XML.read(b"<a> \r\n\t<b>1</b></a>") == {"a": {"b": "1"}}
