"""What a path of input stands for; tests/spark/test_paths_on_spark.py runs the same cases on Spark."""

from __future__ import annotations

import os
import re
from collections import Counter
from fnmatch import translate
from itertools import product
from pathlib import Path
from threading import Barrier, Lock
from typing import Any

import pyarrow.fs as pafs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servers.s3 import ENVIRONMENT, S3
from tests.helpers.damage import SCHEMA, Ids
from tests.helpers.object_store import object_store
from topologies.checkpoints.inspect_spouts import first_rows_of_files, inspect_spouts
from topologies.checkpoints.spark_checkpoint import SourceLog
from topologies.engine.source_splits import FileSource, file_splits, line_count, undecodable_names
from topologies.io import paths, sinks, spouts
from topologies.io.file_spout import FileSpout, FoundFile, WatchedFiles
from topologies.io.paths import folders_before, literal, matching_entries, path_before_pattern
from topologies.topology import Topology
from windbolt import RunOptions, TopologyBuilder, run_local
from windowing.errors import ConfigError

PROJECT = "shop {a} [v2]"
"""Where the run is started; as a pattern it would match the folder beside it."""
BESIDE = "shop a v"
FILES = (
    "in/1.jsonl", "in/orders-2024-01-01T06:00:00Z.jsonl", "in/sub/deep.jsonl",
    "in/_low.jsonl", "in/.dot.jsonl", "in/2.jsonl._COPYING_", "in/3.jsonl.tmp", "in/4.jsonl.crc", "in/.1.jsonl.crc",
    "in [2024]/1.jsonl", "in 2/1.jsonl", "in 2/*.jsonl",
    "events/0.jsonl", "events/dt=2024-01-01/p.jsonl", "events/dt=2024-01-01/hour=6/q.jsonl", "events/done/0.jsonl",
    "events/dt=2024-01-01/_tmp=1.jsonl", "events/.dt=1/x.jsonl", "events/_day=1/x.jsonl",
    "_kept/1.jsonl", ".git/1.jsonl",
    f"../{BESIDE}/in/1.jsonl", f"../{BESIDE}/in/other.jsonl",
)  # fmt: skip
COLON = "in/orders-2024-01-01T06:00:00Z.jsonl"
PARTITIONS = ["events/0.jsonl", "events/_day=1/x.jsonl", "events/dt=2024-01-01/hour=6/q.jsonl",
              "events/dt=2024-01-01/p.jsonl"]  # fmt: skip
