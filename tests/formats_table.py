"""Writes the table of formats, engines and options in docs/files.md, from the declarations of the formats.

python -m tests.formats_table
"""

from __future__ import annotations

import inspect
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
from google.protobuf import descriptor_pb2

from tests.helpers import pages
from tests.helpers.places import ROOT
from topologies.io import sinks, spouts
from topologies.io.formats import FormatName
from topologies.io.formats.write_table import has_writer, options_of
from topologies.io.topics.declared import REGISTERED, Envelope, KeyForm, Tombstones, TopicFormat
from topologies.io.topics.encode import protobuf_file
from windowing.errors import ConfigError

PAGE = ROOT / "docs" / "files.md"
COMMAND = "python -m tests.formats_table"
FORMATS: tuple[str, ...] = get_args(FormatName)
KAFKA = "Kafka's values"
USES: tuple[Literal["reading"], Literal["writing"]] = ("reading", "writing")
OF_SPOUT = ("timezone", "partition_columns", "metadata", "defaults", "merge_by")
"""Arguments of spouts, whatever their format."""


def cell(option: str, name: str) -> str:
    """Where an option of files may be given for a format: ``r`` where it is read, ``w`` where it is written."""
    if option in OF_SPOUT:
        return "r"
    read, written = (option in options_of(name, use) for use in USES)
    return "r" * read + "w" * written


def options() -> list[str]:
    """All options: those of spouts, and those of formats, which most formats have first."""
    of_formats = dict.fromkeys(option for name in FORMATS for option in options_of(name))
    often = sorted(of_formats, key=lambda option: -sum(bool(cell(option, name)) for name in FORMATS))
    return [*OF_SPOUT, *often]


def section() -> str:
    """The table."""
    taken = inspect.signature(spouts.kafka).parameters
    rows: list[tuple[str, ...]] = [
        ("engines", *("both" for _ in FORMATS), "both"),
        ("written by `sinks.files`", *("yes" if has_writer(name) else "–" for name in FORMATS), "–"),
    ]
    for option in options():
        kafka = "r" if option in taken else "–"
        rows.append((f"`{option}=`", *(cell(option, name) or "–" for name in FORMATS), kafka))
    files = pages.table(("", *(f"`{name}`" for name in FORMATS), KAFKA), rows)
    return f"{files}\n\n{OF_TOPICS}\n\n{topics_table()}"


# Topics: which options go with which format, as the declarations themselves accept or refuse them.


TOPIC_FORMATS: tuple[str, ...] = get_args(TopicFormat)
OF_TOPICS = (
    "The formats of topics, read by `spouts.kafka` (`r`) and written by `sinks.kafka` (`w`); where a format needs a "
    "registry or a schema file, one of the two is given."
)
_REGISTRY = "http://registry:8081"
_TAGS = pa.map_(pa.string(), pa.string())


def topic_options(folder: Path) -> dict[str, Mapping[str, Any]]:
    """For each row of the table, the arguments that are tried; schema files are made in a folder."""
    avsc, desc = folder / "t.avsc", folder / "t.desc"
    avsc.write_text('{"type": "record", "name": "T", "fields": [{"name": "a", "type": "long"}]}', "utf-8")
    file = protobuf_file(pa.schema([("a", pa.int64())]), "T")
    compiled = descriptor_pb2.FileDescriptorSet(file=[descriptor_pb2.FileDescriptorProto.FromString(file)])
    desc.write_bytes(compiled.SerializeToString())
    given: dict[str, Mapping[str, Any]] = {
        "registry=": {"registry": _REGISTRY},
        "schema_file=": {"schema_file": avsc},
        "schema_file=, message=": {"schema_file": desc, "message": "T"},
        'schemas="latest"': {"schemas": "latest"},
        "subject=": {"subject": "record"},
        "timezone=": {"timezone": "Europe/Paris"},
        "times=": {"times": {"ts": "s"}},
        "on_truncation=": {"on_truncation": "error"},
        "defaults=": {"defaults": {"a": 1}},
        "metadata=": {"metadata": True},
    }
    given |= {f'envelope="{name}"': {"envelope": name} for name in get_args(Envelope)}
    given |= {f'tombstones="{name}"': {"tombstones": name} for name in get_args(Tombstones)}
    given['tombstones="a column"'] = {"key": "number", "tombstones": "gone"}
    given['headers="a column"'] = {"headers": "tags"}
    return given


def key_options() -> dict[str, list[Mapping[str, Any]]]:
    """For each row about keys, the arguments of all their forms."""
    kinds = {"binary": "k binary", "text": "k string"}
    return {
        "key=, key_columns=": [{"key": name, "key_columns": kinds.get(name, "k int")} for name in get_args(KeyForm)],
        "key=, key_format=": [
            {"key": "text" if name in kinds else "number", "key_format": name} for name in get_args(KeyForm)
        ],
    }


def topic_cell(format: str, *given: Mapping[str, Any]) -> str:
    """``r`` where a spout takes all the arguments, ``w`` where a sink does, beside the schema that a format needs."""
    complete = [_complete(format, each) for each in given]
    return "r" * all(_is_taken(_spout, each) for each in complete) + "w" * all(
        _is_taken(_sink, each) for each in complete
    )


def _complete(format: str, given: Mapping[str, Any]) -> dict[str, Any]:
    registered = {format, given.get("key"), given.get("key_format")} & REGISTERED
    least = {"registry": _REGISTRY} if registered and "schema_file" not in given else {}
    return {**least, **given, "format": format}


def _spout(arguments: Mapping[str, Any]) -> None:
    spouts.kafka("kafka:9092", "topic", "a long, ts timestamp", **arguments).outputs()


def _sink(arguments: Mapping[str, Any]) -> None:
    columns = [("number", pa.int32()), ("text", pa.string()), ("gone", pa.bool_()), ("tags", _TAGS)]
    columns = [("a", pa.int64())] if "schema_file" in arguments else columns
    sinks.kafka("kafka:9092", "topic", **arguments).check_columns(pa.schema(columns))


def _is_taken(declare: Callable[[Mapping[str, Any]], None], arguments: Mapping[str, Any]) -> bool:
    try:
        declare(arguments)
    except (ConfigError, TypeError):
        return False
    return True


def topic_cells() -> list[tuple[str, str, str]]:
    """Each option and each format of topics, with its cell."""
    with tempfile.TemporaryDirectory() as folder:
        asked = {option: [given] for option, given in topic_options(Path(folder)).items()} | key_options()
        return [(option, name, topic_cell(name, *given)) for option, given in asked.items() for name in TOPIC_FORMATS]


def topics_table() -> str:
    """The table of the formats of topics."""
    cells = topic_cells()
    rows = [
        (f"`{option}`", *(cell or "–" for of, _, cell in cells if of == option))
        for option in dict.fromkeys(option for option, _, _ in cells)
    ]
    return pages.table(("", *(f"`{name}`" for name in TOPIC_FORMATS)), rows)


def page() -> str:
    """The page, with the table as it is now."""
    return pages.with_section(PAGE.read_text(encoding="utf-8"), COMMAND, section())


def main() -> None:
    """Write the table."""
    pages.write(PAGE, page(), f"{len(options())} options of {len(FORMATS)} formats")


if __name__ == "__main__":
    main()
