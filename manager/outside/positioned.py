"""What is read from where a position is, as Python and pyarrow ask a file for it."""

from __future__ import annotations

import io


class Positioned(io.RawIOBase):
    """A file of known size, and where in it one is; those who read move ``_at`` on."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(start + offset, 0)
        return self._at
