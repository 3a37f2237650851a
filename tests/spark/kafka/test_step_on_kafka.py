"""Aggregation steps on Kafka: no message is lost, whatever it holds, whatever the rules do, and whatever dies."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from servers.kafka import Kafka, Record
from tests.helpers.examples import sampled
from tests.helpers.malformed import AVRO_SCHEMA, FORMATS, GOOD, malformed
from tests.helpers.places import ROOT
from tests.spark.kafka.kafka_shop import once
from tests.spark.kafka.step_shop import (
    EIGHT,
    SECOND,
    BatchClock,
    Headers,
    Message,
    built,
    emptied,
    expected_letters,
    letters,
    topic_of,
    write,
)
from tests.spark.tools import at_phase, run, run_until
from topologies.engine.report import BatchReport
from topologies.io.messages import AvroMessages, AvroSchema
from topologies.run.summary import Summary
from windowing.durations import millis
from windowing.errors import ConfigError

pytestmark = pytest.mark.usefixtures("spark")
READY = ROOT / "topologies" / "examples" / "aggregation"

STEP = """
name: orders
type: aggregation
format {{ input: {format}, output: json }}
key {{ {key} }}
trigger {{ {trigger} }}
dsl {{ source: file, path: rules.py }}
destination {{ name: output, topic: "{output}", config {{ name: main }} }}
error {{ name: deadletter, topic: "{dead}", config {{ name: main }} }}
source {{ type: kafka, topics: ["{input}"], config {{ type: kafka, name: main }} }}
connections.main {{ type: kafka, bootstrap.servers: "{servers}" }}
"""
SCHEMA = '{ type: avro, schema: [{ source: file, path: "order.avsc" }] }'
INPUTS = {
    "json": "json",
    "xml": "xml",
    "csv": '{ type: csv, columnSeparator: ";", fieldNames: [a, b, c] }',
    "avro": SCHEMA,
}
TOTAL = """
def aggregate(events, call):
    return {"key": call.key, "events": call.count, "total": sum(amount(event.value) for event in events)}


