"""``python -m tests.mutation.wild FOLDER``: put back faults that were found by reading, and draw until each is found.

    python -m tests.mutation.wild FOLDER [--faults 38 40] [--cases 2000] [--seed 29]

Each fault is planted in a copy of the project of its own, below ``FOLDER``, by texts that stand there exactly once:
where the code has changed, the fault is to be written anew. Then the interpreter's cases are drawn in turn, or those of
one shape of topologies, until the answers differ. The exit status is the number of faults that were not found.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.places import ROOT
from tests.mutation.__main__ import COPIED

Replacement = tuple[str, str, str]
"""A file, what stands there once, and what is put in its place."""


@dataclass(frozen=True)
class Fault:
    """A fault that there was, and where cases are drawn that may show it."""

    what: str
    places: tuple[Replacement, ...]
    shape: str | None = None
    """The shape of topologies that are drawn; None: single bolts."""
    needs: tuple[str, ...] = ()
    """Words without which a drawn bolt cannot show it; such cases are passed over."""
    variant: str = ""
    """The way in which windbolt must come to its answer to show it; empty: any."""


_CALLS = "topologies/engine/fire/bolt_calls.py"
_PANES = "manager/keyed/fired_windows.py"

FAULTS = {
    37: Fault(
        "rows of a session that has grown are forgotten at its old end",
        (
            (
                _CALLS,
                "                    self._retractions.keep(window.windows)\n",
                "                    self._retractions.limit = self.item.frontiers.current or -(1 << 62)\n"
                "                    self._retractions.keep(window.windows)\n",
            ),
            (
                _CALLS,
                "        before, self._shown = self._shown, defaultdict(dict)\n",
                "        for known in self._shown.values():\n"
                "            for span in [each for each in known if each[1] <= self.limit]:\n"
                "                del known[span]\n"
                "        return\n"
                "        before, self._shown = self._shown, defaultdict(dict)\n",
            ),
        ),
        needs=("session", "panes"),
    ),
    38: Fault(
        "the row of a session that a repair splits is not taken back",
        (
            (
                _PANES,
                "return np.where(covers, owner, -1), split\n",
                "return np.where(covers, owner, -1), split & False\n",
            ),
            (_CALLS, "if span[0] < end and start < span[1]]", "if start <= span[0] and span[1] <= end]"),
        ),
        needs=("session", "panes"),
        variant="repaired",
    ),
    39: Fault(
        "lateness of sessions does not know of their longest duration",
        (
            (
                "topologies/engine/admission.py",
                "live_events=admission_context.live, kind=session,\n",
                "live_events=admission_context.live, kind=replace(session, max_duration=None),\n",
            ),
        ),
        needs=("max_duration", "late_by"),
    ),
    40: Fault(
        "a window that a firing has closed fires again with late events",
        (
            (
                _PANES,
                "again = takes_events & ended & has_fired & has_reason\n",
                "again = ended & has_fired & has_reason\n",
            ),
        ),
        needs=("'closes': True",),
    ),
    41: Fault(
        "panes are decided within a batch, by the watermark of its end",
        (
            (
                "topologies/engine/fire/assigned_task.py",
                "ended_until = closed_until if within_batch else max(",
                "ended_until = max(",
            ),
            (_PANES, " & (not moment.within_batch)\n", "\n"),
        ),
        needs=("session", "panes"),
    ),
    42: Fault(
        "an id lives for as long as the last window that its event's time can be in",
        (
            (
                "topologies/engine/duplicates.py",
                "if node.needed_until is not None:\n",
                "if node.last_end is not None:\n",
            ),
            ("topologies/engine/duplicates.py", "node.needed_until(times, ends)", "node.last_end(times, ends)"),
        ),
        needs=("message_id_field",),
    ),
    43: Fault(
        "keys are told apart by their hashes alone",
        (
            (
                "topologies/graph/groupings.py",
                "        state_tables = [table for table in state_tables if table.num_rows]\n",
                "        return hashes\n",
            ),
        ),
        needs=("'key'",),
    ),
    44: Fault(
        "distances are not taken from a value of the column, so large values lose their digits",
        (
            (
                "windowing/aggregates/accumulators.py",
                "        shifts = first_values.astype(np.float64, copy=False)\n",
                "        shifts = np.zeros(len(first_values))\n",
            ),
        ),
        "aggregate",
    ),
    45: Fault(
        "a repair that makes a session end earlier leaves when the next window ends",
        (
            (
                "topologies/checkpoints/repair.py",
                "        next_end = earliest if next_end is None else min(earliest, next_end)\n",
                "",
            ),
        ),
        needs=("session",),
        variant="repaired",
    ),
    46: Fault(
        "rows of a state table whose columns have other types go to the tasks of other keys",
        (
            (
                "topologies/checkpoints/rescale.py",
                "    keys = [route.as_keys(table.select(list(columns))) for table in tables]\n",
                "    keys = [each.select(list(columns)).rename_columns(route.movable.fields[0]) for each in tables]\n",
            ),
        ),
        needs=("'key'",),
        variant="rescaled",
    ),
}

_BOLTS = """
from tests.oracles.interpreter.holding import case, differs
for number in range({cases}):
    drawn = case(number, {seed})
    if drawn.made is None or not all(word in str(drawn.made) for word in {needs}) or {variant!r} not in drawn.variant:
        continue
    if differs(drawn.made, drawn.variant):
        print(number)
        break
"""
_TOPOLOGIES = """
from tests.oracles.interpreter.holding import hold, topology_case
for number in range({cases}):
    if hold([topology_case(number, {seed}, {shape!r})], small=False).differences:
        print(number)
        break
"""


def planted(fault: Fault, folder: Path) -> None:
    """Copies the project into a folder, with the fault. Raises ValueError where a text is not there exactly once."""
    folder.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        shutil.copytree(source, folder / name) if source.is_dir() else shutil.copy(source, folder / name)
    for path, before, after in fault.places:
        text = (folder / path).read_text("utf-8")
        if text.count(before) != 1:
            raise ValueError(f"{path} has {text.count(before)} times: {before.strip()}")
        (folder / path).write_text(text.replace(before, after), "utf-8")


def found_at(fault: Fault, folder: Path, cases: int, seed: int) -> int | None:
    """The number of the first case that shows a planted fault; None where none of so many does."""
    program = _BOLTS if fault.shape is None else _TOPOLOGIES
    program = program.format(cases=cases, seed=seed, needs=fault.needs, variant=fault.variant, shape=fault.shape)
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return int(run.stdout) if run.stdout.strip() else None


def main() -> int:
    """Plant the faults that are asked for, and look for each; the number of those that are not found."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation.wild", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", type=int, nargs="*", default=list(FAULTS))
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=29)
    options = parser.parse_args()
    missed = 0
    for number in options.faults:
        fault, folder = FAULTS[number], (options.folder / str(number)).absolute()
        planted(fault, folder)
        at = found_at(fault, folder, options.cases, options.seed)
        missed += at is None
        print(
            f"{number}: {fault.what}: {f'not among {options.cases} cases' if at is None else f'case {at}'}", flush=True
        )
    return missed


if __name__ == "__main__":
    sys.exit(main())
