"""Rows of CSV and JSON files, cut into blocks anywhere: all of them, each once, good or bad with its text."""

from __future__ import annotations

import csv
import io
import json
import random
import re
from decimal import Context, Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.examples import examples
from tests.oracles import csv_rows
from topologies.engine.source_splits import without_lines
from topologies.io.formats import FileSplit, file_format, write_table
from topologies.io.formats import text_values as isolating
from topologies.io.formats import text_values as text_module
from topologies.io.formats.csv import CsvFormat, RowFinder
from topologies.io.formats.text_values import parse_text
from windbolt import TopologyBuilder, run_local, sinks, spouts
from windowing import Bolt
from windowing.errors import ConfigError, DataError, SchemaError
from windowing.schema import SchemaLike, parse_schema

FS = pafs.LocalFileSystem()
BLOCKS = (1, 2, 3, 5, 8, 1 << 20)
_WIDE = Context(prec=200)


def read(
    path: Path, kind: str, schema: SchemaLike, **options: Any
) -> tuple[list[dict[str, Any]], list[int], list[dict[str, Any]]]:
    rows: list[dict[str, Any]] = []
    numbers: list[int] = []
    bad: list[dict[str, Any]] = []
    for table, places, wrong in file_format(kind, "reading", **options).read(
        FS, FileSplit(str(path)), parse_schema(schema)
    ):
        rows += table.to_pylist()
        numbers += places.tolist()
        bad += wrong.rows.to_pylist()
    return rows, numbers, sorted(bad, key=lambda row: row["row"])


# lines of text


@pytest.mark.parametrize("keep", [False, True])
@examples(150)
@given(
    st.lists(st.sampled_from([b"a", b"\n", b"\n", b"\r\n", b"\r", b" ", b"\xc3\xa4", b"\xff", b"\xef\xbb\xbf", b"\0"]))
)
def test_each_line_of_text_is_a_row_wherever_it_is_cut(tmp_path_factory: Any, keep: bool, pieces: list[bytes]) -> None:
    path = tmp_path_factory.getbasetemp() / "lines.txt"
    path.write_bytes(b"".join(pieces))
    lines = b"".join(pieces).removeprefix(b"\xef\xbb\xbf").split(b"\n")
    ended = [line + b"\n" for line in lines[:-1]] + [lines[-1]] * bool(lines[-1])
    whole = ended if keep else [line.removesuffix(b"\r\n").removesuffix(b"\n") for line in ended]
    expected = list(enumerate(whole))
    for size in BLOCKS:
        rows, numbers, bad = read(path, "text", "line binary", block_size=size, keep_line_ends=keep)
        assert list(zip(numbers, [row["line"] for row in rows], strict=True)) == expected
        assert bad == []
        rows, numbers, bad = read(path, "text", "line string", block_size=size, keep_line_ends=keep)
        good = [(number, line.decode()) for number, line in expected if b"\xff" not in line]
        assert list(zip(numbers, [row["line"] for row in rows], strict=True)) == good
        assert [(row["row"], row["reason"]) for row in bad] == [
            (number, "the line is not valid UTF-8") for number, line in expected if b"\xff" in line
        ]


