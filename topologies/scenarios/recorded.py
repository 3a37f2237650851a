"""A scenario made from real input: its rows as events, and their results as expectations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import yaml

from topologies.graph.graph import Graph, SpoutNode
from topologies.io.file_spout import FileSpout, FoundFile, chunks_of
from topologies.io.formats import FileSplit
from topologies.io.formats.event_files import reached
from topologies.io.paths import locate_file
from topologies.io.spout_columns import FileMetadata
from topologies.io.spouts import MemorySpout, files
from topologies.scenarios.replay import replay_locally
from topologies.scenarios.scenario_answer import AnswerWindow, Replayed, plain
from topologies.scenarios.scenario_model import read_scenario
from windowing.errors import ConfigError, ScenarioError, did_you_mean
from windowing.schema import DEFAULT_STREAM
from windowing.timestamps import from_datetime, readable_time

MOST_ROWS = 10_000
"""Maximum number of events of a scenario, because people have to read it."""


@dataclass(frozen=True)
class RecordedScenario:
    """A scenario that was made from input."""

    text: str
    """The file as YAML text."""
    events: int
    unreadable: int
    """Number of unreadable rows, which are not in it."""
    differences: tuple[str, ...]
    """Differences that appear when the file is replayed; none if it is a test that holds."""


def recorded(reference: str, topology: Graph, inputs: Sequence[str]) -> RecordedScenario:
    """Returns the scenario of a topology that reads these inputs, with their results as expectations.

    ``inputs``: folders, files or patterns; with several spouts each as ``spout=path``. A spout without one reads its
    own files or rows. A watermark follows each batch, cut as in a run; then the streams end.

    Raises ConfigError for inputs that cannot be used, and for more than 10,000 rows.
    """
    chosen = _by_spout(topology, inputs)
    steps: list[dict[str, Any]] = []
    unreadable = number = 0
    of_spouts = [_batches(node, chosen.get(name)) for name, node in topology.spouts.items()]
    for batch in zip_longest(*of_spouts, fillvalue=iter(())):
        for name, pieces in zip(topology.spouts, batch, strict=True):
            for table, bad in pieces:
                unreadable += bad
                number += table.num_rows
                _check_number(number)
                steps += [{"event": _event(row), "stream": name} for row in table.to_pylist()]
        steps.append({"tick": "watermark"})
    steps.append({"close": True})
    scenario: dict[str, Any] = {
        "name": f"what {topology.name} makes of its input",
        "topology": reference,
        "steps": steps,
    }
    answer = replay_locally(read_scenario(scenario), topology)
    text = _written(scenario, _expected(answer), list(answer.without_ids))
    again = replay_locally(read_scenario(yaml.safe_load(text)), topology)
    return RecordedScenario(text, number, unreadable, tuple(again.differences))


def _by_spout(topology: Graph, inputs: Sequence[str]) -> dict[str, str]:
    """Returns the input of each spout that is given one."""
    found: dict[str, str] = {}
    for given in inputs:
        name, sign, path = given.partition("=")
        if not sign and len(topology.spouts) == 1:
            name, path = next(iter(topology.spouts)), given
        if name not in topology.spouts:
            raise ConfigError(
                f"input {given!r}" + ("" if sign else " without a spout"),
                why=f"the spouts are {', '.join(topology.spouts)}{did_you_mean(name, topology.spouts) if sign else ''}",
                do=f"write {next(iter(topology.spouts))}={path or given}",
            )
        if name in found:
            raise ConfigError(f"two inputs for spout {name!r}", why="it reads one", do="give a folder or a pattern")
        found[name] = path
    return found


Pieces = Iterator[tuple[pa.Table, int]]
"""Rows, and the number of those before them that cannot be read."""


def _batches(node: SpoutNode, path: str | None) -> Iterator[Pieces]:
    """Yields the rows of a spout, batch by batch."""
    if path is None and isinstance(node.spout, MemorySpout):
        yield from (iter([(table, 0)]) for table in node.spout.tables())
        return
    spout = _reader(node, path)
    found = spout.listed()
    if not found:
        raise ConfigError(
            f"spout {node.name!r}: no file in {spout.path!r}", why="there is nothing to record", do="correct the path"
        )
    for batch in spout.cut(found):
        yield _of_files(node, spout, batch)


def _reader(node: SpoutNode, path: str | None) -> FileSpout:
    """Returns the reader of a spout's input: a spout of files, at ``path`` if that is given; for another spout, files
    at ``path`` with its columns."""
    spout = node.spout
    if isinstance(spout, FileSpout):
        if spout.merge_by is not None:
            raise ConfigError(
                f"spout {node.name!r} with merge_by={spout.merge_by!r} cannot be recorded",
                why="its rows come in an order that a run makes",
                do="give a scenario's events by hand",
            )
        return spout if path is None else replace(spout, paths=(path,))
    if path is None:
        raise ConfigError(
            f"spout {node.name!r} reads no files",
            why="its rows come from elsewhere",
            do=f"give files: {node.name}=PATH",
        )
    return files(path, node.outputs[DEFAULT_STREAM])


def _of_files(node: SpoutNode, spout: FileSpout, batch: Sequence[FoundFile]) -> Pieces:
    schema = spout.row_schema(node.outputs[DEFAULT_STREAM])
    for file in batch:
        with reached(file.path):
            filesystem, path = locate_file(file.path)
            about = FileMetadata(filesystem, path, file.path, spout.metadata)
        optional = node.defaults.columns.keys()
        for table, numbers, bad in chunks_of(spout, filesystem, FileSplit(path), schema, optional=optional):
            yield about.beside(table, numbers), len(bad)


def _check_number(rows: int) -> None:
    if rows > MOST_ROWS:
        raise ConfigError(
            f"more than {MOST_ROWS:,} rows to record",
            why="a scenario is a test that somebody reads",
            do="give fewer files, or a part of them",
        )


def _event(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row of the input as an event; missing values are null."""
    return {name: _value(value) for name, value in row.items() if value is not None}


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    """Returns a value as a scenario has it, with times in ISO 8601."""
    match value:
        case datetime():
            return readable_time(from_datetime(value))
        case dict():
            return {str(key): _value(item) for key, item in value.items()}
        case list():
            return [_value(item) for item in value]
    return plain(value)


