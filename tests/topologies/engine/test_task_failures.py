"""Errors of tasks as values: the driver raises what a task raised, and has the traceback of it."""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError, asdict, dataclass, replace
from functools import partial
from pathlib import Path
from traceback import format_exception
from typing import Any

import numpy as np
import pytest

from topologies.engine.failures import TaskFailure, line_of
from topologies.step.config_files import StepConfigError, StepProblem
from topologies.step.rule_values import RuleError
from windowing.errors import (
    BoltError,
    ConfigError,
    DamagedCheckpoint,
    MissingError,
    SchemaError,
    StorageError,
    TopologyError,
    WindboltError,
)
from windowing.reprs import LONGEST_TEXT
from windowing.settings.triggers import CountTrigger


def failing(function: Callable[[], object]) -> BaseException:
    """The error that a function raises, without the frame of ``failing``, which stands for windbolt."""
    with pytest.raises(ValueError, match=r"equal division|Expecting") as caught:
        function()
    error = caught.value
    assert error.__traceback__ is not None
    return error.with_traceback(error.__traceback__.tb_next)


def test_the_line_is_the_users_where_pythons_own_library_raised() -> None:
    def parse() -> object:
        return json.loads("{")

    assert re.fullmatch(r" at .*test_task_failures\.py:\d+, in parse", line_of(failing(parse)))


def test_the_line_of_user_code_that_is_an_installed_package_is_said(tmp_path: Path) -> None:
    package = tmp_path / "site-packages" / "shop"
    package.mkdir(parents=True)
    (package / "rules.py").write_text("import numpy as np\n\n\ndef total(row):\n    return np.split(row, 2)\n")
    names: dict[str, Any] = {}
    exec(compile((package / "rules.py").read_text(), str(package / "rules.py"), "exec"), names)
    assert line_of(failing(lambda: names["total"](np.zeros(3)))).endswith("in <lambda>")  # code of a file is preferred
    error = failing(partial(names["total"], np.zeros(3)))
    assert line_of(error) == f" at {package}/rules.py:5, in total"


def test_the_line_is_that_of_the_call_where_windbolt_or_a_dataclass_refused_a_value() -> None:
    @dataclass(frozen=True)
    class Point:
        x: int

    def change() -> object:
        Point(1).x = 2  # type: ignore[misc]
        return None

    def trigger() -> object:
        return CountTrigger(0)  # type: ignore[arg-type]

    for function, error in ((change, FrozenInstanceError), (trigger, ConfigError)):
        with pytest.raises(error) as caught:
            function()
        assert line_of(caught.value).endswith(
            f"test_task_failures.py:{function.__code__.co_firstlineno + 1}, in {function.__name__}"
        )


def test_code_of_exec_has_the_line_that_it_has() -> None:
    names: dict[str, Any] = {}
    exec("import json\n\ndef parse():\n    return json.loads('{')", names)
    assert line_of(failing(names["parse"])) == " at <string>:4, in parse"


def test_a_package_that_windbolt_calls_itself_is_not_user_code() -> None:
    assert line_of(failing(partial(np.split, np.zeros(3), 2))) == ""


def raised(error: BaseException) -> BaseException:
    """The error, with a traceback."""
    try:
        raise error
    except BaseException as caught:
        return caught


def carried(error: BaseException, batch: int | None = 7) -> WindboltError:
    """The error as the driver has it."""
    failure = TaskFailure.of(raised(error), batch)
    assert json.loads(json.dumps(asdict(failure))) == asdict(failure) | {"classes": list(failure.classes)}
    assert pickle.loads(pickle.dumps(failure)) == failure
    return failure.error()


@pytest.mark.parametrize(
    "error",
    [
        WindboltError("a", why="b", do="c"),
        ConfigError("a length of -1 s", why="lengths are positive", do="say another"),
        SchemaError("a"),
        MissingError("a"),
        DamagedCheckpoint("a", why="b"),
        StorageError("x cannot be written", why="full", do="free space", doing="committing batch 7"),
        BoltError("bolt 'sum' failed", why="ValueError: no", do="fix it", bolt="sum", task=3),
        RuleError("rule x failed", brief="rule x"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_windbolts_has_its_class_its_words_and_all_that_it_holds(error: WindboltError) -> None:
    found = carried(error)
    assert type(found) is type(error)
    assert (vars(found), str(found)) == (vars(error), str(error))


def test_other_exceptions_are_told() -> None:
    error = carried(ValueError("seven is not eight"))
    assert type(error) is WindboltError
    assert error.why == "ValueError: seven is not eight"
    assert "batch 7 was not committed" in error.do
    assert "the batch was not committed" in carried(SystemExit("enough"), None).do


@pytest.mark.parametrize(
    "error",
    [
        TopologyError("a", [ConfigError("b"), ConfigError("c")]),
        StepConfigError("a.conf", [StepProblem("a.conf", "key", "expected a key")]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_that_holds_more_than_words_comes_with_its_words(error: WindboltError) -> None:
    found = carried(error)
    assert type(found) is WindboltError
    assert str(found) == str(error)


def test_a_class_that_the_driver_does_not_know_is_the_one_above_it() -> None:
    failure = TaskFailure.of(raised(ConfigError("a")))
    assert type(replace(failure, classes=("my_module.MyError", *failure.classes)).error()) is ConfigError


def test_the_traceback_of_the_task_is_the_cause_with_the_chain_before_it() -> None:
    error = ConfigError("a")
    error.__cause__ = raised(LookupError("no such value"))
    lines = "".join(format_exception(carried(error)))
    assert "in raised" in lines
    assert lines.index("LookupError: no such value") < lines.index("direct cause") < lines.index("ConfigError: a")


def test_nothing_of_a_traceback_is_too_long_or_steers_a_terminal() -> None:
    error = BoltError("a")
    error.__cause__ = raised(ValueError("\x1b[2J\ud800" + "x" * 1_000_000))
    text = str(carried(error).__cause__)
    assert "ValueError: \\x1b[2J\\ud800xxx" in text
    assert "in raised" in text
    assert len(text) < 2 * LONGEST_TEXT
