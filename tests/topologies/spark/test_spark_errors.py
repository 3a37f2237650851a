"""What Spark says of its disks, in words for people."""

from __future__ import annotations

import pytest

from topologies.spark.spark_errors import storage_error_in

JAVA = """org.apache.spark.SparkException: Job aborted due to stage failure
	at org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2844)
Caused by: java.io.FileNotFoundException: /data/spark/blockmgr-1/0c/temp_shuffle (No space left on device)
	at java.base/java.io.FileOutputStream.open0(Native Method)"""


def test_a_full_disk_of_spark_s_own_is_told_with_its_path_and_what_to_do() -> None:
    error = storage_error_in(JAVA)
    assert error is not None
    assert error.why == "/data/spark/blockmgr-1/0c/temp_shuffle (No space left on device)"
    assert error.do.startswith("free space there")
    denied = storage_error_in("[STREAM_FAILED] Query [id = 1] terminated with exception: /ck/spark: Permission denied")
    assert denied is not None
    assert denied.do.startswith("give this user the right")


@pytest.mark.parametrize(
    "said",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "OSError: [Errno 28] No space left on device: 'mine'",  # of a function of the user's, say
    ],
)
def test_other_errors_are_not_taken_for_those_of_disks(said: str) -> None:
    assert storage_error_in(said) is None
