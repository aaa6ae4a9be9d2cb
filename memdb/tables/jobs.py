"""
Jobs: work that is due. Owns the table `jobs`; `upkeep` has its rows about the file.

A job is written in the transaction that made it due, so a crash forgets none.
A lease keeps two processes from doing the same work; whoever finishes proves
that nothing moved meanwhile (`next_seq`), so nothing is done twice.
"""

from __future__ import annotations

from memdb.models.ids import MAX_INT, SCOPE_SHIFT, scope_range
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.engine.base import Tx

# How long a job stays with the process that took it. A batch of embeddings
# takes well under a second; a process that died gives its jobs back after this.
LEASE_MS = 60_000

# Wait before a failed job is tried again: doubled per failure, up to an hour.
RETRY_MS = 2_000
MAX_RETRY_MS = 3_600_000

# A session is looked at for summaries each time it grew by so many messages.
SUMMARIZE_EVERY = 10

INSERT_SESSION = """/* jobs.embed_session */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL
ON CONFLICT DO NOTHING
"""

# Asked before: the insert, which may add several rows, makes FTS5 write out what
# it holds, 70 µs that the messages of one transaction can share.
SELECT_SESSION_LACKS = """/* jobs.session_lacks */
SELECT 1
FROM embedding_spaces AS space
WHERE
  retired_ms IS NULL
  AND NOT EXISTS (
    SELECT 1 FROM jobs
    WHERE kind = 'embed' AND subject = 'session' AND ref = :ref AND jobs.space_no = space.space_no
  )
LIMIT 1
"""

INSERT_ENTRY = """/* jobs.embed_entry */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'entry', :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL AND space_no <> :embedded_in
ON CONFLICT (kind, subject, ref, space_no)
DO UPDATE SET next_seq = excluded.next_seq, due_ms = excluded.due_ms, lease_ms = 0
"""

INSERT_SUMMARIZE = """/* jobs.summarize */
INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('summarize', :subject, :ref, :now_ms)
ON CONFLICT DO NOTHING
"""

INSERT_REDO = """/* jobs.redo_node */
INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('summarize', 'summary', :ref, :now_ms)
ON CONFLICT (kind, subject, ref, space_no)
DO UPDATE SET due_ms = excluded.due_ms, attempts = 0, error = NULL, lease_ms = 0
"""

SELECT_DUE = """/* jobs.due */
SELECT kind, subject, ref, space_no, next_seq, attempts
FROM jobs
WHERE
  space_no = :space_no
  AND ref BETWEEN :low AND :high
  AND due_ms <= :due_ms
  AND lease_ms <= :now_ms
  AND kind <> 'extract'
  AND subject <> 'file'
ORDER BY ref, kind, subject
LIMIT :limit
"""

UPDATE_LEASE = """/* jobs.lease */
UPDATE jobs SET lease_ms = :until_ms
WHERE
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND next_seq = :next_seq
  AND lease_ms <= :now_ms
"""

UPDATE_NEXT_SEQ = """/* jobs.advance */
UPDATE jobs SET next_seq = :new_seq, attempts = 0, error = NULL, lease_ms = 0
WHERE
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND next_seq = :next_seq
"""

UPDATE_FAILED = """/* jobs.fail */
UPDATE jobs SET attempts = attempts + 1, error = :error, due_ms = :due_ms, lease_ms = 0
WHERE
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND next_seq = :next_seq
"""

UPDATE_RENEWED = """/* jobs.renew */
UPDATE jobs SET lease_ms = :until_ms
WHERE
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND lease_ms = :held_ms
"""

DELETE_JOB = """/* jobs.done */
DELETE FROM jobs
WHERE
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND next_seq = :next_seq
"""

DELETE_SUBJECT = """/* jobs.drop */
DELETE FROM jobs
WHERE kind IN ('embed', 'summarize', 'archive', 'decay', 'extract')
  AND subject = :subject
  AND ref = :ref
"""

