"""Tables that users give, by whichever library: of pyarrow, or DataFrames of pandas."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


def given_table(given: Any) -> pa.Table | None:
    """A table, a record batch or a DataFrame as a table; None for what is none of these."""
    if isinstance(given, pa.RecordBatch):
        return pa.Table.from_batches([given])
    if is_data_frame(given):
        return pa.Table.from_pandas(given, preserve_index=False).replace_schema_metadata(None)
    return given if isinstance(given, pa.Table) else None


def is_data_frame(given: Any) -> bool:
    """Whether it is a DataFrame of pandas, without importing that."""
    return hasattr(given, "iloc") and hasattr(given, "columns")
