"""README as a package index shows it: links to files of the repository would lead nowhere there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_RELATIVE = re.compile(r"\[([^\[\]]+)\]\((?![a-z]+:|#)([^)\s]+)\)")
_NOTE = "\n\nThe files named here are in the source distribution.\n"


def for_an_index(text: str, base: str | None) -> str:
    """Returns the README with links to files as links below ``base``, or as plain words if the project has no place on
    the web. Code blocks do not change."""

    def linked(found: re.Match[str]) -> str:
        words, path = found.groups()
        return words if base is None else f"[{words}]({base.rstrip('/')}/{path})"

    parts = _FENCE.split(text)
    shown = "".join(part if part.startswith("```") else _RELATIVE.sub(linked, part) for part in parts)
    return shown if base is not None else shown.rstrip() + _NOTE


class ReadmeHook(MetadataHookInterface):
    """Writes the readme of a distribution. Its relative links become links below the project's url ``Files``."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme of the distribution."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        base = metadata.get("urls", {}).get("Files")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_an_index(text, base)}
