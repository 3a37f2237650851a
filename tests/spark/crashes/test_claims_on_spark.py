"""On Spark, too: one run at a time in a folder of output, and no file passed over for its name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.shop import shop_in_files
from tests.spark.tools import run
from topologies.run.options import RunOptions
from topologies.spark.runner import SparkRun
from windbolt import run_local
from windowing.errors import ConfigError, DataError


def test_a_new_run_does_not_write_where_another_writes(spark: SparkSession, orders: Path, tmp_path: Path) -> None:
    with SparkRun(spark, shop_in_files(orders, tmp_path), RunOptions(str(tmp_path / "one"))) as first:
        with pytest.raises(ConfigError, match="another run is writing into"):
            run(shop_in_files(orders, tmp_path), tmp_path / "two")
        with pytest.raises(ConfigError, match="another run is writing into"):
            run_local(shop_in_files(orders, tmp_path))
        first.run()
    with pytest.raises(ConfigError, match="files of another run"):
        run(shop_in_files(orders, tmp_path), tmp_path / "three")


@pytest.mark.usefixtures("spark")
def test_a_file_that_java_does_not_see_is_told(orders: Path, tmp_path: Path) -> None:
    """Refused before a run; named in one that continues."""
    data = (orders / "orders 00.parquet").read_bytes()
    odd = os.fsencode(orders) + b"/\xff.parquet"

    def appear(report: object) -> None:
        with open(odd, "wb") as file:
            file.write(data)

    summary = run(shop_in_files(orders, tmp_path), tmp_path / "one", on_report=appear)
    assert any("\\xff.parquet" in text for text in summary.complaints)
    with pytest.raises(DataError, match=r"\\xff\.parquet"):
        run(shop_in_files(orders, tmp_path / "other"), tmp_path / "two")
