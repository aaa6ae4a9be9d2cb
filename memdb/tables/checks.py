"""
Checks and derived columns: what no row of a sound file does, and how to make it so again.

Reads most tables, and owns none. Each check returns a line per row that breaks
its rule, 20 at most; each `derive` makes rows anew from those they come from.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.models.ids import MASKS
from memdb.models.messages import Finding
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.base import Row, Tx

MAX_PER_RULE = 20

MESSAGE_WITHOUT_SESSION = """/* checks.message_without_session */
SELECT 'message ' || id FROM messages
WHERE NOT EXISTS (
  SELECT 1 FROM sessions WHERE sessions.id = messages.id & ~CAST(:seq_mask AS BIGINT)
)
ORDER BY id
LIMIT 20
"""

ARTIFACT_WITHOUT_SESSION = """/* checks.artifact_without_session */
SELECT 'artifact ' || name FROM artifact_names
WHERE
  session_no <> 0
  AND NOT EXISTS (
    SELECT 1 FROM sessions
    WHERE sessions.id = (artifact_names.scope_no << 44) | (artifact_names.session_no << 24)
  )
ORDER BY id
LIMIT 20
"""

STATE_WITHOUT_SESSION = """/* checks.state_without_session */
SELECT 'state ' || session || ' ' || key FROM state
WHERE
  session <> ''
  AND NOT EXISTS (
    SELECT 1 FROM sessions
    JOIN scopes ON scopes.scope_no = sessions.scope_no
    WHERE
      scopes.app = state.app
      AND scopes.user_name = state.user_name
      AND sessions.name = state.session
  )
ORDER BY app, user_name, session, key
LIMIT 20
"""

ENTRY_WITHOUT_SESSION = """/* checks.entry_without_session */
SELECT 'entry ' || id FROM entries
WHERE session_only = 1 AND session_id IS NULL
ORDER BY id
LIMIT 20
"""

SEQ_ABOVE_LAST = """/* checks.seq_above_last */
SELECT 'session ' || name FROM sessions
WHERE EXISTS (
  SELECT 1 FROM messages
  WHERE messages.id > sessions.id + sessions.last_seq AND messages.id <= sessions.id | :seq_mask
)
ORDER BY id
LIMIT 20
"""

SESSION_COUNTS = """/* checks.session_counts */
SELECT
  'session ' || name || CASE WHEN branch = '' THEN '' ELSE ', branch ' || branch END
  || ' counts ' || message_count || ' messages, ' || tokens || ' tokens and '
  || archived_count || ' archived'
FROM sessions
WHERE
  message_count <> (
    SELECT count(*) FROM messages
    WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask
  )
  OR sessions.tokens <> (
    SELECT coalesce(sum(messages.tokens), 0) FROM messages
    WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask
  )
  OR archived_count <> (
    SELECT coalesce(sum(archive_segments.message_count), 0) FROM archive_segments
    WHERE session_id = sessions.id
  )
ORDER BY sessions.id
LIMIT 20
"""

BRANCH_PLACE = """/* checks.branch_place */
SELECT 'branch ' || sessions.branch || ' of ' || sessions.name
FROM sessions
JOIN sessions AS parent ON parent.id = sessions.parent_id
WHERE
  parent.scope_no <> sessions.scope_no
  OR parent.name <> sessions.name
  OR parent.last_seq < sessions.leaves_at
  OR EXISTS (
    SELECT 1 FROM messages
    WHERE messages.id > sessions.id AND messages.id <= sessions.id + sessions.leaves_at
  )
ORDER BY sessions.id
LIMIT 20
"""

VERSION_ABOVE_LAST = """/* checks.version_above_last */
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

TAIL_WITHOUT_MESSAGE = """/* checks.tail_without_message */
SELECT 'message ' || id FROM messages_fts_tail
WHERE NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = messages_fts_tail.id)
ORDER BY id
LIMIT 20
"""

NAMESPACE_WITHOUT_ITEM = """/* checks.namespace_without_item */
SELECT 'namespace ' || id FROM item_namespaces
WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.namespace_id = item_namespaces.id)
ORDER BY id
LIMIT 20
"""

