"""The bolts of an aggregation step, each called by itself."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import pickle
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from topologies.io.formats.event_files import FileSplit
from topologies.io.kafka import Undeliverable, fit_to_limit, record_size, redirect_missing
from topologies.io.messages import AvroMessages, AvroSchema, CsvMessages, JsonMessages, MessageFormat, XmlMessages
from topologies.local import run_local
from topologies.run.options import RunOptions
from topologies.step.aggregating import (
    AggregateMessages,
    AskTime,
    AskTrigger,
    DeadLetters,
    Route,
    Sender,
    StopAtFailure,
    rules_of,
    trigger_of,
)
from topologies.step.compile_step import step_topology
from topologies.step.config import DslKey, FilePath, HashKey, HeadersKey, MessageKey
from topologies.step.config_files import StepConfigError, load_step
from topologies.step.describe_step import step_text
from topologies.step.read_bolt import (
    FAILED,
    KEY,
    MESSAGE,
    OUTPUT,
    CloseEnvelopes,
    LinesFormat,
    NoKey,
    OpenEnvelopes,
    ReadMessages,
    header_texts,
    key_of,
)
from topologies.step.rule_values import RuleError
from topologies.step.rules import Rule, load_rule
from windowing.bolts.bolt import BatchBolt, TaskContext
from windowing.daytimes import DayTime, DayTimePattern
from windowing.errors import BoltError, DataError
from windowing.events import Tuple
from windowing.schema import parse_schema, tables
from windowing.settings.triggers import DailyByRule, FiredBy, KeyTrigger, RuleTrigger, TriggerCall

LINE = pa.schema([("line", pa.binary())])


def message(value: bytes | None = b"{}", key: bytes | None = b"k", **changes: Any) -> dict[str, Any]:
    """A row of MESSAGE."""
    row = {"topic": "in", "partition": 1, "offset": 5, "timestamp": None, "key": key, "value": value, "headers": []}
    return {**row, **changes}


def table(schema: str, *rows: dict[str, Any]) -> pa.Table:
    """Rows as a table of these columns."""
    return pa.Table.from_pylist(list(rows), schema=parse_schema(schema))


def emitted(bolt: BatchBolt, batch: pa.Table) -> dict[str, list[dict[str, Any]]]:
    """What a bolt emits, by stream."""
    found: dict[str, list[dict[str, Any]]] = {}
    for stream, part in tables(bolt.execute(batch), bolt.output_schemas()):
        found.setdefault(stream, []).extend(part.to_pylist())
    return found


def opened(*lines: bytes, topic: str | None = "t") -> dict[str, list[dict[str, Any]]]:
    """What happens to lines."""
    return emitted(OpenEnvelopes(topic), pa.table({"line": pa.array(lines, pa.binary())}))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"value": "a;b"}', {"topic": "t", "value": b"a;b", "key": None}),
        (b'{"value": {"a": [1, "\xc3\xa9"]}}', {"value": b'{"a":[1,"\xc3\xa9"]}'}),
        (b'{"value_base64": "/wA="}', {"value": b"\xff\x00"}),
        (b'{"value": null, "key": "7", "topic": "x"}', {"value": None, "key": b"7", "topic": "x"}),
        (b'{"value": 1, "partition": 3, "offset": 9}', {"partition": 3, "offset": 9}),
        (b'{"value": 1, "headers": {"a": "1"}}', {"headers": [{"key": "a", "value": b"1"}]}),
        (
            b'{"value": 1, "headers": [{"key": "a", "value": "1"}, {"key": "a", "value_base64": "/w=="}]}',
            {"headers": [{"key": "a", "value": b"1"}, {"key": "a", "value": b"\xff"}]},
        ),
    ],
)
def test_an_envelope_becomes_a_message(line: bytes, expected: dict[str, Any]) -> None:
    (row,) = opened(line)["default"]
    assert {name: row[name] for name in expected} == expected


def test_the_times_of_envelopes_are_texts_or_milliseconds() -> None:
    rows = opened(b'{"value": 1, "timestamp": 1500}', b'{"value": 1, "timestamp": "1970-01-01T00:00:01.5Z"}')["default"]
    assert [row["timestamp"].timestamp() for row in rows] == [1.5, 1.5]


@pytest.mark.feature("UH-31")
@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"{", "Expecting"),
        (b"[1]", "expected an object, found a list of 1"),
        (b"{}", "it has no value"),
        (b'{"value": 1, "valeu": 2}', "unknown 'valeu'"),
        (b'{"value": 1, "value": 2}', "the key 'value' twice"),
        (b'{"value": NaN}', "NaN"),
        (b'{"value": 1e999}', "the number 1e999 cannot be kept as it is"),
        (b'{"value": {"a": 0.1000000000000000055511151231257827}}', "cannot be kept as it is"),
        (b'{"value": 1, "offset": -1}', "offset: expected a whole number"),
        (b'{"value": 1, "offset": 9223372036854775808}', "offset: expected a whole number"),
        (b'{"value": 1, "partition": 2147483648}', "partition: expected a whole number"),
        (b'{"value": 1, "timestamp": "soon"}', "timestamp: expected a time"),
        (b'{"value": 1, "timestamp": 1e99}', "timestamp: expected a time"),
        (b'{"value": 1, "key": 7}', "key: expected a text, found 7"),
        (b'{"value": 1, "topic": "\\ud800"}', "topic: expected a text"),
        (b'{"value": 1, "headers": [1]}', "headers: expected an object"),
        (b'{"value": 1, "headers": {"\\ud800": "a"}}', "headers: expected a text"),
        (b'{"value": "a", "value_base64": "aaaa"}', "expected value or value_base64, found both"),
        (b'{"value_base64": "a"}', "expected base64"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "nested too deep"),
    ],
)
def test_a_line_that_is_no_envelope_goes_on_as_it_is(line: bytes, reason: str) -> None:
    found = opened(line, b'{"value": 1}')
    assert len(found["default"]) == 1
    (row,) = found["unreadable"]
    assert reason in row["_reason"]
    assert (row["topic"], row["value"], row[KEY]) == ("t", line, None)


def test_what_is_written_to_files_can_be_read_again() -> None:
    rows: list[dict[str, Any]] = [
        {"topic": "out", "key": b"7", "value": b'{"a": 1}', "headers": [{"key": "h", "value": b"\xff"}]},
        {"topic": "out", "key": b"\xff", "value": b"\x00\xff", "headers": []},
        {"topic": "out", "key": None, "value": None, "headers": [{"key": "h", "value": None}]},
    ]
    written = emitted(CloseEnvelopes(), table(OUTPUT, *rows))["default"]
    assert [row["value"] for row in written] == ['{"a": 1}', None, None]

    def plain(value: object) -> str:
        assert isinstance(value, bytes)
        return base64.b64encode(value).decode()

    again = opened(*(json.dumps(row, default=plain).encode() for row in written))["default"]
    assert [{name: row[name] for name in rows[0]} for row in again] == rows


@pytest.mark.parametrize("packed", [False, True])
def test_the_lines_of_a_file_are_rows(tmp_path: Path, packed: bool) -> None:
    text = b"\xef\xbb\xbfone\r\n\n \ntwo\xff\nthree"
    path = tmp_path / ("a.jsonl.gz" if packed else "a.jsonl")
    path.write_bytes(gzip.compress(text) if packed else text)
    ((good, rows, bad), (last, at, _)) = LinesFormat().read(pafs.LocalFileSystem(), FileSplit(str(path)), LINE)
    assert good.column("line").to_pylist() == [b"one", b"two\xff"]
    assert last.column("line").to_pylist() == [b"three"]
    assert [*rows, *at] == [0, 3, 4]
    assert len(bad) == 0


def _no_rules() -> str:
    raise AssertionError


@pytest.mark.feature("UH-5", "UH-6", "UH-7")
def test_keys_are_of_the_message_its_headers_or_its_hash() -> None:
    headers = [{"key": "shop", "value": b"7"}, {"key": "city", "value": b"spb"}, {"key": "city", "value": b"msk"}]
    row = message(b"abc", b"K1", headers=headers)
    assert key_of(MessageKey(type="key"), row, _no_rules) == "K1"
    assert key_of(HeadersKey(type="headers", keys=["city", "none", "shop"]), row, _no_rules) == "msk||7"
    assert key_of(HashKey(type="hash"), row, _no_rules) == hashlib.sha256(b"abc").hexdigest()
    assert key_of(HashKey(type="hash"), row, _no_rules).startswith("ba7816bf")
    assert key_of(HashKey(type="hash", algorithm="MD5"), row, _no_rules) == hashlib.md5(b"abc").hexdigest()


@pytest.mark.parametrize(
    ("section", "row", "reason"),
    [
        (MessageKey(type="key"), message(key=None), "has no key"),
        (MessageKey(type="key"), message(key=b"\xff"), "is not text"),
        (HeadersKey(type="headers", keys=["a"]), message(headers=[{"key": "a", "value": b"\xff"}]), "is not text"),
    ],
)
def test_a_message_without_a_key_says_why(section: Any, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(NoKey, match=reason):
        key_of(section, row, _no_rules)


def test_headers_are_texts_for_rules() -> None:
    pairs: list[dict[str, Any]] = [
        {"key": "a", "value": b"1"},
        {"key": "a", "value": b"2\xff"},
        {"key": "b", "value": None},
    ]
    assert header_texts(pairs) == {"a": "2\\xff", "b": ""}
    assert header_texts(None) == {}


@pytest.mark.feature("UH-31")
def test_dead_letters_are_the_messages_with_the_reason() -> None:
    headers = [{"key": "a", "value": b"1"}, {"key": "windbolt-reason", "value": b"of an earlier step"}]
    row = {**message(b"\xff", b"k", headers=headers), KEY: "k", "_reason": "the rules failed: ü"}
    (letter,) = emitted(DeadLetters("dead"), table(FAILED, row))["default"]
    assert (letter["topic"], letter["key"], letter["value"]) == ("dead", b"k", b"\xff")
    assert [(each["key"], each["value"].decode()) for each in letter["headers"]] == [
        ("a", "1"),
        ("windbolt-reason", "the rules failed: ü"),
        ("windbolt-topic", "in"),
        ("windbolt-partition", "1"),
        ("windbolt-offset", "5"),
    ]


@pytest.mark.feature("UH-31")
@examples(100)
@given(
    limit=st.integers(2_500, 20_000),
    value=st.integers(0, 50_000),
    key=st.integers(0, 30_000),
    headers=st.lists(st.tuples(st.text(max_size=5) | st.just("windbolt-note"), st.integers(0, 20_000)), max_size=4),
    reason=st.text(max_size=300) | st.integers(0, 4_000).map("€".__mul__),
)
def test_a_dead_letter_fits_whatever_was_in_it(
    limit: int, value: int, key: int, headers: list[tuple[str, int]], reason: str
) -> None:
    pairs = [{"key": name, "value": b"h" * size} for name, size in headers]
    why = reason.encode("utf-8", "backslashreplace")
    told = {"key": "windbolt-reason", "value": why}
    letter = {"topic": "dead", "key": b"k" * key, "value": b"v" * value, "headers": [*pairs, told]}
    found = fit_to_limit(letter, limit)
    assert record_size(found) <= limit
    if record_size(letter) <= limit:
        assert found == letter
        return
    known = {each["key"]: each["value"] for each in found["headers"]}
    if len(why) <= limit - 1_300:
        assert known["windbolt-reason"] == why
    else:
        assert why.startswith(known["windbolt-reason"])
        assert len(known["windbolt-reason"]) > limit - 1_300
        assert "windbolt's headers" in known["windbolt-cut"].decode()
    assert known["windbolt-size"] == str(value).encode()
    assert known["windbolt-sha256"] == hashlib.sha256(b"v" * value).hexdigest().encode()
    assert (b"v" * value).startswith(found["value"])


@pytest.mark.feature("UH-31")
def test_a_topic_that_is_not_there_makes_a_dead_letter_of_the_result() -> None:
    rows = [
        {"topic": "out", "key": b"a", "value": b"1", "headers": []},
        {"topic": "nowhere", "key": b"b", "value": b"2", "headers": [{"key": "x", "value": b"y"}]},
    ]
    kept, letter = redirect_missing(table(OUTPUT, *rows), {"nowhere"}, Undeliverable("dead")).to_pylist()
    assert kept == rows[0]
    assert (letter["topic"], letter["key"], letter["value"]) == ("dead", b"b", b"2")
    assert [(each["key"], each["value"]) for each in letter["headers"]] == [
        ("x", b"y"),
        ("windbolt-reason", b"there is no such topic"),
        ("windbolt-topic", b"nowhere"),
    ]


def test_without_an_error_section_the_first_failure_stops_the_run() -> None:
    row = {**message(), KEY: None, "_reason": "not valid JSON"}
    with pytest.raises(
        DataError, match="step 'orders': the message 'in', partition 1, offset 5 failed: not valid JSON"
    ):
        StopAtFailure("orders").execute(table(FAILED, row, row))


def test_messages_have_the_columns_of_kafka() -> None:
    from topologies.io.topics.declared import RECORD

    assert parse_schema(MESSAGE) == RECORD


def rule(kind: Any, *lines: str) -> Rule:
    """A rule of these lines."""
    parameters = {"key": "event", "time": "event", "trigger": "event, call", "dsl": "events, call"}[kind]
    body = "\n    ".join(lines)
    head = "from topologies.step.rules import Out\n\n"
    return Rule(kind, "rules.py", "asked", f"{head}def asked({parameters}):\n    {body}\n", 1.0)


@dataclass
class Fired:
    """A window as far as the bolt asks for it."""

    table: pa.Table
    key: str = "k"
    start_timestamp: int = 1_000_000
    end_timestamp: int = 1_040_999
    fired_by: FiredBy = FiredBy.COUNT


@dataclass
class Calls:
    """A bolt that aggregates, and what happens to windows that it is given."""

    rule: Rule
    read: MessageFormat = field(default_factory=JsonMessages)
    write: MessageFormat = field(default_factory=JsonMessages)
    keeps_cache: bool = False
    variables: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        sender = Sender(self.write, Route("out"), {"alerts": Route("alarm", "branch-alerts")})
        self.bolt = AggregateMessages(
            self.read, self.rule, sender, variables=self.variables, keeps_cache=self.keeps_cache
        )
        self.bolt.state = self.bolt.initial_state()
        self.start("first")

    def start(self, run: str) -> None:
        """What the engine does before the first window of a batch."""
        self.bolt.prepare(TaskContext("aggregate", 0, 1, run))

    def __call__(self, *rows: dict[str, Any], key: str = "k") -> dict[str, list[dict[str, Any]]]:
        """What comes of a window of these messages, by stream."""
        window: Any = Fired(table(f"{MESSAGE}, {KEY} string", *({**row, KEY: key} for row in rows)), key)
        found: dict[str, list[dict[str, Any]]] = {}
        for stream, part in tables(self.bolt.execute(window), self.bolt.output_schemas()):
            found.setdefault(stream, []).extend(part.to_pylist())
        return found


def sent(value: bytes, topic: str = "out", key: bytes | None = None, **headers: bytes) -> dict[str, Any]:
    """A message that goes out."""
    pairs = [{"key": name, "value": each} for name, each in headers.items()]
    return {"topic": topic, "key": key, "value": value, "headers": pairs}


BY_RULES = DslKey(type="dsl", path=FilePath("rules.py", Path()))


def numbers(*values: int) -> list[dict[str, Any]]:
    """A message of each number."""
    return [message(json.dumps({"n": value}).encode()) for value in values]


@pytest.mark.feature("UH-8", "UH-9")
def test_rules_compute_keys_of_all_that_is_known_of_a_message() -> None:
    asked = rule("key", 'return f\'{event.value["id"]}/{event.topic}/{event.key}/{event.headers["h"]}\'')
    bolt = ReadMessages(JsonMessages(), BY_RULES, asked)
    headers = [{"key": "h", "value": b"v"}]
    rows = (message(b'{"id": 42}', headers=headers), message(b'{"id": 1}'), message(b"{", headers=headers))
    found = emitted(bolt, table(MESSAGE, *rows))
    assert [row[KEY] for row in found["default"]] == ["42/in/k/v"]
    assert found["default"][0]["value"] == b'{"id": 42}'
    assert ["KeyError: 'h'" in row["_reason"] for row in found["unreadable"]] == [True, False]
    assert "not valid JSON" in found["unreadable"][1]["_reason"]
    assert [row["value"] for row in found["unreadable"]] == [b'{"id": 1}', b"{"]


def test_a_message_that_cannot_be_read_has_no_key_even_if_its_bytes_would_do() -> None:
    bolt = ReadMessages(JsonMessages(), HashKey(type="hash"))
    found = emitted(bolt, table(MESSAGE, message(b"1"), message(b"{"), message(None)))
    assert [row["value"] for row in found["default"]] == [b"1"]
    assert len(found["unreadable"]) == 2


def test_a_reason_is_a_line_whatever_the_rules_say() -> None:
    asked = rule("key", "raise ValueError('a\\nb \\ud800')")
    bolt = ReadMessages(JsonMessages(), BY_RULES, asked)
    (row,) = emitted(bolt, table(MESSAGE, message()))["unreadable"]
    assert "a b \\ud800" in row["_reason"]


@pytest.mark.feature("UH-4", "UH-24")
def test_the_rules_are_called_once_with_all_events_of_the_window() -> None:
    calls = Calls(rule("dsl", "return [{'sum': sum(e.value['n'] for e in events)}, len(events)]"))
    assert calls(*numbers(1, 2)) == {"default": [sent(b'{"sum":3}'), sent(b"2")]}


@pytest.mark.feature("UH-29")
def test_the_rules_know_of_the_window_and_its_events() -> None:
    lines = (
        "e = events[0]",
        "return {'k': call.key, 'ms': call.window_ms, 'n': call.count, 'v': call.variables['limit'],"
        " 'topic': e.topic, 'key': e.key, 'h': e.headers}",
    )
    calls = Calls(rule("dsl", *lines), variables={"limit": 7})
    (out,) = calls(message(headers=[{"key": "a", "value": b"1"}]), message())["default"]
    expected = {"k": "k", "ms": 40, "n": 2, "v": 7, "topic": "in", "key": "k", "h": {"a": "1"}}
    assert json.loads(out["value"]) == expected


@pytest.mark.feature("UH-25", "UH-32")
def test_events_go_where_the_rules_say() -> None:
    calls = Calls(
        rule(
            "dsl",
            "call.headers = [{'TargetTopic': 'a', 'TargetKey': 7}, {'BranchName': 'alerts', 'kafka': {'h': 'é'}}]",
            "return [1, 2]",
        )
    )
    assert calls(message()) == {
        "default": [sent(b"1", "a", b"7")],
        "branch-alerts": [sent(b"2", "alarm", None, h="é".encode())],
    }


@pytest.mark.feature("UH-26", "UH-28")
def test_declined_events_are_gone_and_other_returns_send_what_there_is() -> None:
    assert Calls(rule("dsl", "call.out = 5", "return 'decline'"))(message()) == {}
    assert Calls(rule("dsl", "call.out = 5", "return 'x'"))(message()) == {"default": [sent(b"5")]}


def test_a_generator_may_fill_one_dict_anew() -> None:
    lines = "def rows(row):", "    for row['n'] in (1, 2):", "        yield row", "call.out = rows({})", "return 'x'"
    assert Calls(rule("dsl", *lines))(message()) == {"default": [sent(b'{"n":1}'), sent(b'{"n":2}')]}


@pytest.mark.feature("UH-27")
def test_what_passes_through_keeps_its_bytes() -> None:
    headers = [{"key": "a", "value": b"\xff"}, {"key": "b", "value": b"1"}, {"key": "b", "value": b"1"}]
    given = message(b'{ "n": 1.50 }', b"\xff", headers=headers)
    calls = Calls(rule("dsl", "return 'passthrough'"))
    assert calls(given) == {"default": [{"topic": "out", "key": b"\xff", "value": given["value"], "headers": headers}]}
    redirect_missing = Calls(
        rule(
            "dsl",
            "call.headers = {'TargetTopic': 't', 'TargetKey': 'k', 'kafka': {'b': '2', 'c': '3'}}",
            "return 'passthrough'",
        )
    )
    now = [headers[0], {"key": "b", "value": b"2"}, {"key": "c", "value": b"3"}]
    assert redirect_missing(given)["default"] == [{"topic": "t", "key": b"k", "value": given["value"], "headers": now}]


@pytest.mark.feature("UH-2", "UH-27")
def test_what_passes_through_is_written_in_the_other_format() -> None:
    calls = Calls(rule("dsl", "return 'passthrough'"), write=CsvMessages(("n", "m"), ";"))
    assert calls(message(b'{"m": 2, "n": 1}'))["default"] == [sent(b"1;2", key=b"k")]


@pytest.mark.feature("UH-3")
def test_a_header_of_the_output_chooses_its_schema() -> None:
    schemas = [
        AvroSchema.parse(json.dumps({"type": "record", "name": name, "fields": [{"name": "n", "type": kind}]}), default)
        for name, kind, default in (("A", "int", False), ("B", "string", True))
    ]
    named = "Out({{'n': 1}}, headers={{'schemaName': '{}'}})"
    calls = Calls(rule("dsl", f"return [{named.format('A')}, {{'n': 'x'}}]"))
    calls.bolt.sender = Sender(AvroMessages(tuple(schemas)), Route("out"))
    assert [out["value"] for out in calls(message())["default"]] == [b"\x02", b"\x02x"]
    calls.bolt.rule = rule("dsl", f"return {named.format('C')}")
    (failed,) = calls(message())["failed"]
    assert "there is no schema" in failed["_reason"]


@pytest.mark.feature("UH-3", "UH-27")
@pytest.mark.parametrize(
    ("lines", "value", "name"),
    [
        (["call.headers = {'kafka': {'schemaName': 'B'}}"], b"\x02x", b"B"),
        (["events[0].headers.pop('schemaName')"], b"\x02x", None),
        (["call.headers = {'kafka': {'schemaName': 'x.A'}}"], b"x\x02", b"x.A"),
        (["call.headers = {'kafka': {'schemaName': 'C'}}"], None, None),
        ([], b"x\x02", b"A"),
    ],
)
def test_what_passes_through_is_written_by_the_schema_that_it_names(
    lines: list[str], value: bytes | None, name: bytes | None
) -> None:
    fields = [{"name": "n", "type": "int"}, {"name": "t", "type": {"type": "fixed", "name": "F", "size": 1}}]
    orders = {"x.A": [fields[1], fields[0]], "x.B": fields}
    texts = [json.dumps({"type": "record", "name": name, "fields": orders[name]}) for name in orders]
    schemas = AvroMessages(tuple(AvroSchema.parse(text, default=text == texts[1]) for text in texts))
    calls = Calls(rule("dsl", *lines, "return 'passthrough'"), read=schemas, write=schemas)
    found = calls(message(b"x\x02", headers=[{"key": "schemaName", "value": b"A"}]))
    if value is None:
        assert "there is no schema" in found["failed"][0]["_reason"]
    else:
        headers = {} if name is None else {"schemaName": name}
        assert found == {"default": [sent(value, "out", b"k", **headers)]}


@pytest.mark.feature("UH-31")
def test_a_result_that_kafka_would_not_take_fails_with_its_messages() -> None:
    calls = Calls(rule("dsl", "return {'text': 'x' * events[0].value['n']}"))
    calls.bolt.sender = Sender(JsonMessages(), Route("out", limit=5_000))
    assert calls(*numbers(3_000))["default"]
    (failed,) = calls(*numbers(4_990))["failed"]
    assert "Kafka takes 5000 (max.request.size)" in failed["_reason"]


def test_a_rule_sends_nothing_to_the_step_itself() -> None:
    calls = Calls(rule("dsl", "return Out(1, topic='in')"))
    calls.bolt.sender = Sender(JsonMessages(), Route("out", sources=frozenset({"in"})))
    (failed,) = calls(*numbers(1))["failed"]
    assert "TargetTopic 'in' is a source of this step: a loop" in failed["_reason"]


def test_rules_cannot_change_what_passes_through() -> None:
    lines = ("events[0].value['n'] = 2", "events[0].headers.pop('gone', None)", "return 'passthrough'")
    calls = Calls(rule("dsl", *lines), write=CsvMessages(("n",), ";"))
    found = calls(message(b'{"n": 1}', headers=[{"key": "gone", "value": b"1"}, {"key": "kept", "value": b"2"}]))
    assert found["default"] == [sent(b"1", key=b"k", kept=b"2")], (
        "the value as it came; a header that was taken away is gone"
    )


@pytest.mark.feature("UH-31")
@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["raise ValueError('no')"], "ValueError: no"),
        (["return [1, Out(2, branch='nowhere')]"], "BranchName 'nowhere': there is no such branch; there are: alerts"),
        (["return [1, Out(2, topic='../x')]"], "TargetTopic '../x' cannot be the name of a topic"),
        (["return [1, {'n': float('nan')}]"], "n"),
        (["call.headers = [{}]", "return [1, 2]"], "HEADERS has 1 elements, and there are 2 events"),
        (["call.cache['x'] = object()", "return 1"], "the cache cannot be kept as JSON"),
        (["call.cache = 5", "return 1"], "the cache is 5, and must be a dict"),
        (["while True: pass"], "it took more than 1 s"),
    ],
)
def test_where_anything_fails_nothing_is_sent_and_all_events_go_to_the_error_step(
    lines: list[str], reason: str
) -> None:
    calls = Calls(rule("dsl", "call.cache['n'] = call.cache.get('n', 0) + 1", "return call.cache['n']"))
    calls(message())
    good, calls.bolt.rule = calls.bolt.rule, rule("dsl", "call.cache['n'] = 99", *lines)
    found = calls(*numbers(1, 2))
    assert list(found) == ["failed"]
    assert [row["value"] for row in found["failed"]] == [b'{"n": 1}', b'{"n": 2}']
    assert reason in found["failed"][0]["_reason"]
    calls.bolt.rule = good
    assert calls(message())["default"] == [sent(b"2")]


@pytest.mark.feature("UH-30")
@pytest.mark.parametrize(("keeps_cache", "after"), [(False, b"1"), (True, b"3")])
def test_a_cache_is_kept_over_a_restart_where_the_step_says_so(keeps_cache: bool, after: bytes) -> None:
    count = rule("dsl", "call.cache['n'] = call.cache.get('n', 0) + 1", "return call.cache['n']")
    calls = Calls(count, keeps_cache=keeps_cache)
    calls(message())
    calls.start("first")  # the next batch of the same run
    assert calls(message())["default"] == [sent(b"2")]
    assert calls(message(), key="other")["default"] == [sent(b"1")]
    calls.start("second")
    assert calls(message())["default"] == [sent(after)]


@pytest.mark.feature("UH-22")
def test_a_key_that_is_forgotten_takes_its_cache_along() -> None:
    calls = Calls(rule("dsl", "call.cache['n'] = call.cache.get('n', 0) + 1", "return call.cache['n']"))
    calls(message())
    calls(message(), key="other")
    calls.bolt.forget("k")
    calls.bolt.forget("never seen")
    assert calls.bolt.state["caches"] == {"other": {"n": 1}}


@pytest.mark.feature("UH-16", "UH-19", "UH-23")
def test_rules_of_triggers_see_the_event() -> None:
    event = Tuple({**message(b'{"at": "09:30"}'), KEY: "k"}, 0, "read")
    lines = ("call.cache['seen'] = event.value['at']", "return f'{event.topic}{event.key}{call.fire_ms}{call.key}'")
    call = TriggerCall("k", {}, 5_000)
    assert AskTrigger(JsonMessages(), rule("trigger", *lines))(event, call) == "ink5k"
    assert call.cache == {"seen": "09:30"}
    pattern = DayTimePattern("HH:mm", "UTC")
    assert AskTime(JsonMessages(), rule("time", "return event.value['at']"), pattern)(event) == DayTime(34_200_000_000)
    with pytest.raises(RuleError, match="the time rule returned 5"):
        AskTime(JsonMessages(), rule("time", "return 5"), pattern)(event)


RULES = """
def key(event):
    return event.value["user"]

