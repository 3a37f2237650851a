"""The dashboard and the alerts in docs/monitoring: every metric and label that they name is exported.

The expressions are parsed by promql-parser; a real Prometheus answers them in ``test_prometheus.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
import yaml

from tests.helpers.places import ROOT
from topologies.run.run_metrics import INSTRUMENTS, InstrumentKind

ALERTS = ROOT / "docs/monitoring/alerts.yaml"
DASHBOARD = json.loads((ROOT / "docs/monitoring/dashboard.json").read_text("utf-8"))
RULES = yaml.safe_load(ALERTS.read_text("utf-8"))["groups"][0]["rules"]
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]
OF_PROMETHEUS = {"up": {"job", "instance"}}


def exported() -> dict[str, set[str]]:
    """The labels of each series, by its name."""
    found = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
    for each in INSTRUMENTS:
        if each.kind is InstrumentKind.HISTOGRAM:
            found |= {f"{each.prometheus}_{part}": set(each.labels) for part in ("sum", "count")}
            found[f"{each.prometheus}_bucket"] = {*each.labels, "le"}
        else:
            found[each.prometheus] = set(each.labels)
    return found


EXPORTED = exported()


def parsed(text: str) -> Any:
    """An expression, with Grafana's variables as they might be."""
    return promql_parser.parse(text.replace("$__rate_interval", "1m").replace("$topology", "shop"))


def below(node: Any) -> Iterator[Any]:
    """A node of an expression, and all below it."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vector_selector", "args"):
        child = getattr(node, name, None)
        for each in child if isinstance(child, list) else [child]:
            if each is not None and not isinstance(each, (str, int, float)):
                yield from below(each)


def selectors(node: Any) -> list[Any]:
    return [each for each in below(node) if isinstance(each, promql_parser.VectorSelector)]


def mistakes(text: str) -> list[str]:
    """What an expression names that is not exported."""
    found = []
    for node in below(parsed(text)):
        if isinstance(node, promql_parser.VectorSelector):
            if node.name not in EXPORTED:
                found.append(f"no metric {node.name}")
            else:
                named = {matcher.name for matcher in node.matchers.matchers}
                found += [f"{node.name} has no {label}" for label in sorted(named - EXPORTED[node.name])]
        if isinstance(node, promql_parser.AggregateExpr) and node.modifier is not None:
            for selector in selectors(node.expr):
                missing = set(node.modifier.labels) - EXPORTED.get(selector.name, set())
                found += [f"{selector.name} has no {label}" for label in sorted(missing)]
    return found


def labels_after(node: Any) -> set[str]:
    """The labels that a result may have, for the texts beside it."""
    if isinstance(node, promql_parser.AggregateExpr):
        return set() if node.modifier is None else set(node.modifier.labels)
    if isinstance(node, promql_parser.VectorSelector):
        return EXPORTED[str(node.name)]
    found: set[str] = set()
    for child in below(node):
        if child is not node and isinstance(child, promql_parser.AggregateExpr | promql_parser.VectorSelector):
            found |= labels_after(child)
            if isinstance(child, promql_parser.AggregateExpr):
                return found
    return found


@pytest.mark.parametrize(
    "expression",
    [pytest.param(rule["expr"], id=rule["alert"]) for rule in RULES]
    + [pytest.param(target["expr"], id=f"{title} {target['refId']}") for title, target in TARGETS],
)
def test_an_expression_names_what_is_exported(expression: str) -> None:
    assert selectors(parsed(expression)), "it looks at something"
    assert mistakes(expression) == []


@pytest.mark.parametrize(
    ("expression", "mistake"),
    [
        ("windbolt_events", "no metric windbolt_events"),
        ("rate(windbolt_events_total{key='ada'}[5m])", "windbolt_events_total has no key"),
        ("sum by (user) (windbolt_events_pending)", "windbolt_events_pending has no user"),
        (
            "sum by (le, bolt) (windbolt_window_emit_delay_seconds_sum)",
            "windbolt_window_emit_delay_seconds_sum has no le",
        ),
    ],
)
def test_a_mistake_is_found(expression: str, mistake: str) -> None:
    assert mistakes(expression) == [mistake]


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        (text, rule["expr"])
        for rule in RULES
        for text in re.findall(r"\$labels\.(\w+)", " ".join(rule["annotations"].values()))
    ]
    + [(text, target["expr"]) for _, target in TARGETS for text in re.findall(r"{{(\w+)}}", target["legendFormat"])],
)
def test_the_texts_name_labels_of_the_result(text: str, expression: str) -> None:
    assert text in labels_after(parsed(expression))


def test_all_metrics_are_on_the_dashboard_but_the_counts_that_others_hold() -> None:
    shown = {selector.name for _, target in TARGETS for selector in selectors(parsed(target["expr"]))}
    of = {each.prometheus for each in INSTRUMENTS}
    assert {name for name in of if not any(each.startswith(name) for each in shown)} == {
        "windbolt_events_received_total"
    }


def test_the_page_lists_all_metrics_with_their_labels() -> None:
    page = (ROOT / "docs/monitoring.md").read_text("utf-8")
    table = {
        name: set(re.findall(r"`(\w+)`", cells[1]))
        for line in page.splitlines()
        if line.startswith("| `windbolt_")
        for cells in [line.strip("| ").split(" | ") if " | | " not in line else [line.split("|")[1], ""]]
        for name in re.findall(r"`(windbolt_\w+)`", cells[0])
    }
    assert table == {each.prometheus: {*each.labels} - {"topology"} for each in INSTRUMENTS}


def test_alerts_have_texts_and_a_severity() -> None:
    for rule in RULES:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
        assert set(rule["annotations"]) == {"summary", "description"}
        assert rule["labels"]["severity"] in ("warning", "critical")
