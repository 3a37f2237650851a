"""Storm's rule of lateness, for tests that drive a window manager without a topology."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from policies.protocol import EvictionPolicy, TriggerPolicy
from policies.storm import TimeTriggerPolicy, last_window_end
from policies.watermarks import NONE, Admission, Decision
from windowing.settings.rules import Bounds, LateAction, LateBy

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Lateness:
    """An event is late if it is earlier than the last watermark, or at it where no later window holds it (ST-17).

    ``WindowedNode.admission`` has the rules of a bolt; here they are written out. Both call ``Admission.decide``.
    """

    eviction: EvictionPolicy | None = None
    trigger: TriggerPolicy | None = None

    def late(self, timestamps: NDArray[np.int64], watermark: int | None) -> NDArray[np.bool_]:
        """Which of these times (int64 microseconds) are late at this watermark; none before the first (None)."""
        count = len(timestamps)
        marks = np.broadcast_to(np.int64(NONE if watermark is None else watermark), count)
        _, codes, _ = self._admission.decide(timestamps, None, np.zeros(count, np.int8), marks, marks)
        late: NDArray[np.bool_] = codes == Decision.LATE_AT_ADMISSION
        return late

    @property
    def _admission(self) -> Admission:
        trigger = self.trigger
        return Admission(
            late_by=LateBy.WATERMARK,
            late_action=LateAction.DIVERT,
            by_own_mark=False,
            allowed=0,
            closes_after_end=False,
            last_end=last_window_end(self.eviction, trigger),
            holds_start=isinstance(trigger, TimeTriggerPolicy) and trigger.bounds is Bounds.START,
        )
