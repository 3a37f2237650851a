"""What a terminal of 80 columns shows: nothing is cut or broken within a word, and times are whole."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console
from rich.text import Text

from topologies.cli.checkpoint_commands import _print_table
from topologies.cli.consoles import in_words, say
from topologies.cli.displays import HEARTBEAT, LineProgress, LiveProgress, accounts_table, print_summary
from topologies.engine.report import BatchReport, BoltReport
from topologies.topology import Topology
from windbolt import ConfigError, RunOptions, Summary, TopologyBuilder, WindowedBolt, run_local, sinks, spouts


class Size(WindowedBolt):
    outputs = "n long"

    def execute(self, window):
        return (len(window),)


def topology(folder: Path, *names: str) -> Topology:
    builder = TopologyBuilder("a-name-of-some-length")
    builder.set_spout("orders", spouts.files(f"{folder}/*.jsonl", "ts timestamp"))
    for name in names or ("revenue-per-user",):
        bolt = Size().with_tumbling_window("10s").with_timestamp_field("ts").with_lag("5s")
        builder.set_bolt(name, bolt).global_grouping("orders")
        builder.set_sink(f"out-{name}", sinks.discard()).from_(name)
    return builder.build()


def write(folder: Path, name: str, *seconds: float) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC)
    lines = (f'{{"ts": "{(start + timedelta(seconds=second)).isoformat()}"}}\n' for second in seconds)
    (folder / f"{name}.jsonl").write_text("".join(lines))


def terminal() -> Console:
    return Console(file=StringIO(), width=80, force_terminal=True, color_system=None, highlight=False)


def lines(console: Console) -> list[str]:
    assert isinstance(console.file, StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


# --- words


def test_an_error_is_wrapped_between_words_and_stays_behind_its_word() -> None:
    console = terminal()
    say(console, in_words(ConfigError("what " * 20, why="why so " * 20, do="do this " * 20)))
    assert lines(console) == [
        "error: what what what what what what what what what what what what what what",
        "what what what what what what",
        *["  why: why so why so why so why so why so why so why so why so why so why so why"],
        *["       so why so why so why so why so why so why so why so why so why so"],
        *["  do:  do this do this do this do this do this do this do this do this do this"],
        *["       do this do this do this do this do this do this do this do this do this"],
        *["       do this do this"],
    ]


def test_a_fact_stays_behind_its_word() -> None:
    console = terminal()
    say(console, Text("sink out\n  columns  " + "user string, " * 8))
    assert lines(console)[0] == "sink out"
    assert lines(console)[1].startswith("  columns  user string")
    assert lines(console)[2].startswith("           string, user")


def test_a_type_stays_whole_where_it_fits() -> None:
    console = terminal()
    items = "items array<struct<name: string, price: double, count: long>>"
    say(console, Text(f"  emits    id string, player string, {items}, ts timestamp"), whole_types=True)
    assert lines(console) == ["  emits    id string, player string,", f"           {items},", "           ts timestamp"]
    console = terminal()
    wide = f"struct<{', '.join(f'column_{number}: double' for number in range(9))}>"
    say(console, Text(f"  emits    a {wide}, ts timestamp", "red"), whole_types=True)
    assert " ".join(line.strip() for line in lines(console)) == f"emits    a {wide}, ts timestamp"
    assert max(map(len, lines(console))) <= 80


def test_elsewhere_a_line_stays_a_line() -> None:
    console = Console(file=StringIO(), width=80)
    say(console, Text("word " * 40))
    assert len(lines(console)) == 1


def test_the_lines_of_a_text_keep_their_style_and_blank_ones_stay() -> None:
    console = Console(file=StringIO(), width=80, force_terminal=True, color_system="standard")
    say(console, Text("red\n\nand more", "red"))
    assert console.file.getvalue().count("\x1b[31m") == 2  # type: ignore[attr-defined]
    assert len(lines(console)) == 3


# --- the display


def report(topology: Topology, **given: Any) -> BatchReport:
    nothing = {"watermark": 1_704_067_230_123_456, "new_watermark": None, "behind": 5_000_000, "windows": 2}
    bolt = BoltReport(**{**nothing, "fired": 1234, "open": 3, "accounts": {"received": 5}, "streams": {}, **given})
    return BatchReport(7, False, 0, 1000, {"total": 0.5}, dict.fromkeys(topology.windowed, bolt), {})


@pytest.mark.parametrize("accounts", [{}, {"late": 12345, "pending": 9}])
def test_names_and_watermarks_are_whole(tmp_path: Path, accounts: dict[str, int]) -> None:
    built = topology(tmp_path)
    display, console = LiveProgress(built), terminal()
    display.report(report(built, accounts=accounts))
    console.print(display)
    (row,) = [line for line in lines(console) if "revenue-per-user" in line]
    assert row.replace(",", "").split()[:3] == ["revenue-per-user", "2024-01-01T00:00:30.123456Z", "5s"]
    assert "1,234" in "".join(lines(console))
    assert "…" not in "".join(lines(console))
    assert max(map(len, lines(console))) <= 80
    assert ("late" in "".join(lines(console))) == bool(accounts)


def test_what_was_too_wide_for_a_table_stays_in_words_until_the_end(tmp_path: Path) -> None:
    built = topology(tmp_path)
    display = LiveProgress(built)

    def shown(**given: Any) -> str:
        display.report(report(built, **given))
        console = terminal()
        console.print(display)
        return "\n".join(lines(console))

    assert "1,234 (+2)" in shown()
    assert "windows, 1,234 so far" in shown(accounts={"late": 12345, "pending": 9})
    assert "windows, 1,234 so far" in shown()
    display.end(Summary())
    assert "1,234 (+2)" in shown()


def test_a_run_that_had_nothing_to_read_says_so(tmp_path: Path) -> None:
    built = topology(tmp_path)
    display, console = LiveProgress(built), terminal()
    display.end(Summary())
    console.print(display)
    assert lines(console) == []
    print_summary(console, built, Summary(), "ck/")
    assert "There was nothing to read: nothing has come, or earlier runs on this checkpoint" in lines(console)[1]


def test_what_the_summary_says_is_not_said_twice(tmp_path: Path) -> None:
    built = topology(tmp_path)
    display, console = LiveProgress(built), terminal()
    display.report(report(built, delay=1_000_000))
    console.print(display)
    assert any("what the rules of time found" in line for line in lines(console))
    display.end(Summary())
    after = terminal()
    after.print(display)
    assert not any("what the rules of time found" in line for line in lines(after))
    assert any("revenue-per-user" in line for line in lines(after))


def test_accounts_of_many_bolts_are_several_tables_that_fit(tmp_path: Path) -> None:
    names = [f"a-bolt-of-some-length-{number}" for number in range(5)]
    for name in names:
        write(tmp_path, name, 1, 12)
    built = topology(tmp_path, *names)
    console = terminal()
    print_summary(console, built, run_local(built), None)
    assert max(map(len, lines(console))) <= 80
    for name in names:
        assert sum(name in line for line in lines(console)) == 1, "the input is too old for a watermark delay"
    assert sum("where the events are" in line for line in lines(console)) == 3


# --- lines where there is no terminal


def test_a_line_has_the_time_of_day_and_silence_is_broken(tmp_path: Path) -> None:
    built = topology(tmp_path)
    passed = 1_000.0
    console = Console(file=StringIO(), width=200)
    start = 1_704_067_200_250_000
    progress = LineProgress(built, console, lambda: start + int((passed - 1_000) * 1e6), lambda: passed)
    progress.beat()
    passed += HEARTBEAT
    progress.beat()
    progress.beat()
    passed += 5
    progress.report(report(built))
    passed += HEARTBEAT - 1
    progress.beat()
    passed += 1
    progress.beat()
    passed += HEARTBEAT
    progress.beat()
    said = lines(console)
    assert said[1].startswith("2024-01-01T00:00:35Z batch 7: 1,000 rows")
    assert said[2] == "  revenue-per-user: 2024-01-01T00:00:30.123456Z (5s behind), windows 1,234 (+2),"
    assert said[3] == "    open 3"
    assert [*said[:1], *said[4:]] == [
        "2024-01-01T00:00:30Z running for 30s; no batch yet",
        "2024-01-01T00:01:05Z running for 1m 5s; batch 7 was 30s ago",
        "2024-01-01T00:01:35Z running for 1m 35s; batch 7 was 1m ago",
    ]


def test_a_batch_of_many_bolts_is_a_line_for_each_of_them_and_none_is_too_long(tmp_path: Path) -> None:
    built = topology(tmp_path, *(f"bolt-{number}" for number in range(4)))
    console = Console(file=StringIO(), width=200)
    many = {"accounts": {"late": 12_345, "pending": 1_234_567, "invalid": 7}, "counters": {"repeats": 89}}
    LineProgress(built, console).report(report(built, **many))
    said = lines(console)
    heads = [line[:8] for line in said if not line.startswith("    ")]
    assert heads[1:] == ["  bolt-0", "  bolt-1", "  bolt-2", "  bolt-3"]
    assert said[1:3] == [
        "  bolt-0: 2024-01-01T00:00:30.123456Z (5s behind), windows 1,234 (+2), open 3,",
        "    late 12,345, pending 1,234,567, invalid 7, repeats 89",
    ]
    assert max(map(len, said)) <= 80


# --- this run, and all


def summary_of(built: Topology, checkpoint: Path) -> tuple[Summary, list[str]]:
    summary = run_local(built, RunOptions(str(checkpoint), keep_open=True))
    console = terminal()
    print_summary(console, built, summary, str(checkpoint))
    return summary, [" ".join(line.split()) for line in lines(console)]


def test_this_run_is_told_apart_from_all(tmp_path: Path) -> None:
    built = topology(tmp_path)
    write(tmp_path, "1", 1, 2, 16)
    first, said = summary_of(built, tmp_path / "ck")
    assert "this run" not in said
    assert "where the events are" in said
    write(tmp_path, "2", 3, 26)
    second, said = summary_of(built, tmp_path / "ck")
    run, everything = said.index("this run"), said.index("where the events are, of all runs on this checkpoint")
    table = said[run:everything]
    assert [line for line in table if line] == [
        "this run",
        "revenue-per-user",
        table[3],
        "received 2",
        "windowed 1",
        "late 1",
        "windows fired 1",
        "rows emitted 1",
    ]
    assert "= received 5" in said[everything:]
    assert "windows fired 2" in said[everything:]
    assert first.to_json()["this_run"]["revenue-per-user"]["fired"] == 1
    assert second.to_json()["this_run"]["revenue-per-user"]["accounts"]["received"] == 2


def test_a_table_of_accounts_says_which_runs_it_is_about() -> None:
    bolt = BoltReport(None, None, None, 0, 0, 0, {"received": 0, "windowed": 0}, {})
    console = terminal()
    console.print(accounts_table({"bolt": bolt}, ", of all runs on this checkpoint"))
    assert lines(console)[0] == "where the events are, of all runs on this checkpoint"


# --- state


def test_a_table_of_state_that_is_too_wide_comes_in_parts_that_begin_with_its_first_column() -> None:
    columns = {"bolt": ["minutes", "alarm"], **{f"column-{number}": [number, None] for number in range(20)}}
    console = terminal()
    _print_table(console, pa.table(columns), 20)
    shown = lines(console)
    assert max(map(len, shown)) <= 80
    parts = "\n".join(shown).split("\n\n")
    assert len(parts) == 4
    assert all([line.split()[0] for line in part.splitlines()] == ["bolt", "minutes", "alarm"] for part in parts)
    titles = [word for part in parts for word in part.splitlines()[0].split()[1:]]
    assert titles == [f"column-{number}" for number in range(20)]


def test_a_column_of_state_that_is_wider_than_a_line_is_in_a_part_alone() -> None:
    console = terminal()
    _print_table(console, pa.table({"a": [1], "b": ["x" * 60], "c": ["y" * 60], "d": [2]}), 20)
    assert [line.split() for line in lines(console) if line] == [
        ["a", "b"], ["1", "x" * 60], ["a", "c", "d"], ["1", "y" * 60, "2"]
    ]  # fmt: skip


def test_in_a_pipe_each_row_of_state_is_one_line() -> None:
    console = Console(file=StringIO(), width=80)
    _print_table(console, pa.table({f"column-{number}": [number] for number in range(20)}), 20)
    assert len(lines(console)) == 2
