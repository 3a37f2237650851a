"""A table of the values that readers and writers of files most often change: extremes, and what looks like something
else."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from windowing.schema import parse_schema

_PRICE = Decimal("9" * 28 + "." + "9" * 10)
FLAT: dict[str, list[Any]] = {
    "text string": [
        *["", " ", " a ", "null", "NULL", "NaN", '"', 'a"b', "'", "\\", "\\n", "\\N", '\\"', "a,\\", "C:\\new, or\\"],
        *["\n", "\r", "\r\n", ",", ";", "#", "=1+1", "\ufeff", "\x00", "\u2028", "\x85", "\t", "😀", "e\u0301"],
        *["{}", "[]", "true", "1", "sep=;", "2024-01-01"],
    ],
    "flag boolean": [True, False],
    "tiny tinyint": [-(2**7), 2**7 - 1],
    "small smallint": [-(2**15), 2**15 - 1],
    "whole int": [-(2**31), 2**31 - 1],
    "big long": [-(2**63), 2**63 - 1, 2**53 + 1],
    "single float": [
        *[float(np.float32(each)) for each in (3.4028235e38, 1e-45, 0.1)],
        *[-0.0, 0.0, math.nan, math.inf, -math.inf],
    ],
    "twice double": [1.7976931348623157e308, 5e-324, -0.0, 0.1 + 0.2, math.nan, math.inf, -math.inf, 1e22, 1e-7],
    "price decimal(38, 10)": [_PRICE, _PRICE.copy_negate(), Decimal("-0.0000000001"), Decimal("0.0000000000")],
    "day date": [date.min, date(1582, 10, 4), date(1582, 10, 15), date(1969, 12, 31), date.max],
    "at timestamp": [
        datetime.min.replace(tzinfo=UTC),
        datetime(1582, 10, 10, tzinfo=UTC),
        datetime(1899, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
        datetime(2024, 3, 31, 1, 30, 0, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
}
"""What CSV can have of other writers."""
WHOLE: dict[str, list[Any]] = {
    **FLAT,
    "raw binary": [b"", b"\x00\xff", b"abc"],
    "numbers array<long>": [[], [None, 2**63 - 1], [1]],
    "item struct<sku: string, price: decimal(38, 10)>": [
        {"sku": None, "price": None},
        {"sku": '\n,"', "price": _PRICE},
    ],
    "rates map<string, double>": [[], [("", math.nan), ("a", None), ("ü", math.inf)]],
    "spans array<struct<at: timestamp, day: date>>": [
        [{"at": datetime.min.replace(tzinfo=UTC), "day": date.min}, None],
        [{"at": datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), "day": None}],
    ],
}


def table(columns: dict[str, list[Any]]) -> pa.Table:
    """The columns side by side, with the number of each row before them; the last row has nothing but nulls."""
    rows = [
        {
            "id": number,
            **{name.split()[0]: some[number] if number < len(some) else None for name, some in columns.items()},
        }
        for number in range(max(map(len, columns.values())) + 1)
    ]
    return pa.Table.from_pylist(rows, parse_schema(", ".join(["id long", *columns])))
