"""HDFS as a file system of Arrow's: its files, its conditional writes, and what its errors are here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from manager.storage import files, hdfs
from manager.storage import hdfs as hdfs_client
from manager.storage.object_store import open_uri
from manager.storage.sealed_files import SealedFolder
from tests.helpers.hdfs import Hdfs
from tests.helpers.places import ROOT
from windowing.errors import StorageError

RACING = """
import json, sys, time
from manager.storage import hdfs
uri, name, begin = sys.argv[1], sys.argv[2], float(sys.argv[3])
won = []
for number in range(40):
    time.sleep(max(0.0, begin + number / 20 - time.time()))
    if hdfs.create_file(uri, f"/turns/.{number}.{name}", f"/turns/{number}", f"{name} {number}".encode()):
        won.append(number)
print(json.dumps(won))
"""


def test_of_two_processes_that_create_a_file_one_does(store: Hdfs) -> None:
    import time

    command = [sys.executable, "-c", RACING, store.uri()]
    begin = str(time.time() + 3)
    racing = [
        subprocess.Popen([*command, name, begin], cwd=ROOT, stdout=subprocess.PIPE, text=True) for name in ("a", "b")
    ]
    won = [json.loads(process.communicate()[0]) for process in racing]
    assert sorted(won[0] + won[1]) == list(range(40))
    for name, numbers in zip(("a", "b"), won, strict=True):
        for number in numbers:
            assert store.body(f"turns/{number}") == f"{name} {number}".encode()
    assert store.names("turns") == sorted(f"turns/{number}" for number in range(40)), "no draft is left"


def test_a_file_with_the_same_bytes_counts_as_created(store: Hdfs) -> None:
    """The answer to the rename may be lost."""
    assert hdfs.create_file(store.uri(), "/same/.1", "/same/1", b"one")
    assert hdfs.create_file(store.uri(), "/same/.2", "/same/1", b"one")
    assert not hdfs.create_file(store.uri(), "/same/.3", "/same/1", b"another")
    assert store.body("same/1") == b"one"
    assert store.names("same") == ["same/1"]


def test_a_writer_that_dies_before_the_rename_leaves_a_draft_alone(store: Hdfs) -> None:
    dying = """
