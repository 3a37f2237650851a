"""What can be found out about a topology's spouts without a run: whether there is input, and its first rows."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from types import MappingProxyType

import pyarrow as pa
import pyarrow.compute as pc

from topologies.engine.time.epoch_seconds import epoch_seconds
from topologies.graph.nodes.spout import SpoutNode
from topologies.io.file_spout import FileSpout
from topologies.io.formats.bad import plain, python_columns
from topologies.io.kafka import KafkaSpout
from topologies.io.partition_columns import undeclared
from topologies.io.patterns import leading, passed_over
from topologies.io.pulled import PulledSpout
from topologies.io.spouts import MemorySpout
from topologies.preflight.extracted_times import extracted_times
from topologies.preflight.findings import Findings
from topologies.preflight.first_keys import unknown_columns
from topologies.preflight.first_rows import (
    MOST_ROWS,
    FirstRows,
    first_rows_of_files,
    first_rows_of_memory,
    first_rows_of_users_spout,
)
from topologies.preflight.input_paths import missing_input
from topologies.preflight.time_columns import columns_behind, direct_columns
from topologies.preflight.written_times import written_times
from topologies.topology import Topology
from windowing.data.returned_rows import DEFAULT_STREAM
from windowing.errors import ConfigError, DataError, SpoutError, WindboltError
from windowing.time.timestamps import from_column, from_datetime, show

_PATIENCE = 3.0
"""Seconds that a broker of Kafka has for an answer."""


def find_sources(topology: Topology) -> dict[str, Findings]:
    """What was found of each spout, by its name. A few rows are read of those that can be read without Spark."""
    return {name: _found(topology, node) for name, node in topology.spouts.items()}


def dubious_input(topology: Topology) -> list[WindboltError]:
    """What is probably not meant: patterns that match no file, and columns that no row has. Raises nothing."""
    found: list[WindboltError] = []
    for node in topology.spouts.values():
        if isinstance(node.spout, FileSpout) and node.spout.is_here:
            with suppress(WindboltError):  # the run itself says what cannot be read
                files = node.spout.listed()
                if not files:
                    found += [] if missing_input(node.name, node.spout) else [_no_file(node.name, node.spout)]
                found += unknown_columns(node, node.spout, files)
    return found


def _found(topology: Topology, node: SpoutNode) -> Findings:  # noqa: PLR0911 - one for each kind
    try:
        match node.spout:
            case FileSpout() as spout if not spout.is_here:
                return Findings((("read", "nothing: these files are not on this machine"),))
            case FileSpout() as spout:
                return _of_files(topology, node, spout)
            case MemorySpout() as spout:
                return _of_rows(topology, node, first_rows_of_memory(node, spout))
            case PulledSpout() as spout:
                return _of_rows(topology, node, first_rows_of_users_spout(node, spout))
            case KafkaSpout(servers):
                return _of_kafka(node.name, servers)
    except SpoutError as error:
        return Findings(problems=(error,))
    except WindboltError as error:
        return Findings(problems=(type(error)(f"spout {node.name!r}: {error.what}", why=error.why, do=error.do),))
    return Findings((("read", "nothing: Spark makes this DataFrame"),))


def _of_files(topology: Topology, node: SpoutNode, spout: FileSpout) -> Findings:
    missing = missing_input(node.name, spout)
    if missing is not None:
        return Findings(problems=(missing,))
    files = spout.listed()
    if not files:
        return Findings((("files", "none yet"),), warnings=(_no_file(node.name, spout),))
    first = first_rows_of_files(node, spout, files)
    found = _of_rows(topology, node, first, written_times(node, spout, files))
    number = f"{len(files):,}, the first is {os.path.basename(files[0].path)}"
    warnings = (*found.warnings, *unknown_columns(node, spout, files))
    return Findings((("files", number), *_folders(spout, files[0].path), *found.facts), found.problems, warnings)


def _folders(spout: FileSpout, first: str) -> Iterator[tuple[str, str]]:
    """What the folders of the first file say, and what of it is not read as a column."""
    with suppress(DataError):  # which reading the file raises too
        texts = spout.partition_of(first).texts
        if spout.partitions.names:
            yield "folders", ", ".join(f"{name}={texts[name]}" for name in spout.partitions.names if name in texts)
        others = undeclared(first, spout.partitions)
        if others is not None:
            yield "folders", f"not all are read as columns; partition_columns={others!r} does that"


_VALUE = re.compile(r"(column '[^']*': ).*?( is no | cannot be read as | is not valid )", re.DOTALL)
_MOST_REASONS = 5


def _summed_up(reasons: Sequence[str]) -> str:
    """Each kind of reason once, with its number and an example; a kind is a reason but for the value."""
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(_VALUE.sub(r"\1\2", reason), []).append(reason)
    if len(kinds) == 1:
        return reasons[0]
    often = sorted(kinds.values(), key=len, reverse=True)
    shown = [f"{len(each):,} times {each[0]}" if len(each) > 1 else each[0] for each in often[:_MOST_REASONS]]
    return "; ".join(shown) + (f"; and {len(often) - len(shown)} other reasons" if len(often) > len(shown) else "")


def _of_rows(
    topology: Topology, node: SpoutNode, first: FirstRows, written: Mapping[str, str] = MappingProxyType({})
) -> Findings:
    facts = [("read", _counted(first))]
    if first.rows.num_rows:
        facts.append(("such as", _example(first)))
    times = direct_columns(topology, node, first.rows.schema)
    later = columns_behind(topology, node, first.rows.schema)
    spans = {column: _span(first, column) for column in times}
    spans |= {column: f"{_span(first, column)}, as {bolt} gets them" for column, bolt in later.items()}
    spans = {column: spans.get(column) or _range(first.rows.column(column)) for column in [*spans, *written]}
    facts += [(column, "; ".join(filter(None, (span, written.get(column))))) for column, span in spans.items()]
    problems, warnings = list[WindboltError](), list[WindboltError]()
    if first.reasons:
        error = ConfigError(
            f"spout {node.name!r}: {len(first.reasons):,} of the first {first.number:,} rows cannot be read",
            why=_summed_up(first.reasons),
            do="correct the schema, or the files; a run "
            + ("stops at such a row" if topology.stop_on_invalid else "counts such rows as invalid"),
        )
        (warnings if first.rows.num_rows and not topology.stop_on_invalid else problems).append(error)
    for column in times:
        _judge_times(node.name, first, column, problems, warnings)
    for each in _extracted(topology, node, first):
        facts += each.facts
        problems += each.problems
        warnings += each.warnings
    return Findings(tuple(facts), tuple(problems), tuple(warnings))


def _extracted(topology: Topology, node: SpoutNode, first: FirstRows) -> list[Findings]:
    """What the extractors of the bolts that read the spout make of its rows; none where files lack columns, such as
    their own paths, that a run adds."""
    if first.rows.column_names != node.outputs[DEFAULT_STREAM].names:
        return []
    return [
        extracted_times(part, node.name, first.rows)
        for part in topology.windowed.values()
        if part.bolt.settings.timestamp_extractor is not None
        and any(each.stream == (node.name, DEFAULT_STREAM) for each in part.inputs)
    ]


def _example(first: FirstRows) -> str:
    columns = python_columns(first.rows.slice(0, 1))
    row = {name: values[0] for name, values in columns.items()}
    return json.dumps(row, default=_text, ensure_ascii=False)


def _text(value: object) -> str:
    return show(from_datetime(value)) if isinstance(value, datetime) else str(value)


def _counted(first: FirstRows) -> str:
    if first.number < MOST_ROWS:
        return "no rows" if not first.number else f"{first.number:,} row{'' if first.number == 1 else 's'}"
    return f"the first {first.number:,} rows"


def _span(first: FirstRows, column: str) -> str:
    times = _valid_times(first, column)
    return f"{show(min(times))} to {show(max(times))}" if times else "no times"


def _range(values: pa.ChunkedArray) -> str:
    bounds = [plain(each) for each in pc.min_max(values).values()]
    low, high = (_text(each) for each in bounds)
    return "" if bounds[0] is None else f"{low} to {high}"


def _valid_times(first: FirstRows, column: str) -> list[int]:
    times, reasons = from_column(first.rows.column(column))
    valid: list[int] = (times if reasons is None else times[reasons == ""]).tolist()
    return valid


def _judge_times(
    name: str, first: FirstRows, column: str, problems: list[WindboltError], warnings: list[WindboltError]
) -> None:
    times, rows = _valid_times(first, column), first.rows.num_rows
    if len(times) < rows:
        error = ConfigError(
            f"spout {name!r}: {rows - len(times):,} of the first {rows:,} rows have no usable time in {column!r}",
            why="an event without a time is in no window; it is counted as invalid",
            do="see how that column is spelled and written in the input, or name another timestamp field",
        )
        (warnings if times else problems).append(error)
    elif times and (warning := epoch_seconds(f"spout {name!r}", None, max(times), column=column)):
        warnings.append(warning)


def _no_file(name: str, spout: FileSpout) -> WindboltError:
    if len(spout.paths) > 1:
        return ConfigError(
            f"spout {name!r}: no file is in, or matches, {', '.join(map(repr, spout.paths))}",
            why="a run to the end of the input would read nothing",
            do="correct the paths, or put files there",
        )
    folder, is_pattern = leading(spout.path)
    others = sorted(entry for entry in os.listdir(folder) if not passed_over(entry)) if os.path.isdir(folder) else []
    beside = (
        f"{folder} holds {', '.join(others[:3])}{', ...' if others[3:] else ''}" if others else "the folder is empty"
    )
    return ConfigError(
        f"spout {name!r}: no file matches {spout.path!r}" if is_pattern else f"spout {name!r}: no files in {folder!r}",
        why=beside,
        do="correct the path, or put files there; a run to the end of the input would read nothing",
    )


def _of_kafka(name: str, servers: str) -> Findings:
    """Whether a broker can be connected to; records are read by Spark alone."""
    refusals = []
    for server in servers.split(","):
        host, _, port = server.strip().rpartition(":")
        try:
            socket.create_connection((host.strip("[]"), int(port)), _PATIENCE).close()
        except (OSError, ValueError) as error:
            refusals.append(f"{server.strip()}: {error}")
        else:
            return Findings((("read", f"nothing: Spark reads records; {server.strip()} can be connected to"),))
    problem = ConfigError(
        f"spout {name!r}: no server of Kafka can be connected to",
        why="; ".join(refusals),
        do="correct the addresses, or see that the servers run and can be reached from here",
    )
    return Findings((("read", "nothing: Spark reads records"),), warnings=(problem,))
