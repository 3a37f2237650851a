"""Spark's logs are written more simply by a query whose checkpoint is in a folder, and the session stays as it was."""

from __future__ import annotations

from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession

from topologies.spark import classic_session
from topologies.spark.classic_session import simple_checkpoints

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


SPARKS = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"


def session(settings: Conf, master: str = "local[2]") -> SparkSession:
    """One whose Java has Spark's class, and compiles none of windbolt's."""
    made: Any = MagicMock()
    made.conf = settings
    made.sparkContext.master = master
    found = made._jvm.org.apache.spark.util.Utils.classForName.return_value
    found.getName.return_value = SPARKS
    found.getPackageName.side_effect = Py4JError("no such method")
    return cast("SparkSession", made)


def test_in_a_folder_the_query_that_starts_has_it_and_the_session_has_it_no_more() -> None:
    settings = Conf()
    with simple_checkpoints(session(settings), "/shared/ck"):
        assert settings[MANAGER] == SPARKS
    assert settings == {}


def test_a_class_of_windbolts_own_is_taken_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the session has Spark's class already, which it has again afterwards."""
    monkeypatch.setattr(classic_session, "define_beside", lambda *_: "CheckpointFiles")
    for before in ({}, {MANAGER: SPARKS}):
        settings = Conf(before)
        with simple_checkpoints(session(settings), "/shared/ck"):
            assert settings[MANAGER] == "CheckpointFiles"
        assert settings == before


def test_executors_are_not_told_of_a_class_that_only_the_driver_has(monkeypatch: pytest.MonkeyPatch) -> None:
    """A query of the user's that starts at the same moment has the setting too, and its tasks look the class up."""
    monkeypatch.setattr(classic_session, "define_beside", lambda *_: "CheckpointFiles")
    settings = Conf()
    with simple_checkpoints(session(settings, "spark://host:7077"), "/shared/ck"):
        assert settings[MANAGER] == SPARKS


def test_a_query_that_does_not_start_leaves_nothing_behind() -> None:
    settings = Conf()
    with pytest.raises(RuntimeError), simple_checkpoints(session(settings), "/shared/ck"):
        raise RuntimeError
    assert settings == {}


@pytest.mark.parametrize(("path", "given"), [(None, {}), ("/shared/ck", {MANAGER: "the user's"})])
def test_in_a_store_and_where_somebody_has_set_it_nothing_changes(path: str | None, given: dict[str, str]) -> None:
    settings = Conf(given)
    with simple_checkpoints(session(settings), path):
        assert settings == given
    assert settings == given
