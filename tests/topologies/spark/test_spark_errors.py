"""What Spark says of its disks and of Kafka, in words for people."""

from __future__ import annotations

import pytest

from topologies.spark.spark_errors import TimestampError, kafka_error_in, storage_error_in

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


def test_a_topic_that_ends_before_what_was_read_is_not_said_to_be_deleted_by_age() -> None:
    said = (
        "[STREAM_FAILED] Query terminated with exception: Some data may have been lost because they are not available "
        "in Kafka any more;\nReason:\nPartition orders-0 offset was changed from 5 to 2.\n\tat org.apache.spark.Kafka"
    )
    found = kafka_error_in(said)
    assert found is not None
    assert "orders-0 offset was changed from 5 to 2: it was deleted and made anew" in str(found)
    assert "keep records longer" not in str(found)


@pytest.mark.parametrize(
    "said",
    [
        "org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record at topic t partition 0 offset 1 has "
        "timestamp value 1714564801500000000 that overflows when converting to Spark's microsecond-precision "
        "TimestampType.",
        "java.lang.ArithmeticException: long overflow\n\tat java.base/java.lang.Math.multiplyExact(Math.java:1)\n"
        "\tat org.apache.spark.sql.kafka010.KafkaRecordToRowConverter.$anonfun$toInternalRow$1(K.scala:2)",
    ],
)
def test_a_timestamp_that_spark_cannot_read_is_known_from_either_version_s_words(said: str) -> None:
    assert isinstance(kafka_error_in(f"Job aborted\n{said}\n\tat x"), TimestampError)
    assert kafka_error_in("kafka\njava.lang.ArithmeticException: long overflow\n\tat my.Function.f(F.java:1)") is None
