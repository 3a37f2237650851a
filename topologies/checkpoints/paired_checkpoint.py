"""A checkpoint folder: where it is, and its two halves, Spark's and ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from manager.outside.place_names import hadoop_name
from manager.outside.transient import is_transient
from manager.storage.file_systems.files import is_there
from manager.storage.file_systems.storage_errors import system_reason
from manager.storage.sealed_folder import SealedFolder
from topologies.checkpoints.folder_lock import FolderLock
from topologies.checkpoints.spark_half.spark_half import SparkHalf
from topologies.io.paths import locate
from topologies.run.checkpoint_name import check_named
from windowing.errors import CheckpointError

START_OVER = "start with a new checkpoint folder (which reads all input again)"
"""What can always be done."""


class PairedCheckpoint:
    """A checkpoint folder: ``spark/`` is Spark's, ``windbolt/`` is ours.

    What is done with it: it is opened for a run (``opening.py``), its halves are compared (``matching_halves.py``), it
    is compared with a topology (``topology_note.py``), and where it is damaged a way back is named (``way_back.py``).
    """

    def __init__(self, path: str) -> None:
        """Raises CheckpointError where the name is none for a checkpoint, or its place cannot be reached."""
        check_named(path)
        self.path = path.rstrip("/") or "/"
        with self._reached():
            self.filesystem, self.root, self.uri = locate(self.path)
            if self.uri is not None:
                self.filesystem.get_file_info(self.root)
        self.spark = f"{hadoop_name(self.uri).rstrip('/')}/spark" if self.uri else f"{self.root}/spark"
        """Spark's half, as Spark names it."""
        self.lock = FolderLock(self.path, self.filesystem, None if self.uri else self.root)
        self.files = SealedFolder(f"{self.root}/windbolt", self.filesystem, self.uri)
        self.spark_half = SparkHalf(self.filesystem, f"{self.root}/spark")
        self.is_beginning = False
        """Whether who has this object is giving the checkpoint the events that it begins with (``beginning.py``)."""

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """What keeps a file system from being reached is not a defect, and nothing has been written yet."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise CheckpointError(
                f"checkpoint {self.path!r} cannot be reached",
                why=system_reason(error),
                do="check its address, the network and the credentials of this user, or name a folder on this machine",
                transient=is_transient(error),
            ) from error

    @property
    def place(self) -> str:
        """The folder, as users name it, and without options."""
        return self.files.place.removesuffix("/windbolt")

    @property
    def has_our_half(self) -> bool:
        """Whether the folder ``windbolt/`` is there."""
        return is_there(self.filesystem, self.files.root)

    @property
    def found(self) -> bool:
        """Whether there is a checkpoint."""
        return self.has_our_half or is_there(self.filesystem, f"{self.spark_half.root}/offsets")

    def check_found(self) -> None:
        """CheckpointError where there is none."""
        if not self.found:
            raise CheckpointError(
                f"{self.path!r} is not a checkpoint",
                why="it has neither of the folders spark/ and windbolt/",
                do="give the folder that was passed to --checkpoint",
            )
