"""
Proving a file: what is derived equals its rows, and rows equal their hashes.

Every rule has a code. A finding that is `rebuildable` goes away with
`rebuild`; the others mean that something stored is damaged or missing.
"""

from __future__ import annotations

from memdb.engine.sqlite import check_archive, check_summaries
from memdb.engine.sqlite.connection import MEMORY
from memdb.engine.sqlite.transaction import Tx
from memdb.errors import Corrupt, ReadOnly, StorageError
from memdb.models.ids import MASKS
from memdb.models.messages import Finding

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.sqlite.database import Database

MAX_PER_RULE = 20
SQLITE_READONLY = 8

QUICK_CHECK = """/* check.quick */
PRAGMA quick_check(20)
"""

INTEGRITY_CHECK = """/* check.integrity */
PRAGMA integrity_check(20)
"""

SELECT_BROKEN_KEYS = """/* check.foreign_keys */
SELECT "table" || ' row ' || coalesce(rowid, '?') || ' points to a missing ' || parent
FROM pragma_foreign_key_check
LIMIT 20
"""

SELECT_LOST_MESSAGES = """/* check.message_without_session */
SELECT 'message ' || id FROM messages
WHERE NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = messages.id & ~:seq_mask)
ORDER BY id
LIMIT 20
"""

SELECT_LATE_SEQS = """/* check.seq_above_last */
SELECT 'session ' || name FROM sessions
WHERE EXISTS (
  SELECT 1 FROM messages
  WHERE messages.id > sessions.id + sessions.last_seq AND messages.id <= sessions.id | :seq_mask
)
ORDER BY id
LIMIT 20
"""

SELECT_LATE_VERSIONS = """/* check.version_above_last */
SELECT 'artifact ' || artifact_names.name
FROM artifact_names
JOIN artifacts
  ON artifacts.scope_no = artifact_names.scope_no
  AND artifacts.session_no = artifact_names.session_no
  AND artifacts.name = artifact_names.name
WHERE :max_int - rev_version > last_version
ORDER BY artifact_names.id
LIMIT 20
"""

SELECT_LOST_VECTORS = """/* check.vector_without_row */
SELECT kind || ' ' || ref FROM vectors
WHERE
  (kind = 'message' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = ref))
  OR (kind = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (kind = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
ORDER BY space_no, kind, ref
LIMIT 20
"""

SELECT_WRONG_SIZES = """/* check.vector_size */
SELECT kind || ' ' || ref
FROM vectors
JOIN embedding_spaces ON embedding_spaces.space_no = vectors.space_no
WHERE length(vector) <> 4 * dim
ORDER BY vectors.space_no, kind, ref
LIMIT 20
"""

# Every bucket that should be or is there.
SELECT_BUCKETS = """/* check.buckets */
SELECT space_no, kind, ref >> 8 AS bucket FROM vectors
UNION
SELECT space_no, kind, bucket FROM sketches
ORDER BY 1, 2, 3
"""

SELECT_LOST_JOBS = """/* check.job_without_subject */
SELECT kind || ' of ' || subject || ' ' || ref FROM jobs
WHERE
  (subject = 'session' AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = ref))
  OR (subject = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (subject = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
ORDER BY kind, subject, ref, space_no
LIMIT 20
"""

SELECT_UNUSED_BLOBS = """/* check.blob_unused */
SELECT 'blob ' || blob_no FROM blobs
WHERE
  sha256 IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.blob_no = blobs.blob_no)
ORDER BY blob_no
LIMIT 20
"""

# Only the form with a rank compares the index with its content table; the one
# without, and PRAGMA integrity_check, overlook a ghost row. Archived messages
# have no content table: `check_archive` compares their index.
CHECK_FTS = {
    "messages_fts": """/* check.messages_fts */
INSERT INTO messages_fts (messages_fts, rank) VALUES ('integrity-check', 1)
""",
    "archived_fts": """/* check.archived_fts */
INSERT INTO archived_fts (archived_fts) VALUES ('integrity-check')
""",
    "entries_fts": """/* check.entries_fts */
INSERT INTO entries_fts (entries_fts, rank) VALUES ('integrity-check', 1)
""",
    "summaries_fts": """/* check.summaries_fts */
INSERT INTO summaries_fts (summaries_fts, rank) VALUES ('integrity-check', 1)
""",
    "artifacts_fts": """/* check.artifacts_fts */
INSERT INTO artifacts_fts (artifacts_fts, rank) VALUES ('integrity-check', 1)
""",
}

