"""The errors a user can meet: each says what is wrong, why it is wrong, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

# The errors a user can meet: each says what is wrong, why it is wrong, and what to do about it.


class WindboltError(Exception):
    """The root of every error that windbolt raises on purpose."""

    def __init__(self, what: str, *, why: str = "", do: str = "", transient: bool = False) -> None:
        self.what, self.why, self.do = what, why, do
        self.transient = transient
        """True if the error may pass without help, so that another run may succeed: a server that does not answer."""
        super().__init__(what, why, do)

    def __str__(self) -> str:
        parts = [self.what, self.why, self.do]
        return " ".join(_sentence(part) for part in parts if part)


USER_EXCEPTIONS = (Exception, SystemExit)
"""Exceptions of users' code, which windbolt reports as errors of its own.

``sys.exit()`` in a bolt is among them: passed on, it would end a run, or a command, as if it had succeeded. Ctrl-C is
not: it is meant for the run.
"""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "\n")) else f"{text}."


class ConfigError(WindboltError, ValueError):
    """A setting that is not possible, found where it was given (a negative length, an unknown unit)."""


def together(call: str, problems: Sequence[ConfigError]) -> ConfigError:
    """Joins all mistakes of one call into one error; a single mistake stays alone."""
    if len(problems) == 1:
        return problems[0]
    lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
    return ConfigError(f"{call} with {len(problems)} mistakes:\n{lines}")


class TopologyError(WindboltError, ValueError):
    """Everything that is wrong with a topology, found by ``build()`` and reported together."""

    def __init__(self, topology: str, problems: Sequence[ConfigError]) -> None:
        self.topology, self.problems = topology, tuple(problems)
        lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"topology {topology!r} cannot be built, {count}:\n{lines}")


class DataError(WindboltError):
    """Input that does not match its declaration, or whose values cannot be used."""


class UnreachableError(WindboltError):
    """Something that cannot be reached: a disk, a network or a store that does not return a file, a server that does
    not answer. The data itself may be intact."""


class MissingError(UnreachableError):
    """Input that was listed, but was gone when it was to be read."""


class SchemaError(WindboltError, TypeError):
    """Rows with other columns than the declared ones."""


class CheckpointError(WindboltError):
    """A checkpoint that does not belong to this topology, or that lacks a part."""


class TakenOver(CheckpointError):
    """A checkpoint that another run has taken over; this run commits nothing more."""


class DamagedCheckpoint(CheckpointError):
    """A file of a checkpoint that has changed since it was written, or is gone."""


class StorageError(WindboltError):
    """A file of a checkpoint or a sink that cannot be written or read: its disk is full, or fails, or does not answer.

    Its content may be intact.
    """

    def __init__(self, what: str, *, why: str = "", do: str = "", doing: str = "", transient: bool = False) -> None:
        super().__init__(f"{doing} failed: {what}" if doing else what, why=why, do=do, transient=transient)
        self.doing = doing
        """The work that failed, such as ``committing batch 7``; "" if the error does not say so."""

    def about(self, whose: str) -> StorageError:
        """Returns this error with the owner of the file in front."""
        return StorageError(f"{whose}: {self.what}", why=self.why, do=self.do, transient=self.transient)

    def during(self, doing: str, after: str) -> StorageError:
        """Returns this error with the present work of windbolt, and with the state after the error."""
        return StorageError(self.what, why=self.why, do=f"{self.do}: {after}", doing=doing, transient=self.transient)


class BoltError(WindboltError):
    """An exception in a user's bolt, with the bolt, the window and the batch it happened in."""

    def __init__(
        self,
        what: str,
        *,
        why: str = "",
        do: str = "",
        bolt: str = "",
        task: int | None = None,
        transient: bool = False,
    ) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.bolt = bolt
        """The name of the bolt."""
        self.task = task
        """Number of the bolt's task; None if it happened before events were distributed to tasks."""


class SpoutError(WindboltError):
    """An exception in a spout of the user's, or an invalid answer of it."""

    def __init__(self, what: str, *, why: str = "", do: str = "", spout: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.spout = spout
        """The name of the spout."""


class SinkError(WindboltError):
    """An exception in the function of a sink (``foreach_batch``), with the sink and the batch."""

    def __init__(self, what: str, *, why: str = "", do: str = "", sink: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.sink = sink
        """The name of the sink."""


class ScenarioError(WindboltError, ValueError):
    """A scenario file, line or step that does not follow the contract."""


class EnvironmentMissing(WindboltError):
    """Something outside Python that a run needs and that is not there (Java, a package)."""


# The name that a user may have meant by one that does not exist.


def nearest(name: object, known: Iterable[object], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Returns up to ``most`` of the known names that are most like ``name``, the nearest first; upper and lower case
    are equal.

    ``likeness``: from 0, anything, to 1, the same. Empty if none is as similar, or if ``name`` is not a text.
    """
    if not isinstance(name, str):
        return []
    names = {str(each).lower(): str(each) for each in known}
    return [names[close] for close in difflib.get_close_matches(name.lower(), names, most, likeness)]


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Returns the end of a message about a name that does not exist: ``; did you mean 'revenue'?``, or nothing."""
    close = [each for each in nearest(name, known) if each != name]
    return f"; did you mean {close[0]!r}?" if close else ""


def did_you_mean_column(name: object, columns: Iterable[str]) -> str:
    """Returns ``; did you mean 'purchases_id' or 'refunds_id'?`` for the column ``'id'``; empty if nothing is similar.

    A join puts the stream before, or behind, the names of columns that both of its streams have; such columns come
    before names that are merely spelled alike.
    """
    columns = list(columns)
    if not isinstance(name, str) or not name or name in columns:
        return ""
    renamed = [each for each in columns if each.endswith(f"_{name}") or each.startswith(f"{name}_")]
    return f"; did you mean {' or '.join(map(repr, renamed[:3]))}?" if renamed else did_you_mean(name, columns)