def test_text_in_other_encodings_and_lines_that_are_too_long(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    for encoding in ("cp1252", "utf-16", "utf-16-le", "utf-32", "shift_jis"):
        text = "a" if encoding == "shift_jis" else "é"
        path.write_bytes((("\ufeff" if encoding == "utf-16-le" else "") + f"{text}\r\n\nb").encode(encoding))
        for size in (1, 2, 1 << 20):
            rows, numbers, bad = read(path, "text", "line string", encoding=encoding, block_size=size)
            assert ([row["line"] for row in rows], numbers, bad) == ([text, "", "b"], [0, 1, 2], []), encoding
    path.write_bytes(b"\x81\xe9\nx\n")
    for longest, reason in ((9, "the line is not valid CP1252"), (2, "the row has more than 2 bytes")):
        for size in (1, 1 << 20):
            rows, numbers, bad = read(
                path, "text", "line string", encoding="cp1252", longest_row=longest, block_size=size
            )
            assert (rows, numbers, bad[0]["data"]) == ([{"line": "x"}], [1], "\\x81é"), (longest, size)
            assert bad[0]["reason"].startswith(reason)
    path.write_bytes("b\na".encode("utf-16")[:-1])  # half a character at the end
    with pytest.raises(DataError, match="cannot be read as text in utf-16"):
        read(path, "text", "line string", encoding="utf-16")
    path.write_bytes(b"four\nfive5\r\nfour\r\nfive5")
    for size in BLOCKS:
        for keep in (False, True):
            _, numbers, bad = read(path, "text", "line string", longest_row=4, block_size=size, keep_line_ends=keep)
            assert (numbers, [row["row"] for row in bad]) == ([0, 2], [1, 3])
            assert "more than 4 bytes" in bad[0]["reason"]


def test_a_bolt_that_parses_gets_lines_with_their_places(tmp_path: Path) -> None:
    class Parse(Bolt):
        outputs = "place string, words array<string>"

        def execute(self, tuple: Any) -> Any:
            return f"{Path(tuple['file_path']).name}:{tuple['file_row']}", tuple["line"].split()

    (tmp_path / "a.log").write_text("GET /x 200\n\nGET /y 404")
    builder, out = TopologyBuilder("logs"), sinks.memory()
    builder.set_spout("in", spouts.files(tmp_path / "*.log", metadata=["path", "row"]))
    builder.set_bolt("parse", Parse()).shuffle_grouping("in")
    builder.set_sink("out", out).from_("parse")
    run_local(builder.build())
    assert out.rows == [
        {"place": "a.log:0", "words": ["GET", "/x", "200"]},
        {"place": "a.log:1", "words": []},
        {"place": "a.log:2", "words": ["GET", "/y", "404"]},
    ]
    mistakes = {
        "a row of text is a line": lambda: spouts.files("in/*.txt", "a int, b int"),
        "in the column 'line'": lambda: spouts.files("in/*.txt", "line long"),
        "bytes are what stands in the file": lambda: spouts.files("*.log", "line binary", encoding="cp1252"),
        "files of the format 'text' are not written. it is only read": lambda: sinks.files("out", "text"),
    }
    for problem, make in mistakes.items():
        with pytest.raises(ConfigError, match=problem):
            make()


# CSV


PIECES = [
    b"a",
    b"b",
    b",",
    b",",
    b'"',
    b'"',
    b'""',
    b"\n",
    b"\n",
    b"\r\n",
    b"\r",
    b"\\",
    b'\\"',
    b"#",
    b" ",
    b"\xc3\xa4",
    b"\xff",
]
DIALECTS: list[dict[str, Any]] = [
    {},
    {"escape": "\\"},
    {"escape": "\\", "escape_unquoted": False},
    {"comment": "#"},
    {"quote": None},
    {"quote": " ", "escape": "#"},
]


@given(st.lists(st.sampled_from(PIECES), max_size=40), st.sampled_from(DIALECTS), st.sampled_from(["x,y", "x"]))
@examples(1000, by_default=400)
def test_csv_has_the_rows_of_the_oracle_wherever_it_is_cut(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], dialect: dict[str, Any], header: str
) -> None:
    body = b"".join(pieces)
    path = tmp_path_factory.getbasetemp() / "drawn.csv"
    path.write_bytes(header.encode() + b"\n" + body)
    names = header.split(",")
    coded: dict[str, Any] = {
        name: value.encode() if isinstance(value, str) else value for name, value in dialect.items()
    }
    expected = [
        row
        for row in csv_rows.rows(body, **coded)
        if row.text or len(names) == 1 or row.bad  # blank lines are no rows, except where there is one column
    ]
    good: list[tuple[int, list[bytes | None]]] = []
    wrong: list[tuple[int, str]] = []
    for number, row in enumerate(expected):
        undecodable = any(value is not None and not _is_utf8(value) for value in row.values)
        if row.bad or len(row.values) != len(names) or undecodable:
            wrong.append((number, row.text.decode("utf-8", "backslashreplace")))
        else:
            good.append((number, row.values))
    for size in BLOCKS:
        rows, numbers, bad = read(
            path, "csv", ", ".join(f"{name} string" for name in names), block_size=size, **dialect
        )
        read_values = [[None if value is None else value.encode() for value in row.values()] for row in rows]
        assert list(zip(numbers, read_values, strict=True)) == good
        assert [row["row"] for row in bad] == [number for number, _ in wrong]
        assert [row["data"] for row in bad if "UTF-8" not in row["reason"]] == [
            text for (_, text), row in zip(wrong, bad, strict=True) if "UTF-8" not in row["reason"]
        ]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


@given(
    st.lists(st.lists(st.text(st.sampled_from('ab,"\\\n\r \té'), max_size=5), min_size=2, max_size=2), max_size=12),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_MINIMAL]),
    st.sampled_from([None, "\\"]),
)
@examples(200)
def test_csv_of_pythons_writer_is_read_as_it_was_given(
    tmp_path_factory: pytest.TempPathFactory, values: list[list[str]], line_end: str, quoting: Any, escape: str | None
) -> None:
    if quoting == csv.QUOTE_MINIMAL:  # older versions of Python quote a line end only if it is that of the file
        values = [["".join(value.splitlines()) for value in row] for row in values]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=line_end, quoting=quoting, escapechar=escape, doublequote=escape is None)
    writer.writerows([["x", "y"], *values])
    path = tmp_path_factory.getbasetemp() / "python.csv"
    path.write_bytes(text.getvalue().encode())
    expected = [[value or (None if quoting == csv.QUOTE_MINIMAL else "") for value in row] for row in values]
    for size in BLOCKS:
        rows, numbers, bad = read(path, "csv", "x string, y string", block_size=size, escape=escape)
        assert not bad
        assert [list(row.values()) for row in rows] == expected
        assert numbers == list(range(len(values)))


@given(
    st.binary(max_size=30).map(lambda data: bytes(b'a,"\n\r\\#b'[byte % 8] for byte in data)), st.sampled_from(DIALECTS)
)
@examples(300, by_default=200)
def test_rows_are_found_alike_by_counting_and_by_patterns(data: bytes, dialect: dict[str, Any]) -> None:
    bare = dialect.get("escape_unquoted", True)
    finder = RowFinder(",", dialect.get("quote", '"'), dialect.get("escape"), dialect.get("comment"), unquoted=bare)
    for last in (False, True):
        whole = data + b"\n" if last else data
        found, slowly = finder.find(whole, last), finder._by_patterns(whole, last)
        for name in ("starts", "stops", "nexts", "widths"):
            assert getattr(found, name).tolist() == getattr(slowly, name).tolist()


