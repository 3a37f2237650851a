"""The bolts of the topologies: what they emit says which events a window held, and what the task remembers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from windowing import AggregateBolt, Bolt, StatefulWindowedBolt, Tuple, TupleWindow, WindowedBolt, aggregates
from windowing.schema import EmittedRows
from windowing.settings.triggers import FireResult, TriggerCall

COLUMNS = "id long, user string, ts long, at long, until long, amount double"
NAMES = [column.split()[0] for column in COLUMNS.split(", ")]


class _Code:
    """The code of the bolts, as the process that runs has it: what they emit names its version."""

    version = 0

    @property
    def mark(self) -> str:
        return "'" * (self.version % 3)


CODE = _Code()


class Ids(StatefulWindowedBolt):
    """The events of a window, how many windows there were, and the last few events of all."""

    outputs = "key string, stop long, ids string, number long"
    state_types = {"windows": int, "seen": "id long"}  # noqa: RUF012 - declared so by users

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        seen = pa.concat_tables([self.state["seen"], window.new.select(["id"])])
        self.state["seen"] = seen.slice(max(len(seen) - 5, 0))
        ids = " ".join(map(str, window.column("id").tolist()))
        yield f"{window.key}{CODE.mark}", window.end_timestamp, ids, self.state["windows"]


class Plain(WindowedBolt):
    """The events of a window, and nothing kept."""

    outputs = "key string, stop long, ids string, number long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        ids = sorted(window.column("id").tolist())
        return f"{window.key}{CODE.mark}", window.end_timestamp, " ".join(map(str, ids)), len(ids)


class Few(Plain):
    """The same of one column, of windows that are computed side by side."""

    reads = "id"
    parallel_windows = True


class PerUser(StatefulWindowedBolt):
    """How many windows, and which last few events, each user has had: a dict and a table by key."""

    outputs = "user string, stop long, ids string, windows long"
    state_types = {"windows": dict, "seen": "user string, id long", "name": str}  # noqa: RUF012 - declared so by users
    state_keys = {"windows": "user", "seen": "user", "name": ()}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        """A row for each user of the window."""
        rows = window.table.select(["user", "id"]).to_pylist()
        for user in sorted({row["user"] for row in rows if row["user"] is not None}):
            number = self.state["windows"][user] = self.state["windows"].get(user, 0) + 1
            ids = [row["id"] for row in rows if row["user"] == user]
            before = self.state["seen"].to_pylist()
            old = [row["id"] for row in before if row["user"] == user]
            kept = [row for row in before if row["user"] != user] + [{"user": user, "id": max(ids)}]
            self.state["seen"] = pa.Table.from_pylist(kept, self.state["seen"].schema)
            yield user, window.end_timestamp, f"{sorted(ids)} after {old}{CODE.mark}", number


class ByMethod(PerUser):
    """The same, moved by a method."""

    state_keys = {}  # noqa: RUF012

    def move_state(self, states: Any, task_of: Callable[..., int], tasks: int) -> list[dict[str, Any]]:
        """Users go to their tasks."""
        moved = [self.initial_state() for _ in range(tasks)]
        for state in states:
            for user, number in state["windows"].items():
                moved[task_of(user)]["windows"][user] = number
            for row in state["seen"].to_pylist():
                there = moved[task_of(row["user"])]
                there["seen"] = pa.concat_tables([there["seen"], pa.Table.from_pylist([row], there["seen"].schema)])
        return moved


class Expired(WindowedBolt):
    """What has left the window since the one before it, and what has come."""

    outputs = "key string, stop long, ids string, number long"

    def execute(self, window: TupleWindow) -> EmittedRows:
        gone, new = (table["id"].to_pylist() for table in (window.expired, window.new))
        return f"{window.key}{CODE.mark}", window.end_timestamp, f"-{gone} +{new}", len(window)


class Lengths(StatefulWindowedBolt):
    """A second window, over what windows have emitted."""

    outputs = "rows long, total long, number long"
    state_types = {"windows": int}  # noqa: RUF012

    def execute(self, window: TupleWindow) -> EmittedRows:
        self.state["windows"] += 1
        return len(window), int(window.column("number").sum()), self.state["windows"]


class Doubled(Bolt):
    """Some events not at all, some twice."""

    outputs = COLUMNS

    def execute(self, event: Tuple) -> EmittedRows:
        row = tuple(event[name] for name in NAMES)
        for _ in range((event["id"] or 0) % 3):
            yield row


def sums() -> WindowedBolt:
    """Aggregates, of which a task keeps partial results."""
    return AggregateBolt(by=["user"], n=aggregates.count(), amount=aggregates.sum("amount"), top=aggregates.max("id"))


def picks() -> WindowedBolt:
    """Aggregates that keep rows, and estimates."""
    return AggregateBolt(
        by=["user"],
        best=aggregates.max_by("id", by="amount"),
        three=aggregates.top(3, "id", by="amount"),
        ids=aggregates.collect("id"),
        mode=aggregates.mode("at"),
    )


def by_amount(event: Tuple, call: TriggerCall) -> Any:
    """A rule of a trigger: a sum in its cache; some events are refused."""
    amount = event["amount"] or 0.0
    if amount == 13:
        raise ValueError("thirteen")
    call.cache["sum"] = call.cache.get("sum", 0.0) + amount
    if call.cache["sum"] > 150:
        return FireResult.FIRE_AND_PURGE
    if amount > 90:
        return FireResult.FIRE
    return FireResult.PURGE if amount == 1 else FireResult.CONTINUE
