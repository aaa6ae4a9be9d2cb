"""A newer memdb migrates a file or database that an older one has open: the older one writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from writes import WRITES

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

# Writes of other files than the one that is open.
ELSEWHERE = ("backup", "create a file", "migrate", "restore", "recover")


def test_no_public_write_reaches_a_file_that_a_newer_program_migrated(
    opened: Callable[[str], MemDB], dump: Any, set_format: Callable[[MemDB, int], None]
) -> None:
    """Each call that would change a row raises SchemaTooNew; afterwards the file is as it was."""
    db = opened("agent.db")
    db.scope("ann").session("trip").append("user", "this handle has written")
    before = dump(db.path)
    set_format(db, 99)
    not_refused = set()
    for name in [name for name in WRITES if name not in ELSEWHERE]:
        try:
            WRITES[name].act(db)
            not_refused.add(name)
        except memdb.SchemaTooNew:
            continue

    assert not_refused <= {name for name, write in WRITES.items() if write.optional}
    assert dump(db.path) == before
    set_format(db, 1)
    assert db.scope("ann").session("trip").append("user", "the old format again").seq


# What a newer format may have done to the tables that an older program reads.
CHANGES = (
    "ALTER TABLE messages RENAME COLUMN text TO said",
    "ALTER TABLE sessions RENAME COLUMN last_seq TO newest_seq",
    "ALTER TABLE entries RENAME COLUMN category TO kind",
    "DROP TABLE state",
)


def read_each(db: MemDB) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the reads of an open file."""
    ann = db.scope("ann")
    chat = ann.session("trip")
    yield "last", lambda: chat.last(5)
    yield "messages", lambda: [*chat.messages()]
    yield "recall", lambda: ann.recall("tea")
    yield "context", lambda: chat.context(2000, query="tea")
    yield "entries", lambda: ann.entries.list()
    yield "sessions", lambda: [*ann.sessions()]
    yield "state", lambda: ann.state.all()
    yield "export", lambda: [*db.export_lines()]


@pytest.mark.parametrize("change", CHANGES)
def test_no_public_read_calls_the_rows_of_a_newer_program_damaged(
    path: str, open_db: Callable[..., MemDB], raw: Callable[[str], Any], change: str
) -> None:
    """Each call reads what it knows, or says that the file is of a newer format."""
    db = open_db(path)
    db.scope("ann").session("trip").append("user", "We had green tea.")
    db.scope("ann").remember("Ann likes tea.")
    db.scope("ann").state["tea"] = "green"
    other = raw(path)
    other.execute(change)
    other.execute("PRAGMA user_version = 99")
    refused, wrong = [], []
    for name, read in read_each(db):
        try:
            read()
        except memdb.SchemaTooNew:
            refused.append(name)
        except memdb.MemDBError as error:
            wrong.append((name, error))
    other.execute("PRAGMA user_version = 1")

    assert wrong == []
    assert refused
