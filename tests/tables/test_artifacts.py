"""The rooms of artifacts and blobs."""

import hashlib
from typing import Any

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.tables import artifacts, blobs, scopes
from memdb.tables.artifacts import SHARED, Place

SAID = {"text": "words", "bigrams": None}


@pytest.fixture
def tx(database: SqliteEngine) -> Any:
    """Return a write with a scope."""
    with database.write() as tx:
        scopes.ensure(tx, "app", "ann", "u")
        yield tx


def blob(tx: Tx, data: bytes) -> int:
    """Store a blob of one chunk."""
    number = blobs.add(tx, hashlib.sha256(data).digest(), len(data))
    blobs.add_chunk(tx, number, 0, len(data), blobs.pack(data))
    return number


def save(tx: Tx, place: Place, version: int, blob_no: int) -> None:
    """Add a version, and its name where it is the first."""
    if artifacts.find_name(tx, place) is None:
        artifacts.add_name(tx, scopes.next_id(tx, place.scope_no), place, version, SAID)
    row = {
        "uid": f"{place.name}-{version}",
        "blob_no": blob_no,
        "size_bytes": 1,
        "mime": "text/plain",
        "metadata": '{"a":1}',
        "message_id": None,
        "writer": "mail",
        "created_ms": version,
    }
    artifacts.add(tx, place, version, row)


def test_find_gives_the_newest_or_the_numbered(tx: Tx) -> None:
    """None for a number or name that is not there."""
    place = Place(1, SHARED, "user:a")
    number = blob(tx, b"x")
    [save(tx, place, version, number) for version in (1, 2, 10)]

    found = [artifacts.find(tx, place, version) for version in (None, 2, 3)]

    assert [one and one.info.version for one in found] == [10, 2, None]
    assert artifacts.find(tx, Place(1, SHARED, "user:b")) is None
    assert [one.info.version for one in artifacts.versions(tx, place)] == [10, 2, 1]


def test_a_version_has_its_facts(tx: Tx) -> None:
    """Metadata as a dict, the hash in hexadecimal."""
    place = Place(1, SHARED, "user:a")
    save(tx, place, 1, blob(tx, b"x"))
    stored = artifacts.find(tx, place)

    assert stored is not None
    assert (stored.info.metadata, stored.info.sha256) == (
        {"a": 1},
        hashlib.sha256(b"x").hexdigest(),
    )
    assert (stored.info.session, stored.info.message_seq, stored.info.created_ms) == (None, None, 1)


def test_a_version_is_never_replaced(database: SqliteEngine, tx: Tx) -> None:
    """The same number twice is refused."""
    place = Place(1, SHARED, "user:a")
    number = blob(tx, b"x")
    save(tx, place, 1, number)

    with pytest.raises(memdb.StorageError), database.write() as inner:
        save(inner, place, 1, number)
        inner.one("SELECT 1")  # a server answers all at once


def test_a_blob_in_use_cannot_go(database: SqliteEngine, tx: Tx) -> None:
    """Not by mistake, and not by SQL."""
    place = Place(1, SHARED, "user:a")
    number = blob(tx, b"x")
    save(tx, place, 1, number)
    blobs.delete_if_unused(tx, number)

    assert blobs.read(tx, number) == b"x"
    with pytest.raises(memdb.StorageError), database.write() as inner:
        inner.run("DELETE FROM blobs")
        inner.one("SELECT 1")  # a server answers all at once


def test_names_are_those_with_a_version(tx: Tx) -> None:
    """Places list the empty ones too: their counter lives on."""
    number = blob(tx, b"x")
    full, empty = Place(1, SHARED, "user:full"), Place(1, SHARED, "user:empty")
    save(tx, full, 1, number)
    save(tx, empty, 3, number)
    artifacts.delete(tx, [(empty, 3, "uid")])
    (name_id, _), (gone_id, _) = artifacts.find_name(tx, full), artifacts.find_name(tx, empty)

    assert artifacts.places(tx, 1) == [(empty, gone_id, 3), (full, name_id, 1)]
    assert set(artifacts.get_many(tx, [name_id, gone_id])) == {name_id}


def test_delete_leaves_a_tombstone(tx: Tx) -> None:
    """With name and number."""
    place = Place(1, SHARED, "user:a")
    save(tx, place, 4, blob(tx, b"x"))
    artifacts.delete(tx, [(place, 4, "user:a-4")])

    assert artifacts.find(tx, place) is None
    assert tx.all("SELECT uid, kind, ref FROM tombstones") == [("user:a-4", "artifact", "user:a@4")]


@pytest.mark.parametrize(
    ("data", "codec"),
    [(b"a" * 1_000, "zlib"), (bytes(range(256)), "raw"), (b"x", "raw")],
    ids=["compresses", "does not", "short"],
)
def test_a_chunk_is_compressed_where_it_pays(tx: Tx, data: bytes, codec: str) -> None:
    """And reads back the same."""
    number = blob(tx, data)

    assert blobs.pack(data)[0] == codec
    digest = hashlib.sha256(data).digest()
    assert (blobs.read(tx, number), blobs.read_chunk(tx, number, 0, digest)) == (data, data)
    assert blobs.read_chunk(tx, number, 1, digest) is None
    assert blobs.read_chunk(tx, number, 0, hashlib.sha256(b"other").digest()) is None


def test_a_blob_is_found_when_it_is_complete(tx: Tx) -> None:
    """Before, it has no hash."""
    sha = hashlib.sha256(b"x").digest()
    number = blobs.add(tx, None, 0)
    before = blobs.find(tx, sha)
    blobs.add_chunk(tx, number, 0, 1, ("raw", b"x"))
    blobs.complete(tx, number, sha, 1)

    assert (before, blobs.find(tx, sha)) == (None, number)


def test_damaged_blobs_are_named(tx: Tx) -> None:
    """Other bytes, broken compression, a missing chunk."""
    numbers = [blob(tx, data * 300) for data in (b"a", b"b", b"c", b"d")]
    tx.run(
        "UPDATE blob_chunks SET data = :zero WHERE blob_no = :n", {"zero": b"\0", "n": numbers[1]}
    )
    tx.run(
        "UPDATE blob_chunks SET data = :zero, codec = 'raw' WHERE blob_no = :n",
        {"zero": b"\0", "n": numbers[2]},
    )
    tx.run("DELETE FROM blob_chunks WHERE blob_no = :n", {"n": numbers[3]})

    assert list(blobs.damaged(tx)) == numbers[1:]


def test_delete_stale_takes_the_unused_and_the_old_unfinished(tx: Tx) -> None:
    """A young unfinished one belongs to a writer at work."""
    used, unused = blob(tx, b"used"), blob(tx, b"unused")
    save(tx, Place(1, SHARED, "user:a"), 1, used)
    young, old = blobs.add(tx, None, 0), blobs.add(tx, None, 0)
    tx.run(
        "UPDATE blobs SET created_ms = :ms WHERE blob_no = :n",
        {"ms": tx.now_ms - blobs.STALE_MS - 1, "n": old},
    )

    assert blobs.delete_stale(tx) == 2
    assert tx.all("SELECT blob_no FROM blobs ORDER BY 1") == [(used,), (young,)]
    assert unused not in (used, young)