def test_csv_of_exactly_a_block_is_read_once(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for size in range(1000, 1040):
        body = (b"1000,1\n" * 200)[: size - len(b"ts,a\n")]
        path.write_bytes(b"ts,a\n" + body)
        whole = body.count(b",1\n") + body.endswith(b",1")
        rows, _, bad = read(path, "csv", "ts long, a long", block_size=1000)
        assert len(rows) + len(bad) == len([line for line in body.split(b"\n") if line])
        assert len(rows) >= whole


@pytest.mark.parametrize("between", [b"\n" * 5000, b"1\n" * 2000, b"1,2,3\r\n" * 2000])
def test_csv_blocks_without_a_good_row_do_not_give_the_one_before_again(tmp_path: Path, between: bytes) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"ts,a\n" + b"1000,1\n" * 1000 + between + b"1000,2\n" * 10)
    rows, numbers, bad = read(path, "csv", "ts long, a long", block_size=1024)
    assert [row["a"] for row in rows] == [1] * 1000 + [2] * 10
    assert len(set(numbers)) == 1010
    assert len(bad) == (0 if between.strip() == b"" else 2000)


def test_csv_as_spark_writes_it_has_an_escape(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n"he said \\"no\\"",1\nplain,2\n')
    rows, _, bad = read(path, "csv", "a string, b int")
    assert [row["a"] for row in rows] == ["plain"]
    assert "text follows the quote" in bad[0]["reason"]
    rows, _, bad = read(path, "csv", "a string, b int", escape="\\")
    assert [row["a"] for row in rows] == ['he said "no"', "plain"]
    assert not bad
    path.write_bytes(b'a\\b,b\nC:\\new\\,1\n"C:\\\\new,\\"",2\n\\N,3\n')
    rows, _, bad = read(path, "csv", r"`a\b` string, b int", escape="\\", escape_unquoted=False, null_values=[r"\N"])
    assert [(row[r"a\b"], row["b"]) for row in rows] == [("C:\\new\\", 1), ('C:\\new,"', 2), (None, 3)]
    assert not bad


def test_csv_may_end_with_a_line_end_that_is_escaped(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"a,b\n1,2\n3,4\\\n")
    rows, _, bad = read(path, "csv", "a int, b string", escape="\\")
    assert rows == [{"a": 1, "b": "2"}, {"a": 3, "b": "4\n"}]
    assert not bad


def test_csv_comments_lines_to_skip_and_an_encoding(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes("exported by X\n\n# note, with \" a quote\na|b\n'é|x'|1\n#2\n3|4\n".encode("cp1252"))
    rows, numbers, bad = read(
        path, "csv", "a string, b int", delimiter="|", quote="'", comment="#", skip_rows=2, encoding="cp1252"
    )
    assert (rows, numbers, bad) == ([{"a": "é|x", "b": 1}, {"a": "3", "b": 4}], [0, 1], [])
    path.write_bytes("a,b\nü,1\n".encode("utf-16"))
    for size in BLOCKS:
        assert read(path, "csv", "a string, b int", encoding="utf-16", block_size=size)[0] == [{"a": "ü", "b": 1}]
    path.write_bytes(b"a,b\n\x81,1\nx,2\n")
    rows, _, bad = read(path, "csv", "a string, b int", encoding="cp1252")
    assert (rows, [row["row"] for row in bad]) == ([{"a": "x", "b": 2}], [0])


def test_what_is_wrong_with_a_row_in_another_encoding_is_shown_in_its_characters(tmp_path: Path) -> None:
    """A byte that the encoding has no character for is shown as it is in the file, and the rest as people read it."""
    path = tmp_path / "a.csv"
    path.write_bytes("a,b\nx\x81é,1\né,zwölf\x8d\nä,\x81,ö\n".encode("latin-1"))
    _, _, bad = read(path, "csv", "a string, b int", encoding="cp1252")
    assert [(row["reason"], row["data"]) for row in bad] == [
        (r"column 'a': 'x\x81é' is not valid cp1252", r'{"a": "x\\x81é", "b": "1"}'),
        (r"column 'b': 'zwölf\x8d' is not valid cp1252", r'{"a": "é", "b": "zwölf\\x8d"}'),
        ("3 values where the header has 2", r"ä,\x81,ö"),
    ]
    path.write_bytes(b'a,b\n"' + "é\x81".encode("latin-1") * 60)
    for size in (7, 1 << 20):
        with pytest.raises(DataError, match=r"begins with '\"(é\\\\x81){19}é") as caught:
            read(path, "csv", "a string, b int", encoding="cp1252", longest_row=100, block_size=size)
        assert "\\xed" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [{}, {"quote": "'"}, {"escape": "\\"}, {"delimiter": "\t", "encoding": "cp1252"}, {"escape": "\\", "quote": "'"}],
)
def test_csv_is_written_in_the_dialect_that_reads_it(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "a.csv"
    table = pa.table({"it's": ["", None, "a,b", 'q"q', "it's", "back\\slash\\", "two\r\nlines", "é\t"], "n": range(8)})
    write_table(FS, str(path), table, file_format("csv", "writing", **options))
    rows = [
        row
        for chunk in file_format("csv", **options).read(FS, FileSplit(str(path)), table.schema)
        for row in chunk[0].to_pylist()
    ]
    assert rows == table.to_pylist()


def test_csv_may_begin_with_excels_line_for_the_delimiter(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for sign in (";", "\t", "|", ","):
        for line in (f"sep={sign}\r\n", f'"sep={sign}"\n', f"\ufeffsep={sign}\r"):
            path.write_bytes(f"{line}a{sign}b\r\n1.5{sign}x\r\n{sign}\r\n".encode())
            for size in BLOCKS:
                rows, numbers, bad = read(path, "csv", "a double, b string", block_size=size, delimiter=";")
                assert (rows, numbers, bad) == ([{"a": 1.5, "b": "x"}, {"a": None, "b": None}], [0, 1], []), line
    path.write_text("sep=;")
    assert read(path, "csv", "a double")[0] == []
    path.write_text("sep;b\n1;2\n")  # a column of that name
    assert read(path, "csv", "sep long", delimiter=";")[0] == [{"sep": 1}]
    path.write_text('sep="\na"b\n')
    with pytest.raises(DataError, match="its first line says that values stand between"):
        read(path, "csv", "a long")
    path.write_text("sep=;\na;b\n1;2\n3;4\n")
    with without_lines(FS, str(path), [], (3, 4), 1) as (_, copy):
        assert read(Path(copy), "csv", "a long")[0] == [{"a": 3}]
    for head in ("sep=;\na;b\n", "Report\nsep=;\na;b\n"):  # the line after those that are skipped says it, if any
        path.write_text(f"{head}1;2\n3;4\n")
        last = head.count("\n") + 1
        with without_lines(FS, str(path), [], (last, last + 1), 2) as (_, copy):
            assert read(Path(copy), "csv", "a long", skip_rows=1, delimiter=";")[0] == [{"a": 3}], head


@pytest.mark.parametrize("quote", ['"', "'", None])
def test_a_header_that_is_excels_line_for_the_delimiter_is_not_written(quote: str | None, tmp_path: Path) -> None:
    """It is read as that line, and the first row as the header."""
    path, written = tmp_path / "a.csv", CsvFormat(quote=quote)
    for name in ("sep=;", "SEP=|"):
        table = pa.table({name: ["x"]})
        if quote == "'":
            write_table(FS, str(path), table, written)
            assert read(path, "csv", f"`{name}` string", quote=quote)[0] == [{name: "x"}]
            continue
        with pytest.raises(SchemaError, match=re.escape(f"the column {name!r} cannot be written to CSV")):
            write_table(FS, str(path), table, written)
        write_table(FS, str(path), pa.table({name: ["x"], "b": ["y"]}), written)
        assert read(path, "csv", f"`{name}` string, b string", quote=quote)[0] == [{name: "x", "b": "y"}]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"Sep=;"'])
def test_excels_line_for_the_delimiter_may_be_in_capitals_and_behind_comments(
    tmp_path: Path, line: str, end: str
) -> None:
    path = tmp_path / "a.csv"
    for comments in ("", "# made by hand", f"#{end}# {'long ' * 50}"):
        head = comments + end if comments else ""
        path.write_text(f"{head}{line}{end}#{end}a;b{end}1;2{end}# sep=,{end}3;4{end}", newline="")
        for size in BLOCKS:
            assert read(path, "csv", "a long, b long", comment="#", block_size=size)[0] == [
                {"a": 1, "b": 2},
                {"a": 3, "b": 4},
            ]
    path.write_text("# made by hand\na,b\n1,2\n")  # and where no such line follows, nothing is left out
    assert read(path, "csv", "a long, b long", comment="#")[0] == [{"a": 1, "b": 2}]


def test_a_part_of_a_file_has_its_header_also_behind_comments_and_blank_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("# made by hand\n\nsep=;\n# of 2024\na;b\n1;2\n3;4\n")
    with without_lines(FS, str(path), [], (6, 7), 1, "#") as (_, copy):
        assert read(Path(copy), "csv", "a long, b long", comment="#")[0] == [{"a": 3, "b": 4}]


def test_csv_that_cannot_be_written_in_its_dialect_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "a.csv")
    for value, options in (("a,b", {"quote": None}), ("", {"quote": None}), ("\u0416", {"encoding": "cp1252"})):
        with pytest.raises(SchemaError, match="cannot be written"):
            write_table(FS, path, pa.table({"x": [value]}), file_format("csv", "writing", **options))


# JSON


LINES = [
    b'{"a":1}', b'{"a": 2, "s": "x"}', b"", b" ", b"\t", b"null", b"{", b'{"a":1}{"a":2}', b'{"a":1,"a":2}',
    b'{"s":"\xff"}', b'{"a":"x"}', b"[1]", b'{"s":"\\u00e9"}',
]  # fmt: skip


@given(
    st.lists(
        st.tuples(st.sampled_from(LINES), st.sampled_from([b"\n", b"\r\n", b"\n\r", b"\r\r\n", b"\n\r\n"])), max_size=12
    )
)
@examples(300, by_default=200)
def test_json_lines_are_all_there_wherever_they_are_cut(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[bytes, bytes]]
) -> None:
    data = b"".join(line + end for line, end in drawn)
    path = tmp_path_factory.getbasetemp() / "drawn.jsonl"
    path.write_bytes(data)
    good: list[tuple[int, Any]] = []
    wrong: list[int] = []
    for number, line in enumerate([line for line in data.split(b"\n") if line.strip()]):
        try:
            pairs = json.loads(line.decode(), object_pairs_hook=list)
            names = [name for name, _ in pairs]
            value = {"a": dict(pairs).get("a"), "s": dict(pairs).get("s")}
            if len(set(names)) < len(names) or not isinstance(value["a"], int | None):
                raise ValueError
            good.append((number, value))
        except (ValueError, TypeError):
            wrong.append(number)
    for size in BLOCKS:
        rows, numbers, bad = read(path, "jsonl", "a long, s string", block_size=size)
        assert list(zip(numbers, rows, strict=True)) == good
        assert [row["row"] for row in bad] == wrong


def test_json_array_is_read_over_any_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    values = [{"a": at, "s": f'{at} [{{"\n]}}'} for at in range(50)]
    path.write_text(json.dumps(values, indent=3), encoding="utf-8")
    for size in (1, 7, 1 << 20):
        assert read(path, "json", "a long, s string", block_size=size) == (values, list(range(50)), [])
    path.write_bytes(b'\xef\xbb\xbf [{"a":1}, {"a":"x"}, 5,\n {"a":2,"s":"\xff"}, {"a":3}]\n')
    rows, numbers, bad = read(path, "json", "a long, s string", block_size=3)
    assert (rows, numbers) == ([{"a": 1, "s": None}, {"a": 3, "s": None}], [0, 4])
    assert [row["row"] for row in bad] == [1, 2, 3]


@pytest.mark.parametrize(
    ("data", "good", "why"),
    [
        (b'[{"a":1},]', [1], "Expecting value"),
        (b'[{"a":1} {"a":2}, {"a":3}]', [3], "Extra data"),
        (b'[{"a":1},{"a":2 "b":3},{"a":3}]', [1, 3], "delimiter"),
        (b'[{"a":1},1.5,{"a":3}]', [1, 3], "not a JSON object"),
        (b'[{"a":1},{"a":2,"u":' + b"[" * 3000 + b"]" * 3000 + b'},{"a":3}]', [1, 3], "nested too deeply"),
        (b'[{"a":1},{"a":2', [1], "ends within"),
        (b'[{"a":1}', [], "ends within"),
        (b'[{"a":1},"x', [1], "ends within"),
        (b'[{"a":1}] x', [1], "follows the array"),
    ],
)
def test_json_array_loses_the_row_that_is_wrong(tmp_path: Path, data: bytes, good: list[int], why: str) -> None:
    (tmp_path / "a.json").write_bytes(data)
    for size in (1, 7, 12, 1 << 20):
        rows, _, bad = read(tmp_path / "a.json", "json", "a long", block_size=size)
        assert [row["a"] for row in rows] == good
        assert len(bad) == 1
        assert why in bad[0]["reason"]


def test_an_element_over_many_blocks_takes_no_longer_than_its_length(tmp_path: Path) -> None:
    """With time by the square this would take minutes."""
    deep = b'{"a":1,"u":' + b"[{}," * 10_000 + b"1" + b"]" * 10_000 + b"}"
    (tmp_path / "a.json").write_bytes(b"[" + deep + b',{"a":2}]')
    rows, _, bad = read(tmp_path / "a.json", "json", "a long", block_size=2)
    assert ([row["a"] for row in rows], len(bad)) == ([2], 1)


def test_a_row_longer_than_the_longest_has_one_fate_wherever_it_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"a":1},{"a":2,"u":"' + b"x" * 200 + b'"},{"a":3}]')
    (tmp_path / "a.csv").write_bytes(b"id,s\n" + b"".join(b"%d,%s\n" % (at, b"x" * 50) for at in range(40)))
    (tmp_path / "b.csv").write_bytes(b"# a comment\n" * 100 + b"a,b\n1,2\n")
    for size in (16, 50, 100, 4000):
        rows, _, bad = read(tmp_path / "a.json", "json", "a long", block_size=size, longest_row=100)
        assert ([row["a"] for row in rows], len(bad)) == ([1], 1)
        with pytest.raises(DataError, match="more than 30 bytes"):
            read(tmp_path / "a.csv", "csv", "id int", block_size=size, longest_row=30)
        assert read(tmp_path / "b.csv", "csv", "a int", block_size=size, longest_row=100, comment="#")[0] == [{"a": 1}]