# (code, statement, whether `rebuild` mends it)
RULES = (
    ("foreign_key", SELECT_BROKEN_KEYS, False),
    ("message_without_session", SELECT_LOST_MESSAGES, False),
    ("seq_above_last", SELECT_LATE_SEQS, True),
    ("version_above_last", SELECT_LATE_VERSIONS, True),
    ("vector_without_row", SELECT_LOST_VECTORS, True),
    ("vector_size", SELECT_WRONG_SIZES, True),
    ("job_without_subject", SELECT_LOST_JOBS, True),
    ("blob_unused", SELECT_UNUSED_BLOBS, True),
    *check_archive.RULES,
    *check_summaries.RULES,
)


def check(db: Database, *, deep: bool = False) -> list[Finding]:
    """
    Return every inconsistency, at most 20 per rule; [] when all is well.

    Args:
        deep: Also read every page, the bytes of every artifact, and the words
            of archived messages.

    Transaction: one read; the full-text rules need the write lock for a moment,
    though they change nothing.
    """
    try:
        damaged = _pages(db, INTEGRITY_CHECK if deep else QUICK_CHECK)
        if damaged:
            return damaged  # what the rules would read cannot be trusted
        with db.read() as tx:
            found = [*_rules(tx), *_hashes(tx, deep=deep)]
        found += _full_text(db)
        return [*found, *check_archive.words(db)] if deep and not found else found
    except Corrupt as error:
        return [Finding("page", str(error), rebuildable=False)]


def _pages(db: Database, sql: str) -> list[Finding]:
    """
    Return what SQLite itself finds.

    On a connection of its own: FTS5 reports corruption from an older one whose
    picture of the index dates from before a rebuild (SQLite 3.54.1).
    """
    if db.path == MEMORY:
        with db.read() as tx:
            said = tx.all(sql)
    else:
        fresh = Tx(db.connection(writable=False))
        try:
            said = fresh.all(sql)
        finally:
            fresh.close()
    return [Finding("page", row[0], rebuildable=False) for row in said if row[0] != "ok"]


def _rules(tx: Tx) -> Iterator[Finding]:
    for code, sql, rebuildable in RULES:
        for row in tx.all(sql, MASKS):
            yield Finding(code, row[0], rebuildable)


def _hashes(tx: Tx, *, deep: bool) -> Iterator[Finding]:
    from itertools import islice

    from memdb.tables import active_entries, blobs, messages, vectors

    yield from islice(check_archive.damaged(tx), MAX_PER_RULE)

    for space_no, kind, bucket in tx.all(SELECT_BUCKETS):
        if not vectors.sketches_match(tx, space_no, kind, bucket):
            yield Finding("sketch_differs", f"{kind} bucket {bucket}", rebuildable=True)

    for row_id in islice(messages.damaged(tx), MAX_PER_RULE):
        yield Finding("message_hash", f"message {row_id}", rebuildable=False)
    for row_id in islice(active_entries.damaged(tx), MAX_PER_RULE):
        yield Finding("entry_hash", f"entry {row_id}", rebuildable=False)
    for uid in islice(check_summaries.damaged(tx), MAX_PER_RULE):
        yield Finding("summary_hash", f"summary {uid}", rebuildable=False)
    if deep:
        for blob_no in islice(blobs.damaged(tx), MAX_PER_RULE):
            yield Finding("blob_hash", f"blob {blob_no}", rebuildable=False)


def _full_text(db: Database) -> Iterator[Finding]:
    """
    Compare each index with its rows; nothing where the file cannot be written.

    Raises:
        Busy: another process kept the write lock, which the comparing needs.
    """
    for table, sql in CHECK_FTS.items():
        try:
            with db.write() as tx:
                tx.run(sql)
        except Corrupt as error:
            yield Finding(table, str(error), rebuildable=True)
        except ReadOnly:
            return
        except StorageError as error:
            if error.sqlite_code & 0xFF == SQLITE_READONLY:
                return
            raise
