"""What hangs on what: every public removal takes it along, and `check` names what was left."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB, Session
from memdb.adapters.host import Host
from memdb.engine.sqlite.engine import SqliteEngine
from memdb.text.terms import word_terms

KEY = "foreign_key"

# By kind of thing: the tables whose rows go with it, and the finding of `check` for one whose
# thing is gone.
DEPENDENTS: dict[str, dict[str, str]] = {
    "session": {
        "messages": "message_without_session",
        "summaries": KEY,
        "archive_segments": KEY,
        "artifact_names": "artifact_without_session",
        "state": "state_without_session",
        "sessions_fts": "sessions_fts",
        "entries": "entry_without_session",  # those that only it recalls
        "jobs": "job_without_subject",
    },
    "message": {
        "vectors": "vector_without_row",
        "messages_fts": "messages_fts",
        "messages_fts_tail": "tail_without_message",
        "archived_fts": "archived_fts",
        "archive_segments": "segment_rows",
        "jobs": "job_without_subject",
    },
    "summary": {
        "vectors": "vector_without_row",
        "summaries_fts": "summaries_fts",
        "jobs": "job_without_subject",
    },
    "entry": {
        "entry_history": KEY,
        "entry_links": KEY,
        "vectors": "vector_without_row",
        "entries_fts": "entries_fts",
        "jobs": "job_without_subject",
    },
    "artifact": {
        "artifacts": KEY,
        "artifacts_fts": "artifacts_fts",
        "blobs": "blob_unused",
    },
    "item": {
        "item_namespaces": "namespace_without_item",
        "items_fts": "items_fts",
        "vectors": "vector_without_row",
        "jobs": "job_without_subject",
    },
    "namespace": {"items": KEY},
    "blob": {"blob_chunks": KEY},
    "space": {
        "vectors": "vector_without_row",
        "vector_groups": "sketch_differs",
        "jobs": "job_without_space",
    },
}

WORD = "pelican"
TABLES = sorted({table for tables in DEPENDENTS.values() for table in tables} | {"sessions"})

# Tables whose rows are counted by the word that the removed things hold, and what they index.
INDEXED = {
    "messages_fts": "message",
    "archived_fts": "message",
    "summaries_fts": "summary",
    "entries_fts": "entry",
    "artifacts_fts": "artifact",
    "items_fts": "item",
    "sessions_fts": "session",
}

# What only files have.
OF_FILES = {"vector_groups"}

# A word that no removed thing holds.
KEPT = "heron"


def fill(db: MemDB, user: str, name: str, word: str) -> Session:
    """Return a session with everything that can hang on one."""
    ann = db.scope(user)
    chat = ann.session(name)
    chat.create(title=f"{word} 北京")
    chat.extend([{"role": "user", "text": f"{word} 北京 {n}"} for n in range(1, 41)])
    chat.state["mood"] = word
    ann.items.put((word,), "k", {"text": f"{word} 北京"})
    chat.artifacts.save("n.txt", word)
    chat.artifacts.save("n.txt", f"{word} twice")
    ann.remember(f"Ann saw a {word}.", session=name, seq=3, key=f"{name} sight")
    ann.remember(f"Ann saw a white {word}.", session=name, seq=4, key=f"{name} sight")
    ann.remember(f"Only here a {word}.", session=name, seq=5, session_only=True)
    db.jobs.run()
    chat.archive(keep_last=20)
    with db._db.write() as tx:
        tx.words.move_tail()
    chat.extend([{"role": "user", "text": f"{word} late {n}"} for n in range(12)])
    return chat


def counts(db: MemDB) -> dict[str, int]:
    """Return how many rows each table holds; of an index, those with a word."""
    found = {}
    in_file = isinstance(db._db, SqliteEngine)
    (term,) = word_terms([WORD])
    with db._db.read() as tx:
        for table in TABLES:
            sql = f"SELECT count(*) FROM {table}"
            if table in INDEXED and in_file:
                found[table] = tx.one(f"{sql} WHERE {table} MATCH '{WORD}'")[0]
            elif table in INDEXED:
                found[table] = len(tx.words.postings(INDEXED[table], [term], 0, 1 << 62)[term])
            elif in_file or table not in OF_FILES:
                found[table] = tx.one(sql)[0]
    return found


def idle(db: MemDB, action: str) -> None:
    """Let retention remove the sessions that were longest without a message."""
    from memdb.deletion.service import retain_sessions
    from memdb.models.settings import Settings

    services = db._services
    services = (db._db, services.conversations, services.archivist, services.deletion)
    retain_sessions(*services, Settings(session_max_count=0, session_retention=action))


def expire(db: MemDB) -> None:
    """Let retention remove what is inactive."""
    from memdb.entries.lifecycle import remove_inactive

    for entry in db.scope("ann").entries.list():
        db.scope("ann").remember("It is over.", key=entry.key or "none")
    remove_inactive(db._db, 0)


# Each public removal of a whole session: what it leaves of that session's rows.
WHOLE: dict[str, Callable[[MemDB, Session], object]] = {
    "session.delete": lambda _db, chat: chat.delete(),
    "session.forget": lambda _db, chat: chat.forget(),
    "scope.forget(session)": lambda db, _: db.scope("ann").forget(session="s"),
    "scope.forget(everything)": lambda db, _: db.scope("ann").forget(everything=True),
    "retention deletes": lambda db, _: idle(db, "delete"),
    "retention forgets": lambda db, _: idle(db, "forget"),
}

# Removals of messages, which leave the session.
MESSAGES: dict[str, Callable[[MemDB, Session], object]] = {
    "pop": lambda _db, chat: [chat.pop() for _ in range(52)],
    "replace": lambda _db, chat: chat.replace(range(1, 53)),
    "clear": lambda _db, chat: chat.clear(),
    "forget(seqs)": lambda _db, chat: chat.forget(range(1, 53)),
    "scope.forget(query)": lambda db, _: db.scope("ann").forget(query=WORD),
}

# Removals of other things.
OTHERS: dict[str, Callable[[MemDB, Session], object]] = {
    "erase": lambda _db, chat: [Host(chat).erase(seq) for seq in range(1, 53)],
    "entries.delete": lambda db, _: [
        db.scope("ann").entries.delete(one.id)
        for one in db.scope("ann").entries.list(inactive=True)
    ],
    "scope.forget(entry)": lambda db, _: [
        db.scope("ann").forget(entry=one.id) for one in db.scope("ann").entries.list(inactive=True)
    ],
    "artifacts.delete": lambda _db, chat: chat.artifacts.delete("n.txt"),
    "items.delete": lambda db, _: [
        db.scope("ann").items.delete(one.namespace, one.key) for one in db.scope("ann").items.list()
    ],
    "state.clear": lambda _db, chat: chat.state.clear(),
    "quota and retention of entries": lambda db, _: expire(db),
    "delete_space": lambda db, _: db.file.delete_space("fake"),
}

EVERY = {**WHOLE, **MESSAGES, **OTHERS}


@pytest.fixture
def full(db: MemDB) -> tuple[MemDB, dict[str, int], Session]:
    """Return a file with another user's things, their counts, and the session to remove."""
    fill(db, "bob", "s", KEPT)
    db.jobs.run()
    with db._db.write() as tx:  # the other fill moves it else
        tx.words.move_tail()
    before = counts(db)
    return db, before, fill(db, "ann", "s", WORD)


