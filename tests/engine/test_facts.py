"""What an append does not ask again holds until anybody else writes, or something is undone."""

from collections.abc import Callable
from typing import Any

import apsw
import pytest

from memdb import MemDB, StorageError

SAYS = {"role": "user", "text": "hello"}


def append(db: MemDB, session: str = "s") -> int:
    """Append a message and return its seq."""
    return db.scope("ann").session(session).append(**SAYS).seq


def embed_jobs(db: MemDB) -> int:
    """Return how many sessions wait for vectors."""
    sql = "SELECT count(*) FROM jobs WHERE kind = 'embed' AND subject = 'session'"
    with db._db.read() as tx:
        row = tx.one(sql)
    return int(row[0]) if row else 0


# What another connection, or this one, may do between two appends to a session.
CHANGES: dict[str, Callable[[MemDB], object]] = {
    "delete the session": lambda db: db.scope("ann").session("s").delete(),
    "forget everything": lambda db: db.scope("ann").forget(everything=True),
    "do the work": lambda db: db.jobs.run(),
    "drop the space": lambda db: db.file.delete_space("fake"),
    "clear": lambda db: db.scope("ann").session("s").clear(),
    "move the tail": lambda db: db.file.check(),
    "rebuild": lambda db: db.file.rebuild(),
    "append": append,
    "append elsewhere": lambda db: append(db, "other"),
    "vacuum": lambda db: db.file.vacuum(),
}


@pytest.mark.parametrize("by", ["itself", "another"])
@pytest.mark.parametrize("change", CHANGES)
def test_an_append_after_a_change_is_whole(
    path: str, open_db: Callable[..., MemDB], embedder: Any, change: str, by: str
) -> None:
    """It lands in a session that is there, is due for embedding and found by its words."""
    db = open_db(path, embedder=embedder)
    append(db)
    append(db)
    other = open_db(path, embedder=embedder) if by == "another" else db
    CHANGES[change](other)

    append(db)
    append(other)

    chat = db.scope("ann").session("s")
    assert [one.text for one in chat.last(2)] == ["hello", "hello"]
    assert embed_jobs(db) >= 1
    assert db.file.check(deep=True) == []
    db.jobs.run()
    assert embed_jobs(db) == 0
    assert db.file.check(deep=True) == []


def test_facts_of_a_write_that_is_undone_are_forgotten(db: MemDB) -> None:
    """Its session, its jobs, and how long the tail was."""
    append(db, "first")
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), db.transaction():
            append(db)
            _ = 1 // 0
        assert db.scope("ann").sessions("s") == []
    with db.transaction():
        with pytest.raises(ZeroDivisionError), db.transaction():
            append(db)
            _ = 1 // 0
        append(db)

    assert append(db) == 2
    assert db.file.check(deep=True) == []


def test_a_write_inside_the_same_transaction_counts_too(db: MemDB) -> None:
    """A session that was deleted in it is made anew."""
    append(db)
    with db.transaction():
        append(db)
        db.scope("ann").session("s").delete()
        append(db)
        append(db)

    assert len(db.scope("ann").session("s").last(9)) == 2
    assert db.file.check(deep=True) == []


def test_an_append_asks_nothing_twice(db: MemDB) -> None:
    """Between BEGIN and COMMIT it writes the session, the message and the tail."""
    append(db)
    append(db)
    asked: list[str] = []
    pool = db._db.pool
    writer = pool.take_writer()
    writer.raw.exec_trace = lambda _cursor, sql, _values: not asked.append(sql.split("\n")[0])
    pool.give_back_writer(writer)

    append(db)

    assert [one for one in asked if "*/" in one or "PRAGMA" in one] == [
        "/* sessions.advance */",
        "/* messages.insert */",
        "/* tail.insert */",
    ]


def test_an_error_forgets_them(db: MemDB) -> None:
    """Whatever a failed statement left."""
    append(db)
    append(db)
    pool = db._db.pool
    writer = pool.take_writer()
    pool.give_back_writer(writer)
    assert writer.known()

    with db._db.write() as tx, pytest.raises(StorageError):
        tx.run("SELECT nothing FROM")

    assert not writer.known()
    assert append(db) == 3


def test_another_program_may_write_too(
    path: str, open_db: Callable[..., MemDB], raw: Callable[[str], apsw.Connection]
) -> None:
    """SQLite tells of its commit, whoever makes it."""
    db = open_db(path)
    append(db)
    append(db)
    connection = raw(path)
    connection.execute("DELETE FROM messages_fts_tail").fetchall()
    connection.execute("INSERT INTO messages_fts (messages_fts) VALUES ('rebuild')").fetchall()
    connection.close()

    assert append(db) == 3
    assert db.file.check(deep=True) == []