CASES: dict[str | tuple[str, ...], list[str]] = {
    "in/1.jsonl": ["in/1.jsonl"],
    "in": ["in/1.jsonl", COLON],
    "in/": ["in/1.jsonl", COLON],
    "in/*.jsonl": ["in/1.jsonl", COLON],
    "in/*": ["in/1.jsonl", COLON, "in/sub/deep.jsonl"],
    "in/[!1]*.jsonl": [COLON],
    "in/[^1]*.jsonl": [COLON],
    "in/[0-9].jsonl": ["in/1.jsonl"],
    "in/?.jsonl": ["in/1.jsonl"],
    "in/nothing*": [],
    # A name with brackets: as it is where it is there, and in one spelling that always works.
    "in [2024]": ["in [2024]/1.jsonl"],
    "in [2024]/*.jsonl": ["in [2024]/1.jsonl"],
    "in [[]2024]": ["in [2024]/1.jsonl"],
    "in [[]2024]/*": ["in [2024]/1.jsonl"],
    r"in \[2024\]": ["in [2024]/1.jsonl"],
    "in [24]": ["in 2/*.jsonl", "in 2/1.jsonl"],
    "in 2/[*].jsonl": ["in 2/*.jsonl"],
    "in 2/*.jsonl": ["in 2/*.jsonl", "in 2/1.jsonl"],
    # Folders at any depth, also none, but for those that are passed over.
    "in/**/*.jsonl": ["in/1.jsonl", COLON, "in/sub/deep.jsonl"],
    "in/**": ["in/1.jsonl", COLON, "in/sub/deep.jsonl"],
    "**/hour=*/*": ["events/dt=2024-01-01/hour=6/q.jsonl"],
    "**/1.jsonl": ["in 2/1.jsonl", "in [2024]/1.jsonl", "in/1.jsonl"],
    "events/**/**/0.jsonl": ["events/0.jsonl", "events/done/0.jsonl"],
    "in/**.jsonl": ["in/1.jsonl", COLON],
    # Several paths: a file that two of them stand for is read once.
    ("in/1.jsonl", "in/*.jsonl", "./in/../in"): ["in/1.jsonl", COLON],
    ("in 2/1.jsonl", "events/done"): ["events/done/0.jsonl", "in 2/1.jsonl"],
    "{in,in 2}/1.jsonl": ["in 2/1.jsonl", "in/1.jsonl"],
    "{in/1.jsonl,in 2/1*}": ["in 2/1.jsonl", "in/1.jsonl"],
    "events": PARTITIONS,
    "events/*": sorted([*PARTITIONS, "events/done/0.jsonl"]),
    "events/*.jsonl": ["events/0.jsonl"],
    "events/*/*.jsonl": ["events/_day=1/x.jsonl", "events/done/0.jsonl", "events/dt=2024-01-01/p.jsonl"],
    "events/dt=*/hour=*": ["events/dt=2024-01-01/hour=6/q.jsonl"],
    # Folders that are passed over, unless they are named.
    "*/1.jsonl": ["in 2/1.jsonl", "in [2024]/1.jsonl", "in/1.jsonl"],
    "_kept": ["_kept/1.jsonl"],
    ".git/*.jsonl": [".git/1.jsonl"],
    "_*/1.jsonl": ["_kept/1.jsonl"],
    "./in/../in 2/1.jsonl": ["in 2/1.jsonl"],
    f"../{PROJECT}/in/1.jsonl": ["in/1.jsonl"],
    "../shop */in/1.jsonl": [f"../{BESIDE}/in/1.jsonl", "in/1.jsonl"],
}

BELOW = [path for path in CASES if isinstance(path, str) and not path.startswith("..")]
"""Those that stand in the project's folder."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project's folder, which is also the current one."""
    return made_project(tmp_path, monkeypatch)


