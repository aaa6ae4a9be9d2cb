"""Fixtures of the tests of `memdb web`."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from browser import Tab, launched
from web_site import Site, fill, opened, served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory, make_kept: Callable[..., Any]) -> Any:
    """Return what the database of the examples holds, with a method `put`."""
    return make_kept(tmp_path_factory.mktemp("web") / "trip.db", fill)


@pytest.fixture
def make_site(tmp_path: Path, filled: Any, databases: Any) -> Iterator[Callable[..., Site]]:
    """Return a function that serves a copy of the file of the examples."""
    with ExitStack() as stack:

        def make(name: str = "trip.db", *, mode: str = "write", **options: Any) -> Site:
            db = stack.enter_context(opened(filled.put(tmp_path / name), mode=mode))
            return stack.enter_context(served(db, **options))

        yield make


@pytest.fixture(scope="module")
def reading_site(tmp_path_factory: pytest.TempPathFactory, filled: Any) -> Iterator[Site]:
    """Return a served copy for all tests of a module that only read."""
    path = filled.put(tmp_path_factory.mktemp("reading") / "trip.db", lasting=True)
    with opened(path) as db, served(db) as site:
        yield site


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """Return a served copy of the file of the examples."""
    return make_site()


# Of a module: while Playwright is on, its thread has an event loop, which others cannot start.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Return a running browser."""
    with launched() as browser:
        yield browser


@pytest.fixture
def open_tab(chromium: Any) -> Iterator[Callable[..., Tab]]:
    """Return a function that opens a tab; at the end nothing may have gone wrong in it."""
    tabs: list[Tab] = []

    def make(site: Site, **options: Any) -> Tab:
        tabs.append(Tab(chromium, site, **options))
        return tabs[-1]

    yield make
    for tab in tabs:
        found, foreign = tab.errors, tab.foreign_requests()
        tab.context.close()
        assert found == []
        assert foreign == []


@pytest.fixture
def tab(open_tab: Callable[..., Tab], site: Site) -> Tab:
    """Return a tab on a served copy of the file of the examples."""
    return open_tab(site)
