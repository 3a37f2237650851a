"""The ready aggregation step on Kafka: JSON in, Avro out, keys and triggers by rules, timeouts, dead letters.

    python benchmarks/step.py [--events 1000000] [--keys 10000] [--quick] [--runs 1] [--json FILE]

The step is ``topologies/examples/aggregation/aggregation.conf``, as it is; a broker of its own
(``tests/helpers/broker.py``) has the orders before the clock starts, one in a thousand of them cut short. Spark
local[2], four partitions, 250,000 orders a batch. A run that warms up comes first. After each run the output is read
back: the orders and the totals of every shop must be right, and every order that was cut short must be a dead letter.
CPU time is that of the driver, its JVM and the Python workers; the broker's is beside it. Linux only.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyspark
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.process_tree import children, cpu_seconds, own_seconds
from tests.helpers.broker import broker
from tests.helpers.jars import jars
from topologies import RunOptions
from topologies.engine.batch.report import BatchReport
from topologies.io.messages import AvroMessages, AvroSchema
from topologies.spark.jvm.session import open_session
from topologies.spark.runner import run_on_spark
from topologies.step.compile import step_topology
from topologies.step.config import load_step

SEED, PARTITIONS, BAD = 7, 4, 1_000
READY = ROOT / "topologies" / "examples" / "aggregation"
SCHEMAS = (READY / "path/to/default/avro/schema", READY / "schemas/day_closed.avsc")
CONF = {"spark.sql.shuffle.partitions": "2", "spark.driver.memory": "3g"}


@dataclass
class Orders:
    """So many orders of so many shops, and what they come to."""

    events: int
    keys: int
    orders: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    cents: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    bad: int = 0

    def __iter__(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Partition, key and value of each."""
        chance = np.random.default_rng(SEED)
        shops = chance.integers(0, self.keys, self.events).tolist()
        cents = chance.integers(100, 100_000, self.events).tolist()
        lasts = (chance.random(self.events) < 0.002).tolist()
        for number, (at, cent, last) in enumerate(zip(shops, cents, lasts, strict=True)):
            shop = f"shop-{at:06d}"
            order = {"id": number, "shop": shop, "amount": cent / 100, "customer": f"customer {number * 7919 % 65_537}"}
            text = json.dumps({**order, "last": True} if last else order)
            if number % BAD == BAD - 1:
                text, self.bad = text[:-2], self.bad + 1
            else:
                self.orders[shop] += 1
                self.cents[shop] += cent
            yield at % PARTITIONS, shop.encode(), text.encode()

    def write(self, servers: str, topic: str) -> int:
        """Write them to a new topic; their bytes."""
        make(servers, topic)
        settings = {"bootstrap.servers": servers, "linger.ms": 50, "log_level": 0, "enable.idempotence": True}
        producer, size = Producer(settings), 0
        for number, (partition, key, value) in enumerate(self):
            size += len(value)
            while True:
                try:
                    producer.produce(topic, value, key, partition)
                    break
                except BufferError:
                    producer.poll(0.1)
            if number % 10_000 == 0:
                producer.poll(0)
        if producer.flush(120):
            raise SystemExit("Kafka has not taken all orders")
        return size

    def check(self, servers: str, output: str, dead: str) -> int:
        """Compare what was written with what must be; how many results there are."""
        orders: dict[str, int] = defaultdict(int)
        cents: dict[str, int] = defaultdict(int)
        ids: set[bytes | None] = set()
        read, results = AvroMessages(tuple(AvroSchema.parse(file.read_text("utf-8")) for file in SCHEMAS)), 0
        for message in messages(servers, output):
            headers = dict(message.headers() or ())
            row = read.read(message.value(), {name: value or b"" for name, value in headers.items()})
            orders[row["shop"]] += row["orders"]
            cents[row["shop"]] += round(row["total"] * 100)
            ids.add(headers["windbolt-id"])
            results += 1
        lost = sum(1 for _ in messages(servers, dead))
        if orders != self.orders or cents != self.cents or lost != self.bad or len(ids) != results:
            raise SystemExit(
                f"the results are wrong: {sum(orders.values()):,} orders of {sum(self.orders.values()):,}, "
                f"{sum(cents.values()):,} cents of {sum(self.cents.values()):,}, "
                f"{lost:,} dead letters of {self.bad:,}, {results - len(ids):,} repeats"
            )
        return results


def make(servers: str, *topics: str) -> None:
    """Make topics."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for done in admin.create_topics([NewTopic(topic, PARTITIONS, 1) for topic in topics]).values():
        done.result(30)


def messages(servers: str, topic: str) -> Iterator[Message]:
    """All that a topic holds."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark", "enable.auto.commit": False})
    for partition in range(PARTITIONS):
        first, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), 30)
        consumer.assign([TopicPartition(topic, partition, first)])
        left = end - first
        while left:
            for message in consumer.consume(min(left, 10_000), 30):
                left -= 1
                yield message
    consumer.close()


@dataclass
class Timing:
    """What a run took: seconds, and CPU seconds by who spent them."""

    seconds: float
    cpu: dict[str, float]
    reports: list[BatchReport]
    results: int = 0


