"""A numpy scalar is written to Avro, or refused, as the Python value in it is: by every type."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.helpers.refusals import unwritable
from topologies.io.messages import AvroMessages, AvroSchema, Unwritable

PRIMITIVES = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL = [
    ("long", "timestamp-millis"), ("long", "timestamp-micros"), ("long", "local-timestamp-millis"),
    ("long", "local-timestamp-micros"), ("int", "date"), ("int", "time-millis"), ("long", "time-micros"),
    ("string", "uuid"),
]  # fmt: skip
DECIMAL = {"logicalType": "decimal", "precision": 12, "scale": 2}
TYPES: list[Any] = [
    *PRIMITIVES,
    *({"type": kind, "logicalType": name} for kind, name in LOGICAL),
    {"type": "bytes", **DECIMAL},
    {"type": "fixed", "name": "D", "size": 6, **DECIMAL},
    {"type": "fixed", "name": "F", "size": 2},
    {"type": "enum", "name": "E", "symbols": ["ab"]},
    {"type": "array", "items": "long"},
    {"type": "map", "values": "long"},
    ["null", {"type": "long", "logicalType": "timestamp-micros"}, "float", "string"],
]

MIDNIGHT, NOON = dt.datetime(2024, 5, 1, tzinfo=dt.UTC), dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
SCALARS: list[tuple[Any, Any]] = [
    *((kind(5), 5) for kind in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)),
    *((kind(2**24 + 1), 2**24 + 1) for kind in (np.int32, np.int64, np.uint32, np.uint64)),
    (np.int64(2**53 + 1), 2**53 + 1), (np.uint64(2**64 - 1), 2**64 - 1), (np.int64(-(2**63)), -(2**63)),
    (np.float16(1.5), 1.5), (np.float32(1.5), 1.5), (np.float64(0.1), 0.1), (np.float64(1e39), 1e39),
    (np.float64("nan"), float("nan")), (np.complex128(1), 1j),
    (np.bool_(True), True), (np.str_("ab"), "ab"), (np.bytes_(b"ab"), b"ab"), (np.void(b"ab"), b"ab"),
    *((np.datetime64("2024-05-01T12", unit), NOON.replace(tzinfo=None)) for unit in ("h", "m", "s", "ms", "us", "ns")),
    *((np.datetime64("2024-05-01", unit), dt.date(2024, 5, 1)) for unit in ("D", "M")),
    *((np.timedelta64(5, unit), dt.timedelta(seconds=5)) for unit in ("s", "ns")), (np.datetime64("NaT"), None),
    (np.array(5), 5), (np.array("2024-05-01T12", "datetime64[ns]"), NOON.replace(tzinfo=None)),
    (np.array([5, 6]), [5, 6]),
]  # fmt: skip


def form_of(kind: Any) -> AvroMessages:
    schema = {"type": "record", "name": "R", "fields": [{"name": "a", "type": kind}]}
    return AvroMessages((AvroSchema.parse(json.dumps(schema)),))


def written(form: AvroMessages, value: Any) -> bytes | None:
    """The message; None where the value is refused."""
    try:
        return form.write({"a": value})
    except Unwritable:
        return None


@pytest.mark.parametrize("kind", TYPES, ids=json.dumps)
def test_a_scalar_of_numpy_is_as_the_plain_value(kind: Any) -> None:
    form = form_of(kind)
    for scalar, plain in SCALARS:
        assert written(form, scalar) == written(form, plain), repr(scalar)


def test_every_type_takes_some_scalar_and_refuses_another() -> None:
    # A record with a null alone has no bytes, and cannot be a message.
    taken = {json.dumps(kind): [written(form_of(kind), scalar) for scalar, _ in SCALARS] for kind in TYPES}
    assert all(None in answers for answers in taken.values())
    without = [kind for kind, answers in taken.items() if not any(answer is not None for answer in answers)]
    assert [json.loads(kind) for kind in without] == [
        "null", {"type": "string", "logicalType": "uuid"}, {"type": "map", "values": "long"},
    ]  # fmt: skip


def test_a_whole_number_is_not_rounded_to_a_float() -> None:
    for whole in (2**24 + 1, np.int64(2**24 + 1), np.uint32(2**24 + 1)):
        assert "would be rounded as a float" in unwritable(form_of("float"), {"a": whole})
    assert form_of("float").read(form_of("float").write({"a": np.int64(2**24)})) == {"a": 2.0**24}


@pytest.mark.parametrize("make", [np.datetime64, lambda text: pd.Timestamp(text).to_datetime64()])
def test_what_is_finer_than_the_type_is_cut_off_towards_the_past(make: Callable[[str], Any]) -> None:
    form = form_of({"type": "long", "logicalType": "timestamp-micros"})
    cut = dt.datetime(1969, 12, 31, 23, 59, 59, 999998, tzinfo=dt.UTC)
    assert form.read(form.write({"a": make("1969-12-31T23:59:59.999998999")})) == {"a": cut}
    assert form.read(form.write({"a": np.datetime64("2024-05-01T00", "h")})) == {"a": MIDNIGHT}


class Beyond(Enum):
    FIVE = 5


@pytest.mark.parametrize(
    "wrong", [np.datetime64(10**15, "s"), np.datetime64("12024-01-01", "D"), pd.NaT, np.datetime64("NaT"), Beyond]
)
def test_a_time_that_python_does_not_have_is_refused(wrong: Any) -> None:
    for logical in ("timestamp-millis", "timestamp-micros", "local-timestamp-micros"):
        assert "R: a: " in unwritable(form_of({"type": "long", "logicalType": logical}), {"a": wrong})
    assert "R: a: " in unwritable(form_of({"type": "int", "logicalType": "date"}), {"a": wrong})


def test_a_member_of_an_enum_is_the_number_in_it() -> None:
    for kind in ({"type": "int", "logicalType": "date"}, "int", {"type": "bytes", **DECIMAL}):
        assert written(form_of(kind), Beyond.FIVE) == written(form_of(kind), 5) is not None
