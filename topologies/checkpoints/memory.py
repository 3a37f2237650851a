"""Spouts of runs with a checkpoint whose rows are kept there, in files of which each is a micro-batch."""

from __future__ import annotations

import filecmp
import os
from dataclasses import replace

import pyarrow.fs as pafs

from manager.storage.file_systems.files import make_private
from manager.storage.file_systems.storage_errors import as_storage_error
from topologies.checkpoints.pulled_files import pulled_rows
from topologies.io.file_spout import KeptRows
from topologies.io.formats import file_format, write_table
from topologies.io.patterns import literal
from topologies.io.pulled import PulledSpout
from topologies.io.spouts import MemorySpout
from topologies.topology import Topology
from windowing.errors import ConfigError

_FIRST_NS = 1_000_000_000_000_000_000
_STEP_NS = 1_000_000  # Spark orders files by the millisecond of their last change


def as_files(topology: Topology, checkpoint: str) -> Topology:
    """The topology with its in-memory spouts, and those that users have written, replaced by spouts of files that hold
    the same batches."""
    spouts = dict(topology.spouts)
    for name, node in topology.spouts.items():
        if isinstance(node.spout, PulledSpout):
            spouts[name] = replace(node, spout=pulled_rows(name, node.spout, checkpoint))
        if isinstance(node.spout, MemorySpout):
            if "://" in checkpoint:
                raise ConfigError(
                    f"spout {name!r} is in memory, and the checkpoint {checkpoint!r} is not on this machine",
                    do="use a file spout, or a local checkpoint",
                )
            folder = os.path.join(os.path.abspath(checkpoint), "memory", name)
            _write(node.spout, folder)
            files = KeptRows(
                (literal(folder),),
                declared=node.spout.declared,
                format=file_format("arrow"),
                files_per_batch=1,
                on_change="ignore",
                defaults=node.spout.defaults,
            )
            spouts[name] = replace(node, spout=files)
    return replace(topology, spouts=spouts)


def _write(spout: MemorySpout, folder: str) -> None:
    with as_storage_error(folder, "made"):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    for number, table in enumerate(spout.tables()):
        path = os.path.join(folder, f"{number:08d}.arrow")
        draft = os.path.join(folder, f".{number:08d}.arrow")
        with as_storage_error(path, "written"):
            make_private(draft)
            write_table(pafs.LocalFileSystem(), draft, table, file_format("arrow"))
            if os.path.exists(path) and filecmp.cmp(path, draft, shallow=False):
                os.remove(draft)
                continue
            moment = _FIRST_NS + number * _STEP_NS  # the same again where a file is damaged, so that it is no new one
            os.utime(draft, ns=(moment, moment))
            os.rename(draft, path)