def test_a_number_of_many_digits_where_nothing_is_declared_costs_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'[{"a":1},{"a":2,"u":' + b"9" * 5000 + b'},{"a":3}]')
    assert [row["a"] for row in read(tmp_path / "a.json", "json", "a int")[0]] == [1, 2, 3]


def test_a_name_given_twice_is_bad_beside_one_that_is_escaped(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"\\u0061":1}\n{"a":2,"a":3}\n')
    rows, _, bad = read(tmp_path / "a.jsonl", "jsonl", "a int")
    assert (rows, [row["row"] for row in bad]) == ([{"a": 1}], [1])


@pytest.mark.parametrize("name", ['a"b', "a\\b", "a\tb", "a/b", "é"])
def test_names_of_any_characters_are_read_as_they_are_written(tmp_path: Path, name: str) -> None:
    table = pa.table({name: pa.array([1, 2], pa.int64())})
    for kind in ("jsonl", "csv"):
        path = str(tmp_path / f"a.{kind}")
        write_table(FS, path, table, kind)
        (chunk,) = file_format(kind).read(FS, FileSplit(path), table.schema)
        assert chunk[0].equals(table)


def test_many_escapes_take_no_longer_than_their_number(tmp_path: Path) -> None:
    """With time by the square this would take minutes."""
    (tmp_path / "a.jsonl").write_text(json.dumps({"a": 1, "s": "я" * 200_000}) + "\n", encoding="utf-8")
    assert len(read(tmp_path / "a.jsonl", "jsonl", "a int, s string")[0][0]["s"]) == 200_000
    names = ",".join(f'"k{at}":0' for at in range(100_000))
    (tmp_path / "a.jsonl").write_text(f'{{"a":"1",{names},"k0":1}}\n', encoding="utf-8")
    assert read(tmp_path / "a.jsonl", "jsonl", "a int")[0] == [{"a": 1}]


