"""How long, and how many, events a bolt holds, against what the topology allows (ST-22, ST-23)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from windowing.errors import ConfigError
from windowing.time.durations import Count, Duration

if TYPE_CHECKING:
    from windowing.settings import WindowSettings


def limits(
    name: str, settings: WindowSettings, message_timeout: Duration | None, max_spout_pending: int | None
) -> Iterator[ConfigError]:
    """What bolt ``name`` holds for longer, or more of, than the topology allows; None: as it likes.

    Length plus slide, as Storm has it; of other kinds the length, where what is declared bounds it.
    """
    lengths = _lengths(settings)
    time = Duration(sum(length.micros for length in lengths if isinstance(length, Duration)))
    if message_timeout is not None and time > message_timeout:
        yield ConfigError(
            f"bolt {name!r}: window duration (length + sliding interval) {time} is more than the "
            f"message timeout {message_timeout}",
            why="its events are kept that long in the checkpoint, and message_timeout "
            "is the longest that the topology allows",
            do="shorten the window, or raise message_timeout, or leave it out",
        )
    count = sum(length.value for length in lengths if isinstance(length, Count))
    if max_spout_pending is not None and count > max_spout_pending:
        yield ConfigError(
            f"bolt {name!r}: window count (length + sliding interval) {count} is more than max_spout_pending "
            f"{max_spout_pending}",
            why="each of its tasks holds as many events before it lets go of them, and the topology allows no more",
            do="shorten the window, or raise max_spout_pending, or leave it out",
        )


def _lengths(settings: WindowSettings) -> list[Duration | Count]:
    """What a bolt holds at least: the sum of these."""
    if settings.key_trigger is not None:
        return []  # its rules say when its windows end
    if not settings.kinds:
        return [each for each in (settings.length, settings.slide) if each is not None]
    held = [kind.least_held for kind in settings.kinds]
    spans = [each for each in held if isinstance(each, Duration)]
    counts = [each for each in held if isinstance(each, Count)]
    return [max([Duration(0), *spans]), *counts[:1]]
