"""The accounts: every event received is in exactly one, on every stream."""

from __future__ import annotations

import json

import pytest

from manager import Accounts
from manager.accounts import ACCOUNTS, AccountsError
from windowing import WindboltError


def test_they_add_up_where_all_is_accounted_for() -> None:
    accounts = Accounts(["a", "b"])
    accounts.add("received", [11, 3])
    for account in ACCOUNTS:
        accounts.add(account, [1, 0])
    accounts.check([3, 3], "bolt")
    assert accounts["received"] == 14
    assert accounts.by_stream("received") == [11, 3]


@pytest.mark.parametrize("account", [*ACCOUNTS, "pending"])
def test_an_event_in_two_accounts_or_none_is_an_error(account: str) -> None:
    accounts = Accounts(["a", "b"])
    accounts.add("received", [1, 1])
    pending = [1, 0]
    if account == "pending":
        pending = [1, 2]
    else:
        accounts.add(account, [0, 2])
    with pytest.raises(AccountsError, match="bolt 'sum' do not add up") as found:
        accounts.check(pending, "sum")
    assert "defect in windbolt" in str(found.value)
    assert isinstance(found.value, WindboltError)


def test_streams_do_not_make_up_for_each_other() -> None:
    accounts = Accounts(["a", "b"])
    accounts.add("received", [2, 0])
    accounts.add("windowed", [0, 2])
    with pytest.raises(AccountsError):
        accounts.check([0, 0], "sum")


def test_adjusted_stands_beside_the_accounts() -> None:
    accounts = Accounts(["a"])
    accounts.add("received", [1])
    accounts.add("windowed", [1])
    accounts.add("adjusted", [1])
    accounts.check([0], "sum")
    assert accounts.totals(0)["adjusted"] == 1


def test_an_unknown_account_is_refused() -> None:
    with pytest.raises(KeyError):
        Accounts(["a"]).add("lost", [1])


def test_they_go_through_json_and_can_be_merged() -> None:
    accounts = Accounts(["a", "b"])
    accounts.add("received", [2, 1])
    accounts.add("late", [0, 1])
    text = json.dumps(accounts.to_json())
    assert json.loads(text) == {"received": [2, 1], "late": [0, 1]}
    again = Accounts(["a", "b"], json.loads(text))
    again.merge(accounts.to_json())
    assert again.by_stream("received") == [4, 2]
    assert again.totals(4) == {
        "received": 6, "windowed": 0, "late": 2, "early": 0, "dropped": 0, "duplicate": 0, "invalid": 0,
        "unwindowed": 0, "purged": 0, "adjusted": 0, "truncated": 0, "pending": 4,
    }  # fmt: skip
    assert accounts["received"] == 3
