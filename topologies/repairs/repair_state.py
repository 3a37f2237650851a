"""``windbolt.state.repair``: a savepoint in which stored events have other values, or are left out."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from manager.storage.manifest import Manifest
from manager.storage.segments.file_segments import FileSegments
from manager.storage.segments.segments import SegmentWriter
from topologies.checkpoints.notes.looked_at import checkpoint_at, known_timing, timing_of
from topologies.checkpoints.notes.timing_note import BoltTiming
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.savepoints.savepoint import Rewrite, StateChange, take_savepoint
from topologies.repairs.bolt_repair import BoltRepair
from topologies.repairs.given_events import GivenEvents
from topologies.state_tables.read_state import bolts, noted_bolt, stored_columns
from windowing.calls.checked import checked
from windowing.errors import CheckpointError, ConfigError


@checked
def repair(
    checkpoint: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    events: Mapping[str, Any],
    *,
    without: Mapping[str, Any] | None = None,
) -> pa.Table:
    """Take a savepoint whose stored events have other values; ``state.repair("ck/", "new/", {"revenue": rows})``.

    ``events``: by bolt, rows of ``state.read(checkpoint, bolt)["events"]`` with the values that they are to have: a
    pyarrow table, a DataFrame of pandas, or a list of dicts. An event that is not among them stays as it is, and so
    does a column that they lack. ``without``: by bolt, the rows of events that are taken out; those that were in no
    window yet are ``purged`` in the accounts.

    The checkpoint stays as it is, and no run may be on it. A run goes on from the destination, a folder or a store that
    holds nothing yet. Returns the table of ``state.bolts`` of it. If this is interrupted, no run begins there, and to
    call it again starts over.

    ConfigError for a bolt that is not there, and for one that keeps sums; DataError for a row that is not stored, for
    one that would belong elsewhere, for a value that its column cannot hold, and for an event that cannot be taken out;
    CheckpointError as for a savepoint. Nothing is written then.
    """
    place, source = os.fspath(destination), checkpoint_at(os.fspath(checkpoint))
    repairing = _Repairing(source, events, without or {})
    source.lock.share()
    try:
        take_savepoint(source, place, change=StateChange(repairing.prepare, repairing.names))
    finally:
        source.lock.release()
    return bolts(place)


class _Repairing:
    """What is to be repaired of a checkpoint."""

    def __init__(self, source: PairedCheckpoint, events: Mapping[str, Any], without: Mapping[str, Any]) -> None:
        self.source, self.names = source, sorted({*events, *without})
        if not self.names:
            raise ConfigError(
                f"checkpoint {source.path!r} has nothing to be repaired",
                why="neither events with other values are given, nor any to be taken out",
                do="give some, by the name of their bolt; or take a plain savepoint: windbolt savepoint",
            )
        known = known_timing(source)
        self.timing = {name: timing_of(known, name, None) for name in self.names}
        for name, timing in self.timing.items():
            self._check_bolt(name, timing)
        self.given = {
            name: (
                GivenEvents.of(name, events[name]) if name in events else None,
                GivenEvents.of(name, without[name]) if name in without else None,
            )
            for name in self.names
        }

    def prepare(self, manifest: Manifest) -> Rewrite:
        """Look at all of it."""
        store = FileSegments(f"{self.source.files.root}/segments", self.source.uri)
        repairs = []
        for name in self.names:
            if name not in manifest.bolts:
                raise _without_events(self.source.path, name)
            columns, _ = stored_columns(self.source, name, self.timing[name])
            state = manifest.bolts[name]
            repairs.append(BoltRepair.of(name, state, self.timing[name], store, columns, self.given[name]))

        def rewrite(writer: SegmentWriter) -> Manifest:
            after = Manifest.from_values(manifest.to_values())
            after.bolts |= {each.name: each.written(writer) for each in repairs}
            return after

        return rewrite

    def _check_bolt(self, name: str, timing: BoltTiming) -> None:
        if "sums" in noted_bolt(self.source, name):
            raise ConfigError(
                f"the events of bolt {name!r} cannot be repaired",
                why="it adds them up as they come, and keeps sums of several",
                do="give its events to a new checkpoint, from where you have them: windbolt.state.begin; or let the "
                "bolt start over: windbolt reset",
            )
        if timing.decisive is None:
            raise CheckpointError(
                f"checkpoint {self.source.path!r} does not say by which columns events belong to their windows",
                why="its last run was one of an earlier windbolt, which noted nothing about that",
                do="run the topology on it once more with this windbolt",
            )


def _without_events(path: str, name: str) -> ConfigError:
    return ConfigError(
        f"bolt {name!r} of checkpoint {path!r} has no events",
        why="it has been in no batch yet",
        do="leave it out",
    )