def test_csv_a_quote_within_an_unquoted_value_does_not_hide_what_follows(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'id,size\n1,5" pipe\n' + b"2,y\n" * 2000)
    rows, _, bad = read(tmp_path / "a.csv", "csv", "id int, size string", block_size=200, longest_row=1000)
    assert (len(rows), len(bad)) == (2001, 0)
    assert rows[0]["size"] == '5" pipe'


def test_csv_line_ends_are_not_joined_over_what_is_cut_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a\nx\r1,2\n\ny\n")
    rows, numbers, _ = read(tmp_path / "a.csv", "csv", "a string")
    assert ([row["a"] for row in rows], numbers) == (["x", None, "y"], [0, 2, 3])


def test_csv_a_byte_order_mark_is_one_only_where_the_file_begins(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n" + b"".join(b"\xef\xbb\xbfx%d,1\n" % at for at in range(6)))
    for size in (20, 1 << 20):
        rows, _, _ = read(tmp_path / "a.csv", "csv", "a string", block_size=size)
        assert [row["a"] for row in rows] == [f"\ufeffx{at}" for at in range(6)]
    table = pa.table({"a": ["x\r\n"] * 70_000, "b": range(70_000)})
    for encoding in ("utf-8-sig", "utf-16"):
        path = str(tmp_path / "b.csv")
        write_table(FS, path, table, file_format("csv", "writing", encoding=encoding))
        read_back = list(file_format("csv", encoding=encoding).read(FS, FileSplit(path), table.schema))
        assert pa.concat_tables([chunk[0] for chunk in read_back]).equals(table)


def test_csv_a_byte_order_mark_may_be_cut(tmp_path: Path) -> None:
    for skip in (0, 1):
        (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + b"title\n" * skip + b"a,b\n1,2\n")
        for size in BLOCKS:
            assert read(tmp_path / "a.csv", "csv", "a int", skip_rows=skip, block_size=size)[0] == [{"a": 1}]


def test_csv_lines_to_skip_may_end_in_any_way(tmp_path: Path) -> None:
    for end in ("\r", "\n", "\r\n"):
        (tmp_path / "a.csv").write_bytes(end.join(["title", "by X", "a,b", "1,2", "3,4", ""]).encode())
        for size in BLOCKS:
            rows, _, _ = read(tmp_path / "a.csv", "csv", "a int, b int", skip_rows=2, block_size=size)
            assert [row["b"] for row in rows] == [2, 4]


def test_csv_whose_header_is_none_is_a_bad_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b'{"a":"' + b"x" * 200_000 + b'"}\n')
    with pytest.raises(DataError, match="header is wrong"):
        read(tmp_path / "a.csv", "csv", "a string")