@pytest.mark.parametrize("name", WHOLE)
def test_with_a_session_goes_all_that_hangs_on_it(
    full: tuple[MemDB, dict[str, int], Session], name: str
) -> None:
    """Every table holds what it held before the session was made; but for entries told in it."""
    db, before, chat = full
    entries_before = counts(db)["entries"]
    WHOLE[name](db, chat)

    after = counts(db)
    told = after["entries"] - before["entries"]
    kept = "delete" in name
    apart = {
        *("items", "item_namespaces", "items_fts"),  # they belong to no session
        "entries",
        "entries_fts",
        "entry_history",
        "entry_links",
        "vectors",
        "vector_groups",
        "jobs",
    }
    if name.startswith("retention"):  # it takes the other user's session too
        gone = ("sessions", "messages", "summaries", "artifacts", "blobs", "state")
        assert [after[table] for table in gone] == [0] * len(gone)
    else:
        assert {key: value for key, value in after.items() if key not in apart} == {
            key: value for key, value in before.items() if key not in apart
        }
    if not kept:
        assert after["entries_fts"] == 0
        assert told <= 0
    assert after["entries"] < entries_before
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("name", MESSAGES)
def test_with_messages_go_their_words_vectors_copies_and_summaries(
    full: tuple[MemDB, dict[str, int], Session], name: str
) -> None:
    """Nothing that was derived from them says anything of them."""
    db, before, chat = full
    MESSAGES[name](db, chat)

    after = counts(db)
    gone = ("messages", "archive_segments", "messages_fts", "archived_fts", "summaries_fts")
    assert {table: after[table] for table in gone} == {table: before[table] for table in gone}
    with db._db.read() as tx:
        refs = {ref for ref, _ in tx.vectors.list_page(1, "message", 0, 1 << 62, 10_000)}
        ids = {row[0] for row in tx.all("SELECT id FROM messages")}
    assert refs <= ids
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("name", EVERY)
def test_no_removal_leaves_an_orphan(
    full: tuple[MemDB, dict[str, int], Session], name: str
) -> None:
    """`check` finds nothing, now and after the work that was due."""
    db, _, chat = full
    EVERY[name](db, chat)

    now = db.file.check(deep=True)
    db.jobs.run()
    assert (now, db.file.check(deep=True)) == ([], [])


