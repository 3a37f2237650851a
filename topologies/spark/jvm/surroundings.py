"""What Java and Spark need of the machine besides themselves, asked before Java starts: a user that has a name, and a
folder for temporary files. Containers may have neither."""

from __future__ import annotations

import os
import pwd
import tempfile

from windowing.errors import EnvironmentMissing


def check_surroundings() -> None:
    """Raise EnvironmentMissing where Java could not start, or Spark in it; not asked where somebody has started it."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError as error:
        raise EnvironmentMissing(
            f"the user {os.geteuid()} has no name on this machine",
            why="Spark asks for the name, and the system does not know one (/etc/passwd)",
            do="run as a user that has one; in an image libnss_wrapper can give it one, as in docs/service/Dockerfile",
        ) from error
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        raise EnvironmentMissing(
            "there is no folder for temporary files",
            why=error.strerror or str(error),
            do="let /tmp be written to; in a container whose root is read-only mount something there, such as a tmpfs",
        ) from error