def made_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the files of the cases, of a row each."""
    for name in (f"../{BESIDE}/", *FILES):
        path = Path(os.path.normpath(tmp_path / PROJECT / name))
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix:
            path.write_text('{"id": 1, "ts": "2026-01-01T00:00:01Z"}\n')
    monkeypatch.chdir(tmp_path / PROJECT)
    return tmp_path / PROJECT


def all_cases(out: sinks.MemorySink | None = None) -> Topology:
    """A spout for each case."""
    builder = TopologyBuilder("cases")
    bolt = builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts"))
    for number, path in enumerate(CASES):
        builder.set_spout(f"s{number:02}", spouts.files(path, SCHEMA, format="jsonl"))
        bolt.global_grouping(f"s{number:02}")
    builder.set_sink("out", out or sinks.memory()).from_("ids")
    return builder.build()


def files_of_cases(checkpoint: Path, project: Path) -> dict[str | tuple[str, ...], list[str]]:
    """By case, the files that the first batch of a run on a checkpoint has read."""
    names = tuple(f"s{number:02}" for number in range(len(CASES)))
    found: dict[str | tuple[str, ...], list[str]] = {path: [] for path in CASES}
    for spout, path in SourceLog(pafs.LocalFileSystem(), str(checkpoint / "spark"), names).files(0):
        found[list(CASES)[names.index(spout)]].append(shown(path.removeprefix("file://"), project))
    return {path: sorted(files) for path, files in found.items()}


def shown(path: str, project: Path) -> str:
    return os.path.relpath(path, project)


@pytest.mark.parametrize("path", CASES)
def test_a_path_stands_for_these_files(project: Path, path: str | tuple[str, ...]) -> None:
    spout = spouts.files(path, SCHEMA, format="jsonl")
    assert sorted(shown(each, project) for each in spout.files()) == CASES[path]


@pytest.mark.parametrize("path", BELOW)
@pytest.mark.parametrize("before", ["", "file://"])
def test_an_absolute_path_stands_for_the_same(project: Path, path: str, before: str) -> None:
    spout = spouts.files(f"{before}{project}/{path}", SCHEMA, format="jsonl")
    assert sorted(shown(each, project) for each in spout.files()) == CASES[path]


@pytest.fixture
def in_store(store: S3, monkeypatch: pytest.MonkeyPatch) -> S3:
    """A store that is named by the environment, as it is for input."""
    for name, value in (ENVIRONMENT | {"AWS_ENDPOINT_URL_S3": f"http://{store.address}"}).items():
        monkeypatch.setenv(name, value)
    return store


def test_a_store_is_listed_by_the_same_rule(in_store: S3) -> None:
    for name in FILES:
        if not name.startswith(".."):
            in_store.put(name, b"{}\n")
    found = {
        path: [each.path.removeprefix("s3://bucket/") for each in _listed(f"s3a://bucket/{path}")] for path in BELOW
    }
    assert {path: sorted(files) for path, files in found.items()} == {path: CASES[path] for path in found}


def test_an_object_whose_name_looks_like_options_is_read(in_store: S3) -> None:
    """``?word=`` behind what a user writes are options of the place; in a name that was listed they are a name."""
    names = ["odd/a?b=c.jsonl", "odd/day?dt=1/x.jsonl", "odd/dt=1/k?scheme=http&region=nowhere.jsonl"]
    for name in names:
        in_store.put(name, b'{"id": 1}\n{"id": 2}\n')
    builder = TopologyBuilder("odd")
    builder.set_spout("in", spouts.files("s3a://bucket/odd/{*.jsonl,*/*.jsonl}", "id long", format="jsonl"))
    builder.set_sink("out", sinks.memory()).from_("in")
    built = builder.build()
    (spout,) = built.spouts.values()
    assert isinstance(spout.spout, FileSpout)
    files = spout.spout.list_files()
    assert sorted(each.path for each in files) == sorted(f"s3://bucket/{name}" for name in names)
    splits = [
        each for each in file_splits(built, [("in", each.path) for each in files], 8) if isinstance(each, FileSource)
    ]
    read = [table for split in splits for table in split.read(built)]
    assert sum(each.table.num_rows for each in read) == 6
    assert not any(each.bad is not None and len(each.bad) for each in read)
    assert first_rows_of_files(spout, spout.spout, files).number == 6
    assert {line_count(split, None) for split in splits} == {2}  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["parts", "parts/*", "parts/*/*.jsonl"])
def test_folders_of_a_store_are_listed_several_at_a_time(
    in_store: S3, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    names = [f"parts/dt=2024-01-{day:02}/{file}.jsonl" for day in range(1, 9) for file in "ab"]
    for name in [*names, "parts/old/deep/1.jsonl"]:
        in_store.put(name, b"{}\n")
    together, inside, asked = Barrier(8), paths._RemoteFolders.entries, list[str]()

    def listed(folders: Any, folder: str) -> list[paths.Entry]:
        asked.append(folder.rpartition("/")[2])
        if "dt=" in folder:
            together.wait(timeout=20)
        return inside(folders, folder)

    monkeypatch.setattr(paths._RemoteFolders, "entries", listed)
    found = {each.path.removeprefix("s3://bucket/") for each in _listed(f"s3://bucket/{path}")}
    assert found == set(names)
    assert "deep" not in asked


def test_no_more_folders_of_a_store_are_listed_at_a_time_below_stars(
    in_store: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each folder that a star stands for had threads of its own: 16 times 16 listings at once."""
    names = [f"wide/{above}/{below}/1.jsonl" for above in range(6) for below in range(6)]
    for name in names:
        in_store.put(name, b"{}\n")
    lock, inside = Lock(), paths._RemoteFolders.entries
    now, most, asked = 0, 0, Counter[str]()

    def listed(folders: Any, folder: str) -> list[paths.Entry]:
        nonlocal now, most
        with lock:
            now, asked[folder] = now + 1, asked[folder] + 1
            most = max(most, now)
        try:
            return inside(folders, folder)
        finally:
            with lock:
                now -= 1

    monkeypatch.setattr(paths._RemoteFolders, "entries", listed)
    in_store.wait(0.01)
    found = {each.path.removeprefix("s3://bucket/") for each in _listed("s3://bucket/wide/*/**/*.jsonl")}
    assert found == set(names)
    assert most <= 16
    assert max(asked.values()) <= 2  # for the folders in it, and for the files


