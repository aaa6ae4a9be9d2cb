"""
Removing on request: what forgetting asks of tables beyond their own services.

Finds what was made from forgotten messages, and clears what says it again. The
services of the tables are `nodes`, `entries`, `history`, `artifacts`, `state`,
`jobs` and `tombstones`.
"""

from __future__ import annotations

from bisect import bisect_left

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from memdb.engine.base import Row, Tx

SELECT_NODES = """/* removal.summaries */
SELECT id, first_seq, last_seq
FROM summaries
WHERE session_id = :session
ORDER BY depth, first_seq
"""

SELECT_SESSION_NODES = """/* removal.session_nodes */
SELECT id, text, hint FROM summaries WHERE session_id = :session ORDER BY id
"""

SELECT_TOLD = """/* removal.told */
SELECT id, first_seq, last_seq
FROM entries
WHERE session_id = :session
ORDER BY id
"""

SELECT_TOLD_BEFORE = """/* removal.versions_from */
SELECT entry_id, version, text, keywords, metadata, first_seq, last_seq
FROM entry_history
WHERE session_id = :session
ORDER BY entry_id, version
"""

SELECT_HISTORY = """/* removal.history */
SELECT entry_id, version, text, keywords, metadata FROM entry_history
WHERE entry_id BETWEEN :low AND :high
ORDER BY entry_id, version
"""

DELETE_VERSION = """/* removal.version */
DELETE FROM entry_history WHERE entry_id = :entry_id AND version = :version
"""

SELECT_MADE = """/* removal.made */
SELECT DISTINCT session_no, name FROM artifacts
WHERE scope_no = :scope_no AND message_id IN (SELECT value FROM json_each(:ids))
ORDER BY session_no, name
"""

SELECT_MADE_IN = """/* removal.made_in */
SELECT DISTINCT session_no, name FROM artifacts
WHERE scope_no = :scope_no AND message_id BETWEEN :low AND :high
ORDER BY session_no, name
"""

SELECT_ENTRY_IDS = """/* removal.entry_ids */
SELECT id FROM entries WHERE id BETWEEN :low AND :high ORDER BY id
"""

SELECT_STATE = """/* removal.state */
SELECT key, value FROM state
WHERE app = :app AND user_name = :user AND (CAST(:session AS TEXT) IS NULL OR session = :session)
ORDER BY session, key
"""

DELETE_STATE = """/* removal.delete_state */
DELETE FROM state
WHERE app = :app AND user_name = :user AND (CAST(:session AS TEXT) IS NULL OR session = :session)
"""

UPDATE_ERRORS = """/* removal.errors */
UPDATE jobs SET error = NULL
WHERE
  kind IN ('embed', 'summarize', 'archive', 'decay', 'extract')
  AND subject = 'session'
  AND ref = :session
"""

# The key is the uid, so this reads the tombstones of other scopes too; there
# are few.
UPDATE_REFS = """/* removal.refs */
UPDATE tombstones SET ref = 'sha256:' || :digest
WHERE uid > '' AND scope_no = :scope_no AND kind = :kind AND ref = :ref
"""

UPDATE_ALL_REFS = """/* removal.all_refs */
UPDATE tombstones SET ref = 'forgotten'
WHERE uid > '' AND scope_no = :scope_no AND kind <> 'entry'
"""

SELECT_FORGOTTEN = """/* removal.forgotten */
SELECT 1 FROM tombstones
WHERE uid > '' AND scope_no = :scope_no AND kind = 'entry' AND ref = :ref
LIMIT 1
"""


def _holds_any(first: int | None, last: int | None, seqs: list[int]) -> bool:
    """Say whether the span *first* to *last* holds one of *seqs*, which rise; None: no span."""
    if first is None or last is None:
        return False
    place = bisect_left(seqs, first)
    return place < len(seqs) and seqs[place] <= last


