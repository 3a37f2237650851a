"""The simulation: a few of its seeds, and the defects that it has to find."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest

from tests.helpers.examples import sampled
from tests.simulation.case import CASES, Case
from tests.simulation.faults import in_a_store, schedule
from tests.simulation.mutants import MOST, MUTANTS, file_of
from tests.simulation.playing import play
from tests.simulation.shrinking import keep, shrunk
from tests.simulation.world.making import made

SEEDS = 100


@pytest.mark.parametrize("first", sampled(range(0, SEEDS, 50), 20))
def test_runs_with_faults_come_to_what_runs_without_come_to(first: int) -> None:
    play(first)  # what is opened once and for all
    before = open_files()
    for seed in range(first, first + 50):
        played = play(seed)
        assert not played.problems, str(shrunk(played))
    assert open_files() <= before


def test_a_seed_plays_the_same_each_time() -> None:
    seed = next(seed for seed in range(100) if len(play(seed).happened) > 3)
    first, second = play(seed), play(seed)
    assert first.happened == second.happened
    assert first.operations == second.operations


@pytest.mark.parametrize("name", sampled(MUTANTS, 2))
def test_a_planted_defect_is_found_in_the_case_that_showed_it(name: str) -> None:
    case = Case.read(file_of(name))
    assert not play(case).problems
    with MUTANTS[name]():
        assert play(case).problems, f"make its case anew: python -m tests.simulation --plant '{name}'"


@pytest.mark.extended
@pytest.mark.parametrize("name", sorted(MUTANTS)[::2])
def test_some_seed_finds_a_planted_defect(name: str) -> None:
    case = Case.read(file_of(name))  # if other worlds are drawn by now, other seeds with faults of its kinds find it
    needed = {fault.kind for fault in case.faults}
    alike = [
        seed
        for seed in (*range(case.seed, MOST), *range(case.seed))
        if in_a_store(seed) == case.world.store and needed <= {fault.kind for fault in schedule(seed)}
    ]
    with MUTANTS[name]():
        assert any(play(seed).problems for seed in alike)


@pytest.mark.parametrize("path", sorted(CASES.glob("*.yaml")), ids=lambda path: path.stem)
def test_what_failed_once_does_not_fail_again(path: Path) -> None:
    case = Case.read(path)
    assert "Traceback" not in case.title, "a sentence says what it shows; a traceback names folders of one machine"
    for bolt in case.world.bolts:  # it is still the case that it was
        assert isinstance(bolt.rules, dict) or repr(made(bolt)) == bolt.made
    assert not play(case).problems


@pytest.mark.extended
def test_a_failure_is_made_small_and_kept_as_a_case(tmp_path: Path) -> None:
    with MUTANTS["segments are not synced"]():
        found = next(played for seed in range(MOST) if (played := play(seed)).problems)
        played = shrunk(found)
        assert len(played.case.faults) <= len(found.case.faults)
        assert _lines(played.case) < max(_lines(found.case), 10)
        said = keep(played, tmp_path)
        assert "power cut, at: " in said
        path = Path(said.rpartition("--case ")[2])
        again = play(Case.read(path))
    assert again.happened == played.happened
    assert again.problems == played.problems
    assert not play(Case.read(path)).problems


def open_files() -> int:
    """How many descriptors this process has that nothing will close by itself."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def _lines(case: Case) -> int:
    return sum(len(lines) for portion in case.world.portions for lines in portion.files.values())
