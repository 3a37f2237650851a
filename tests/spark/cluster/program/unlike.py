"""A bolt that needs a package which only the driver has."""

from __future__ import annotations

import pyarrow as pa
import xmltodict  # type: ignore[import-untyped]

from windbolt import BatchBolt


class Unlike(BatchBolt):
    """Passes everything on."""

    outputs = "user string"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch.rename_columns([xmltodict.parse("<a>user</a>")["a"]])
