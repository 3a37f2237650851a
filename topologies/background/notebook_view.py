"""How a run shows itself in a notebook: as HTML, which is replaced while the run is in progress."""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from typing import Any, Protocol

from topologies.background.error_lines import in_lines
from topologies.background.status import RunPhase, RunStatus, counted, show_moment
from topologies.engine.batch.report import bolts_html
from topologies.html.pieces import framed, heading, paragraph, table, text
from topologies.run.summary import Summary

_EVERY = 0.5
"""Seconds between two looks at a run that is shown."""
_KINDS = {RunPhase.FINISHED: "good", RunPhase.FAILED: "bad"}
"""By phase, the class of the style in which it is told."""


class Shown(Protocol):
    """A run, as far as it is shown."""

    name: str
    error_was_told: bool

    @property
    def status(self) -> RunStatus: ...
    @property
    def summary(self) -> Summary: ...
    @property
    def failure(self) -> BaseException | None: ...
    def end_within(self, seconds: float) -> bool: ...


def run_html(run: Shown) -> str:
    """A run as it is now, as HTML."""
    status, summary = run.status, run.summary
    phase = f" <span class='phase {_KINDS.get(status.phase, '')}'>{text(status.phase)}</span>"
    facts = [f"since {show_moment(status.since)}", counted(status.batches, "batch", "batches")]
    facts += [f"{counted(status.rows, 'row')} read", f"{counted(status.emitted, 'row')} emitted"]
    parts = [heading(run.name, phase), paragraph(" · ".join(facts), "dim")]
    if run.failure is not None:
        parts.append(paragraph(in_lines(run.failure), "bad"))
    if summary.last is not None:
        parts.append(bolts_html(summary.last.bolts))
    held = [
        (bolt, stream, show_moment(watermark))
        for bolt, inputs in status.inputs.items()
        if len(inputs) > 1
        for stream, watermark in inputs.items()
    ]
    if held:
        parts.append(table(["bolt", "input", "its watermark"], held))
    parts += [paragraph(complaint, "bad") for complaint in summary.complaints]
    return framed(*parts)


class Display:
    """A run in the output of cells of a notebook, each of which is kept up to date."""

    def __init__(self, run: Shown) -> None:
        self._run = run
        self._handles: list[Any] = []
        self._cell: object = None
        self._last: RunStatus | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def show(self) -> None:
        """Show the run in the output of this cell, once; without a notebook as a line of text."""
        shell = notebook()
        if shell is None:
            sys.stdout.write(f"{self._run!r}\n")
            return
        cell = getattr(shell, "execution_count", None)
        if self._cell is not None and cell == self._cell:
            return  # `topology.start(...)` has shown it, and is the last expression of its cell too
        self._cell = cell
        display = sys.modules["IPython.display"].display
        self._handles.append(display(self._bundle(), raw=True, display_id=True))
        if self._thread is None:
            # In no cell's context: an update belongs to the cell that is executed then, whichever shows the run.
            self._thread = threading.Thread(target=self._follow, name="windbolt-display", daemon=True)
            self._thread.start()

    def refresh(self, *, again: bool = False) -> None:
        """Bring what is shown up to date, if anything has changed, or ``again`` in any case.

        A program that executes notebooks hears of changes only while a cell is executed; who waits says it again.
        """
        with self._lock:
            now = self._run.status
            if not self._handles or (now == self._last and not again):
                return
            self._last, bundle = now, self._bundle()
            for handle in self._handles:
                with suppress(Exception):  # a kernel that ends has nowhere to show anything
                    handle.update(bundle, raw=True)

    def _follow(self) -> None:
        while not self._run.end_within(_EVERY):
            self.refresh()
        self.refresh()

    def _bundle(self) -> dict[str, str]:
        if self._run.status.phase is RunPhase.FAILED:
            self._run.error_was_told = True
        return {"text/html": run_html(self._run), "text/plain": repr(self._run)}


def notebook() -> Any:
    """The shell of the notebook that this process runs for; None elsewhere, as in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell if hasattr(shell, "kernel") else None
