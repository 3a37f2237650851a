"""The balance of each account: a payment beyond it is refused, and every minute the accounts in use report.

Storm's users would write it as a BaseStatefulBolt with tick tuples. The state belongs to one account. An account that
is empty again is forgotten, so that only accounts with a balance take memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from windbolt import Emit, StatefulBolt, TopologyBuilder, Tuple, sinks, spouts


class Balances(StatefulBolt):
    outputs = {  # noqa: RUF012
        "default": "id long, account string, balance double",
        "refused": "id long, account string, missing double",
        "report": "at timestamp, account string, balance double, payments long",
    }
    state_types = {"balance": float, "payments": int}  # noqa: RUF012

    def execute(self, tuple: Tuple) -> Iterator[Any]:
        """Called with a payment: returns a row with the new balance, or with the reason of a refusal."""
        balance = self.state["balance"] + tuple["amount"]
        if balance < 0:
            yield Emit((tuple["id"], self.key, -balance), stream="refused")
            return
        self.state["balance"] = balance
        self.state["payments"] += 1
        yield tuple["id"], self.key, balance
        if balance == 0:
            self.state = self.initial_state()

    def on_clock(self, clock: datetime) -> Emit:
        """Reports on each account in use, every minute."""
        row = (clock, self.key, self.state["balance"], self.state["payments"])
        self.state["payments"] = 0
        return Emit(row, stream="report")


builder = TopologyBuilder("balances")
builder.set_spout("payments", spouts.files("payments/*.jsonl", "id long, account string, amount double"))
builder.set_bolt("balances", Balances().with_key("account").with_clock("1m"), parallelism=2).fields_grouping("payments")
builder.set_sink("booked", sinks.console()).from_("balances")
builder.set_sink("refused", sinks.console()).from_("balances", stream="refused")
builder.set_sink("report", sinks.console()).from_("balances", stream="report")
topology = builder.build()
