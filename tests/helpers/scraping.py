"""Scrapes of a run's metrics over HTTP, as Prometheus makes them, read by the parser of prometheus-client."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families as plain_text

from manager.accounts import ACCOUNTS
from topologies.run.metrics_server import SERVERS
from topologies.run.options import address_of
from topologies.run.summary import Summary

Scrape = dict[tuple[str, frozenset[tuple[str, str]]], float]


@contextmanager
def free_port() -> Iterator[int]:
    """A port of the loopback interface that nobody has; what is served there ends with the block."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
    try:
        yield port
    finally:
        SERVERS.close(address_of(port))


def get(port: int, path: str, accept: str = "") -> tuple[int, str, str]:
    """Status, content type and body of an answer."""
    try:
        with urlopen(Request(f"http://127.0.0.1:{port}{path}", headers={"Accept": accept}), timeout=10) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except HTTPError as error:
        return error.code, error.headers["Content-Type"], error.read().decode()


def scrape(port: int) -> Scrape:
    """All samples by name and labels; the same in both formats that a Prometheus may ask for."""
    status, _, body = get(port, "/metrics")
    assert status == 200
    found = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in plain_text(body)
        for sample in family.samples
    }
    status, kind, body = get(port, "/metrics", "application/openmetrics-text; version=1.0.0")
    assert status == 200
    assert kind.startswith("application/openmetrics-text")
    names = {sample.name for family in open_metrics(body) for sample in family.samples}
    assert names == {name for name, _ in found}
    return found


def value(found: Scrape, name: str, **labels: str) -> float:
    """The value of one sample."""
    return found[name, frozenset(labels.items())]


def values(found: Scrape, name: str, *labels: str) -> dict[Any, float]:
    """The values of all samples of a name, by some of their labels."""
    return {
        tuple(dict(given)[label] for label in labels): number for (each, given), number in found.items() if each == name
    }


def health(port: int) -> tuple[int, dict[str, Any]]:
    """The status and the answer of /health."""
    status, _, body = get(port, "/health")
    return status, json.loads(body)


def assert_as_reported(found: Scrape, summary: Summary, topology: str = "shop") -> None:
    """All that is served of the bolts is what the last report says."""
    assert summary.last is not None
    for name, bolt in summary.last.bolts.items():
        of = {"topology": topology, "bolt": name}
        for stream, counts in bolt.streams.items():
            of_stream = of | {"stream": stream}
            for account in ACCOUNTS:
                assert value(found, "windbolt_events_total", **of_stream, account=account) == counts[account]
            assert value(found, "windbolt_events_received_total", **of_stream) == counts["received"]
            assert value(found, "windbolt_events_pending", **of_stream) == counts["pending"]
            assert (
                value(found, "windbolt_events_noted_total", **of_stream, finding="out_of_order")
                == counts["out_of_order"]
            )
        assert value(found, "windbolt_windows_fired_total", **of) == bolt.fired
        assert value(found, "windbolt_windows_open", **of) == bolt.open
        for stream, rows in bolt.emitted.items():
            assert value(found, "windbolt_rows_emitted_total", **of, stream=stream) == rows
        inputs = {
            key[1]: at
            for key, at in values(found, "windbolt_watermark_timestamp_seconds", "bolt", "input").items()
            if key[0] == name
        }
        assert inputs == {stream: at / 1e6 for stream, at in bolt.inputs.items()}
        if bolt.delay is not None:
            assert value(found, "windbolt_watermark_delay_seconds", **of) == bolt.delay / 1e6
    for spout, counts in summary.last.spouts.items():
        for what, number in counts.items():
            assert value(found, "windbolt_spout_total", topology=topology, spout=spout, what=what) == number
