"""How Java is started, and what is said when it has died; without a Java."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkContext
from pyspark.errors import PySparkRuntimeError

from topologies.spark import classic_session as connector
from topologies.spark import classic_session as session
from topologies.spark.java import JavaOptions, agree_on_python, check_surroundings, explain_javas_end, java_runs
from windowing import EnvironmentMissing, WindboltError


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[bytes]]:
    """A process in place of Java."""
    with subprocess.Popen(["sleep", "600"]) as process:
        for name in ("_gateway", "_jvm", "_active_spark_context"):
            monkeypatch.setattr(SparkContext, name, None)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
        yield process
        process.kill()


def test_java_hears_no_signals_that_stop_a_run() -> None:
    options = JavaOptions(stdout=subprocess.PIPE, text=True)
    options["preexec_fn"] = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # as pyspark does it
    told: subprocess.CompletedProcess[str] = subprocess.run(
        ["sh", "-c", "kill -TERM $$; kill -INT $$; ps -o sid= -p $$ 2>/dev/null; echo lives"], **options, check=False
    )
    assert told.returncode == 0
    assert "lives" in told.stdout
    assert str(os.getsid(0)) not in told.stdout.split()


def test_a_java_that_was_killed_is_told_of_and_forgotten(java: subprocess.Popen[bytes]) -> None:
    assert java_runs()

    def broken() -> None:
        with explain_javas_end():
            java.kill()
            raise Py4JNetworkError("Answer from Java side is empty")

    with pytest.raises(WindboltError) as caught:
        broken()
    error = caught.value
    assert error.what == "Java was killed (SIGKILL) in the middle of the run"
    assert "want of memory" in error.why
    assert "was not committed" in error.do
    assert not java_runs()


def test_errors_while_java_runs_are_what_they_are(java: subprocess.Popen[bytes]) -> None:
    with pytest.raises(ValueError, match="mine"), explain_javas_end():
        raise ValueError("mine")
    assert java_runs()


def test_py4j_is_quiet_about_a_java_that_has_died(java: subprocess.Popen[bytes]) -> None:
    logger = logging.getLogger("py4j.clientserver")
    record = logger.makeRecord(
        logger.name, logging.ERROR, "py4j/clientserver.py", 1, "Exception while sending command.", (), None
    )

    def broken() -> None:
        with explain_javas_end():
            assert logger.filter(record), "Java runs"
            java.kill()
            assert not logger.filter(record)
            raise ConnectionRefusedError

    with pytest.raises(WindboltError):
        broken()
    logger.filters.clear()


def test_after_a_java_that_died_at_its_start_the_next_attempt_starts_another(
    java: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[object] = []
    monkeypatch.setattr(connector, "_launch", lambda conf, **options: launched.append(conf))
    monkeypatch.setattr(connector, "_connect_pyspark", lambda gateway: None)
    connector.start_java({}, fetches=False)
    assert not launched, "it runs"
    java.kill()
    java.wait()
    connector.start_java({}, fetches=False)
    assert len(launched) == 1
    assert SparkContext._gateway is None


def test_a_java_that_dies_while_spark_starts_is_told_of(
    java: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(given: object) -> None:
        java.kill()
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(session, "check_java", lambda: None)
    monkeypatch.setattr(session, "_make_session", dies)
    with pytest.raises(WindboltError, match="Java was killed") as caught:
        session.open_session(None, {})
    assert caught.value.transient
    assert SparkContext._gateway is None


def test_a_java_that_died_unseen_is_not_asked_for_its_session(
    java: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would answer each attempt of a run with a refused connection."""
    java.kill()
    java.wait()
    monkeypatch.setattr(SparkContext, "_active_spark_context", SimpleNamespace(_jvm=None))
    monkeypatch.setattr(session, "check_java", lambda: None)
    monkeypatch.setattr(session, "start_java", lambda *given, **options: None)
    opened = SimpleNamespace(conf={session._FILE_MANAGER: "as it was"})
    monkeypatch.setattr(session, "_make_session", lambda given: (opened, {}))
    assert session.open_session(None, {})[1]
    assert SparkContext._active_spark_context is None


