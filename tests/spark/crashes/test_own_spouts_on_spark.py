"""Spouts that users write, on Spark and on both engines in turn, with runs that end early."""

from __future__ import annotations

import mailbox
import sqlite3
from contextlib import closing
from datetime import timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.valkey import valkey
from tests.spark.kafka import local_tools
from tests.spark.kafka.kafka_shop import reading
from tests.spark.tools import at_phase, run, run_until, with_batches_that_fail
from tests.topologies.examples.test_spouts import service
from tests.topologies.sources.test_own_spouts import BEGIN, Numbers, Queue, broken, rows_in, topology
from topologies.examples.spouts import Clicks, Mails, Orders, OrdersByShop, Quotes
from windbolt import RunOptions, run_local
from windowing import SpoutError

pytestmark = pytest.mark.usefixtures("spark")


class Broken(Numbers):
    def read(self, offset: Any, limit: int) -> Any:
        return broken()


def test_engines_take_turns_and_no_row_is_lost_or_doubled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run_local(topology(Numbers(Queue()), tmp_path / "right")[0])
    queue, out, checkpoint = Queue(), tmp_path / "out", tmp_path / "ck"
    with_batches_that_fail(monkeypatch, 2, 4)  # on Spark before the third is done, locally before the fourth
    with pytest.raises(OSError, match="lost"):
        run(topology(Numbers(queue), out)[0], checkpoint)
    assert queue.called.count("open") == queue.called.count("close") == 1
    with pytest.raises(OSError, match="lost"):
        run_local(topology(Numbers(queue), out)[0], RunOptions(str(checkpoint)))
    with pytest.raises(SpoutError, match=r"KeyError: 'price' at .*test_own_spouts.py:\d+, in broken"):
        run(topology(Broken(queue), out)[0], checkpoint)
    summary = run(topology(Numbers(queue), out)[0], checkpoint)
    assert (summary.rows, summary.batches) == (20, 5)  # the last one closes the windows
    assert rows_in(out) == rows_in(tmp_path / "right")
    assert not queue.rows


def test_the_spouts_to_copy_lose_and_double_no_row(tmp_path: Path) -> None:
    """Of a database, a stream of Redis, a web service and a folder of mails; both engines die in the middle."""
    number, database, box = 40, str(tmp_path / "shop.db"), mailbox.Maildir(tmp_path / "mails")
    moments = [BEGIN + timedelta(seconds=each) for each in range(number)]
    with closing(sqlite3.connect(database)) as writer, writer:
        writer.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, ts TEXT, user TEXT, shop TEXT, amount REAL)")
        rows = [(each + 1, str(ts), "ada", "ab"[each % 2], each / 2) for each, ts in enumerate(moments)]
        writer.executemany("INSERT INTO orders VALUES (?, ?, ?, ?, ?)", rows)
    for each, ts in enumerate(moments):
        mail = EmailMessage()
        mail["Date"], mail["From"], mail["Subject"] = format_datetime(ts), "ada@example.org", str(each)
        box.add(mail)
    prices = [
        {"number": each + 1, "ts": ts.isoformat(), "symbol": "A", "price": each / 4} for each, ts in enumerate(moments)
    ]
    with valkey(tmp_path / "valkey") as server, service(prices, []) as address:
        for each, ts in enumerate(moments):
            entry = {"user": "ada", "page": str(each)}
            server.client.xadd("clicks", entry, id=f"{int(ts.timestamp()) * 1000}-0")
        spouts: dict[str, Any] = {
            "orders": Orders(database),
            "by_shop": OrdersByShop(database),
            "quotes": Quotes(address),
            "mails": Mails(str(tmp_path / "mails")),
            "clicks": Clicks(server.url, "clicks"),
        }
        for spout in spouts.values():
            spout.rows_per_batch = 10
        built, out = reading(**spouts)
        local_tools.run_until(built, tmp_path / "ck", at_phase(1, "commit"))
        run_until(built, tmp_path / "ck", at_phase(2, "ingest"))
        local_tools.run_until(built, tmp_path / "ck", at_phase(3, "sinks"))
        run(built, tmp_path / "ck")
    columns = {"orders": "id", "by_shop": "id", "quotes": "number", "mails": "subject", "clicks": "page"}
    read = {name: sorted(int(row[column]) for row in out[name].rows) for name, column in columns.items()}
    ids, texts = list(range(1, number + 1)), list(range(number))
    assert read == {"orders": ids, "by_shop": ids, "quotes": ids, "mails": texts, "clicks": texts}
    assert {row["ts"] for name in columns for row in out[name].rows} == set(moments)
    assert len(box) == 0
