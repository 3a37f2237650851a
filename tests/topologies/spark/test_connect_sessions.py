"""Which sessions are ones of Spark Connect, and what is said of their addresses and settings, without a server."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors.exceptions.connect import SparkConnectGrpcException

from manager.storage.manifest import batch_key
from topologies.engine.commit import _call_function
from topologies.io.sinks import FunctionSink
from topologies.run.options import is_over_connect
from topologies.spark import running
from topologies.spark.classic_session import environment_of_java
from topologies.spark.connect_run import SLOTS, _functions_over_connect, connect_session, slots_of
from topologies.spark.running import session_for
from topologies.spark.spark_errors import passing_error_in
from windowing.errors import ConfigError, SinkError, UnreachableError

CLASSIC, REMOTE = SimpleNamespace(_jsparkSession=object()), SimpleNamespace()


WITHOUT_JAVA = """
import importlib.abc, sys

class Missing(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "py4j" or (name + ".").startswith("pyspark.core."):
            raise ImportError(name)

sys.meta_path.insert(0, Missing())
import topologies.spark.connect_run
"""


def test_what_a_run_over_connect_imports_is_there_in_pyspark_client_alone() -> None:
    """Which has neither Java's bridge nor what is made for it."""
    done = subprocess.run([sys.executable, "-c", WITHOUT_JAVA], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("spark", "master", "variable", "over_connect"),
    [
        (CLASSIC, None, "", False),
        (REMOTE, None, "", True),
        (REMOTE, "local[2]", "", True),
        (CLASSIC, "sc://host", "", False),
        (CLASSIC, None, "sc://host", False),
        (None, "sc://host:15002", "", True),
        (None, "spark://host:7077", "", False),
        (None, None, "", False),
        (None, None, "sc://host", True),
        (None, "local[2]", "sc://host", False),
    ],
)
def test_a_session_decides_then_the_master_then_the_variable(
    spark: Any, master: str | None, variable: str, *, over_connect: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", variable)
    assert is_over_connect(spark, master) is over_connect


@pytest.mark.parametrize("active", [CLASSIC, REMOTE, None])
def test_an_address_opens_a_session_whichever_is_active(active: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As ``topology.run`` and ``run_on_spark`` both have it."""
    monkeypatch.setattr(running, "SparkSession", SimpleNamespace(getActiveSession=lambda: active))
    assert session_for(None, "sc://host:15002") is None
    assert session_for(None, None) is active
    assert session_for(None, "local[2]") is active
    assert session_for(REMOTE, "sc://host:15002") is REMOTE


@pytest.mark.parametrize("users", [False, True])
def test_pysparks_variable_is_as_it_was_after_the_last_of_several_runs(
    *, users: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "SPARK_CONNECT_MODE_ENABLED"
    monkeypatch.delenv(name, raising=False)
    if users:
        monkeypatch.setenv(name, "1")
    first, second = _functions_over_connect(), _functions_over_connect()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert name in os.environ
    second.__exit__(None, None, None)
    assert (name in os.environ) is users


def test_the_number_of_slots_can_be_given() -> None:
    assert slots_of({}) is None
    assert slots_of({SLOTS: "16"}) == 16
    for wrong in ("0", "-1", "many", "", "1.5"):
        with pytest.raises(ConfigError, match=f"{SLOTS} is"):
            slots_of({SLOTS: wrong})


def test_an_address_that_is_none_is_told_without_its_token() -> None:
    address = "sc://host:port/;token=secret"
    with pytest.raises(ConfigError, match="no address") as told, connect_session(None, address, {}):
        pass
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "text",
    [
        "pyspark.errors.exceptions.connect.SparkConnectGrpcException: <_InactiveRpcError of RPC that terminated with:\n"
        "\tstatus = StatusCode.UNAVAILABLE",
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 7 is invalid. Session not found.",
        "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver has restarted.",
        "[NO_ACTIVE_SESSION] No active Spark session found. Please create a new Spark session.",
        "Received incorrect server side session identifier for request. Please create a new Spark Session.",
        "[RETRIES_EXCEEDED] The maximum number of retries has been exceeded.",
    ],
)
def test_a_server_that_is_gone_passes_by_itself(text: str) -> None:
    error = passing_error_in(text)
    assert error is not None
    assert error.transient


REFUSED = "org.apache.spark.SparkException\nCaused by: java.net.ConnectException: Connection refused"


@pytest.mark.parametrize(
    ("message", "trace", "passes"),
    [
        ("<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE", None, True),
        ("[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 7 is invalid. Session not found.", None, True),
        ("Job aborted due to stage failure", REFUSED, True),
        ("Job aborted due to stage failure", "org.apache.spark.SparkException\nCaused by: java.io.IOException", False),
        ("[TABLE_OR_VIEW_NOT_FOUND] The table shop.totals cannot be found", None, False),
    ],
)
def test_what_spark_says_within_the_function_of_a_sink_passes_as_it_does_elsewhere(
    message: str, trace: str | None, passes: bool
) -> None:
    """Over Spark Connect the causes of an error are in its stack trace, and not in its text."""

    def failing(rows: object, batch: int) -> None:
        raise SparkConnectGrpcException(message, server_stacktrace=trace)

    with pytest.raises(SinkError) as told:
        _call_function("out", FunctionSink(failing, "arrow"), None, SimpleNamespace(key=batch_key(7, False), serial=14))  # type: ignore[arg-type]
    assert told.value.transient is passes


def test_java_starts_where_it_is_told_to_whatever_the_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark refuses to start with both."""
    monkeypatch.setenv("SPARK_REMOTE", "sc://host")
    with environment_of_java({"spark.master": "local[2]"}):
        assert "SPARK_REMOTE" not in os.environ
    assert os.environ["SPARK_REMOTE"] == "sc://host"


class OfTheUsers:
    """A session as far as it is looked at here."""

    client = SimpleNamespace(_builder=None)

    def __init__(self, *, is_stopped: bool) -> None:
        self.is_stopped = is_stopped


@pytest.mark.parametrize("stopped", [False, True])
def test_a_session_of_the_users_that_has_ended_does_not_come_back(*, stopped: bool) -> None:
    """A restart would meet it again."""
    with pytest.raises(UnreachableError) as told, connect_session(OfTheUsers(is_stopped=stopped), None, {}):
        raise UnreachableError("gone", why="the server is away", do="wait", transient=True)
    assert told.value.transient is not stopped


def test_a_channel_that_is_closed_is_told_as_a_session_that_has_ended() -> None:
    """gRPC raises a ValueError where the session was stopped while the run went on."""
    with pytest.raises(UnreachableError, match="has ended"), connect_session(OfTheUsers(is_stopped=True), None, {}):
        raise ValueError("Cannot invoke RPC: Channel closed!")
    with pytest.raises(ValueError, match="no number"), connect_session(OfTheUsers(is_stopped=False), None, {}):
        raise ValueError("no number")
