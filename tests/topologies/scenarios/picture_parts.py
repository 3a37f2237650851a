"""What stands in a page of pictures, read back from its markup."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "input", "rect", "circle", "path", "br"}


@dataclass
class Mark:
    """An element of a picture with its data."""

    tag: str
    classes: frozenset[str]
    data: dict[str, str]
    text: str = ""


@dataclass
class BoltPicture:
    """One picture: its marks by class."""

    bolt: str
    marks: list[Mark] = field(default_factory=list)

    def of(self, kind: str) -> list[Mark]:
        """The marks of a class."""
        return [mark for mark in self.marks if kind in mark.classes]

    @property
    def firings(self) -> list[Mark]:
        """The firings of windows; the sample in the legend is none."""
        return [mark for mark in self.of("firing") if "window" in mark.data]

    @property
    def events(self) -> list[Mark]:
        """The marks of events."""
        return [mark for mark in self.of("event") if "event" in mark.data]

    @property
    def told(self) -> list[Mark]:
        """The stories, one for each row."""
        return [mark for mark in self.marks if mark.tag == "li" and "row" in mark.data]


class Page(HTMLParser):
    """Reads a page; ``pictures`` by scenario, ``answers`` as they stand in it, and every address that it mentions."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.pictures: list[list[BoltPicture]] = []
        self.answers: list[Any] = []
        self.addresses: list[str] = []
        self.open: list[Mark] = []
        self.feed(text)
        self.close()
        assert not self.open, [mark.tag for mark in self.open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        data = {name.removeprefix("data-"): value for name, value in given.items() if name.startswith("data-")}
        mark = Mark(tag, frozenset(given.get("class", "").split()), data)
        self.addresses += [given[name] for name in ("href", "src", "action", "xlink:href") if name in given]
        if "scenario" in mark.classes:
            self.pictures.append([])
        if "picture" in mark.classes:
            self.pictures[-1].append(BoltPicture(data["bolt"]))
        elif self.pictures and self.pictures[-1]:
            self.pictures[-1][-1].marks.append(mark)
        if tag not in VOID:
            self.open.append(mark)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        mark = self.open.pop()
        assert mark.tag == tag, f"{mark.tag} is closed by {tag}"
        if "answer" in mark.classes:
            self.answers.append(json.loads(mark.text))

    def handle_data(self, data: str) -> None:
        if self.open:
            self.open[-1].text += data
