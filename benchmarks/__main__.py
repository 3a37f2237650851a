"""One command for all figures: Compares windbolt with Spark's own windows and other peers; results are checked before
measurements.

    ./run benchmark --quick                      about three minutes: some sections and workloads, less data, one run
    ./run benchmark                              everything, many hours
    ./run benchmark --only batches,local         parts of it
    ./run benchmark --quick --only kafka,cluster parts that --quick leaves out, with less data
    ./run benchmark --show benchmark-results/results.json

Events are seeded. Before an arm is timed, each of its windows is compared with NumPy's result, and queries with
DuckDB's; that run is also the warm-up. Arms take turns, run by run. CPU time covers the whole process tree: driver, JVM
and Python workers. A peer that is not installed is listed as missing. Exit status 1: an arm was wrong, or failed. Linux
only.

Sections:
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import CORES, Bench, Session, driver_gigabytes, say
from benchmarks.figures import Results, draw, machine, tables
from benchmarks.sections import checkpoints, core, latency, long, step, throughput
from servers.processes import cpu_seconds


@dataclass(frozen=True)
class Section:
    """A part of the benchmark."""

    run: Callable[[Bench], None]
    about: str
    questions: str = ""
    """Names of its questions, if there are several; ``--workloads`` selects among them."""


# Sections in this process come first: later ones would count what Spark's sections leave in it.
SECTIONS = {
    "core": Section(core.core, "the window manager alone, beside Storm's"),
    "policies": Section(core.policies, "policies of one's own, event by event and on arrays"),
    "stateful": Section(core.stateful, "bolts that keep a sum, with and without windows"),
    "driver": Section(checkpoints.driver, "the driver's work beside its tasks", "16x100 128x1000"),
    "requests": Section(checkpoints.requests, "requests to an object store in a batch", "2x10 16x100"),
    "steady": Section(long.steady, "memory over a long run, and of much state", " ".join(p.name for p in long.PLAYS)),
    "batches": Section(throughput.batches, "500,000 events a micro-batch", "W1 W2 W3 W4"),
    "drain": Section(throughput.drain, "a backlog, each system at its best batch size", "W1 W2 W3 W4"),
    "keys": Section(throughput.keys, "100,000 keys", "W2 W3"),
    "frames": Section(throughput.frames, "input through a DataFrame", "W1 W2"),
    "frames-drain": Section(throughput.frames_drain, "a backlog of it", "W1 W2"),
    "queries": Section(throughput.queries, "sessions, joins, bolts of one's own over wide rows, chains",
                       "sessions highest joined hottest"),
    "growth": Section(throughput.growth, "speed and memory by live events and by overlap", "W2 W4"),
    "rules": Section(throughput.rules, "the rules of time, beside Storm's"),
    "limits": Section(throughput.limits, "what a micro-batch costs before any window"),
    "latency": Section(latency.latency, "small batches, from file to file"),
    "kafka": Section(latency.kafka, "from topic to topic, beside a broker of its own"),
    "step": Section(step.step, "the aggregation step on Kafka"),
    "local": Section(throughput.local, "the in-process runner beside NumPy and DuckDB", "W1 W2 W3 W4"),
    "watched": Section(long.watched, "what it costs that a run is watched"),
    "cluster": Section(throughput.cluster, "as batches, on a standalone cluster of two workers", "W1 W2 W3 W4"),
}  # fmt: skip
QUICK_SECTIONS = ("batches", "drain", "latency", "local")
QUICK_WORKLOADS = ("W1", "W2", "W4")
"""Questions that --quick measures, unless the user names others."""


def main() -> int:
    """Measures the figures, and prints them."""
    options = parsed()
    if options.show:
        results = Results.of_json(json.loads(options.show.read_text(encoding="utf-8")))
        return show(results, options.out or options.show.parent)
    out = options.out or Path("benchmark-results")
    out.mkdir(parents=True, exist_ok=True)
    data = (options.data or Path(tempfile.mkdtemp(prefix="windbolt-benchmark-"))).absolute()
    data.mkdir(parents=True, exist_ok=True)
    about = {
        "quick": options.quick, "sections": options.only, "left_out": left_out(options),
        "sizes": {"runs": options.runs, "part": options.part},
        "spark": {"master": f"local[{CORES}]", "driver_memory_gb": driver_gigabytes()}, "machine": machine(),
    }  # fmt: skip
    results = Results(about)
    # A JVM accepts Kafka's connector only when it starts, so all sections have it if one needs it.
    session = Session(kafka=bool({"kafka", "step"} & set(options.only)))
    taking_part = re.compile(options.arms).search
    bench = Bench(data, results, session, options.runs, options.part, options.quick, options.workloads, taking_part)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the processes of a section too
    if left_out(options):
        say(f"left out: {', '.join(left_out(options))} (--only and --workloads ask for them)")
    try:
        for name in options.only:
            say(f"section {name}")
            cpu, started = cpu_seconds(), time.monotonic()
            try:
                SECTIONS[name].run(bench)
            finally:
                write(results, out)  # results so far, in case the rest fails
            say(f"section {name}: {time.monotonic() - started:.0f} s, {cpu_seconds() - cpu:.0f} s of CPU time")
    finally:
        session.stop()
        if options.data is None:
            shutil.rmtree(data, ignore_errors=True)
    return show(results, out)


def show(results: Results, out: Path) -> int:
    """Prints the tables and writes the files."""
    out.mkdir(parents=True, exist_ok=True)
    print(tables(results))
    write(results, out)
    drawn = draw(results, out / "results.png")
    say(f"written: {out / 'results.json'}" + (f", {out / 'results.png'}" if drawn else ", and no picture"))
    return int(any(figure.status in ("wrong", "failed") for figure in results.figures))


def write(results: Results, out: Path) -> None:
    """Writes all figures as JSON."""
    (out / "results.json").write_text(json.dumps(results.to_json(), indent=1) + "\n", encoding="utf-8")


def left_out(options: argparse.Namespace) -> list[str]:
    """Returns the sections and workloads that are not measured."""
    asked = {name for section in options.only for name in SECTIONS[section].questions.split()}
    named = [name for name in sorted(asked) if options.workloads and name not in options.workloads]
    return [name for name in SECTIONS if name not in options.only] + named


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Returns the options of the command line."""
    about = [f"    {name:12} {each.about}" + (f": {each.questions}" if each.questions else "")
             for name, each in SECTIONS.items()]  # fmt: skip
    parser = argparse.ArgumentParser(
        prog="benchmarks", description=f"{__doc__}\n" + "\n".join(about),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    quick = f"less data, one run, the main arms; {', '.join(QUICK_SECTIONS)} of {', '.join(QUICK_WORKLOADS)}"
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--only", help="sections, with commas in between; all, or four with --quick")
    parser.add_argument(
        "--workloads", help="of the sections that have several, with commas in between; requests and driver take others"
        " of their form, too: 64x100 is 64 tasks and 100 pieces of input",
    )  # fmt: skip
    parser.add_argument("--arms", default="", help="those whose name a regular expression finds")
    parser.add_argument("--data", type=Path, help="keep the files of events here, for the next time")
    parser.add_argument("--out", type=Path, help="folder of results.json and results.png; benchmark-results")
    parser.add_argument("--show", type=Path, metavar="FILE", help="measure nothing, show the results of this file")
    parser.add_argument("--runs", type=int, help="of each arm; 3, or 1 with --quick")
    parser.add_argument("--part", type=float, help="of the events, the batches, the minutes of each section; 1, or 0.2"
                        " with --quick, and a million events at most")  # fmt: skip
    options = parser.parse_args(arguments)
    options.runs = options.runs or (1 if options.quick else 3)
    options.part = options.part or (0.2 if options.quick else 1.0)
    usual = QUICK_WORKLOADS if options.quick and not options.only else ()
    options.workloads = _names(options.workloads) or list(usual)
    options.only = _names(options.only) or list(QUICK_SECTIONS if options.quick else SECTIONS)
    if not SECTIONS.keys() >= set(options.only):
        parser.error(f"--only: there are {', '.join(SECTIONS)}")
    known = {name: None for each in SECTIONS.values() for name in each.questions.split()}
    if any(name not in known and not checkpoints.SIZE.fullmatch(name) for name in options.workloads):
        parser.error(f"--workloads: there are {', '.join(known)}")
    return options


def _names(text: str | None) -> list[str]:
    return text.split(",") if text else []


if __name__ == "__main__":
    sys.exit(main())
