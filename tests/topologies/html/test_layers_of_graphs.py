"""Where the boxes of a graph stand."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from topologies.graph.html import Edge, lay_out

GAP = 30.0


@st.composite
def graphs(draw: st.DrawFn) -> tuple[dict[str, float], list[Edge]]:
    """Boxes of some widths, and edges from earlier ones to later ones."""
    number = draw(st.integers(0, 12))
    names = [f"box {each}" for each in range(number)]
    widths = {name: draw(st.floats(10, 200)) for name in names}
    pairs = list(combinations(names, 2))
    return widths, draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []


@given(graphs())
def test_boxes_do_not_overlap_and_edges_lead_down(graph: tuple[dict[str, float], list[Edge]]) -> None:
    widths, edges = graph
    placed = lay_out(widths, edges, GAP)
    for source, target in edges:
        assert placed.layer[source] < placed.layer[target]
        assert len(placed.bends[source, target]) == placed.layer[target] - placed.layer[source] - 1
    for one, other in combinations(widths, 2):
        if placed.layer[one] == placed.layer[other]:
            distance = abs(placed.centres[one] - placed.centres[other])
            assert distance >= (widths[one] + widths[other]) / 2 + GAP - 1e-6
    for name, width in widths.items():
        assert placed.centres[name] - width / 2 >= -1e-6
        assert placed.centres[name] + width / 2 <= placed.width + 1e-6


@given(graphs())
def test_what_nothing_leads_to_stands_right_above_what_it_leads_to(graph: tuple[dict[str, float], list[Edge]]) -> None:
    widths, edges = graph
    placed = lay_out(widths, edges, GAP)
    targets = {target for _, target in edges}
    for name in widths:
        below = [placed.layer[target] for source, target in edges if source == name]
        if name not in targets and below:
            assert placed.layer[name] == min(below) - 1


def test_a_chain_stands_below_itself_and_a_fork_is_in_the_middle() -> None:
    chain = lay_out({"a": 100.0, "b": 40.0, "c": 70.0}, [("a", "b"), ("b", "c")], GAP)
    assert len({round(centre) for centre in chain.centres.values()}) == 1
    fork = lay_out({"a": 50.0, "b": 50.0, "c": 50.0}, [("a", "b"), ("a", "c")], GAP)
    assert abs(fork.centres["a"] - (fork.centres["b"] + fork.centres["c"]) / 2) < 1


def test_crossings_that_need_not_be_are_not() -> None:
    widths = dict.fromkeys(["a", "b", "c", "x", "y", "z"], 50.0)
    placed = lay_out(widths, [("a", "z"), ("b", "y"), ("c", "x")], GAP)
    above = sorted("abc", key=placed.centres.__getitem__)
    below = sorted("zyx", key=placed.centres.__getitem__)
    assert [{"a": "z", "b": "y", "c": "x"}[name] for name in above] == below