def nodes_over(tx: Tx, session: int, seqs: Collection[int]) -> list[int]:
    """Return the nodes that stand for some of *seqs*, those of lower depth first."""
    rising = sorted(seqs)
    rows = tx.all(SELECT_NODES, {"session": session})
    return [row_id for row_id, first, last in rows if _holds_any(first, last, rising)]


def node_texts(tx: Tx, session: int) -> list[Row]:
    """Return (id, text, hint) of every node of a session."""
    return tx.all(SELECT_SESSION_NODES, {"session": session})


def entries_from(tx: Tx, session: int, seqs: Collection[int] | None) -> list[int]:
    """Return the entries told in a session, or by some of *seqs* in it."""
    rising = sorted(seqs or ())
    rows = tx.all(SELECT_TOLD, {"session": session})
    return [
        entry_id
        for entry_id, first, last in rows
        if seqs is None or _holds_any(first, last, rising)
    ]


def versions_from(tx: Tx, session: int, seqs: Collection[int] | None) -> list[Row]:
    """Return (entry, version, text, keywords, metadata) of old versions told there."""
    rising = sorted(seqs or ())
    rows = tx.all(SELECT_TOLD_BEFORE, {"session": session})
    return [
        tuple(row) for *row, first, last in rows if seqs is None or _holds_any(first, last, rising)
    ]


def history(tx: Tx, low: int, high: int) -> list[Row]:
    """Return (entry, version, text, keywords, metadata) of the old versions of an id range."""
    return tx.all(SELECT_HISTORY, {"low": low, "high": high})


def delete_version(tx: Tx, entry_id: int, version: int) -> int:
    """Remove what an entry once said; how many rows that were."""
    return tx.run(DELETE_VERSION, {"entry_id": entry_id, "version": version})


def made_by(tx: Tx, scope_no: int, ids: Collection[int]) -> list[tuple[int, str]]:
    """Return (session number, name) of what the messages with these *ids* saved."""
    return tx.all(SELECT_MADE, {"scope_no": scope_no, "ids": ids})


def made_in(tx: Tx, scope_no: int, low: int, high: int) -> list[tuple[int, str]]:
    """Return (session number, name) of what the messages of an id range saved."""
    return tx.all(SELECT_MADE_IN, {"scope_no": scope_no, "low": low, "high": high})


def entry_ids(tx: Tx, low: int, high: int) -> list[int]:
    """Return the ids of all entries in a range, also of those that hold no more."""
    return [row[0] for row in tx.all(SELECT_ENTRY_IDS, {"low": low, "high": high})]


def state(tx: Tx, app: str, user: str, session: str | None) -> list[Row]:
    """Return (key, value) of what hosts keep for a user, or for one session of theirs."""
    return tx.all(SELECT_STATE, {"app": app, "user": user, "session": session})


def delete_state(tx: Tx, app: str, user: str, session: str | None) -> int:
    """Remove what hosts keep for a user, or for one session of theirs; how many values."""
    return tx.run(DELETE_STATE, {"app": app, "user": user, "session": session})


def clear_errors(tx: Tx, session: int) -> None:
    """Drop what failed jobs of a session say: it may quote a message."""
    tx.run(UPDATE_ERRORS, {"session": session})


def hide_ref(tx: Tx, scope_no: int, kind: str, ref: str, digest: str) -> None:
    """Let the tombstones of *ref* say its hash in place of its name."""
    tx.run(UPDATE_REFS, {"scope_no": scope_no, "kind": kind, "ref": ref, "digest": digest})


def hide_all_refs(tx: Tx, scope_no: int) -> None:
    """Let no tombstone of a scope say a name."""
    tx.run(UPDATE_ALL_REFS, {"scope_no": scope_no})


def was_entry(tx: Tx, scope_no: int, entry_id: int) -> bool:
    """Say whether a scope had an entry with this id, and removed it."""
    values = {"scope_no": scope_no, "ref": str(entry_id)}
    return tx.one(SELECT_FORGOTTEN, values) is not None
