"""Patterns of paths on this machine: they match what Spark's match, or are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.damage import SCHEMA, Ids
from topologies import RunOptions, TopologyBuilder, run_local, sinks, spouts
from topologies.sources.unnameable import unnameable
from topologies.topology import Topology
from windowing.errors import ConfigError

FOUND = {
    # As Spark lists the files of these patterns (binaryFile, tried in folders like these).
    "g/d-*": ["g/d-1/a.jsonl", "g/d-2/b.jsonl", "g/d-file.jsonl"],
    "g/*": ["g/.d/dot.jsonl", "g/_d/low.jsonl", "g/d-1/a.jsonl", "g/d-2/b.jsonl", "g/d-file.jsonl"],
    "g/*/*.jsonl": ["g/.d/dot.jsonl", "g/_d/low.jsonl", "g/d-1/a.jsonl", "g/d-2/b.jsonl"],
    "g/d-[^1]": ["g/d-2/b.jsonl"],
    "g/d-[!1]": ["g/d-2/b.jsonl"],
    "g/d-[12]": ["g/d-1/a.jsonl", "g/d-2/b.jsonl"],
    "g/d-1": ["g/d-1/a.jsonl"],
}
FILES = (
    "g/d-1/a.jsonl", "g/d-1/_low.jsonl", "g/d-1/.dot.jsonl", "g/d-1/sub/deep.jsonl", "g/d-2/b.jsonl",
    "g/d-file.jsonl", "g/_d/low.jsonl", "g/.d/dot.jsonl", "g/_low.jsonl", "g/.dot.jsonl",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(FILES):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'{{"id": {number}, "ts": "2026-01-01T00:00:0{number % 10}Z"}}\n')
    return tmp_path


@pytest.mark.parametrize("pattern", FOUND)
def test_the_files_of_matched_folders_are_listed_as_spark_lists_them(folder: Path, pattern: str) -> None:
    found = spouts.files(folder / pattern, SCHEMA, format="jsonl").files()
    assert sorted(str(Path(each).relative_to(folder)) for each in found) == FOUND[pattern]


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_run_over_matched_folders_reads_their_files(folder: Path, checkpoint: bool) -> None:
    out = sinks.memory()
    options = RunOptions(str(folder / "ck") if checkpoint else None)
    summary = run_local(topology(str(folder / "g/d-*"), out), options)
    assert summary.rows == 3


def test_a_name_in_a_matched_folder_that_is_no_text_is_told(folder: Path) -> None:
    (folder / "g" / "d-2" / "\udcff.jsonl").write_text("{}\n")
    spout = spouts.files(folder / "g/d-*", SCHEMA, format="jsonl")
    assert [name.rsplit("/", 1)[1] for name in unnameable(spout, "utf-8")] == [r"\xff.jsonl"]


REFUSED = {
    "g/{d-1,d-2}": "alternatives",
    "g/{d-1}": "alternatives",
    r"g/d-\1": "a backslash does not escape a character",
    "nowhere": "nowhere' is not there",
    "nowhere/*.jsonl": "nowhere' is not there. The run would end successfully",
    "g/d-file.jsonl/*.jsonl": "d-file.jsonl' is not there",
}


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("pattern", REFUSED)
def test_what_would_read_other_files_than_spark_or_nothing_is_refused(
    folder: Path, pattern: str, checkpoint: bool
) -> None:
    options = RunOptions(str(folder / "ck") if checkpoint else None)
    with pytest.raises(ConfigError) as refused:
        run_local(topology(f"{folder}/{pattern}", sinks.memory()), options)
    assert REFUSED[pattern].lower() in str(refused.value).lower()
    assert not (folder / "ck").exists()


def test_a_pattern_that_matches_nothing_yet_is_none_of_these(folder: Path) -> None:
    assert run_local(topology(str(folder / "g/later-*"), sinks.memory())).rows == 0


def topology(path: str, out: sinks.MemorySink) -> Topology:
    builder = TopologyBuilder("patterns")
    builder.set_spout("in", spouts.files(path, SCHEMA, format="jsonl"))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", out).from_("ids")
    return builder.build()
