"""The timestamp extractors of bolts, called on the first rows of the spouts that these read."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout

import pyarrow as pa

from manager.outside.transient import is_of_events
from topologies.engine.failures.user_code import failed
from topologies.engine.time.epoch_seconds import epoch_seconds
from topologies.engine.time.read_times import read_times
from topologies.graph.nodes.windowed import WindowedNode
from topologies.preflight.findings import Findings
from windowing.data.tuples import Tuple
from windowing.errors import ConfigError, WindboltError
from windowing.time.timestamps import show


def extracted_times(node: WindowedNode, spout: str, rows: pa.Table) -> Findings:
    """The times that a bolt's extractor gives to the first rows of a spout, and the first of those on which it fails.

    A row without a time is a warning, for a run counts it as invalid; where no row has one, or the extractor fails on a
    whole table, it is a problem. What the extractor prints goes to standard error.
    """
    if not rows.num_rows:
        return Findings()
    with redirect_stdout(sys.stderr):
        try:
            times, reasons, _ = read_times(node, rows)
        except WindboltError as error:
            return Findings(problems=(error,))
        except Exception as error:
            return Findings(problems=(_fails(node, spout, error, rows, "the first rows"),))
        wrong = [] if reasons is None else [row for row, reason in enumerate(reasons) if reason]
        if not wrong:
            warning = epoch_seconds(f"bolt {node.name!r}", node, int(times.max()))
            span = f"{show(int(times.min()))} to {show(int(times.max()))}, for {node.name}"
            return Findings((("times", span),), warnings=() if warning is None else (warning,))
        found = (_of_rows(node, spout, rows, wrong, str(reasons[wrong[0]])),)  # type: ignore[index]  # not None here
    return Findings(problems=found) if len(wrong) == rows.num_rows else Findings(warnings=found)


def _of_rows(node: WindowedNode, spout: str, rows: pa.Table, wrong: list[int], reason: str) -> ConfigError:
    which = f"{len(wrong):,} of the first {rows.num_rows:,} rows"
    error = None if node.bolt.settings.extractor_on_columns else _raised(node, rows.slice(wrong[0], 1))
    if error is not None:
        return _fails(node, spout, error, rows, which)
    return ConfigError(
        f"the timestamp extractor of bolt {node.name!r} gives no usable time to {which} of {spout!r}",
        why=f"{reason}, first for row {wrong[0]}",
        do="return a datetime or whole milliseconds for each event; a run counts such rows as invalid",
    )


def _raised(node: WindowedNode, row: pa.Table) -> Exception | None:
    """What the extractor raises for a row: the run has kept its text only, and not the line."""
    extractor = node.bolt.settings.timestamp_extractor
    assert extractor is not None
    try:
        extractor(Tuple(row.to_pylist()[0], 0, ""))
    except Exception as error:
        return error
    return None


def _fails(node: WindowedNode, spout: str, error: Exception, rows: pa.Table, which: str) -> ConfigError:
    settings = node.bolt.settings
    on_error = settings.extractor_on_error or ("stop" if settings.extractor_on_columns else "errors")
    stops = on_error == "stop" or not is_of_events(error)
    return ConfigError(
        f"the timestamp extractor of bolt {node.name!r} fails on {which} of {spout!r}",
        why=failed(node.name, 0, which, error, columns=rows.column_names).why,
        do=f"correct it; a run {'stops at such rows' if stops else 'counts such rows as invalid'}",
    )
