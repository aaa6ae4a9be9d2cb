"""Datasette serves a memdb file and searches it, never with memdb in its own process."""

from __future__ import annotations

import asyncio
import html
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from child_processes import free_port
from datasette import __version__
from datasette.app import Datasette
from sqlite_libraries import SqliteWatch

import memdb

VIEWS = ["sessions", "messages", "summaries", "entries", "artifacts", "items"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "agent.db"
    with memdb.open(made, counter="estimate") as db:
        ann = db.scope("ann")
        chat = ann.session("trip")
        chat.append("user", "We fly to <b>Oslo</b> on 3 May.")
        chat.append("tool", "The gate is B7.")
        chat.artifacts.save("packing.md", "- passport")
        ann.remember("Ann prefers window seats.", category="preferences")
        ann.items.put(("notes",), "k", {"text": "Sell the tent."})
    return made


def get(
    path: Path, url: str, actor: dict[str, Any] | None = None, **options: Any
) -> tuple[int, str]:
    """Return status and body of a page."""

    async def ask() -> tuple[int, str]:
        files = (
            {"immutables": [str(path)]}
            if options.pop("immutable", False)
            else {"files": [str(path)]}
        )
        served = Datasette(**{"files": [], **files}, **options)
        await served.invoke_startup()
        cookies = {"ds_actor": served.sign({"a": actor}, "actor")} if actor else {}
        response = await served.client.get(url, cookies=cookies)
        return response.status_code, response.text

    return asyncio.run(ask())


def search(path: Path, **asked: str) -> Any:
    status, body = get(path, f"/-/memdb/agent.json?{urlencode(asked)}")
    return status, json.loads(body)


def test_the_hits_are_those_of_the_command_line(path: Path) -> None:
    """Messages, entries, artifacts and items, as `memdb recall` finds them."""
    status, found = search(path, q="Oslo")

    assert status == 200
    assert (found["hits"][0]["kind"], found["hits"][0]["text"]) == (
        "message",
        "We fly to <b>Oslo</b> on 3 May.",
    )
    assert search(path, q="tent", kind="item")[1]["hits"][0]["source"]["key"] == "k"
    assert search(path, q="gate", role="user")[1]["hits"] == []


def test_the_page_shows_texts_as_texts(path: Path) -> None:
    """No text of the file is HTML, no question is; a message leads to its row."""
    status, body = get(path, "/-/memdb/agent?" + urlencode({"q": 'Oslo"><script>'}))

    assert status == 200
    assert "&lt;b&gt;Oslo&lt;/b&gt;" in body
    assert "<script>" not in body
    link = "/agent/messages_view?session=trip&_where=seq+%3D+1"
    assert html.escape(link) in body
    status, row = get(path, link.replace("?", ".json?") + "&_shape=array")
    assert (status, json.loads(row)[0]["text"]) == (200, "We fly to <b>Oslo</b> on 3 May.")


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_shown(path: Path, view: str) -> None:
    """With names of people and times that a person reads."""
    status, body = get(path, f"/agent/{view}_view.json?_shape=array")

    rows = json.loads(body)
    assert status == 200
    assert all(row["user_name"] == "ann" for row in rows)
    assert all(row["created"].endswith("Z") for row in rows)
    assert bool(rows) == (view != "summaries")


@pytest.mark.parametrize(
    "query", ["--help", "-x", "--user=bo", "'; DROP TABLE messages", "%", '"', "ä\u4e2d" * 900]
)
def test_a_question_is_never_an_option(path: Path, query: str) -> None:
    """Whatever it looks like, it is a question."""
    status, found = search(path, q=query)

    assert (status, found["ok"]) == (200, True)


def test_what_cannot_be_asked_is_an_error_of_the_request(path: Path) -> None:
    """With memdb's own sentence."""
    with memdb.open(path) as db:
        db.scope("bo").session("x").append("user", "hi")
    for asked, word in (
        ({"q": "Oslo"}, "--user"),
        ({"q": "Oslo", "user": "ann", "role": "pope"}, "pope"),
        ({"q": "Oslo", "user": "ann", "since": "someday"}, "someday"),
        ({"q": "a\0b", "user": "ann"}, "NUL"),
    ):
        status, found = search(path, **asked)
        assert (status, found["ok"]) == (400, False)
        assert word in found["error"]
    assert search(path, q="Oslo", user="ann", limit="x")[0] == 200


def test_only_memdb_files_have_the_page(tmp_path: Path, path: Path) -> None:
    """Not another database, and not one that is not there; no question is no error."""
    import sqlite3

    other = tmp_path / "other.db"
    made = sqlite3.connect(other)
    made.execute("CREATE TABLE t (a)")
    made.close()

    assert get(other, "/-/memdb/other?q=x")[0] == 404
    assert get(path, "/-/memdb/none?q=x")[0] == 404
    assert get(path, "/-/memdb/agent")[0] == 200
    assert "/-/memdb/agent" in get(path, "/agent")[1]
    assert "/-/memdb/other" not in get(other, "/other")[1]


def test_who_may_not_read_the_tables_may_not_search(path: Path) -> None:
    """A search shows what SQL would."""
    name = "metadata" if __version__.startswith("0") else "config"
    for closed in (
        {"allow": {"id": "root"}},
        {"databases": {"agent": {"allow": {"id": "root"}}}},
        {"databases": {"agent": {"allow_sql": {"id": "root"}}}},
    ):
        assert get(path, "/-/memdb/agent.json?q=Oslo", **{name: closed})[0] == 403
        assert get(path, "/-/memdb/agent.json?q=Oslo", {"id": "root"}, **{name: closed})[0] == 200
        assert get(path, "/-/memdb/agent.json?q=Oslo", {"id": "bo"}, **{name: closed})[0] == 403


def test_sql_that_is_switched_off_is_no_search(path: Path) -> None:
    """As the setting says."""
    assert get(path, "/-/memdb/agent.json?q=Oslo", settings={"default_allow_sql": False})[0] == 403


def test_an_immutable_file_is_not_searched(path: Path) -> None:
    """A search may write, which Datasette would not see."""
    status, body = get(path, "/-/memdb/agent.json?q=Oslo", immutable=True)

    assert (status, json.loads(body)["ok"]) == (400, False)


@pytest.fixture
def served(path: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    port = free_port()
    command = [sys.executable, "-m", "datasette", "serve", str(path), "--port", str(port)]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    url = f"http://127.0.0.1:{port}"
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until and process.poll() is None:
            try:
                urlopen(f"{url}/-/versions.json", timeout=5).read()
                break
            except (OSError, HTTPError):
                time.sleep(0.1)
        yield process, url
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
def test_no_process_has_two_sqlite_libraries_on_the_file(
    path: Path, served: tuple[subprocess.Popen[str], str]
) -> None:
    """Datasette reads by Python's own, each search by memdb's in a process of its own."""
    process, url = served
    with SqliteWatch(process.pid, path) as watch:
        for number in range(6):
            urlopen(f"{url}/agent/messages_view.json", timeout=30).read()
            answer = json.load(urlopen(f"{url}/-/memdb/agent.json?q=Oslo+{number}", timeout=60))
            assert answer["hits"]

    assert watch.both == []
    assert watch.libraries[process.pid] == {"sqlite3"}
    assert {"apsw"} in [found for pid, found in watch.libraries.items() if pid != process.pid]


def test_the_plugin_loads_no_memdb_engine() -> None:
    """Importing it brings no second SQLite."""
    code = "import sys, memdb.integrations.datasette.plugin; print('apsw' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def test_a_search_that_is_cancelled_leaves_no_process(path: Path) -> None:
    """The child is ended before the cancelling goes on."""
    from memdb.integrations.datasette import plugin

    def list_children() -> set[str]:
        children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
        return set(children.read_text().split()) if children.exists() else set()

    before = list_children()  # of other tests

    async def main() -> None:
        for steps in (1, 2, 3, 5, 50):
            task = asyncio.ensure_future(plugin.recall(["--json", "--", str(path), "Oslo"]))
            for _ in range(steps):
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        answer = await plugin.recall(["--json", "--", str(path), "Oslo"])
        assert answer.hits

    asyncio.run(main())
    assert list_children() <= before
