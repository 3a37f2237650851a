"""Small text files of a checkpoint, sealed: the first line has the format and a checksum of all that follows."""

from __future__ import annotations

import json
import re
import zlib

from windowing.errors import CheckpointError, DamagedCheckpoint

FORMAT = 12
"""The format of a checkpoint. Raise it with every change of what the files hold; other formats are refused."""

_HEADER = re.compile(rb'\{"windbolt": (\d{1,9}), "crc32": "[0-9a-f]{8}"\}')


def seal(body: str) -> bytes:
    """The content of a sealed file with this text."""
    encoded = body.encode()
    return _header(FORMAT, encoded) + b"\n" + encoded


def unseal(data: bytes, path: str) -> str:
    """The text of a sealed file.

    Raises DamagedCheckpoint where the checksum differs, CheckpointError for an undamaged file of another format.
    """
    header, _, body = data.partition(b"\n")
    known = _HEADER.fullmatch(header)
    if known is None:
        if _is_unsealed(data):
            raise _other_format(path, "an older one, without checksums")
        raise DamagedCheckpoint(f"{path} is damaged", why=f"{_looks(data)} instead of text with a checksum")
    version = int(known[1])
    if header != _header(version, body):
        raise DamagedCheckpoint(f"{path} is damaged", why=f"its checksum does not match its {len(body):,} bytes")
    if version != FORMAT:
        raise _other_format(path, str(version))
    return body.decode()


def _header(version: int, body: bytes) -> bytes:
    number = zlib.crc32(body, zlib.crc32(str(version).encode()))
    return f'{{"windbolt": {version}, "crc32": "{number:08x}"}}'.encode()


def _is_unsealed(data: bytes) -> bool:
    """Whether the content is a single JSON document, as a sealed file, even cut short, never is."""
    try:
        return isinstance(json.loads(data), dict)
    except ValueError:
        return False


def _looks(data: bytes) -> str:
    return "it is empty" if not data else f"it begins with {data[:20]!r}"


def _other_format(path: str, version: str) -> CheckpointError:
    return CheckpointError(
        f"{path} has another format: {version}",
        why=f"this version of windbolt reads format {FORMAT}, and cannot convert one into the other",
        do="continue with the version of windbolt that wrote it, or start with a new checkpoint folder "
        "(which reads all input again)",
    )