def trigger(event, call):
    call.cache["n"] = call.cache.get("n", 0) + 1
    if event.value["user"] == "trigger fails":
        raise ValueError("no")
    return "fireAndPurge" if call.cache["n"] == 2 else "continue"

def time(event):
    return event.value["at"]

def aggregate(events, call):
    if call.key == "rules fail":
        raise ValueError("no")
    if call.key == "alert":
        call.headers = {"BranchName": "alerts"}
    return {"user": call.key, "events": call.count}
"""

STEP = """
name: orders, type: aggregation
format { input: json, output: json }
key { type: dsl, path: rules.py }
trigger { type: dsl, path: rules.py, timeout: 5 minutes }
dsl { path: rules.py }
destination { name: output, topic: totals, config { name: out } }
branches: [{ name: alerts, topic: alarm, config { name: out } }]
error { name: deadletter, topic: dead, config { name: out } }
source { type: files, path: "in/*.jsonl", topic: orders }
connections.out { type: files, path: out }
"""


def _step(folder: Path, *lines: str, text: str = STEP) -> Path:
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "1.jsonl").write_text("\n".join(lines), encoding="utf-8")
    (folder / "rules.py").write_text(RULES, encoding="utf-8")
    path = folder / "step.conf"
    path.write_text(text, encoding="utf-8")
    return path


def _written(folder: Path, topic: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted((folder / "out" / topic).glob("*.jsonl")) for line in file.open(encoding="utf-8")]
    return [json.loads(line) for line in lines]


def _users(*users: str) -> list[str]:
    return [json.dumps({"value": {"user": user}}) for user in users]


@pytest.mark.feature("UH-1", "UH-4", "UH-31", "UH-32")
def test_a_step_runs_from_files_to_files(tmp_path: Path) -> None:
    lines = ["no envelope", *_users("ada", "alert", "ada", "rules fail", "trigger fails", "ada"), '{"value": "{"}']
    topology = step_topology(load_step(_step(tmp_path, *lines)))
    run_local(pickle.loads(pickle.dumps(topology)), RunOptions())
    totals = [json.loads(row["value"]) for row in _written(tmp_path, "totals")]
    assert totals == [{"user": "ada", "events": 2}, {"user": "ada", "events": 1}]
    assert [json.loads(row["value"]) for row in _written(tmp_path, "alarm")] == [{"user": "alert", "events": 1}]
    dead = {row["value"]: row["headers"] for row in _written(tmp_path, "dead")}
    assert set(dead) == {"no envelope", "{", '{"user":"rules fail"}', '{"user":"trigger fails"}'}
    assert all({"windbolt-reason", "windbolt-topic"} <= {each["key"] for each in headers} for headers in dead.values())


SECRET_RULES = """
def key(event):
    return event.value["user"] if event.value["at"] != "key" else {}[event.value["user"]]

