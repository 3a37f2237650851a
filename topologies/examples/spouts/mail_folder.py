"""The new mails of a Maildir. They are deleted when they are in a batch that is committed, and cannot be read again.

The offset is the names of those that have been read and not yet been deleted.
"""

from __future__ import annotations

import os
from email import message_from_binary_file
from email.utils import parsedate_to_datetime
from typing import Any

from windbolt import Spout


class Mails(Spout):
    schema = "ts timestamp, sender string, subject string"

    def __init__(self, maildir: str) -> None:
        self.folder = os.path.join(maildir, "new")

    def read(self, offset: Any, limit: int) -> Any:
        there = sorted(os.listdir(self.folder))
        read = [name for name in offset or [] if name in there]
        new = [name for name in there if name not in read][:limit]
        return [self.row(name) for name in new], read + new

    def row(self, name: str) -> Any:
        with open(os.path.join(self.folder, name), "rb") as file:
            mail = message_from_binary_file(file)
        return parsedate_to_datetime(mail["Date"]), mail["From"], mail["Subject"]

    def acknowledge(self, offset: Any) -> None:
        for name in offset:
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                os.remove(path)
