"""What ``windbolt check`` says of schema registries: what they have, whether it fits, and how they fail."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from rich.console import Console

from servers.kafka import Registry, registry
from tests.helpers import topic_values
from topologies.checkpoints.inspect_spouts import Findings
from topologies.checkpoints.preflight import inspect_registries
from topologies.cli.displays import print_report
from topologies.engine.kafka_records import Records
from topologies.io.spouts import MemorySpout
from topologies.topology import Topology
from windbolt import TopologyBuilder, sinks, spouts
from windowing.errors import UnreachableError

AT = "127.0.0.1:1"  # no broker is there


@pytest.fixture
def told() -> Iterator[Registry]:
    with registry() as one:
        yield one


def avro(*fields: tuple[str, Any]) -> str:
    named = [{"name": name, "type": ["null", kind], "default": None} for name, kind in fields]
    return json.dumps({"type": "record", "name": "Order", "fields": named})


def reading(told: Registry, schema: str = "user string, amount double", **more: Any) -> Topology:
    builder = TopologyBuilder("looked_at")
    more = {"format": "avro", "registry": told.url, **more}
    builder.set_spout("orders", spouts.kafka(AT, "orders", schema, **more))
    builder.set_sink("out", sinks.discard()).from_("orders")
    return builder.build()


def writing(told: Registry, schema: str = "user string, amount double", **more: Any) -> Topology:
    builder = TopologyBuilder("looked_at")
    builder.set_spout("rows", MemorySpout(schema, ()))
    more = {"format": "avro", "registry": told.url, "message": "Order", **more}
    builder.set_sink("totals", sinks.kafka(AT, "totals", **more)).from_("rows")
    return builder.build()


def found(topology: Topology) -> Findings:
    (findings,) = inspect_registries(topology).values()
    return findings


def test_the_latest_schema_is_shown_and_compared(told: Registry) -> None:
    assert "has none for 'orders-value' yet" in dict(found(reading(told)).facts)["schema"]
    told.register("orders-value", avro(("user", "string"), ("amount", "double")))
    findings = found(reading(told))
    assert findings == Findings((("schema", "orders-value, version 1, id 1: the columns fit"),))
    (problem,) = found(reading(told, "user string, amount boolean")).problems
    assert "spout 'orders': the columns do not fit the latest schema of topic 'orders', id 1: amount" in str(problem)


def test_a_column_that_the_schema_lacks_is_a_warning_unless_it_has_a_default(told: Registry) -> None:
    told.register("orders-value", avro(("user", "string"), ("amount", "double")))
    (warning,) = found(reading(told, "user string, amuont double")).warnings
    assert "spout 'orders': the schema has no field 'amuont'; did you mean 'amount'?" in str(warning)
    assert found(reading(told, "user string, more double", defaults={"more": 1.0})).warnings == ()


def test_a_topic_of_another_kind_is_a_warning(told: Registry) -> None:
    told.register("orders-value", json.dumps({"type": "object"}), "JSON")
    (warning,) = found(reading(told)).warnings
    assert "orders-value, version 1, id 1, is JSON, and the topic is read as AVRO" in str(warning)


def test_keys_have_a_schema_of_their_own(told: Registry) -> None:
    told.register("orders-key", avro(("id", "boolean")))
    keyed = {"key": "avro", "key_columns": "id long"}
    for more in (keyed, {"format": "json", **keyed}):
        (problem,) = found(reading(told, **more)).problems
        assert "the columns do not fit the latest schema of topic 'orders', id 1: id" in str(problem)
        assert "its keys would all be invalid" in str(problem)


def test_what_a_sink_would_register_is_said_and_not_registered(told: Registry) -> None:
    new = writing(told)
    assert dict(found(new).facts) == {"schema": "of totals-value is not there yet; a run registers it"}
    assert told.subjects == {}
    told.register("totals-value", avro(("user", "string")))
    (word, fact), *_ = found(new).facts
    assert "a compatible change of version 1" in fact
    (problem,) = found(writing(told, "user long")).problems
    assert "sink 'totals': the registry refuses the schema of topic 'totals'" in str(problem)
    assert "it is no compatible change of version 1" in str(problem)
    told.register("totals-value", avro(("user", "string"), ("amount", "double")))
    assert dict(found(new).facts)[word] == "of totals-value: registered, as version 2"
    assert dict(found(writing(told, schemas="latest")).facts)[word] == "of totals-value: the columns fit the latest"
    (problem,) = found(writing(told, "user string, other long", schemas="latest")).problems
    assert "has no field 'other'" in str(problem)
    assert told.subjects == {"totals-value": [1, 2]}


@pytest.mark.parametrize("of", [reading, writing])
def test_a_registry_that_is_away_is_a_warning_and_one_that_refuses_a_problem(of: Any, told: Registry) -> None:
    away = Registry(url="http://127.0.0.1:1")
    (warning,) = found(of(away, registry={"url": away.url, "max.retries": 0})).warnings
    assert "the registry http://127.0.0.1:1 does not answer" in str(warning)
    assert "see to its address, and that it runs" in str(warning)
    told.user = "ann:secret"
    (problem,) = found(of(told)).problems
    assert "refuses to answer" in str(problem)
    assert "secret" not in str(problem)


@pytest.mark.parametrize("of", [reading, writing])
def test_a_registry_that_is_slow_is_asked_once_in_a_look_and_the_report_says_so(of: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # connects, and says nothing
        slow = Registry(url=f"http://127.0.0.1:{silent.getsockname()[1]}")
        text = io.StringIO()
        print_report(Console(file=text, width=120), of(slow, registry={"url": slow.url, "timeout": 0.2}), strict=False)
        silent.setblocking(False)
        silent.accept()
        with pytest.raises(BlockingIOError):
            silent.accept()
    assert "it was asked once, with 0.2 seconds for an answer" in " ".join(text.getvalue().split())


@pytest.mark.parametrize("timeout", [None, 2.5, 60])
def test_a_look_asks_once_whatever_limit_the_settings_have(timeout: float | None) -> None:
    away, text = Registry(url="http://127.0.0.1:1"), io.StringIO()
    looked_at = reading(away, registry={"url": away.url, "timeout": timeout})
    print_report(Console(file=text, width=120), looked_at, strict=False)
    seconds = 3 if timeout is None else min(timeout, 3)
    assert f"it was asked once, with {seconds} seconds for an answer" in " ".join(text.getvalue().split())


def test_the_report_has_a_line_for_each(told: Registry) -> None:
    told.register("orders-value", avro(("user", "string"), ("amount", "double")))
    text = io.StringIO()
    print_report(Console(file=text, width=120), reading(told), strict=False)
    assert "  schema   orders-value, version 1, id 1: the columns fit" in text.getvalue()
    print_report(Console(file=text, width=120), writing(told), strict=False)
    assert "; the schema of totals-value is not there yet; a run registers it" in " ".join(text.getvalue().split())


def test_a_registry_that_fails_within_a_run_names_the_spout() -> None:
    away = Registry(url="http://127.0.0.1:1")
    topology = reading(away, registry={"url": away.url, "max.retries": 0})
    records = topic_values.records([b"\0\0\0\0\1abc"])
    with pytest.raises(UnreachableError, match=r"spout 'orders': the registry http://127\.0\.0\.1:1 does not answer"):
        list(Records("orders", [records]).read(topology))
