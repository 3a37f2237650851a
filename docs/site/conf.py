"""How Sphinx makes the site of README.md, CHANGELOG.md and the pages of docs/, as they are on a code host.

The source folder is the root of the project, so relative links are the same on the site and on a code host. What a page
on a code host cannot have is added here, while the site is built: the order of pages, from the tables of docs/guide.md
and docs/decisions/README.md, and all docstrings, at the end of the sections of docs/names.md.
"""

from __future__ import annotations

import importlib
import inspect
import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pygments.lexers.special import TextLexer

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

project = "windbolt"
copyright = "The windbolt authors"  # noqa: A001
html_title = "windbolt"
extensions = ["myst_parser", "sphinx.ext.autodoc"]

root_doc = "README"
include_patterns = ["README.md", "CHANGELOG.md", "docs/*.md", "docs/decisions/*.md", "tests/README.md"]
exclude_patterns = [".*", "build", "dist", "artifacts", "spark-warehouse"]

myst_heading_anchors = 4  # the anchors of a code host

default_role = "code"
autodoc_typehints = "none"  # signatures would be longer than what they say
autodoc_member_order = "bysource"
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "pydata_sphinx_theme"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_sidebars = {"**": ["pages.html"]}
html_theme_options = {
    "navbar_center": [],
    "footer_start": ["copyright"],
    "footer_center": [],
    "footer_end": [],
    "show_toc_level": 2,
}
html_show_sourcelink = False

TABLES_OF_PAGES = {"README": "docs/guide.md", "docs/decisions/README": "docs/decisions/README.md"}
"""The page that orders others, and the page whose tables name them."""
LINK = re.compile(r"(?<!!)\[([^\[\]]+)\]\(([^()#:]+)\)")


def setup(app: Any) -> None:
    """Called by Sphinx when it starts."""
    app.add_lexer("hocon", TextLexer)  # Pygments has none
    app.connect("source-read", prepare_page)
    app.connect("autodoc-process-docstring", mark_examples)
    app.connect("build-finished", lead_to_first_page)


def prepare_page(app: Any, name: str, source: list[str]) -> None:
    """Called with the text of each page before it is parsed."""
    text = without_links_to_folders(source[0], (ROOT / name).parent)
    if name in TABLES_OF_PAGES:
        text += "".join(toctree(caption, pages) for caption, pages in ordered_pages(name))
    if name == "docs/names":
        text = with_docstrings(text)
    source[0] = text


def without_links_to_folders(text: str, home: Path) -> str:
    """Returns the text with links to the page of a folder instead of the folder; without that page only its words
    stay."""

    def replaced(link: re.Match[str]) -> str:
        words, target = link.groups()
        if not (home / target).is_dir():
            return link[0]
        page = home / target / "README.md"
        return f"[{words}]({target.rstrip('/')}/README.md)" if page.exists() and "docs" in page.parts else words

    return LINK.sub(replaced, text)


def ordered_pages(name: str) -> list[tuple[str, list[str]]]:
    """Returns the pages below one that orders others, by caption, as Sphinx finds them from any page."""
    page = TABLES_OF_PAGES[name]
    text = without_links_to_folders((ROOT / page).read_text(encoding="utf-8"), (ROOT / page).parent)
    tables = [(caption, [posixpath.join(posixpath.dirname(page), each) for each in pages])
              for caption, pages in tables_of_pages(text)]  # fmt: skip
    own = [] if page == f"{name}.md" else [("", [page])]
    return [(caption, [f"/{posixpath.normpath(each)}" for each in pages]) for caption, pages in [*own, *tables]]


def tables_of_pages(text: str) -> list[tuple[str, list[str]]]:
    """Returns the pages in the first column of each table, with the caption of the table: a line in bold before it."""
    tables: list[tuple[str, list[str]]] = [("", [])]
    for line in text.splitlines():
        caption = re.fullmatch(r"\*\*(.+)\*\*", line)
        page = re.match(r"\| \[[^]]+\]\(([\w/.-]+\.md)\)", line)
        if caption:
            tables.append((caption[1], []))
        elif page:
            tables[-1][1].append(page[1])
    return [table for table in tables if table[1]]


def toctree(caption: str, pages: list[str]) -> str:
    """Returns the order of pages for Sphinx; it is in the sidebar, not on the page."""
    head = f":caption: {caption}\n" if caption else ""
    listed = "\n".join(pages)
    return f"\n\n```{{toctree}}\n:hidden:\n{head}\n{listed}\n```\n"


def with_docstrings(text: str) -> str:
    """docs/names.md with the docstrings of a module's names at the end of the module's section."""
    head, *sections = re.split(r"^## (windbolt[\w.]*)\n", text, flags=re.M)
    parts, documented = [head], {}
    for module, section in zip(sections[::2], sections[1::2], strict=True):
        names = re.findall(r"^\| `(\w+)", section, re.M)
        directives = "\n".join(directives_for(module, names, documented))
        linked = re.sub(r"^\| `(\w+)([^`]*)`", rf"| {{py:obj}}`\1\2 <{module}.\1>`", section, flags=re.M)
        parts.append(f"## {module}\n{linked}\n```{{eval-rst}}\n{directives}\n```\n\n")
    return "".join(parts)


def directives_for(module: str, names: list[str], documented: dict[int, str]) -> Iterator[str]:
    """Returns the directives that document the names of a module; a name for something that has another name refers to
    that. ``documented``: the full names so far, by the identity of their objects; it is extended."""
    owner = importlib.import_module(module)
    yield f".. currentmodule:: {module}\n"
    for name in names:
        value = getattr(owner, name)
        if not inspect.isclass(value):
            yield f".. {'autofunction' if inspect.isfunction(value) else 'autodata'}:: {name}\n"
        elif id(value) in documented:
            yield f".. py:class:: {name}\n\n   The same as :py:class:`{documented[id(value)]}`.\n"
        else:
            documented[id(value)] = f"{module}.{name}"
            yield f".. autoclass:: {name}\n   :members:\n   :inherited-members: {bases_shown_elsewhere(value)}\n"


def bases_shown_elsewhere(value: type) -> str:
    """Base classes whose methods are not repeated: public ones, those of Python and Spark, and the base of all
    bolts."""
    public = importlib.import_module("windbolt").__all__
    named = {base.__name__ for base in value.__mro__[1:] if base.__name__ in public}
    others = {base.__name__ for base in value.__mro__[1:] if not base.__module__.startswith(("windo", "topologies"))}
    common = {"ConfiguredBolt"} if "WindowedBolt" in named else set()
    return ",".join(sorted(named | others | common))


def mark_examples(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Called with each docstring: sets its indented parts as code."""
    marked: list[str] = []
    for before, line in zip(["", *lines], lines, strict=False):
        if line.startswith("    ") and not before.strip():
            marked += ["::", ""]
        marked.append(line)
    lines[:] = marked


def lead_to_first_page(app: Any, error: Exception | None) -> None:
    """Called after the build: the first page is the README, but servers look for an index."""
    if error is None:
        page = '<!doctype html><title>windbolt</title><meta http-equiv="refresh" content="0; url=README.html">\n'
        Path(app.outdir, "index.html").write_text(page, encoding="utf-8")
