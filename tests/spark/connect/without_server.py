"""A client whose server ends before it does: ``python -m tests.spark.connect.without_server FOLDER own|given``."""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql.connect.session import SparkSession

from servers.spark import connect_server
from topologies.spark.connect_run import connect_session
from windowing.errors import UnreachableError


def main(folder: str, whose: str) -> None:
    """Raise UnreachableError within a session of the run's own, or one that it was given."""
    with connect_server(Path(folder)) as server:
        given = SparkSession.builder.remote(server.address).create() if whose == "given" else None
        with connect_session(given, server.address, {}) as session:
            session.range(10).count()
            server.kill()
            raise UnreachableError("the server has ended")


if __name__ == "__main__":
    main(*sys.argv[1:])
