"""The object store of the tests lists what moto would list: only the time that it takes is another."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from typing import Any
from urllib.parse import quote

from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws
from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.test import Client

from servers.s3 import Watched
from tests.helpers.examples import examples

BASE = "http://127.0.0.1:80"
PARTS = st.sampled_from(["a", "b c", "ü", "x=1", "d&e", "z.", "-", "<"])
NAMES = st.lists(st.lists(PARTS, min_size=1, max_size=3).map("/".join), max_size=12, unique=True)
QUERIES = st.fixed_dictionaries(
    {"list-type": st.just("2"), "prefix": st.sampled_from(["", "a", "a/", "b c/", "ü/", "none"])},
    optional={
        "delimiter": st.just("/"),
        "encoding-type": st.just("url"),
        "max-keys": st.sampled_from(["1", "2", "1000"]),
        "start-after": st.sampled_from(["a", "a/b c", "m"]),
    },
)


@examples(60)
@given(names=NAMES, queries=st.lists(QUERIES, min_size=1, max_size=6))
def test_it_lists_as_moto_does(names: list[str], queries: list[dict[str, str]]) -> None:
    with mock_aws():
        moto = create_backend_app("s3")
        theirs, ours = Client(moto), Client(Watched(moto))
        theirs.put("/bucket", base_url=BASE)
        for at, name in enumerate(names):
            assert theirs.put(f"/bucket/{quote(name)}", data=b"x" * at, base_url=BASE).status_code == 200
        for query in queries:
            assert pages(ours, query) == pages(theirs, query)


def pages(client: Client, query: dict[str, str]) -> list[list[Any]]:
    """All pages of one listing."""
    found: list[list[Any]] = []
    token: str | None = None
    while token is not None or not found:
        asked = query if token is None else {**query, "continuation-token": token}
        tree = ElementTree.fromstring(client.get("/bucket", query_string=asked, base_url=BASE).data)
        entries = [
            [(part.tag.rpartition("}")[2], part.text) for part in entry if part.tag.rpartition("}")[2] != "Owner"]
            for kind in ("Contents", "CommonPrefixes")
            for entry in tree.iterfind(f"{{*}}{kind}")
        ]
        found.append([*map(sorted, entries), tree.findtext("{*}KeyCount"), tree.findtext("{*}IsTruncated")])
        token = tree.findtext("{*}NextContinuationToken")
    return found
