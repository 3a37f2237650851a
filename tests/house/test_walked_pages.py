"""Pages of the documents are walked: their files, examples and commands hold, in order, as they are shown."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.walking import BLOCK, Walk, commands_of, matches, run_example, walk


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


def _facts(picture: str) -> list[str]:
    """What a picture of time shows, whatever its style: the events with their outcomes, and the windows."""
    return re.findall(r"data-event='\w+' data-fate='\w+'|data-start='\d+' data-end='\d+'", picture)


def test_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the section on Spark, which ``tests/spark/test_tutorial.py`` walks too."""
    monkeypatch.chdir(tmp_path)
    text, spark = _page("tutorial.md").split("## On Spark\n")
    assert walk(text, tmp_path) == Walk(files=5, commands=14)
    picture = (tmp_path / "spending" / "late.svg").read_text(encoding="utf-8")
    assert _facts(picture) == _facts(_page("pictures/tutorial.svg")) != []
    assert "$ windbolt run" in spark


@pytest.mark.parametrize(
    ("page", "done"),
    [
        ("../README.md", Walk(files=2, commands=2)),
        ("bad-rows.md", Walk(examples=1)),
        ("deduplicate.md", Walk(examples=1)),
        ("corrections.md", Walk(examples=2)),
        ("join-streams.md", Walk(examples=1)),
        ("deploy.md", Walk(commands=4)),
        ("migrate.md", Walk(files=3, commands=8)),
        ("paths.md", Walk(examples=2)),
        ("local-times.md", Walk(files=1, examples=2)),
        ("coming-from-storm.md", Walk(examples=3)),
        ("coming-from.md", Walk(examples=8)),
        ("asked.md", Walk(examples=3)),
        ("cookbook.md", Walk(examples=4)),
        ("windows-of-your-own.md", Walk(files=2, examples=6, commands=1)),
        ("spouts-of-your-own.md", Walk(examples=2)),
    ],
)
def test_pages_with_examples(page: str, done: Walk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert walk(_page(page), tmp_path) == done


def test_the_section_on_bolts_that_keep_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    section = _page("bolts.md").split("\n### Bolts without windows that keep state\n")[1].split("\n## ")[0]
    assert walk(section, tmp_path) == Walk(examples=2)


@pytest.mark.extended
def test_the_backup_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the page on operating, with the topology of that on migrating, after a batch and with another."""
    monkeypatch.chdir(tmp_path)
    files = "".join(block[0] + "\n" for block in BLOCK.finditer(_page("migrate.md")) if block["file"])
    run = "windbolt run shop.py:topology --engine local --checkpoint ck --keep-open > log.txt"
    *_, backup, restored = re.split(r"^(?=```console)", _page("operating.md"), flags=re.M)
    walk(f"{files}\n```console\n$ {run}\n```\n", tmp_path)
    assert walk(backup, tmp_path) == Walk(commands=2)
    order = '{"user": "ada", "amount": 9.0, "ts": "2024-01-03T11:00:00Z"}'
    rows = "$ cat out/*.jsonl | sort > rows.txt"
    walk(f"`orders/later.jsonl`:\n\n```json\n{order}\n```\n\n```console\n$ {run}\n{rows}\n```\n", tmp_path)
    before = (tmp_path / "rows.txt").read_text(encoding="utf-8")
    assert walk(restored, tmp_path) == Walk(commands=3)
    walk(f"```console\n{rows}\n```\n", tmp_path)
    assert (tmp_path / "rows.txt").read_text(encoding="utf-8") == before
    assert '"revenue":1,' in before


@pytest.mark.parametrize(
    ("expected", "output", "well"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "..."], ["a", "b", "c"], True),
        (["...", "c"], ["a", "b"], False),
        (["2 passed in ..."], ["2 passed in 3 s"], True),
        (["a.b"], ["a-b"], False),
        ([], ["anything"], True),
    ],
)
def test_what_a_command_prints_is_compared(expected: list[str], output: list[str], well: bool) -> None:
    assert matches(expected, output) is well


def test_a_command_may_have_several_lines() -> None:
    assert list(commands_of("$ a &\n> b\nc\n$ d\n")) == [("a &\nb", ["c"]), ("d", [])]


def test_what_an_example_prints_is_compared() -> None:
    run_example("print(1 + 1)  # 2", {})
    with pytest.raises(AssertionError):
        run_example("print(1 + 1)  # 3", {})


def test_a_page_whose_command_prints_something_else_is_found(tmp_path: Path) -> None:
    page = "`a/b.txt`:\n\n```text\none\n```\n\n```console\n$ cd a\n$ cat b.txt\n{}\n```\n"
    assert walk(page.format("one"), tmp_path) == Walk(files=1, commands=2)
    with pytest.raises(AssertionError, match="cat b"):
        walk(page.format("two"), tmp_path)
