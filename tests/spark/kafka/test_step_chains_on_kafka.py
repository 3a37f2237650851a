"""A chain of aggregation steps on Kafka: whatever dies, every message goes through both steps once (UH-32)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka, Record
from tests.helpers.places import ROOT
from tests.spark.kafka.kafka_shop import once
from tests.spark.kafka.step_shop import EIGHT, SECOND, BatchClock, Message, built, write
from tests.spark.tools import at_phase, run, run_until

pytestmark = [pytest.mark.usefixtures("spark"), pytest.mark.feature("UH-32", "UH-31")]

CHAIN = """
name: users
type: aggregation
format {{ input: json, output: json }}
key {{ type: dsl, source: file, path: "rules.py:user" }}
trigger {{ type: count, count: 4, timeout: 30 s }}
dsl {{ source: file, path: "rules.py:gathered" }}
destination {{
  name: thirds
  type: aggregation
  format {{ input: json, output: json }}
  key {{ type: key }}
  trigger {{ type: count, count: 3, timeout: 10 s }}
  dsl {{ source: file, path: "rules.py:counted" }}
  stateFull: true
  destination {{ name: output, topic: "{output}", config {{ name: main }} }}
  error {{
    name: rescue
    type: aggregation
    format {{ input: json, output: json }}
    key {{ type: key }}
    trigger {{ type: count, count: 1, timeout: 1 s }}
    dsl {{ source: file, path: "rules.py:rescued" }}
    destination {{ name: rescued, topic: "{rescued}", config {{ name: main }} }}
  }}
}}
error {{ name: deadletter, topic: "{dead}", config {{ name: main }} }}
source {{ type: kafka, topics: ["{input}"], config {{ type: kafka, name: main }}, maxOffsetsPerTrigger: {size} }}
connections.main {{ type: kafka, bootstrap.servers: "{servers}" }}
"""

RULES = """
from windbolt.step import Out


def user(event):
    return event.value["user"]


def gathered(events, call):
    numbers = [event.value["n"] for event in events]
    return Out({"numbers": numbers}, key=f"third {sum(numbers) % 3}")


def counted(events, call):
    call.cache["calls"] = call.cache.get("calls", 0) + 1
    numbers = [event.value["numbers"] for event in events]
    if any(sum(each) % 11 == 0 for each in numbers):
        raise ValueError("eleven")
    return {"key": call.key, "numbers": numbers, "ms": call.window_ms, "calls": call.cache["calls"]}


def rescued(events, call):
    (event,) = events
    return Out({**event.value, "of": event.headers["windbolt-topic"]}, key=event.key)
"""
SIZE = 60
MOMENTS = [EIGHT + second * SECOND for second in (0, 20, 25, 90)]


class Chain:
    """Two steps in a folder, with topics of their own, and an error step."""

    def __init__(self, kafka: Kafka, folder: Path, events: str) -> None:
        folder.mkdir(exist_ok=True)
        self.kafka, self.checkpoint, self.path = kafka, folder / "checkpoint", folder / "chain.conf"
        self.topics = {name: kafka.topic(f"chain-{name}") for name in ("output", "rescued", "dead")}
        text = CHAIN.format(**self.topics, input=events, size=SIZE, servers=kafka.servers)
        self.path.write_text(text, encoding="utf-8")
        (folder / "rules.py").write_text(RULES, encoding="utf-8")
        self.clock = BatchClock(self.checkpoint, MOMENTS)

    @property
    def records(self) -> list[Record]:
        """All that it has written, repeats with it."""
        return self.kafka.records(*self.topics.values())

    @property
    def written(self) -> dict[str, bytes | None]:
        """Values by id, without repeats."""
        return {record.id: record.value for record in once(self.records)}

    def values(self, name: str) -> list[Any]:
        return [json.loads(record.value or b"") for record in once(self.kafka.records(self.topics[name]))]

    def repeated(self) -> set[int]:
        """The steps of the engine whose records are there more than once."""
        times = Counter(record.id for record in self.records)
        return {int(each.split("/")[-2]) for each, number in times.items() if number > 1}


@pytest.fixture(scope="module")
def events(kafka: Kafka) -> str:
    """A topic of events; every tenth is none."""
    topic = kafka.topic("chain-events")
    rows = [json.dumps({"user": f"u{n * n % 17}", "n": n}).encode() for n in range(SIZE * len(MOMENTS))]
    write(kafka, topic, [Message(row[:-1] if n % 10 == 0 else row) for n, row in enumerate(rows)])
    return topic


@pytest.fixture(scope="module")
def undisturbed(spark: SparkSession, kafka: Kafka, events: str, tmp_path_factory: Any) -> dict[str, bytes | None]:
    """What comes out where nothing happens."""
    chain = Chain(kafka, tmp_path_factory.mktemp("undisturbed"), events)
    summary = run(built(chain.path), chain.checkpoint, clock=chain.clock)
    assert summary.batches == len(MOMENTS) + 1
    found = chain.written
    assert len(found) == len(chain.records)
    results, rescued = chain.values("output"), chain.values("rescued")
    numbers = [n for row in results for each in row["numbers"] for n in each]
    numbers += [n for row in rescued for n in row["numbers"]]
    assert sorted(numbers) == [n for n in range(SIZE * len(MOMENTS)) if n % 10]
    assert len(kafka.records(chain.topics["dead"])) == SIZE * len(MOMENTS) // 10
    assert len(results) > 5
    assert len(rescued) > 5
    assert {row["of"] for row in rescued} == {"thirds"}
    assert max(len(row["numbers"]) for row in results) == 3
    assert {row["ms"] for row in results} > {0, 10_000}
    return found


@pytest.mark.extended
def test_a_chain_that_dies_anywhere_loses_nothing(
    kafka: Kafka, events: str, undisturbed: dict[str, bytes | None], tmp_path: Path
) -> None:
    chain = Chain(kafka, tmp_path, events)
    for batch, phase in [(0, "sinks"), (1, "fire"), (1, "commit"), (2, "committed"), (3, "commit")]:
        run_until(built(chain.path), chain.checkpoint, at_phase(batch, phase), clock=chain.clock)
    run(built(chain.path), chain.checkpoint, clock=chain.clock)
    assert by_batch(chain.written) == by_batch(undisturbed)
    assert chain.repeated() == {2 * 1, 2 * 3}


@pytest.mark.extended
def test_a_chain_that_is_killed_goes_on(
    kafka: Kafka, events: str, undisturbed: dict[str, bytes | None], tmp_path: Path
) -> None:
    chain = Chain(kafka, tmp_path, events)
    script = [sys.executable, "-m", "tests.spark.kafka.dying_step_on_kafka", str(chain.path), str(chain.checkpoint)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*script, *map(str, MOMENTS)], cwd=ROOT, env={**os.environ, "PYTHONPATH": paths},
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    run(built(chain.path), chain.checkpoint, clock=chain.clock)
    assert by_batch(chain.written) == by_batch(undisturbed)
    assert chain.repeated() == {2 * 1}


def by_batch(written: dict[str, bytes | None]) -> dict[str, bytes | None]:
    """Values by id; how many batches there were before the closing tick does not count."""
    parts = {each: each.rsplit("/", 2) for each in written}
    return {
        f"{name}/{'closing' if int(tick) % 2 else tick}/{number}": written[each]
        for each, (name, tick, number) in parts.items()
    }