import os, sys
from manager.storage.object_store import open_uri
file = open_uri(sys.argv[1])[0].open_output_stream("/dead/.1")
file.write(b"half")
os.kill(os.getpid(), 9)
"""
    subprocess.run([sys.executable, "-c", dying, store.uri()], cwd=ROOT, check=False)
    assert store.names("dead") == ["dead/.1"]
    assert hdfs.create_file(store.uri(), "/dead/.2", "/dead/1", b"whole")
    filesystem, _ = open_uri(store.uri())
    files.delete(filesystem, "/dead/.1")  # its writer has a lease on it
    assert store.names("dead") == ["dead/1"]


def test_it_is_a_file_system_of_arrows(store: Hdfs) -> None:
    filesystem, root = open_uri(store.uri("fs"))
    assert root == "/fs"
    assert filesystem == open_uri(store.uri("other"))[0]
    files.make_folder(filesystem, f"{root}/a b/ü%20")
    files.make_folder(filesystem, f"{root}/a b/ü%20")
    table = pa.table({"x": list(range(1000))})
    with filesystem.open_output_stream(f"{root}/a b/x.parquet") as sink:
        pq.write_table(table, sink)
    assert pq.read_table(f"{root}/a b/x.parquet", filesystem=filesystem) == table
    found = files.entries(filesystem, f"{root}/a b")
    kinds = {entry.path: (entry.type, entry.size) for entry in found}
    size = len(store.body("fs/a b/x.parquet"))
    assert kinds == {
        "/fs/a b/ü%20": (pafs.FileType.Directory, None),
        "/fs/a b/x.parquet": (pafs.FileType.File, size),
    }
    assert all(entry.mtime_ns > 1_600_000_000 * 10**9 for entry in found)
    below = filesystem.get_file_info(pafs.FileSelector(root, recursive=True))
    assert {entry.path for entry in below} == {"/fs/a b", *kinds}
    with filesystem.open_input_file(f"{root}/a b/x.parquet") as source:
        assert source.size() == size
        assert source.read_at(4, size - 4) == b"PAR1"
        assert source.read_at(100, size - 4) == b"PAR1"
        assert source.read_at(100, size + 4) == b""
    files.write_private(filesystem, f"{root}/one", b"1")
    files.write_private(filesystem, f"{root}/two", b"2")
    files.move(filesystem, f"{root}/one", f"{root}/two")
    assert files.read_bytes(filesystem, f"{root}/two") == b"1"
    filesystem.copy_file(f"{root}/two", f"{root}/three")
    assert files.read_bytes(filesystem, f"{root}/three") == b"1"
    files.empty_folder(filesystem, root)
    assert files.entries(filesystem, root) == []
    files.delete_folder(filesystem, root)
    assert not files.path_exists(filesystem, root)
    assert files.entries(filesystem, root) == []


def test_a_file_is_read_whole_at_once(store: Hdfs) -> None:
    """The NameNode may not have heard of its last block yet."""
    filesystem, _ = open_uri(store.uri())
    for _ in range(200):
        files.write_private(filesystem, "/soon", b"7" * 100)
        assert len(files.read_bytes(filesystem, "/soon")) == 100
        assert len(hdfs.read_part(store.uri(), "/soon", 0, 1000)) == 100


def test_what_is_not_there_is_a_missing_file(store: Hdfs) -> None:
    filesystem, root = open_uri(store.uri("not/there"))
    for act in (
        filesystem.open_input_file,
        filesystem.delete_file,
        filesystem.delete_dir,
        lambda path: filesystem.move(path, f"{path}/else"),
        lambda path: filesystem.get_file_info(pafs.FileSelector(path)),
        lambda path: hdfs.read_part(store.uri(), path, 0, 1),
    ):
        with pytest.raises(FileNotFoundError):
            act(root)
    files.delete(filesystem, root, missing_ok=True)
    with pytest.raises(StorageError, match="/not/there cannot be deleted"):
        files.delete(filesystem, root)


def test_who_may_not_write_there_is_told(store: Hdfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    hdfs_client.client.cache_clear()
    try:
        filesystem, _ = open_uri(store.uri().replace("127.0.0.1", "localhost"))
        with pytest.raises(StorageError, match="/mine cannot be written") as refused:
            files.write_private(filesystem, "/mine", b"")
    finally:
        hdfs_client.client.cache_clear()
    assert "Permission denied: user=somebody, access=WRITE" in refused.value.why
    assert isinstance(refused.value.__cause__, PermissionError)
    assert not refused.value.transient


def test_a_nameservice_is_found_by_the_files_of_hadoop(
    store: Hdfs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "fs.defaultFS": "hdfs://shop",
        "dfs.nameservices": "shop",
        "dfs.ha.namenodes.shop": "one",
        "dfs.namenode.rpc-address.shop.one": store.address,
        "fs.viewfs.mounttable.all.link./here": f"hdfs://{store.address}/shop",
        "fs.viewfs.mounttable.all.linkFallback": f"hdfs://{store.address}/",
    }
    written = "".join(f"<property><name>{name}</name><value>{at}</value></property>" for name, at in settings.items())
    (tmp_path / "core-site.xml").write_text(f"<configuration>{written}</configuration>", "utf-8")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    store.put("shop/orders", b"7")
    for uri in (
        "hdfs:///shop/orders",
        "hdfs://shop/shop/orders",
        "viewfs://all/here/orders",
        "viewfs://all/shop/orders",
    ):
        filesystem, path = open_uri(uri)
        assert files.read_bytes(filesystem, path) == b"7", uri
    filesystem, path = open_uri("viewfs://all/here")
    assert [entry.path for entry in files.entries(filesystem, path)] == ["/here/orders"]


def test_a_document_is_created_once_and_may_be_replaced(store: Hdfs) -> None:
    uri = store.uri("sealed")
    folder = SealedFolder("/sealed", open_uri(uri)[0], uri)
    assert folder.shown_name == uri
    assert folder.create("turns/1", {"id": 1})
    assert not folder.create("turns/1", {"id": 2})
    assert folder.read("turns/1") == {"id": 1}
    folder.write("turns/1", {"id": 3})
    assert folder.read("turns/1") == {"id": 3}
    assert folder.names("turns") == folder.names("turns") == ["1"]
    folder.delete("turns/1", "turns/2")
    assert folder.read("turns/1") is None
    assert not folder.has("turns/1")
