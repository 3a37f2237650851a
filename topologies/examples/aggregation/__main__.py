"""Tools for a trial of the example with Kafka: orders are produced, or sent from files, and topics are shown.

    python -m topologies.examples.aggregation produce --events 1000000 --keys 10000
    python -m topologies.examples.aggregation send --topic orders in/1.jsonl
    python -m topologies.examples.aggregation show --topic deadletter

They need no Java, but the package confluent-kafka (``windbolt[kafka]``).
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from topologies.cli.consoles import Debug, out, readable_errors
from topologies.engine.kafka_records import check_topics, ranges_between
from topologies.engine.librdkafka import Admins, RangeReader, Topics, need_confluent, send_messages
from topologies.io import spouts
from topologies.scenarios.scenario_model import sent_message
from topologies.step.compile_step import messages_of
from topologies.step.config import Destination, KafkaConnection
from topologies.step.config_files import Step, StepConfig, load_step
from topologies.step.read_bolt import MessageRow, OpenEnvelopes
from windowing.errors import ConfigError, DataError

Servers = Annotated[str, typer.Option(metavar="HOST:PORT", help="Kafka.")]
_HERE = Path(str(files("topologies.examples.aggregation")))


def produce(
    servers: Servers = "localhost:9092",
    topic: Annotated[str, typer.Option(help="The topic, which must be there.")] = "input",
    events: Annotated[int, typer.Option(min=1, help="How many orders.")] = 1_000_000,
    keys: Annotated[int, typer.Option(min=1, help="How many shops.")] = 10_000,
    debug: Debug = False,
) -> None:
    """Writes orders of many shops to a topic.

    The orders of a shop are in one partition, and in order, because the key of a message is its shop. The last order of
    each shop is marked as such.
    """
    with readable_errors(debug=debug):
        sent = send_all(servers, topic, _orders(events, keys))
        out().print(Text(f"{sent:,} orders of {min(keys, events):,} shops are in {topic}"))


def _orders(events: int, keys: int) -> Iterator[dict[str, Any]]:
    for number in range(events):
        shop, last = f"shop-{number % keys}", number >= events - keys
        order = {"id": number, "shop": shop, "amount": number * 7919 % 10000 / 100, "last": last}
        yield {"key": shop.encode(), "value": json.dumps(order, separators=(",", ":")).encode()}


def send(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Files of envelopes, one a line.")],
    servers: Servers = "localhost:9092",
    topic: Annotated[str, typer.Option(help="The topic, which must be there.")] = "input",
    debug: Debug = False,
) -> None:
    """Sends the messages of files to a topic, in their order.

    The files are those of a trial without Kafka, with one JSON envelope on each line. The command's topic replaces
    theirs.
    """
    with readable_errors(debug=debug):
        rows = [row for file in files for row in _messages(file)]
        out().print(Text(f"{send_all(servers, topic, rows):,} messages are in {topic}"))


def _messages(file: Path) -> Iterator[MessageRow]:
    try:
        lines = file.read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror}", do="name files of messages") from None
    open_line = OpenEnvelopes().open_line
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield open_line(line)
            except ValueError as error:
                raise DataError(f"{file}, line {number}: it is not an envelope: {error}") from None


def show(
    servers: Annotated[str | None, typer.Option(metavar="HOST:PORT", help="Kafka; if left out, the step's.")] = None,
    topic: Annotated[
        str | None, typer.Option(help="The topic; if left out, that of the last step's destination.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="At most so many messages.")] = 20,
    step: Annotated[Path, typer.Option(help="The step that wrote them.")] = _HERE / "aggregation.conf",
    overlays: Annotated[list[Path] | None, typer.Option("--with", metavar="FILE", help="As in windbolt run.")] = None,
    debug: Debug = False,
) -> None:
    """Shows the messages of a topic, a line of JSON each, and their number.

    Values are read by the output format of the step, for example Avro; a message that cannot be read is shown as text.
    """
    with readable_errors(debug=debug):
        step_overlays = overlays or ([_HERE / "local.conf"] if step == _HERE / "aggregation.conf" else [])
        config = load_step(step, overlays=step_overlays)
        writing_step, to = _destination(config, topic)
        read = messages_of(writing_step.format.output).read
        kafka = config.connections.get(to.config.name)
        servers = servers or (kafka.servers if isinstance(kafka, KafkaConnection) else "localhost:9092")
        topic = topic or to.topic
        number = 0
        for number, message in enumerate(messages_in(servers, topic), 1):
            if number <= most:
                typer.echo(json.dumps(sent_message(message, read), ensure_ascii=False, default=str))
        typer.echo(f"{number:,} messages in {topic}", err=True)


def _destination(config: StepConfig, topic: str | None) -> tuple[Step, Destination]:
    """Returns the destination with a topic, and the step that writes there; the main destination if no topic is given,
    or the topic is unknown."""
    targets = ((step, to) for _, step in config.steps for _, to in step.targets if isinstance(to, Destination))
    return next(((step, to) for step, to in targets if to.topic == topic), config.last)


# The client of Kafka.


def send_all(servers: str, topic: str, messages: Iterable[Mapping[str, Any]]) -> int:
    """Sends messages (``key``, ``value``, ``headers``) to a topic, in their order; returns their number. Raises
    ConfigError for an unknown topic."""
    need_confluent("this tool writes it")
    check_topics(Admins().open, topic, spouts.kafka(servers, topic))
    return send_messages(servers, topic, messages)


def messages_in(servers: str, topic: str) -> Iterator[dict[str, Any]]:
    """Yields the messages of a topic, partition by partition. Raises ConfigError for an unknown topic."""
    need_confluent("this tool reads it")
    spout, admins = spouts.kafka(servers, topic), Admins()
    check_topics(admins.open, topic, spout)
    topics = Topics(topic, spout, admins)
    start_offsets = topics.start_offsets()
    with closing(RangeReader(topic, spout, admins)) as reader:
        for end_offsets, _ in topics.all_batches(start_offsets):
            records, _ = reader.read(ranges_between(start_offsets, end_offsets))
            for each in records:
                for part in each.parts:
                    yield from part.select(["topic", "key", "value", "headers"]).to_pylist()
            start_offsets = end_offsets


app = typer.Typer(help="Tools for a trial of the example with Kafka.", no_args_is_help=True, add_completion=False)
app.command()(produce)
app.command()(send)
app.command()(show)

if __name__ == "__main__":
    app()
