"""The site of the documents builds without a warning, and has every page, every public name and a search."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from types import ModuleType

import pytest

import windbolt
from tests import names_page
from tests.helpers.places import ROOT

pytestmark = pytest.mark.extended  # it takes half a minute; links are checked in test_paths_in_docs.py

PAGES = sorted(path.relative_to(ROOT) for path in (ROOT / "docs").rglob("*.md"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["--fail-on-warning", "--keep-going", "--quiet", "-c", "docs/site", "-d", str(folder / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, ".", str(folder / "html")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "html"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_first_page_leads_to_every_page(site: Path) -> None:
    assert "README.html" in _text(site / "index.html")
    first = _text(site / "README.html")
    assert [str(page) for page in PAGES if not (site / page.with_suffix(".html")).is_file()] == []
    of_its_own = [page for page in PAGES if page.parent.name != "decisions" or page.name == "README.md"]
    assert [str(page) for page in of_its_own if f'href="{page.with_suffix(".html")}"' not in first] == []


def test_every_public_name_is_documented_and_linked(site: Path) -> None:
    head, packed = (site / "objects.inv").read_bytes().split(b"zlib.\n", 1)
    assert b"windbolt" in head
    known = {line.split(" ")[0] for line in zlib.decompress(packed).decode().splitlines()}
    page = _text(site / "docs/names.html")
    for module, names in names_page.public().items():
        owner = windbolt if module == "windbolt" else getattr(windbolt, module.split(".")[1])
        own = [f"{module}.{name}" for name in names if not isinstance(getattr(owner, name), ModuleType)]
        assert [name for name in own if name not in known] == []
        assert [name for name in own if f'href="#{name}"' not in page] == []
    assert "windbolt.WindowedBolt.with_lateness" in known


def test_methods_are_documented_once_and_examples_are_code(site: Path) -> None:
    page = _text(site / "docs/names.html")
    assert 'id="windbolt.AggregateBolt.with_lateness"' not in page
    assert re.search(r'id="windbolt.Deduplicate">.*?<pre>.*?Deduplicate.*?</pre>', page, re.S)


def test_it_has_a_search(site: Path) -> None:
    index = json.loads(_text(site / "searchindex.js").removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    assert "docs/guide" in index["docnames"]
    assert "watermark" in index["terms"]
    assert "search.html" in _text(site / "README.html")


def test_pictures_of_pages_are_shown(site: Path) -> None:
    for page, picture in (("performance", "benchmark.png"), ("tutorial", "tutorial.svg")):
        shown = re.findall(r'<img [^>]*src="\.\./_images/([^"]+)"', _text(site / f"docs/{page}.html"))
        assert shown == [picture]
        assert (site / "_images" / picture).is_file()
