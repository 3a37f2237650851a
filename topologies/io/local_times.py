"""Times that are written without a zone, in sources that say in which zone they are.

A type carries the zone to where values are read: a timestamp declared in ``America/New_York`` takes what has no zone
for that city's time. A local time that is there twice is the first of the two; one that is skipped counts from before
the clocks were changed (02:30 is 03:30), as in Java, Python and PostgreSQL.
"""

from __future__ import annotations

import datetime

import pyarrow as pa

from windowing.errors import ConfigError
from windowing.time.zones import zone_of

_kinds = pa.types


def checked_zone(name: str | None) -> str | None:
    """The zone by its name, or as +05:30; None for UTC. Raises ConfigError for one that does not exist."""
    if name is None:
        return None
    zone = zone_of(name)
    whole = not isinstance(zone, datetime.timezone) or zone.utcoffset(None).seconds % 60 == 0
    if not whole or name in ("localtime", "posixrules", "Factory"):
        raise ConfigError(
            f"timezone {name!r} cannot be used",
            why="it is another one on each machine" if whole else "offsets of sources have whole minutes",
            do="use a name like 'Europe/Berlin', or an offset like '+03:00'",
        )
    known = _offset(zone) if isinstance(zone, datetime.timezone) else name
    return None if known in ("UTC", "+00:00") else known


def in_zone(schema: pa.Schema, zone: str | None) -> pa.Schema:
    """The schema with times of that zone."""
    return schema if zone is None else pa.schema([field.with_type(_zoned(field.type, zone)) for field in schema])


def in_utc(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with the types that are declared, all of whose columns need not be there."""
    fields = [schema.field(name) for name in table.column_names]
    return table if table.schema.types == [field.type for field in fields] else table.cast(pa.schema(fields))


def _offset(zone: datetime.timezone) -> str:
    text = datetime.datetime(2000, 1, 1, tzinfo=zone).strftime("%z")
    return f"{text[:3]}:{text[3:5]}"


def _zoned(kind: pa.DataType, zone: str) -> pa.DataType:
    if _kinds.is_timestamp(kind):
        return pa.timestamp(kind.unit, zone)
    if _kinds.is_list(kind):
        return pa.list_(kind.value_field.with_type(_zoned(kind.value_type, zone)))
    if _kinds.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_zoned(kind.value_type, zone)))
    if _kinds.is_map(kind):
        return pa.map_(_zoned(kind.key_type, zone), _zoned(kind.item_type, zone))
    if _kinds.is_struct(kind):
        return pa.struct([field.with_type(_zoned(field.type, zone)) for field in kind])
    return kind
