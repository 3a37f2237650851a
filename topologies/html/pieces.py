"""Pieces of HTML: text, tables, and the frame around what one cell of a notebook shows."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from windowing.data.printable import cut, printable

_LONGEST = 400
"""Characters of one text that are shown."""

# Colours follow the page: currentColor is the colour of its text, the --jp- variables are those of JupyterLab's themes,
# and what is filled is translucent, so it is readable on a light ground and on a dark one.
_STYLE = """
.windbolt{--wb-text:var(--jp-content-font-color1,var(--vscode-editor-foreground,currentColor));
--wb-line:var(--jp-border-color1,rgba(128,128,128,.45));--wb-spout:#2f77c2;--wb-bolt:#b06a10;--wb-sink:#23855c;
--wb-good:#23855c;--wb-bad:#c9372c;color:var(--wb-text);font:13px/1.45 system-ui,sans-serif;overflow-x:auto}
@media (prefers-color-scheme:dark){.windbolt{--wb-spout:#5b9bdb;--wb-bolt:#d08b2e;--wb-sink:#3ba878;--wb-good:#3ba878;
--wb-bad:#e5625a}}
.windbolt h4{margin:2px 0 6px;font-size:14px;font-weight:600}
.windbolt p{margin:4px 0;white-space:pre-line}
.windbolt pre{margin:4px 0;color:inherit;background:none;font:12px/1.25 ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',
monospace;white-space:pre;overflow-x:auto}
.windbolt table{border-collapse:collapse;font:inherit;margin:4px 0;color:inherit;font-variant-numeric:tabular-nums}
.windbolt th,.windbolt td{padding:2px 10px 2px 0;text-align:left;background:none;border:0;
border-bottom:1px solid var(--wb-line);white-space:nowrap}
.windbolt details td:last-child{white-space:normal}
.windbolt .n{text-align:right}
.windbolt .dim{opacity:.75}
.windbolt .phase{border:1px solid currentColor;border-radius:9px;padding:0 8px;margin-left:6px;font-weight:400;
font-size:12px}
.windbolt .good{color:var(--wb-good)}
.windbolt .bad{color:var(--wb-bad)}
.windbolt svg{display:block;max-width:none}
""".replace("\n", "")


def text(value: object) -> str:
    """A value as text of HTML: nothing in it is markup, or steers what shows it; long ones are cut."""
    return html.escape(printable(cut(str(value), _LONGEST), keep="\n"), quote=True)


def framed(*parts: str) -> str:
    """What a cell shows, with the style that it needs; the parts are HTML."""
    return f"<style>{_STYLE}</style><div class='windbolt'>{''.join(parts)}</div>"


def heading(title: object, note: str = "") -> str:
    """A title, and HTML behind it."""
    return f"<h4>{text(title)}{note}</h4>"


def paragraph(words: object, kind: str = "") -> str:
    """A paragraph; ``kind`` is a class of the style: ``dim``, ``good``, ``bad``."""
    return f"<p class='{kind}'>{text(words)}</p>"


def monospaced(picture: str) -> str:
    """Text whose characters stand below each other, uncut."""
    return f"<pre>{html.escape(printable(picture, keep=chr(10)))}</pre>"


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], caption: str = "") -> str:
    """A table; numbers stand to the right, with commas between thousands."""
    rows = list(rows)
    numeric = [bool(rows) and all(isinstance(row[place], int | float) for row in rows) for place in range(len(titles))]
    kinds = [" class='n'" if right else "" for right in numeric]
    head = "".join(f"<th scope='col'{kind}>{text(title)}</th>" for title, kind in zip(titles, kinds, strict=True))
    body = "".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(value)}</td>" for value, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in rows
    )
    named = f"<caption class='dim' style='text-align:left'>{text(caption)}</caption>" if caption else ""
    return f"<table>{named}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int | float) and not isinstance(value, bool) else text(value)
