"""Arrays as they are shown to code of users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def read_only(values: NDArray[Any]) -> NDArray[Any]:
    """A view that cannot be written to: the array may be the engine's own."""
    view = values.view()
    view.flags.writeable = False
    return view


def make_read_only(shown: Any, *names: str) -> None:
    """Make arrays of a frozen value, those of these names that it has, such views: from its ``__post_init__``."""
    for name in names:
        values = getattr(shown, name)
        if values is not None:
            object.__setattr__(shown, name, read_only(values))
