"""The colours of pages and pictures, on a light ground and on a dark one, and their font."""

from __future__ import annotations

from collections.abc import Mapping

# Okabe and Ito's colours, which people with any colour vision tell apart, darkened or lightened until text in them
# reads well on its ground; no two fates differ in colour alone.
LIGHT: Mapping[str, str] = {
    "surface": "#ffffff",
    "panel": "#f6f7f9",
    "text": "#1c2330",
    "dim": "#5d6675",
    "grid": "#e6e9ee",
    "rule": "#d4d9e1",
    "window": "#5b4bb3",
    "watermark": "#009e73",
    "watermark-text": "#00694d",
    "windowed": "#0072b2",
    "pending": "#5d6675",
    "late": "#b84500",
    "early": "#b07800",
    "adjusted": "#a8407f",
}
DARK: Mapping[str, str] = {
    "surface": "#14181f",
    "panel": "#1c222c",
    "text": "#e8ebf0",
    "dim": "#9aa4b2",
    "grid": "#262d38",
    "rule": "#38414e",
    "window": "#b3a6ff",
    "watermark": "#2fc796",
    "watermark-text": "#4fd9ac",
    "windowed": "#6bbdf0",
    "pending": "#a5afbd",
    "late": "#ff8f52",
    "early": "#f0b429",
    "adjusted": "#eb8fc4",
}
FONT = "system-ui,-apple-system,'Segoe UI',Roboto,'Liberation Sans','DejaVu Sans',sans-serif"


def variables(palette: Mapping[str, str]) -> str:
    """A palette as the declarations of CSS variables."""
    return "".join(f"--{name}:{colour};" for name, colour in palette.items())
