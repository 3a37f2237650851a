"""The browser in which pages are looked at: one on the PATH, or Playwright's own."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def executable() -> str | None:
    """The path of a browser: what CHROMIUM says, the first on the PATH, Playwright's own; None if there is none."""
    given = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), MAC]
    return next((path for path in given if path and Path(path).is_file()), None) or _of_playwright()


def _of_playwright() -> str | None:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).is_file() else None
