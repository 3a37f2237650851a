"""One command for all figures: windbolt beside Spark's own windows and other peers, checked before it is timed.

    ./run benchmark --quick                      about three minutes: some sections and workloads, less data, one run
    ./run benchmark                              everything, some hours
    ./run benchmark --only batches,local         parts of it
    ./run benchmark --quick --only kafka,cluster parts that --quick leaves out, with less data
    ./run benchmark --show benchmark-results/results.json

Sections: batches (500,000 events a micro-batch), drain (a backlog, each system at its best batch size), keys (100,000
keys), frames (input through a DataFrame), queries (sessions, joins, bolts of one's own over wide rows, chains), growth
(speed and memory by live events and by overlap), latency (small batches), kafka (from topic to topic, beside a broker
of its own), step (the aggregation step on Kafka), local (the in-process runner beside NumPy and DuckDB), cluster
(as batches, on a standalone cluster of two workers on this machine). With --quick they are batches, drain, latency and
local, unless --only names others, the workloads W1, W2 and W4, unless --workloads does, and the arms windbolt and
Spark's own.

Events are seeded. Before an arm is timed each window of it is compared with NumPy, of the queries with DuckDB; that run
warms up as well. Arms take turns, run by run. CPU time is that of the whole tree of processes: driver, JVM and Python
workers. A peer that is not installed is in the table as missing. Exit status 1: an arm was wrong, or broke down. Linux
only.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.contest import say
from benchmarks.figures import Results, draw, tables
from benchmarks.machine import cpu_seconds, machine
from benchmarks.sections.bench import Bench, batches, cluster, drain, frames, growth, keys, local, queries
from benchmarks.sections.kafka import kafka
from benchmarks.sections.latency import latency
from benchmarks.sections.step import step
from benchmarks.session import CORES, Session, driver_gigabytes
from benchmarks.workloads import FULL, QUICK, WORKLOADS, Sizes

SECTIONS: dict[str, Callable[[Bench], None]] = {
    "batches": batches, "drain": drain, "keys": keys, "frames": frames,
    "queries": queries, "growth": growth, "latency": latency, "kafka": kafka, "step": step, "local": local,
    "cluster": cluster,
}  # fmt: skip

QUICK_SECTIONS = ("batches", "drain", "latency", "local")
QUICK_WORKLOADS = ("W1", "W2", "W4")
"""Workloads that --quick measures unless others are named."""
HEADLINE = ("batches", "drain")
"""Sections that the small picture shows."""


def main() -> int:
    """Take the figures, and show them."""
    options = parsed()
    if options.show:
        results = Results.of_json(json.loads(options.show.read_text(encoding="utf-8")))
        out = options.out or options.show.parent
        out.mkdir(parents=True, exist_ok=True)
        return show(results, out)
    out = options.out or Path("benchmark-results")
    out.mkdir(parents=True, exist_ok=True)
    data = (options.data or Path(tempfile.mkdtemp(prefix="windbolt-benchmark-"))).absolute()
    data.mkdir(parents=True, exist_ok=True)
    sizes = sizes_of(options)
    about = {
        "quick": options.quick, "sections": options.only, "left_out": left_out(options), "sizes": asdict(sizes),
        "spark": {"master": f"local[{CORES}]", "driver_memory_gb": driver_gigabytes()}, "machine": machine(),
    }  # fmt: skip
    results = Results(about)
    # A JVM takes Kafka's connector only when it starts, so all sections have it if one needs it.
    session = Session(kafka=bool({"kafka", "step"} & set(options.only)))
    bench = Bench(data, sizes, results, options.workloads, session)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # processes of a section end with it
    if left_out(options):
        say(f"left out: {', '.join(left_out(options))} (--only and --workloads ask for them)")
    try:
        for name in options.only:
            say(f"section {name}")
            cpu, started = cpu_seconds(), time.monotonic()
            try:
                SECTIONS[name](bench)
            finally:
                write(results, out)  # what is there so far, should it break down, or be ended
            say(f"section {name}: {time.monotonic() - started:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU time")
    finally:
        bench.session.stop()
        if options.data is None:
            shutil.rmtree(data, ignore_errors=True)
    return show(results, out)


def show(results: Results, out: Path) -> int:
    """Print the tables, write the files."""
    print(tables(results))
    write(results, out)
    drawn = draw(results, out / "results.png")
    draw(results, out / "headline.png", HEADLINE)
    say(f"written: {out / 'results.json'}" + (f", {out / 'results.png'}" if drawn else ", and no picture"))
    return int(any(figure.status in ("wrong", "failed") for figure in results.figures))


def write(results: Results, out: Path) -> None:
    """All figures, as JSON."""
    (out / "results.json").write_text(json.dumps(results.to_json(), indent=1) + "\n", encoding="utf-8")


def left_out(options: argparse.Namespace) -> list[str]:
    """The sections and workloads that are not measured."""
    sections = [name for name in SECTIONS if name not in options.only]
    return sections + [workload.name for workload in WORKLOADS if workload not in options.workloads]


def sizes_of(options: argparse.Namespace) -> Sizes:
    """As they were asked for."""
    given = {"runs": options.runs, "events": options.events, "drain": options.drain_events,
             "growth": options.growth_events}  # fmt: skip
    asked = {name: value for name, value in given.items() if value is not None}
    return replace(QUICK if options.quick else FULL, **asked)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--quick", action="store_true",
        help=f"less data, one run, the main arms; {', '.join(QUICK_SECTIONS)} of {', '.join(QUICK_WORKLOADS)}",
    )  # fmt: skip
    parser.add_argument("--only", help="sections, with commas in between; all, or four with --quick")
    parser.add_argument("--workloads", help="of all sections, with commas in between; all, or three with --quick")
    parser.add_argument("--runs", type=int, help="of each arm; 3, or 1 with --quick")
    parser.add_argument("--events", type=int, help="of batches; 5,000,000, or 1,000,000 with --quick")
    parser.add_argument("--drain-events", type=int, help="50,000,000, or 1,000,000 with --quick")
    parser.add_argument("--growth-events", type=int, help="30,000,000, or 1,000,000 with --quick")
    parser.add_argument("--data", type=Path, help="keep the files of events here, for the next time")
    parser.add_argument(
        "--out", type=Path, help="folder of results.json, results.png and headline.png; benchmark-results"
    )
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing, show the results of this file")
    options = parser.parse_args(arguments)
    options.only = options.only.split(",") if options.only else list(QUICK_SECTIONS if options.quick else SECTIONS)
    if not SECTIONS.keys() >= set(options.only):
        parser.error(f"--only: there are {', '.join(SECTIONS)}")
    known = {workload.name: workload for workload in WORKLOADS}
    names = options.workloads.split(",") if options.workloads else QUICK_WORKLOADS if options.quick else known
    if not known.keys() >= set(names):
        parser.error(f"--workloads: there are {', '.join(known)}")
    options.workloads = [known[name] for name in names]
    return options


if __name__ == "__main__":
    sys.exit(main())