DELETE_OF_NODES = """/* jobs.drop_nodes */
DELETE FROM jobs
WHERE
  kind = 'summarize'
  AND subject = 'summary'
  AND ref BETWEEN :low AND :high
  AND ref IN (SELECT id FROM summaries WHERE session_id = :session AND last_seq >= :seq)
"""

INSERT_EXTRACT = """/* jobs.extract */
INSERT INTO jobs (kind, subject, ref, next_seq, due_ms)
VALUES ('extract', 'session', :ref, 1, :now_ms)
ON CONFLICT DO NOTHING
"""

SELECT_EXTRACT = """/* jobs.extract_due */
SELECT
  'extract',
  'session',
  sessions.id,
  0,
  coalesce(jobs.next_seq, 1) AS next_seq,
  coalesce(jobs.attempts, 0)
FROM sessions
LEFT JOIN jobs ON
  jobs.kind = 'extract'
  AND jobs.subject = 'session'
  AND jobs.ref = sessions.id
  AND jobs.space_no = 0
WHERE
  sessions.id BETWEEN :low AND :high
  AND sessions.last_seq >= coalesce(jobs.next_seq, 1)
  AND coalesce(jobs.due_ms, 0) <= :due_ms
  AND coalesce(jobs.lease_ms, 0) <= :now_ms
  AND (
    sessions.last_seq - coalesce(jobs.next_seq, 1) >= :least - 1
    OR sessions.updated_ms <= :quiet_ms
  )
ORDER BY sessions.id
LIMIT :limit
"""

SELECT_WATERMARK = """/* jobs.watermark */
SELECT kind, subject, ref, space_no, next_seq, attempts
FROM jobs
WHERE kind = 'extract' AND subject = 'session' AND ref = :ref AND space_no = 0
"""


class Job(Record):
    """
    A piece of due work.

    Attributes:
        next_seq: For a session the first seq still to do; for an entry the
            version to do.
        attempts: How often it failed.
    """

    kind: str
    subject: str
    ref: int
    space_no: int
    next_seq: int
    attempts: int

    def key(self) -> dict[str, object]:
        """Return the values that name this job in the state it was read in."""
        return {
            "kind": self.kind,
            "subject": self.subject,
            "ref": self.ref,
            "space_no": self.space_no,
            "next_seq": self.next_seq,
        }


def add_session(tx: Tx, session: int, first_seq: int) -> None:
    """Note that messages from *first_seq* on have no vectors, in every space that gets some."""
    if tx.one(SELECT_SESSION_LACKS, {"ref": session}) is not None:
        tx.run(INSERT_SESSION, {"ref": session, "next_seq": first_seq, "now_ms": tx.now_ms})


def add_entry(tx: Tx, entry_id: int, version: int, embedded_in: int = 0) -> None:
    """
    Queue the embedding of *version* of an entry, in every space that gets vectors.

    Args:
        embedded_in: Number of the space that has the vector already; 0 means none.
    """
    values = {"ref": entry_id, "next_seq": version, "now_ms": tx.now_ms}
    tx.run(INSERT_ENTRY, {**values, "embedded_in": embedded_in})


def add_summarize(tx: Tx, subject: str, ref: int) -> None:
    """Note that a session may have messages to summarise, or that a node wants a better text."""
    tx.run(INSERT_SUMMARIZE, {"subject": subject, "ref": ref, "now_ms": tx.now_ms})


def redo_node(tx: Tx, ref: int) -> None:
    """
    Note that a node is to be written again because what it was made from changed.

    Who is writing it just now, from the old texts, loses the lease, so that
    this is not what stays.
    """
    tx.run(INSERT_REDO, {"ref": ref, "now_ms": tx.now_ms})


def summarize_session(session: int) -> Job:
    """Return the job that `add_summarize` notes for a session."""
    return Job("summarize", "session", session, 0, 0, 0)


