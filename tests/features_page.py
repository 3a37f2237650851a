"""Writes docs/features.md: every feature, the setting that gives it, and the scenarios and tests that show it.

python -m tests.features_page

The features are in tests/features.yaml. A scenario shows those in its ``meta.features``, a test those in its
``@pytest.mark.feature("ST-24")``. Tests that are skipped or expected to fail, show nothing.
"""

from __future__ import annotations

import ast
import functools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.helpers import pages
from tests.helpers.places import ROOT

PAGE = ROOT / "docs" / "features.md"
COMMAND = "python -m tests.features_page"
SYSTEMS = {
    "AT": "MongoDB Atlas Stream Processing",
    "SI": "StreamInsight",
    "ST": "Apache Storm",
    "AZ": "Azure Stream Analytics",
    "UH": "Universal handler, aggregation step",
}
LINKS = 3
NOT_RUN = {"skip", "xfail"}


@dataclass(frozen=True)
class Feature:
    """A line of tests/features.yaml."""

    id: str
    title: str
    setting: str
    planned: bool = False


@dataclass(frozen=True, order=True)
class Shown:
    """A scenario file or a test; those that show little else come first."""

    wide: int
    """How many features it names, over all scenarios of a file."""
    path: str
    """From the top of the project."""
    test: str = ""

    @property
    def link(self) -> str:
        path = Path(self.path)
        label = self.test or f"{path.parent.name}/{path.stem}"
        return f"[{label}](../{self.path})"


def features(path: Path = ROOT / "tests" / "features.yaml") -> dict[str, Feature]:
    """All features, by their ids, in the order of the file."""
    lines = yaml.safe_load(path.read_text(encoding="utf-8"))
    return {name: Feature(name, **line) for name, line in lines.items()}


@functools.cache
def shown(root: Path = ROOT) -> dict[str, list[Shown]]:
    """What shows each feature: scenario files first, then tests."""
    found: dict[str, list[Shown]] = {}
    for each in (*_scenario_files(root), *_tests(root)):
        for feature, what in each.items():
            found.setdefault(feature, []).append(what)
    return {feature: sorted(every, key=lambda what: (bool(what.test), what)) for feature, every in found.items()}


def _scenario_files(root: Path) -> Iterator[dict[str, Shown]]:
    for path in sorted((root / "tests" / "scenarios").rglob("*")):
        if path.suffix not in (".yaml", ".yml", ".json", ".jsonl"):
            continue
        metas = [scenario.get("meta", {}) for scenario in _scenarios(path)]
        named = {feature for meta in metas for feature in meta.get("features", ())}
        yield {feature: Shown(len(named), path.relative_to(root).as_posix()) for feature in named}


def _scenarios(path: Path) -> Iterator[Mapping[str, Any]]:
    text = path.read_text(encoding="utf-8")
    documents: Iterable[Any]
    if path.suffix == ".jsonl":
        documents = [json.loads(line) for line in text.splitlines() if line.strip()]
    else:
        documents = yaml.load_all(text, yaml.CSafeLoader)
    for document in documents:
        yield from document if isinstance(document, list) else [document]


def _tests(root: Path) -> Iterator[dict[str, Shown]]:
    for path in sorted((root / "tests").rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            marks = dict(map(_mark, node.decorator_list))
            if not NOT_RUN & set(marks):
                named = marks.get("feature", ())
                yield {feature: Shown(len(named), path.relative_to(root).as_posix(), node.name) for feature in named}


def _mark(decorator: ast.expr) -> tuple[str, Sequence[str]]:
    """The name of a mark, and the texts it is given: ``@pytest.mark.feature("ST-1")`` is ("feature", ["ST-1"])."""
    called, given = (decorator.func, decorator.args) if isinstance(decorator, ast.Call) else (decorator, [])
    match called:
        case ast.Attribute(value=ast.Attribute(attr="mark"), attr=name):
            return name, [str(each.value) for each in given if isinstance(each, ast.Constant)]
    return "", []


def missing(listed: Mapping[str, Feature], found: Mapping[str, Sequence[Shown]]) -> list[str]:
    """Features that nothing shows, and that are not planned for later."""
    return [name for name, feature in listed.items() if not feature.planned and name not in found]


def unknown(listed: Mapping[str, Feature], found: Mapping[str, Sequence[Shown]]) -> dict[str, list[str]]:
    """Ids that scenarios or tests name and the list does not have, with where they are named."""
    return {name: [what.path for what in every] for name, every in found.items() if name not in listed}


def page(listed: Mapping[str, Feature], found: Mapping[str, Sequence[Shown]]) -> str:
    """The text of docs/features.md."""
    parts = [
        "# Features",
        "For those who know one of the five systems and look for a feature: the setting that gives it in windbolt,\n"
        f"and a scenario or test that shows it. Written by `{COMMAND}` from\n"
        "[tests/features.yaml](../tests/features.yaml), the scenarios and the tests.\n"
        "A test fails if a feature has neither. The systems side by side: [semantics.md](semantics.md).",
    ]
    for prefix, system in SYSTEMS.items():
        rows = [_row(each, found.get(name, ())) for name, each in listed.items() if name.startswith(f"{prefix}-")]
        parts += [f"## {system}", "\n".join(["| | what | setting | shown by |", "|---|---|---|---|", *rows])]
    return "\n\n".join(parts) + "\n"


def _row(feature: Feature, every: Sequence[Shown]) -> str:
    links = ", ".join(what.link for what in every[:LINKS])
    more = f" and {len(every) - LINKS} more" if len(every) > LINKS else ""
    return f"| {feature.id} | {feature.title} | {feature.setting} | {links or '(planned)'}{more} |"


def main() -> None:
    """Write the page, and say what is wrong with it."""
    listed, found = features(), shown()
    pages.write(PAGE, page(listed, found), f"{len(listed)} features")
    for name in missing(listed, found):
        print(f"nothing shows {name}: {listed[name].title}")
    for name, paths in unknown(listed, found).items():
        print(f"there is no {name}: {', '.join(paths)}")


if __name__ == "__main__":
    main()
