"""The mistakes in a topology, in the order in which they are found; all are reported together."""

from __future__ import annotations

from windowing.errors import ConfigError, WindboltError


class Mistakes(list[ConfigError]):
    """What is wrong with a topology."""

    def tell(self, what: str, why: str = "", do: str = "") -> None:
        """Add a mistake: what it is, why it is one, what to do."""
        self.append(ConfigError(what, why=why, do=do))

    def tell_of(self, owner: str, error: WindboltError) -> None:
        """Add what another part has found, as a mistake of ``owner``'s."""
        self.tell(f"{owner}: {error.what}", error.why, error.do)
