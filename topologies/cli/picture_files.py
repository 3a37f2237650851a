"""The files of pictures that ``windbolt replay`` writes: ``--html``, ``--svg`` and ``--png``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from topologies.cli.answering import Outcome
from topologies.scenarios.schema.scenario_files import Loaded, Problem
from windowing.errors import ConfigError


@dataclass(frozen=True)
class PictureFiles:
    """Where pictures are written; None where they are not asked for."""

    html: str | None = None
    svg: str | None = None
    png: str | None = None

    @property
    def options(self) -> list[str]:
        """The options that were given."""
        given = {"--html": self.html, "--svg": self.svg, "--png": self.png}
        return [name for name, path in given.items() if path is not None]

    def check(self, items: Sequence[Loaded | Problem]) -> None:
        """Raise ConfigError, before anything runs, where a file cannot be written, or cannot hold so many scenarios."""
        for name, path in (("--html", self.html), ("--svg", self.svg), ("--png", self.png)):
            if path is None:
                continue
            if not path or Path(path).is_dir() or not Path(path).parent.is_dir():
                why = "it is a folder" if path and Path(path).is_dir() else "its folder does not exist"
                raise ConfigError(
                    f"{name} cannot write {path!r}",
                    why=why if path else "it is empty",
                    do="give the path of a file in a folder that exists",
                )
        count = sum(isinstance(item, Loaded) for item in items)
        if count > 1 and (self.svg is not None or self.png is not None):
            name = "--svg" if self.svg is not None else "--png"
            raise ConfigError(
                f"{name} with {count} scenarios",
                why="it is a picture of one",
                do="use --html, which holds many, or give a file with one scenario",
            )
        if self.png is not None:
            from topologies.scenarios.picture.png import check_png

            check_png()

    def write(self, shown: Sequence[tuple[Loaded, Outcome]]) -> None:
        """Write the files that were asked for; nothing where no scenario could be answered."""
        if not shown or not self.options:
            return
        from topologies.scenarios.picture.page import PageItem, page
        from topologies.scenarios.picture.png import png
        from topologies.scenarios.picture.svg import svg

        item, outcome = shown[0]
        if self.html is not None:
            items = [PageItem(each.scenario, got.answer, str(each.place), got.trace) for each, got in shown]
            _write(self.html, page(items).encode())
        if self.svg is not None:
            _write(self.svg, svg(item.scenario, outcome.answer).encode())
        if self.png is not None:
            _write(self.png, png(item.scenario, outcome.answer))


def _write(path: str, content: bytes) -> None:
    try:
        Path(path).write_bytes(content)
    except OSError as error:
        raise ConfigError(
            f"{path!r} cannot be written", why=str(error.strerror or error), do="give another path, or make room"
        ) from None
