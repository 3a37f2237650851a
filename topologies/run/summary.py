"""The summary of a run that has ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from topologies.engine.batch.report import BatchReport, bolts_html
from topologies.engine.work.bolt_work import BoltWork, merge_work
from topologies.html.pieces import framed, heading, paragraph
from topologies.run.advice import Advice
from topologies.run.bolt_totals import BoltTotals
from windowing.calls.checked import checked

if TYPE_CHECKING:
    import pandas as pd

_COMPLAINTS = 10
"""Maximum number of messages about unreadable input that a summary keeps."""


@dataclass
class Summary:
    """The summary of a run that has ended: what ``run_local`` and ``run_on_spark`` return."""

    batches: int = 0
    """Number of micro-batches of this run."""
    rows: int = 0
    """Number of rows that this run read from spouts, without unreadable ones."""
    seconds: float = 0.0
    """Wall time."""
    last: BatchReport | None = None
    """Report of the last batch; its accounts are the totals."""
    complaints: list[str] = field(default_factory=list)
    """The first few messages about unreadable input."""
    stopped: bool = False
    """Whether it was asked to stop before its end: it ended after the batch in hand, and its windows stayed open."""
    before: dict[str, BoltTotals] = field(default_factory=dict)
    """What the bolts had done in earlier runs on the checkpoint; empty where it is the first."""
    rescaled: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Per bolt whose state was moved to other tasks (``allow_rescale``): how many tasks it had before, and has."""

    new_columns: dict[str, list[str]] = field(default_factory=dict)
    """Per bolt, the columns that its spouts have now and had not in the run before; events from before have nulls
    there, or a default."""
    new_column_defaults: dict[str, dict[str, str]] = field(default_factory=dict)
    """Per bolt and new column that has a default: what events from before have there, in words."""

    changed_files: int = 0
    """How many files were found to have been changed after they were read; they are not read again."""
    restarts: int = 0
    """How often the run was started again after a failure (``RunOptions.restart``)."""
    work: dict[str, BoltWork] = field(default_factory=dict)
    """Per bolt, and for the reading of input (``""``): what it cost in this run."""
    advice: list[Advice] = field(default_factory=list)
    """What the run advises, once it has ended: which bolt took the most time, and what to declare. Empty for a run that
    was short or small."""

    def __repr__(self) -> str:
        end = ", stopped" if self.stopped else ""
        told = f", {len(self.complaints)} complaints" if self.complaints else ""
        return f"<Summary: {self.rows} rows in {self.batches} batches, {self.seconds:.3g} s{end}{told}>"

    def _repr_html_(self) -> str:
        facts = f"{self.rows:,} rows · {self.batches:,} batches · {self.seconds:.2f} s"
        parts = [heading("summary"), paragraph(facts + (" · stopped" if self.stopped else ""), "dim")]
        if self.last is not None:
            parts.append(bolts_html(self.last.bolts))
        parts += [paragraph(complaint, "bad") for complaint in self.complaints]
        return framed(*parts, *(paragraph(advice.text, "dim") for advice in self.advice))

    @checked
    def to_pandas(self) -> pd.DataFrame:
        """A row for each windowed bolt, by its name: what it has done in this run. ``windows`` it fired, ``emitted`` in
        rows, and its accounts, except for the events that are pending."""
        import pandas as pd

        rows = {
            name: {"windows": bolt.fired, "emitted": sum(bolt.emitted.values()), **bolt.accounts}
            for name, bolt in self.this_run().items()
        }
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("bolt")

    @checked
    def this_run(self) -> dict[str, BoltTotals]:
        """What the windowed bolts have done in this run alone."""
        bolts = {} if self.last is None else self.last.bolts
        return {
            name: BoltTotals(
                _less(
                    {account: count for account, count in bolt.accounts.items() if account != "pending"},
                    before.accounts,
                ),
                bolt.fired - before.fired,
                _less(bolt.emitted, before.emitted),
            )
            for name, bolt in bolts.items()
            for before in [self.before.get(name, _NOTHING)]
        }

    def note(self, report: BatchReport) -> None:
        """Add the report of a batch."""
        self.batches += 1
        self.rows += report.rows
        self.last = report
        merge_work(self.work, report.work)
        self.complaints.extend(report.complaints[: _COMPLAINTS - len(self.complaints)])

    @checked
    def to_json(self) -> dict[str, Any]:
        """The summary as plain JSON."""
        return {
            "summary": True,
            "batches": self.batches,
            "rows": self.rows,
            "seconds": round(self.seconds, 3),
            "complaints": self.complaints,
            "stopped": self.stopped,
            "last": None if self.last is None else self.last.to_json(),
            "this_run": {
                name: {"accounts": bolt.accounts, "fired": bolt.fired, "emitted": bolt.emitted}
                for name, bolt in self.this_run().items()
            },
            **({"advice": [advice.to_json() for advice in self.advice]} if self.advice else {}),
            **({"changed_files": self.changed_files} if self.changed_files else {}),
            **({"restarts": self.restarts} if self.restarts else {}),
            **({"new_columns": self.new_columns} if self.new_columns else {}),
            **({"new_column_defaults": self.new_column_defaults} if any(self.new_column_defaults.values()) else {}),
            **({"rescaled": {name: list(tasks) for name, tasks in self.rescaled.items()}} if self.rescaled else {}),
        }


def _less(totals: dict[str, int], before: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in totals.items()}


_NOTHING = BoltTotals({}, 0, {})
