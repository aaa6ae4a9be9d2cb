"""Each rule of `check` finds the damage it is for, and `rebuild` mends what it says it does."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb import Corrupt, Finding, MemDB, NotFound
from memdb.api.scope import Scope
from memdb.engine.sqlite.words import INDEXES
from memdb.tables.checks import RULES

# code -> SQL that does the damage; the first ten are mended by rebuild.
REBUILDABLE = {
    "seq_above_last": "UPDATE sessions SET last_seq = 1",
    "version_above_last": "UPDATE artifact_names SET last_version = 1 WHERE name = 'menu.md'",
    "vector_without_row": "INSERT INTO vectors (id, vector) SELECT id + 177, vector FROM vectors WHERE id >> 8 IN (SELECT id >> 8 FROM vector_groups WHERE kind = 'entry') LIMIT 1",
    "vector_size": "UPDATE vectors SET vector = x'0000803f' WHERE id >> 8 IN (SELECT id >> 8 FROM vector_groups WHERE kind = 'entry')",
    "sketch_differs": "UPDATE vector_groups SET planes = zeroblob(length(planes))",
    "job_without_subject": "INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('embed', 'entry', 5, 0)",
    "job_without_space": "INSERT INTO jobs (kind, subject, ref, space_no, due_ms) SELECT 'embed', 'session', id, 77, 0 FROM sessions",
    "blob_unused": "INSERT INTO blobs (sha256, size_bytes, created_ms) VALUES (zeroblob(32), 0, 0)",
    "node_beyond_session": "UPDATE sessions SET last_seq = 0 WHERE name = 'long'",
    "messages_fts": "INSERT INTO messages_fts (rowid, text) VALUES (5, 'ghost')",
    "archived_fts": "INSERT INTO archived_fts (rowid, text) VALUES (5, 'ghost')",
    "entries_fts": "INSERT INTO entries_fts (entries_fts, rowid, text, keywords) SELECT 'delete', id, text, keywords FROM entries",
    "summaries_fts": "INSERT INTO summaries_fts (rowid, text) VALUES (5, 'ghost')",
    "artifacts_fts": "INSERT INTO artifacts_fts (rowid, name, text) VALUES (5, 'ghost', 'ghost')",
    "items_fts": "INSERT INTO items_fts (rowid, text) VALUES (5, 'ghost')",
    "tail_without_message": "INSERT INTO messages_fts_tail (id) VALUES (5)",
    "namespace_without_item": "INSERT INTO item_namespaces (id, scope_no, path) VALUES (1 << 44 | 999, 1, 'x')",
    "session_counts": "UPDATE sessions SET tokens = tokens + 1, archived_count = 7",
    "sessions_fts": "INSERT INTO sessions_fts (rowid, title) VALUES (5, 'ghost')",
}

FINAL = {
    "foreign_key": "UPDATE entries SET session_id = 5",
    "message_lost": "DELETE FROM messages WHERE id & 255 = 2",
    "message_without_session": "DELETE FROM sessions",
    "artifact_without_session": "DELETE FROM sessions",
    "state_without_session": "INSERT INTO state (app, user_name, session, key, value, updated_ms) VALUES ('default', 'ann', 'gone', 'k', '1', 0)",
    "branch_place": "INSERT INTO sessions (id, scope_no, uid, name, branch, parent_id, leaves_at, last_seq, created_ms, updated_ms) SELECT id | (1 << 43), scope_no, 'b', name, 'b', id, last_seq + 5, last_seq + 5, 0, 0 FROM sessions WHERE name = 'trip'",
    "branch_shares": "INSERT INTO sessions (id, scope_no, uid, name, branch, parent_id, leaves_at, shares, last_seq, created_ms, updated_ms) SELECT id | (1 << 43), scope_no, 'b', name, 'b', id, 0, json_array(json_array(1, 1, id + (7 << 24))), 5, 0, 0 FROM sessions WHERE name = 'trip'",
    "entry_without_session": "UPDATE entries SET session_only = 1, session_id = NULL",
    "message_hash": "UPDATE messages SET author = 'Eve' WHERE author IS NULL",
    "entry_hash": "UPDATE entries SET importance = 1",
    "archived_without_segment": "DELETE FROM archive_segments",
    "segment_rows": "UPDATE messages SET text = 'back' WHERE text IS NULL AND id & 255 = 1",
    "segment_overlap": "INSERT INTO archive_segments SELECT session_id, first_seq + 1, last_seq, message_count, codec, data, sha256, created_ms, 0 FROM archive_segments",
    "segment": "UPDATE archive_segments SET sha256 = zeroblob(32)",
    "summary_gap": "DELETE FROM summaries WHERE depth = 0 AND first_seq = 11",
    "summary_head": "DELETE FROM summaries WHERE depth = 0 AND first_seq = 1",
    "summary_sources": "UPDATE summaries SET condensed_into = NULL WHERE first_seq = 1 AND depth = 0",
    "summary_link": "UPDATE summaries SET condensed_into = id WHERE first_seq = 31",
    "summary_hash": "UPDATE summaries SET hint = 'other' WHERE first_seq = 31",
    "blob_hash": "UPDATE blob_chunks SET data = x'00', codec = 'raw'",
}

BACKUP_OR_REST = "memdb restore BACKUP FILE, or memdb recover FILE NEW"

# What the rules do not find: the finding, what is damaged, what to run.
OTHER_FINDINGS = [
    (Finding("page", "Tree 12 page 14: btreeInitPage() failed", False), "truth", BACKUP_OR_REST),
    (Finding("page", "database disk image is malformed", False), "truth", BACKUP_OR_REST),
    (
        Finding("page", "row 3 missing from index entries_key", False),
        "index",
        "memdb recover FILE NEW",
    ),
    (Finding("digest", "entries row 3 differs from its digest", False), "truth", BACKUP_OR_REST),
    (
        Finding("schema", "trigger t on messages is not memdb's", False),
        "schema",
        "memdb recover FILE NEW",
    ),
    (Finding("wal_missing", "its -wal is missing", False), "nothing", "memdb check FILE --accept"),
    (Finding("wal_held", "process 7 reads an old moment of the file", False), "nothing", ""),
]

MORE_DAMAGE = {
    "a missing vector's sketch": (
        "sketch_differs",
        "DELETE FROM vectors WHERE id >> 8 IN (SELECT id >> 8 FROM vector_groups WHERE kind = 'entry')",
    ),
    "a missing sketch": (
        "sketch_differs",
        "UPDATE vector_groups SET slots = substr(slots, 1, 1), planes = substr(planes, 1, 1)",
    ),
    "a missing group": (
        "vector_without_row",
        "DELETE FROM vector_groups WHERE kind = 'message'",
    ),
    "a row the index does not know": (
        "messages_fts",
        "UPDATE messages SET text = 'other words' WHERE id & 255 = 1",
    ),
    "a lost index row": (
        "messages_fts",
        "INSERT INTO messages_fts (messages_fts) VALUES ('delete-all')",
    ),
    "a lost message": ("messages_fts", "DELETE FROM messages WHERE id & 255 = 2"),
    "a vector of half a number": ("vector_size", "UPDATE vectors SET vector = x'00'"),
    "a vector that is too long": ("vector_size", "UPDATE vectors SET vector = zeroblob(99999)"),
    "a changed time": (
        "message_hash",
        "UPDATE messages SET created_ms = created_ms + 1 WHERE id & 255 = 1",
    ),
    "a changed role": ("message_hash", "UPDATE messages SET role = 'system' WHERE id & 255 = 1"),
    "changed parts": (
        "message_hash",
        "UPDATE messages SET parts = '[1]' WHERE id & 255 = 1 AND text IS NOT NULL",
    ),
    "changed metadata": (
        "message_hash",
        "UPDATE messages SET metadata = '{}' WHERE id & 255 = 1 AND text IS NOT NULL",
    ),
    "a changed external id": (
        "message_hash",
        "UPDATE messages SET external_id = 'm9' WHERE id & 255 = 1",
    ),
    "a changed uid": ("entry_hash", "UPDATE entries SET uid = 'other'"),
    "a changed key": ("entry_hash", "UPDATE entries SET key = 'other'"),
    "a changed category": ("entry_hash", "UPDATE entries SET category = 'other'"),
    "a segment that cannot be unpacked": ("segment", "UPDATE archive_segments SET data = x'00'"),
    "a segment that was cut short": (
        "segment",
        "UPDATE archive_segments SET data = substr(data, 1, length(data) - 1)",
    ),
    "a segment that moved": (
        "segment",
        "UPDATE archive_segments SET first_seq = first_seq + 1, last_seq = last_seq + 1",
    ),
    "a message whose segment is damaged": (
        "message_hash",
        "UPDATE archive_segments SET data = x'00'",
    ),
    "a changed time of an archived message": (
        "message_hash",
        "UPDATE messages SET created_ms = created_ms + 1 WHERE text IS NULL",
    ),
    "a message that lost its text": (
        "archived_without_segment",
        "UPDATE messages SET text = NULL, bigrams = NULL WHERE id & 255 = 3",
    ),
    "a lost row of an archived message": (
        "segment_rows",
        "DELETE FROM messages WHERE text IS NULL AND id & 255 = 1",
    ),
    "an empty index of archived messages": (
        "archived_fts",
        "INSERT INTO archived_fts (archived_fts) VALUES ('delete-all')",
    ),
    "other words in the index of archived messages": (
        "archived_fts",
        """INSERT INTO archived_fts (archived_fts, rowid, text)
        SELECT 'delete', id, 'cold tea 1' FROM messages WHERE text IS NULL AND id & 255 = 1;
        INSERT INTO archived_fts (rowid, text)
        SELECT id, 'cold coffee 1' FROM messages WHERE text IS NULL AND id & 255 = 1""",
    ),
    "a lost chunk": ("blob_hash", "DELETE FROM blob_chunks WHERE chunk_no = 0"),
    "a lost blob": ("foreign_key", "DELETE FROM blobs"),
    "lost names": ("foreign_key", "DELETE FROM artifact_names"),
}


def vectors_loaded(connection: Any) -> Any:
    """Return the connection without rules that would stop the damage."""
    connection.execute("PRAGMA foreign_keys = OFF; PRAGMA ignore_check_constraints = ON").fetchall()
    return connection


@pytest.fixture
def damage(
    path: str, open_db: Callable[..., MemDB], raw: Any, fill: Callable[..., None]
) -> Callable[[str], MemDB]:
    """Return a function that damages a full file by SQL and opens it."""

    def make(db: MemDB) -> None:
        ann = db.scope("ann")
        ann.session("trip").extend([{"role": "user", "text": f"tea number {n}"} for n in range(3)])
        ann.session("cold").extend([{"role": "user", "text": f"cold tea {n}"} for n in range(1, 3)])
        ann.session("cold").archive(keep_last=0)
        ann.session("long").extend([{"role": "user", "text": f"long tea {n}"} for n in range(65)])
        ann.remember("Ann likes tea.", key="drink", session="trip", seq=1)
        [ann.session("trip").artifacts.save("menu.md", text) for text in ("soup", "fish")]
        ann.items.put(("notes",), "k", {"text": "an item of tea"})
        db.jobs.run()

    db = open_db(path)
    fill(db, make)
    db.close()

    def harm(sql: str) -> MemDB:
        connection = vectors_loaded(raw(path))
        connection.execute(sql).fetchall()
        connection.close()
        return open_db(path)

    return harm


def codes(db: MemDB) -> set[str]:
    """Return the codes that a deep check finds."""
    return {finding.code for finding in db.file.check(deep=True)}


def named_in(finding: Finding) -> list[str]:
    """Return the commands of memdb that the text of a finding names."""
    return re.findall(r"memdb (\w+)", finding.text)


def test_a_sound_file_has_no_finding(damage: Callable[[str], MemDB]) -> None:
    """Shallow or deep."""
    db = damage("SELECT 1")

    assert (db.file.check(), db.file.check(deep=True)) == ([], [])


@pytest.mark.parametrize(("code", "sql"), REBUILDABLE.items(), ids=REBUILDABLE)
def test_rebuild_mends_what_is_derived(damage: Callable[[str], MemDB], code: str, sql: str) -> None:
    """The rule finds it, says that it can be rebuilt, and after rebuild finds nothing."""
    db = damage(sql)
    found = {finding.code: finding for finding in db.file.check(deep=True)}

    db.file.rebuild()

    assert found[code].rebuildable
    assert (found[code].damaged, found[code].remedy) == ("index", "memdb rebuild FILE")
    advice = {command for one in found.values() if one.rebuildable for command in named_in(one)}
    assert advice <= {"rebuild"}
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize(("code", "sql"), FINAL.items(), ids=FINAL)
def test_what_was_stored_and_is_damaged_is_told(
    damage: Callable[[str], MemDB], code: str, sql: str
) -> None:
    """The rule finds it, says that nothing can rebuild it, and rebuild does not hide it."""
    db = damage(sql)
    found = {finding.code: finding for finding in db.file.check(deep=True)}

    db.file.rebuild()

    assert not found[code].rebuildable
    assert (found[code].damaged, found[code].remedy) == ("truth", BACKUP_OR_REST)
    assert code in codes(db)


@pytest.mark.parametrize(("code", "sql"), MORE_DAMAGE.values(), ids=MORE_DAMAGE)
def test_other_damage_is_found(damage: Callable[[str], MemDB], code: str, sql: str) -> None:
    """In whatever column it is."""
    assert code in codes(damage(sql))


def test_a_loss_of_messages_is_told_until_it_is_accepted(damage: Callable[[str], MemDB]) -> None:
    """Rebuild mends the indexes and keeps the finding, which says how many are missing."""
    db = damage("DELETE FROM messages WHERE id & 255 = 2 AND text IS NOT NULL")
    lost = [one.text for one in db.file.check() if one.code == "message_lost"]

    db.file.rebuild()
    rebuilt = [one.text for one in db.file.check()]
    db.scope("ann").session("trip").append("user", "more tea")
    (grown,) = [one.text for one in db.file.check() if "trip" in one.text]

    assert "session trip has 2 of its 3 messages" in lost
    assert rebuilt == lost
    assert grown == "session trip has 3 of its 4 messages"
    assert db.file.check(deep=True, accept=True) == []


# What uses rows that another program took or cut, and may not fail but as told.
LOSSES = (
    "DELETE FROM scopes",
    "DELETE FROM sessions",
    "DELETE FROM entries WHERE id = (SELECT max(id) FROM entries)",
    "DELETE FROM item_namespaces",
    "DELETE FROM items",
    "DELETE FROM blobs",
    "DELETE FROM blob_chunks",
    "DELETE FROM artifact_names",
    "DELETE FROM artifacts",
    "DELETE FROM vector_groups",
    "DELETE FROM embedding_spaces",
    "DELETE FROM archive_segments",
    "DELETE FROM summaries",
    "UPDATE vectors SET vector = x'00'",
    "UPDATE vectors SET vector = zeroblob(99999)",
)


def test_lost_rows_have_one_behaviour(
    damage: Callable[[str], MemDB], path: str, tmp_path: Path
) -> None:
    """They are not found by reads, or `Corrupt` names `memdb check`, which has a finding."""
    whole = tmp_path / "whole.db"
    damage("SELECT 1").close()
    shutil.copy(path, whole)
    wrong = []
    for sql in LOSSES:
        for one in tmp_path.glob(f"{Path(path).name}*"):
            one.unlink()
        shutil.copy(whole, path)
        other = apsw.Connection(path)
        vectors_loaded(other).execute(sql).fetchall()
        other.close()
        with memdb.open(path) as db:
            if not db.file.check(deep=True) and sql not in UNSEEN:
                wrong.append((sql, "no finding"))
            for name, call in USES.items():
                try:
                    call(db.scope("ann"))
                except (NotFound, Corrupt):
                    continue
                except Exception as error:  # noqa: BLE001 (any other is the fault looked for)
                    wrong.append((sql, f"{name}: {error!r}"))
    assert wrong == []


# Nothing else in the file tells of them; see docs/reliability.md.
UNSEEN = ("DELETE FROM artifacts",)

USES: dict[str, Callable[[Scope], Any]] = {
    "recall": lambda ann: ann.recall("tea"),
    "list": lambda ann: list(ann.items.list(("notes",))),
    "remember": lambda ann: ann.remember("Ann likes coffee."),
    "append": lambda ann: ann.session("trip").append("user", "more"),
    "context": lambda ann: ann.session("trip").context(2000, "tea"),
    "archived": lambda ann: list(ann.session("cold").messages()),
    "load": lambda ann: ann.session("trip").artifacts.load("menu.md"),
    "save": lambda ann: ann.session("trip").artifacts.save("menu.md", "rice"),
    "get": lambda ann: ann.items.get(("notes",), "k"),
    "put": lambda ann: ann.items.put(("notes",), "k2", 1),
}


@pytest.mark.parametrize(("finding", "damaged", "remedy"), OTHER_FINDINGS)
def test_other_findings_name_their_command(finding: Finding, damaged: str, remedy: str) -> None:
    """Truth is restored or recovered, an index is made anew."""
    assert (finding.damaged, finding.remedy) == (damaged, remedy)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TRIGGER t AFTER INSERT ON messages BEGIN DELETE FROM entries; END",
        "DROP INDEX entries_key",
    ],
)
def test_recover_mends_a_schema(damage: Callable[[str], MemDB], path: str, sql: str) -> None:
    """The command that the finding names gives a sound file."""
    with damage(sql) as db:
        (finding,) = db.file.check()
    assert finding.remedy == "memdb recover FILE NEW"

    assert memdb.recover(path, f"{path}.new").findings == ()


def test_every_rule_is_tested_here() -> None:
    """A new rule needs its damage."""
    tested = {*REBUILDABLE, *FINAL}

    assert set(RULES) | {f"{name}_fts" for name in INDEXES} <= tested


def test_findings_name_the_place(damage: Callable[[str], MemDB]) -> None:
    """Somebody has to find it."""
    db = damage("UPDATE sessions SET last_seq = 1 WHERE name = 'trip'")

    (finding,) = db.file.check()

    assert (finding.code, finding.text, finding.rebuildable) == (
        "seq_above_last",
        "session trip",
        True,
    )


def test_a_rule_reports_twenty_at_most(path: str, open_db: Callable[..., MemDB], raw: Any) -> None:
    """A file that is damaged everywhere still gives a readable answer."""
    db = open_db(path)
    db.scope("ann").session("s").extend([{"role": "user", "text": str(n)} for n in range(100)])
    db.close()
    other = raw(path)
    other.execute("UPDATE messages SET role = 'system'")
    other.close()

    found = open_db(path).file.check()

    assert [finding.code for finding in found] == ["message_hash"] * 20


def test_the_bytes_of_artifacts_are_read_only_when_asked_deeply(
    damage: Callable[[str], MemDB],
) -> None:
    """They may be gigabytes."""
    db = damage(FINAL["blob_hash"])

    assert db.file.check() == []
    assert codes(db) == {"blob_hash"}


def test_rebuild_changes_nothing_that_was_stored(
    damage: Callable[[str], MemDB], path: str, dump: Any
) -> None:
    """On a sound file every row stays as it is."""
    db = damage("SELECT 1")
    before = dump(path)

    db.file.rebuild()

    assert dump(path) == before


def test_rebuild_mends_bigrams(path: str, open_db: Callable[..., MemDB], raw: Any) -> None:
    """What the second index column holds comes from the text again."""
    db = open_db(path, embedder=None)
    ann = db.scope("ann")
    ann.session("s").append("user", "我爱北京")
    ann.remember("我爱北京")
    ann.artifacts.save("a.md", "我爱北京")
    db.close()
    other = raw(path)
    other.execute(
        "UPDATE messages SET bigrams = NULL; UPDATE entries SET bigrams = NULL; UPDATE artifact_names SET bigrams = NULL"
    ).fetchall()
    other.close()
    db = open_db(path, embedder=None)

    db.file.rebuild()

    assert {hit.kind for hit in db.scope("ann").recall("北京")} == {"message", "entry", "artifact"}


def test_rebuild_beside_a_damaged_segment_leaves_only_that(
    damage: Callable[[str], MemDB],
) -> None:
    """What can be derived is right again; the messages that are lost are told of."""
    db = damage("UPDATE archive_segments SET data = x'00'")

    db.file.rebuild()

    assert codes(db) == {"segment", "message_hash"}


def test_rebuild_makes_the_words_of_archived_messages_anew(damage: Callable[[str], MemDB]) -> None:
    """They come from the segments."""
    db = damage("INSERT INTO archived_fts (archived_fts) VALUES ('delete-all')")
    before = len(db.scope("ann").session("cold").recall("cold", kinds=("message",), by="words"))

    db.file.rebuild()

    assert (
        before,
        len(db.scope("ann").session("cold").recall("cold", kinds=("message",), by="words")),
    ) == (0, 2)


def test_words_of_archived_messages_are_compared_in_memory_too(db: MemDB) -> None:
    """Only a deep check does it."""
    db.scope("ann").session("s").append("user", "tea")
    db.scope("ann").session("s").archive(keep_last=0)
    with db._db.write() as tx:
        tx.run(
            "INSERT INTO archived_fts (archived_fts, rowid, text) "
            "SELECT 'delete', id, 'tea' FROM messages"
        )
        tx.run("INSERT INTO archived_fts (rowid, text) SELECT id, 'cup' FROM messages")

    found = [(one.code, one.text) for one in db.file.check(deep=True)]
    shallow = db.file.check()
    db.file.rebuild()

    assert (shallow, found) == (
        [],
        [("archived_fts", "word 'cup'"), ("archived_fts", "word 'tea'")],
    )


def test_check_in_memory_sees_the_same(db: MemDB) -> None:
    """A ghost in an index is found without a file too."""
    db.scope("ann").session("s").append("user", "hi")
    with db._db.write() as tx:
        tx.run("INSERT INTO messages_fts (rowid, text) VALUES (5, 'ghost')")

    found = codes(db)
    db.file.rebuild()

    assert found == {"messages_fts"}


def test_rebuild_removes_bytes_of_writers_that_died(db: MemDB, clock: Any) -> None:
    """After a day; before that, the writer may still be at work."""
    with db._db.write() as tx:
        tx.run("INSERT INTO blobs (size_bytes, created_ms) VALUES (0, :now)", {"now": clock.now_ms})
    db.file.rebuild()
    with db._db.read() as tx:
        (young,) = tx.one("SELECT count(*) FROM blobs")
    clock.advance(24 * 3_600_000 + 1)
    db.file.rebuild()

    with db._db.read() as tx:
        assert (young, tx.one("SELECT count(*) FROM blobs")) == (1, (0,))


def test_check_is_silent_after_a_mixed_life(db: MemDB, embedder: Any) -> None:
    """Adding, changing, deleting and embedding in every room leaves nothing behind."""
    ann = db.scope("ann")
    for n in range(3):
        chat = ann.session(f"s{n}")
        chat.extend(
            [{"role": "user", "text": f"t{k} 北京", "external_id": str(k)} for k in range(5)]
        )
        entry = ann.remember(f"fact {n}", key="k", session=chat.name).entry
        ann.entries.update(entry.id, text=f"changed {n}")
        chat.artifacts.save("a.md", f"text {n}")
        db.jobs.run(limit=2)
    ann.session("s0").delete()
    ann.session("s1").artifacts.delete("a.md")
    db.file.rebuild()

    assert db.file.check(deep=True) == []
