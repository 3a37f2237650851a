"""References kept as columns say what the same references say one by one."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.storage.segments import Flags, Ref, RefColumns, Refs
from topologies.engine.task_data import Sections, UnadmittedEvents

INPUTS = 2
TIMES = st.integers(-5, 5)
COUNTS = st.integers(0, 9)


@st.composite
def any_ref(draw: st.DrawFn, *, flagged: bool = False) -> Ref:
    live = draw(st.booleans())
    times = sorted(draw(st.tuples(TIMES, TIMES)))
    by_stream = draw(st.tuples(COUNTS, COUNTS))
    start = draw(COUNTS)
    return Ref(
        draw(st.sampled_from("abc")),
        draw(COUNTS),
        draw(COUNTS),
        start + sum(by_stream),
        start=start,
        earliest_live=times[0] if live else None,
        latest_live=times[1] if live else None,
        by_stream=by_stream,
        level=draw(st.integers(0, 2)),
        flags=Flags("f", 0, 1, 2, 1) if flagged else None,
        checksum=draw(st.integers(0, 2**32 - 1)),
    )


PLAIN = st.lists(any_ref(), min_size=1, max_size=30)
MIXED = st.lists(st.booleans().flatmap(lambda flagged: any_ref(flagged=flagged)), max_size=40)


def kept(parts: Sequence[Sequence[Ref]]) -> Refs:
    """The parts as batches leave them: one by one, and as columns, in turns."""
    refs = Refs(parts[0]) if parts else Refs()
    for number, part in enumerate(parts[1:]):
        if number % 2:
            for ref in part:
                refs.append(ref)
        else:
            refs.extend(RefColumns.of(part))
    return refs


@given(st.lists(PLAIN, max_size=4), TIMES)
def test_what_is_asked_of_all_is_what_each_says(parts: list[list[Ref]], time: int) -> None:
    refs, plain = kept(parts), [ref for part in parts for ref in part]
    assert list(refs) == plain
    assert len(refs) == len(plain)
    assert refs.needed == sum(ref.needed for ref in plain)
    assert refs.needed_up_to(time) == sum(ref.needed for ref in plain if ref.has_live_up_to(time))
    assert refs.by_stream(INPUTS) == [sum(ref.by_stream[code] for ref in plain) for code in range(INPUTS)]
    assert refs.earliest_live == min(
        (ref.earliest_live for ref in plain if ref.earliest_live is not None), default=None
    )
    assert refs.latest_live == max((ref.latest_live for ref in plain if ref.latest_live is not None), default=None)
    assert refs.segment_names() == {ref.segment for ref in plain}


@given(MIXED)
def test_packing_keeps_all_and_their_order(refs: list[Ref]) -> None:
    packed = Refs.packed(refs)
    assert list(packed) == refs
    assert packed == Refs(refs)
    assert packed != Refs([*refs, Ref("more", 0, 0, 1)])
    assert packed.needed == sum(ref.needed for ref in refs)
    assert packed.segment_names() == {name for ref in refs for name in ref.segment_names()}
    assert list(pickle.loads(pickle.dumps(packed))) == refs


@given(st.lists(PLAIN, max_size=4), st.integers(0, 60), st.integers(0, 60))
def test_some_of_them_are_taken_and_replaced_by_one(parts: list[list[Ref]], one: int, other: int) -> None:
    refs, plain = kept(parts), [ref for part in parts for ref in part]
    start, stop = sorted((min(one, len(plain)), min(other, len(plain))))
    assert list(refs.between(start, stop)) == plain[start:stop]
    new = Ref("new", 0, 0, 1, by_stream=(1, 0))
    refs.replace(start, stop, new)
    assert list(refs) == [*plain[:start], new, *plain[stop:]]


@given(st.lists(PLAIN, max_size=4), st.integers(1, 12))
def test_the_first_run_of_one_level(parts: list[list[Ref]], least: int) -> None:
    refs, levels, expected, start = kept(parts), [ref.level for part in parts for ref in part], None, 0
    for _, run in groupby(levels):
        count = len(list(run))
        if count >= least and expected is None:
            expected = range(start, start + count)
        start += count
    assert refs.run_of_one_level(least) == expected


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), any_ref()), min_size=1, max_size=10), min_size=1, max_size=4))
def test_sections_are_dealt_out_in_their_order(readers: list[list[tuple[int, Ref]]]) -> None:
    whole = Sections.concat([Sections.of(sections) for sections in readers])
    found = {task: list(whole.refs.take(places)) for task, places in whole.indices_by_task()}
    flat = [section for sections in readers for section in sections]
    assert found == {task: [ref for of, ref in flat if of == task] for task, _ in flat}


@given(st.lists(st.lists(st.tuples(st.integers(0, 3), any_ref()), min_size=1, max_size=10), max_size=4), COUNTS)
def test_deferred_events_are_numbered_on_from_reader_to_reader(
    readers: list[list[tuple[int, Ref]]], count: int
) -> None:
    all_events = UnadmittedEvents()
    for sections in readers:
        all_events.add(UnadmittedEvents([Sections.of(sections)], [0], [], count))
    expected: dict[int, list[tuple[Ref, int]]] = {}
    for number, sections in enumerate(readers):
        for task, ref in sections:
            expected.setdefault(task, []).append((ref, number * count))
    assert {task: list(sections) for task, sections in all_events.by_task().items()} == expected
    assert all_events.count == count * len(readers)


def test_references_with_flags_have_no_columns() -> None:
    with pytest.raises(AssertionError):
        RefColumns.of([Ref("a", 0, 0, 1, by_stream=(1,), flags=Flags("f", 0, 1, 2, 1))])


def test_names_of_segments_are_those_of_the_references_that_are_left() -> None:
    columns = RefColumns.of([Ref("a", 0, 1, 1, by_stream=(1,)), Ref("b", 0, 1, 1, by_stream=(1,))])
    assert set(columns.take(np.array([1])).segment_names()) == {"b"}