def test_a_store_is_asked_at_the_address_that_is_set_now(in_store: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    in_store.put("here/1.jsonl", b"{}\n")
    assert [each.path for each in _listed("s3://bucket/here")] == ["s3://bucket/here/1.jsonl"]
    with object_store() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://{other.address}")
        other.answer = 404
        assert _listed("s3://bucket/here") == []
        assert other.asked


def _listed(path: str) -> list[FoundFile]:
    return spouts.files(path, SCHEMA, format="jsonl").list_files()


def test_a_local_run_reads_these_files(project: Path) -> None:
    summary = run_local(all_cases(), RunOptions(str(project / "ck")))
    assert files_of_cases(project / "ck", project) == CASES
    assert summary.rows == sum(map(len, CASES.values()))


def test_without_a_checkpoint_too(project: Path) -> None:
    assert run_local(all_cases()).rows == sum(map(len, CASES.values()))


def test_check_finds_what_a_run_reads(project: Path) -> None:
    for number, found in enumerate(inspect_spouts(all_cases()).values()):
        expected = list(CASES.values())[number]
        facts = dict(found.facts)
        assert facts["files"].startswith(f"{len(expected)}," if expected else "none yet"), list(CASES)[number]
        assert not found.problems


def test_a_name_in_a_matched_folder_that_is_no_text_is_told(project: Path) -> None:
    (project / "in 2" / "\udcff.jsonl").write_text("{}\n")
    spout = spouts.files("in [2]", SCHEMA, format="jsonl")
    assert [name.rsplit("/", 1)[1] for name in undecodable_names(spout)] == [r"\xff.jsonl"]


REFUSED: dict[str | tuple[str, ...], str | None] = {
    ("in", "nowhere/*.jsonl"): "reads 'nowhere/*.jsonl', and",
    "nowhere": "nowhere' is not there. The run would end successfully",
    "nowhere/*.jsonl": "nowhere' is not there",
    "{nowhere,in}/*.jsonl": None,
    "in/1.jsonl/*.jsonl": "1.jsonl' is not there",
    "in [[]2023]": "in [2023]' is not there",
    "nowhere/{a/b,c}/*": "nowhere' is not there",
}


@pytest.mark.parametrize("checkpoint", [True, False])
@pytest.mark.parametrize("path", REFUSED)
def test_what_would_read_nothing_is_refused(project: Path, path: str, checkpoint: bool) -> None:
    options = RunOptions(str(project / "ck") if checkpoint else None)
    expected = REFUSED[path]
    if expected is None:
        assert run_local(topology(path), options).rows == 2
        return
    with pytest.raises(ConfigError) as refused:
        run_local(topology(path), options)
    assert expected.lower() in str(refused.value).lower()
    assert not (project / "ck").exists()


@pytest.mark.usefixtures("project")
def test_a_pattern_that_matches_nothing_yet_is_none_of_these() -> None:
    assert run_local(topology("in/later-*")).rows == 0


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize("path", ["in/_low.jsonl", "in/*.jsonl.tmp", "in/.*.jsonl", "in/2.jsonl._COPYING_"])
def test_files_that_are_always_passed_over_are_refused_where_they_are_named(path: str) -> None:
    with pytest.raises(ConfigError, match=r"would read nothing.*passed over"):
        spouts.files(path, SCHEMA, format="jsonl")


@pytest.mark.usefixtures("project")
def test_the_format_of_a_folder_is_that_of_the_files_that_count() -> None:
    Path("events/more.csv.tmp").write_text("")
    assert spouts.files("events", SCHEMA).format.name == "jsonl"


def test_a_path_of_which_nothing_is_there_yet_has_the_format_of_the_others(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "both").mkdir()
    (tmp_path / "both/a.csv").touch()
    (tmp_path / "both/a.jsonl").touch()
    for other in ("empty", "not there", "not/*"):
        assert spouts.files([tmp_path / other, tmp_path / "x.jsonl"], SCHEMA).format.name == "jsonl"
    for several in ([tmp_path / "both", tmp_path / "x.jsonl"], [tmp_path / "empty", tmp_path / "not there"]):
        with pytest.raises(ConfigError, match="the format cannot be told from the path"):
            spouts.files(several, SCHEMA)


def test_brackets_and_braces_that_are_not_closed_stand_for_themselves(project: Path) -> None:
    for name in ("a[b", "a{b", "a[", "{", "a\\"):
        (project / name).mkdir()
        (project / name / "1.jsonl").write_text("{}\n")
        for path in (name, f"{name}/*.jsonl", f"{literal(name)}/*.jsonl"):
            assert [shown(each.path, project) for each in matching_entries([path])] == [f"{name}/1.jsonl"], path


def test_the_folder_before_a_pattern(project: Path) -> None:
    for path, folder, is_pattern in [
        ("in/*.jsonl", "in", True), ("in", "in", False), ("in [2024]/x", "in [2024]/x", False),
        ("in [[]2024]/*", "in [2024]", True), ("{in/a,in/b}/*", "in", True), ("*", ".", True),
    ]:  # fmt: skip
        assert path_before_pattern(path) == (os.path.normpath(project / folder), is_pattern)


PIECES = ["a", "b", "*", "?", "[ab]", "[!a]", "[[]", "{a,b}", "{a*,}", "-", "["]


@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=4), st.text("ab[-", max_size=4))
def test_a_name_matches_as_python_says(pieces: list[str], name: str) -> None:
    """Python's own patterns, once for each choice among alternatives, and with an unclosed bracket as a bracket."""
    choices = [piece[1:-1].split(",") if piece[0] == "{" else ["[[]" if piece == "[" else piece] for piece in pieces]
    expected = any(re.match(translate("".join(choice)), name) for choice in product(*choices))
    part = "".join("[[]" if piece == "[" else piece for piece in pieces)
    assert bool(paths._compiled(part).fullmatch(name)) == expected


