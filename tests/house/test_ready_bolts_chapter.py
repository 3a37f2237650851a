"""The examples of ready bolts, and of a plain one, run as they stand on the pages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.places import ROOT
from topologies.local import run_local
from topologies.run.options import RunOptions
from windbolt.testing import run_bolt

READY, BOLTS = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("aggregates.md", "bolts.md"))
OFFERS = [
    ("a", "tea", 3.0, "06:10"),
    ("a", "tea", 2.0, "06:15"),  # a repeat
    ("b", "tea", 4.0, "06:20"),
    ("c", "tea", 3.0, "07:10"),  # the best of its hour, and no other price
    ("d", "tea", 5.0, "08:10"),
    ("e", "tea", 6.0, "09:10"),
    ("f", "tea", 7.0, "10:10"),  # the fourth change of the day
]


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = re.search(r"^## Ready bolts\n\n```python\n(.*?)^```$", READY, re.M | re.S)
    assert found is not None
    monkeypatch.chdir(tmp_path)
    (tmp_path / "offers").mkdir()
    rows = [{"id": i, "item": item, "price": price, "ts": f"2024-01-01T{at}:00Z"} for i, item, price, at in OFFERS]
    (tmp_path / "offers" / "1.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    names: dict[str, Any] = {}
    exec(found[1], names)
    run_local(names["topology"], RunOptions(checkpoint="ck"))
    assert written(tmp_path / "best") == ["a", "d", "e"]
    assert written(tmp_path / "muted") == ["f"]


def test_the_example_of_a_plain_bolt_runs() -> None:
    found = re.search(r"the same columns:\n\n```python\n(.*?)^```$", BOLTS, re.M | re.S)
    assert found is not None
    names: dict[str, Any] = {}
    exec(found[1], names)
    columns = "machine string, fahrenheit double, at timestamp"
    run = run_bolt(names["Celsius"](), [("press", 212.0, 1_704_088_805_000)], columns)
    (row,) = run.rows
    assert (row["machine"], row["degrees"], row["ts"].hour) == ("press", 100.0, 6)


def lines(folder: Path) -> list[str]:
    return [line for path in sorted(folder.glob("*.jsonl")) for line in path.read_text(encoding="utf-8").splitlines()]


def written(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for line in lines(folder)]
