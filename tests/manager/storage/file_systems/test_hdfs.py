"""HDFS without one: what is said where its package or its NameNode is missing, and what its errors are here."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manager import remote
from manager.remote import is_transient
from manager.storage import hdfs
from manager.storage import hdfs as hdfs_client
from manager.storage.object_store import is_object_store, open_uri
from tests.helpers.races import topology, write_input
from tests.helpers.scraping import free_port
from topologies.checkpoints.paired_checkpoint import PairedCheckpoint
from topologies.checkpoints.preflight import refuse_before_start
from topologies.cli.app import app
from topologies.local import run_local
from topologies.run.options import RunOptions
from windowing.errors import CheckpointError, ConfigError, EnvironmentMissing


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No client is kept, there is no configuration of Hadoop, and nothing is asked again."""
    for name in ("HADOOP_CONF_DIR", "HADOOP_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(remote, "RETRIES", 0)
    hdfs_client.client.cache_clear()
    yield
    hdfs_client.client.cache_clear()


def test_without_its_package_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(
        EnvironmentMissing, match=r"hdfs://nn:8020/ is in HDFS, and the package hdfs-native is missing"
    ) as e:
        PairedCheckpoint("hdfs://nn:8020/ck")
    assert "pip install 'windbolt[hdfs]'" in e.value.do
    for made in (topology("hdfs://nn/in", str(tmp_path)), topology(str(tmp_path), "hdfs://nn/out")):
        with pytest.raises(EnvironmentMissing, match="hdfs://nn/ is in HDFS"):  # before Spark is started
            refuse_before_start(made, RunOptions(str(tmp_path / "ck")))


def test_input_without_a_host_is_refused_where_spark_is_not(tmp_path: Path) -> None:
    """Spark would note it by the host, and read it again."""
    with pytest.raises(ConfigError, match=r"spout 'in' reads 'hdfs:///in/\*\.jsonl', which names no host"):
        run_local(topology("hdfs:///in", str(tmp_path / "out")), RunOptions(str(tmp_path / "ck")))


@pytest.mark.parametrize("uri", ["hdfs:///ck", "viewfs://all/ck"])
def test_a_place_that_only_a_configuration_knows_asks_for_it(uri: str) -> None:
    with pytest.raises(ConfigError, match="cannot be reached") as raised:
        open_uri(uri)
    assert "set HADOOP_CONF_DIR" in raised.value.do


def test_options_in_a_name_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"hdfs://nn:8020/ is named with options behind a question mark") as raised:
        open_uri("hdfs://nn:8020/ck?user=bob")
    assert "HADOOP_USER_NAME" in raised.value.do


def test_a_namenode_without_a_port_listens_at_hadoops() -> None:
    filesystem, path = open_uri("hdfs://127.0.0.1/ck")
    assert (path, hdfs.is_hdfs_filesystem(filesystem)) == ("/ck", True)
    assert not is_object_store("hdfs://127.0.0.1/ck")


def test_a_namenode_that_does_not_answer_is_named() -> None:
    with (
        free_port() as port,
        pytest.raises(CheckpointError, match=f"checkpoint 'hdfs://127.0.0.1:{port}/ck' cannot be reached") as raised,
    ):
        PairedCheckpoint(f"hdfs://127.0.0.1:{port}/ck")
    assert raised.value.why.startswith(f"hdfs://127.0.0.1:{port} does not answer: Connection refused")
    assert raised.value.transient


def test_the_command_says_so_without_a_traceback(tmp_path: Path) -> None:
    write_input(str(tmp_path))
    (tmp_path / "shop.py").write_text(
        "from tests.helpers.races import topology as made\n"
        f"topology = made({str(tmp_path)!r}, {str(tmp_path / 'out')!r})\n",
        "utf-8",
    )
    with free_port() as port:
        place = f"hdfs://127.0.0.1:{port}"
        given = ["run", f"{tmp_path}/shop.py:topology", "--engine", "local", "--checkpoint", f"{place}/ck"]
        result = CliRunner().invoke(app, given)
    assert result.exit_code == 75, result.output
    assert f"why: {place} does not answer: Connection refused" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    ("said", "kind", "text", "passes"),
    [
        (
            RuntimeError(
                'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied: user=bob, '
                'access=WRITE, inode=\\"/\\":root:supergroup:drwxr-xr-x\\n\\tat org.apache.hadoop.hdfs")'
            ),
            PermissionError,
            'hdfs://nn: Permission denied: user=bob, access=WRITE, inode="/":root:supergroup:drwxr-xr-x',
            False,
        ),
        (
            RuntimeError('RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "in safe mode.")'),
            ConnectionError,
            "hdfs://nn: in safe mode.",
            True,
        ),
        (RuntimeError('DataTransferError("no DataNode")'), ConnectionError, "hdfs://nn: no DataNode", True),
        (
            RuntimeError('RPCError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The DiskSpace quota")'),
            OSError,
            "hdfs://nn: The DiskSpace quota",
            False,
        ),
        (RuntimeError("ChecksumError"), OSError, "hdfs://nn: ChecksumError", False),
        (NotImplementedError("File encryption"), OSError, "hdfs://nn: File encryption", False),
        (OSError("RPC listener disconnected"), ConnectionError, "hdfs://nn does not answer: RPC listener disc", True),
        (FileNotFoundError("File does not exist: /a\n\tat org"), FileNotFoundError, "File does not exist: /a", False),
        (FileExistsError("/a exists\n\tat org"), FileExistsError, "/a exists", False),
    ],
)
def test_errors_are_those_of_files(said: Exception, kind: type[OSError], text: str, passes: bool) -> None:
    with pytest.raises(kind, match=re.escape(text)) as raised, hdfs_client.as_os_error("hdfs://nn"):
        raise said
    assert type(raised.value) is kind
    assert "\n" not in str(raised.value)
    assert is_transient(raised.value) is passes