def test_a_java_that_dies_just_after_spark_has_started_is_told_of(
    java: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Conf:
        def get(self, *given: object) -> None:
            java.kill()
            raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(session, "check_java", lambda: None)
    monkeypatch.setattr(session, "_make_session", lambda given: (SimpleNamespace(conf=Conf()), {}))
    with pytest.raises(WindboltError, match="Java was killed") as caught:
        session.open_session(None, {})
    assert caught.value.transient


@pytest.mark.parametrize("error", [ConnectionRefusedError(111, "Connection refused"), Py4JNetworkError("no answer")])
def test_a_java_that_dies_as_it_is_first_talked_to_is_told_of(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*given: object) -> None:
        raise error

    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.setattr(connector, "launch_gateway", dies)
    with pytest.raises(WindboltError, match="Java ended just after its start") as caught:
        connector.start_java({}, fetches=False)
    assert caught.value.transient


def test_a_user_without_a_name_is_told_of_before_java_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    check_surroundings()
    monkeypatch.setattr(os, "geteuid", lambda: 2**31 - 17)
    with pytest.raises(EnvironmentMissing, match="the user 2147483631 has no name on this machine"):
        check_surroundings()
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    check_surroundings()  # Java runs


def test_a_machine_without_a_folder_for_temporary_files_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: ["/proc/no-such-folder"])
    with pytest.raises(EnvironmentMissing) as caught:
        check_surroundings()
    assert caught.value.what == "there is no folder for temporary files"
    assert "No usable temporary directory" in caught.value.why


@pytest.mark.parametrize(
    "said",
    [
        "java.lang.IllegalArgumentException: basedir must be absolute: ?/.ivy2.5.2/local",
        "java.io.FileNotFoundException: /nonexistent/.ivy2.5.2/cache/resolved-1.0.xml (No such file or directory)",
    ],
)
def test_where_spark_cannot_keep_what_it_fetches_the_setting_is_named(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], said: str
) -> None:
    def dies(conf: Any, *, stdout: int, stderr: int) -> None:
        text = f'WARNING: ...\nException in thread "main" {said}\n\tat java.base/x.Y.z(Y)\n\tat org.apache.ivy.A.b(A)\n'
        os.write(stderr, text.encode())
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(connector, "_launch", dies)
    monkeypatch.setattr(SparkContext, "_gateway", None)
    with pytest.raises(EnvironmentMissing, match=rf"{re.escape(said)}.*--conf spark\.jars\.ivy="):
        connector.start_java({"spark.jars.packages": "a:b:1"}, fetches=True)
    assert capfd.readouterr().err == ""


def a_context(python: str, master: str = "local[2]", **conf: str) -> Any:
    """As much of a SparkContext as says which Python its workers are."""
    return SimpleNamespace(master=master, pythonExec=python, getConf=lambda: conf)


def test_workers_of_a_session_of_ones_own_are_of_the_driver_s_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    ours = a_context("python3")
    agree_on_python(ours)
    assert ours.pythonExec == sys.executable
    cluster = a_context("python3", "spark://host:7077")
    agree_on_python(cluster)
    assert cluster.pythonExec == "python3"


def test_a_python_that_was_named_and_cannot_run_tasks_is_told_before_the_first_batch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    with pytest.raises(EnvironmentMissing, match=rf"{other} has no topologies, numpy.*{sys.executable}"):
        agree_on_python(a_context(str(other)))
    monkeypatch.delenv("PYSPARK_PYTHON")
    with pytest.raises(EnvironmentMissing, match=r"/no/python does not start.*spark\.pyspark\.python names it"):
        agree_on_python(a_context("/no/python", **{"spark.pyspark.python": "/no/python"}))
    other.write_text("#!/bin/sh\necho 3.1.4\n")
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    with pytest.raises(EnvironmentMissing, match=r"is Python 3\.1\.4"):
        agree_on_python(a_context(str(other)))
    other.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    agree_on_python(a_context(str(other)))
