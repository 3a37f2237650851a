"""Sends the messages of files to a topic: ``python -m topologies.examples.aggregation.send --topic orders in/1.jsonl``.

The files are those of a trial without Kafka: one envelope of JSON on each line. The topic of the command replaces
theirs.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from topologies.cli.consoles import Debug, out, readable_errors
from topologies.examples.aggregation.kafka import Servers
from topologies.examples.aggregation.kafka import send as send_all
from topologies.step.read_bolt import MessageRow, OpenEnvelopes
from windowing.errors import ConfigError, DataError


def send(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of envelopes, one a line.")],
    servers: Servers = "localhost:9092",
    topic: Annotated[str, typer.Option(help="The topic, which must be there.")] = "input",
    debug: Debug = False,
) -> None:
    """Send the messages of files to a topic, in their order."""
    with readable_errors(debug=debug):
        rows = [row for file in files for row in _messages(file)]
        out().print(Text(f"{send_all(servers, topic, rows):,} messages are in {topic}"))


def _messages(file: Path) -> Iterator[MessageRow]:
    try:
        lines = file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", do="name files of messages") from None
    opened = OpenEnvelopes().opened
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield opened(line)
            except ValueError as error:
                raise DataError(f"{file}, line {number}: it is not an envelope: {error}") from None


if __name__ == "__main__":
    typer.run(send)
