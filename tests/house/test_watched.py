"""The measurement of what watching a run costs: its arithmetic, and its input. Nothing here takes a time."""

from __future__ import annotations

import argparse
import json
import math
from datetime import datetime
from pathlib import Path

import pytest

from benchmarks.watched.__main__ import Taken, engine, parsed, show
from benchmarks.watched.watching import BatchTime, Feed, Look, Watching, differences, growth, stretches, table, verdicts


def run(cpu: float, mib: float, batch_ms: float, minutes: int = 3) -> Watching:
    """A run that uses so much of a core, with a driver of so much memory, a batch each second."""
    found = Watching("watched", Path())
    for second in range(60 * minutes + 1):
        found.looks.append(Look(100.0 + second, cpu * second, cpu * second / 2, mib, 2 * mib))
        found.batches.append(BatchTime(100.0 + second, (batch_ms + second % 5) / 1000, 2000))
    return found


def compared(watched: Watching, alone: Watching) -> dict[str, tuple[float, float]]:
    found = differences(*(stretches(each, 100.0, 280.0, 60.0) for each in (watched, alone)))
    return {each.name: (each.watched, each.alone) for each in found}


def test_figures_are_those_of_whole_minutes() -> None:
    found = stretches(run(0.5, 100, 40), 100.0, 290.0, 60.0)
    assert len(found) == 3
    for each in found:
        assert (each.seconds, each.cpu, each.driver_cpu) == pytest.approx((60, 30, 15))
        assert (each.batch_ms, each.slow_batch_ms, each.driver_mib, each.own_mib) == pytest.approx((42, 44, 100, 200))
    assert growth(found) == "from 100.0 to 100.0 MiB"


def test_differences_are_those_of_both() -> None:
    found = compared(run(0.504, 110, 41), run(0.5, 100, 40))
    assert found["CPU, % of a core"] == pytest.approx((50.4, 50.0))
    assert found["memory of the driver, MiB"] == pytest.approx((110, 100))
    assert found["batch, median, ms"] == pytest.approx((43, 42))
    assert found["rows a second"][0] == pytest.approx(61 / 60 * 2000)


@pytest.mark.parametrize(
    ("watched", "well"),
    [
        (run(0.509, 149, 40), [True, True, True]),
        (run(0.511, 149, 40), [False, True, True]),
        (run(0.509, 151, 40), [True, False, True]),
        (run(0.5, 100, 41), [True, True, False]),
    ],
)
def test_the_limits_are_those_of_the_goal(watched: Watching, well: list[bool]) -> None:
    found = differences(*(stretches(each, 100.0, 280.0, 60.0) for each in (watched, run(0.5, 100, 40))))
    assert [good for good, _ in verdicts(found)] == well


def test_without_batches_there_is_a_table_all_the_same() -> None:
    idle = run(0.5, 100, 40)
    idle.batches.clear()
    found = differences(*[stretches(idle, 100.0, 280.0, 60.0)] * 2)
    assert math.isnan({each.name: each for each in found}["batch, median, ms"].more)
    assert "batch, median, ms" in table(found)


def test_it_is_written_and_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = parsed(["--out", str(tmp_path), "--minutes", "3"])
    of = {"watched": stretches(run(0.6, 100, 40), 100.0, 280.0, 60.0)}
    taken = Taken(of | {"alone": stretches(run(0.5, 100, 40), 100.0, 280.0, 60.0)})
    assert show(taken, given) == 1
    assert "NOT OK: processor time: +10.00 % of a core" in capsys.readouterr().out
    assert json.loads((tmp_path / "watched.json").read_text("utf-8"))["verdicts"][0]["well"] is False


def test_both_runs_have_the_same_options() -> None:
    assert engine(parsed([])) == ["--engine", "spark", "--every", "1100ms", "--master", "local[1]"]
    assert engine(argparse.Namespace(engine="local", every="2s", master="")) == ["--engine", "local", "--every", "2s"]


def test_orders_are_of_the_last_second(tmp_path: Path) -> None:
    orders = [json.loads(line) for line in Feed(4, tmp_path / "draft")._orders(1000.0).splitlines()]
    assert [datetime.fromisoformat(each["ts"]).timestamp() for each in orders] == [999.0, 999.25, 999.5, 999.75]
    assert set(orders[0]) == {"user", "amount", "ts"}
