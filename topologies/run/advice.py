"""What a run that has ended advises: what its tasks spent their time on, and what to declare so that they spend less.

Advice is about what was measured in the run, in its own numbers. A run that was short or small gives none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from topologies.compose.needed_columns import enough_columns
from topologies.engine.ledger.trace_contexts import TRACEPARENT
from topologies.engine.work.bolt_work import INPUT, BoltWork
from topologies.graph.nodes.windowed import WindowedNode
from topologies.run.readable import byte_size, number
from topologies.topology import Topology
from windowing.bolts.read_code import is_users_class, names_in_code
from windowing.settings.panes import RETRACT

About = Literal["time", "columns", "memory"]


@dataclass(frozen=True)
class AdviceLimits:
    """From when on there is something to say."""

    seconds: float = 10.0
    """Seconds that tasks have worked, together."""
    spared: int = 64 * 2**20
    """Bytes in columns that a bolt has not asked for."""
    share: float = 0.5
    """Their share of the bytes that were kept for the bolt."""


LIMITS = AdviceLimits()


@dataclass(frozen=True)
class Advice:
    """A piece of advice, about a bolt."""

    about: About
    """``time``: it took most of the time of tasks. ``columns``: it was given columns that it did not ask for.
    ``memory``: a window of it took much of the machine's memory."""
    bolt: str
    text: str
    """It in a sentence or two, with what was measured."""
    write: str | None = None
    """What to write, as Python; None where there is nothing to declare."""

    def __str__(self) -> str:
        return self.text

    def to_json(self) -> dict[str, Any]:
        """It as plain JSON."""
        return {"about": self.about, "bolt": self.bolt, "text": self.text, "write": self.write}


def advice_on(
    topology: Topology, work: Mapping[str, BoltWork], limits: AdviceLimits | None = None, *, kept: bool = False
) -> list[Advice]:
    """What there is to advise after a run that has cost this. ``kept``: it was on a checkpoint, which the next run
    continues."""
    limits, spent = limits or LIMITS, sum(each.seconds for each in work.values())
    if spent < limits.seconds:
        return []
    found = [*_busiest(topology, work, spent)]
    for name, node in topology.windowed.items():
        if name in work:
            found += _columns(topology, node, work, limits, kept=kept)
            found += _memory(node, work[name])
    return found


def _busiest(topology: Topology, work: Mapping[str, BoltWork], spent: float) -> Iterator[Advice]:
    """The bolt that took the most time, and what the input took."""
    bolts = {name: each.seconds for name, each in work.items() if name != INPUT}
    if not bolts:
        return
    name = max(bolts, key=lambda bolt: bolts[bolt])
    node, reading = topology.windowed.get(name), work.get(INPUT, BoltWork()).seconds
    alone = ", in its one task" if node is not None and node.parallelism == 1 else ""
    yield Advice(
        "time",
        name,
        f"bolt {name!r} took the most time of the bolts: {_percent(bolts[name], spent)} of what tasks worked "
        f"({number(bolts[name])} of {number(spent)} s){alone}. Reading and routing the input took "
        f"{_percent(reading, spent)}.",
    )


def _columns(
    topology: Topology, node: WindowedNode, work: Mapping[str, BoltWork], limits: AdviceLimits, *, kept: bool
) -> Iterator[Advice]:
    """What a bolt of the user's may declare that asks for few of its columns, by name, and has many."""
    names, sizes = node.schema.names, work[node.name].column_bytes
    asked = _asked(topology, node, work)
    enough = None if asked is None else enough_columns(topology, node, asked)
    if asked is None or enough is None or len(sizes) != len(names):
        return
    left = [(name, size) for name, size in zip(names, sizes, strict=True) if name not in enough]
    spared, total = sum(size for _, size in left), sum(sizes)
    if spared < limits.spared or spared < limits.share * total:
        return
    columns = [name for name in names if name in asked]
    write = f"reads = {_declared(columns)}"
    used = (
        f"{len(columns)} of their {len(names)} columns ({', '.join(columns)})" if columns else "none of their columns"
    )
    others = "1 other column was" if len(left) == 1 else f"{len(left)} other columns were"
    start_over = (
        " A checkpoint knows its events with all columns: let the bolt start over there (windbolt reset), or begin a "
        "new one."
        if kept
        else ""
    )
    yield Advice(
        "columns",
        node.name,
        f"bolt {node.name!r} asked its windows for {used}. If it never needs others, write in the class "
        f"{type(node.bolt).__name__}: {write}. The {others} {byte_size(spared)} of the {byte_size(total)} of its "
        f"events in this run, and {'is' if len(left) == 1 else 'are'} then not kept for it.{start_over}",
        write,
    )


def _asked(topology: Topology, node: WindowedNode, work: Mapping[str, BoltWork]) -> set[str] | None:
    """The columns that a bolt of the user's has asked for, and those that its code names; with those of the other bolts
    of its class, which would get what it declares. None where one of these has had all, or no window, or cannot have
    all of them."""
    kind, found = type(node.bolt), set[str]()
    if not is_users_class(kind):
        return None
    alike = [each for each in topology.windowed.values() if isinstance(each.bolt, kind)]
    for each in alike:
        done = work.get(each.name, BoltWork())
        named = names_in_code(each.bolt)
        if done.columns is None or not done.called or named is None:
            return None
        # Code that the run has not come to may ask for more; rows that take others back, and traces, have columns too.
        found |= (done.columns | named | {RETRACT, TRACEPARENT}) & {*each.schema.names}
    known = all(name == name.strip() and name for name in found)  # others cannot be declared
    return found if known and all(found <= {*each.schema.names} for each in alike) else None


def _memory(node: WindowedNode, work: BoltWork) -> Iterator[Advice]:
    """The limit for a bolt whose windows take much of the memory that there is."""
    if not work.large_window or node.bolt.settings.window_bytes is not None:
        return
    size, memory = work.large_window
    limit = 1 << max(memory // 2, 1).bit_length() - 1
    if size > limit:
        return
    write = f".with_limits(window_bytes={limit})"
    yield Advice(
        "memory",
        node.name,
        f"bolt {node.name!r} had a window of {byte_size(size)}, of the {byte_size(memory)} of memory there were. A run "
        f"that needs more is killed without a word; with {write} ({byte_size(limit)}) it ends before that, and names "
        "the window. A key or a shorter window makes windows smaller.",
        write,
    )


def _declared(columns: list[str]) -> str:
    """Names of columns as ``reads`` takes them."""
    if any("," in name or name == "*" for name in columns) or not columns:
        return repr(tuple(columns))
    return '"' + ", ".join(columns).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _percent(seconds: float, spent: float) -> str:
    return f"{100 * seconds / spent:.0f} %"
