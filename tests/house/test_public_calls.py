"""Every public call with each argument misspelled, of the wrong type, missing and doubled: each mistake is told.

What is told says what, why and what to do. The calls are listed by the package itself, and the mistakes are derived
from their signatures; a new call needs a valid example in ``tests.helpers.valid_calls``.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.examples import every
from tests.helpers.public_calls import Mistake, mistakes, parameters, public_calls
from tests.helpers.valid_calls import AS_A_DICT, CALLED_BY_WINDBOLT, CALLS, MADE_BY_WINDBOLT, OF_ITS_PARTS, SUBCLASSED
from windbolt import WindboltError

NOT_RUN = {"Run.frame", "run_on_spark", "state.begin", "state.bolts", "state.read", "state.repair", "why", "windowed"}
"""A valid call of these needs Java, or a checkpoint, or makes one."""


def _called(name: str, args: tuple[Any, ...], kwargs: Any) -> Any:
    row, call = CALLS[name], public_calls()[name]
    if row.on is None:
        return row.then(None, call(*args, **kwargs))
    target = row.on()
    return row.then(target, getattr(target, name.rpartition(".")[2])(*args, **kwargs))


def _in_a_folder_of_its_own(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a folder for one call the current one, so that no call meets the files of another."""
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / name)


def test_there_is_an_example_of_every_public_call() -> None:
    ours = {
        name
        for name in public_calls()
        if name in SUBCLASSED | MADE_BY_WINDBOLT | AS_A_DICT | OF_ITS_PARTS
        or name.rpartition(".")[2] in CALLED_BY_WINDBOLT
    }
    assert set(public_calls()) - ours == set(CALLS)


def test_the_examples_are_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = []
    for name in sorted(set(CALLS) - NOT_RUN):
        _in_a_folder_of_its_own(name, tmp_path, monkeypatch)
        try:
            _call_the_example(name)
        except Exception as error:
            problems.append(f"{name}: {type(error).__name__}: {error}")
    assert not problems, "\n".join(problems)


def _call_the_example(name: str) -> None:
    row = CALLS[name]
    lead = [
        each
        for each, about in parameters(public_calls()[name]).items()
        if about.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    named = dict(row.args)
    args = (*(named.pop(each) for each in lead if each in named), *row.more) if row.more else ()
    _called(name, args, named)


def _fault(name: str, mistake: Mistake) -> str:
    try:
        _called(name, mistake.args, mistake.kwargs)
    except WindboltError as error:
        text = str(error)
        return "" if error.what and (error.do or "\n" in text) else f"without what to do: {text}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


def test_every_mistake_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problems = []
    for name in sorted(CALLS)[:: every(4)]:
        _in_a_folder_of_its_own(name, tmp_path, monkeypatch)
        faults = {each.label: _fault(name, each) for each in mistakes(public_calls()[name], CALLS[name])}
        problems += [f"{name}, {label}: {fault}" for label, fault in faults.items() if fault]
    assert not problems, "\n".join(problems)