"""


class Step:
    """A step in a folder, with topics of its own."""

    def __init__(self, kafka: Kafka, folder: Path, rules: str, *more: str, partitions: int = 1, **given: str) -> None:
        folder.mkdir(exist_ok=True)
        self.kafka, self.checkpoint, self.path = kafka, folder / "checkpoint", folder / "step.conf"
        self.input = given.pop("input", "") or kafka.topic("step-in", partitions)
        self.output, self.dead = kafka.topic("step-out"), given.pop("dead", "") or kafka.topic("step-dead")
        topics = {"input": self.input, "output": self.output, "dead": self.dead, "servers": kafka.servers}
        text = STEP.format(**{"format": "json", "key": "type: key", **topics, **given})
        self.path.write_text("\n".join([text, *more]), encoding="utf-8")
        (folder / "rules.py").write_text(rules, encoding="utf-8")
        (folder / "order.avsc").write_text(AVRO_SCHEMA, encoding="utf-8")

    def run(self, **options: Any) -> Summary:
        """Run to the end of what is there."""
        return run(built(self.path), self.checkpoint, **options)

    def run_until(self, batch: int, phase: str, **options: Any) -> None:
        """Run, and die as a phase begins."""
        run_until(built(self.path), self.checkpoint, at_phase(batch, phase), **options)

    @property
    def results(self) -> list[dict[str, Any]]:
        """What it has written, in order."""
        return as_json(self.kafka.records(self.output))


def as_json(records: Iterable[Record]) -> list[dict[str, Any]]:
    """The values of records."""
    return [json.loads(record.value or b"") for record in records]


def accounts_of(summary: Summary) -> dict[str, int]:
    """The accounts at the end of a run, which must add up."""
    assert summary.last is not None
    accounts = dict(summary.last.bolts["aggregate"].accounts)
    assert accounts["received"] == sum(accounts.values()) - accounts["received"]
    return accounts


# --- messages that cannot be read -------------------------------------------------------------------------------


AMOUNTS = {
    "json": 'def amount(value): return value["n"]',
    "xml": 'def amount(value): return int(value["order"]["n"])',
    "csv": 'def amount(value): return int(value["b"])',
    "avro": 'def amount(value): return value["n"]',
}
KEYS = (None, b"\xff\xfe", b"", "ключ-1".encode())
SOME_HEADERS: tuple[Headers, ...] = (
    (),
    (("a", b"1"), ("a", None), ("b", b"\xff\x00"), ("", b"no name")),
    (("windbolt-id", b"of an earlier step"), ("windbolt-reason", b"there, too"), ("x", b"")),
)


def good(format_name: str, number: int) -> bytes:
    """A message that holds a number."""
    match format_name:
        case "json":
            return json.dumps({"n": number}).encode()
        case "xml":
            return f"<order><n>{number}</n></order>".encode()
        case "csv":
            return f'"x;y";{number};'.encode()
    messages = FORMATS["avro"]
    return messages.write({**messages.read(GOOD["avro"], {}), "n": number}, {}) or b""


def mixed(format_name: str, partitions: int) -> tuple[list[Message], set[int]]:
    """Good messages among all that are malformed, and the places of these."""
    dice, found = random.Random(7), [*malformed(format_name), ("a tombstone", None)]
    assert len(found) > 200
    assert max(len(value or b"") for _, value in found) > 750_000
    bad = [
        Message(value, KEYS[at % 4], SOME_HEADERS[at % 3], dice.randrange(partitions))
        for at, (_, value) in enumerate(found)
    ]
    fine = [
        Message(good(format_name, at), f"k{at % 7}".encode(), SOME_HEADERS[at % 2], at % partitions)
        for at in range(300)
    ]
    every = [*((each, True) for each in bad), *((each, False) for each in fine)]
    dice.shuffle(every)
    return [each for each, _ in every], {at for at, (_, is_bad) in enumerate(every) if is_bad}


@pytest.mark.feature("UH-2", "UH-31")
@pytest.mark.parametrize("format_name", sampled(FORMATS, 3))
def test_every_malformed_message_is_a_dead_letter_and_all_others_count(
    format_name: str, kafka: Kafka, tmp_path: Path
) -> None:
    trigger = "type: count, count: 11, timeout: 1 hour"
    step = Step(
        kafka, tmp_path, TOTAL + AMOUNTS[format_name], format=INPUTS[format_name], trigger=trigger, partitions=3
    )
    messages, bad = mixed(format_name, 3)
    there = write(kafka, step.input, messages)
    accounts = accounts_of(step.run())
    assert accounts["received"] == len(messages)
    assert (accounts["invalid"], accounts["windowed"]) == (len(bad), len(messages) - len(bad))
    assert sum(accounts.values()) == 2 * len(messages)
    wrong = {id(messages[at]) for at in bad}
    expected = {place: each for place, each in there.items() if id(each) in wrong}
    found = letters(kafka, step.dead)
    assert found == expected_letters(step.input, expected)
    assert len({letter.reason for letter in found.values()}) > 5
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for at in range(300):
        sums[f"k{at % 7}"] += at
        counts[f"k{at % 7}"] += 1
    for row in step.results:
        sums[row["key"]] -= row["total"]
        counts[row["key"]] -= row["events"]
    assert {*sums.values(), *counts.values()} == {0}


@pytest.mark.feature("UH-31")
def test_a_dead_letter_that_is_too_large_is_cut(kafka: Kafka, tmp_path: Path) -> None:
    trigger = "type: count, count: 11, timeout: 1 hour"
    step = Step(kafka, tmp_path, TOTAL + AMOUNTS["json"], trigger=trigger)
    text = b"x" * 1_048_400
    write(kafka, step.input, [Message(text, b"k"), Message(b'{"n": 5}', b"k")])
    step.run()
    (letter,) = kafka.records(step.dead)
    assert letter.value is not None
    told = dict(letter.headers)
    assert len(text) - 10_000 < len(letter.value) < len(text)
    assert (told["windbolt-size"], told["windbolt-cut"]) == (str(len(text)).encode(), b"value")
    assert told["windbolt-sha256"] == hashlib.sha256(text).hexdigest().encode()
    assert told["windbolt-reason"]
    assert step.results == [{"key": "k", "events": 1, "total": 5}]


def test_a_topic_that_takes_less_than_its_connection_is_refused_before_the_run(kafka: Kafka, tmp_path: Path) -> None:
    dead = topic_of(kafka, "step-dead-narrow", largest=100_000)
    step = Step(kafka, tmp_path, TOTAL + AMOUNTS["json"], trigger="type: count, count: 11, timeout: 1 hour", dead=dead)
    write(kafka, step.input, [Message(b"x" * 300_000, b"k"), Message(b'{"n": 5}', b"k")])
    with pytest.raises(ConfigError, match=r"step-dead-narrow' takes messages of 100,000 bytes.*max\.request\.size"):
        step.run()
    (tmp_path / "narrow.conf").write_text("connections.main.max.request.size: 100000", encoding="utf-8")
    run(built(step.path, tmp_path / "narrow.conf"), step.checkpoint)
    (letter,) = kafka.records(step.dead)
    assert letter.value is not None
    assert dict(letter.headers)["windbolt-size"] == b"300000"
    assert step.results == [{"key": "k", "events": 1, "total": 5}]


ELSEWHERE = """
from topologies.step import Out


