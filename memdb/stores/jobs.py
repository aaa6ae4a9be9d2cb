"""
Jobs: work that is due. Owns the table `jobs`.

A job is written in the transaction that made it due, so a crash forgets none.
A lease keeps two processes from doing the same work; whoever finishes proves
that nothing moved meanwhile (`next_seq`), so nothing is done twice.
"""

from __future__ import annotations

from memdb.record import Record
from memdb.text.validate import MAX_INT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.db.transaction import Tx

# How long a job stays with the process that took it. A batch of embeddings
# takes well under a second; a process that died gives its jobs back after this.
LEASE_MS = 60_000

# Wait before a failed job is tried again: doubled per failure, up to an hour.
RETRY_MS = 2_000
MAX_RETRY_MS = 3_600_000

# An entry that failed so often keeps its space from being complete no longer.
GIVEN_UP = 3

# A session is looked at for summaries each time it grew by so many messages.
SUMMARIZE_EVERY = 10

INSERT_SESSION = """/* jobs.embed_session */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL
ON CONFLICT DO NOTHING
"""

INSERT_ENTRY = """/* jobs.embed_entry */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'entry', :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL
ON CONFLICT (kind, subject, ref, space_no)
DO UPDATE SET next_seq = excluded.next_seq, due_ms = excluded.due_ms, lease_ms = 0
"""

INSERT_SUMMARIZE = """/* jobs.summarize */
INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('summarize', :subject, :ref, :now_ms)
ON CONFLICT DO NOTHING
"""

INSERT_REDO = """/* jobs.redo_node */
INSERT INTO jobs (kind, subject, ref, due_ms) VALUES ('summarize', 'node', :ref, :now_ms)
ON CONFLICT (kind, subject, ref, space_no)
DO UPDATE SET due_ms = excluded.due_ms, attempts = 0, error = NULL, lease_ms = 0
"""

INSERT_WHOLE_SPACE = """/* jobs.embed_everything */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', id, :space_no, 1, :now_ms FROM sessions WHERE last_seq > 0
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms FROM entries WHERE true
ON CONFLICT DO NOTHING
"""

# Of a space that got nothing for a while. Entries may have changed under their
# vectors meanwhile, so all of them are done again; messages never change.
INSERT_MISSING = """/* jobs.embed_missing */
INSERT INTO jobs (kind, subject, ref, space_no, next_seq, due_ms)
SELECT 'embed', 'session', id >> 24 << 24, :space_no, min(id & 16777215), :now_ms
FROM messages
WHERE
  (text <> '' OR text IS NULL)
  AND NOT EXISTS (
    SELECT 1 FROM embeddings
    WHERE space_no = :space_no AND kind = 'message' AND ref = messages.id
  )
GROUP BY id >> 24
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms FROM entries WHERE true
ON CONFLICT DO NOTHING
"""

SELECT_UNFINISHED = """/* jobs.unfinished */
SELECT 1 FROM jobs
WHERE
  space_no = :space_no
  AND (subject = 'session' OR attempts < :given_up)
LIMIT 1
"""

SELECT_TEXTS = """/* jobs.texts */
SELECT
  (SELECT coalesce(sum(last_seq), 0) FROM sessions) + (SELECT count(*) FROM entries)
"""

DELETE_OF_SPACE = """/* jobs.drop_space */
DELETE FROM jobs WHERE space_no = :space_no
"""

SELECT_DUE = """/* jobs.due */
SELECT kind, subject, ref, space_no, next_seq, attempts
FROM jobs
WHERE
  space_no = :space_no
  AND ref BETWEEN :low AND :high
  AND due_ms <= :due_ms
  AND lease_ms <= :now_ms
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
  AND subject = 'node'
  AND ref IN (SELECT id FROM nodes WHERE session_id = :session)
"""

SELECT_COUNT = """/* jobs.count */
SELECT count(*) FROM jobs WHERE space_no IN (SELECT value FROM json_each(:spaces))
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
    tx.run(INSERT_SESSION, {"ref": session, "next_seq": first_seq, "now_ms": tx.now_ms})


def add_entry(tx: Tx, entry_id: int, version: int) -> None:
    """Note that *version* of an entry has no vector, in every space that gets some."""
    tx.run(INSERT_ENTRY, {"ref": entry_id, "next_seq": version, "now_ms": tx.now_ms})


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


def add_everything(tx: Tx, space_no: int) -> int:
    """Note that everything in the file is to be embedded in a new space; return how many jobs."""
    return tx.run(INSERT_WHOLE_SPACE, {"space_no": space_no, "now_ms": tx.now_ms})


def add_missing(tx: Tx, space_no: int) -> None:
    """Note what a space lacks that got nothing new for a while; reads all messages."""
    tx.run(INSERT_MISSING, {"space_no": space_no, "now_ms": tx.now_ms})


def unfinished(tx: Tx, space_no: int) -> bool:
    """Return whether work of a space is left; not entries that failed `GIVEN_UP` times."""
    return tx.one(SELECT_UNFINISHED, {"space_no": space_no, "given_up": GIVEN_UP}) is not None


def texts(tx: Tx) -> int:
    """Return how many texts there are to embed in the file. Cost: 1 ms per 10,000 sessions."""
    row = tx.one(SELECT_TEXTS)
    return 0 if row is None else int(row[0])


def drop_space(tx: Tx, space_no: int) -> None:
    """Remove every job of a space."""
    tx.run(DELETE_OF_SPACE, {"space_no": space_no})


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


def drop_nodes(tx: Tx, session: int) -> None:
    """Remove every job about a node of a session, before the nodes go."""
    tx.run(DELETE_OF_NODES, {"session": session})


def count(tx: Tx, *spaces: int) -> int:
    """Return how many jobs of *spaces* wait, leased and failed ones included; 0: of no space."""
    row = tx.one(SELECT_COUNT, {"spaces": f"[{','.join(map(str, spaces))}]"})
    return 0 if row is None else int(row[0])
