"""What Java writes on standard error comes through at once, but for the warning that each start of Spark prints."""

from __future__ import annotations

import os
import select
import sys
import threading
from io import StringIO

import pytest

from topologies.spark.java import WARNING, forward_output


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ([WARNING], b""),
        ([b"before\n", WARNING, b"after\n"], b"before\nafter\n"),
        ([WARNING[:9], WARNING[9:], b"12:00 ERROR\n"], b"12:00 ERROR\n"),
        ([b"WARNING: something else\n"], b"WARNING: something else\n"),
        ([b"WARN"], b"WARN"),
        ([b"x" * 200_000 + b"\n"], b"x" * 200_000 + b"\n"),
    ],
    ids=["alone", "among others", "in pieces", "another warning", "without an end", "much"],
)
def test_all_comes_through_but_one_warning(written: list[bytes], read: bytes) -> None:
    start, target = os.pipe()
    with forward_output(target) as end:
        for piece in written:
            remaining = piece
            while remaining:
                remaining = remaining[os.write(end, remaining[:4096]) :]
                if read.startswith(b"x"):
                    read = read[len(os.read(start, 4096)) :]
    found = b""
    while len(found) < len(read):
        found += os.read(start, 65536)
    assert found == read
    assert not select.select([start], [], [], 0)[0]
    os.close(start)
    os.close(target)


def test_a_line_that_is_not_the_warning_does_not_wait_for_its_end() -> None:
    start, target = os.pipe()
    with forward_output(target) as end:
        os.write(end, b"a question? ")
        assert os.read(start, 100) == b"a question? "
    os.close(start)
    os.close(target)


def test_what_has_taken_the_place_of_standard_error_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = StringIO()
    monkeypatch.setattr(sys, "stderr", shown)
    with forward_output() as end:
        os.write(end, WARNING + b"12:00 ERROR of Java\n")
    for thread in threading.enumerate():
        if thread.name == "windbolt-java-errors":
            thread.join(10)
    assert shown.getvalue() == "12:00 ERROR of Java\n"
