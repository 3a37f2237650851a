"""Logs what goes wrong again and again: once for each kind."""

from __future__ import annotations

import logging
import threading


class LoggedOnce:
    """For what is asked again each second, by a scrape or a page, and fails each time for the same reason."""

    def __init__(self, log: logging.Logger) -> None:
        self._log, self._lock = log, threading.Lock()
        self._known: set[tuple[str, type[BaseException]]] = set()

    def tell(self, what: str, error: BaseException, level: int = logging.WARNING) -> None:
        """Log an error with its traceback, unless this has failed with an error of its kind before."""
        with self._lock:
            known = (what, type(error)) in self._known
            self._known.add((what, type(error)))
        if not known:
            self._log.log(level, "%s; this is logged once", what, exc_info=error)