def aggregate(events, call):
    return Out({"key": call.key}, key=call.key, topic=events[0].value.get("topic"))
"""


@pytest.mark.feature("UH-25", "UH-31")
def test_a_result_for_a_topic_that_is_not_there_is_a_dead_letter(kafka: Kafka, tmp_path: Path) -> None:
    step = Step(kafka, tmp_path, ELSEWHERE, trigger="type: count, count: 1, timeout: 1 hour")
    write(kafka, step.input, [Message(b'{"topic": "nowhere-at-all"}', b"a"), Message(b"{}", b"b")])
    step.run()
    assert [row["key"] for row in step.results] == ["b"]
    (letter,) = kafka.records(step.dead)
    assert letter.value is not None
    told = dict(letter.headers)
    assert told["windbolt-reason"] == b"there is no such topic"
    assert (letter.key, json.loads(letter.value)) == (b"a", {"key": "a"})


# --- rules that misbehave ---------------------------------------------------------------------------------------


MISBEHAVING = """
import sys


def misbehave(how, well):
    if how == "raise":
        raise ValueError("two\\nlines: \\ud800")  # raise
    if how == "loop":
        while True: pass  # loop
    if how == "exit":
        sys.exit(3)  # exit
    if how == "recurse":
        return misbehave(how, well)  # recurse
    return {1, 2} if how == "nonsense" else well


def key(event):  # nonsense or cache from key
    return misbehave(event.value.get("key"), event.value["user"])


def trigger(event, call):  # cache from trigger
    call.cache["last"] = {1, 2} if event.value.get("trigger") == "cache" else 1
    return misbehave(event.value.get("trigger"), "continue")


def aggregate(events, call):  # nonsense or cache from aggregate
    how = next((event.value["aggregate"] for event in events if "aggregate" in event.value), None)
    call.cache["last"] = {1, 2} if how == "cache" else 1
    return misbehave(how, {"key": call.key, "events": [event.value["n"] for event in events]})
