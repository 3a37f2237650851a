"""The file of an aggregation step: what it may hold, in three languages, and all that is wrong with it at once."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helpers.places import CORPUS
from topologies.step.compile_step import check_complete, missing_sections, missing_sections_example
from topologies.step.config import (
    AvroSection,
    CountTriggerSection,
    CsvSection,
    Destination,
    DslKey,
    DslTriggerSection,
    FilesConnection,
    HashKey,
    HeadersKey,
    KafkaConnection,
    KafkaSource,
    TimeTriggerSection,
)
from topologies.step.config_files import StepConfig, StepConfigError, load_step
from windowing.durations import Duration, millis, seconds
from windowing.errors import ConfigError

SEED = CORPUS / "aggregation.conf"

STEP: dict[str, Any] = {
    "name": "orders",
    "type": "aggregation",
    "format": {"input": "json", "output": "json"},
    "key": {"type": "key"},
    "trigger": {"type": "count", "count": 2, "timeout": 100},
    "dsl": {"source": "file", "path": "aggregate.py"},
    "destination": {"name": "output", "topic": "output", "config": {"type": "kafka", "name": "output"}},
}


def _write(folder: Path, text: str, name: str = "step.conf") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def _step(folder: Path, **changes: Any) -> StepConfig:
    return load_step(_write(folder, json.dumps({**STEP, **changes}), "step.json"))


def _problems(folder: Path, **changes: Any) -> dict[str, str]:
    with pytest.raises(StepConfigError) as error:
        _step(folder, **changes)
    return {problem.path: problem.text for problem in error.value.problems}


@pytest.mark.feature("UH-1", "UH-2", "UH-3")
def test_the_example_of_the_handler_loads_as_it_stands() -> None:
    step = load_step(SEED)
    assert (step.name, step.type, step.state_full) == ("aggregation", "aggregation", False)
    assert step.format.input.type == "json"
    assert isinstance(step.format.output, AvroSection)
    schemas = [(each.source, str(each.path), each.default) for each in step.format.output.schemas]
    assert schemas == [
        ("file", "/file/path/to/avro/schema", False),
        ("classpath", "/path/to/default/avro/schema", True),
    ]
    assert isinstance(step.key, DslKey)
    assert (step.key.source, str(step.key.path)) == ("classpath", "testDsl/aggregation/key.tr")
    assert isinstance(step.trigger, DslTriggerSection)
    assert (step.trigger.timeout, step.trigger.should_fire_at_processing_time) == (millis(100), True)
    assert str(step.dsl.path) == "testDsl/aggregation/simple.tr"
    assert isinstance(step.destination, Destination)
    assert (step.destination.topic, step.destination.config.name) == ("output", "output")
    assert isinstance(step.error, Destination)
    assert step.error.topic == "deadletter"
    assert missing_sections(step) == ["source", "connections.output"]


def test_the_three_languages_say_the_same(tmp_path: Path) -> None:
    hocon = load_step(SEED)
    plain = hocon.model_dump(mode="json", by_alias=True, exclude_none=True)
    as_json = load_step(_write(tmp_path, json.dumps(plain), "step.json"))
    as_yaml = load_step(_write(tmp_path, yaml.safe_dump(plain), "step.yml"))
    assert plain == as_json.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert plain == as_yaml.model_dump(mode="json", by_alias=True, exclude_none=True)
    assert as_yaml.file == tmp_path / "step.yml"


def test_a_step_survives_the_way_to_another_process(tmp_path: Path) -> None:
    step = _step(tmp_path)
    sent = pickle.loads(pickle.dumps(step))
    assert sent == step
    assert sent.file == step.file


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    step = _step(tmp_path)
    assert (step.parallelism, step.rule_time_limit, step.allow_file_rules) == (2, seconds(5), True)
    assert step.error_details == "full"
    assert (step.error, step.source, step.branches, step.connections) == (None, None, [], {})


def test_hocon_includes_and_takes_values_of_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write(tmp_path, 'parallelism: ${TASKS}\nsource { type: files, path: "in/*.jsonl" }', "around.conf")
    monkeypatch.setenv("TASKS", "5")
    monkeypatch.chdir("/")
    step = load_step(_write(tmp_path, f'include "around.conf"\n{json.dumps(STEP)[1:-1]}'))
    assert step.parallelism == 5
    assert step.source is not None
    assert step.source.type == "files"
    assert step.source.path.file == tmp_path / "in/*.jsonl"


def test_a_substitution_without_a_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(StepConfigError, match=r"step\.conf: expected HOCON.* line 2, column 7: \$\{NOWHERE\} has no"):
        load_step(_write(tmp_path, "name: a\ntype: ${NOWHERE}"))


def test_further_files_and_values_are_laid_over_the_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    csv = '{ type: csv, columnSeparator: ";", fieldNames: [a] }'
    over = f"connections.output {{ type: files, path: out }}\ntrigger.timeout: 5 s\nformat.input: {csv}"
    around = _write(tmp_path / "sub", over, "around.conf")
    monkeypatch.chdir(tmp_path)
    step = load_step(
        SEED,
        overlays=[around],
        assignments={
            "destination.topic": "other",
            "trigger": '{type: count, count: "3", timeout: 5}',
            "error": "null",
            "source": '{"type": "files", "path": "in"}',
        },
    )
    assert isinstance(step.destination, Destination)
    assert step.destination.topic == "other"
    assert step.error is None
    assert isinstance(step.format.input, CsvSection)
    assert step.format.input.field_names == ["a"]
    connection = step.connections["output"]
    assert isinstance(connection, FilesConnection)
    assert connection.path.file == tmp_path / "sub" / "out"
    assert str(step.dsl.path.folder) == str(SEED.parent)
    assert step.source is not None
    assert step.source.type == "files"
    assert step.source.path.file == tmp_path / "in"


def test_a_part_of_an_assigned_key_may_be_in_quotes() -> None:
    assignments = {"connections.output": "{type: kafka}", 'connections.output."bootstrap.servers"': '"a:1"'}
    connection = load_step(SEED, assignments=assignments).connections["output"]
    assert isinstance(connection, KafkaConnection)
    assert connection.servers == "a:1"


@pytest.mark.parametrize(
    ("assigned", "path"),
    [
        ("s3://shop/in#1", "s3://shop/in#1"),
        ("a,b=c", "a,b=c"),
        ('"x:y"', "x:y"),
        ("${S}/in", "here/in"),
        (" in x ", "in x"),
    ],
)
def test_a_text_that_is_assigned_needs_no_quotes(assigned: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S", "here")
    step = load_step(SEED, assignments={"source.type": "files", "source.path": assigned})
    assert step.source is not None
    assert step.source.type == "files"
    assert step.source.path.text == path


def test_a_mapping_of_another_type_replaces(tmp_path: Path) -> None:
    step = load_step(SEED, assignments={"trigger": "{type: count, count: 3, timeout: 5}", "key": "{type: key}"})
    assert isinstance(step.trigger, CountTriggerSection)
    assert step.key.type == "key"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.conf", "name: x\nkey {\n", "expected HOCON, found a mistake: line 3, column 1: .* met the end of the file"),
        ("a.conf", "name: x\nkey: {}}", "line 2, column 8: expected end of text, met '}'.$"),
        ("a.conf", "name: x\nkey: a:b", "line 2, column 7: .*put in quotes.*met ':'"),
        ("a.conf", "[1, 2]", "expected a mapping with name, type, format and so on, found a list of 2"),
        ("a.conf", 'include required(file("nowhere.conf"))', "it includes .*nowhere.conf, which is not there"),
        ("a.yaml", "name: x\nkey: [1", "expected YAML, found a mistake at line 2, column 8"),
        ("a.yaml", "name: x\nname: y", "line 2, column 1: the key 'name' twice"),
        ("a.json", '{"name": "x",\n "a" 1}', "expected JSON, found a mistake at line 2, column 6"),
        ("a.json", '{"name": 1,\n "name": 2}', "the key 'name' twice in one mapping, at line 2, column 2"),
        ("a.json", '{"name": NaN}', "NaN"),
        ("a.json", '{"key": {"type": "\\ud800"}}', r"half a character, '\\ud800'"),
        ("a.json", "[" * 100_000, "nested too deep|mistake"),
        ("a.toml", "", "ends in one of .conf, .hocon, .yaml, .yml, .json, found .toml"),
        ("a.yaml", "", "expected a mapping .* found null"),
        ("a.yaml", "name: x\n---\nname: y\n", "expected one document, found another at line 3"),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, name: str, text: str, expected: str) -> None:
    with pytest.raises(StepConfigError, match=rf"a\.\w+: .*(?:{expected})"):
        load_step(_write(tmp_path, text, name))


@pytest.mark.parametrize("include", ['"{}"', 'file("{}")', 'required("{}")', 'required(file("{}"))'])
def test_a_file_that_is_included_must_be_there(tmp_path: Path, include: str) -> None:
    (tmp_path / "sub").mkdir()
    _write(tmp_path / "sub", f"include {include.format('more.conf')}", "around.conf")
    for name, missing_file in (("no.conf", "no.conf"), ("sub/around.conf", "sub/more.conf")):
        with pytest.raises(StepConfigError) as error:
            load_step(_write(tmp_path, f"name: a\ninclude {include.format(name)}"))
        assert f"it includes {tmp_path / missing_file}, which is not there" in str(error.value)


@pytest.mark.parametrize("form", ["url({})", "required(url({}))", "{}", "required({})"])
@pytest.mark.parametrize("kind", ["file", "http", "https"])
def test_urls_are_not_included(tmp_path: Path, form: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("urllib.request.OpenerDirector.open", lambda *_: pytest.fail("a URL was opened"))
    place = _write(tmp_path, "name: b", "there.conf") if kind == "file" else "me:SECRET@example.org/a.conf"
    with pytest.raises(StepConfigError, match=rf"it includes a URL \({kind}:\.\.\.\), and URLs are not") as error:
        load_step(_write(tmp_path, f"include {form.format(json.dumps(f'{kind}://{place}'))}"))
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('include "step.conf"', "step.conf includes itself"),
        ('include "wrong.conf"', "wrong.conf, which it includes: line 1, column 3: expected "),
        ('include "list.conf"', "list.conf, which holds a list"),
        ('include "no*.conf"', r"no\*.conf, and there is no such file"),
        ('include "."', "cannot be read: Is a directory"),
        ('name: a\ninclude package("json.decoder:a.conf")', "line 2, column 8: it includes a package, which is not su"),
        ('include classpath("a.conf")', "it includes a classpath, which is not supported"),
        ('include "a.properties"', "a.properties, and only files in HOCON and JSON"),
    ],
)
def test_what_cannot_be_included_is_said(tmp_path: Path, text: str, expected: str) -> None:
    _write(tmp_path, "a }", "wrong.conf")
    _write(tmp_path, "[1]", "list.conf")
    with pytest.raises(StepConfigError, match=expected):
        load_step(_write(tmp_path, text))


def test_files_are_included_by_pattern_and_into_a_section(tmp_path: Path) -> None:
    _write(tmp_path, "parallelism: 7", "all-a.conf")
    _write(tmp_path, "stateFull: true", "all-b.conf")
    _write(tmp_path, "count: 9", "count.conf")
    text = f'{json.dumps(STEP)[1:-1]}\ninclude "all-*.conf"\ntrigger {{ include "count.conf" }}'
    step = load_step(_write(tmp_path, text))
    assert (step.parallelism, step.state_full) == (7, True)
    assert isinstance(step.trigger, CountTriggerSection)
    assert step.trigger.count == 9


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.conf", 'sasl.jaas.config = "user password=SECRET'),
        ("a.conf", "a: 1\nSECRET"),
        ("a.conf", "a = b SECRET [x"),
        ("a.conf", 'a = "SECRET" [1]'),
        ("a.conf", "a = { b: 1 } SECRET"),
        ("a.conf", 'a = [1]\na = ${a} { b: "SECRET" }'),
        ("a.yaml", "password: *SECRET"),
        ("a.yaml", "password: !SECRET a"),
        ("a.yaml", "password: !SEC!RET a"),
        ("a.yaml", "a: &SECRET 1\nb: &SECRET 2\nc: ["),
        ("a.yaml", "password: !!int SECRET"),
        ("a.yaml", "password: 'SECRET"),
        ("a.yaml", "password=SECRET"),
        ("a.json", '{"password": SECRET}'),
        ("a.json", '"SECRET"'),
    ],
)
def test_what_cannot_be_read_is_not_quoted(tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(StepConfigError) as error:
        load_step(_write(tmp_path, text, name))
    assert not re.search("SECRET|SEC|RET", str(error.value))


def test_a_value_that_is_assigned_is_not_quoted() -> None:
    with pytest.raises(StepConfigError, match=r"--set: connections\.a\.x: expected a value, found a mistake") as error:
        load_step(SEED, assignments={"connections.a.x": '"SECRET'})
    assert "SECRET" not in str(error.value)


@pytest.mark.parametrize(
    ("connections", "path"),
    [
        ("SECRET", "connections"),
        ({"a": "SECRET"}, "connections.a"),
        ({"a": ["SECRET"]}, "connections.a"),
        ({"a": {"type": "kafka", "servers": {"SECRET": 1}}}, "connections.a.bootstrap.servers"),
        ({"a": {"type": "kafka", "servers": "a:1", "sasl.password": ["SECRET"]}}, "connections.a"),
        ({"a": {"type": "files", "path": "a", "password": "SECRET"}}, "connections.a.password"),
    ],
)
def test_values_of_connections_are_not_quoted(tmp_path: Path, connections: Any, path: str) -> None:
    problems = _problems(tmp_path, connections=connections)
    assert list(problems) == [path]
    assert "SECRET" not in problems[path]


def test_properties_are_not_shown(tmp_path: Path) -> None:
    step = _step(tmp_path, connections={"a": {"type": "kafka", "servers": "a:1", "sasl.password": "SECRET"}})
    connection = step.connections["a"]
    assert isinstance(connection, KafkaConnection)
    assert connection.options == {"kafka.sasl.password": "SECRET"}
    assert "SECRET" not in f"{step!r} {step} {connection!r}"


@pytest.mark.parametrize(
    "properties", ["properties { sasl.password: SECRET }", "properties.sasl.password: SECRET", "properties: SECRET"]
)
def test_properties_stand_beside_the_type(tmp_path: Path, properties: str) -> None:
    text = f'{json.dumps(STEP)[1:-1]}\nconnections.a {{ type: kafka, bootstrap.servers: "a:1", {properties} }}'
    with pytest.raises(StepConfigError, match=r"connections.a: expected properties beside the type") as error:
        load_step(_write(tmp_path, text))
    assert "SECRET" not in str(error.value)
    assert properties == "properties: SECRET" or "(sasl.password: ...)" in str(error.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StepConfigError, match=r"nowhere\.conf: expected a file, found none"):
        load_step(tmp_path / "nowhere.conf", overlays=[SEED])


def test_everything_that_is_wrong_is_said_at_once_with_its_file(tmp_path: Path) -> None:
    _write(tmp_path, '{"trigger": {"count": 0}, "parallelism": "many"}', "over.json")
    with pytest.raises(StepConfigError) as error:
        load_step(
            _write(tmp_path, json.dumps({**STEP, "kye": 1, "name": 12}), "step.json"),
            overlays=[tmp_path / "over.json"],
            assignments={"trigger.shouldFireAtProcessingTime": "maybe"},
        )
    text = str(error.value)
    assert "step.json cannot be used, 5 problems:\n  1. " in text
    assert "/step.json: name: expected a text (in quotes), found 12" in text
    assert "/over.json: trigger.count: expected a whole number of 1 or more, found 0" in text
    assert "--set: trigger.shouldFireAtProcessingTime: expected true or false, found 'maybe'" in text
    assert "/over.json: parallelism: expected a whole number of 1 or more, found 'many'" in text
    assert "/step.json: kye: unknown key; did you mean 'key'? (allowed: name, type, " in text
    sent = pickle.loads(pickle.dumps(error.value))
    assert str(sent) == text


@pytest.mark.feature("UH-1")
@pytest.mark.parametrize(
    ("section", "purpose"),
    [
        ("name", "what the step is called"),
        ("type", "what the step does"),
        ("format", "the formats of messages"),
        ("key", "by which events are gathered"),
        ("trigger", "when the gathered events of a key are aggregated"),
        ("dsl", "where the rules are"),
        ("destination", "where the results go"),
    ],
)
def test_a_section_that_is_missing_says_what_it_is_for(tmp_path: Path, section: str, purpose: str) -> None:
    given = {key: value for key, value in STEP.items() if key != section}
    with pytest.raises(StepConfigError, match=rf"{section}: expected, and not there: .*{purpose}"):
        load_step(_write(tmp_path, json.dumps(given), "step.json"))


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"format": {"input": "csv", "output": "json"}}, "format.input", 'expected "json", "xml", or a mapping'),
        ({"format": {"input": {}, "output": "json"}}, "format.input", r"type \(json, xml, csv, avro\), found an empty"),
        (
            {"format": {"input": "json", "output": {"type": "arvo"}}},
            "format.output.type",
            "expected one of json, xml, csv, avro, found 'arvo'; did you mean 'avro'?",
        ),
        (
            {"format": {"input": "json", "output": {"type": "avro", "schema": []}}},
            "format.output.schema",
            "expected a list that is not empty",
        ),
        (
            {
                "format": {
                    "input": "json",
                    "output": {
                        "type": "avro",
                        "schema": [{"path": "a", "default": True}, {"path": "b", "default": True}],
                    },
                }
            },
            "format.output.schema",
            "expected one schema with default: true, found 2",
        ),
        (
            {"format": {"input": "xml", "output": {"type": "csv", "columnSeparator": ";", "fieldNames": ["a", "a"]}}},
            "format.output",
            "field 'a' of a CSV message is named twice",
        ),
        ({"key": {"type": "headers", "keys": []}}, "key.keys", "not empty"),
        ({"key": {"type": "headers"}}, "key.keys", "the headers whose values make the key"),
        (
            {"key": {"type": "hash", "algorithm": "CRC"}},
            "key.algorithm",
            "one of MD5, .*SHA-256.*, found 'CRC'",
        ),
        ({"key": {"type": "dsl", "source": "http", "path": "a"}}, "key.source", "expected one of classpath, file"),
        ({"trigger": {"type": "count", "count": 2, "timeout": 0}}, "trigger.timeout", "expected a time above zero"),
        ({"trigger": {"type": "count", "count": 2}}, "trigger.timeout", "how long after the last event"),
        ({"trigger": {"type": "count", "count": 2.5, "timeout": 1}}, "trigger.count", "whole number"),
        ({"trigger": {"type": "cuont"}}, "trigger.type", "did you mean 'count'?"),
        (
            {"trigger": {"type": "count", "count": 9, "timeout": 1, "maxEvents": 5}},
            "trigger.maxEvents",
            "never holds more events than the count",
        ),
        (
            {"trigger": {"type": "dsl", "path": "a", "timeout": 1, "maxEvents": 20_000_000}},
            "trigger.maxEvents",
            "1 to 10_000_000, found 20000000",
        ),
        (
            {"trigger": {"type": "time", "time": "1:00", "timePattern": "H:mm", "maxBytes": 0}},
            "trigger.maxBytes",
            "1 or more, found 0",
        ),
        (
            {"trigger": {"type": "timeFromEvent", "path": "a", "timePattern": "H:mm", "maxBytes": 2**31}},
            "trigger.maxBytes",
            "1 to 2_000_000_000, found 2147483648",
        ),
        ({"trigger": 5}, "trigger", "expected a mapping"),
        ({"key": "key"}, "key", "expected a mapping, found 'key': how the key is computed"),
        ({"format": "json"}, "format", "expected a mapping, found 'json': the formats of messages"),
        ({"branches": [5]}, r"branches[0]", "expected a mapping, found 5"),
        ({"connections": 5}, "connections", "expected a mapping, found a number"),
        ({"source": {"type": "kafka", "topics": ["a/b"], "config": {"name": "a"}}}, "source.topics[0]", "a topic"),
        (
            {"connections": {"a": {"type": "kafka", "servers": "h"}}},
            "connections.a.bootstrap.servers",
            "not a Kafka server",
        ),
        ({"branches": [STEP["destination"], STEP["destination"]]}, "branches", "'output' more than once"),
        (
            {"destination": {**STEP["destination"], "type": "sink"}},
            "destination.type",
            "expected one of destination, aggregation, found",
        ),
        ({"ruleTimeLimit": "5 parsecs"}, "ruleTimeLimit", "with a unit"),
        ({"connections": {"a": {"type": "kafka"}}}, "connections.a.bootstrap.servers", "Kafka's servers"),
        ({"connections": {"a": {"typ": "kafka"}}}, "connections.a", r"type \(kafka, files\), found {typ}"),
        ({"stateFull": "yes"}, "stateFull", "expected true or false"),
    ],
)
def test_what_cannot_be_is_explained(tmp_path: Path, changes: dict[str, Any], path: str, text: str) -> None:
    problems = _problems(tmp_path, **changes)
    assert list(problems) == [path]
    assert re.search(text, problems[path])


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("100", 100),
        ('"100"', 100),
        ("1e2", 100),
        ("5 s", 5_000),
        ('"5s"', 5_000),
        ("500 ms", 500),
        ("1 minute", 60_000),
    ],
)
def test_times_are_milliseconds_or_have_a_unit(tmp_path: Path, written: str, meant: int) -> None:
    step = load_step(_write(tmp_path, f"{json.dumps(STEP)[1:-1]}\ntrigger.timeout: {written}"))
    assert isinstance(step.trigger, CountTriggerSection)
    assert step.trigger.timeout == millis(meant)


@pytest.mark.feature("UH-7")
@pytest.mark.parametrize(
    ("name", "java", "python"),
    [
        ("md5", "MD5", "md5"),
        ("SHA256", "SHA-256", "sha256"),
        ("sha3-512", "SHA3-512", "sha3_512"),
        ("SHA", "SHA-1", "sha1"),
    ],
)
def test_algorithms_have_javas_names(tmp_path: Path, name: str, java: str, python: str) -> None:
    key = _step(tmp_path, key={"type": "hash", "algorithm": name}).key
    assert isinstance(key, HashKey)
    assert (key.algorithm, key.hashlib_name) == (java, python)
    assert _step(tmp_path, key={"type": "hash"}).key == HashKey(type="hash")


@pytest.mark.feature("UH-6")
def test_one_header_needs_no_list(tmp_path: Path) -> None:
    key = _step(tmp_path, key={"type": "headers", "keys": "shop"}).key
    assert isinstance(key, HeadersKey)
    assert key.keys == ["shop"]


@pytest.mark.feature("UH-20", "UH-21", "UH-22")
def test_a_time_of_day_is_checked_against_its_pattern(tmp_path: Path) -> None:
    trigger = {"type": "time", "time": "11:05:00+03:00", "timePattern": "HH:mm:ssXXX", "maxEmptyIntervals": 3}
    step = _step(tmp_path, trigger=trigger)
    assert isinstance(step.trigger, TimeTriggerSection)
    assert step.trigger.at.micros == (11 * 3600 + 5 * 60) * 1_000_000
    assert _problems(tmp_path, trigger={**trigger, "time": "25:00"})["trigger"].startswith("time: ")
    assert list(_problems(tmp_path, trigger={**trigger, "timePattern": "HH:qq"})) == ["trigger.timePattern"]
    assert list(_problems(tmp_path, trigger={**trigger, "zone": "Mars/Base"})) == ["trigger.zone"]
    from_event = {"type": "timeFromEvent", "path": "time.py", "timePattern": "HH:qq"}
    assert list(_problems(tmp_path, trigger=from_event)) == ["trigger.timePattern"]
    several = _problems(tmp_path, trigger={**from_event, "zone": "Mars/Base", "maxEmptyIntervals": -1})
    assert sorted(several) == ["trigger.maxEmptyIntervals", "trigger.timePattern", "trigger.zone"]


def test_properties_of_kafka_are_passed_on_as_texts(tmp_path: Path) -> None:
    text = """
    connections.main {
      type: kafka, bootstrap.servers: "a:1,b:2"
      security { protocol: SSL }, "request.timeout.ms": 5000, enable.idempotence: true
    }
    source { type: kafka, topic: orders, config { type: kafka, name: main } }
    """
    step = load_step(_write(tmp_path, json.dumps(STEP)[1:-1] + text))
    connection = step.connections["main"]
    assert isinstance(connection, KafkaConnection)
    assert connection.servers == "a:1,b:2"
    assert connection.properties == {
        "security.protocol": "SSL",
        "request.timeout.ms": "5000",
        "enable.idempotence": "true",
    }
    assert isinstance(step.source, KafkaSource)
    assert (step.source.topics, step.source.starting_offsets) == (["orders"], "earliest")


def test_a_property_whose_spelling_is_lost_is_refused(tmp_path: Path) -> None:
    problems = _problems(tmp_path, connections={"a": {"type": "kafka", "servers": "a:1", "sasl.password": 1.10}})
    assert "sasl.password: expected a text, found a number with a fraction" in problems["connections.a"]
    assert "1.1" not in problems["connections.a"]


@pytest.mark.parametrize(
    ("written", "duration"),
    [
        ("5 s", seconds(5)),
        ("5s", seconds(5)),
        ("100 millis", millis(100)),
        ("2 minutes", seconds(120)),
        ("7", millis(7)),
    ],
)
def test_a_time_has_a_unit_of_hocon_or_is_in_milliseconds(tmp_path: Path, written: str, duration: Duration) -> None:
    step = load_step(_write(tmp_path, f"{json.dumps(STEP)[1:-1]}, trigger.timeout: {written}"))
    assert isinstance(step.trigger, CountTriggerSection)
    assert step.trigger.timeout == duration


def test_what_looks_like_a_duration_or_a_word_stays_in_a_path(tmp_path: Path) -> None:
    text = f"{json.dumps(STEP)[1:-1]}, v: 1.10, x: ${{v}}\nsource {{ type: files, path: 5m-in/true-x/v${{v}} }}"
    step = load_step(_write(tmp_path, text), assignments={"v": "null", "x": "null"})
    assert step.source is not None
    assert step.source.type == "files"
    assert step.source.path.text == "5m-in/true-x/v1.10"


def test_a_source_of_kafka_needs_a_connection_of_kafka(tmp_path: Path) -> None:
    source = {"type": "kafka", "topics": ["a"], "config": {"name": "output"}}
    problems = _problems(tmp_path, source=source, connections={"output": {"type": "files", "path": "out"}})
    assert "expected a connection of type kafka, found output" in problems["source.config"]


@pytest.mark.parametrize("place", ["destination", "error"])
def test_a_step_that_reads_what_it_writes_is_refused_unless_it_is_meant(tmp_path: Path, place: str) -> None:
    names = {"destination": "output", "error": "deadletter"}
    loop = {
        "source": {"type": "kafka", "topics": ["in", names[place]], "config": {"name": "reading"}},
        "connections": {
            "reading": {"type": "kafka", "bootstrap.servers": "a:1,b:1"},
            "writing": {"type": "kafka", "bootstrap.servers": "b:1"},
        },
    }
    for name, topic in names.items():
        loop[name] = {"name": name, "topic": topic, "config": {"name": "writing"}}
    problems = _problems(tmp_path, **loop)
    assert list(problems) == [f"{place}.topic"]
    assert f"found {names[place]!r}: a loop; if it is meant to be, say allowLoops: true" in problems[f"{place}.topic"]
    assert _step(tmp_path, **loop, allowLoops=True).allow_loops


def test_a_run_says_what_to_add_and_that_is_enough(tmp_path: Path) -> None:
    step = load_step(SEED)
    with pytest.raises(ConfigError, match=r"does not say source and connections\.output") as error:
        check_complete(step)
    assert '"output" { type: kafka, bootstrap.servers: "localhost:9092" }' in str(error.value)
    assert "did you mean" not in str(error.value)
    around = _write(tmp_path, missing_sections_example(step), "around.conf")
    check_complete(load_step(SEED, overlays=[around]))


def test_a_connection_whose_name_is_misspelled_is_told(tmp_path: Path) -> None:
    gaps = missing_sections_example(_step(tmp_path, connections={"outptu": {"type": "files", "path": "out"}}))
    assert "\"output\" is not among the connections; did you mean 'outptu'?" in gaps
