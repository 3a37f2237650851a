"""What every family of windows offers the task that fires it (decision 42)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from manager.keyed.key_states import Forgotten
from manager.keyed.pane_states import PaneStates
from manager.slices.slicing import Slicing
from manager.storage.segments.ref import Ref
from manager.storage.segments.segments import SegmentWriter
from manager.storage.task_state import WindowsState
from topologies.engine.admission.deciding import AdmissionContext
from topologies.engine.fire.admitting import Admitted
from windowing.window import TupleWindow

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True)
class SummedWindows:
    """Windows whose results are joined from partial sums; the bolt is not called for them."""

    windows: Sequence[TupleWindow]
    slicing: Slicing


@dataclass(frozen=True)
class StillOpen:
    """The windows that are open after an evaluation. Only for a bolt that retracts: it forgets the rows of others."""

    windows: PaneStates


Firing: TypeAlias = TupleWindow | SummedWindows | Forgotten | StillOpen
"""What is due: a window, windows of partial sums, or a key that is forgotten; or which windows may still fire."""


@dataclass(frozen=True)
class TaskSnapshot:
    """The windows of a task after a batch."""

    windows: WindowsState
    refs: list[Ref]
    """The events that are still needed."""
    accounted_by_stream: list[int]
    """Per input, the events among them that are already in an account; empty for none."""
    counts: Mapping[str, NDArray[np.int64]] = field(default_factory=dict)
    """Per account, the events that entered it in this batch, by input."""
    counters: Mapping[str, int] = field(default_factory=dict)
    """What is counted besides, by name."""


class TaskWindows(Protocol):
    """The windows of one task in one batch, restored from the state after the batch before.

    Called in this order: ``admission_context`` while events are admitted, ``accept``, ``advance``, ``snapshot``.
    """

    @property
    def admission_context(self) -> AdmissionContext:
        """What admission may ask about the events of earlier batches."""
        ...

    def accept(self, admitted: Admitted) -> None:
        """Called with the admitted events of the batch, where there are any."""
        ...

    def advance(self) -> Iterator[Firing]:
        """Yield what is due, in order. Exhausted before ``snapshot`` is called."""
        ...

    def snapshot(self, writer: SegmentWriter) -> TaskSnapshot:
        """Write what is still needed; return the state after the batch."""
        ...
