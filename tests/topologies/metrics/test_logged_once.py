"""What goes wrong again and again is in the log once."""

from __future__ import annotations

import logging

import pytest

from topologies.run.run_metrics import LoggedOnce


def test_each_kind_of_error_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    logged = LoggedOnce(logging.getLogger("windbolt.metrics"))
    for error in (OSError("away"), OSError("still away"), ValueError("odd"), OSError("away")):
        logged.log_once("the lag is not known", error)
    logged.log_once("the windows cannot be shown", OSError("away"), logging.ERROR)
    assert [record.getMessage() for record in caplog.records] == [
        "the lag is not known; this is logged once",
        "the lag is not known; this is logged once",
        "the windows cannot be shown; this is logged once",
    ]
    assert [record.exc_info[1].args[0] for record in caplog.records if record.exc_info and record.exc_info[1]] == [
        "away", "odd", "away"
    ]  # fmt: skip
