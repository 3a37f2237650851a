"""Text as wide as a terminal, and in the characters that it has."""

from __future__ import annotations

from rich.console import ConsoleOptions
from rich.text import Text

_ASCII = str.maketrans("●✗○·◆◇─┬┊┄▌╱…✓–#", "*xo.+%-+:.|/~v-#")


def fit(line: Text, options: ConsoleOptions) -> Text:
    line = in_its_characters(line, options)
    line.no_wrap, line.overflow = True, "ellipsis" if not options.ascii_only else "crop"
    return line


def in_its_characters(text: Text, options: ConsoleOptions) -> Text:
    if not options.ascii_only:
        return text
    copy = text.copy()
    copy.plain = text.plain.translate(_ASCII).replace("≠", "!")
    return copy
