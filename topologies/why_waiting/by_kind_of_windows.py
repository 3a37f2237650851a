"""Answers why a window has not fired: by the kind of windows that a bolt has."""

from __future__ import annotations

from topologies.why_waiting.explanation import Explanation
from topologies.why_waiting.other_windows import OtherWindows
from topologies.why_waiting.why_answer import WhyAnswer


def answered(explanation: Explanation) -> WhyAnswer:
    """The answer to the question of an explanation."""
    timing = explanation.timing
    if explanation.manifest.closing:
        return explanation.ended()
    if timing.policies:
        return OtherWindows(explanation).of_policies()
    if timing.trigger:
        return OtherWindows(explanation).of_trigger()
    if explanation.regular is not None and not timing.per_key:
        return explanation.of_regular_windows(explanation.regular)
    if timing.assigners:
        return OtherWindows(explanation).of_open_windows()
    return OtherWindows(explanation).of_counts()