@given(st.text("ab*?[]{}\\,!^-. ", min_size=1, max_size=6))
def test_a_literal_name_matches_itself_alone(name: str) -> None:
    written = literal(name)
    assert paths._split(written, "/") == [written]
    assert paths._compiled(written).fullmatch(name)
    assert not paths._compiled(written).fullmatch(f"{name}a")


def topology(path: Any, out: sinks.MemorySink | None = None, **settings: Any) -> Topology:
    builder = TopologyBuilder("patterns")
    builder.set_spout("in", spouts.files(path, SCHEMA, format="jsonl", **settings))
    builder.set_bolt("ids", Ids().with_tumbling_window("10s").with_timestamp_field("ts")).global_grouping("in")
    builder.set_sink("out", out or sinks.memory()).from_("ids")
    return builder.build()


def test_what_is_passed_over_is_so_below_partition_folders_and_unless_a_pattern_names_it(tmp_path: Path) -> None:
    files = [
        "1.jsonl",
        "dt=2.tmp/2.jsonl",
        "dt=4/4.jsonl",
        "dt=5._COPYING_/5.jsonl",
        "_a/6.jsonl",
        "c/7.jsonl",
    ]
    for name in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}\n")

    def names(path: str) -> set[str]:
        return {os.path.basename(each.path) for each in matching_entries([str(tmp_path / path)])}

    assert names("") == {"1.jsonl", "4.jsonl"}
    assert names("*/*.jsonl") == {"4.jsonl", "7.jsonl"}
    assert names("{_a,c}/*.jsonl") == {"6.jsonl", "7.jsonl"}
    assert names("{c,{_a,.b}}/*.jsonl") == {"6.jsonl", "7.jsonl"}
    assert names("[_.]*/*.jsonl") == {"6.jsonl"}
    assert names("*.tmp/*.jsonl") == {"2.jsonl"}


