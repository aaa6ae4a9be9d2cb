"""
Checks of rules that every sound file follows, and the repair of derived columns.

The module reads most tables, and owns none. Each check returns a line per row that breaks its
rule, 20 at most; each `derive` rebuilds rows from their sources.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.engine.segments import fill
from memdb.models.ids import MASKS
from memdb.models.messages import Finding
from memdb.models.record import Record
from memdb.text.derived import bigrams_of, date_spans

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.engine.base import Row, Tx

MAX_PER_RULE = 20


LACKS = "NOT EXISTS (SELECT 1 FROM {0} WHERE {0}.id = {1})"
LACKS_ITEM = """{0} >= coalesce(
  (
    SELECT vector_ref + vector_count FROM items
    WHERE vector_ref IS NOT NULL AND vector_ref <= {0}
    ORDER BY vector_ref DESC
    LIMIT 1
  ),
  0
)"""

# What sessions and names count, as it is.
OWN = "FROM messages WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask"
MESSAGE_COUNT = f"(SELECT count(*) {OWN})"
TOKENS = f"(SELECT CAST(coalesce(sum(messages.tokens), 0) AS BIGINT) {OWN})"
ARCHIVED_COUNT = """(
  SELECT CAST(coalesce(sum(archive_segments.message_count), 0) AS BIGINT) FROM archive_segments
  WHERE session_id = sessions.id
)"""
LAST_SEQ = """(
  SELECT messages.id & :seq_mask FROM messages
  WHERE messages.id > sessions.id AND messages.id <= sessions.id | :seq_mask
  ORDER BY messages.id DESC
  LIMIT 1
)"""
LAST_VERSION = """(
  SELECT :max_int - rev_version FROM artifacts
  WHERE
    artifacts.scope_no = artifact_names.scope_no
    AND artifacts.session_no = artifact_names.session_no
    AND artifacts.name = artifact_names.name
  ORDER BY rev_version
  LIMIT 1
)"""

VECTOR_REF = "(bucket << 8 | (vectors.id & 255))"
EMPTY = "NOT EXISTS (SELECT 1 FROM items WHERE items.namespace_id = item_namespaces.id)"
WITHOUT_SUBJECT = f"""
  (subject = 'session' AND {LACKS.format("sessions", "ref")})
  OR (subject = 'message' AND {LACKS.format("messages", "ref")})
  OR (subject = 'entry' AND {LACKS.format("entries", "ref")})
  OR (subject = 'summary' AND {LACKS.format("summaries", "ref")})
  OR (subject = 'item' AND {LACKS_ITEM.format("ref")})
"""
WITHOUT_SPACE = """
  space_no <> 0
  AND NOT EXISTS (
    SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = jobs.space_no
  )
"""
JOB_KEY = "kind, subject, ref, space_no"


class Rule(Record):
    """
    Rule for the rows of a sound file, in SQL.

    Attributes:
        said: Text of the finding.
        source: Where it looks.
        broken: Condition of a row that breaks the rule.
        order: Order of the findings.
        rebuildable: Whether `rebuild` repairs it.
    """

    said: str
    source: str
    broken: str
    order: str
    rebuildable: bool = False


# By the code of the finding.
BROKEN = {
    "message_without_session": Rule(
        "'message ' || id",
        "messages",
        LACKS.format("sessions", "messages.id & ~CAST(:seq_mask AS BIGINT)"),
        "id",
    ),
    "artifact_without_session": Rule(
        "'artifact ' || name",
        "artifact_names",
        "session_no <> 0 AND "
        + LACKS.format(
            "sessions", "(artifact_names.scope_no << 44) | (artifact_names.session_no << 24)"
        ),
        "id",
    ),
    "state_without_session": Rule(
        "'state ' || session || ' ' || key",
        "state",
        """
  session <> ''
  AND NOT EXISTS (
    SELECT 1 FROM sessions
    JOIN scopes ON scopes.scope_no = sessions.scope_no
    WHERE
      scopes.app = state.app
      AND scopes.user_name = state.user_name
      AND sessions.name = state.session
  )
""",
        "app, user_name, session, key",
    ),
    "entry_without_session": Rule(
        "'entry ' || id",
        "entries",
        "session_only = 1 AND session_id IS NULL",
        "id",
    ),
    "seq_above_last": Rule(
        "'session ' || name",
        "sessions",
        """
EXISTS (
  SELECT 1 FROM messages
  WHERE messages.id > sessions.id + sessions.last_seq AND messages.id <= sessions.id | :seq_mask
)
""",
        "id",
        rebuildable=True,
    ),
    "message_lost": Rule(
        f"""
