"""Numbers and durations in readable form."""

from __future__ import annotations

_UNITS = ((86_400_000_000, "d"), (3_600_000_000, "h"), (60_000_000, "m"), (1_000_000, "s"))


def spoken(micros: int) -> str:
    """A duration in its two largest units: ``1h 5m``, ``12.5s``, ``20ms``."""
    if micros < 1000:
        return f"{micros}us" if micros else "0s"
    if micros < 1_000_000:
        return f"{micros / 1000:.4g}ms"
    if micros < 60_000_000:
        return f"{micros / 1e6:.4g}s"
    index = next(index for index, (size, _) in enumerate(_UNITS) if micros >= size)
    (size, unit), (smaller, small) = _UNITS[index : index + 2]
    rest = micros % size // smaller
    return f"{micros // size}{unit}" + (f" {rest}{small}" if rest else "")


def number(value: float) -> str:
    """A whole number with commas between thousands."""
    return f"{value:,.0f}"


def byte_size(value: int) -> str:
    """A number of bytes in the largest unit: ``1.2 GiB``, ``300 KiB``."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if value >= 1 << power:
            return f"{value / (1 << power):.3g} {unit}"
    return f"{value} B"
