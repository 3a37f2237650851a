"""Times and durations as scenarios write them, in whole microseconds."""

import re

_UNITS = {"us": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def duration(text: str) -> int:
    """`5ms`, `-1us`: microseconds."""
    found = re.fullmatch(r"(-?\d+)(us|ms|s|m|h|d)", text)
    assert found is not None, text
    return int(found[1]) * _UNITS[found[2]]


def moment(milliseconds: int) -> int:
    """Whole milliseconds since 1970, in microseconds."""
    return milliseconds * 1000


def floor_multiple(time: int, step: int, offset: int = 0) -> int:
    """The largest `offset + n * step` that is not after the time."""
    return (time - offset) // step * step + offset


def above(time: int, step: int) -> int:
    """The smallest multiple of the step that is after the time."""
    return (time // step + 1) * step