VECTOR_WITHOUT_ROW = """/* checks.vector_without_row */
SELECT coalesce(kind || ' ' || (bucket << 8 | (vectors.id & 255)), 'id ' || vectors.id)
FROM vectors
LEFT JOIN vector_groups ON vector_groups.id = vectors.id - (vectors.id & 255)
WHERE
  kind IS NULL
  OR CASE kind
    WHEN 'message' THEN NOT EXISTS (
      SELECT 1 FROM messages WHERE messages.id = (bucket << 8 | (vectors.id & 255))
    )
    WHEN 'entry' THEN NOT EXISTS (
      SELECT 1 FROM entries WHERE entries.id = (bucket << 8 | (vectors.id & 255))
    )
    WHEN 'summary' THEN NOT EXISTS (
      SELECT 1 FROM summaries WHERE summaries.id = (bucket << 8 | (vectors.id & 255))
    )
    ELSE (bucket << 8 | (vectors.id & 255)) >= coalesce(
      (
        SELECT vector_ref + vector_count FROM items
        WHERE vector_ref IS NOT NULL AND vector_ref <= (bucket << 8 | (vectors.id & 255))
        ORDER BY vector_ref DESC
        LIMIT 1
      ),
      0
    )
  END
  OR NOT EXISTS (
    SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = vector_groups.space_no
  )
ORDER BY vectors.id
LIMIT 20
"""

VECTOR_SIZE = """/* checks.vector_size */
SELECT kind || ' ' || (bucket << 8 | (vectors.id & 255))
FROM vectors
JOIN vector_groups ON vector_groups.id = vectors.id - (vectors.id & 255)
JOIN embedding_spaces ON embedding_spaces.space_no = vector_groups.space_no
WHERE length(vector) <> CASE kind WHEN 'message' THEN dim ELSE 4 * dim END
ORDER BY vectors.id
LIMIT 20
"""

JOB_WITHOUT_SUBJECT = """/* checks.job_without_subject */
SELECT kind || ' of ' || subject || ' ' || ref FROM jobs
WHERE
  (subject = 'session' AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = ref))
  OR (subject = 'message' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = ref))
  OR (subject = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (subject = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
  OR (
    subject = 'item'
    AND ref >= coalesce(
      (
        SELECT vector_ref + vector_count FROM items
        WHERE vector_ref IS NOT NULL AND vector_ref <= ref
        ORDER BY vector_ref DESC
        LIMIT 1
      ),
      0
    )
  )
ORDER BY kind, subject, ref, space_no
LIMIT 20
"""

JOB_WITHOUT_SPACE = """/* checks.job_without_space */
SELECT kind || ' of ' || subject || ' ' || ref || ' in space ' || space_no FROM jobs
WHERE
  space_no <> 0
  AND NOT EXISTS (
    SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = jobs.space_no
  )
ORDER BY kind, subject, ref, space_no
LIMIT 20
"""

BLOB_UNUSED = """/* checks.blob_unused */
SELECT 'blob ' || blob_no FROM blobs
WHERE
  sha256 IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.blob_no = blobs.blob_no)
ORDER BY blob_no
LIMIT 20
"""

ARCHIVED_WITHOUT_SEGMENT = """/* checks.archived_without_segment */
SELECT 'message ' || id FROM messages
WHERE
  text IS NULL
  AND coalesce(
    (
      SELECT last_seq FROM archive_segments
      WHERE
        session_id = messages.id & ~CAST(:seq_mask AS BIGINT)
        AND first_seq <= messages.id & :seq_mask
      ORDER BY first_seq DESC
      LIMIT 1
    ),
    0
  ) < messages.id & :seq_mask
ORDER BY id
LIMIT 20
"""

SEGMENT_ROWS = """/* checks.segment_rows */
SELECT 'segment ' || first_seq || ' of session ' || session_id FROM archive_segments
WHERE message_count <> (
  SELECT count(*) FROM messages
  WHERE
    messages.id BETWEEN session_id + first_seq AND session_id + archive_segments.last_seq
    AND text IS NULL
)
ORDER BY session_id, first_seq
LIMIT 20
"""

SEGMENT_OVERLAP = """/* checks.segment_overlap */
SELECT 'segment ' || first_seq || ' of session ' || session_id FROM archive_segments
WHERE EXISTS (
  SELECT 1 FROM archive_segments AS next
  WHERE
    next.session_id = archive_segments.session_id
    AND next.first_seq > archive_segments.first_seq
    AND next.first_seq <= archive_segments.last_seq
)
ORDER BY session_id, first_seq
LIMIT 20
"""

SUMMARY_GAP = """/* checks.summary_gap */
SELECT 'summary ' || uid || ' does not follow the leaf before it'
FROM (
  SELECT
    id,
    uid,
    first_seq,
    lag(last_seq) OVER (PARTITION BY session_id ORDER BY first_seq) AS before_seq
  FROM summaries
  WHERE depth = 0
) AS leaves
WHERE first_seq <> before_seq + 1
ORDER BY id
LIMIT 20
"""