def _expected(answer: Replayed) -> dict[str, Any]:
    """Turns an answer into expectations: windows, late events, rows of sinks, and the accounts."""
    if answer.ok is False:
        raise ScenarioError(f"the input cannot be replayed: {'; '.join(answer.differences)}")
    found: dict[str, Any] = {"counts": {name: number for name, number in answer.counts.items() if number}}
    if None not in answer.late:
        found["late"] = answer.late
    windows = [_window(window) for window in answer.windows]
    if all(window.keys() - {"bolt", "step"} for window in windows):
        found["windows"] = windows
    return found | {"outputs": {sink: [_row(row) for row in rows] for sink, rows in answer.outputs.items()}}


def _window(window: AnswerWindow) -> dict[str, Any]:
    """Returns the values that identify a window, and its events if their ids are known."""
    shown: dict[str, Any] = {**window}
    known_by: tuple[str, ...] = ("bolt", "step", "key", "kind")
    named = {name: plain(shown[name]) for name in known_by if name in shown}
    times = {name: readable_time(shown[name]) for name in ("start", "end") if shown[name] is not None}
    ids = window["events"]
    return {**named, **times} if ids is None or None in ids else {**named, **times, "events": ids}


def _written(scenario: dict[str, Any], expect: dict[str, Any], without_ids: Sequence[str]) -> str:
    """Returns the text of the file: a line for each step, each window and each row; and a note on bolts whose events
    are not known."""
    lines = [f"name: {_flow(scenario['name'])}", f"topology: {_flow(scenario['topology'])}", "steps:"]
    lines += [f"  - {_flow(step)}" for step in scenario["steps"]]
    lines.append("expect:")
    if without_ids:
        bolts = ", ".join(map(_flow, without_ids))
        lines.append(f"  # No column id reaches {bolts}: which events its windows held is not known.")
    lines.append(f"  counts: {_flow(expect['counts'])}")
    lines += [f"  late: {_flow(expect['late'])}"] if "late" in expect else []
    lines += _listed("  windows", expect["windows"]) if "windows" in expect else []
    lines += ["  outputs:" + ("" if expect["outputs"] else " {}")]
    for sink, rows in expect["outputs"].items():
        lines += _listed(f"    {_flow(sink)}", rows)
    return "\n".join(lines) + "\n"


def _listed(name: str, items: Sequence[Any]) -> list[str]:
    indent = " " * (len(name) - len(name.lstrip()) + 2)
    return [f"{name}:", *(f"{indent}- {_flow(item)}" for item in items)] if items else [f"{name}: []"]


def _flow(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, width=float("inf"), allow_unicode=True, sort_keys=False)
    return str(text).removesuffix("\n").removesuffix("\n...")
