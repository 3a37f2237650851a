"""One way to name places: every name of a place is the same place, for our half and for Spark's."""

from __future__ import annotations

import pytest

from manager.remote import hadoop_name, has_query, place_name, root_and_path, s3a_settings
from manager.storage import object_store
from manager.storage.object_store import is_object_store, open_uri
from topologies.io.paths import locate, shown_path
from windowing.errors import ConfigError

NAMES = [
    ("s3://bucket/ck", "s3://bucket/ck", "s3a://bucket/ck"),
    ("s3a://bucket/ck", "s3://bucket/ck", "s3a://bucket/ck"),
    ("s3n://bucket/ck", "s3://bucket/ck", "s3a://bucket/ck"),
    ("S3A://bucket/ck", "s3://bucket/ck", "s3a://bucket/ck"),
    ("s3a://bucket/in/?.csv", "s3://bucket/in/?.csv", "s3a://bucket/in/?.csv"),
    ("s3://key:secret@bucket/ck?region=x", "s3://key:secret@bucket/ck?region=x", "s3a://bucket/ck"),
    ("s3://bucket", "s3://bucket", "s3a://bucket"),
    ("gs://bucket/ck", "gs://bucket/ck", "gs://bucket/ck"),
    ("gcs://bucket/ck", "gs://bucket/ck", "gs://bucket/ck"),
    ("abfss://c@a.dfs.core.windows.net/ck", *["abfss://c@a.dfs.core.windows.net/ck"] * 2),
    ("wasbs://c@a.blob.core.windows.net/ck", *["abfss://c@a.dfs.core.windows.net/ck"] * 2),
    ("wasb://c@a.blob.core.windows.net/ck", *["abfs://c@a.dfs.core.windows.net/ck"] * 2),
    ("hdfs://nn:8020/ck", "hdfs://nn:8020/ck", "hdfs://nn:8020/ck"),
    ("dbfs:/shop/ck", "/dbfs/shop/ck", "dbfs:/shop/ck"),
    ("dbfs:///shop/ck", "/dbfs/shop/ck", "dbfs:/shop/ck"),
    ("/dbfs/shop/ck", "/dbfs/shop/ck", "dbfs:/shop/ck"),
    ("/srv/ck", "/srv/ck", "/srv/ck"),
]


@pytest.mark.parametrize(("given", "ours", "hadoops"), NAMES, ids=[given for given, _, _ in NAMES])
def test_a_place_has_one_name_here_and_one_for_spark(given: str, ours: str, hadoops: str) -> None:
    assert (place_name(given), hadoop_name(given)) == (ours, hadoops)
    assert shown_path(given) == ours
    assert (place_name(ours), place_name(hadoops).partition("?")[0]) == (ours, place_name(hadoops).partition("?")[0])


def test_what_is_behind_a_question_mark_is_options_or_a_pattern() -> None:
    assert has_query("s3://bucket/ck?endpoint_override=127.0.0.1:9000")
    assert not has_query("s3://bucket/in/?.parquet")
    assert not has_query("/srv/a?b=c")


def test_hadoop_is_told_what_arrow_knows() -> None:
    role = {"aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"}
    local = {"endpoint": "http://127.0.0.1:9000", "path.style.access": "true", "connection.ssl.enabled": "false"}
    assert s3a_settings("s3a://bucket/ck", {}) == role
    assert s3a_settings("/srv/ck", {"AWS_REGION": "x"}) == {}
    assert s3a_settings("gs://bucket/ck", {"AWS_REGION": "x"}) == {}
    assert s3a_settings("s3://bucket/in/?.csv", {"AWS_REGION": "eu-north-1"}) == role | {
        "endpoint.region": "eu-north-1"
    }
    named = "s3://bucket/ck?scheme=http&endpoint_override=127.0.0.1:9000&region=here"
    assert s3a_settings(named, {"AWS_REGION": "x"}) == role | local | {"endpoint.region": "here"}
    of_all = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}
    assert s3a_settings("s3://bucket/ck", of_all) == role | local | {"endpoint.region": "us-east-1"}
    keys = s3a_settings("s3://key:se%2Fcret@bucket/ck", {})
    assert (keys["access.key"], keys["secret.key"]) == ("key", "se/cret")


def test_two_names_of_a_place_are_one_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    one, another = locate("s3a://bucket/ck?region=us-east-1"), locate("s3://bucket/ck?region=us-east-1")
    assert one == another
    assert one[1:] == ("bucket/ck", "s3://bucket/ck?region=us-east-1")
    assert locate("wasbs://c@a.blob.core.windows.net/ck")[1:] == ("c/ck", "abfss://c@a.dfs.core.windows.net/ck")
    assert is_object_store("abfss://c@a.dfs.core.windows.net/ck")


def test_a_scheme_that_nobody_knows_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match=r"windbolt does not know oss://"):
        open_uri("oss://bucket/ck")


@pytest.mark.parametrize(
    ("place", "root", "inside"),
    [
        ("s3://bucket", "s3://bucket/", ""),
        ("s3://bucket/a b%20c#d/ü.csv", "s3://bucket/", "a b%20c#d/ü.csv"),
        ("s3://k:s@bucket/a b?region=x&scheme=http", "s3://k:s@bucket/?region=x&scheme=http", "a b"),
        ("s3://bucket/in/?.csv", "s3://bucket/", "in/?.csv"),
        ("hdfs://nn:8020/a b", "hdfs://nn:8020/", "a b"),
    ],
)
def test_a_path_below_a_file_system_is_as_it_is_written(place: str, root: str, inside: str) -> None:
    assert root_and_path(place) == (root, inside)


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("s3://bucket?region=x", "bucket"),
        ("s3://bucket/a b%20c#ü/d?region=x", "bucket/a b%20c#ü/d"),
        ("gs://bucket/a b", "bucket/a b"),
        ("abfss://c@a.dfs.core.windows.net/a b", "c/a b"),
    ],
)
def test_arrow_is_given_names_that_a_uri_would_encode(place: str, path: str) -> None:
    assert open_uri(place)[1] == path


def test_the_files_of_a_store_have_one_file_system() -> None:
    assert (
        object_store._open_filesystem(root_and_path("s3://bucket/a b?region=x")[0], 1)[0]
        is (object_store._open_filesystem(root_and_path("s3://bucket/c?region=x")[0], 1)[0])
    )