"""
WAYS = ("raise", "loop", "exit", "recurse", "nonsense", "cache")
"""The last two: what it returns, or keeps, cannot be used; the line is that where the rule begins."""


@pytest.mark.feature("UH-8", "UH-16", "UH-18", "UH-31")
def test_rules_that_misbehave_cost_their_events_and_no_others(kafka: Kafka, tmp_path: Path) -> None:
    place = "source: file, path: rules.py"
    step = Step(
        kafka,
        tmp_path,
        MISBEHAVING,
        "ruleTimeLimit: 150, source.maxOffsetsPerTrigger: 30",
        key=f"type: dsl, {place}",
        trigger=f"type: dsl, {place}, timeout: 1 hour",
    )
    values: list[dict[str, Any]] = []
    doomed: dict[int, tuple[str, str]] = {}
    kept: dict[str, list[int]] = defaultdict(list)

    def say(user: str, **more: str) -> int:
        values.append({"user": user, "n": len(values), **more})
        return len(values) - 1

    for rule in ("key", "trigger", "aggregate"):
        for how in WAYS:
            user = f"{rule} {how}"
            before, at, after = say(user), say(user, **{rule: how}), say("other")
            kept["other"].append(after)
            if (rule, how) in [("trigger", "nonsense"), ("key", "cache")]:
                kept[user] += [before, at]  # other words mean fireAndPurge (UH-18); keys have no cache
            elif rule == "aggregate":
                doomed |= {before: (rule, how), at: (rule, how)}
            else:
                kept[user].append(before)
                doomed[at] = rule, how
    there = write(kafka, step.input, [Message(json.dumps(value).encode(), b"k") for value in values])
    summary = step.run(clock=lambda: EIGHT)
    assert summary.batches == 3
    assert {row["key"]: row["events"] for row in step.results} == kept
    found = letters(kafka, step.dead)
    assert set(found) == {(0, at) for at in doomed}
    for (_, at), letter in found.items():
        rule, how = doomed[at]
        assert letter.message == there[0, at]
        ends = (f"# {how}", f"# {how} from {rule}", f"# nonsense or {how} from {rule}", f"# {how} or cache from {rule}")
        line = next(number for number, text in enumerate(MISBEHAVING.splitlines(), 1) if text.endswith(ends))
        assert f"rules.py:{rule}, line {line}: " in letter.reason, (rule, how)
    accounts = accounts_of(summary)
    failed_at_once = sum(rule != "aggregate" for rule, _ in doomed.values())
    assert (accounts["received"], accounts["invalid"]) == (len(values), failed_at_once)


# --- the ready example ------------------------------------------------------------------------------------------


def shop_orders(count: int, shops: int) -> list[Message]:
    """Orders of shops, some of which are no orders."""
    dice, days = random.Random(11), Counter[str]()
    messages = []
    for number in range(count):
        shop = f"shop {int(shops * dice.random() ** 2)}"
        order = {"id": number, "shop": shop, "amount": dice.randrange(10_000) / 100}
        days[shop] += 1
        if dice.random() < 0.02:
            order["last"] = True
        if number % 1_000 == 7:
            del order["shop"]
        elif number % 1_000 == 8:
            order["amount"] = "much"
        text = json.dumps(order).encode()
        messages.append(Message(text[:-3] if number % 1_000 == 9 else text, shop.encode(), (), hash_of(shop) % 4))
    return messages


def hash_of(text: str) -> int:
    """A number for a text, the same in every process."""
    return sum(text.encode())


def shop_results(messages: Sequence[Message]) -> tuple[list[tuple[str | None, dict[str, Any]]], set[int]]:
    """What the example makes of orders, with the name of the schema; and the places of those that fail."""
    failed: set[int] = set()
    waiting: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    results: list[tuple[str | None, dict[str, Any]]] = []

    def fire(shop: str) -> None:
        taken = waiting.pop(shop)
        if any(isinstance(order["amount"], str) for _, order in taken):
            failed.update(at for at, _ in taken)
            return
        total = round(sum(order["amount"] for _, order in taken), 2)
        row = {"shop": shop, "orders": len(taken), "total": total}
        last = taken[-1][1]
        results.append(("DayClosed", {**row, "lastOrder": last["id"]}) if last.get("last") else (None, row))

    for at, message in enumerate(messages):
        try:
            order = json.loads(message.value or b"")
            shop = order["shop"]
        except (ValueError, KeyError):
            failed.add(at)
            continue
        waiting[shop].append((at, order))
        if order.get("last") or len(waiting[shop]) == 100:
            fire(shop)
    for shop in list(waiting):
        fire(shop)
    return results, failed


def schema_of(record: Record) -> str | None:
    """The name of the schema that a record's headers give."""
    return next(((value or b"").decode() for name, value in record.headers if name == "schemaName"), None)


