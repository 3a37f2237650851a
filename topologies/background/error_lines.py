"""The lines in which the error of a failed run is shown."""

from __future__ import annotations

from windowing.data.printable import error_text, printable
from windowing.errors import WindboltError


def in_lines(error: BaseException) -> str:
    """An error in the lines of the command: what, why, do; of one that is not windbolt's, its name and its message."""
    if not isinstance(error, WindboltError):
        return error_text(error)
    parts = (("why", error.why), ("do", error.do))
    lines = [error.what, *(f"  {word + ':':<5}{part}" for word, part in parts if part)]
    return printable("\n".join(lines), keep="\n\t")
