"""Writes docs/map.md: every folder and file of the source, with the first sentence of its docstring.

python -m tests.map_page
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.helpers import pages
from tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "map.md"
COMMAND = "python -m tests.map_page"
PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")

HEAD = f"""# Map of the source

For looking up which file does what. Written by `{COMMAND}` from the docstrings. How the folders go together is in
[how-it-works.md](how-it-works.md), the meaning of words in [glossary.md](glossary.md)."""


def folders() -> dict[Path, list[Path]]:
    """The files of each folder, without ``__init__.py``; what ``windbolt new`` copies is a user's, and left out."""
    files: dict[Path, list[Path]] = {}
    for path in sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        if not {"project", "testDsl"} & set(path.parts):
            files.setdefault(path.parent, []).extend([] if path.name == "__init__.py" else [path])
    return dict(sorted(files.items(), key=lambda item: item[0].relative_to(ROOT).parts))


def page() -> str:
    """The text of docs/map.md."""
    parts = [HEAD]
    for folder, files in folders().items():
        parts += [f"## {folder.relative_to(ROOT).as_posix()}/", first_sentence(folder / "__init__.py")]
        if files:
            rows = [f"| `{file.name}` | {first_sentence(file)} |" for file in files]
            parts.append("\n".join(["| file | |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def first_sentence(file: Path) -> str:
    """The first sentence of a file's docstring, in Markdown; empty where it has none."""
    text = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    text = " ".join(text.split("\n\n")[0].split())
    found = re.match(r".*?\.(?=\s+[A-Z`]|$)", text)
    return (found[0] if found else text).replace("``", "`").replace("|", "\\|")


def main() -> None:
    """Write the page."""
    pages.write(PAGE, page(), f"{sum(map(len, folders().values()))} files in {len(folders())} folders")


if __name__ == "__main__":
    main()
