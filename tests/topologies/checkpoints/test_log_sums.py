"""The checksums of Spark's logs, kept by windbolt where Spark writes none."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pyarrow.fs as pafs
import pytest

from tests.topologies.checkpoints.savepoints.test_corpus import ENTRIES
from topologies.checkpoints.spark_half import spark_files
from topologies.checkpoints.spark_half.log_sums import LogSums
from topologies.checkpoints.spark_half.spark_files import read_spark_file, sum_spark_file
from topologies.checkpoints.spark_half.spark_half import SparkHalf
from windowing.errors import DamagedCheckpoint, StorageError

LOCAL = pafs.LocalFileSystem()


class Spark:
    """Writes logs as Spark does, without checksums."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.write("metadata", '{"id":"a query"}')

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def batch(self, number: int, *, entries: int = 1) -> None:
        """Of a source of files, which has so many new entries in its log, and one of Kafka."""
        last = (number + 1) * entries - 1
        for entry in range(number * entries, last + 1):
            name = f"{entry}.compact" if entry % 10 == 9 else str(entry)
            self.write(f"sources/0/{name}", f'v1\n{{"path":"file:///{entry}","timestamp":0,"batchId":{entry}}}')
        offsets = ["v1", "{}", json.dumps({"logOffset": last}), json.dumps({"orders": {"0": number}}), "-"]
        self.write(f"offsets/{number}", "\n".join(offsets))

    def done(self, number: int) -> None:
        self.write(f"commits/{number}", 'v1\n{"nextBatchWatermarkMs":0}')

    def forgets(self, *names: str) -> None:
        for name in names:
            (self.root / name).unlink()

    def logs(self) -> set[str]:
        return {str(path.relative_to(self.root)) for path in self.root.rglob("*") if path.is_file() and _plain(path)}

    def summed(self) -> set[str]:
        """The logs that have a checksum, each of which is theirs, or is of one that is gone."""
        found = set()
        for path in self.root.rglob(".*.crc"):
            log = path.with_name(path.name[1:-4])
            found.add(str(log.relative_to(self.root)))
            if log.exists():
                read_spark_file(LOCAL, str(log))
        return found


def _plain(path: Path) -> bool:
    return not path.name.startswith(".")


@pytest.fixture
def spark(tmp_path: Path) -> Spark:
    return Spark(tmp_path / "spark")


def sums_of(spark: Spark) -> LogSums:
    sums = LogSums(SparkHalf(LOCAL, str(spark.root)))
    sums.begin()
    return sums


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: f"{path.parent.name} {path.stem}")
def test_they_are_what_spark_writes(path: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(path) as entry:
        entry.extractall(tmp_path)
    found = list((tmp_path / "ck/spark").rglob(".*.crc"))
    assert found
    for sums in found:
        before = sums.read_bytes()
        sums.unlink()
        sum_spark_file(str(sums.with_name(sums.name[1:-4])))
        assert sums.read_bytes() == before


@pytest.mark.parametrize("entries", [1, 3])
def test_after_each_batch_its_logs_have_them(spark: Spark, entries: int) -> None:
    sums = sums_of(spark)
    for number in range(25):
        spark.batch(number, entries=entries)
        sums.keep(number)
        assert spark.summed() == spark.logs()
        spark.done(number)
    with sums:
        pass
    assert spark.summed() == spark.logs()


def test_what_a_dead_run_has_left_has_them_after_the_next_batch(spark: Spark) -> None:
    for number in range(3):
        spark.batch(number)
        spark.done(number)
    spark.batch(3)
    sums_of(spark).keep(3)
    assert spark.summed() == spark.logs()


def test_those_of_logs_that_spark_has_deleted_go_too_after_a_while(spark: Spark) -> None:
    sums = sums_of(spark)
    for number in range(101):
        spark.batch(number)
        if number > 10:
            spark.forgets(f"offsets/{number - 10}", f"commits/{number - 10}")
        sums.keep(number)
        assert spark.logs() <= spark.summed()
        spark.done(number)
    spark.forgets("commits/100")  # which nobody has summed yet
    assert spark.summed() == spark.logs()


def test_at_the_end_of_a_run_that_fails_they_are_kept_and_its_error_is_told(
    spark: Spark, monkeypatch: pytest.MonkeyPatch
) -> None:
    spark.batch(0)
    with pytest.raises(ZeroDivisionError), sums_of(spark):
        raise ZeroDivisionError
    assert spark.summed() == spark.logs()
    spark.batch(1)

    def fails(*_: object) -> None:
        raise StorageError("the disk is full", why="it is small")

    monkeypatch.setattr("topologies.checkpoints.spark_half.spark_files.files.write_private", fails)
    with pytest.raises(ZeroDivisionError), sums_of(spark):
        raise ZeroDivisionError
    with pytest.raises(StorageError, match="the disk is full"), sums_of(spark):
        pass


def test_where_spark_writes_them_none_is_written(spark: Spark) -> None:
    with LogSums(SparkHalf(LOCAL, str(spark.root))) as sums:
        spark.batch(0)
        sums.keep(0)
    assert spark.summed() == set()


def test_each_other_byte_is_found(spark: Spark) -> None:
    spark.batch(0)
    sums_of(spark).keep(0)
    path = spark.root / "offsets/0"
    data = path.read_bytes()
    for at in range(len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(DamagedCheckpoint, match=r"the checksum beside it \(\.0\.crc\) differ"):
            read_spark_file(LOCAL, str(path))


def test_after_a_power_cut_an_empty_log_is_damaged_and_an_empty_checksum_is_none(spark: Spark) -> None:
    spark.batch(0)
    sums_of(spark).keep(0)
    path = spark.root / "offsets/0"
    path.with_name(".0.crc").write_bytes(b"")
    assert read_spark_file(LOCAL, str(path)) == path.read_text()
    path.write_bytes(b"")
    with pytest.raises(DamagedCheckpoint, match="the file is empty"):
        read_spark_file(LOCAL, str(path))


def test_large_ones_are_on_the_disk_before_they_have_their_name(spark: Spark, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(spark_files, "sync_file", synced.append)
    for size, flushed in ((1, False), (512 * 1022, False), (512 * 1023, True)):
        path = spark.root / str(size)
        path.write_bytes(b"x" * size)
        synced.clear()
        sum_spark_file(str(path))
        assert bool(synced) is flushed
        assert len(read_spark_file(LOCAL, str(path))) == size
