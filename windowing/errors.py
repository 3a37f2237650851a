"""The errors a user can meet: each says what is wrong, why it is wrong, and what to do about it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


class WindboltError(Exception):
    """The root of every error that windbolt raises on purpose."""

    def __init__(self, what: str, *, why: str = "", do: str = "", transient: bool = False) -> None:
        self.what, self.why, self.do = what, why, do
        self.transient = transient
        """True if the error may pass by itself, so that another run may succeed: a server that does not answer."""
        super().__init__(what, why, do)

    def __str__(self) -> str:
        parts = [self.what, self.why, self.do]
        return " ".join(_sentence(part) for part in parts if part)


USER_EXCEPTIONS = (Exception, SystemExit)
"""The exceptions of users' code that windbolt reports as errors.

``sys.exit()`` in a bolt is one of them; otherwise it would end a run or a command as if it had succeeded. Ctrl-C is
not, since it is meant for the run.
"""


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "\n")) else f"{text}."


class ConfigError(WindboltError, ValueError):
    """An invalid setting, such as a negative length or an unknown unit; raised by the call that sets it."""


def combine_errors(call: str, problems: Sequence[ConfigError]) -> ConfigError:
    """Combine all mistakes of one call into one error; a single mistake is returned unchanged."""
    if len(problems) == 1:
        return problems[0]
    lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
    return ConfigError(f"{call} with {len(problems)} mistakes:\n{lines}")


class TopologyError(WindboltError, ValueError):
    """All mistakes of a topology, which ``build()`` reports together."""

    def __init__(self, topology: str, problems: Sequence[ConfigError]) -> None:
        self.topology, self.problems = topology, tuple(problems)
        lines = "\n".join(f"  {number}. {problem}" for number, problem in enumerate(problems, 1))
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"topology {topology!r} cannot be built, {count}:\n{lines}")


class DataError(WindboltError):
    """Input that does not match its declaration, or has values that cannot be used."""


class UnreachableError(WindboltError):
    """A disk, network, store or server that does not answer. The data may be intact."""


class MissingError(UnreachableError):
    """An input file that was listed, but did not exist any more when it was read."""


class SchemaError(WindboltError, TypeError):
    """Rows with other columns than the declared ones."""


class CheckpointError(WindboltError):
    """A checkpoint that does not belong to this topology, or that lacks a part."""


class TakenOver(CheckpointError):
    """A checkpoint that another run has taken over; this run commits nothing more."""


class DamagedCheckpoint(CheckpointError):
    """A file of a checkpoint that has changed since it was written, or is missing."""


class StorageError(WindboltError):
    """A file of a checkpoint or a sink that cannot be written or read, because its disk is full, fails or does not
    answer.

    The content of the file may be intact.
    """

    def __init__(self, what: str, *, why: str = "", do: str = "", doing: str = "", transient: bool = False) -> None:
        super().__init__(f"{doing} failed: {what}" if doing else what, why=why, do=do, transient=transient)
        self.doing = doing
        """The work that failed, such as ``committing batch 7``; "" if it is unknown."""

    def about(self, owner: str) -> StorageError:
        """Returns this error with a text that begins with ``owner``, the owner of the file."""
        return StorageError(f"{owner}: {self.what}", why=self.why, do=self.do, transient=self.transient)

    def during(self, doing: str, after: str) -> StorageError:
        """Returns this error with the work that failed (``doing``), and the state after the failure (``after``)."""
        return StorageError(self.what, why=self.why, do=f"{self.do}: {after}", doing=doing, transient=self.transient)


class BoltError(WindboltError):
    """An exception in a user's bolt; the text names the bolt, the window and the batch."""

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
        """Number of the bolt's task; None if events had not been distributed to tasks yet."""


class SpoutError(WindboltError):
    """An exception in a user's spout, or an invalid value that it returned."""

    def __init__(self, what: str, *, why: str = "", do: str = "", spout: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.spout = spout
        """The name of the spout."""


class SinkError(WindboltError):
    """An exception in the function of a sink (``foreach_batch``); the text names the sink and the batch."""

    def __init__(self, what: str, *, why: str = "", do: str = "", sink: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.sink = sink
        """The name of the sink."""


class ScenarioError(WindboltError, ValueError):
    """A mistake in a scenario file, line or step."""


class EnvironmentMissing(WindboltError):
    """A program or package that a run needs, such as Java, is not installed."""


# Suggestions for names that do not exist.


def nearest(name: object, known: Iterable[object], most: int = 1, likeness: float = 0.6) -> list[str]:
    """Returns up to ``most`` known names that are similar to ``name``, the most similar first; case is ignored.

    ``likeness``: the least similarity, from 0 (any name) to 1 (only equal names). Empty if no name is so similar, or if
    ``name`` is not a text.
    """
    if not isinstance(name, str):
        return []
    names = {str(each).lower(): str(each) for each in known}
    return [names[close] for close in difflib.get_close_matches(name.lower(), names, most, likeness)]


def did_you_mean(name: object, known: Iterable[object]) -> str:
    """Returns the end of a message about a name that does not exist: ``; did you mean 'revenue'?``; "" if no known name
    is similar."""
    close = [each for each in nearest(name, known) if each != name]
    return f"; did you mean {close[0]!r}?" if close else ""


def did_you_mean_column(name: object, columns: Iterable[str]) -> str:
    """Returns ``; did you mean 'purchases_id' or 'refunds_id'?`` for the column ``'id'``; "" if no column is similar.

    A join adds the name of the stream to columns that both of its streams have; such columns are suggested before those
    with a similar spelling.
    """
    columns = list(columns)
    if not isinstance(name, str) or not name or name in columns:
        return ""
    renamed = [each for each in columns if each.endswith(f"_{name}") or each.startswith(f"{name}_")]
    return f"; did you mean {' or '.join(map(repr, renamed[:3]))}?" if renamed else did_you_mean(name, columns)
