"""The wheel holds everything it needs, and runs without the source tree; a package index would take it."""

from __future__ import annotations

import configparser
import os
import re
import runpy
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

from tests.helpers.places import ROOT

PACKAGES = ("windbolt", "windowing", "policies", "manager", "topologies")
SUFFIXES = {
    "",
    ".py",
    ".typed",
    ".yaml",
    ".yml",
    ".json",
    ".jsonl",
    ".csv",
    ".conf",
    ".avsc",
    ".md",
    ".toml",
    ".txt",
    ".css",
    ".html",
    ".js",
}


def _run(*command: str, cwd: Path, **env: str) -> str:
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("built")
    both = ("--wheel", "--sdist", "--no-isolation")
    _run(*(sys.executable, "-m", "build", *both, "--outdir", str(folder), str(ROOT)), cwd=folder)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    (wheel,) = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def sdist(built: Path) -> Path:
    (sdist,) = built.glob("*.tar.gz")
    return sdist


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(*pip, "--no-deps", "--no-index", "--target", str(target), str(wheel), cwd=target)
    return target


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def _metadata(wheel: Path, name: str) -> str:
    (member,) = (path for path in _names(wheel) if path.endswith(f".dist-info/{name}"))
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(member).decode()


def test_the_wheel_is_for_any_platform(wheel: Path) -> None:
    assert wheel.name.startswith("windbolt-")
    assert wheel.name.endswith("-py3-none-any.whl")


def test_every_file_of_the_packages_is_in_the_wheel(wheel: Path) -> None:
    files = {
        path.relative_to(ROOT).as_posix()
        for package in PACKAGES
        for path in (ROOT / package).rglob("*")
        if path.is_file() and path.suffix in SUFFIXES
    }
    assert {f"{package}/py.typed" for package in PACKAGES} <= files
    missing = sorted(files - _names(wheel))
    assert not missing, "\n".join(missing)


def test_the_wheel_holds_nothing_but_the_packages(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in _names(wheel)}
    assert {top for top in tops if not top.endswith(".dist-info")} == set(PACKAGES)


def test_the_command_and_the_pytest_plugin_are_declared(wheel: Path) -> None:
    entries = configparser.ConfigParser(delimiters=("=",))
    entries.read_string(_metadata(wheel, "entry_points.txt"))
    assert entries["console_scripts"]["windbolt"] == "windbolt.__main__:main"
    assert entries["pytest11"]["windbolt"] == "topologies.testing.pytest_plugin"


RELATIVE = re.compile(r"\]\((?![a-z]+:|#)")


def test_what_an_index_shows_has_no_link_that_leads_nowhere(wheel: Path, sdist: Path) -> None:
    shown = _metadata(wheel, "METADATA").partition("\n\n")[2]
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert RELATIVE.search(readme)
    assert not RELATIVE.search(shown)
    assert "docs/tutorial.md" in shown
    assert shown.endswith("The files named here are in the source distribution.\n")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    linked = {path.partition("#")[0] for path in re.findall(r"\]\((?![a-z]+:|#)([^)\s]+)\)", readme)}
    assert {path for path in linked if path not in names and not any(name.startswith(path) for name in names)} == set()


def test_with_a_place_for_its_files_the_links_lead_there() -> None:
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["for_an_index"]
    outside = "[Arrow](https://arrow.apache.org) and [below](#more)."
    text = f"See [the guide](docs/guide.md#time), {outside}\n\n```\na[0](x)\n```\n"
    there = f"See [the guide](https://here.example/docs/guide.md#time), {outside}"
    assert hook(text, "https://here.example/").splitlines()[0] == there
    assert hook(text, None).splitlines()[0] == f"See the guide, {outside}"
    assert "a[0](x)" in hook(text, None)


def test_the_license_is_declared_and_included(wheel: Path) -> None:
    assert HeaderParser().parsestr(_metadata(wheel, "METADATA"))["License-Expression"] == "Apache-2.0"
    assert _metadata(wheel, "licenses/LICENSE") == (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_a_package_index_would_take_both(wheel: Path, sdist: Path, tmp_path: Path) -> None:
    pytest.importorskip("twine", reason="twine is one of the packages of the extra dev")
    printed = _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist), cwd=tmp_path)
    assert printed.count("PASSED") == 2


def test_the_source_distribution_holds_documents_and_tests_and_nothing_that_was_made(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {"README.md", "CHANGELOG.md", "LICENSE", "run", "docs/guide.md", "docs/site/conf.py"} <= names
    assert "tests/house/test_packaging.py" in names
    assert [name for name in names if name.startswith((".venv", "build/", "dist/", ".pytest_cache"))] == []
    assert [name for name in names if "__pycache__" in name] == []


def test_the_version_has_a_place_in_the_changelog(wheel: Path) -> None:
    version = HeaderParser().parsestr(_metadata(wheel, "METADATA"))["Version"]
    assert f"\n## [{version}] - " in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def _python_path(installed: Path) -> str:
    """The installed wheel and the third-party packages; under ``-S`` no .pth file adds the source tree."""
    paths = dict.fromkeys([str(installed), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")])
    return os.pathsep.join(paths)


def test_the_installed_packages_are_imported_from_where_they_were_installed(installed: Path, tmp_path: Path) -> None:
    modules = ", ".join((*PACKAGES, "topologies.cli.app", "topologies.testing.pytest_plugin"))
    code = f"import {modules}; print(*(m.__file__ for m in ({', '.join(PACKAGES)},)), sep='\\n')"
    printed = _run(sys.executable, "-S", "-c", code, cwd=tmp_path, PYTHONPATH=_python_path(installed))
    assert [Path(line).parent for line in printed.splitlines()] == [installed / name for name in PACKAGES]


@pytest.mark.extended
def test_the_installed_command_runs(installed: Path, tmp_path: Path) -> None:
    command = installed / "bin" / "windbolt"
    assert os.access(command, os.X_OK)
    printed = _run(*(sys.executable, "-S", str(command), "--help"), cwd=tmp_path, PYTHONPATH=_python_path(installed))
    assert "demo" in printed
    assert "replay" in printed


@pytest.mark.extended
def test_the_installed_command_makes_a_project(installed: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-S", str(installed / "bin" / "windbolt"))
    _run(*command, "new", "shop", cwd=tmp_path, PYTHONPATH=_python_path(installed))
    printed = _run(*command, "check", "topology.py:topology", cwd=tmp_path / "shop", PYTHONPATH=_python_path(installed))
    assert "Nothing is wrong." in printed
