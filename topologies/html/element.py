"""An element of HTML or SVG as text."""

from __future__ import annotations

import html

from windowing.data.printable import cut, printable


def element(name: str, *content: str, **attributes: object) -> str:
    """An element with its attributes, and what is in it (markup already).

    ``_`` in the name of an attribute is ``-``, one at its end is left out (``class_``); numbers have one decimal; what
    is None or False is left out, and True stands without a value.
    """
    given = "".join(
        _attribute(key, value) for key, value in attributes.items() if value is not None and value is not False
    )
    if name in ("rect", "circle", "path", "input", "meta", "link") and not content:
        return f"<{name}{given}/>" if name not in ("input", "meta", "link") else f"<{name}{given}>"
    return f"<{name}{given}>{''.join(content)}</{name}>"


def escaped(value: object, most: int = 400) -> str:
    """A value as text of HTML or SVG: nothing in it is markup, or steers what shows it; what is beyond ``most``
    characters is cut."""
    return html.escape(printable(cut(str(value), most)), quote=True)


def _attribute(key: str, value: object) -> str:
    name = key.removesuffix("_").replace("_", "-")
    if value is True:
        return f" {name}"
    shown = f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
    return f" {name}='{html.escape(printable(shown), quote=True)}'"
