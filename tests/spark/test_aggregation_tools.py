"""What the ready aggregation step brings along for a trial on Kafka: orders are produced, and topics are shown."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable

import pytest
import typer
from typer.testing import CliRunner, Result

from tests.spark.kafka_shop import Kafka
from topologies.aggregation.produce import produce
from topologies.aggregation.show import show

pytestmark = pytest.mark.usefixtures("spark")


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


@pytest.mark.parametrize("command", [produce, show])
def test_a_topic_that_is_missing_is_told(kafka: Kafka, command: Callable[..., None]) -> None:
    result = _invoke(command, "--servers", kafka.servers, "--topic", "nowhere")
    assert result.exit_code == 2
    assert "there is no topic 'nowhere'" in result.stderr
