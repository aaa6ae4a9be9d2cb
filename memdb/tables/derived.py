"""
Derived columns and rows: made anew from the rows that they come from. Owns no table.
"""

from __future__ import annotations

from memdb.models.ids import MASKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

SELECT_MESSAGE_TEXTS = """/* derived.message_texts */
SELECT id, text, '', bigrams FROM messages
WHERE id > :after AND text IS NOT NULL
ORDER BY id
LIMIT 1000
"""

UPDATE_MESSAGE_BIGRAMS = """/* derived.message_bigrams */
UPDATE messages SET bigrams = :bigrams WHERE id = :id
"""

SELECT_ENTRY_TEXTS = """/* derived.entry_texts */
SELECT id, text, keywords, bigrams FROM entries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

UPDATE_ENTRY_BIGRAMS = """/* derived.entry_bigrams */
UPDATE entries SET bigrams = :bigrams WHERE id = :id
"""

SELECT_ARTIFACT_TEXTS = """/* derived.artifact_texts */
SELECT id, coalesce(text, ''), '', bigrams FROM artifact_names
WHERE id > :after
ORDER BY id
LIMIT 100
"""

UPDATE_ARTIFACT_BIGRAMS = """/* derived.artifact_bigrams */
UPDATE artifact_names SET bigrams = :bigrams WHERE id = :id
"""

UPDATE_LAST_SEQS = """/* derived.last_seqs */
UPDATE sessions
SET last_seq = (
  SELECT messages.id & :seq_mask FROM messages
  WHERE messages.id > sessions.id AND messages.id <= sessions.id | :seq_mask
  ORDER BY messages.id DESC
  LIMIT 1
)
WHERE last_seq < coalesce(
  (
    SELECT messages.id & :seq_mask FROM messages
    WHERE messages.id > sessions.id AND messages.id <= sessions.id | :seq_mask
    ORDER BY messages.id DESC
    LIMIT 1
  ),
  0
)
"""

UPDATE_LAST_VERSIONS = """/* derived.last_versions */
UPDATE artifact_names
SET last_version = (
  SELECT :max_int - rev_version FROM artifacts
  WHERE
    artifacts.scope_no = artifact_names.scope_no
    AND artifacts.session_no = artifact_names.session_no
    AND artifacts.name = artifact_names.name
  ORDER BY rev_version
  LIMIT 1
)
WHERE last_version < coalesce(
  (
    SELECT :max_int - rev_version FROM artifacts
    WHERE
      artifacts.scope_no = artifact_names.scope_no
      AND artifacts.session_no = artifact_names.session_no
      AND artifacts.name = artifact_names.name
    ORDER BY rev_version
    LIMIT 1
  ),
  1
)
"""

DELETE_LOST_JOBS = """/* derived.lost_jobs */
DELETE FROM jobs
WHERE
  (subject = 'session' AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = ref))
  OR (subject = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (subject = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
  OR (
    space_no <> 0
    AND NOT EXISTS (
      SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = jobs.space_no
    )
  )
"""

# What has no vector becomes due again: a job costs little where nothing is missing.
INSERT_SESSION_JOBS = """/* derived.session_jobs */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', sessions.id, space_no, 1, :now_ms
FROM sessions, embedding_spaces
WHERE
  retired_ms IS NULL
  AND EXISTS (
    SELECT 1 FROM messages
    WHERE
      messages.id BETWEEN sessions.id AND sessions.id | :seq_mask
      AND (messages.text <> '' OR messages.text IS NULL)
      AND NOT EXISTS (
        SELECT 1 FROM vectors
        WHERE
          vectors.space_no = embedding_spaces.space_no
          AND vectors.kind = 'message'
          AND vectors.ref = messages.id
      )
  )
ON CONFLICT (kind, subject, ref, space_no) DO UPDATE SET next_seq = 1, lease_ms = 0
"""

INSERT_ENTRY_JOBS = """/* derived.entry_jobs */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'entry', entries.id, space_no, version, :now_ms
FROM entries, embedding_spaces
WHERE
  retired_ms IS NULL
  AND NOT EXISTS (
    SELECT 1 FROM vectors
    WHERE
      vectors.space_no = embedding_spaces.space_no
      AND vectors.kind = 'entry'
      AND vectors.ref = entries.id
  )
ON CONFLICT DO NOTHING
"""

# By kind: what selects (id, text, more text, bigrams), and what sets the bigrams.
_BIGRAMS = {
    "message": (SELECT_MESSAGE_TEXTS, UPDATE_MESSAGE_BIGRAMS),
    "entry": (SELECT_ENTRY_TEXTS, UPDATE_ENTRY_BIGRAMS),
    "artifact": (SELECT_ARTIFACT_TEXTS, UPDATE_ARTIFACT_BIGRAMS),
}


def set_bigrams(tx: Tx, kind: str) -> None:
    """Derive the bigrams of every row of a kind: "message", "entry" or "artifact"."""
    from memdb.text.derived import bigrams_of

    select, update = _BIGRAMS[kind]
    after = 0
    while rows := tx.all(select, {"after": after}):
        for row_id, text, more, stored in rows:
            bigrams = bigrams_of(f"{text}\n{more}" if more else text)
            if bigrams != stored:
                tx.run(update, {"id": row_id, "bigrams": bigrams})
        after = rows[-1][0]


def raise_last_seqs(tx: Tx) -> None:
    """Count the seqs of all messages as given out."""
    tx.run(UPDATE_LAST_SEQS, MASKS)


def raise_last_versions(tx: Tx) -> None:
    """Count the numbers of all versions as given out."""
    tx.run(UPDATE_LAST_VERSIONS, MASKS)


def delete_lost_jobs(tx: Tx) -> None:
    """Remove the jobs about what is gone, and those of spaces that are gone."""
    tx.run(DELETE_LOST_JOBS)


def add_session_jobs(tx: Tx) -> None:
    """Queue every session with a message that lacks a vector."""
    tx.run(INSERT_SESSION_JOBS, {"now_ms": tx.now_ms, **MASKS})


def add_entry_jobs(tx: Tx) -> None:
    """Queue every entry that lacks a vector."""
    tx.run(INSERT_ENTRY_JOBS, {"now_ms": tx.now_ms})