def test_hexadecimal_numbers_do_not_wrap(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(b"a,b\n0xFF,1\n0x7f,2\n-0x80,3\n128,4\n0xFFFFFFFFFFFFFFFF,5\n")
    rows, _, bad = read(tmp_path / "a.csv", "csv", "a tinyint")
    assert ([row["a"] for row in rows], [row["row"] for row in bad]) == ([127, -128], [0, 3, 4])


@pytest.mark.parametrize("before", ["", "x\n"])
def test_a_hexadecimal_number_does_not_wrap_whatever_is_beside_it(before: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"a\n{before}0x7FFFFFFFFFFFFFFF\n0xFFFFFFFFFFFFFFFF\n0x8000000000000000\n")
    rows, _, bad = read(tmp_path / "a.csv", "csv", "a long")
    assert [row["a"] for row in rows] == [2**63 - 1]
    assert len(bad) == 2 + bool(before)


@pytest.mark.parametrize("sign", ["", "-"])
def test_a_hexadecimal_number_of_very_many_digits_is_bad(sign: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"a\n{sign}0x{'f' * 4_000}\n0x{'0' * 4_000}1f\n")
    rows, _, bad = read(tmp_path / "a.csv", "csv", "a long")
    assert ([row["a"] for row in rows], len(bad)) == ([31], 1)


def test_a_decimal_is_the_nearest_double(tmp_path: Path) -> None:
    values = [Decimal(at).scaleb(-2) for at in range(20_000)]
    pq.write_table(pa.table({"d": pa.array(values, pa.decimal128(10, 2))}), tmp_path / "a.parquet")
    rows, _, _ = read(tmp_path / "a.parquet", "parquet", "d double")
    assert [row["d"] for row in rows] == [float(value) for value in values]


def test_json_lines_that_are_one_value_say_so(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{\n"a": 1\n}\n', encoding="utf-8")
    _, _, bad = read(tmp_path / "a.jsonl", "jsonl", "a long")
    assert "Each object stands on one line" in bad[0]["reason"]
    assert "format='json'" in bad[0]["reason"]


# decimals and times


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet text", "parquet decimal", "parquet long"])
def test_decimals_are_exact_or_bad(tmp_path: Path, kind: str) -> None:
    drawn = random.Random(7)
    for _ in range(25):
        precision = drawn.randint(1, 38)
        scale = drawn.randint(0, precision)
        texts = ["68127108", "9" * 30, "99999", *(_drawn_decimal(drawn) for _ in range(60))]
        if kind == "parquet long":
            texts = [str(drawn.randrange(-(2**63), 2**63) >> drawn.randrange(63)) for _ in texts]
        elif kind == "parquet decimal":
            texts = [text for text in texts if len(text.strip("-").partition(".")[0]) <= 28]
        expected = {at: Decimal(text) for at, text in enumerate(texts) if _fits(Decimal(text), precision, scale)}
        rows, numbers, bad = _read_decimals(tmp_path, kind, texts, f"d decimal({precision}, {scale})")
        assert dict(zip(numbers, (row["d"] for row in rows), strict=True)) == expected
        assert len(rows) + len(bad) == len(texts)


def _drawn_decimal(drawn: random.Random) -> str:
    whole = "".join(drawn.choices("0123456789", k=drawn.choice([1, 1, 3, 8, 18, 28])))
    part = "".join(drawn.choices("0099123", k=drawn.choice([0, 0, 1, 2, 6, 10])))
    return ("-" if drawn.random() < 0.3 else "") + whole + (f".{part}" if part else "")


def _fits(value: Decimal, precision: int, scale: int) -> bool:
    shifted = value.scaleb(scale, _WIDE)
    return shifted == shifted.to_integral_value() and shifted.copy_abs() < 10**precision


def _read_decimals(folder: Path, kind: str, texts: list[str], schema: str) -> tuple[Any, Any, Any]:
    if kind == "csv":
        (folder / "d.csv").write_text("d,e\n" + "".join(f"{text},1\n" for text in texts), encoding="utf-8")
    elif kind == "jsonl":
        lines = [
            json.dumps({"d": text}) if at % 2 else f'{{"d": {_json_number(text)}}}' for at, text in enumerate(texts)
        ]
        (folder / "d.jsonl").write_text("\n".join(lines), encoding="utf-8")
    else:
        values: dict[str, pa.Array] = {
            "parquet text": pa.array(texts, pa.string()),
            "parquet long": pa.array([int(float(text)) if "." in text else int(text) for text in texts], pa.int64())
            if kind == "parquet long"
            else pa.nulls(len(texts)),
            "parquet decimal": pa.array([Decimal(text) for text in texts], pa.decimal128(38, 10))
            if kind == "parquet decimal"
            else pa.nulls(len(texts)),
        }
        pq.write_table(pa.table({"d": values[kind]}), folder / "d.parquet")
    suffix = kind.split(maxsplit=1)[0]
    return read(folder / f"d.{suffix}", suffix, schema)


def _json_number(text: str) -> str:
    whole, point, part = text.partition(".")
    return f"{'-' if whole.startswith('-') else ''}{whole.strip('-').lstrip('0') or '0'}{point}{part}"


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (" 2024-01-01", "2024-01-01T00:00:00"),
        ("2024-01-01t06:00:00z", "2024-01-01T06:00:00"),
        ("20240101T060006Z", "2024-01-01T06:00:06"),
        ("20240101T060006.25+0200", "2024-01-01T04:00:06.250000"),
        ("2024-01-01T06:00:03,5Z", "2024-01-01T06:00:03.500000"),
        ("2024-01-01 06:00", "2024-01-01T06:00:00"),
        ("20240101T06", "2024-01-01T06:00:00"),
        ("2024-01-01T06:00:00.123456789012Z", "2024-01-01T06:00:00.123456"),
    ],
)
def test_times_may_be_spelled_as_iso_8601_and_rfc_3339_allow(tmp_path: Path, text: str, moment: str) -> None:
    (tmp_path / "a.csv").write_text(f't,x\n"{text}",1\n2024-01-01,2\n', encoding="utf-8")
    rows, _, bad = read(tmp_path / "a.csv", "csv", "t timestamp")
    assert not bad
    assert rows[0]["t"].replace(tzinfo=None).isoformat() == moment


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2024-01-01T06:00:00 UTC", "its zone is a name"),
        ("1704088805.25", "seconds with a fraction"),
        ("03:04 PM", "twelve hours"),
        ("1704088805000000", "micro- or nanoseconds"),
        ("2024-01-01T06:00:60Z", "leap second"),
        ("2024-02-30", "no such day"),
        ("2024-01-01T24:30:00Z", "no such day or time"),
        ("01/02/2024", "cannot be told"),
        ("2024-01-01T24:00Z", "24:00 is written as 00:00 of the next day"),
        ("2024-366", "day of the year"),
        ("2024-W05-1", "week of the year"),
        ("2024-1-31", "its month or its day has one digit"),
        ("+2024-01-31T06:00:00Z", "its year has a sign"),
        ("noon", "is no timestamp: write it like 2024-05-01T06:00:00Z"),
    ],
)
def test_what_is_no_time_says_what_it_looks_like(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "a.csv").write_text(f"t,x\n{text},1\n", encoding="utf-8")
    _, _, bad = read(tmp_path / "a.csv", "csv", "t timestamp")
    assert hint in bad[0]["reason"]
    assert re.search(r"an extractor$|times=\{'t': '(s|us|%d/%m/%Y( %I:%M %p)?|%Y-%j|%Y-%m-%d)'\}$", bad[0]["reason"])