'session ' || name || CASE WHEN branch = '' THEN '' ELSE ', branch ' || branch END
  || ' has ' || {MESSAGE_COUNT} || ' of its ' || message_count || ' messages'
""",
        "sessions",
        f"message_count > {MESSAGE_COUNT}",
        "sessions.id",
    ),
    "session_counts": Rule(
        """
'session ' || name || CASE WHEN branch = '' THEN '' ELSE ', branch ' || branch END
  || ' counts ' || message_count || ' messages, ' || tokens || ' tokens and '
  || archived_count || ' archived'
""",
        "sessions",
        f"""
  message_count < {MESSAGE_COUNT}
  OR (
    message_count = {MESSAGE_COUNT}
    AND (sessions.tokens <> {TOKENS} OR archived_count <> {ARCHIVED_COUNT})
  )
""",
        "sessions.id",
        rebuildable=True,
    ),
    "branch_place": Rule(
        "'branch ' || sessions.branch || ' of ' || sessions.name",
        "sessions JOIN sessions AS parent ON parent.id = sessions.parent_id",
        """
  parent.scope_no <> sessions.scope_no
  OR parent.name <> sessions.name
  OR parent.last_seq < sessions.leaves_at
  OR EXISTS (
    SELECT 1 FROM messages
    WHERE messages.id > sessions.id AND messages.id <= sessions.id + sessions.leaves_at
  )
""",
        "sessions.id",
    ),
    "version_above_last": Rule(
        "'artifact ' || artifact_names.name",
        """
artifact_names
JOIN artifacts
  ON artifacts.scope_no = artifact_names.scope_no
  AND artifacts.session_no = artifact_names.session_no
  AND artifacts.name = artifact_names.name
""",
        ":max_int - rev_version > last_version",
        "artifact_names.id",
        rebuildable=True,
    ),
    "tail_without_message": Rule(
        "'message ' || id",
        "messages_fts_tail",
        LACKS.format("messages", "messages_fts_tail.id"),
        "id",
        rebuildable=True,
    ),
    "namespace_without_item": Rule(
        "'namespace ' || id", "item_namespaces", EMPTY, "id", rebuildable=True
    ),
    "vector_without_row": Rule(
        f"coalesce(kind || ' ' || {VECTOR_REF}, 'id ' || vectors.id)",
        """
vectors
LEFT JOIN vector_groups ON vector_groups.id = vectors.id - (vectors.id & 255)
""",
        f"""
  kind IS NULL
  OR CASE kind
    WHEN 'message' THEN {LACKS.format("messages", VECTOR_REF)}
    WHEN 'entry' THEN {LACKS.format("entries", VECTOR_REF)}
    WHEN 'summary' THEN {LACKS.format("summaries", VECTOR_REF)}
    ELSE {LACKS_ITEM.format(VECTOR_REF)}
  END
  OR NOT EXISTS (
    SELECT 1 FROM embedding_spaces WHERE embedding_spaces.space_no = vector_groups.space_no
  )
""",
        "vectors.id",
        rebuildable=True,
    ),
    "vector_size": Rule(
        f"kind || ' ' || {VECTOR_REF}",
        """
vectors
JOIN vector_groups ON vector_groups.id = vectors.id - (vectors.id & 255)
JOIN embedding_spaces ON embedding_spaces.space_no = vector_groups.space_no
""",
        "length(vector) <> CASE kind WHEN 'message' THEN dim ELSE 4 * dim END",
        "vectors.id",
        rebuildable=True,
    ),
    "job_without_subject": Rule(
        "kind || ' of ' || subject || ' ' || ref",
        "jobs",
        WITHOUT_SUBJECT,
        JOB_KEY,
        rebuildable=True,
    ),
    "job_without_space": Rule(
        "kind || ' of ' || subject || ' ' || ref || ' in space ' || space_no",
        "jobs",
        WITHOUT_SPACE,
        JOB_KEY,
        rebuildable=True,
    ),
    "blob_unused": Rule(
        "'blob ' || blob_no",
        "blobs",
        """
  sha256 IS NOT NULL
  AND NOT EXISTS (SELECT 1 FROM artifacts WHERE artifacts.blob_no = blobs.blob_no)
""",
        "blob_no",
        rebuildable=True,
    ),
    "archived_without_segment": Rule(
        "'message ' || id",
        "messages",
        """
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
""",
        "id",
    ),
    "segment_rows": Rule(
        "'segment ' || first_seq || ' of session ' || session_id",
        "archive_segments",
        """
