"""What runs have come to, and in what two of them differ."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from tests.simulation.faults import place
from tests.simulation.world.world import World

_SEGMENT = re.compile(r"(-?\d+(?:-close)?)/(?:\d{10}-)?[0-9a-f]{32}\.arrow")
_DRAFT = re.compile(r"(?:-\d{10})?-[0-9a-f]{32}\.")
_OF_A_RUN = ("query", "origin")
_MOST = 5


@dataclass
class Outcome:
    """All that is left of runs, apart from names that are different each time."""

    output: dict[str, str]
    """The files of the sinks, and the digest of what each holds."""
    calls: dict[int, list[str]]
    """By step, what the function of a sink was given; each time, as text."""
    state: dict[str, Any]
    """The last manifest."""
    files: dict[str, list[str]]
    """By folder, the files of the checkpoint."""
    rows: int
    """The lines of input that were read."""


def outcome(folder: str, world: World, *, in_order: bool = True) -> Outcome:
    """What lies in the folder of a world after its runs. ``in_order``: whether the rows that functions are given have
    an order; not where a batch comes again with other tasks."""
    output = {}
    for path in _files(f"{folder}/out"):
        if "/.after-" in path:  # set aside by going back
            continue
        with open(path, "rb") as file:
            output[path.removeprefix(f"{folder}/out/")] = hashlib.sha256(file.read()).hexdigest()
    manifests = f"{folder}/ck/windbolt/manifests"
    last = max(os.listdir(manifests), key=lambda name: name.split(".")[0].replace("-close", "~"))
    with open(f"{manifests}/{last}", encoding="utf-8") as file:
        manifest = json.loads(file.read().split("\n", 1)[1])
    kept: dict[str, list[str]] = {}
    for path in _files(f"{folder}/ck"):
        inside = path.removeprefix(f"{folder}/ck/")
        summed = inside.startswith("spark/") and inside.endswith(".crc")  # a death may leave a file without its sum
        if not summed and not inside.startswith("set-aside/"):  # nor what going back has set aside
            kept.setdefault(os.path.dirname(inside), []).append(_named(*os.path.split(inside)))
    calls = {step: [_as_text(rows, in_order) for rows in given] for step, given in world.calls.items()}
    rows = sum(counts.get("rows", 0) for counts in manifest["spouts"].values())
    state = {name: _plain(value) for name, value in manifest.items() if name not in _OF_A_RUN}
    return Outcome(output, calls, state, {name: sorted(found) for name, found in kept.items()}, rows)


def _as_text(rows: list[dict[str, Any]], in_order: bool) -> str:
    texts = [json.dumps(row, default=str) for row in rows]
    return str(texts if in_order else sorted(texts))


def differences(
    wild: Outcome, calm: Outcome, *, losers: bool = False, relaid: Collection[int] = frozenset()
) -> list[str]:
    """In what runs with faults differ from one without, in words. ``losers``: some have been taken over, and may have
    called functions before they knew. ``relaid``: the steps that began with several numbers of tasks, or versions of
    the code; functions may have been given what they came to with each."""
    found = [f"output {name}: {how}" for name, how in _compare(wild.output, calm.output)]
    found += [f"state, {name}: {how}" for name, how in _compare(_flat(wild.state), _flat(calm.state))]
    files = _without_traces_of_losers(wild.files, calm.files) if losers else wild.files
    found += [f"files of the checkpoint, {name}: {how}" for name, how in _compare(files, calm.files)]
    for step in sorted({*wild.calls, *calm.calls}):
        given, wanted = {*wild.calls.get(step, ())}, {*calm.calls.get(step, ())}
        if given != wanted and not ((losers or step in relaid) and given >= wanted):
            found.append(f"a sink's function was given in step {step}: {given}, and not {calm.calls.get(step)}")
    return found


def _without_traces_of_losers(wild: dict[str, list[str]], calm: dict[str, list[str]]) -> dict[str, list[str]]:
    """Without plans to close after a batch that was not the last one: a run that has lost may have planned that, and
    such a plan stays as long as its batch is kept. The logs of sources are not compared: it may have noted files for
    a batch that the winner then cut otherwise, which are read by that batch as they are noted."""
    plans = "windbolt/plans"
    kept = calm.get(plans, [])
    logs = {name: calm[name] for name in calm if name.startswith("spark/sources/")}
    others = {name: names for name, names in wild.items() if not name.startswith("spark/sources/")}
    return {**others, **logs, plans: [name for name in wild.get(plans, []) if name in kept or "-close" not in name]}


def _compare(wild: dict[str, Any], calm: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for name in sorted({*wild, *calm}):
        if name not in calm:
            found.append((name, f"should not be there, and is {str(wild[name])[:200]}"))
        elif name not in wild:
            found.append((name, f"is not there, and should be {str(calm[name])[:200]}"))
        elif wild[name] != calm[name]:
            found.append((name, f"is {str(wild[name])[:300]}, and should be {str(calm[name])[:300]}"))
    return found[:_MOST] + ([("", f"and {len(found) - _MOST} more")] if len(found) > _MOST else [])


def _files(folder: str) -> list[str]:
    return sorted(f"{at}/{name}" for at, _, names in os.walk(folder) for name in names)


def _named(folder: str, base: str) -> str:
    if folder.endswith("/claims"):
        return "a turn"  # each run has one of its own
    return (
        base
        if re.match(r"\.?-?\d", base) and "*" not in place(base)
        else re.sub(r"(?:\d{10}-)?[0-9a-f]{32}", "*", base)
    )


def _plain(value: Any) -> Any:
    """A value of a manifest, without the names that segments and drafts have by chance."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, str):
        return _DRAFT.sub("-*.", _SEGMENT.sub(r"\1/*", value))
    return value


def _flat(value: Any, name: str = "") -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    return {inner: each for key, below in value.items() for inner, each in _flat(below, f"{name}/{key}").items()}
