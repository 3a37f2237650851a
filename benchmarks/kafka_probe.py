"""The client of the Kafka benchmark, in a process of its own: ``python -m benchmarks.kafka_probe TASK``, TASK as JSON.

Sends records to a topic at an even rate, whose times are those at which they are created, and reads the topic of
results at the same time. A result says how many records of a key a second of the clock had, and is the later the longer
it comes after the first moment at which it can be final: the end of its second and the lag. Writes, as JSON, the
milliseconds of every result of the counted seconds, and how many records these had and how many were counted.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import defaultdict
from typing import Any

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

TICK = 0.005
"""Records are sent this often, in seconds."""
PATIENCE = 120.0
"""Seconds to wait for the first result."""
AFTER = 10.0
"""Records keep coming for so many seconds after those that are counted, so that a watermark passes these."""


class Results:
    """The results, read by a thread of their own."""

    def __init__(self, servers: str, topic: str, lag_ms: int) -> None:
        self.lag_ms = lag_ms
        self.late_by: dict[int, list[float]] = defaultdict(list)
        """Milliseconds of each result, by the end of its second in milliseconds."""
        self.events: dict[int, int] = defaultdict(int)
        self._consumer = Consumer({"bootstrap.servers": servers, "group.id": "benchmark", "fetch.wait.max.ms": 5})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while not self._ended.is_set():
            for message in self._consumer.consume(1_000, 0.005):
                now = time.time() * 1e3
                end, events = map(int, (message.value() or b"").split())
                self.late_by[end].append(now - end - self.lag_ms)
                self.events[end] += events

    def close(self) -> None:
        """Stop reading."""
        self._ended.set()
        self._thread.join()
        self._consumer.close()


def send(task: dict[str, Any], results: Results) -> tuple[range, dict[int, int]]:
    """Send records until enough seconds were counted, from ``warm`` seconds after the first result on: the ends of
    these in milliseconds, and how many records had their time in each second."""
    settings = {"bootstrap.servers": task["servers"], "linger.ms": 0, "log_level": 0}
    producer, chance = Producer(settings), np.random.default_rng(task["seed"])
    sent: dict[int, int] = defaultdict(int)
    begun, number, counted = time.time(), 0, range(0)
    while not counted or time.time() * 1e3 < counted.stop + AFTER * 1e3:
        passed = time.time() - begun
        if not counted and results.events:
            first = (int(time.time()) + task["warm"] + 1) * 1_000
            counted = range(first, first + task["seconds"] * 1_000, 1_000)
        elif passed > PATIENCE and not counted:
            raise SystemExit(f"no result in {PATIENCE:.0f} s")
        for key in chance.integers(0, task["keys"], int(passed * task["rate"]) - number).tolist():
            now = int(time.time() * 1e3)
            producer.produce(task["input"], b"1", str(key), number % task["partitions"], timestamp=now)
            sent[now // 1_000 * 1_000 + 1_000] += 1
            number += 1
        producer.poll(0)
        time.sleep(TICK)
    if producer.flush(30):
        raise SystemExit("Kafka has not taken all records")
    return counted, sent


def main() -> None:
    """Send and read."""
    task: dict[str, Any] = json.loads(sys.argv[1])
    results = Results(task["servers"], task["output"], task["lag_ms"])
    counted, sent = send(task, results)
    results.close()
    missing = [end for end in counted if end not in results.events]
    if missing:
        raise SystemExit(f"{len(missing)} of {len(counted)} seconds have no results")
    spent = [value for end in counted for value in results.late_by[end]]
    answer = {
        "values_ms": [round(value, 1) for value in spent],
        "sent": sum(sent[end] for end in counted), "counted": sum(results.events[end] for end in counted),
    }  # fmt: skip
    print(json.dumps(answer))


if __name__ == "__main__":
    main()
