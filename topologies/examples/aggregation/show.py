"""Shows the messages of a topic, a line of JSON each.

    python -m topologies.examples.aggregation.show --topic deadletter

Values are read by the output format of the step, for example Avro; a message that cannot be read is shown as text.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from topologies.cli.consoles import Debug, readable_errors
from topologies.examples.aggregation.kafka import messages_in
from topologies.scenarios.scenario_model import sent_message
from topologies.step.compile_step import messages_of
from topologies.step.config import Destination, KafkaConnection
from topologies.step.config_files import Step, StepConfig, load_step

_HERE = Path(str(files("topologies.examples.aggregation")))


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
    """Shows the messages of a topic, and their number."""
    with readable_errors(debug=debug):
        given = overlays or ([_HERE / "local.conf"] if step == _HERE / "aggregation.conf" else [])
        config = load_step(step, overlays=given)
        wrote, to = _destination(config, topic)
        read = messages_of(wrote.format.output).read
        kafka = config.connections.get(to.config.name)
        servers = servers or (kafka.servers if isinstance(kafka, KafkaConnection) else "localhost:9092")
        topic = topic or to.topic
        number = 0
        for number, message in enumerate(messages_in(servers, topic), 1):
            if number <= most:
                typer.echo(json.dumps(sent_message(message, read), ensure_ascii=False, default=str))
        typer.echo(f"{number:,} messages in {topic}", err=True)


def _destination(config: StepConfig, topic: str | None) -> tuple[Step, Destination]:
    """Returns the destination with a topic, and the step that writes there; the main destination if there is no such
    topic, or none is given."""
    there = ((step, to) for _, step in config.steps for _, to in step.ways if isinstance(to, Destination))
    return next(((step, to) for step, to in there if to.topic == topic), config.last)


if __name__ == "__main__":
    typer.run(show)
