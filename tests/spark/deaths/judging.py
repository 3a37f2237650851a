"""What a run has left, and what it should have."""

from __future__ import annotations

from pathlib import Path

from tests.spark.tools import drafts, file_rows, orphans, published

SINKS = ("revenue", "late", "best")
Output = dict[str, tuple[list[str], list[str]]]


def output(data: Path) -> Output:
    """Per sink: the rows, and the names of the files."""
    return {name: (file_rows(data / name), published(data / name)) for name in SINKS}


def differences(data: Path, expected: Output) -> list[str]:
    """In what a run differs from one to which nothing happened; none if all is well."""
    found, problems = output(data), []
    for name in SINKS:
        for what, here, wanted in zip(("rows", "files"), found[name], expected[name], strict=True):
            if here != wanted:
                problems.append(f"{what} of {name}: {here}, and should be {wanted}")
        problems += [f"a draft is left: {name}/{draft}" for draft in drafts(data / name)]
    return problems + [f"a segment is left: {segment}" for segment in orphans(data / "checkpoint")]