# What begins a session and has no leaf is its system text; anything else there
# would be in no context.
SUMMARY_HEAD = """/* checks.summary_head */
SELECT
  'summary ' || summaries.uid || ' is the first leaf, and messages before it are not summarised'
FROM summaries
WHERE
  depth = 0
  AND first_seq = (
    SELECT first_seq FROM summaries AS leaf
    WHERE leaf.session_id = summaries.session_id AND leaf.depth = 0
    ORDER BY first_seq
    LIMIT 1
  )
  AND EXISTS (
    SELECT 1 FROM messages
    WHERE
      messages.id
      BETWEEN summaries.session_id + 1 AND summaries.session_id + summaries.first_seq - 1
      AND messages.role <> 'system'
  )
ORDER BY summaries.id
LIMIT 20
"""

SUMMARY_SOURCES = """/* checks.summary_sources */
SELECT 'summary ' || summaries.uid || ' is not what its sources cover'
FROM summaries
LEFT JOIN summaries AS below
  ON below.condensed_into = summaries.id
  AND below.session_id = summaries.session_id
  AND below.depth = summaries.depth - 1
WHERE summaries.depth > 0
GROUP BY summaries.id
HAVING
  min(below.first_seq) IS DISTINCT FROM summaries.first_seq
  OR max(below.last_seq) IS DISTINCT FROM summaries.last_seq
  OR sum(below.last_seq - below.first_seq + 1) <> summaries.last_seq - summaries.first_seq + 1
ORDER BY summaries.id
LIMIT 20
"""

SUMMARY_LINK = """/* checks.summary_link */
SELECT 'summary ' || below.uid || ' is part of a summary that is not one above it'
FROM summaries AS below
JOIN summaries AS above ON above.id = below.condensed_into
WHERE
  above.session_id <> below.session_id
  OR above.depth <> below.depth + 1
  OR below.first_seq NOT BETWEEN above.first_seq AND above.last_seq
ORDER BY below.id
LIMIT 20
"""

NODE_BEYOND_SESSION = """/* checks.node_beyond_session */
SELECT 'summary ' || summaries.uid || ' stands for messages that never were'
FROM summaries
JOIN sessions ON sessions.id = summaries.session_id
WHERE summaries.last_seq > sessions.last_seq
ORDER BY summaries.id
LIMIT 20
"""

SELECT_SEGMENTS = """/* checks.segments */
SELECT session_id, first_seq, last_seq, message_count, codec, data, sha256
FROM archive_segments
WHERE (session_id, first_seq) > (:session, :first_seq)
ORDER BY session_id, first_seq
LIMIT 100
"""

SELECT_SUMMARIES = """/* checks.summaries */
SELECT id, uid, depth, first_seq, last_seq, hint, quality, summarizer, text, content_hash
FROM summaries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

# By the code of the finding.
RULES = {
    "message_without_session": MESSAGE_WITHOUT_SESSION,
    "artifact_without_session": ARTIFACT_WITHOUT_SESSION,
    "state_without_session": STATE_WITHOUT_SESSION,
    "entry_without_session": ENTRY_WITHOUT_SESSION,
    "seq_above_last": SEQ_ABOVE_LAST,
    "session_counts": SESSION_COUNTS,
    "branch_place": BRANCH_PLACE,
    "version_above_last": VERSION_ABOVE_LAST,
    "tail_without_message": TAIL_WITHOUT_MESSAGE,
    "namespace_without_item": NAMESPACE_WITHOUT_ITEM,
    "vector_without_row": VECTOR_WITHOUT_ROW,
    "vector_size": VECTOR_SIZE,
    "job_without_subject": JOB_WITHOUT_SUBJECT,
    "job_without_space": JOB_WITHOUT_SPACE,
    "blob_unused": BLOB_UNUSED,
    "archived_without_segment": ARCHIVED_WITHOUT_SEGMENT,
    "segment_rows": SEGMENT_ROWS,
    "segment_overlap": SEGMENT_OVERLAP,
    "summary_gap": SUMMARY_GAP,
    "summary_head": SUMMARY_HEAD,
    "summary_sources": SUMMARY_SOURCES,
    "summary_link": SUMMARY_LINK,
    "node_beyond_session": NODE_BEYOND_SESSION,
}


def by_rule(tx: Tx, code: str, *, rebuildable: bool) -> Iterator[Finding]:
    """Yield a finding for each row that breaks the rule *code*, 20 at most."""
    for (text,) in tx.all(RULES[code], MASKS):
        yield Finding(code, text, rebuildable)


def by_hash(
    code: str, kind: str, damaged: Iterable[object], *, rebuildable: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each row of *kind* that does not match its hash, 20 at most."""
    for name in islice(damaged, MAX_PER_RULE):
        yield Finding(code, f"{kind} {name}", rebuildable)