# For each thing and table: SQL that leaves a row of the table behind.
ORPHANS = {
    ("session", "messages"): "DELETE FROM sessions",
    ("session", "summaries"): "DELETE FROM sessions",
    ("session", "archive_segments"): "DELETE FROM sessions",
    ("session", "artifact_names"): "DELETE FROM sessions",
    ("session", "state"): "DELETE FROM sessions",
    (
        "session",
        "entries",
    ): "DELETE FROM sessions; UPDATE entries SET session_id = NULL, first_seq = NULL, last_seq = NULL",
    ("session", "sessions_fts"): "DELETE FROM sessions",
    ("session", "jobs"): "DELETE FROM sessions",
    ("message", "vectors"): "DELETE FROM messages",
    ("message", "messages_fts"): "DELETE FROM messages WHERE text IS NOT NULL",
    ("message", "messages_fts_tail"): "INSERT INTO messages_fts_tail (id) VALUES (5)",
    ("message", "archived_fts"): "DELETE FROM messages WHERE text IS NULL",
    ("message", "archive_segments"): "DELETE FROM messages WHERE text IS NULL",
    (
        "message",
        "jobs",
    ): "INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('embed', 'message', 5, 0)",
    (
        "summary",
        "vectors",
    ): (
        "INSERT INTO vector_groups (id, space_no, kind, bucket, slots, planes) "
        "SELECT 1 << 40, space_no, 'summary', 0, x'05', planes FROM vector_groups LIMIT 1; "
        "INSERT INTO vectors (id, vector) SELECT 1 << 40 | 5, vector FROM vectors LIMIT 1"
    ),
    ("summary", "summaries_fts"): "DELETE FROM summaries",
    (
        "summary",
        "jobs",
    ): "INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('summarize', 'summary', 5, 0)",
    ("entry", "entry_history"): "DELETE FROM entries",
    ("entry", "entry_links"): "DELETE FROM entries",
    ("entry", "vectors"): "DELETE FROM entries",
    ("entry", "entries_fts"): "DELETE FROM entries",
    (
        "entry",
        "jobs",
    ): "INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('embed', 'entry', 5, 0)",
    ("artifact", "artifacts"): "DELETE FROM artifact_names",
    ("artifact", "artifacts_fts"): "DELETE FROM artifact_names",
    ("artifact", "blobs"): "DELETE FROM artifacts",
    ("item", "item_namespaces"): "DELETE FROM items",
    ("item", "items_fts"): "DELETE FROM items",
    ("item", "vectors"): "DELETE FROM items",
    (
        "item",
        "jobs",
    ): "INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('embed', 'item', 5, 0)",
    ("namespace", "items"): "DELETE FROM item_namespaces",
    ("blob", "blob_chunks"): "DELETE FROM blobs",
    ("space", "vectors"): "DELETE FROM embedding_spaces",
    ("space", "vector_groups"): "DELETE FROM embedding_spaces; DELETE FROM vectors",
    ("space", "jobs"): "DELETE FROM embedding_spaces",
}


def test_every_orphan_is_planted() -> None:
    """A new line of the table needs its orphan here."""
    assert set(ORPHANS) == {
        (kind, table) for kind, tables in DEPENDENTS.items() for table in tables
    }


@pytest.mark.parametrize(("kind", "table"), ORPHANS)
def test_check_names_every_orphan(
    path: str, open_db: Callable[..., MemDB], raw: Any, kind: str, table: str
) -> None:
    """With the code of the table, and rebuild mends just what is derived."""
    db = open_db(path)
    fill(db, "ann", "s", WORD)
    db.close()
    connection = raw(path)
    connection.execute("PRAGMA foreign_keys = OFF").fetchall()
    connection.execute(ORPHANS[kind, table]).fetchall()
    connection.close()
    code = DEPENDENTS[kind][table]
    db = open_db(path)

    found = {one.code: one.rebuildable for one in db.file.check(deep=True)}
    db.file.rebuild()

    is_truth = (
        code == KEY
        or table in ("artifact_names", "state", "entries")
        or ((kind, table) in (("session", "messages"), ("message", "archive_segments")))
    )
    assert found[code] is not is_truth
    assert (code in {one.code for one in db.file.check(deep=True)}) is is_truth


def test_a_state_of_an_imported_session_makes_the_session(db: MemDB, tmp_path: Any) -> None:
    """So that it goes with it."""
    file = tmp_path / "x.jsonl"
    line = '{"kind":"state","session":"s","key":"k","value":1,"version":1,"updated_ms":5}\n'
    file.write_text(line, encoding="utf-8")
    db.import_file(file, user="ann", format="jsonl")

    assert [one.name for one in db.scope("ann").sessions()] == ["s"]
    assert memdb.__version__
