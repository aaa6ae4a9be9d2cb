"""Words in the leaves of FTS5, whose terms are stored without what they share with the one before."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import memdb
from memdb.engine.sqlite import proof as proofs
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.engine.sqlite.index_words import find_in_leaves, leaf_terms

SECRET = "zxqsecret12345678"
LETTERS = "zxq1"


@pytest.fixture
def db(tmp_path: Path) -> Iterator[memdb.MemDB]:
    """Yield a database that merges no parts, with many leaves in each."""
    with memdb.open(tmp_path / "f.db", embedder=None) as database:
        configure(database, 200)
        yield database


def configure(db: memdb.MemDB, leaf_bytes: int) -> None:
    """Let the indexes merge nothing, and begin a leaf after so many bytes."""
    options = {"pgsz": leaf_bytes, "automerge": 0, "crisismerge": 1999}
    with engine(db).write() as tx:
        for name in ("messages_fts", "archived_fts", "entries_fts", "items_fts"):
            for option, value in options.items():
                tx.run(
                    f"INSERT INTO {name} ({name}, rank) VALUES (:option, :value)",
                    {"option": option, "value": value},
                )


def engine(db: memdb.MemDB) -> SqliteEngine:
    """Return the engine of a file."""
    assert isinstance(db._db, SqliteEngine)
    return db._db


def index_tail(db: memdb.MemDB) -> None:
    """Put the words of messages that wait into the index, as a part of their own."""
    with engine(db).write() as tx:
        tx.words.move_tail()


def held(db: memdb.MemDB, words: set[str]) -> set[str]:
    """Return those of *words* that the indexes hold, by the code that a proof asks."""
    with engine(db).read() as tx:
        return find_in_leaves(tx, words)[0]


def similar(source: random.Random, words: list[str]) -> str:
    """Return a word that begins as one of *words*, by any length."""
    start = source.choice(words) if words else ""
    start = start[: source.randint(0, len(start))]
    return start + "".join(source.choices(LETTERS, k=source.choice((1, 2, 8, 30, 150))))


@pytest.mark.parametrize("leaf_bytes", [64, 200, 4050])
def test_every_word_of_every_part_is_found_and_no_other(db: memdb.MemDB, leaf_bytes: int) -> None:
    """Random words that begin alike, at all places of leaves, of rows that stay or are dropped."""
    source = random.Random(leaf_bytes)
    configure(db, leaf_bytes)
    session = db.scope("ann").session("s")
    words: list[str] = []
    for _ in range(6):
        some = [similar(source, words) for _ in range(40)]
        words += some
        session.extend([{"role": "user", "text": one} for one in some])
        index_tail(db)
    gone = source.sample(range(1, len(words) + 1), 120)
    session.forget(gone)

    kept = {one for place, one in enumerate(words, 1) if place not in gone}
    others = {one[: source.randint(1, len(one))] for one in words}
    others |= {one[:-1] + source.choice(LETTERS) for one in words} | {one + "z" for one in words}
    found = held(db, {*words, *others})
    assert found == kept


def keys(db: memdb.MemDB) -> set[str]:
    """Return the keys by which leaves of messages are found."""
    with engine(db).read() as tx:
        return {key[1:].decode() for (key,) in tx.all("SELECT term FROM messages_fts_idx")}


def test_a_proof_finds_a_word_that_is_a_key_of_the_leaves(
    db: memdb.MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FTS5 takes a word out of its leaf, but leaves the key by which the leaf is found."""
    configure(db, 64)
    session = db.scope("ann").session("s")
    texts = [f"zxqsecret{number}" for number in range(12345600, 12345700)]
    session.extend([{"role": "user", "text": one} for one in texts])
    index_tail(db)
    here = keys(db) & {*texts}
    assert here
    word = min(here)
    monkeypatch.setattr(proofs, "purge", lambda _: [])

    receipt = session.forget(texts.index(word) + 1, prove=True)

    assert not receipt.proven


def test_a_key_that_begins_a_word_of_another_row_is_no_remainder(db: memdb.MemDB) -> None:
    """The proof would never hold otherwise: that row stays, and so may the key."""
    configure(db, 64)
    ann, bob = db.scope("ann").session("s"), db.scope("bob").session("s")
    texts = [f"ZXQSECRET{number}9" for number in range(12345600, 12345700)]
    bob.extend([{"role": "user", "text": one} for one in texts])
    index_tail(db)
    beginnings = sorted(keys(db) & {one[:-1].lower() for one in texts})
    assert beginnings
    ann.append("user", beginnings[0])

    receipt = ann.forget(1, prove=True)

    assert receipt.proven
    assert beginnings[0] in keys(db)


@pytest.mark.parametrize("leaf", [b"", b"\0\0\0\0", b"\0\0\0\xff", b"\0\0\0\x06\x05z\x04\x01"])
def test_a_leaf_that_is_not_as_the_format_says(leaf: bytes) -> None:
    """It raises, so that every word counts as held."""
    with pytest.raises(IndexError):
        list(leaf_terms(leaf))
