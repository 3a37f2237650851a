"""What a run needs and the step's file lacks: its surroundings, which may be given in a file of their own."""

from __future__ import annotations

from collections.abc import Iterator

from topologies.step.config import StepConfig
from topologies.step.config.connecting import FilesConnection, KafkaSource
from windowing.errors import ConfigError
from windowing.suggestions import did_you_mean


def missing(config: StepConfig) -> list[str]:
    """The sections that a run still needs: ``source``, ``connections.output``."""
    return [*(["source"] if config.source is None else []), *(f"connections.{name}" for name in _unknown(config))]


def check_complete(config: StepConfig) -> None:
    """Raise ConfigError, with what to add, where a step cannot be run as it is."""
    gaps = missing(config)
    if gaps:
        raise ConfigError(
            f"the step {config.file} cannot be run: it does not say {' and '.join(gaps)}",
            why="a run reads messages from the source, and writes to the connections named by the destinations",
            do=f"add this to the step, or to a file given with --with:\n{snippet(config)}\n",
        )


def snippet(config: StepConfig) -> str:
    """An example, as HOCON, of what to add to the step so that it can be run."""
    lines: list[str] = []
    unknown = list(_unknown(config))
    for connection in unknown:
        meant = did_you_mean(connection, config.connections)
        lines += [f'  # "{connection}" is not among the connections{meant}'] if meant else []
    name = unknown[0] if unknown else next(iter(config.connections), "kafka")
    if config.source is None:
        of_files = isinstance(config.connections.get(name), FilesConnection)
        kafka = f'{{ type: kafka, topics: [input], config {{ type: kafka, name: "{name}" }} }}'
        files = '{ type: files, path: "input/*.jsonl" }'
        lines.append(f"  source {files if of_files else kafka}")
    if unknown:
        lines.append("  connections {")
        lines += [
            f'    "{connection}" {{ type: kafka, bootstrap.servers: "localhost:9092" }}' for connection in unknown
        ]
        lines += ["  }", '  # or, for files in place of Kafka: { type: files, path: "output" }']
    return "\n".join(lines)


def _unknown(config: StepConfig) -> Iterator[str]:
    """The named connections that are missing, each once."""
    used = [to.config.name for _, to in config.destinations]
    if isinstance(config.source, KafkaSource):
        used.append(config.source.config.name)
    yield from (name for name in dict.fromkeys(used) if name not in config.connections)
