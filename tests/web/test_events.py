"""The stream of events: changes by anybody, at most two a second, and how it ends."""

from __future__ import annotations

import asyncio
import json
import socket
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from web_site import Site, opened, served

import memdb
from memdb.models.reports import Changes
from memdb.web.events import MAX_LISTENERS, Events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.api.database import MemDB

ROOT = Path(memdb.__file__).parents[1]


class Stream:
    """An open stream, read event by event."""

    def __init__(self, connection: socket.socket) -> None:
        """Read the answer's head."""
        connection.settimeout(60)
        self._file = connection.makefile("rb")
        self.mark, self.data = "", {}
        self.head = b""
        while (line := self._file.readline()).strip():
            self.head += line

    def event(self) -> str:
        """Return the kind of the next event; "" at the end."""
        for line in self._file:
            name, _, value = line.decode().rstrip().partition(": ")
            if name == "id":
                self.mark = value
            elif name == "event":
                kind = value
            elif name == "data":
                self.data = json.loads(value)
                return kind
        return ""

    def wait_open(self) -> None:
        """Read until the stream has begun."""
        for line in self._file:
            if line.startswith(b": open"):
                return


@contextmanager
def listening(site: Site, *headers: str) -> Iterator[Stream]:
    """Open a stream for a `with` block."""
    with site.begin("GET", "/api/v1/events", *headers) as connection:
        stream = Stream(connection)
        stream.wait_open()
        yield stream


class Busy:
    """A file that somebody writes to all the time: each look at it finds another mark."""

    def __init__(self) -> None:
        """Begin with no look."""
        self.looks = 0

    def changes(self, _since: str | None) -> Changes:
        """Return that something changed."""
        self.looks += 1
        return Changes(mark=str(self.looks), sessions=(), kinds=("other",), is_complete=True)


def test_who_writes_all_the_time_is_told_by_turns() -> None:
    """A stream looks again if it is woken, not at once: a change is told as often as one watches."""

    async def listen() -> list[bytes]:
        events = Events(cast("MemDB", Busy()))
        lines = events._lines("0")
        told = [await anext(lines), await anext(lines)]
        for _ in range(3):
            following = asyncio.ensure_future(anext(lines))
            done, _ = await asyncio.wait([following], timeout=0.2)
            assert not done
            events._ring()
            told.append(await following)
        return told

    told = asyncio.run(listen())

    assert [b"event: change" in one for one in told] == [False, True, True, True, True]


def test_what_others_write_is_told(
    site: Site, tmp_path: Path, run_child: Callable[..., str]
) -> None:
    """By this process, by the API, and by another process; to every stream."""
    program = (
        "import memdb, sys\n"
        "with memdb.open(sys.argv[1]) as db:\n"
        "    db.scope('ann').session('trip').append('user', 'From outside.')\n"
    )
    with listening(site) as first, listening(site) as second:
        assert b"text/event-stream" in first.head
        site.app.db.scope("ann").remember("Ann skis.")
        assert first.event() == second.event() == "change"
        said = {"role": "user", "text": "By the API."}
        assert site.ask("POST", "message", {"user": "ann", "session": "trip"}, said).status == 200
        assert first.event() == second.event() == "change"
        run_child(program, tmp_path / "trip.db")
        assert first.event() == second.event() == "change"


def test_a_postgresql_server_tells_of_others_too(postgres_databases: Any) -> None:
    """What another opener of the same database commits reaches the streams."""
    address = postgres_databases.address_of("/events")
    options: dict[str, Any] = {"embedder": None, "counter": "estimate"}
    try:
        with (
            memdb.open(address, **options) as db,
            memdb.open(address, **options) as other,
            served(db) as site,
            listening(site) as stream,
        ):
            other.scope("ann").session("trip").append("user", "From outside.")
            assert stream.event() == "change"
            assert [place["session"] for place in stream.data["sessions"]] == ["trip"]
            other.scope("ann").remember("Ann skis.")
            assert stream.event() == "change"
            assert stream.data["kinds"] == ["entry"]
    finally:
        postgres_databases.empty_all()


def test_an_event_says_what_changed(site: Site) -> None:
    """The sessions that got messages, and the kinds of all else."""
    ann = site.app.db.scope("ann")
    with listening(site) as stream:
        ann.session("trip").append("user", "More.")
        assert stream.event() == "change"
        assert [place["session"] for place in stream.data["sessions"]] == ["trip"]
        assert stream.data["kinds"] == []
        ann.remember("Ann skis.")
        assert stream.event() == "change"
        assert stream.data["sessions"] == []
        assert stream.data["kinds"] == ["entry"]


def test_a_stream_that_was_cut_goes_on_where_it_ended(site: Site) -> None:
    """By `Last-Event-ID`, as browsers send it; a mark of another server says read all again."""
    ann = site.app.db.scope("ann")
    with listening(site) as stream:
        ann.session("trip").append("user", "More.")
        assert stream.event() == "change"
    ann.session("old").append("user", "Missed.")
    with listening(site, f"Last-Event-ID: {stream.mark}") as later:
        assert later.event() == "change"
        assert [place["session"] for place in later.data["sessions"]] == ["old"]
        assert later.data["is_complete"]
    with listening(site, "Last-Event-ID: 0123-4") as other:
        assert other.event() == "change"
        assert not other.data["is_complete"]


def test_a_file_that_is_replaced_is_told(site: Site, tmp_path: Path) -> None:
    """The stream ends, and every request is refused."""
    with listening(site) as stream:
        (tmp_path / "trip.db").rename(tmp_path / "kept.db")
        assert stream.event() == "replaced"
        assert stream.event() == ""
    refused = site.ask("GET", "scopes")
    assert (refused.status, refused.json["code"]) == (410, "replaced")


def test_a_file_that_a_newer_memdb_migrated_is_told(
    site: Site, set_format: Callable[..., None]
) -> None:
    """The stream ends, and nothing is read or written by rules that hold no more."""
    with listening(site) as stream:
        set_format(site.app.db, 99)
        assert stream.event() == "migrated"
    said = {"role": "user", "text": "By the API."}
    refused = site.ask("POST", "message", {"user": "ann", "session": "trip"}, said)
    assert (refused.status, refused.json["code"]) == (500, "schema_new")
    assert "start the server again" in refused.json["todo"]


def test_the_end_of_the_server_is_told(tmp_path: Path, filled: Any) -> None:
    """It does not wait for the tabs."""
    path = filled.put(tmp_path / "trip.db")
    with opened(path) as db, served(db) as site:
        connection = site.begin("GET", "/api/v1/events")
        stream = Stream(connection)
        stream.wait_open()
        other = site.begin("GET", "/api/v1/events")
    with connection, other:
        assert stream.event() == "closing"


def test_streams_are_bounded(make_site: Callable[..., Site]) -> None:
    """One too many is refused; those that end make room."""
    site = make_site()
    connections = [site.begin("GET", "/api/v1/events") for _ in range(MAX_LISTENERS)]
    for connection in connections:
        Stream(connection).wait_open()
    refused = site.ask("GET", "events")
    assert refused.status == 503
    assert refused.headers["retry-after"] == "1"
    for connection in connections:
        connection.close()
    for _ in range(200):
        with site.begin("GET", "/api/v1/events") as connection:
            if b"200" in Stream(connection).head.split(b"\r\n")[0]:
                return
    pytest.fail("no room was made")