message_count <> (
  SELECT count(*) FROM messages
  WHERE
    messages.id BETWEEN session_id + first_seq AND session_id + archive_segments.last_seq
    AND text IS NULL
)
""",
        "session_id, first_seq",
    ),
    "segment_overlap": Rule(
        "'segment ' || first_seq || ' of session ' || session_id",
        "archive_segments",
        """
EXISTS (
  SELECT 1 FROM archive_segments AS next
  WHERE
    next.session_id = archive_segments.session_id
    AND next.first_seq > archive_segments.first_seq
    AND next.first_seq <= archive_segments.last_seq
)
""",
        "session_id, first_seq",
    ),
    "summary_gap": Rule(
        "'summary ' || uid || ' does not follow the leaf before it'",
        """
(
  SELECT
    id,
    uid,
    first_seq,
    lag(last_seq) OVER (PARTITION BY session_id ORDER BY first_seq) AS before_seq
  FROM summaries
  WHERE depth = 0
) AS leaves
""",
        "first_seq <> before_seq + 1",
        "id",
    ),
    # What begins a session and has no leaf is its system text; anything else there
    # would be in no context.
    "summary_head": Rule(
        """
'summary ' || summaries.uid || ' is the first leaf, and messages before it are not summarised'
""",
        "summaries",
        """
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
""",
        "summaries.id",
    ),
    "summary_sources": Rule(
        "'summary ' || summaries.uid || ' is not what its sources cover'",
        """
summaries
LEFT JOIN summaries AS below
  ON below.condensed_into = summaries.id
  AND below.session_id = summaries.session_id
  AND below.depth = summaries.depth - 1
""",
        """
summaries.depth > 0
GROUP BY summaries.id
HAVING
  min(below.first_seq) IS DISTINCT FROM summaries.first_seq
  OR max(below.last_seq) IS DISTINCT FROM summaries.last_seq
  OR sum(below.last_seq - below.first_seq + 1) <> summaries.last_seq - summaries.first_seq + 1
""",
        "summaries.id",
    ),
    "summary_link": Rule(
        "'summary ' || below.uid || ' is part of a summary that is not one above it'",
        "summaries AS below JOIN summaries AS above ON above.id = below.condensed_into",
        """
  above.session_id <> below.session_id
  OR above.depth <> below.depth + 1
  OR below.first_seq NOT BETWEEN above.first_seq AND above.last_seq
