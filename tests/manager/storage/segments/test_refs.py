"""What a reference to rows tells of them without opening their file."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from manager.accounts import Accounts
from manager.keyed.retained_events import (
    ACCOUNTED,
    FINISHED,
    IN_LAST_WINDOW,
    RetainedEvents,
    write_flags,
    write_retained,
)
from manager.storage.manifest import BoltState
from manager.storage.segment_files import MemorySegments
from manager.storage.segments import Ref, Refs
from manager.storage.task_state import AssignedState, TaskState
from policies.watermarks import NONE
from topologies.engine.ticking import latest_seen
from topologies.topology import Topology
from windbolt import TopologyBuilder, spouts
from windowing import TupleWindow, WindowedBolt
from windowing.settings.kinds import Session

KEPT = ACCOUNTED | FINISHED | IN_LAST_WINDOW
"""An event that no window needs, and that is kept to be reported as expired."""


class Nothing(WindowedBolt):
    outputs = "v long"

    def execute(self, window: TupleWindow) -> None:
        return None


def ref_of(*flags: int) -> Ref:
    """A reference to events at 10, 20 ... microseconds with these flags."""
    times = np.arange(1, len(flags) + 1) * 10
    held = RetainedEvents(times=times, payload=pa.table({"v": times}))
    with MemorySegments().writer("0") as writer:
        return write_flags(writer, write_retained(writer, held, 1), np.array(flags, np.uint8), held, 1)


@pytest.mark.parametrize(
    ("flags", "needed", "has_live"),
    [
        ((ACCOUNTED, 0), 2, True),
        ((KEPT, 0), 2, True),
        ((KEPT, KEPT), 2, False),
        ((ACCOUNTED | FINISHED, KEPT), 1, False),
    ],
)
def test_rows_that_are_kept_to_expire_are_not_live(flags: tuple[int, ...], needed: int, has_live: bool) -> None:
    ref = ref_of(*flags)
    assert (ref.needed, ref.earliest_live is not None, ref.latest_live is not None) == (needed, has_live, has_live)


def test_the_times_of_events_are_those_of_the_first_and_the_last_however_they_came() -> None:
    times = np.array([20, 30, 10])
    with MemorySegments().writer("0") as writer:
        ref = write_retained(writer, RetainedEvents(times=times, payload=pa.table({"v": times})), 1)
    assert (ref.earliest_live, ref.latest_live) == (10, 30)


def chain() -> Topology:
    builder = TopologyBuilder("chain")
    builder.set_spout("in", spouts.memory("v long, ts timestamp"))
    builder.set_bolt("first", Nothing().with_tumbling_window("1s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_bolt("second", Nothing().with_window(Session("1s"))).global_grouping("first")
    return builder.build()


@pytest.mark.parametrize(("refs", "latest"), [([(KEPT, KEPT)], NONE), ([(KEPT, KEPT), (KEPT, 0)], 20), ([], NONE)])
def test_the_latest_event_of_a_bolt_behind_another_is_a_live_one(refs: list[tuple[int, ...]], latest: int) -> None:
    task = TaskState(AssignedState(), Refs(ref_of(*flags) for flags in refs))
    assert latest_seen(chain().windowed["second"], BoltState(Accounts(["first"]), [task]), [], 0) == latest
