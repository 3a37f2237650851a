"""Spark's logs are written more simply by a query whose checkpoint is in a folder, and the session stays as it was."""

from __future__ import annotations

from threading import Thread
from typing import Any, cast
from unittest.mock import MagicMock

import pytest
from pyspark.sql import SparkSession

from topologies.spark.jvm.session import simple_checkpoints

MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
FILES = "fs.file.impl"


class Conf(dict[str, str]):
    """The settings of a session."""

    def set(self, name: str, value: str) -> None:
        self[name] = value

    def unset(self, name: str) -> None:
        del self[name]


def session(settings: Conf, hadoop: dict[str, str] | None = None) -> SparkSession:
    made: Any = MagicMock()
    made.conf = settings
    made.sparkContext._jsc.hadoopConfiguration.return_value = Conf(hadoop or {})
    return cast("SparkSession", made)


@pytest.mark.parametrize("summed", [True, False])
def test_in_a_folder_the_query_that_starts_has_it_and_the_session_has_it_no_more(summed: bool) -> None:
    settings = Conf()
    with simple_checkpoints(session(settings), "/shared/ck", summed=summed) as unsummed:
        assert settings[MANAGER].endswith(".FileSystemBasedCheckpointFileManager")
        assert (FILES in settings) is unsummed is not summed
    assert settings == {}


def test_a_query_that_does_not_start_leaves_nothing_behind() -> None:
    settings = Conf()
    with pytest.raises(RuntimeError), simple_checkpoints(session(settings), "/shared/ck", summed=False):
        raise RuntimeError
    assert settings == {}


@pytest.mark.parametrize(("path", "given"), [(None, {}), ("/shared/ck", {MANAGER: "the user's"})])
def test_in_a_store_and_where_somebody_has_set_it_nothing_changes(path: str | None, given: dict[str, str]) -> None:
    settings = Conf(given)
    with simple_checkpoints(session(settings), path, summed=False) as unsummed:
        assert settings == given
        assert not unsummed
    assert settings == given


def test_where_somebody_has_set_the_same_only_the_rest_is_set_and_taken_back() -> None:
    settings = Conf()
    with simple_checkpoints(session(settings), "/shared/ck", summed=True):
        given = dict(settings)
    settings.update(given)
    with simple_checkpoints(session(settings), "/shared/ck", summed=False) as unsummed:
        assert unsummed
        assert given.items() < settings.items()
    assert settings == given


@pytest.mark.parametrize(("given", "hadoop"), [({FILES: "the user's"}, {}), ({}, {FILES: "the user's"})])
def test_a_file_system_of_the_users_is_used(given: dict[str, str], hadoop: dict[str, str]) -> None:
    settings = Conf(given)
    with simple_checkpoints(session(settings, hadoop), "/shared/ck", summed=False) as unsummed:
        assert settings.get(FILES) == given.get(FILES)
        assert not unsummed
    assert settings == given


def test_a_query_that_starts_meanwhile_has_settings_of_its_own() -> None:
    settings, seen = Conf(), list[bool]()

    def start_another() -> None:
        with simple_checkpoints(session(settings), "/shared/other", summed=True) as unsummed:
            seen.append(unsummed or FILES in settings)

    other = Thread(target=start_another)
    with simple_checkpoints(session(settings), "/shared/ck", summed=False) as unsummed:
        other.start()
        other.join(0.05)
        assert unsummed
        assert FILES in settings
        assert not seen
    other.join()
    assert seen == [False]
    assert settings == {}
