"""A server that begins: what the first search needs is there before the first key."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import memdb
from memdb.web.app import App

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
    query = "user=ann&query=os&explain=true&limit=20&prefix=true"
    assert app.api._respond(route, query, b"", {}).status_code == 200
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
