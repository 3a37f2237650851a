"""What the ready aggregation step brings along for a trial on Kafka: orders are produced, and topics are shown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from servers.kafka import Kafka
from topologies.examples import aggregation
from topologies.examples.aggregation.__main__ import produce, send, show
from topologies.step.compile_step import step_topology
from topologies.step.config_files import load_step
from windbolt import RunOptions, run_local


def _invoke(command: Callable[..., None], *arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments), catch_exceptions=False)


def test_the_orders_of_a_shop_are_in_order_and_the_last_one_says_so(kafka: Kafka) -> None:
    place = ("--servers", kafka.servers, "--topic", kafka.topic("orders"))
    produced = _invoke(produce, *place, "--events", "60", "--keys", "7")
    assert produced.stdout.startswith("60 orders of 7 shops are in ")
    shown = _invoke(show, *place, "--most", "100")
    assert shown.exit_code == 0, shown.output
    assert shown.stderr.startswith("60 messages in ")
    shops = defaultdict(list)
    for line in shown.stdout.splitlines():
        message = json.loads(line)
        order = json.loads(message["value"])  # no Avro, and so as it is
        assert message["key"] == order["shop"] == f"shop-{order['id'] % 7}"
        shops[order["shop"]].append(order)
    for orders in shops.values():
        assert [order["id"] for order in orders] == sorted(order["id"] for order in orders)
        assert [order["last"] for order in orders] == [False] * (len(orders) - 1) + [True]
    assert sum(map(len, shops.values())) == 60


def test_the_step_runs_in_this_process_from_orders_to_totals(kafka: Kafka, tmp_path: Path) -> None:
    topics = {name: kafka.topic(name) for name in ("input", "output", "deadletter")}
    _invoke(produce, "--servers", kafka.servers, "--topic", topics["input"], "--events", "40", "--keys", "4")
    kafka.produce(topics["input"], ["no order"], 0)
    example, here = Path(aggregation.__file__).parent, tmp_path / "here.conf"
    here.write_text(
        f"""
        source.topics: [{topics["input"]}]
        connections.output."bootstrap.servers": "{kafka.servers}"
        """
    )
    config = load_step(
        example / "aggregation.conf",
        overlays=[example / "local.conf", here],
        assignments={
            "error.topic": topics["deadletter"],
            "destination.topic": topics["output"],
        },
    )
    run_local(step_topology(config), RunOptions(str(tmp_path / "checkpoint")))
    assert len(kafka.records(topics["output"])) == 4
    assert [record.value for record in kafka.records(topics["deadletter"])] == [b"no order"]


def test_messages_of_files_are_sent_as_they_are_and_shown_at_the_step_s_destination(
    kafka: Kafka, tmp_path: Path
) -> None:
    topic = kafka.topic("orders")
    file, step = tmp_path / "1.jsonl", tmp_path / "step.json"
    envelopes: list[dict[str, Any]] = [
        {"key": "ada", "value": {"n": 1}, "headers": {"shop": "7"}},
        {"value": "no JSON"},
    ]
    file.write_text("\n\n".join(map(json.dumps, envelopes)), encoding="utf-8")
    sent = _invoke(send, "--servers", kafka.servers, "--topic", topic, str(file))
    assert sent.stdout == f"2 messages are in {topic}\n", sent.output
    given = {
        "name": "s",
        "type": "aggregation",
        "format": {"input": "json", "output": "json"},
        "key": {"type": "key"},
        "trigger": {"type": "count", "count": 1, "timeout": 1},
        "dsl": {"path": "rules.py"},
        "destination": {"name": "d", "topic": topic, "config": {"type": "kafka", "name": "main"}},
        "connections": {"main": {"type": "kafka", "bootstrap.servers": kafka.servers}},
    }
    step.write_text(json.dumps(given), encoding="utf-8")
    shown = _invoke(show, "--step", str(step))
    assert shown.stderr == f"2 messages in {topic}\n"
    found = {message.get("key"): message for message in map(json.loads, shown.stdout.splitlines())}
    assert found["ada"]["value"] == {"n": 1}
    assert found["ada"]["headers"] == {"shop": "7"}
    assert found[None]["value"] == "no JSON"


def test_a_line_that_is_no_envelope_is_told(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text('{"value": 1}\n{"valeu": 2}\n', encoding="utf-8")
    result = _invoke(send, str(tmp_path / "1.jsonl"))
    assert result.exit_code == 1
    assert "line 2: it is not an envelope: unknown 'valeu'" in " ".join(result.stderr.split())


@pytest.mark.parametrize("command", [produce, show])
def test_a_topic_that_is_missing_is_told(kafka: Kafka, command: Callable[..., None]) -> None:
    result = _invoke(command, "--servers", kafka.servers, "--topic", "nowhere")
    assert result.exit_code == 2
    assert "there is no topic 'nowhere'" in result.stderr
