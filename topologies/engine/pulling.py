"""Rows are pulled from a spout that a user has written."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from manager.remote import is_transient
from topologies.engine.failures import cause
from topologies.engine.source_splits import PAUSES
from topologies.io.pulled import PulledSpout
from topologies.io.spout_columns import Defaults
from windowing.errors import SchemaError, SpoutError
from windowing.schema import DEFAULT_STREAM, format_schema, tables
from windowing.spout import Spout

_SECONDS = 1.0
"""Time for which a batch is gathered, at most, apart from the last call."""


@dataclass(frozen=True)
class Pulled:
    """Rows that a spout has returned."""

    rows: pa.Table
    offset: Any
    """Offset behind the rows."""


class Puller:
    """A user's spout during a run."""

    def __init__(self, name: str, pulled: PulledSpout, offset: Any = None) -> None:
        """``name`` of the spout in the topology; ``offset`` behind what was pulled before, None at the beginning."""
        self._name, self._spout = name, pulled.spout
        self._schema = pulled.outputs()[DEFAULT_STREAM]
        self._defaults = Defaults.of(pulled.defaults, self._schema)
        self._offset = offset
        self._is_open = False

    def pull(self, limit: int | None = None) -> Pulled | None:
        """Returns the next rows; None where there are none now. SpoutError for exceptions of the user's code, and where
        it returns something else."""
        limit = limit or self._spout.rows_per_batch
        parts: list[pa.Table] = []
        number, started = 0, time.monotonic()
        while number < limit:
            answer = self._asked(limit - number)
            if answer is None:
                break
            rows, self._offset = answer
            if not rows.num_rows:
                break
            parts.append(rows)
            number += rows.num_rows
            if time.monotonic() - started >= _SECONDS:
                break
        return Pulled(pa.concat_tables(parts).combine_chunks(), self._offset) if parts else None

    @property
    def wants_acknowledgements(self) -> bool:
        """True if the user's spout wants to know of batches that are committed."""
        return type(self._spout).acknowledge is not Spout.acknowledge

    def acknowledge(self, offset: Any) -> None:
        """Called when a batch is committed, with the rows before this offset."""
        self._open()
        with self._failing(f"acknowledge({offset!r})", "the batch is committed, and nothing is lost"):
            self._spout.acknowledge(offset)

    def close(self) -> None:
        """Close the user's spout, if it was opened."""
        if self._is_open:
            self._is_open = False
            with self._failing("close()", "what was committed is not lost"):
                self._spout.close()

    def _open(self) -> None:
        if not self._is_open:
            with self._failing("open()", "nothing was read"):
                self._spout.open()
            self._is_open = True

    def _asked(self, limit: int) -> tuple[pa.Table, Any] | None:
        """Calls the user's spout and returns its result; tries again after an error that may pass."""
        for pause in PAUSES:
            try:
                return self._once(limit)
            except SpoutError as error:
                if not error.transient:
                    raise
                time.sleep(pause)
        return self._once(limit)

    def _once(self, limit: int) -> tuple[pa.Table, Any] | None:
        self._open()
        call = f"read({json.dumps(self._offset, ensure_ascii=False)}, {limit})"
        with self._failing(call, "no row is lost: the next run asks with this offset again"):
            answer = self._spout.read(self._offset, limit)
        if answer is None:
            return None
        if not isinstance(answer, tuple) or len(answer) != 2:
            raise self._error(
                f"{call} returned {type(answer).__name__} {answer!r:.60}",
                why="it returns the next rows and the offset behind them, or None",
                do="return rows, offset",
            )
        rows, offset = answer
        try:
            plain = json.loads(json.dumps(offset, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise self._error(
                f"{call} returned the offset {offset!r:.60}",
                why=f"offsets are kept as JSON, and {error}",
                do="return numbers, texts, lists or dicts with texts as keys",
            ) from error
        if plain is None:
            raise self._error(
                f"{call} returned the offset None",
                why="that is the offset of the beginning, from which all rows would be read again",
                do="return the offset behind the rows; or None alone, where there are none",
            )
        return self._table(call, rows), plain

    def _table(self, call: str, rows: Any) -> pa.Table:
        with self._failing(call, "no row is lost: the next run asks with this offset again"):  # a generator's errors
            try:
                completed = self._defaults.completed(rows)
                found = [table for _, table in tables(completed, {DEFAULT_STREAM: self._schema})]
            except SchemaError as error:
                raise self._error(
                    f"{call} returned rows that are not of the columns {format_schema(self._schema)!r}",
                    why=f"{error.what}: {error.why}" if error.what.startswith("column") else error.why,
                    do="return rows of these columns and types",
                ) from error
        return pa.concat_tables(found) if found else self._schema.empty_table()

    @contextmanager
    def _failing(self, call: str, after: str) -> Iterator[None]:
        """Turn an exception of the user's code into a SpoutError with its line."""
        try:
            yield
        except SpoutError:
            raise
        except (Exception, SystemExit) as error:  # else sys.exit() would end a run as if it had succeeded
            raise self._error(
                f"{call} failed", why=cause(error, ()), do=f"fix it and rerun; {after}", transient=is_transient(error)
            ) from error

    def _error(self, what: str, *, why: str, do: str, transient: bool = False) -> SpoutError:
        return SpoutError(
            f"spout {self._name!r}: {type(self._spout).__name__}.{what}",
            why=why,
            do=do,
            spout=self._name,
            transient=transient,
        )
