"""The aggregation step on Kafka, beside a query of Spark's that adds up the same.

A broker of its own (``servers/broker.py``) has the orders before the clock starts. A run over a few of them comes
first. After each run the output is read back: the orders and the totals of every shop must be right, and every order
that was cut short must be a dead letter. CPU time is that of the driver, its JVM and the Python workers.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.arms.arm import Taken
from benchmarks.arms.stepping import SparkStep, Topics, WindboltStep
from benchmarks.contest import fail, say, scratch
from benchmarks.figures import Figure, Verdict
from benchmarks.machine import children, cpu_seconds, own_seconds
from benchmarks.orders import Orders, make_topics
from benchmarks.sections.bench import MAIN, Bench
from servers.broker import broker

KEYS, WARMING = 10_000, 20_000
GOAL = 15.0
"""CPU-microseconds per event."""


def step(bench: Bench) -> None:
    """Both in turn."""
    sizes = bench.sizes
    warming, all_orders = Orders(WARMING, KEYS // 10), Orders(sizes.step, KEYS)
    few_orders = Orders(min(sizes.step, sizes.step_slow), KEYS)
    arms: dict[str, WindboltStep | SparkStep] = {MAIN: WindboltStep(), bench.spark.name: SparkStep()}
    title = f"JSON orders of {KEYS:,} shops, added up by key with a timeout"
    orders = {name: all_orders if name == MAIN else few_orders for name in arms}
    figures = {
        name: Figure("step", "step", title, name, name == MAIN, orders[name].events, sizes.step_batch, "whole run")
        for name in arms
    }
    before = set(children(os.getpid()))
    with broker() as servers:
        (broker_pid,) = set(children(os.getpid())) - before
        warming.write(servers, "warming")
        all_orders.write(servers, "orders")
        few_orders.write(servers, "few-orders")
        for run in range(-1, sizes.runs):
            for name, figure in figures.items():
                given, source = orders[name], "orders" if name == MAIN else "few-orders"
                if run < 0:
                    given, source = warming, "warming"
                if figure.status == "ok":
                    say(f"step {name}: " + ("warming up" if run < 0 else f"run {run + 1} of {sizes.runs}"))
                    label = f"{run}-{'windbolt' if name == MAIN else 'spark'}"
                    topics = Topics(servers, source, f"output-{label}", f"dead-{label}", sizes.step_batch)
                    try:
                        _run(bench, arms[name], given, topics, figure, broker_pid, timed=run >= 0)
                    except Exception as error:
                        fail(figure, error)
    bench.add(list(figures.values()))
    text = f"at most {GOAL:g} CPU-µs an event"
    bench.results.verdicts.append(Verdict("step", "step", text, GOAL, figures[MAIN].cpu, at_most=True))


def _run(
    bench: Bench,
    arm: WindboltStep | SparkStep,
    orders: Orders,
    topics: Topics,
    figure: Figure,
    broker_pid: int,
    *,
    timed: bool,
) -> None:
    """Run an arm, check what it wrote, and note what it took."""
    make_topics(topics.servers, topics.output, topics.dead)
    spark = bench.session.settle()
    with scratch(bench.data) as folder:
        before, started = cpu_by_process(broker_pid), time.perf_counter()
        arm.run(spark, topics, folder)
        seconds, after = time.perf_counter() - started, cpu_by_process(broker_pid)
    wrong = orders.wrong(topics.servers, topics.output, topics.dead, arm.read)
    if wrong is not None:
        figure.status, figure.reason, figure.runs = "wrong", f"wrong, and not timed: {wrong}", []
        say(f"step {figure.arm}: {figure.reason}")
    elif timed:
        spent = {name: after[name] - before[name] for name in before}
        figure.runs.append(Taken(seconds, sum(spent.values())).to_json())
        runs = figure.note.setdefault("cpu_microseconds_by_process", {})
        for name, each in spent.items():
            runs.setdefault(name, []).append(round(each / orders.events * 1e6, 2))


def cpu_by_process(broker_pid: int) -> dict[str, float]:
    """CPU seconds so far of the driver, its JVM and the Python workers; not of the broker."""
    mine = [pid for pid in children(os.getpid()) if pid != broker_pid]
    java = [pid for pid in mine if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    python = [pid for each in java for pid in children(each)] + [pid for pid in mine if pid not in java]
    return {
        "driver": own_seconds(os.getpid()),
        "JVM": sum(own_seconds(pid) for pid in java),
        "workers": sum(cpu_seconds(pid) for pid in python),
    }
