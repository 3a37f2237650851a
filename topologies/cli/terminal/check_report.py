"""The report of ``windbolt check`` on a topology."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.text import Text

from topologies.cli.terminal.consoles import say
from topologies.cli.terminal.failing import in_words
from topologies.graph.describing import Described, described, sink_in_words
from topologies.graph.streams import stream_label
from topologies.preflight.findings import Findings
from topologies.preflight.folders import find_sinks
from topologies.preflight.lacking_columns import find_lacking
from topologies.preflight.look_at_spouts import find_sources
from topologies.preflight.shifted_windows import shifted_chains
from topologies.preflight.unread_streams import untaken
from topologies.preflight.waiting_watermarks import find_waiting
from topologies.topology import Topology
from windowing.data.printable import printable

_EXAMPLE = "such as"
"""The word of a fact that is data: its first line is enough."""


def print_report(console: Console, topology: Topology, *, strict: bool) -> bool:
    """Look at a topology's surroundings, and print what was found; whether all is well.

    ``strict``: whether warnings are as bad as problems.
    """
    found = {**find_sources(topology), **find_sinks(topology)}
    of_bolts = (find_waiting(topology), find_lacking(topology))
    console.print(Text(f"topology {topology.name}", "bold"))
    for part in described(topology):
        if part.name not in topology.sinks:
            console.print()
            _print_part(console, part, found.get(part.name, Findings()))
    _print_sinks(console, topology, found)
    console.print()
    for note in (*shifted_chains(topology), *untaken(topology)):
        say(console, Text.assemble(("note: ", "bold"), note), always=True)
    everything = [each for part in (found, *of_bolts) for each in part.values()]
    problems = [error for each in everything for error in each.problems]
    warnings = [error for each in everything for error in each.warnings]
    for error in problems:
        say(console, in_words(error, "problem"))
    for error in warnings:
        say(console, in_words(error, "warning", "bold yellow"))
    console.print(_verdict(len(problems), len(warnings)))
    return not problems and not (strict and warnings)


def _print_part(console: Console, part: Described, found: Findings) -> None:
    console.print(Text(part.title, "bold"))
    last = ""
    for word, fact in (*part.facts, *found.facts):
        line = Text(f"  {'' if word == last else word:<9}{printable(fact)}")
        if word == _EXAMPLE:
            line.truncate(console.width, overflow="ellipsis")
        say(console, line, whole_types=True, always=True)
        last = word


def _print_sinks(console: Console, topology: Topology, found: Mapping[str, Findings]) -> None:
    """Print a line or two for each sink; ``windbolt describe`` has their columns."""
    if not topology.sinks:
        return
    console.print()
    console.print(Text("sinks", "bold"))
    for name, node in topology.sinks.items():
        streams = ", ".join(map(stream_label, node.streams))
        facts = [f"; the {word} {fact}" for word, fact in found.get(name, Findings()).facts if "not there" in fact]
        said = "".join([f"{name}: {streams}, to {sink_in_words(node.sink)}", *facts])
        line = Text(f"  {printable(said)}")
        say(console, line, always=True)


def _verdict(problems: int, warnings: int) -> Text:
    if not problems and not warnings:
        return Text("Nothing is wrong.", "bold green")
    counts = {"problem": problems, "warning": warnings}
    words = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for what, count in counts.items() if count)
    return Text(words, "bold red" if problems else "bold yellow")