@pytest.mark.feature("UH-1", "UH-3", "UH-4", "UH-8", "UH-16", "UH-24", "UH-31")
def test_the_ready_example_does_what_plain_python_does(kafka: Kafka, tmp_path: Path) -> None:
    source, output, dead = kafka.topic("input", 4), emptied(kafka, "output"), emptied(kafka, "deadletter")
    around = tmp_path / "around.conf"
    around.write_text(
        f'source.topics: ["{source}"], source.maxOffsetsPerTrigger: 9000\n'
        f'connections.output.bootstrap.servers: "{kafka.servers}"',
        encoding="utf-8",
    )
    messages = shop_orders(20_000, 500)
    there = write(kafka, source, messages)
    topology = built(READY / "aggregation.conf", READY / "local.conf", around)
    summary = run(topology, tmp_path / "checkpoint", clock=lambda: EIGHT)
    assert summary.batches == 4
    results, failed = shop_results(messages)
    assert len(results) > 600
    assert {schema for schema, _ in results} == {None, "DayClosed"}
    assert max(row["orders"] for _, row in results) == 100
    files = (READY / "path/to/default/avro/schema", READY / "schemas/day_closed.avsc")
    read = AvroMessages(tuple(AvroSchema.parse(file.read_text("utf-8"), not at) for at, file in enumerate(files)))
    found = kafka.records(output)
    rows = []
    for record in found:
        schema = schema_of(record)
        row = read.read(record.value, {} if schema is None else {"schemaName": schema.encode()})
        assert record.key == row["shop"].encode()
        rows.append((schema, row))

    def in_order(each: tuple[str | None, dict[str, Any]]) -> str:
        return json.dumps(each, sort_keys=True)

    assert sorted(rows, key=in_order) == sorted(results, key=in_order)
    places = {id(message): place for place, message in there.items()}
    lost = {places[id(messages[at])]: messages[at] for at in failed}
    assert len(lost) > 60
    assert letters(kafka, dead) == expected_letters(source, lost)
    accounts = accounts_of(summary)
    assert (accounts["received"], accounts["invalid"]) == (20_000, 40)


# --- runs that die ----------------------------------------------------------------------------------------------


COUNTED = """
def key(event):
    return event.value["user"]


def aggregate(events, call):
    call.cache["calls"] = call.cache.get("calls", 0) + 1
    numbers = [event.value["n"] for event in events]
    return {"key": call.key, "numbers": numbers, "ms": call.window_ms, "calls": call.cache["calls"]}
"""
PER_BATCH, PEOPLE = 40, 9
MOMENTS = [EIGHT + second * SECOND for second in (0, 20, 25, 90)]
BATCHES = len(MOMENTS)


@pytest.fixture(scope="module")
def events(kafka: Kafka) -> tuple[str, list[dict[str, Any]]]:
    """A topic of events, and what it holds; every tenth is none."""
    topic, dice = kafka.topic("events"), random.Random(3)
    rows: list[dict[str, Any]] = [
        {"user": f"u{dice.randrange(PEOPLE)}", "n": number} for number in range(PER_BATCH * BATCHES)
    ]
    write(kafka, topic, [Message(json.dumps(row).encode()[: -(row["n"] % 10 == 0) or None]) for row in rows])
    return topic, rows


