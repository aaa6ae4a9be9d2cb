"""A browser that opens the page: Debian's Chromium by Playwright's client."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from web_site import Site

# The first has no windows of its own to draw, and takes half the time.
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
WAIT_MS = 60_000

# Of a window, in pixels.
WIDTHS = [
    pytest.param(1280, id="wide"),
    pytest.param(900, id="two panes", marks=pytest.mark.slow),
    pytest.param(360, id="narrow"),
]


def need_browser() -> str:
    """Return the path of Chromium; skip the test if it or Playwright's client is absent."""
    pytest.importorskip("playwright", reason="playwright is absent: pip install playwright")
    path = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if path is None:
        pytest.skip("Chromium is absent: apt-get install chromium")
    return path


@contextmanager
def launched() -> Iterator[Any]:
    """Start Chromium, and end it."""
    path = need_browser()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class Tab:
    """A tab that is signed in to a site, and what went wrong in it."""

    def __init__(self, browser: Any, site: Site, **options: Any) -> None:
        """Open a tab in a context of its own; *options* are those of the context."""
        self.site = site
        self.base = site.origin + site.base
        self.context = browser.new_context(
            **{"viewport": {"width": 1280, "height": 800}, "timezone_id": "UTC", **options}
        )
        self.context.set_default_timeout(WAIT_MS)
        self.page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", self._dialog)

    def _note(self, message: Any) -> None:
        # A refused request is an answer, which the page shows.
        if message.type == "error" and "Failed to load resource" not in message.text:
            self.errors.append(message.text)

    def _dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload":
            self.errors.append(f"a dialog: {dialog.message}")
        dialog.accept()

    def sign_in(self) -> None:
        """Open a new link."""
        self.page.goto(self.site.app.new_link())
        self.page.wait_for_selector("main h1")

    def open(self, place: str) -> Any:
        """Open a place below the base, and return the page when it has a heading."""
        if not self.context.cookies():
            self.sign_in()
        self.page.goto(self.base + place)
        self.page.wait_for_selector("main h1", state="attached")
        return self.page

    def foreign_requests(self) -> list[str]:
        """Return what was asked of others than this server."""
        return [url for url in self.requests if not url.startswith(f"{self.site.origin}/")]
