"""The errors a user can meet: each says what is wrong, why it is wrong, and what to do about it."""

from __future__ import annotations

from collections.abc import Sequence


class WindboltError(Exception):
    """The root of every error that windbolt raises on purpose."""

    def __init__(self, what: str, *, why: str = "", do: str = "", transient: bool = False) -> None:
        self.what, self.why, self.do = what, why, do
        self.transient = transient
        """Whether it may pass by itself, so that the same run may succeed later: a server that does not answer."""
        super().__init__(what, why, do)

    def __str__(self) -> str:
        parts = [self.what, self.why, self.do]
        return " ".join(_sentence(part) for part in parts if part)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?", ":", "\n")) else f"{text}."


class ConfigError(WindboltError, ValueError):
    """A setting that cannot be, found where it was given (a negative length, an unknown unit)."""


def together(call: str, problems: Sequence[ConfigError]) -> ConfigError:
    """All mistakes of one call as one error; a single one as it is."""
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
    """Something that cannot be reached: a disk, a network or a store does not give a file, a server does not answer.
    The data itself may be intact."""


class MissingError(UnreachableError):
    """Input that was listed, but was gone when it was to be read."""


class SchemaError(WindboltError, TypeError):
    """Rows whose columns are not those that were declared."""


class CheckpointError(WindboltError):
    """A checkpoint that does not belong to this topology, or of which a part is missing."""


class TakenOver(CheckpointError):
    """A checkpoint that belongs to another run by now; this run commits nothing more."""


class DamagedCheckpoint(CheckpointError):
    """A file of a checkpoint that is not what was written there, or is gone."""


class StorageError(WindboltError):
    """A file of a checkpoint or a sink that cannot be written or read: its disk is full, or fails, or does not answer.

    What it holds may be all right.
    """

    def __init__(self, what: str, *, why: str = "", do: str = "", doing: str = "", transient: bool = False) -> None:
        super().__init__(f"{doing} failed: {what}" if doing else what, why=why, do=do, transient=transient)
        self.doing = doing
        """What windbolt was doing, such as ``committing batch 7``; "" where the error does not say so."""

    def about(self, whose: str) -> StorageError:
        """The same, with whose file it is."""
        return StorageError(f"{whose}: {self.what}", why=self.why, do=self.do, transient=self.transient)

    def during(self, doing: str, after: str) -> StorageError:
        """The same, with what windbolt was doing, and what the state is after the error."""
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
        """Which of the bolt's tasks; None where it happened before events were distributed to them."""


class SpoutError(WindboltError):
    """An exception in a spout of the user's, or an answer of it that is none."""

    def __init__(self, what: str, *, why: str = "", do: str = "", spout: str = "", transient: bool = False) -> None:
        super().__init__(what, why=why, do=do, transient=transient)
        self.spout = spout
        """The name of the spout."""


class ScenarioError(WindboltError, ValueError):
    """A scenario file, line or step that does not follow the contract."""


class EnvironmentMissing(WindboltError):
    """Something outside Python that a run needs and that is not there (Java, a package)."""