""",
        "below.id",
    ),
    "node_beyond_session": Rule(
        "'summary ' || summaries.uid || ' covers messages that do not exist'",
        "summaries JOIN sessions ON sessions.id = summaries.session_id",
        "summaries.last_seq > sessions.last_seq",
        "summaries.id",
        rebuildable=True,
    ),
}

RULES = {
    code: compose.select(
        f"checks.{code}",
        rule.said,
        rule.source,
        rule.broken,
        order=rule.order,
        limit=str(MAX_PER_RULE),
    )
    for code, rule in BROKEN.items()
}

SELECT_SEGMENTS = compose.select(
    "checks.segments",
    "session_id, first_seq, last_seq, message_count, codec, data, sha256",
    "archive_segments",
    "(session_id, first_seq) > (:session, :first_seq)",
    order="session_id, first_seq",
    limit="100",
)


def by_rules(tx: Tx, codes: Iterable[str] = RULES) -> Iterator[Finding]:
    """Yield a finding for each row that breaks a rule, 20 per rule at most."""
    for code in codes:
        for (text,) in tx.all(RULES[code], MASKS):
            yield Finding(code, text, BROKEN[code].rebuildable)


def by_hash(
    code: str, kind: str, damaged: Iterable[object], *, rebuildable: bool = False
) -> Iterator[Finding]:
    """Yield a finding for each row of *kind* that does not match its hash, 20 at most."""
    for name in islice(damaged, MAX_PER_RULE):
        yield Finding(code, f"{kind} {name}", rebuildable)


def segments(tx: Tx) -> Iterator[Row]:
    """Yield (session, first seq, last seq, number of messages, codec, data, sha256) of each."""
    return chain.from_iterable(tx.pages(SELECT_SEGMENTS, {"session": 0, "first_seq": 0}))


# By kind: the table, its text, more text, and which rows have some. A text of ASCII has no
# bigrams: its letters are as many as its bytes.
_TEXTS = {
    "message": (
        "messages",
        "text",
        "''",
        "bigrams IS NOT NULL OR octet_length(text) <> length(text)",
    ),
    "entry": ("entries", "text", "keywords", "true"),
    "artifact": ("artifact_names", "coalesce(text, '')", "''", "true"),
    "item": ("items", "text", "''", "text IS NOT NULL"),
    "session": ("sessions", "title", "''", "title IS NOT NULL"),
}

SELECT_TEXTS = {
    kind: compose.select(
        f"checks.{kind}_texts",
        ("id", text, more, "bigrams"),
        table,
        f"id > :after AND ({where})",
        order="id",
        limit="100",
    )
    for kind, (table, text, more, where) in _TEXTS.items()
}

UPDATE_BIGRAMS = {
    kind: compose.update(f"checks.{kind}_bigrams", table, "id = :id", "bigrams")
    for kind, (table, *_) in _TEXTS.items()
}

# By kind: the time from which the days are counted that its text names.
_TIMES = {"message": "created_ms", "entry": "updated_ms"}
WITH_SPANS = ("id", "text", "said_ms", "spans")

SELECT_SPANS = {
    kind: compose.select(
        f"checks.{kind}_spans",
        ("id", "text", time, "spans"),
        _TEXTS[kind][0],
        "id > :after",
        order="id",
        limit="1000",
    )
    for kind, time in _TIMES.items()
}

UPDATE_SPANS = {
    kind: compose.update(f"checks.set_{kind}_spans", _TEXTS[kind][0], "id = :id", "spans")
    for kind in _TIMES
}

UPDATE_LAST_SEQS = compose.update(
    "checks.last_seqs", "sessions", f"last_seq < coalesce({LAST_SEQ}, 0)", last_seq=LAST_SEQ
)
compose.annotate(UPDATE_LAST_SEQS, compose.Notes(sets_seqs=True))

UPDATE_COUNTS = compose.update(
    "checks.counts",
    "sessions",
    f"message_count <= {MESSAGE_COUNT} OR :with_lost = 1",
    message_count=MESSAGE_COUNT,
    tokens=TOKENS,
    archived_count=ARCHIVED_COUNT,
)

UPDATE_LAST_VERSIONS = compose.update(
    "checks.last_versions",
    "artifact_names",
    f"last_version < coalesce({LAST_VERSION}, 1)",
    last_version=LAST_VERSION,
)

DELETE_EMPTY_NAMESPACES = compose.delete("checks.empty_namespaces", "item_namespaces", EMPTY)

DELETE_LOST_JOBS = compose.delete(
    "checks.lost_jobs", "jobs", f"({WITHOUT_SUBJECT}) OR ({WITHOUT_SPACE})"
)


def derive(tx: Tx, kind: str) -> None:
    """Derive bigrams of every row of a kind again, and spans of messages and entries."""
    for rows in tx.pages(SELECT_TEXTS[kind], {"after": 0}):
        for row_id, text, more, stored in rows:
            bigrams = bigrams_of(f"{text}\n{more}" if more else text)
            if bigrams != stored:
                tx.run(UPDATE_BIGRAMS[kind], {"id": row_id, "bigrams": bigrams})
    if kind in _TIMES:
        for row_id, spans in _different_spans(tx, kind):
            tx.run(UPDATE_SPANS[kind], {"id": row_id, "spans": spans})


def by_spans(tx: Tx, kind: str) -> Iterator[Finding]:
    """Yield a finding for each row whose spans differ from those of its text and time."""
    found = (row_id for row_id, _ in _different_spans(tx, kind))
    return by_hash(f"{kind}_spans", kind, found, rebuildable=True)


def _different_spans(tx: Tx, kind: str) -> Iterator[tuple[int, str | None]]:
    """Yield the id of each such row with the correct spans."""
    for rows in tx.pages(SELECT_SPANS[kind], {"after": 0}):
        for row_id, text, said_ms, stored in fill(tx, rows, WITH_SPANS, lost_ok=True):
            if text is not None and (spans := date_spans(text, said_ms)) != stored:
                yield row_id, spans


def drop_empty_namespaces(tx: Tx) -> None:
    """Remove the namespaces that contain no item."""
    tx.run(DELETE_EMPTY_NAMESPACES)


def raise_last_seqs(tx: Tx) -> None:
    """Set each session's last seq to that of its newest message, at least."""
    tx.run(UPDATE_LAST_SEQS, MASKS)


def set_counts(tx: Tx, *, with_lost: bool = False) -> None:
    """
    Count messages, tokens and archived messages of each session and branch again.

    Args:
        with_lost: Also count sessions that lost messages, after which nothing shows the loss.
    """
    tx.run(UPDATE_COUNTS, {**MASKS, "with_lost": int(with_lost)})


def raise_last_versions(tx: Tx) -> None:
    """Set each name's last version number to that of its newest version, at least."""
    tx.run(UPDATE_LAST_VERSIONS, MASKS)


def delete_lost_jobs(tx: Tx) -> None:
    """Remove jobs about deleted rows, and jobs of deleted spaces."""
    tx.run(DELETE_LOST_JOBS)
