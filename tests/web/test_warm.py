"""A server that begins: what the first search needs is there before the first key."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING, Any

import memdb
from memdb.web.app import App

if TYPE_CHECKING:
    import pytest
    from web_site import Site

ROOT = Path(memdb.__file__).parents[1]

WARMED = """
import sys
import memdb
from memdb.web.app import App

with memdb.open(sys.argv[1]) as db:
    app = App(db)
    app.warm()
    before = {*sys.modules}
    route = app.api.routes["recall"]["GET"]
    query = {"user": "ann", "query": "os", "explain": True, "limit": 20, "prefix": True}
    assert app.api._respond_with(route, query, {}).status_code == 200
    print(sorted({*sys.modules} - before))
    print(sum(one.use_count for one in db.scope("ann").entries.list()))
"""


def test_the_first_key_finds_all_loaded(tmp_path: Path, filled: Any) -> None:
    """A server that was warmed loads no module for a search; warming counts no use."""
    command = [sys.executable, "-c", WARMED, filled.put(tmp_path / "trip.db")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "0"]


class Absent:
    """An embedder of the network that must not be asked."""

    name, dim = "absent", 8

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Fail."""
        raise AssertionError(texts)


def test_warming_asks_no_server(tmp_path: Path) -> None:
    """Neither does it fail for a file that holds nothing."""
    with memdb.open(tmp_path / "new.db", embedder=Absent()) as db:
        App(db, asks_network=True).warm()
        db.scope("ann").session("trip").append("user", "We fly to Oslo.")
        App(db, asks_network=True).warm()
        assert db.stats().failures == {}


def test_a_search_waits_for_the_warming(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would load the same a second time; whatever else is asked is answered meanwhile."""
    go_on, answers = threading.Event(), Queue[tuple[str, int]]()
    monkeypatch.setattr(site.app, "warm", lambda: go_on.wait(60))
    monkeypatch.setattr("memdb.web.app.MOST_WARM_S", 60.0)
    site.app.begin_warming()

    def ask(noun: str, **query: str) -> None:
        answers.put((noun, site.ask("GET", noun, {"user": "ann", **query}).status))

    searching = threading.Thread(target=ask, args=("recall",), kwargs={"query": "tent"})
    searching.start()
    ask("entries")
    first = answers.get(timeout=60)
    is_waiting = searching.is_alive()
    go_on.set()
    searching.join(60)

    assert (first, is_waiting) == (("entries", 200), True)
    assert answers.get(timeout=60) == ("recall", 200)


def test_a_search_waits_for_a_slow_warming_no_longer(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that warms for seconds answers before."""
    go_on = threading.Event()
    monkeypatch.setattr(site.app, "warm", lambda: go_on.wait(60))
    monkeypatch.setattr("memdb.web.app.MOST_WARM_S", 0.01)
    site.app.begin_warming()
    answer = site.ask("GET", "recall", {"user": "ann", "query": "tent"})
    go_on.set()

    assert answer.status == 200