def cpu_by_process(broker_pid: int) -> dict[str, float]:
    """CPU seconds so far of the driver, its JVM, the Python workers and the broker."""
    mine = [pid for pid in children(os.getpid()) if pid != broker_pid]
    java = [pid for pid in mine if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    python = [pid for each in java for pid in children(each)] + [pid for pid in mine if pid not in java]
    return {
        "driver": own_seconds(os.getpid()),
        "JVM": sum(own_seconds(pid) for pid in java),
        "workers": sum(cpu_seconds(pid) for pid in python),
        "broker": cpu_seconds(broker_pid),
    }


def run(spark: SparkSession, servers: str, broker_pid: int, source: str, label: str, per_batch: int) -> Timing:
    """One run of the step over a topic."""
    output, dead = f"output-{label}", f"deadletter-{label}"
    make(servers, output, dead)
    reports: list[BatchReport] = []
    with tempfile.TemporaryDirectory(prefix="windbolt-step-") as folder:
        around = Path(folder, "around.conf")
        around.write_text(
            f'source.topics: ["{source}"], source.maxOffsetsPerTrigger: {per_batch}\n'
            f'destination.topic: "{output}", error.topic: "{dead}"\n'
            f'connections.output.bootstrap.servers: "{servers}"\n',
            "utf-8",
        )
        topology = step_topology(load_step(READY / "aggregation.conf", overlays=[READY / "local.conf", around]))
        spark._jvm.System.gc()
        before, started = cpu_by_process(broker_pid), time.perf_counter()
        run_on_spark(topology, RunOptions(f"{folder}/checkpoint", on_report=reports.append), spark=spark)
        seconds, after = time.perf_counter() - started, cpu_by_process(broker_pid)
    return Timing(seconds, {name: after[name] - before[name] for name in before}, reports)


def phases(reports: list[BatchReport]) -> dict[str, float]:
    """Seconds by phase."""
    spent: dict[str, float] = defaultdict(float)
    for report in reports:
        for phase, seconds in report.seconds.items():
            spent[phase] += seconds
    return dict(spent)


def figures(timing: Timing, orders: Orders, size: int) -> dict[str, Any]:
    """What a run came to."""
    last = timing.reports[-1].bolts["aggregate"]
    spent = phases(timing.reports)
    total = spent.pop("total")
    return {
        "events": orders.events, "keys": orders.keys, "bytes": size, "batches": len(timing.reports),
        "windows": last.fired, "results": timing.results, "dead_letters": orders.bad,
        "seconds": round(timing.seconds, 3),
        "events_per_second": round(orders.events / timing.seconds),
        "cpu_microseconds_per_event": {
            name: round(spent_cpu / orders.events * 1e6, 2) for name, spent_cpu in timing.cpu.items()
        },
        "phase_seconds": {**{name: round(each, 3) for name, each in spent.items()},
                          "around": round(timing.seconds - total, 3)},
        "accounts": last.accounts,
    }  # fmt: skip


def show(row: dict[str, Any]) -> None:
    """The figures of a run."""
    cpu = row["cpu_microseconds_per_event"]
    ours = sum(spent for name, spent in cpu.items() if name != "broker")
    print(
        f"{row['events']:>10,} {row['keys']:>8,} {row['batches']:>8} {row['windows']:>9,} {row['seconds']:>8.1f} "
        f"{row['events_per_second']:>10,} {ours:>8.1f}"
        + "".join(f"{cpu[name]:>9.1f}" for name in ("driver", "JVM", "workers", "broker"))
    )
    print("seconds by phase: " + ", ".join(f"{name} {each:.1f}" for name, each in row["phase_seconds"].items()))


def parsed() -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, help="1,000,000 if not given")
    parser.add_argument("--keys", type=int, default=10_000)
    parser.add_argument("--quick", action="store_true", help="100,000 events")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--batch-events", type=int, default=250_000, help="orders of a micro-batch")
    parser.add_argument("--json", type=Path, help="write all figures here")
    options = parser.parse_args()
    options.events = options.events or (100_000 if options.quick else 1_000_000)
    return options


def main() -> None:
    options = parsed()
    done: list[dict[str, Any]] = []
    with broker() as servers:
        (broker_pid,) = children(os.getpid())
        warming, orders = Orders(20_000, min(options.keys, 1_000)), Orders(options.events, options.keys)
        warming.write(servers, "warming")
        size = orders.write(servers, "orders")
        spark, _ = open_session("local[2]", {**CONF, "spark.jars": ",".join(jars("connector"))})
        try:
            run(spark, servers, broker_pid, "warming", "warming", 10_000)
            warming.check(servers, "output-warming", "deadletter-warming")
            bytes_each, load = size / orders.events, os.getloadavg()[0]
            print(f"{bytes_each:.0f} bytes an event; CPU-us: CPU-microseconds per event; load {load:.1f}")
            print(
                f"{'events':>10} {'keys':>8} {'batches':>8} {'windows':>9} {'seconds':>8} {'events/s':>10} "
                f"{'CPU-us':>8}{'driver':>9}{'JVM':>9}{'workers':>9}{'(broker)':>9}",
                flush=True,
            )
            for number in range(options.runs):
                timing = run(spark, servers, broker_pid, "orders", str(number), options.batch_events)
                timing.results = orders.check(servers, f"output-{number}", f"deadletter-{number}")
                done.append(figures(timing, orders, size))
                show(done[-1])
        finally:
            spark.stop()
    if options.json:
        machine = {"cpus": os.cpu_count(), "system": platform.platform(), "load": os.getloadavg()}
        versions = {"python": platform.python_version(), "pyspark": pyspark.__version__, "pyarrow": pa.__version__}
        found = {"seed": SEED, "machine": machine, "versions": versions, "runs": done}
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
