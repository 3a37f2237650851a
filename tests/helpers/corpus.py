"""Checkpoints that are kept, of each format that there has been: later versions continue from them, or refuse them.

python -m tests.helpers.corpus     # makes the entries that the present format lacks

An entry is a zip of the input (``in/``: what was read, ``more/``: what comes then), a savepoint after a part of the
input (``ck/``), and the rows of a run without interruption (``rows.json``). Entries are never made anew: that they are
old is what they are for.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from manager.storage.sealed_files import FORMAT
from tests.helpers.places import TESTS
from tests.simulation.world.bolts import COLUMNS, Ids, Plain, by_amount, sums
from tests.simulation.world.policies import Enough, Near
from tests.simulation.world.steps import step_made
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoint import take_savepoint
from topologies.graph.graph import Graph
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import TemporalJoin, WindowedBolt, presets, seconds
from windowing.daytimes import DayTime
from windowing.settings.kinds import Session, Snapshot
from windowing.settings.panes import Panes, after_count
from windowing.settings.triggers import DailyTrigger, RuleTrigger

CORPUS = TESTS / "corpus"
FILES, BEFORE = 9, 5
"""The files of the input, and how many of them the checkpoint has seen."""
PLACE = "/corpus"
"""Where the input of an entry is said to be."""


def _timed(bolt: WindowedBolt) -> WindowedBolt:
    return bolt.with_timestamp_field("ts").with_lag("1s").with_late_tuple_stream("late")


KINDS: dict[str, Callable[[], WindowedBolt]] = {
    "queue": lambda: _timed(Plain().with_window("8s", "3s")),
    "counts": lambda: _timed(Plain().with_window(5, 3)),
    "stateful": lambda: _timed(Ids().with_tumbling_window("4s")),
    "sums": lambda: _timed(sums().with_window("8s", "4s")),
    "sessions": lambda: _timed(Ids().with_window(Session("3s"))).with_key("user"),
    "keys": lambda: _timed(Ids().with_tumbling_window("4s")).with_key("user").with_watermark(per_key=True),
    "empty": lambda: _timed(Plain().with_tumbling_window("2s")).with_key("user").with_empty_windows(until="8s"),
    "panes": lambda: _timed(Plain().with_tumbling_window("9s"))
    .with_key("user")
    .with_trigger(Panes(early=after_count(2), mode="retracting")),
    "lifetimes": lambda: Plain()
    .with_time(presets.streaminsight(2, "2s"))
    .with_window(Snapshot())
    .with_timestamp_field("ts")
    .with_lifetime("until"),
    "trigger": lambda: Ids()
    .with_key("user")
    .with_trigger(RuleTrigger(by_amount, seconds(20)), max_events=6, refused_stream="refused"),
    "daily": lambda: Ids().with_key("user").with_trigger(DailyTrigger(DayTime(0, "Europe/Berlin"), max_empty=2)),
    "policies": lambda: _timed(Ids().with_key("user")).with_policies(
        eviction=Near(50.0, 20), trigger=Enough(100.0, 5, before=False, at_end=True)
    ),
    "join": lambda: TemporalJoin("in", "more", on="user", how="full").with_timestamp_field("ts").with_lifetime("until"),
}  # fmt: skip
"""The bolts of the entries, by the kind of state that they are for. What is here stays: entries know it."""
STEP: dict[str, Any] = {
    "trigger": {"type": "dsl", "timeout": "1h"}, "key": {"type": "dsl"}, "stateFull": True, "parallelism": 2,
    "destination": {"name": "totals", "topic": "totals", "config": {"name": "out"}},
}  # fmt: skip
NAMES = (*KINDS, "step")


def topology_of(name: str, folder: Path) -> Graph:
    """The topology of an entry, with its input and output below a folder."""
    if name == "step":
        return step_made(STEP, 1, str(folder))
    inputs = ["in", "more"] if name == "join" else ["in"]
    builder = TopologyBuilder(name)
    for each in inputs:
        builder.set_spout(each, spouts.files(str(folder / "source" / each), COLUMNS, format="jsonl", files_per_batch=1))
    declared = builder.set_bolt("b", KINDS[name](), 2)
    for each in inputs:
        declared.fields_grouping(each, "user")
    builder.set_sink("out", sinks.files(str(folder / "out/b"), format="jsonl")).from_("b")
    return builder.build()


def lines_of(name: str, number: int) -> dict[str, list[str]]:
    """The lines of a file of the input, by spout; some events come late, and some users pause."""
    rows = []
    for at in range(6):
        count = 6 * number + at
        time = 1_600_000_000_000 + 1_700 * count - (4_000 if count % 7 == 3 else 0)
        row = {
            "id": count, "user": "abc"[count * count % 3], "ts": time, "at": time, "until": time + 2_500,
            "amount": float(count % 5 * 30 + 1),
        }  # fmt: skip
        say = ["none", "none", "fire", "none", "purge", "branch", "decline"][count % 7]
        message = {"key": row["user"], "value": {"id": count, "user": row["user"], "say": say}}
        rows.append(json.dumps(message if name == "step" else row))
    if name == "join":
        return {"in": rows[:4], "more": rows[2:]}
    return {"": rows} if name == "step" else {"in": rows}


def write_input(name: str, folder: Path, numbers: range) -> None:
    """Write files of the input."""
    for number in numbers:
        for spout, lines in lines_of(name, number).items():
            path = folder / "source" / spout / f"{number}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
            os.utime(path, (1_600_000_000 + number,) * 2)


def go_on(name: str, folder: Path, *, keep_open: bool) -> None:
    """Run an entry's topology on its checkpoint, to the end of the input that is there."""
    start = 1_600_000_010_000_000 + (0 if keep_open else 1_000_000_000)
    clock = itertools.count(start, 1_000_000).__next__
    run_local(topology_of(name, folder), RunOptions(str(folder / "ck"), keep_open=keep_open, clock=clock))


