"""Tables of Delta Lake and Iceberg, each with the newest Spark that it is built for, in an environment of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.places import ROOT
from tests.helpers.spark_of import environment, settings, spark_home

pytestmark = pytest.mark.extended
_PROGRAM = ROOT / "docs" / "examples" / "revenue.py"
_FILES, _USERS = 20, ("ann", "bob")


@pytest.mark.parametrize(("format", "over"), [("delta", "classic"), ("delta", "connect"), ("iceberg", "classic")])
@pytest.mark.timeout(900)
def test_a_table_has_each_batch_once(format: str, over: str, tmp_path: Path) -> None:
    """Through deaths before and after the append, after going back, and beside what others write."""
    session = [over] * (over == "connect")
    played = subprocess.run(
        [sys.executable, "-m", "tests.spark.tables.appending", format, str(tmp_path), *session],
        env=environment(format), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert played.returncode == 0, played.stdout + played.stderr[-5000:]
    last = "each row once, after going back" if session else "what does not fit is refused"
    assert played.stdout.splitlines()[-1] == last


@pytest.mark.timeout(900)
def test_the_program_for_spark_submit_is_killed_and_goes_on(tmp_path: Path) -> None:
    """That of the documents: a DataFrame joined with prices, a bolt, a Delta table, SQL."""
    shutil.copy(_PROGRAM, tmp_path)
    (tmp_path / "products.csv").write_text("product,price\ntea,1.75\nmilk,0.5\n")
    (tmp_path / "orders").mkdir()
    for number in range(_FILES):
        moments = (f"2024-01-01T06:{number:02}:{second:02}Z" for second in range(0, 60, 10))
        orders = [{"product": product, "user": user, "amount": 2, "ts": ts}
                  for ts in moments for user in _USERS for product in ("tea", "milk", "salt")]  # fmt: skip
        path = tmp_path / "orders" / f"{number}.json"
        path.write_text("".join(json.dumps(order) + "\n" for order in orders))
        os.utime(path, (1_600_000_000 + number, 1_600_000_000 + number))
    conf = settings("delta") | {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    options = [option for name, value in conf.items() for option in ("--conf", f"{name}={value}")]
    submit = [str(spark_home("delta") / "bin" / "spark-submit"), "--master", "local[2]", *options, "revenue.py"]
    commands = {"cwd": tmp_path, "env": environment("delta"), "start_new_session": True}

    with open(tmp_path / "said", "wb") as said:
        first = subprocess.Popen(submit, stdout=said, stderr=said, **commands)  # type: ignore[call-overload]
    while not (tmp_path / "checkpoint/windbolt/manifests/0000000001.json").exists():
        assert first.poll() is None, (tmp_path / "said").read_text()[-5000:]
        time.sleep(0.05)
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    second = subprocess.run(submit, capture_output=True, text=True, check=False, **commands)  # type: ignore[call-overload]
    assert second.returncode == 0, second.stderr[-5000:]
    rows = re.findall(r"^\|\s*(\w+)\|\s*(\d+)\|\s*([\d.]+)\|$", second.stdout, re.M)
    assert rows == [(user, str(12 * _FILES), str(_FILES * 6 * 2 * 2.25)) for user in _USERS]