def segments(tx: Tx) -> Iterator[Row]:
    """Yield (session, first seq, last seq, number of messages, codec, data, sha256) of each."""
    return chain.from_iterable(tx.pages(SELECT_SEGMENTS, {"session": 0, "first_seq": 0}))


def summaries(tx: Tx) -> Iterator[Row]:
    """Yield the id of each summary, what its hash covers, and the hash."""
    return chain.from_iterable(tx.pages(SELECT_SUMMARIES, {"after": 0}))


# A text of ASCII has no bigrams: its letters are as many as its bytes.
SELECT_MESSAGE_TEXTS = """/* checks.message_texts */
SELECT id, text, '', bigrams FROM messages
WHERE id > :after AND (bigrams IS NOT NULL OR octet_length(text) <> length(text))
ORDER BY id
LIMIT 1000
"""

UPDATE_MESSAGE_BIGRAMS = """/* checks.message_bigrams */
UPDATE messages SET bigrams = :bigrams WHERE id = :id
"""

SELECT_ENTRY_TEXTS = """/* checks.entry_texts */
SELECT id, text, keywords, bigrams FROM entries
WHERE id > :after
ORDER BY id
LIMIT 1000
"""

UPDATE_ENTRY_BIGRAMS = """/* checks.entry_bigrams */
UPDATE entries SET bigrams = :bigrams WHERE id = :id
"""

SELECT_ARTIFACT_TEXTS = """/* checks.artifact_texts */
SELECT id, coalesce(text, ''), '', bigrams FROM artifact_names
WHERE id > :after
ORDER BY id
LIMIT 100
"""

UPDATE_ARTIFACT_BIGRAMS = """/* checks.artifact_bigrams */
UPDATE artifact_names SET bigrams = :bigrams WHERE id = :id
"""

SELECT_ITEM_TEXTS = """/* checks.item_texts */
SELECT id, text, '', bigrams FROM items
WHERE id > :after AND text IS NOT NULL
ORDER BY id
LIMIT 100
"""

UPDATE_ITEM_BIGRAMS = """/* checks.item_bigrams */
UPDATE items SET bigrams = :bigrams WHERE id = :id
"""

SELECT_SESSION_TITLES = """/* checks.session_titles */
SELECT id, title, '', bigrams FROM sessions
WHERE id > :after AND title IS NOT NULL
ORDER BY id
LIMIT 1000
"""

UPDATE_SESSION_BIGRAMS = """/* checks.session_bigrams */
UPDATE sessions SET bigrams = :bigrams WHERE id = :id
"""

UPDATE_LAST_SEQS = compose.update(
    "checks.last_seqs",
    "sessions",
    """
 last_seq < coalesce(
  (
    SELECT messages.id & :seq_mask FROM messages
    WHERE messages.id > sessions.id AND messages.id <= sessions.id | :seq_mask
    ORDER BY messages.id DESC
    LIMIT 1
  ),
  0
)
""",
    last_seq="""
(
  SELECT messages.id & :seq_mask FROM messages
  WHERE messages.id > sessions.id AND messages.id <= sessions.id | :seq_mask
  ORDER BY messages.id DESC
  LIMIT 1
)
""",
)

UPDATE_COUNTS = """/* checks.counts */
UPDATE sessions
SET
  message_count = (
    SELECT count(*) FROM messages
    WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask
  ),
  tokens = (
    SELECT CAST(coalesce(sum(messages.tokens), 0) AS BIGINT) FROM messages
    WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask
  ),
  archived_count = (
    SELECT CAST(coalesce(sum(archive_segments.message_count), 0) AS BIGINT) FROM archive_segments
    WHERE session_id = sessions.id
  )
"""

UPDATE_LAST_VERSIONS = compose.update(
    "checks.last_versions",
    "artifact_names",
    """
 last_version < coalesce(
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
""",
    last_version="""
(
  SELECT :max_int - rev_version FROM artifacts
  WHERE
    artifacts.scope_no = artifact_names.scope_no
    AND artifacts.session_no = artifact_names.session_no
    AND artifacts.name = artifact_names.name
  ORDER BY rev_version
  LIMIT 1
)
""",
)

