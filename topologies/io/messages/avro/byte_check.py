"""Checks that bytes are a value of an Avro schema, before fastavro reads them.

fastavro trusts lengths, takes negative positions from the end, and recurses in C as deep as a message says. Here every
length, position and level is checked first, without building a value.

A check is called with the message, the position where the value starts, and how many levels may still nest. It returns
the position where the value ends, and raises Misfit, or IndexError where the message ends too early.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from topologies.io.messages.avro.parsing import Parsed, logical_type
from topologies.io.messages.avro.walking import SchemaWalk
from topologies.io.messages.misfit import Misfit

Check = Callable[[bytes, int, int], int]

_DAY_MILLIS = 24 * 60 * 60 * 1000


def check_of(parsed: Parsed) -> Check:
    """The check of a schema's values."""
    return _Checks(parsed).of(parsed.schema)


class _Checks(SchemaWalk[Check]):
    """The checks of one schema."""

    @property
    def primitives(self) -> Mapping[str, Check]:
        return _PRIMITIVE

    def logical(self, schema: Any) -> Check | None:
        return _logical(schema)

    def union(self, branches: Sequence[Any]) -> Check:
        return _union(tuple(self.of(branch) for branch in branches))

    def array(self, items: Check) -> Check:
        return _blocks(items)

    def mapping(self, values: Check) -> Check:
        return _blocks(_entry(values))

    def enum(self, name: str, symbols: Sequence[str]) -> Check:
        return _enum(name, len(symbols))

    def fixed(self, size: int) -> Check:
        return _sized(size)

    def record(self, schema: Any, fields: Mapping[str, Check]) -> Check:
        return _record(tuple(fields.items()))


def long_at(data: bytes, position: int) -> tuple[int, int]:
    """The whole number at a position, and the position where it ends."""
    byte = data[position]
    position += 1
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position
    number, shift = byte & 0x7F, 7
    while byte > 0x7F:
        if shift > 63:
            raise Misfit("a number of more than 10 bytes")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    if number >> 64:
        raise Misfit("a number of more than 64 bits")
    return (number >> 1) ^ -(number & 1), position


def _null(data: bytes, position: int, levels: int) -> int:
    return position


def _boolean(data: bytes, position: int, levels: int) -> int:
    if data[position] > 1:
        raise Misfit(f"{data[position]} is neither 0 nor 1")
    return position + 1


def _int(data: bytes, position: int, levels: int) -> int:
    if data[position] < 0x80:
        return position + 1
    number, end = long_at(data, position)
    if not -(2**31) <= number < 2**31:
        raise Misfit(f"{number} is not a number of 32 bits")
    return end


def _long(data: bytes, position: int, levels: int) -> int:
    return position + 1 if data[position] < 0x80 else long_at(data, position)[1]


def _bytes(data: bytes, position: int, levels: int) -> int:
    length, start = long_at(data, position)
    if not 0 <= length <= len(data) - start:
        raise Misfit(f"{length} bytes are said to follow, {len(data) - start} do")
    return start + length


def _sized(size: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        if size > len(data) - position:
            raise IndexError
        return position + size

    return check


def _enum(name: str, symbols: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        number, end = long_at(data, position)
        if not 0 <= number < symbols:
            raise Misfit(f"{number} is not a symbol of {name}, which has {symbols}")
        return end

    return check


def _union(branches: tuple[Check, ...]) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        number, start = long_at(data, position)
        if not 0 <= number < len(branches):
            raise Misfit(f"{number} is not a branch of a union of {len(branches)}")
        return branches[number](data, start, levels)

    return check


def _record(fields: tuple[tuple[str, Check], ...]) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        if levels == 0:
            raise Misfit("nested too deep")
        name = ""
        try:
            for name, inner in fields:  # noqa: B007  the last one is told
                position = inner(data, position, levels - 1)
        except (Misfit, IndexError) as error:
            raise _placed(error, name) from None
        return position

    return check


def _entry(value: Check) -> Check:
    return lambda data, position, levels: value(data, _bytes(data, position, levels), levels)


def _blocks(inner: Check) -> Check:
    """The check of an array or a map: blocks of items, each at least a byte long."""

    def check(data: bytes, position: int, levels: int) -> int:
        if levels == 0:
            raise Misfit("nested too deep")
        done = 0
        try:
            count, position = long_at(data, position)
            while count:
                end = None
                if count < 0:
                    size, position = long_at(data, position)
                    count, end = -count, position + size
                if count > len(data) - position:
                    raise Misfit(f"{count} items are said to follow in {len(data) - position} bytes")
                for _ in range(count):
                    position = inner(data, position, levels - 1)
                    done += 1
                if end not in (None, position):
                    raise Misfit("a block is not as long as it says")
                count, position = long_at(data, position)
        except (Misfit, IndexError) as error:
            raise _placed(error, done) from None
        return position

    return check


def _placed(error: Misfit | IndexError, step: str | int) -> Misfit:
    misfit = error if isinstance(error, Misfit) else Misfit("the message ends within the value")
    return misfit.inside(step)


def _logical(schema: Any) -> Check | None:
    """The check of a logical type of which fastavro would read wrong values."""
    match logical_type(schema):
        case "int-time-millis":
            return _time(_int, _DAY_MILLIS)
        case "long-time-micros":
            return _time(_long, _DAY_MILLIS * 1000)
        case "bytes-decimal":
            return _decimal(_bytes, int(schema["precision"]), long_at)
        case "fixed-decimal":
            return _decimal(_sized(int(schema["size"])), int(schema["precision"]), lambda data, position: (0, position))
    return None


def _time(inner: Check, day: int) -> Check:
    def check(data: bytes, position: int, levels: int) -> int:
        end = inner(data, position, levels)
        number, _ = long_at(data, position)
        if not 0 <= number < day:
            raise Misfit(f"{number} is not a time of a day")
        return end

    return check


def _decimal(inner: Check, precision: int, length_at: Callable[[bytes, int], tuple[int, int]]) -> Check:
    beyond = 10**precision

    def check(data: bytes, position: int, levels: int) -> int:
        end = inner(data, position, levels)
        _, start = length_at(data, position)
        if not -beyond < int.from_bytes(data[start:end], signed=True) < beyond:
            raise Misfit(f"a decimal of more than {precision} digits")
        return end

    return check


_PRIMITIVE: Mapping[str, Check] = MappingProxyType(
    {
        "null": _null,
        "boolean": _boolean,
        "int": _int,
        "long": _long,
        "float": _sized(4),
        "double": _sized(8),
        "bytes": _bytes,
        "string": _bytes,
    }
)
