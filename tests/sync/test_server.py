"""Files that meet at a server: the same segments, put and got with a token."""

from __future__ import annotations

import gzip
import socket
import tempfile
from base64 import b64encode
from threading import Thread
from typing import TYPE_CHECKING

import pytest
from service_site import running
from simulator import canonical

import memdb
from memdb.sync import server

if TYPE_CHECKING:
    from pathlib import Path

API = "/api/v1/sync"


def test_files_meet_at_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They come to one memory, also one that lost its replica; what is forgotten leaves it."""
    monkeypatch.setattr(server, "PART_BYTES", 300)  # a segment comes in several parts
    meeting = tmp_path / "meeting"
    names = ("host", "a", "b", "c")
    host, a, b, c = (memdb.open(tmp_path / f"{one}.db", embedder=None) for one in names)
    with host, a, b, c, running(host, tmp_path / "t.json", meeting_place=str(meeting)) as found:
        url = f"http://127.0.0.1:{found.port}"
        monkeypatch.setenv("MEMDB_SYNC_TOKEN", found.client(None).token)
        for number in range(40):
            a.user("ann").session("s").append("user", f"message {number} about walnuts")
        key = a.sync(url).key
        for db in (b, c):
            db.user("ann").remember(f"{db.path} is a path", key="path")
            db.sync(url, pairing_key=key)
        for path in (tmp_path / "a.db-sync").rglob("*.gz"):
            path.unlink()  # got again
        for db in (a, b, c, a, b):
            db.sync(url)
        assert canonical(a) == canonical(b) == canonical(c)
        assert {one.read for one in a.sync_status(url).devices} != {0}
        about = a.file.info().meta["sync"]
        assert '"seen"' in about
        assert str(key) not in str(a.file.info().to_dict())  # of which the page has a card
        a.user("ann").forget(session="s")
        for db in (a, b, c, a, b):
            report = db.sync(url)
        assert report.unconfirmed == ()
        assert "walnuts" not in "".join(canonical(c))
        full = [one for one in meeting.rglob("*.gz") if ".full." in one.name]
        assert sorted(full) == sorted(meeting.rglob("*.gz"))  # older segments are gone there too


def test_a_restored_file_takes_forgotten_text_from_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also what it had put there as the device that it was, which no device waits for."""
    meeting = tmp_path / "meeting"
    with (
        memdb.open(":memory:", embedder=None) as host,
        running(host, tmp_path / "t.json", meeting_place=str(meeting)) as found,
        memdb.open(tmp_path / "a.db", embedder=None) as a,
    ):
        url = f"http://127.0.0.1:{found.port}"
        monkeypatch.setenv("MEMDB_SYNC_TOKEN", found.client(None).token)
        key = a.sync(url).key
        with memdb.open(tmp_path / "b.db", embedder=None) as b:
            b.sync(url, pairing_key=key)
            b.file.backup(tmp_path / "old.db")
            b.user("ann").session("s").append("user", "walnuts are bad")
            b.sync(url)
        with memdb.open(tmp_path / "old.db", embedder=None) as old:
            for db in (a, old, a):
                db.sync(url)
            a.user("ann").forget(query="walnuts")
            for db in (a, old, a, old):
                db.sync(url)
            assert [db.sync(url).unconfirmed for db in (a, old)] == [(), ()]
            assert len(old.sync_status(url).devices) == 2
    every = [gzip.decompress(path.read_bytes()) for path in meeting.rglob("*.gz")]
    assert b"walnuts" not in b"".join(every)


