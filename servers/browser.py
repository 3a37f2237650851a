"""The browser for looking at pages: one on the PATH, or Playwright's own."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def executable() -> str | None:
    """Returns the path of a browser: the one in CHROMIUM, the first on the PATH, Playwright's own; None if there is
    none."""
    given = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), MAC]
    return next((path for path in given if path and Path(path).is_file()), None) or _of_playwright()


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None


@contextmanager
def opened(url: str, patience: int = 60) -> Iterator[None]:
    """A page, open in a browser without a screen until the end of the block; it may take so many seconds to be served.

    RuntimeError if there is no browser.
    """
    from playwright.sync_api import Error, sync_playwright

    path = executable()  # Playwright is asked for its own before it is opened here: it cannot be opened twice
    if path is None:
        raise RuntimeError("no Chromium or Chrome: install one, as ./run tests does, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = chromium.new_page()
        for left in reversed(range(patience)):
            try:
                page.goto(url)
                break
            except Error:
                if not left:
                    raise
                time.sleep(1)
        yield
        chromium.close()
