"""What to do where a setting names a column that is not there."""

from __future__ import annotations

from topologies.io.file_metadata import FILE_METADATA
from topologies.io.kafka import METADATA

_SPOUTS = {**dict.fromkeys(METADATA, "kafka"), **dict.fromkeys(FILE_METADATA.names, "files")}


def how_to_have(field: str, otherwise: str) -> str:
    """How to get the column, where it is one that spouts add with ``metadata=``; else ``otherwise``."""
    if field not in _SPOUTS:
        return otherwise
    return f"let the spout add it, spouts.{_SPOUTS[field]}(..., metadata=True), and bolts in between pass it on"
