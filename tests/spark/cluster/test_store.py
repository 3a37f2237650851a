"""On a cluster of Spark, with all data in an object store that fails, is slow, or does not answer: the rows of a run in
one process."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from servers.s3 import ENVIRONMENT, S3, s3_server
from servers.spark import SPARK, Standalone
from tests.helpers.hadoop_aws import spark_jars
from tests.spark.cluster.playing import FILES, SINKS, app, ended
from tests.spark.cluster.playing import rows as rows_of
from tests.spark.tools import in_order

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a machine has one address of its own only")
EVERY = 20
"""Of so many requests one fails."""


@pytest.fixture(scope="module")
def store(cluster: Standalone) -> Iterator[S3]:
    """A store with the orders."""
    with s3_server() as running:
        for file in sorted(Path(cluster.shared, "orders").iterdir()):
            running.put(f"orders/{file.name}", file.read_bytes())
        yield running


def submitted(cluster: Standalone, store: S3, name: str, what: str = "", *, status: int = 0) -> Mapping[str, int]:
    """Send the program to the cluster; the numbers that it prints at its end."""
    aws = {**ENVIRONMENT, "AWS_ENDPOINT_URL_S3": f"http://{store.address}"}
    settings = {"spark.jars": spark_jars(), **{f"spark.executorEnv.{key}": value for key, value in aws.items()}}
    command = [str(SPARK / "bin" / "spark-submit"), "--master", cluster.url]
    command += [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    program = ["app.py", str(cluster.shared), name, what]
    said = ended(cluster.run(*command, *program, PLACE="s3://bucket", **aws), status).stdout
    return {} if status else dict(json.loads(said.splitlines()[-1]))


def rows(store: S3, name: str) -> dict[str, list[str]]:
    """What the files of the sinks hold, without drafts; in a store none is left."""
    names = [found for found in store.names() if found.startswith(f"{name}/")]
    assert not [found for found in names if found.rsplit("/", 1)[1].startswith(".")]
    return {
        sink: in_order(
            json.loads(line)
            for found in names
            if found.startswith(f"{name}/{sink}/batch-")
            for line in store.body(found).splitlines()
        )
        for sink in SINKS
    }


@pytest.mark.extended
def test_what_was_written_for_tasks_is_laid_together(cluster: Standalone, store: S3) -> None:
    app(cluster, "as-written", "local-together")
    store.fail(EVERY, "503")
    try:
        assert submitted(cluster, store, "laid", "together")["laid"] == FILES
    finally:
        store.fail()
    assert rows(store, "laid") == rows_of(cluster, "as-written")


@pytest.mark.extended
def test_an_executor_and_then_the_driver_die_while_requests_fail(
    cluster: Standalone, store: S3, expected: dict[str, list[str]]
) -> None:
    """In each way by turns; with ``lost`` the request is done, and its answer does not come."""
    store.fail(EVERY, "lost,503,slow")
    try:
        for what, status in (("driver", 128 + signal.SIGKILL), ("executor", 0)):
            (cluster.shared / "happened").unlink(missing_ok=True)
            submitted(cluster, store, "deaths", what, status=status)
            assert (cluster.shared / "happened").exists()
    finally:
        store.fail()
    assert rows(store, "deaths") == expected
