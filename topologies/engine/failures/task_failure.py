"""The error of a task as a value, which travels from the process that ran the task to the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from traceback import TracebackException

from windowing.data.printable import cut, error_text, printable
from windowing.errors import WindboltError

_LONGEST = 10_000
"""Maximum length, in characters, of each part of an error."""
_LONGEST_TRACEBACK = 50_000
"""Maximum length, in characters, of a traceback; of longer ones the end is kept."""

Plain = str | int | float | bool | None


class TaskTraceback(Exception):
    """The traceback of an error in the process of its task: the cause of the error that the driver raises."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass(frozen=True)
class TaskFailure:
    """Why a task failed. It can be pickled, and all in it can be written as JSON."""

    classes: tuple[str, ...]
    """Its class, and those that this is derived from up to WindboltError, as ``module.name``."""
    what: str
    why: str
    do: str
    more: dict[str, Plain]
    """What else an error of its class holds, such as the ``bolt`` and the ``task`` of a BoltError."""
    traceback: str

    @classmethod
    def of(cls, error: BaseException, batch: int | None = None) -> TaskFailure:
        """The failure for whatever a task of a batch raised; an error that is not windbolt's becomes a
        WindboltError."""
        if not isinstance(error, WindboltError):
            committed = "the batch" if batch is None else f"batch {batch}"
            error, original = (
                WindboltError(
                    "a task failed with an unexpected error",
                    why=error_text(error),
                    do=f"see the chained error (--debug); {committed} was not committed, and runs again",
                ),
                error,
            )
            return cls._of(error, original)
        return cls._of(error, error)

    @classmethod
    def _of(cls, error: WindboltError, original: BaseException) -> TaskFailure:
        classes = [_name(each) for each in type(error).__mro__ if issubclass(each, WindboltError)]
        more = {name: value for name, value in vars(error).items() if name not in ("what", "why", "do")}
        if not all(isinstance(value, Plain) for value in more.values()):  # all the problems of a topology, say
            classes, more = [_name(WindboltError)], {}
        what, why, do = (cut(part, _LONGEST) for part in (error.what, error.why, error.do))
        return cls(tuple(classes), what, why, do, more, _traceback(original))

    def to_json(self) -> str:
        """As text."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> TaskFailure:
        """From the text of ``to_json``."""
        values = json.loads(text)
        return cls(**{**values, "classes": tuple(values["classes"])})

    def error(self) -> WindboltError:
        """The error to raise in the driver: of the same class, if it is known there, else of the next one above it."""
        known = {_name(each): each for each in _all_classes()}
        error_class = next((known[name] for name in self.classes if name in known), WindboltError)
        error = error_class.__new__(error_class)
        WindboltError.__init__(error, self.what, why=self.why, do=self.do)
        vars(error).update(self.more)
        error.__cause__ = TaskTraceback(self.traceback)
        return error


def _name(error_class: type) -> str:
    return f"{error_class.__module__}.{error_class.__qualname__}"


def _all_classes() -> Iterator[type[WindboltError]]:
    """The classes of windbolt's errors that this process has imported."""
    waiting = [WindboltError]
    while waiting:
        error_class = waiting.pop()
        yield error_class
        waiting += error_class.__subclasses__()


def _traceback(error: BaseException) -> str:
    """The traceback, in which nothing is too long, or steers a terminal."""
    pieces = TracebackException.from_exception(error).format()
    return "\n".join(printable(cut(piece.rstrip("\n")), keep="\n\t") for piece in pieces)[-_LONGEST_TRACEBACK:]