def counted(kafka: Kafka, folder: Path, events: tuple[str, Any], *more: str) -> Step:
    """A step with timeouts between batches, and a cache."""
    return Step(
        kafka,
        folder,
        COUNTED,
        f"source.maxOffsetsPerTrigger: {PER_BATCH}",
        *more,
        input=events[0],
        key="type: dsl, source: file, path: rules.py",
        trigger="type: count, count: 4, timeout: 30 s",
    )


def simulated(rows: Sequence[Mapping[str, Any]], lost_before: int | None = None) -> list[dict[str, Any]]:
    """What the step makes of events; ``lost_before``: a batch before which the cache is lost."""
    waiting: dict[str, tuple[int, list[int]]] = {}
    calls: Counter[str] = Counter()
    results: list[dict[str, Any]] = []

    def fire(user: str, now: int) -> None:
        first, numbers = waiting.pop(user)
        calls[user] += 1
        results.append({"key": user, "numbers": numbers, "ms": (now - first) // 1_000, "calls": calls[user]})

    for batch, now in enumerate(MOMENTS):
        if batch == lost_before:
            calls.clear()
        for user, (first, _) in list(waiting.items()):
            if first + 30 * SECOND <= now:
                fire(user, first + 30 * SECOND)
        for row in rows[batch * PER_BATCH : (batch + 1) * PER_BATCH]:
            if row["n"] % 10:
                waiting.setdefault(row["user"], (now, []))[1].append(row["n"])
                if len(waiting[row["user"]][1]) == 4:
                    fire(row["user"], now)
    for user, (first, _) in list(waiting.items()):
        fire(user, first + 30 * SECOND)
    return sorted(results, key=lambda row: row["numbers"])


def in_order(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Results, by the events that they are of."""
    return sorted(as_json(records), key=lambda row: row["numbers"])


Written = dict[str, bytes | None]


def written(step: Step) -> Written:
    """Values by id, without repeats; how many batches there were before the closing tick does not count."""
    return {
        f"{name}/{'closing' if int(tick) % 2 else tick}/{number}": record.value
        for record in once(step.kafka.records(step.output, step.dead))
        for name, tick, number in [record.id.rsplit("/", 2)]
    }


@pytest.fixture(scope="module")
def undisturbed(
    spark: SparkSession, kafka: Kafka, events: tuple[str, list[dict[str, Any]]], tmp_path_factory: Any
) -> Written:
    """What comes out where nothing happens."""
    step = counted(kafka, tmp_path_factory.mktemp("undisturbed"), events, "stateFull: true")
    summary = step.run(clock=BatchClock(step.checkpoint, MOMENTS))
    assert summary.batches == BATCHES + 1
    found = written(step)
    assert len(found) == len(kafka.records(step.output, step.dead))
    assert in_order(kafka.records(step.output)) == simulated(events[1])
    bad = {(0, row["n"]) for row in events[1] if row["n"] % 10 == 0}
    assert set(letters(kafka, step.dead)) == bad
    accounts = accounts_of(summary)
    assert (accounts["received"], accounts["invalid"]) == (len(events[1]), len(bad))
    return found


def test_timeouts_fire_between_batches(events: tuple[str, list[dict[str, Any]]], undisturbed: Written) -> None:
    results = simulated(events[1])
    assert {row["ms"] for row in results} == {0, 5_000, 20_000, 25_000, 30_000}
    assert sum(row["ms"] == 30_000 for row in results[: -PEOPLE - 1]) > 2


def repeats(step: Step) -> Iterator[int]:
    """The steps of the engine whose records are there more than once; what is there twice is the same."""
    found = step.kafka.records(step.output, step.dead)
    assert len(once(found)) < len(found)
    for each, times in Counter(record.id for record in found).items():
        if times > 1:
            yield int(each.split("/")[-2])


@pytest.mark.feature("UH-30", "UH-31")
def test_a_step_that_dies_anywhere_loses_nothing_and_keeps_its_cache(
    kafka: Kafka, events: tuple[str, Any], undisturbed: Written, tmp_path: Path
) -> None:
    step = counted(kafka, tmp_path, events, "stateFull: true")
    clock = BatchClock(step.checkpoint, MOMENTS)
    for batch, phase in [(0, "sinks"), (1, "fire"), (1, "commit"), (2, "committed"), (3, "commit")]:
        step.run_until(batch, phase, clock=clock)
    step.run(clock=clock)
    assert written(step) == undisturbed
    assert set(repeats(step)) == {2 * 1, 2 * 3}


@pytest.mark.extended
@pytest.mark.feature("UH-31")
def test_a_step_that_is_killed_goes_on(
    kafka: Kafka, events: tuple[str, Any], undisturbed: Written, tmp_path: Path
) -> None:
    step = counted(kafka, tmp_path, events, "stateFull: true")
    script = ["-m", "tests.spark.kafka.dying_step_on_kafka", str(step.path), str(step.checkpoint), *map(str, MOMENTS)]
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    surroundings = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, *script], cwd=ROOT, env=surroundings, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    step.run(clock=BatchClock(step.checkpoint, MOMENTS))
    assert written(step) == undisturbed
    assert set(repeats(step)) == {2 * 1}


@pytest.mark.feature("UH-30")
def test_a_cache_that_is_not_kept_is_lost_when_a_run_dies(
    kafka: Kafka, events: tuple[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    step = counted(kafka, tmp_path, events, "stateFull: false")
    clock = BatchClock(step.checkpoint, MOMENTS)
    step.run_until(2, "sinks", clock=clock)
    step.run(clock=clock)
    found = in_order(kafka.records(step.output))
    # Batch 2 comes again as it was planned, with the cache of the run that died: its repeats are what they were.
    assert found == simulated(events[1], lost_before=3)
    assert found != simulated(events[1])


# --- time -------------------------------------------------------------------------------------------------------


def test_a_timeout_fires_on_a_quiet_stream(kafka: Kafka, tmp_path: Path) -> None:
    rules = TOTAL + AMOUNTS["json"]
    step = Step(kafka, tmp_path, rules, trigger="type: count, count: 100, timeout: 1500")
    write(kafka, step.input, [Message(b'{"n": 4}', b"k"), Message(b'{"n": 5}', b"k")])
    reports: list[BatchReport] = []
    stop = threading.Event()

    def note(report: BatchReport) -> None:
        reports.append(report)
        if report.bolts["aggregate"].fired:
            stop.set()

    late = threading.Timer(30, stop.set)
    late.start()
    step.run(on_report=note, every=millis(250), stop=stop)
    late.cancel()
    with_events = [report for report in reports if report.rows]
    assert (with_events, reports[-1].bolts["aggregate"].windows) == (reports[:1], 1)
    assert len(reports) > 1
    assert 1_500 * 1_000 <= reports[-1].clock - reports[0].clock < 20_000_000
    assert step.results == [{"key": "k", "events": 2, "total": 9}]


@pytest.mark.feature("UH-20", "UH-21")
def test_a_daily_time_fires_when_the_clock_has_come_to_it(kafka: Kafka, tmp_path: Path) -> None:
    trigger = 'type: time, time: "11:05:00+03:00", timePattern: "HH:mm:ssXXX"'
    rules, more = TOTAL + AMOUNTS["json"], "source.maxOffsetsPerTrigger: 2"
    step = Step(kafka, tmp_path, rules, more, trigger=trigger)
    due = EIGHT + 5 * 60 * SECOND
    moments = [EIGHT, due - 1, due, due + 1, due + 86_400 * SECOND]
    write(kafka, step.input, [Message(f'{{"n": {2**number}}}'.encode(), b"k") for number in range(10)])
    summary = step.run(clock=BatchClock(step.checkpoint, moments), keep_open=True)
    assert step.results == [{"key": "k", "events": 4, "total": 15}, {"key": "k", "events": 4, "total": 240}]
    assert accounts_of(summary)["pending"] == 2