@pytest.mark.parametrize(
    ("text", "zone", "hint"),
    [
        ("9999-12-31 23:00", "America/New_York", "in UTC it is after the year 9999; write null"),
        ("9999-12-31T23:00:00-05:00", None, "in UTC it is after the year 9999"),
        ("0001-01-01 03:00", "Asia/Tokyo", "in UTC it is before the year 1"),
        ("0000-01-01", None, "its year is none of 1 to 9999"),
        ("10000-01-01T00:00:00Z", None, "its year is none of 1 to 9999"),
        ("0000-02-30", None, "there is no such day or time"),
        ("9999-02-29", None, "there is no such day or time"),
        ("2024-01-01T06:00:00+25:00", None, "there is no such offset"),
    ],
)
def test_a_time_beyond_the_calendar_says_so(tmp_path: Path, text: str, zone: str | None, hint: str) -> None:
    (tmp_path / "a.csv").write_text(f"t,x\n{text},1\n", encoding="utf-8")
    schema = pa.schema([("t", pa.timestamp("us", zone or "UTC"))])
    _, _, bad = read(tmp_path / "a.csv", "csv", schema)
    assert hint in bad[0]["reason"]
    assert "declare a string" in bad[0]["reason"]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("2024-05-01T06:00", "a time of day, which a date has not"),
        ("2024-02-30", "no such day"),
        ("20240501", "it has no hyphens; .* as in times={'t': '%Y%m%d'}"),
    ],
)
def test_a_date_says_what_is_wrong_with_it(tmp_path: Path, text: str, hint: str) -> None:
    (tmp_path / "a.csv").write_text(f"t,x\n{text},1\n", encoding="utf-8")
    _, _, bad = read(tmp_path / "a.csv", "csv", "t date")
    assert re.search(hint, bad[0]["reason"])