def test_syncs_of_one_file_at_a_time_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is done or says that another one is running, and nothing is lost."""
    meeting = tmp_path / "meeting"
    outcomes: list[str] = []

    def sync(path: Path) -> None:
        with memdb.open(path, embedder=None) as db:
            for _ in range(8):
                try:
                    db.sync(url)
                except memdb.Busy as error:
                    outcomes.append(str(error))

    with (
        memdb.open(":memory:", embedder=None) as host,
        running(host, tmp_path / "t.json", meeting_place=str(meeting)) as found,
        memdb.open(tmp_path / "a.db", embedder=None) as a,
        memdb.open(tmp_path / "b.db", embedder=None) as b,
    ):
        url = f"http://127.0.0.1:{found.port}"
        monkeypatch.setenv("MEMDB_SYNC_TOKEN", found.client(None).token)
        key = a.sync(url).key
        b.sync(url, pairing_key=key)
        syncs = [Thread(target=sync, args=(tmp_path / "b.db",)) for _ in range(3)]
        for one in syncs:
            one.start()
        for number in range(8):
            a.user("ann").session("s").append("user", f"message {number}")
            a.sync(url)
        for one in syncs:
            one.join()
        b.sync(url)
        assert canonical(a) == canonical(b)
        assert b.file.check(deep=True) == []
    assert {text for text in outcomes if "another sync" not in text} == set()


def files_in(place: Path) -> dict[Path, bytes]:
    """Return the files of a folder; of a memory in use only the name."""
    return {
        path: b"" if ".db" in path.name else path.read_bytes()
        for path in place.rglob("*")
        if path.is_file()
    }


def test_a_look_at_a_server_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dry run and the status know what the server has, and nothing is made or changed."""
    own, temporary = tmp_path / "own", tmp_path / "temporary"
    own.mkdir()
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with (
        memdb.open(":memory:", embedder=None) as host,
        running(host, tmp_path / "t.json", meeting_place=str(tmp_path / "meeting")) as found,
        memdb.open(tmp_path / "a.db", embedder=None) as a,
        memdb.open(own / "b.db", embedder=None) as b,
    ):
        url = f"http://127.0.0.1:{found.port}"
        monkeypatch.setenv("MEMDB_SYNC_TOKEN", found.client(None).token)
        b.user("ann").remember("Ann likes tea.")
        before = files_in(own)
        assert b.sync(url, dry_run=True).sent != {}
        with pytest.raises(memdb.InvalidInput, match=f"the file and {url} have no sync in common"):
            b.sync_status(url)
        assert files_in(own) == before
        key = a.sync(url).key
        b.sync(url, pairing_key=key)
        a.user("ann").session("s").append("user", "new on the server")
        a.sync(url)
        b.user("ann").remember("Ann likes coffee.")
        before = files_in(own)
        report = b.sync(url, dry_run=True)
        assert (report.sent, len(report.waiting)) == ({"entry": 1}, 1)
        (other,) = [one for one in b.sync_status(url).devices if not one.is_own]
        assert other.read < other.number
        assert files_in(own) == before
        assert files_in(temporary) == {}


CUT = {
    "nothing": b"",
    "no status": b"hello\r\n\r\n",
    "half a body": b"HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{",
    "half a part": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nab",
    "no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "a long head": b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 200 + b"\r\n",
    "half a refusal": b"HTTP/1.1 503 Busy\r\nContent-Length: 900\r\n\r\nwait",
    "a page": b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
    "another JSON": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
    "half of JSON": b'HTTP/1.1 200 OK\r\n\r\n{"files":',
    "odd sizes": b'HTTP/1.1 200 OK\r\n\r\n{"files": [1]}',
}


@pytest.mark.parametrize("answer", CUT.values(), ids=CUT)
def test_an_answer_that_is_none_is_named(tmp_path: Path, answer: bytes) -> None:
    """Whatever comes in its place: the address is named, and nothing is merged."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for _ in range(3):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = Thread(target=serve)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with memdb.open(tmp_path / "a.db", embedder=None) as db:
            calls = (db.sync, lambda url: db.sync(url, dry_run=True), db.sync_status)
            for call in calls:
                with pytest.raises(memdb.FileError, match=url):
                    call(url)
        thread.join()


def test_a_server_takes_and_gives_only_files_of_a_sync(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token of one user, other names and parts that do not follow are refused by their fault."""
    meeting = tmp_path / "meeting"
    part = {"at": 0, "data": b64encode(b"x").decode(), "whole": True}
    mark, other = f"{API}/memdb-sync.json", f"{API}/{'a' * 16}/000001.jsonl.gz"
    with (
        memdb.open(tmp_path / "host.db", embedder=None) as db,
        running(db, tmp_path / "t.json", meeting_place=str(meeting)) as found,
    ):
        every, ann = found.client(None), found.client("ann")
        cases = [
            (ann, "GET", API, None, 403),
            (ann, "PUT", mark, part, 403),
            (ann, "GET", mark, None, 403),
            (every, "GET", mark, None, 404),
            (every, "PUT", f"{API}/../host.db", part, 422),
            (every, "PUT", f"{API}/{'a' * 16}/..%2f..%2fx", part, 422),
            (every, "GET", f"{API}/host.db", None, 422),
            (every, "PUT", other, {**part, "at": 5}, 422),
            (every, "PUT", other, {**part, "at": -1}, 422),
            (every, "PUT", other, {**part, "data": "?"}, 422),
            (every, "PUT", other, {"data": ""}, 422),
            (every, "POST", other, part, 405),
            (every, "PUT", mark, part, 204),
            (every, "DELETE", mark, None, 204),
            (every, "DELETE", mark, None, 404),
        ]
        wrong = []
        for client, method, path, body, status in cases:
            answer = client.send(method, path, body)
            if answer.status != status:
                wrong.append((method, path, body, answer.status, answer.body[:200]))
        assert wrong == []
        url = f"http://127.0.0.1:{found.port}"
        monkeypatch.setenv("MEMDB_SYNC_TOKEN", ann.token)
        with pytest.raises(memdb.FileError, match="403"):
            db.sync(url)
    with memdb.open(tmp_path / "host.db", embedder=None) as db:
        with pytest.raises(memdb.FileError, match="cannot be reached"):
            db.sync(url)
        assert db.user("ann").sessions() == []
    with memdb.open(":memory:", embedder=None) as db, pytest.raises(memdb.InvalidInput):
        db.sync(url)
