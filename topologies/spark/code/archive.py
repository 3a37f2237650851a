"""An archive of modules, which Spark unpacks on each executor: the same modules give the same archive."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from topologies.spark.code.needed_modules import files_of
from windowing.errors import ConfigError

PREFIX = "windbolt-code-"
"""How the folders begin that archives are unpacked to."""
MOST_BYTES = 64 * 2**20
"""Maximum size of the files of one archive: code has less, and data that lies beside it travels for nothing."""
_EPOCH = (1980, 1, 1, 0, 0, 0)


def write_archive(folder: str, places: Mapping[str, str]) -> tuple[str, str]:
    """Write an archive of modules; ``places`` are their files and folders, by name.

    Returns its path, and the name of the folder that it is to be unpacked to, which follows from the content. Raises
    ConfigError where that is too large.
    """
    found = list(_entries(places))
    _check_size(found)
    digest = hashlib.sha256()
    draft = os.path.join(folder, f"{PREFIX}draft.zip")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, file in found:
            data = file.read_bytes()
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            archive.writestr(info, data, zipfile.ZIP_DEFLATED, 1)
    name = f"{PREFIX}{digest.hexdigest()[:16]}"
    path = os.path.join(folder, f"{name}.zip")
    os.replace(draft, path)
    return path, name


def _entries(places: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """The files, with their names in the archive."""
    for name, place in sorted(places.items()):
        root = Path(place)
        for file in files_of(root):
            inside = Path(name + file.suffix) if root == file else Path(name, file.relative_to(root))
            yield inside.as_posix(), file


def _check_size(found: list[tuple[str, Path]]) -> None:
    sizes = {name: file.stat().st_size for name, file in found}
    total = sum(sizes.values())
    if total > MOST_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ConfigError(
            f"the modules that the topology imports have {total / 2**20:,.0f} MiB, with all files in their packages",
            why=f"they are sent to every executor, at most {MOST_BYTES // 2**20} MiB; the largest is {largest}, "
            f"with {sizes[largest] / 2**20:,.0f} MiB",
            do="keep data outside of packages, or install the package on the workers (pip install)",
        )