def trigger(event, call):
    if event.value["at"] == "trigger":
        raise ValueError(event.value["user"])
    if event.value["at"] == "cache":
        call.cache[event.value["user"]] = {event.value["user"]}
    return "fireAndPurge"

def aggregate(events, call):
    if events[0].value["at"] == "aggregate":
        raise ValueError(call.key)
    if events[0].value["at"] == "slow":
        while True: pass
    if events[0].value["at"] == "branch":
        call.headers = {"BranchName": call.key}
    return {"user": call.key if events[0].value["at"] != "write" else {call.key}}
"""


@pytest.mark.feature("UH-31")
def test_reasons_of_dead_letters_hold_nothing_of_messages_where_they_must_not(tmp_path: Path) -> None:
    secret = "ada@example.org"
    failing = ("key", "trigger", "cache", "aggregate", "slow", "branch", "write")
    lines = [json.dumps({"value": {"user": secret, "at": at}}) for at in failing]
    lines += [json.dumps({"value": 1, secret: 2}), json.dumps({"value": f'{{"{secret}": 1, "{secret}": 2}}'})]
    path = _step(tmp_path, *lines)
    (tmp_path / "rules.py").write_text(SECRET_RULES, encoding="utf-8")
    step = load_step(path, assignments={"errorDetails": "type", "ruleTimeLimit": "300ms"})
    assert "no texts of exceptions" in step_text(step)
    run_local(step_topology(step), RunOptions())
    dead = _written(tmp_path, "dead")
    assert all(secret in row["value"] for row in dead)
    found = {
        (json.loads(row["value"]).get("at") if row["value"].startswith('{"user"') else row["value"][:8]): told["value"]
        .replace(f"{tmp_path}/", "")
        .rstrip(".")
        for row in dead
        for told in row["headers"]
        if told["key"] == "windbolt-reason"
    }
    assert found == {
        "key": "key rule rules.py:key, line 3: KeyError",
        "trigger": "trigger rule rules.py:trigger, line 7: ValueError",
        "cache": "trigger rule rules.py:trigger, line 5: TypeError",
        "aggregate": "dsl rule rules.py:aggregate, line 14: ValueError",
        "slow": "dsl rule rules.py:aggregate, line 16: it took more than 0.3 s",
        "branch": "dsl rule rules.py:aggregate, line 12: Unsendable",
        "write": "dsl rule rules.py:aggregate, line 12: Unwritable",
        '{"value"': "the line is not an envelope: ValueError",
        f'{{"{secret[:6]}': "Unreadable",
    }
    full = step_topology(load_step(path, assignments={"error": "null", "ruleTimeLimit": "300ms"}))
    with pytest.raises(BoltError, match=secret):
        run_local(full, RunOptions())
    brief = step_topology(
        load_step(path, assignments={"error": "null", "errorDetails": "type", "ruleTimeLimit": "300ms"})
    )
    with pytest.raises(BoltError) as stopped:
        run_local(brief, RunOptions())
    assert secret not in str(stopped.value)


def test_results_can_be_the_input_of_another_step(tmp_path: Path) -> None:
    run_local(step_topology(load_step(_step(tmp_path, *_users("a", "a", "b")))), RunOptions())
    over = {"source.path": f'"{tmp_path}/out/totals"', "destination.topic": "again", "key": "{type: headers, keys: h}"}
    run_local(step_topology(load_step(tmp_path / "step.conf", assignments=over)), RunOptions())
    (row,) = _written(tmp_path, "again")
    assert json.loads(row["value"]) == {"user": "", "events": 2}


@pytest.mark.feature("UH-31")
def test_without_an_error_section_a_failure_stops_the_run(tmp_path: Path) -> None:
    path = _step(tmp_path, *_users("a", "rules fail"))
    topology = step_topology(load_step(path, assignments={"error": "null"}))
    with pytest.raises(BoltError, match="ValueError: no"):
        run_local(topology, RunOptions())


def test_branches_to_one_place_share_its_folder(tmp_path: Path) -> None:
    branches = json.dumps([{"name": name, "topic": "totals", "config": {"name": "out"}} for name in ("a b", "a/b")])
    topology = step_topology(load_step(_step(tmp_path, *_users("a")), assignments={"branches": branches}))
    assert set(topology.sinks) == {"output", "deadletter"}
    outputs = topology.windowed["aggregate"].outputs
    assert len([stream for stream in outputs if stream.startswith("branch-a-b-")]) == 2


def test_a_step_of_kafka_has_its_topics(tmp_path: Path) -> None:
    text = """
    source { type: kafka, topics: [a, b], config { name: main }, maxOffsetsPerTrigger: 9, startingOffsets: latest }
    connections { main { type: kafka, bootstrap.servers: "h:9092", security.protocol: SSL, failOnDataLoss: false,
      isolation.level: read_uncommitted } }
    destination.config.name: main, error: null, branches: []
    """
    around = tmp_path / "around.conf"
    around.write_text(text, encoding="utf-8")
    topology = step_topology(load_step(_step(tmp_path), overlays=[around]))
    spout: Any = topology.spouts["source"].spout
    assert (spout.topics, spout.starting, spout.records_per_batch) == (("a", "b"), "latest", 9)
    assert spout.options == {
        "kafka.security.protocol": "SSL",
        "failOnDataLoss": "false",
        "kafka.isolation.level": "read_uncommitted",
    }
    sink: Any = topology.sinks["output"].sink
    assert (sink.servers, sink.topic) == ("h:9092", None)


def test_triggers_are_what_the_step_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _step(tmp_path)
    monkeypatch.chdir(tmp_path)  # paths of assignments begin in the current folder

    def found(**assignments: str) -> KeyTrigger:
        step = load_step(path, assignments=assignments)
        places = rules_of(step, files=True)
        return trigger_of(step, JsonMessages(), load_rule(places["trigger"]) if "trigger" in places else None)

    assert isinstance(found(), RuleTrigger)
    by_event = '{type: timeFromEvent, path: rules.py, timePattern: "HH:mm", maxEmptyIntervals: 3}'
    trigger = found(trigger=by_event)
    assert isinstance(trigger, DailyByRule)
    assert trigger.max_empty == 3
    count = "{type: count, count: 2, timeout: 100, shouldFireAtProcessingTime: false}"
    trigger = found(trigger=count)
    assert repr(trigger) == "CountTrigger(count=Count(value=2), timeout=parse_duration('100ms'), from_first=False)"


def test_a_topology_is_not_built_of_what_is_wrong(tmp_path: Path) -> None:
    path = _step(tmp_path)
    with pytest.raises(StepConfigError, match=r"2 problems"):
        step_topology(load_step(path, assignments={"dsl.path": "none.py", "key.path": "none.py"}))


COPIED = [
    {"key": "bytes", "value": b"\xff\x00"},
    {"key": "none", "value": None},
    {"key": "empty", "value": b""},
    {"key": "text", "value": "é".encode()},
    {"key": "shown", "value": b"\\xff"},
]


@pytest.mark.feature("UH-25", "UH-29")
@pytest.mark.parametrize(
    "line",
    [
        "return Out(1, headers=dict(events[0].headers))",
        "return Out(1, headers={k: v for k, v in events[0].headers.items()})",
        "call.out, call.headers = 1, {'kafka': dict(events[0].headers)}",
        "return Out(1, headers=copy.deepcopy(dict(events[0].headers)))",
    ],
)
def test_headers_that_are_copied_are_as_they_came(line: str) -> None:
    calls = Calls(rule("dsl", "import copy", line))
    assert calls(message(b"1", headers=COPIED))["default"][0]["headers"] == COPIED


@pytest.mark.feature("UH-25")
def test_headers_may_be_bytes_and_without_a_value() -> None:
    made = "{'a': b'\\xff', 'b': bytearray(b'x'), 'c': None, 'd': 7, 'e': events[0].headers['h'] + '!'}"
    calls = Calls(rule("dsl", f"return Out(1, headers={made})"))
    (out,) = calls(message(b"1", headers=[{"key": "h", "value": b"\xff"}]))["default"]
    assert {each["key"]: each["value"] for each in out["headers"]} == {
        "a": b"\xff", "b": b"x", "c": None, "d": b"7", "e": b"\\xff!",
    }  # fmt: skip


@pytest.mark.feature("UH-27")
def test_a_header_that_is_passed_through_and_set_to_the_text_it_was_shown_as_is_that_text() -> None:
    calls = Calls(rule("dsl", "call.headers = {'kafka': {'h': '\\\\xff'}}", "return 'passthrough'"))
    (out,) = calls(message(b"1", headers=[{"key": "h", "value": b"\xff"}, {"key": "n", "value": None}]))["default"]
    assert out["headers"] == [{"key": "n", "value": None}, {"key": "h", "value": b"\\xff"}]


@pytest.mark.feature("UH-24", "UH-25")
@pytest.mark.parametrize("form", [JsonMessages(), CsvMessages(("a",)), XmlMessages()], ids=lambda form: form.name)
@pytest.mark.parametrize(
    "line", ["return Out(None, key='k', headers={'h': 'v'})", "call.headers = {'TargetKey': 'k', 'kafka': {'h': 'v'}}"]
)
def test_an_event_without_a_value_is_a_tombstone_of_its_key_in_every_format(form: MessageFormat, line: str) -> None:
    calls = Calls(rule("dsl", line, "return Out(None)"), write=form)
    expected = {"topic": "out", "key": b"k", "value": None, "headers": [{"key": "h", "value": b"v"}]}
    assert calls(message()) == {"default": [expected]}


@pytest.mark.feature("UH-31")
def test_a_tombstone_of_no_key_fails() -> None:
    found = Calls(rule("dsl", "return [Out(1), Out(None)]"))(message())
    assert "it needs one" in found["failed"][0]["_reason"]
    assert list(found) == ["failed"]


def test_a_tombstone_is_written_to_files_and_read_again() -> None:
    calls = Calls(rule("dsl", "return Out(None, key='k')"))
    (out,) = calls(message())["default"]
    (line,) = emitted(CloseEnvelopes(), table(OUTPUT, out))["default"]
    assert (line["key"], line["value"], line["value_base64"]) == ("k", None, None)
    (read,) = opened(json.dumps(line).encode())["default"]
    assert (read["key"], read["value"]) == (b"k", None)
