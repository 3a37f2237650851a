"""One way to name places: what a user writes, what windbolt makes of it, and what Spark's half is told.

The same place has several names: ``s3a://`` is Hadoop's name of ``s3://``, ``wasbs://`` an older one of ``abfss://``. A
user may write any of them; windbolt writes the one that Arrow knows, and tells Spark the one that Hadoop knows.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import parse_qs, unquote, urlsplit

_ARROWS = {"s3a": "s3", "s3n": "s3", "gcs": "gs", "wasbs": "abfss", "wasb": "abfs"}
"""By other schemes, the one that Arrow has."""
KNOWN = ("s3", "gs", "abfs", "abfss", "hdfs", "viewfs", "file")
_DBFS = "/dbfs/"
"""Where Databricks shows its file system to Python; Spark calls it ``dbfs:/``."""
_QUERY = re.compile(r"\?[A-Za-z_]+=")
"""What begins a query; a question mark alone is part of a pattern."""


def place_name(path: str) -> str:
    """A place as windbolt names it: ``s3://``, ``gs://``, ``abfs://``, ``abfss://``, ``hdfs://``, or a local path."""
    if path.startswith("dbfs:/"):
        return _DBFS + path.removeprefix("dbfs:").lstrip("/")
    scheme, sign, rest = path.partition("://")
    if not sign or scheme.lower() not in _ARROWS:
        return path
    if scheme.lower().startswith("wasb"):
        rest = rest.replace(".blob.core.", ".dfs.core.", 1)
    return f"{_ARROWS[scheme.lower()]}://{rest}"


def has_query(path: str) -> bool:
    """Whether a place is named with options behind it, ``?endpoint_override=...``."""
    return "://" in path and _QUERY.search(path) is not None


def root_and_path(place: str, *, options: bool = True) -> tuple[str, str]:
    """A place with a scheme as the URI of its file system, with its options, and the path below that, as it is written:
    a name may hold spaces, percent signs and all else that URIs encode.

    ``options``: whether it may have some; what was listed has none, and may be called ``a?b=c``.
    """
    scheme, _, rest = place.partition("://")
    match = _QUERY.search(rest) if options else None
    query = "" if match is None else rest[match.start() :]
    authority, _, path = rest.removesuffix(query).partition("/")
    return f"{scheme}://{authority}/{query}", path


def hadoop_name(path: str) -> str:
    """A place as Spark and Hadoop name it, without options and keys: those are ``s3a_settings``."""
    named = place_name(path)
    if named.startswith(_DBFS):
        return "dbfs:/" + named.removeprefix(_DBFS)
    scheme, sign, rest = named.partition("://")
    if not sign:
        return named
    match = _QUERY.search(rest)
    rest = rest if match is None else rest[: match.start()]
    if scheme != "s3":
        return f"{scheme}://{rest}"
    bucket, slash, inside = rest.partition("/")
    return f"s3a://{bucket.rpartition('@')[2]}{slash}{inside}"


def s3a_settings(path: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What Hadoop has to be told so that it asks the same S3 store as Arrow and obstore, as the same user: settings of
    the bucket, by their names within ``fs.s3a.bucket.<bucket>.``; empty for other places."""
    named = place_name(path)
    if not named.startswith("s3://"):
        return {}
    at = urlsplit(named) if has_query(named) else urlsplit(named.partition("?")[0])
    asked = {name: values[-1] for name, values in parse_qs(at.query).items()}
    endpoint, region = _endpoint(asked, environment), asked.get("region") or _first(environment, _REGIONS)
    settings: dict[str, str] = {}
    if endpoint:
        # A store that is not Amazon's has no host for each bucket; Arrow asks it by path too.
        settings |= {"endpoint": endpoint, "path.style.access": "true"}
        settings["connection.ssl.enabled"] = "false" if endpoint.startswith("http://") else "true"
    if region or endpoint:
        settings["endpoint.region"] = region or "us-east-1"
    if at.username:
        settings |= {"access.key": unquote(at.username), "secret.key": unquote(at.password or "")}
        settings["aws.credentials.provider"] = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
    else:  # the places where Arrow looks too: variables, ~/.aws, the machine's role
        settings["aws.credentials.provider"] = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
    return settings


_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")


def _endpoint(asked: Mapping[str, str], environment: Mapping[str, str]) -> str:
    given = asked.get("endpoint_override")
    if given:
        return given if "://" in given else f"{asked.get('scheme', 'https')}://{given}"
    return _first(environment, _ENDPOINTS)


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environment[name] for name in names if environment.get(name)), "")