DELETE_EMPTY_NAMESPACES = """/* checks.empty_namespaces */
DELETE FROM item_namespaces
WHERE NOT EXISTS (SELECT 1 FROM items WHERE items.namespace_id = item_namespaces.id)
"""

DELETE_LOST_JOBS = """/* checks.lost_jobs */
DELETE FROM jobs
WHERE
  (subject = 'session' AND NOT EXISTS (SELECT 1 FROM sessions WHERE sessions.id = ref))
  OR (subject = 'message' AND NOT EXISTS (SELECT 1 FROM messages WHERE messages.id = ref))
  OR (subject = 'entry' AND NOT EXISTS (SELECT 1 FROM entries WHERE entries.id = ref))
  OR (subject = 'summary' AND NOT EXISTS (SELECT 1 FROM summaries WHERE summaries.id = ref))
  OR (
    subject = 'item'
    AND ref >= coalesce(
      (
        SELECT vector_ref + vector_count FROM items
        WHERE vector_ref IS NOT NULL AND vector_ref <= ref
        ORDER BY vector_ref DESC
        LIMIT 1
      ),
      0
    )
  )
  OR (
    space_no <> 0
    AND NOT EXISTS (
      SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = jobs.space_no
    )
  )
"""

# What has no vector becomes due again: a job costs little where nothing is missing.
INSERT_SESSION_JOBS = compose.insert_select(
    "checks.session_jobs",
    "jobs",
    "kind, subject, ref, space_no, next_seq, due_ms",
    """
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
        SELECT 1
        FROM vector_groups
        JOIN vectors ON vectors.id = vector_groups.id + (messages.id & 255)
        WHERE
          vector_groups.space_no = embedding_spaces.space_no
          AND vector_groups.kind = 'message'
          AND bucket = messages.id >> 8
      )
  )
""",
    compose.conflict("kind, subject, ref, space_no", next_seq="1", lease_ms="0"),
)

INSERT_ENTRY_JOBS = compose.insert_select(
    "checks.entry_jobs",
    "jobs",
    "kind, subject, ref, space_no, next_seq, due_ms",
    """
SELECT 'embed', 'entry', entries.id, space_no, version, :now_ms
FROM entries, embedding_spaces
WHERE
  retired_ms IS NULL
  AND NOT EXISTS (
    SELECT 1
    FROM vector_groups
    JOIN vectors ON vectors.id = vector_groups.id + (entries.id & 255)
    WHERE
      vector_groups.space_no = embedding_spaces.space_no
      AND vector_groups.kind = 'entry'
      AND bucket = entries.id >> 8
  )
""",
    compose.NOTHING,
)

# By kind: what selects (id, text, more text, bigrams), and what sets the bigrams.
_BIGRAMS = {
    "message": (SELECT_MESSAGE_TEXTS, UPDATE_MESSAGE_BIGRAMS),
    "entry": (SELECT_ENTRY_TEXTS, UPDATE_ENTRY_BIGRAMS),
    "artifact": (SELECT_ARTIFACT_TEXTS, UPDATE_ARTIFACT_BIGRAMS),
    "item": (SELECT_ITEM_TEXTS, UPDATE_ITEM_BIGRAMS),
    "session": (SELECT_SESSION_TITLES, UPDATE_SESSION_BIGRAMS),
}


def set_bigrams(tx: Tx, kind: str) -> None:
    """Derive the bigrams of every row of a kind; summaries have none to derive."""
    select, update = _BIGRAMS[kind]
    for rows in tx.pages(select, {"after": 0}):
        for row_id, text, more, stored in rows:
            bigrams = bigrams_of(f"{text}\n{more}" if more else text)
            if bigrams != stored:
                tx.run(update, {"id": row_id, "bigrams": bigrams})


def drop_empty_namespaces(tx: Tx) -> None:
    """Remove the namespaces that hold no item."""
    tx.run(DELETE_EMPTY_NAMESPACES)


def raise_last_seqs(tx: Tx) -> None:
    """Count the seqs of all messages as given out."""
    tx.run(UPDATE_LAST_SEQS, MASKS)


def set_counts(tx: Tx) -> None:
    """Count the messages, tokens and archived messages of each session and branch anew."""
    tx.run(UPDATE_COUNTS, MASKS)


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
