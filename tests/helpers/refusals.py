"""Why a message cannot be read or written, which is said in one line."""

from __future__ import annotations

from typing import Any

import pytest

from topologies.io.messages import MessageFormat, Unreadable, Unwritable
from windowing.errors import WindboltError


def reason(form: MessageFormat, value: bytes | None) -> str:
    """Why it cannot be read, in one line."""
    with pytest.raises(Unreadable) as caught:
        form.read(value)
    return one_line(caught.value)


def unwritable(form: MessageFormat, event: Any) -> str:
    with pytest.raises(Unwritable) as caught:
        form.write(event)
    return one_line(caught.value)


def one_line(error: WindboltError) -> str:
    text = str(error)
    assert 0 < len(text) <= 300
    assert len(text.splitlines()) == 1
    text.encode()
    return text
