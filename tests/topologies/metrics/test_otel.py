"""What OpenTelemetry is told of real runs, read by the SDK's own exporters in memory: the metrics are Prometheus's, and
there is a span for each batch, phase and window."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode, format_span_id, format_trace_id

from tests.helpers.orders_and_refunds import MINUTE, NOON, SCHEMA, Revenue, order, shop, write, write_two_files_each
from tests.helpers.scraping import free_port, scrape
from tests.helpers.telemetry import Told, telemetry
from topologies.run.otel import MOST_RECORDED, MOST_WINDOWS, values_to_record
from topologies.run.run_metrics import INSTRUMENTS, InstrumentKind
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local, sinks, spouts
from windowing import AggregateBolt
from windowing.aggregates import count
from windowing.errors import BoltError, ConfigError, EnvironmentMissing
from windowing.settings.kinds import Session
from windowing.timestamps import show


@pytest.fixture
def told() -> Iterator[Told]:
    """The SDK, as a program sets it up."""
    with telemetry() as found:
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_two_files_each(tmp_path)


# --- metrics ----------------------------------------------------------------------------------------------------


def test_the_metrics_are_those_of_prometheus(folder: Path, told: Told) -> None:
    with free_port() as port:
        run_local(shop(folder), RunOptions(str(folder / "ck"), serve_metrics=port, otel=True))
        found = scrape(port)
    points = told.values()
    expected = Counter(
        each.name for each in INSTRUMENTS for name, _ in found if name in (each.prometheus, f"{each.prometheus}_count")
    )
    assert Counter(name for name, _ in points) == expected
    instruments = {each.name: each for each in INSTRUMENTS}
    for (name, attributes), point in points.items():
        instrument = instruments[name]
        if instrument.kind is not InstrumentKind.HISTOGRAM:
            assert point.value == found[instrument.prometheus, attributes], name
            continue
        assert point.count == found[f"{instrument.prometheus}_count", attributes]
        assert point.sum == pytest.approx(found[f"{instrument.prometheus}_sum", attributes])
        assert tuple(point.explicit_bounds) == instrument.buckets
        upto = 0
        for bound, number in zip([*map(str, instrument.buckets), "+Inf"], point.bucket_counts, strict=True):
            upto += number
            assert upto == found[f"{instrument.prometheus}_bucket", attributes | {("le", bound)}]


def test_instruments_have_their_units_and_texts(folder: Path, told: Told) -> None:
    run_local(shop(folder), RunOptions(otel=True))
    data = told.reader.get_metrics_data()
    assert data is not None
    (of_scope,) = data.resource_metrics[0].scope_metrics
    assert of_scope.scope.name == "windbolt"
    of = {each.name: each for each in INSTRUMENTS}
    assert {metric.name for metric in of_scope.metrics} <= set(of)
    for metric in of_scope.metrics:
        assert (metric.unit, metric.description) == (of[metric.name].unit, of[metric.name].help)


def test_a_second_run_goes_on_with_the_instruments_of_the_first(
    folder: Path, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    key = ("windbolt.windows.fired", frozenset({("topology", "shop"), ("bolt", "revenue")}))
    first = run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True, otel=True)).last
    assert first is not None
    assert told.values()[key].value == first.bolts["revenue"].fired
    write(folder / "orders", 3, [order(12)])
    write(folder / "refunds", 3, [order(12)])
    second = run_local(shop(folder), RunOptions(str(folder / "ck"), keep_open=True, otel=True)).last
    assert second is not None
    assert told.values()[key].value == second.bolts["revenue"].fired > first.bolts["revenue"].fired
    assert not caplog.records, "the SDK warns of instruments that are made twice"


def test_of_many_values_an_even_selection_is_recorded() -> None:
    assert list(values_to_record([(1.0, 2), (5.0, 1)], 10)) == [1.0, 1.0, 5.0]
    assert list(values_to_record([], 10)) == []
    found = Counter(values_to_record([(1.0, 60_000), (2.0, 30_000), (3.0, 9_000), (4.0, 1_000)], 1000))
    assert found == {1.0: 600, 2.0: 300, 3.0: 90, 4.0: 10}
    singles = list(values_to_record([(float(each), 1) for each in range(5000)], 1000))
    assert singles == [float(each) for each in range(4, 5000, 5)]


# --- spans ------------------------------------------------------------------------------------------------------


def test_a_batch_is_a_trace_with_its_phases(folder: Path, told: Told) -> None:
    reports: list[Any] = []
    run_local(shop(folder), RunOptions(str(folder / "ck"), otel=True, on_report=reports.append))
    batches = told.named("batch")
    assert len(batches) == len(reports) == 3
    assert len({span.context.trace_id for span in batches if span.context}) == 3
    for span, report in zip(batches, reports, strict=True):
        assert span.parent is None
        attributes = dict(span.attributes or {})
        assert attributes == {
            "windbolt.topology": "shop",
            "windbolt.batch": report.batch,
            "windbolt.closing": report.closing,
            "windbolt.rows": report.rows,
            "windbolt.windows": sum(bolt.windows for bolt in report.bolts.values()),
            "windbolt.windows.left_out": 0,
        }
        below = [each for each in told.spans if each.parent and each.parent == span.context]
        phases = [each.name for each in below if each.name != "windbolt.window"]
        assert phases == [
            f"windbolt.{name}" for name in ("ingest", "tick", "fire", "compact", "sinks", "commit", "publish")
        ]
        times: list[tuple[Any, Any]] = [(each.start_time, each.end_time) for each in [span, *below]]
        assert all(times[0][0] <= first <= last <= times[0][1] for first, last in times)
        assert all(each.status.status_code is StatusCode.UNSET for each in [span, *below])
    assert batches[-1].attributes is not None
    assert batches[-1].attributes["windbolt.closing"] is True


def test_each_window_is_in_a_span_with_its_end(folder: Path, told: Told) -> None:
    clock = NOON + 10 * MINUTE
    summary = run_local(shop(folder), RunOptions(clock=lambda: clock, keep_open=True, otel=True))
    assert summary.last is not None
    of_revenue = [dict(span.attributes or {}) for span in told.named("window")]
    of_revenue = [each for each in of_revenue if each["windbolt.bolt"] == "revenue"]
    assert of_revenue == [
        {
            "windbolt.topology": "shop",
            "windbolt.bolt": "revenue",
            "windbolt.window.end": show(NOON + end * MINUTE),
            "windbolt.window.emit_delay": 60.0 * (10 - end),
            "windbolt.windows": 1,
        }
        for end in (1, 0, 4, 3, 2)  # of each batch the latest first
    ]
    windows = Counter(
        {name: sum(each for each in _windows(told, name)) for name in ("revenue", "visits")},
    )
    assert windows == {name: bolt.fired for name, bolt in summary.last.bolts.items()}


def _windows(told: Told, bolt: str) -> list[int]:
    found = [dict(span.attributes or {}) for span in told.named("window")]
    return [int(str(each["windbolt.windows"])) for each in found if each["windbolt.bolt"] == bolt]


def test_no_key_is_in_a_span(folder: Path, told: Told) -> None:
    run_local(shop(folder), RunOptions(otel=True))
    given = {str(text) for span in told.spans for text in (span.attributes or {}).values()}
    assert len(told.named("window")) > 3
    assert not given & {"ada", "bob", "eve"}


def many_sessions(folder: Path, number: int) -> Topology:
    write(folder / "orders", 1, [order(each, f"user-{each}") for each in range(number)])
    builder = TopologyBuilder("many")
    builder.set_spout("orders", spouts.files(str(folder / "orders"), schema=SCHEMA, format="jsonl"))
    bolt = AggregateBolt(n=count()).with_window(Session("1m")).with_key("user").with_timestamp_field("ts")
    builder.set_bolt("visits", bolt).fields_grouping("orders")
    builder.set_sink("counts", sinks.memory()).from_("visits")
    return builder.build()


def test_spans_of_windows_are_few_and_the_batch_says_how_many_have_none(tmp_path: Path, told: Told) -> None:
    number = MOST_RECORDED + 500
    run_local(many_sessions(tmp_path, number), RunOptions(otel=True))
    by_batch = Counter(span.parent.span_id for span in told.named("window") if span.parent)
    assert set(by_batch.values()) <= set(range(MOST_WINDOWS + 1))
    of_batches = [dict(span.attributes or {}) for span in told.named("batch")]
    assert sum(int(str(each["windbolt.windows"])) for each in of_batches) == number
    left_out = sum(int(str(each["windbolt.windows.left_out"])) for each in of_batches)
    assert left_out == number - sum(_windows(told, "visits")) > MOST_RECORDED
    point = next(point for (name, _), point in told.values().items() if name == "windbolt.window.emit_delay")
    assert MOST_RECORDED <= point.count < number


def test_a_batch_that_fails_says_with_what(folder: Path, told: Told) -> None:
    write(folder / "orders", 3, [order(7, "crash"), order(20), order(21)])
    write(folder / "refunds", 3, [order(20), order(21)])
    with pytest.raises(BoltError):
        run_local(shop(folder), RunOptions(otel=True))
    *well, failed = told.named("batch")
    assert {span.status.status_code for span in well} == {StatusCode.UNSET}
    assert failed.status.status_code is StatusCode.ERROR
    assert "the till is broken" in str(failed.status.description)
    (event,) = failed.events
    assert event.name == "exception"
    last = told.named("fire")[-1]
    assert (last.parent, last.status.status_code) == (failed.context, StatusCode.ERROR)
    assert "windbolt.batch" not in (failed.attributes or {}), "no batch was committed"


def test_batches_are_linked_to_the_span_in_which_the_run_was_started(folder: Path, told: Told) -> None:
    with trace.get_tracer_provider().get_tracer("program").start_as_current_span("nightly") as nightly:
        run_local(shop(folder), RunOptions(otel=True))
    for span in told.named("batch"):
        assert span.parent is None
        assert [link.context for link in span.links] == [nightly.get_span_context()]


# --- links to events --------------------------------------------------------------------------------------------


def context(number: int) -> str:
    return f"00-{number + 1:032x}-{number + 1:016x}-01"


def traced_shop(folder: Path, orders: list[dict[str, Any]], bolt: Any) -> Topology:
    write(folder / "orders", 1, orders)
    builder = TopologyBuilder("traced")
    schema = f"{SCHEMA}, traceparent string"
    builder.set_spout("orders", spouts.files(str(folder / "orders"), schema=schema, format="jsonl"))
    builder.set_bolt("revenue", bolt.with_timestamp_field("ts")).global_grouping("orders")
    builder.set_sink("out", sinks.memory()).from_("revenue")
    return builder.build()


def linked(told: Told) -> dict[str, list[str]]:
    """The contexts to which windows are linked, by the end of the window."""
    return {
        str((span.attributes or {})["windbolt.window.end"]): [
            f"00-{format_trace_id(link.context.trace_id)}-{format_span_id(link.context.span_id)}-01"
            for link in span.links
        ]
        for span in told.named("window")
    }


def test_a_window_is_linked_to_samples_of_its_events(tmp_path: Path, told: Told) -> None:
    """Of the window's own events, from its first to its last; what is no trace context is passed over."""
    orders = [order(each / 100, traceparent=context(each)) for each in range(1, 100)]
    orders += [order(1.5), order(1.6, traceparent="nonsense"), order(1.7, traceparent=context(170))]
    orders += [order(2.5), order(3.5)]
    run_local(traced_shop(tmp_path, orders, Revenue().with_window("1m", "1m")), RunOptions(otel=True))
    found = linked(told)
    assert found[show(NOON + MINUTE)] == [context(each) for each in (1, 25, 50, 74, 99)]
    assert found[show(NOON + 2 * MINUTE)] == [context(170)]
    assert found[show(NOON + 3 * MINUTE)] == []


