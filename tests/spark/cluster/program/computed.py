"""A bolt that needs a module whose name is computed, so that nobody can read it off the source."""

from __future__ import annotations

import importlib

import pyarrow as pa

from windbolt import BatchBolt

TAXES = importlib.import_module("".join(["hidden", "_", "taxes"]))


class Computed(BatchBolt):
    """Passes everything on."""

    outputs = "user string"

    def execute(self, batch: pa.Table) -> pa.Table:
        return batch
