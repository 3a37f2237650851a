"""Files with odd values and flipped bits, read in a process of their own: ``input_fuzz.py KIND FOLDER SEED COUNT``.

Arrow ends the process on some of what these files held, so whoever asks looks at the exit status too.
"""

from __future__ import annotations

import io
import json
import random
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq
from pyarrow import ipc

from topologies.io.formats import FileSplit, file_format
from windowing.errors import DataError
from windowing.schema import parse_schema

_ROWS = 200
_BINARY = (
    "l long, s string, d decimal(10,2), a array<bigint>, m map<string,bigint>, st struct<a:int,b:string>, "
    "ts timestamp, da date, di string, b boolean, at array<timestamp>"
)
_IPC = f"{_BINARY}, v string, la array<string>, r long"
_TYPES = (
    *("int", "long", "tinyint", "double", "float", "decimal(10,2)", "decimal(38,38)", "decimal(38,0)", "date"),
    *("timestamp", "boolean", "string", "array<decimal(10,2)>", "struct<a:decimal(5,5),b:timestamp>"),
    *("map<string,decimal(20,3)>", "array<date>"),
)


def _table(kind: str) -> pa.Table:
    every = range(_ROWS)
    table = pa.table(
        {
            "l": pa.array(every),
            "s": pa.array([None if at % 7 == 0 else f"text {at}" for at in every]),
            "d": pa.array([Decimal(at) for at in every], pa.decimal128(10, 2)),
            "a": pa.array([list(range(at % 4)) for at in every], pa.list_(pa.int64())),
            "m": pa.array([[("k", at)] for at in every], pa.map_(pa.string(), pa.int64())),
            "st": pa.array([{"a": at, "b": "x"} for at in every], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "ts": pa.array([at * 10**6 for at in every], pa.timestamp("us", "UTC")),
            "da": pa.array(every, pa.int32()).cast(pa.date32()),
            "di": pa.array(["a", "b"] * (_ROWS // 2)).dictionary_encode(),
            "b": pa.array([at % 2 == 0 for at in every]),
            "at": pa.array([[at] for at in every], pa.list_(pa.timestamp("us", "UTC"))),
        }
    )
    if kind == "parquet":
        return table
    table = table.append_column("v", pa.array([f"a text that is long enough {at}" for at in every], pa.string_view()))
    table = table.append_column("la", pa.array([["x"] * (at % 3) for at in every], pa.large_list(pa.string())))
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([_ROWS // 2, _ROWS], pa.int32()), pa.array([1, 2]))
    return table.append_column("r", runs)


def _written(kind: str, chance: random.Random) -> bytes:
    sink, table = io.BytesIO(), _table(kind)
    if kind == "parquet":
        pq.write_table(table, sink, row_group_size=100, compression="none", use_dictionary=chance.random() < 0.5)
    else:
        new = ipc.new_stream if kind == "stream" else ipc.new_file
        with new(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=100)
    return sink.getvalue()


def _flipped(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 3, 10])):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        at = chance.randrange(len(changed) - 4)
        changed[at : at + 4] = chance.choice([b"\xff\xff\xff\x7f", b"\xff\xff\xff\xff", b"\0\0\0\x80"])
    return bytes(changed)


def _digits(chance: random.Random, most: int) -> str:
    return "".join(chance.choice("0123456789") for _ in range(chance.choice([1, 2, 3, 20, 38, 39, 80, most])))


def _number(chance: random.Random) -> str:
    some = (
        _digits(chance, 400),
        f"{_digits(chance, 30)}.{_digits(chance, 30)}",
        f".{_digits(chance, 20)}",
        f"{_digits(chance, 10)}.",
        f"0.{'0' * chance.choice([5, 100, 5000])}1",
        f"{'0' * 300}1",
    )
    text = chance.choice(["", "-", "+"]) + chance.choice(some)
    if chance.random() < 0.4:
        return text
    powers = (_digits(chance, 2), "9999999", "2147483647", "2147483648", "4294967296", "9" * 30, "100", "38", "39")
    return f"{text}{chance.choice('eE')}{chance.choice(['', '-', '+'])}{chance.choice(powers)}"


def _time(chance: random.Random) -> str:
    year = chance.choice(["2024", "0000", "0001", "9999", "10000", "-001", "99999999", "292277026596"])
    day = f"{chance.choice(['01', '13', '00', '99'])}-{chance.choice(['01', '32', '00'])}"
    clocks = ("", "T00:00:00", "T23:59:60", "T99:99:99", "T00:00:00.123456789012", "T23:59:59.999999999Z")
    zones = ("T00:00:00+99:99", "T23:59:59-14:00", "T00:00:00+23:59", " 00:00", "T00:00:00.", "T")
    return f"{year}-{day}{chance.choice(clocks + zones)}"


def _text(kind: str, declared: str, values: list[str], chance: random.Random) -> str:
    """Each value as a string or a number, in whatever holds it."""
    holders = {"array": "[{0}]", "struct": '{{"a":{0},"b":{0}}}', "map": '{{"k":{0}}}'}
    holder = holders.get(declared.split("<", maxsplit=1)[0])
    rows = []
    for value in values:
        plain = value if chance.random() < 0.5 else json.dumps(value)
        if kind == "jsonl":
            rows.append(f'{{"x":{(holder or "{0}").format(plain)}}}')
        else:
            cell = (value if holder is None else holder.format(plain)).replace('"', '""')
            rows.append(f'"{cell}",1')
    return "\n".join(rows if kind == "jsonl" else ["x,y", *rows])


def _read(kind: str, path: Path, declared: str) -> int:
    """How many rows there were, good and bad; the good ones are what they should be."""
    rows = 0
    name = "arrow" if kind in ("file", "stream") else kind
    for table, _, bad in file_format(name).read(pafs.LocalFileSystem(), FileSplit(str(path)), parse_schema(declared)):
        table.validate(full=True)
        table.to_pylist()
        rows += len(table) + len(bad)
    return rows


def _binary(kind: str, path: Path, chance: random.Random) -> bool:
    path.write_bytes(_flipped(_written(kind, chance), chance))
    try:
        return _read(kind, path, _BINARY if kind == "parquet" else _IPC) == _ROWS
    except DataError:
        return True


def _textual(kind: str, path: Path, chance: random.Random) -> bool:
    declared = chance.choice(_TYPES)
    values = [chance.choice([_number, _number, _time])(chance) for _ in range(chance.choice([1, 5, 40, 200]))]
    path.write_text(_text(kind, declared, values, chance))
    return _read(kind, path, f"x {declared}") == len(values)


KINDS: dict[str, Callable[[str, Path, random.Random], bool]] = {
    "file": _binary,
    "stream": _binary,
    "parquet": _binary,
    "csv": _textual,
    "jsonl": _textual,
}


def main(kind: str, folder: str, seed: str, count: str) -> None:
    """Read files; what is wrong with one is an error that names its seed."""
    for number in range(int(seed), int(seed) + int(count)):
        print(number, flush=True)
        if not KINDS[kind](kind, Path(folder) / "x", random.Random(number)):
            raise AssertionError(f"{kind} {number}: some rows are neither good nor bad")


if __name__ == "__main__":
    main(*sys.argv[1:])
