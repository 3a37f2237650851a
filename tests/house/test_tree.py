"""The tree of tests mirrors the source, as tests/README.md says."""

from __future__ import annotations

from pathlib import Path

from tests.helpers.places import ROOT, TESTS

OF_THE_SOURCE = {"windowing", "policies", "manager", "topologies"}
OTHERS = {"house", "oracles", "simulation", "spark"}
FOLDERS = sorted({path.parent.relative_to(TESTS) for path in TESTS.rglob("test_*.py")})


def test_folders_of_tests_mirror_those_of_the_source() -> None:
    assert [str(folder) for folder in FOLDERS if not mirrors(folder)] == []


def mirrors(folder: Path) -> bool:
    top = (*folder.parts, "")[0]
    return top in OTHERS or (top in OF_THE_SOURCE and (ROOT / folder).is_dir())


def test_folders_of_tests_are_packages() -> None:
    assert [str(folder) for folder in FOLDERS if not (TESTS / folder / "__init__.py").is_file()] == []