def test_names_that_look_alike_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("e\u0301\n1\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"has other characters, 'e\\u0301' and not '\\xe9'"):
        read(tmp_path / "a.csv", "csv", "`\u00e9` long")


def test_an_encoding_that_cannot_name_bad_bytes_is_refused() -> None:
    for encoding in ("idna", "punycode"):
        with pytest.raises(ConfigError, match="is not known"):
            file_format("csv", encoding=encoding)


@pytest.mark.parametrize(
    "times", [pa.array([253_402_318_800_000_000], pa.timestamp("us")), pa.array([3_000_000], pa.date32())]
)
def test_a_time_of_a_binary_file_beyond_the_calendar_says_so_too(tmp_path: Path, times: pa.Array) -> None:
    pq.write_table(pa.table({"t": times}), tmp_path / "a.parquet")
    _, _, bad = read(tmp_path / "a.parquet", "parquet", "t timestamp")
    assert "is outside the years 1 to 9999 in UTC" in bad[0]["reason"]


# many bad values


NUMBERS = st.from_regex(
    r"\A[+-]?(\d{0,5}0{0,3}\.?\d{0,5}0{0,3}|\.|\d{17,21}|0x[0-9a-f]{1,3}|1\.2\.3)([eE][+-]?\d{1,3})?\Z", fullmatch=True
)


@examples(60)
@given(st.lists(NUMBERS, min_size=1, max_size=20), st.integers(1, 38), st.integers(0, 38))
def test_each_number_among_bad_ones_is_what_it_is_alone(texts: list[str], precision: int, scale: int) -> None:
    for kind in (pa.decimal128(precision, min(scale, precision)), pa.int64(), pa.uint64(), pa.int8()):
        column, bad = parse_text(pa.array([*texts, None, "x"]), kind)
        expected = [exactly(text, kind) for text in texts]
        assert column.to_pylist() == [*expected, None, None]
        assert bad is not None
        assert bad.tolist() == [*(value is None for value in expected), False, True]


def exactly(text: str, kind: pa.DataType) -> Decimal | int | None:
    """The number that a text is, if the type has it."""
    flags = re.IGNORECASE | re.ASCII
    if re.fullmatch(r"-?0x[0-9a-f]+", text, flags):
        number = Decimal(int(text, 16)) if pa.types.is_integer(kind) else None
    else:
        number = Decimal(text) if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", text, flags) else None
    if number is None:
        return None
    if pa.types.is_decimal(kind):
        places = number.scaleb(kind.scale, _WIDE)
        return number if places == places.to_integral_value() and abs(places) < 10**kind.precision else None
    bits = kind.bit_width
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if pa.types.is_signed_integer(kind) else (0, 2**bits - 1)
    return int(number) if abs(number) < 10**38 and number == int(number) and low <= number <= high else None


@pytest.mark.parametrize("kind", [pa.decimal128(5, 2), pa.int64(), pa.float64()])
def test_a_column_of_bad_numbers_is_converted_at_once(kind: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    plain = isolating.attempt

    def counted(values: pa.Array, kernels: Any) -> pa.Array | None:
        calls.append(len(values))
        return plain(values, kernels)

    for module in (text_module, isolating):
        monkeypatch.setattr(module, "attempt", counted)
    wrong = "1.2.3" if pa.types.is_floating(kind) else "99999999999999999999.5"
    column, bad = parse_text(pa.array([f"{wrong}{at}" for at in range(5000)]), kind)
    assert bad is not None
    assert bad.all()
    assert column.null_count == 5000
    assert len(calls) <= 4