def grew(tx: Tx, session: int, first_seq: int, last_seq: int) -> None:
    """Note that a session got messages: each tenth makes it due to be looked at for summaries."""
    if (first_seq - 1) // SUMMARIZE_EVERY != last_seq // SUMMARIZE_EVERY:
        add_summarize(tx, "session", session)


def due(
    tx: Tx,
    space_no: int,
    low: int,
    high: int,
    now_ms: int,
    limit: int,
    *,
    early: bool = False,
) -> list[Job]:
    """
    Return up to *limit* jobs of a space and id range that nobody works on, by ref.

    Args:
        early: Also those that failed and wait to be tried again.
    """
    values = {"space_no": space_no, "low": low, "high": high, "now_ms": now_ms, "limit": limit}
    values["due_ms"] = MAX_INT if early else now_ms
    return [Job(*row) for row in tx.all(SELECT_DUE, values)]


def lease(tx: Tx, job: Job, lease_ms: int = LEASE_MS) -> bool:
    """Take *job* for *lease_ms*; False when somebody else was faster."""
    values = {**job.key(), "now_ms": tx.now_ms, "until_ms": tx.now_ms + lease_ms}
    return tx.run(UPDATE_LEASE, values) > 0


def renew(tx: Tx, job: Job, held_ms: int, until_ms: int) -> bool:
    """Keep a lease that ends at *held_ms* until *until_ms*; False when it is another's by now."""
    return tx.run(UPDATE_RENEWED, {**job.key(), "held_ms": held_ms, "until_ms": until_ms}) > 0


def advance(tx: Tx, job: Job, new_seq: int) -> bool:
    """Note that *job* is done below *new_seq*; False when it moved meanwhile."""
    return tx.run(UPDATE_NEXT_SEQ, {**job.key(), "new_seq": new_seq}) > 0


def done(tx: Tx, job: Job) -> bool:
    """Remove *job*; False when it moved meanwhile."""
    return tx.run(DELETE_JOB, job.key()) > 0


def fail(tx: Tx, job: Job, error: str) -> None:
    """Keep *job* for later, with the *error* that stopped it."""
    wait_ms = min(RETRY_MS << min(job.attempts, 20), MAX_RETRY_MS)
    tx.run(UPDATE_FAILED, {**job.key(), "error": error[:500], "due_ms": tx.now_ms + wait_ms})


def drop(tx: Tx, subject: str, ref: int) -> None:
    """Remove every job about something that is deleted."""
    tx.run(DELETE_SUBJECT, {"subject": subject, "ref": ref})


def drop_nodes(tx: Tx, session: int, from_seq: int = 0) -> None:
    """Remove every job about a node that stands for *from_seq* or later, before the nodes go."""
    low, high = scope_range(session >> SCOPE_SHIFT)
    tx.run(DELETE_OF_NODES, {"session": session, "seq": from_seq, "low": low, "high": high})


def watermark(tx: Tx, session: int) -> Job:
    """Return how far facts were looked for in a session; it begins at its first message."""
    row = tx.one(SELECT_WATERMARK, {"ref": session})
    return Job("extract", "session", session, 0, 1, 0) if row is None else Job(*row)


def begin_extract(tx: Tx, session: int) -> None:
    """Give a session its watermark, if it has none."""
    tx.run(INSERT_EXTRACT, {"ref": session, "now_ms": tx.now_ms})


def extract_due(
    tx: Tx, low: int, high: int, now_ms: int, limit: int, *, least: int, quiet_ms: int, early: bool
) -> list[Job]:
    """
    Return sessions of an id range that say more than what facts were looked for in, by id.

    Args:
        least: Only those with so many such messages ...
        quiet_ms: ... or without a new message since then.
        early: Also those that failed and wait to be tried again.
    """
    values = {
        "low": low,
        "high": high,
        "now_ms": now_ms,
        "due_ms": MAX_INT if early else now_ms,
        "limit": limit,
        "least": least,
        "quiet_ms": quiet_ms,
    }
    return [Job(*row) for row in tx.all(SELECT_EXTRACT, values)]