def rows_in(folder: Path) -> list[str]:
    """The rows that an entry's topology has written, sorted, each after the folder of its sink."""
    found = (folder / "out").rglob("batch-*")
    return sorted(
        f"{path.parent.name} {line}" for path in found for line in path.read_text(encoding="utf-8").splitlines()
    )


def opened(path: Path, folder: Path) -> list[str]:
    """Put an entry into a folder, as far as its run had come; returns the rows that are to be there in the end."""
    with zipfile.ZipFile(path) as entry:
        entry.extractall(folder / "entry")
    saved = PairedCheckpoint(str(folder / "entry/ck"))
    take_savepoint(saved, str(folder / "ck"), [(PLACE, str(folder))])
    if (folder / "entry/out").is_dir():  # there was something to write
        shutil.copytree(folder / "entry/out", folder / "out")
    wanted: list[str] = json.loads((folder / "entry/rows.json").read_text(encoding="utf-8"))
    return wanted


def make(name: str, path: Path) -> None:
    """Make an entry."""
    with tempfile.TemporaryDirectory() as made:
        folder, whole = Path(made, "part"), Path(made, "whole")
        for place, numbers in ((folder, range(BEFORE)), (whole, range(BEFORE))):
            write_input(name, place, numbers)
            go_on(name, place, keep_open=True)
        take_savepoint(PairedCheckpoint(str(folder / "ck")), f"{made}/ck", [(str(folder), PLACE)])
        write_input(name, whole, range(BEFORE, FILES))
        go_on(name, whole, keep_open=False)
        Path(made, "rows.json").write_text(json.dumps(rows_in(whole), indent=0), encoding="utf-8")
        shutil.copytree(folder / "out", f"{made}/out")
        path.parent.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as entry:
            for part in ("ck", "out", "rows.json"):
                root = Path(made, part)
                for file in sorted([root, *root.rglob("*")]):
                    if file.is_file() and file.name != ".lock":
                        entry.write(file, file.relative_to(made))


def main() -> None:
    """Make what the present format lacks."""
    for name in NAMES:
        path = CORPUS / f"format-{FORMAT}" / f"{name}.zip"
        if not path.exists():
            make(name, path)
            print(f"{path.relative_to(TESTS.parent)}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
