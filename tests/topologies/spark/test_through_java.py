"""Errors of tasks in the text of Java's errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.topologies.spark.test_pool import context
from topologies.spark.spark_errors import TaskFailed, failure_in, run_for_java
from windowing.errors import BoltError, WindboltError

JAVA = """org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times:
org.apache.spark.api.python.PythonException: Traceback (most recent call last):
  File "/spark/python/worker.py", line 1245, in main
    process()
topologies.spark.spark_errors.TaskFailed: {}

	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:572)
Caused by: org.apache.spark.api.python.PythonException: topologies.spark.spark_errors.TaskFailed: {}"""


def fail(item: BaseException, _: Any) -> None:
    raise item


def through_java(error: BaseException) -> WindboltError | None:
    with pytest.raises(TaskFailed) as raised:
        run_for_java(fail, error, context())
    assert raised.value.__suppress_context__
    assert str(raised.value).encode()  # else Spark's worker gives up within its answer, and Java waits for ever
    return failure_in(JAVA.format(raised.value, raised.value))


def test_a_result_comes_as_it_is() -> None:
    assert run_for_java(lambda item, _: item * 2, 4, None) == 8


def test_an_error_is_raised_in_the_driver_as_it_was_in_the_task() -> None:
    original = BoltError("bolt 'sum' failed: on '\ud800'", why="ValueError: no\n\nat all", bolt="sum", task=3)
    error = through_java(original)
    assert type(error) is BoltError
    assert vars(error) == vars(original)
    assert "in fail" in str(error.__cause__)


@pytest.mark.parametrize("other", [ValueError("seven is not eight"), SystemExit("enough")])
def test_other_exceptions_say_in_which_batch(other: BaseException) -> None:
    error = through_java(other)
    assert type(error) is WindboltError
    assert error.why == f"{type(other).__name__}: {other}"
    assert "batch 5 was not committed" in error.do


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "cannot parse 'windbolt-failure:'",
        "cannot parse 'windbolt-failure:abc: '",
        "cannot parse 'windbolt-failure:e30=: '",
        "cannot parse 'windbolt-failure:W10=: '",
    ],
)
def test_java_s_own_errors_are_none_of_a_task_s(text: str) -> None:
    assert failure_in(text) is None
