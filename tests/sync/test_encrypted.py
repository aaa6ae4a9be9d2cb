"""Encrypted files sync by segments that nobody reads without the pairing key."""

from __future__ import annotations

import json
import zlib
from contextlib import suppress
from pathlib import Path

import apsw
import pytest
from simulator import canonical

import memdb
from memdb.engine.sqlite import cipher
from memdb.errors import CipherMissing, InvalidInput
from memdb.models.keys import FileKey
from memdb.sync import service

needs_cipher = pytest.mark.skipif(
    not cipher.has_cipher(), reason="the package apsw cannot encrypt: run `make encrypted`"
)
needs_plain = pytest.mark.skipif(
    cipher.has_cipher(), reason="apsw-sqlite3mc is in the safe of apsw"
)
KEY = b"\3" * 32
WORDS = [f"{one}{two}walnut{number}" for one in "bdfgk" for two in "aeiou" for number in range(12)]


def _fill(db: memdb.MemDB) -> None:
    ann = db.user("ann")
    for number, word in enumerate(WORDS):
        if number % 4 == 0:
            ann.session("s").append("user", f"{word} is said")
        elif number % 4 == 1:
            ann.remember(f"{word} is true", key=f"k{number}")
        elif number % 4 == 2:
            ann.items.put(("n",), f"{number}", {"text": word})
        else:
            ann.artifacts.save("user:notes.md", word)


def _readable(folder: Path) -> str:
    """Return all bytes of a folder as text, and what any gzip member among them unpacks to."""
    found = b""
    for path in folder.rglob("*"):
        data = path.read_bytes() if path.is_file() else b""
        found += data
        start = data.find(b"\x1f\x8b\x08")
        while start >= 0:
            with suppress(zlib.error):
                found += zlib.decompressobj(31).decompress(data[start:])
            start = data.find(b"\x1f\x8b\x08", start + 1)
    return found.decode("latin-1")


@needs_cipher
def test_no_word_of_an_encrypted_file_stands_in_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0 of 300, neither in whole segments nor in one whose writer died; both devices are equal."""
    folder, plain = tmp_path / "folder", tmp_path / "plain"
    folder.mkdir()
    plain.mkdir()
    with (
        memdb.open(tmp_path / "a.db", key=KEY, embedder=None) as a,
        memdb.open(tmp_path / "b.db", key=b"\7" * 32, embedder=None) as b,
        memdb.open(tmp_path / "c.db", key="", embedder=None) as c,
        memdb.open(tmp_path / "d.db", key="", embedder=None) as d,
        memdb.open(tmp_path / "e.db", key=KEY, embedder=None) as e,
    ):
        _fill(a)
        with monkeypatch.context() as patch:
            patch.setattr(service, "publish", lambda _path: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                a.sync(folder)
        assert [word for word in WORDS if word in _readable(folder)] == []
        a.sync(folder)
        with a._services.db.read() as tx:
            key = service.load(tx)
        assert key is not None
        for db in (b, c):  # an encrypted folder stays so, whoever writes there
            db.sync(folder, pairing_key=key.key)
            db.user("ann").session("s").append("user", f"{WORDS[0]} again")
            db.sync(folder)
        for db in (a, b, a):
            db.sync(folder)
        assert canonical(a) == canonical(b) == canonical(c)
        assert [word for word in WORDS if word in _readable(folder)] == []
        segment = max(folder.rglob("*.gz.db"))
        with pytest.raises(apsw.NotADBError):
            list(cipher.read_stream(str(segment), FileKey(KEY)))
        _fill(d)
        other = d.sync(plain).key
        assert [word for word in WORDS if word not in _readable(plain)] == []
        with pytest.raises(InvalidInput, match="has unencrypted segments"):
            e.sync(plain, pairing_key=other)


@needs_plain
def test_a_build_without_the_cipher_joins_no_encrypted_folder(tmp_path: Path) -> None:
    """It raises CipherMissing, and writes nothing."""
    folder = tmp_path / "folder"
    folder.mkdir()
    mark = {"memory": "0" * 16, "format": 1, "encrypted": True}
    with memdb.open(tmp_path / "a.db", embedder=None) as db:
        key = db.sync(folder).key
        own = json.loads((folder / "memdb-sync.json").read_text())
        (folder / "memdb-sync.json").write_text(json.dumps({**mark, "memory": own["memory"]}))
        before = sorted(folder.rglob("*"))
        with memdb.open(tmp_path / "b.db", embedder=None) as other:
            for one, given in ((db, None), (other, key)):
                with pytest.raises(CipherMissing):
                    one.sync(folder, pairing_key=given)
        assert sorted(folder.rglob("*")) == before