def test_stars_for_folders_do_not_go_through_links(tmp_path: Path) -> None:
    """What a link leads to would be read a second time; a pattern that names it is a user's own wish."""
    (tmp_path / "real/deep").mkdir(parents=True)
    (tmp_path / "real/deep/1.jsonl").write_text("{}\n")
    (tmp_path / "current").symlink_to("real")
    (tmp_path / "real/up").symlink_to("..")
    root = str(tmp_path)
    assert [each.path for each in matching_entries([f"{root}/**/*.jsonl"])] == [f"{root}/real/deep/1.jsonl"]
    assert [each.path for each in matching_entries([f"{root}/current/**"])] == [f"{root}/current/deep/1.jsonl"]
    (tmp_path / "days/dt=1").mkdir(parents=True)
    (tmp_path / "days/dt=1/2.jsonl").write_text("{}\n")
    (tmp_path / "days/dt=latest").symlink_to("dt=1")
    for path in ("days/**", "days/**/*.jsonl", "**/days/**"):
        assert [each.path for each in matching_entries([f"{root}/{path}"])] == [f"{root}/days/dt=1/2.jsonl"], path


PARTS = {"**": "(?:[^/]+/)*", "a": "a/", "*": "[^/]*/", "dt=*": "dt=[^/]*/"}


@given(st.lists(st.sampled_from(list(PARTS)), max_size=4), st.lists(st.sampled_from(["a", "b", "dt=1"]), max_size=4))
def test_a_moved_file_is_known_by_where_its_path_would_stand_for_it(parts: list[str], folders: list[str]) -> None:
    names = [*folders, "1.jsonl"]
    before = folders_before("/".join([*parts, "*.jsonl"]), "/" + "/".join(names))
    regex = re.compile("".join(map(PARTS.__getitem__, parts)) + r"[^/]*\.jsonl/")
    expected = {
        "".join(f"/{name}" for name in names[:kept])
        for kept in range(len(names))
        if regex.fullmatch("".join(f"{name}/" for name in names[kept:]))
    }
    assert {place for place, _ in before} == expected


def test_links_in_circles_are_no_input_and_no_error(tmp_path: Path) -> None:
    (tmp_path / "1.jsonl").write_text("{}\n")
    (tmp_path / ".lock").symlink_to(".lock")
    (tmp_path / "dt=1").symlink_to(".")
    assert {os.path.basename(each.path) for each in matching_entries([str(tmp_path)])} == {"1.jsonl", ".lock"}
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "2.jsonl").write_text("{}\n")
    (tmp_path / "dt=2").symlink_to("real")
    assert {os.path.basename(each.path) for each in matching_entries([str(tmp_path)])} == {
        "1.jsonl",
        ".lock",
        "2.jsonl",
    }
    (tmp_path / "really").mkdir()
    (tmp_path / "really/dt=3").symlink_to("../real")  # whose name begins as that of the folder with the link
    assert [os.path.basename(each.path) for each in matching_entries([str(tmp_path / "really")])] == ["2.jsonl"]


def test_folders_that_link_to_each_other_are_read_once(tmp_path: Path) -> None:
    for folder, file in (("a", "1.jsonl"), ("b", "2.jsonl"), ("b/h=1", "3.jsonl")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("{}\n")
    (tmp_path / "a/dt=1").symlink_to("../b")
    (tmp_path / "b/h=1/x=1").symlink_to("../../a")
    found = sorted(os.path.relpath(each.path, tmp_path) for each in matching_entries([str(tmp_path / "a")]))
    assert found == ["a/1.jsonl", "a/dt=1/2.jsonl", "a/dt=1/h=1/3.jsonl"]


def test_a_run_goes_on_in_the_folder_in_which_it_was_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in ("a/in", "b/in"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{folder[0]}.jsonl").write_text("{}\n")
    monkeypatch.chdir(tmp_path / "a")
    watched = WatchedFiles("s", spouts.files("in", "n long", format="jsonl"))
    monkeypatch.chdir(tmp_path / "b")
    assert [os.path.basename(each.path) for each in watched.new({})] == ["a.jsonl"]