def test_sessions_are_linked_too(tmp_path: Path, told: Told) -> None:
    orders = [order(0, traceparent=context(0)), order(0.1, traceparent=context(0)), order(9)]
    bolt = Revenue().with_window(Session("1m")).with_key("user")
    run_local(traced_shop(tmp_path, orders, bolt), RunOptions(otel=True))
    assert sorted(linked(told).values()) == [[], [context(0)]], "one context of two events is one link"


def test_windows_whose_events_are_added_up_as_they_come_have_no_links(tmp_path: Path, told: Told) -> None:
    bolt = AggregateBolt(n=count()).with_window("1m", "1m")
    run_local(traced_shop(tmp_path, [order(0.5, traceparent=context(0)), order(5)], bolt), RunOptions(otel=True))
    assert set(map(tuple, linked(told).values())) == {()}


def test_those_with_trace_contexts_are_shown_first(tmp_path: Path, told: Told) -> None:
    orders = [order(each, traceparent=context(each) if each < 3 else None) for each in range(2 * MOST_WINDOWS)]
    run_local(traced_shop(tmp_path, orders, Revenue().with_window("1m", "1m")), RunOptions(otel=True))
    found = linked(told)
    assert [links for links in found.values() if links] == [[context(2)], [context(1)], [context(0)]]


# --- where it goes ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("package", ["opentelemetry", "opentelemetry.sdk.trace"])
def test_without_a_package_the_extra_is_told(package: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(EnvironmentMissing, match="is missing") as missing:
        run_local(shop(folder), RunOptions(otel=True))
    assert "windbolt[otel]" in missing.value.do


def test_an_exporter_that_is_not_installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ConfigError, match="no exporter 'zipkin' for OTEL_TRACES_EXPORTER") as wrong:
        run_local(shop(folder), RunOptions(otel=True))
    assert "console, none, otlp_proto_http" in wrong.value.why
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    with pytest.raises(ConfigError, match="no exporter 'otlp_proto_grpc'") as wrong:
        run_local(shop(folder), RunOptions(otel=True))
    assert "install opentelemetry-exporter-otlp-proto-grpc" in wrong.value.do
