"""
Jobs: work that is due, with leases. Owns the table `jobs`.

A job is inserted in the transaction that made it due, so no crash loses one. A lease keeps two
processes from doing the same work; finishing it compares `next_seq`, so nothing is done twice. Rows
about the file are upkeep, which is due again and again; `next_seq` is the time when it was last
done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.errors import existing
from memdb.models.ids import MAX_INT, MAX_SEQ
from memdb.models.record import Record
from memdb.models.reports import Upkeep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Row, Tx

# How long a job stays with the process that took it; a process that died gives it back after this.
# A batch of embeddings takes well under a second. Two requests to a model with their retries take
# less than the second time. A step of upkeep that takes longer than the third may be done twice.
LEASE_MS = 60_000
MODEL_LEASE_MS = 150_000
UPKEEP_LEASE_MS = 600_000

# Wait before a failed job is tried again: doubled per failure, up to an hour. A step of upkeep
# waits at most as long as its own interval.
RETRY_MS = 2_000
MAX_RETRY_MS = 3_600_000
UPKEEP_RETRY_MS = 60_000

MAX_ERROR_CHARS = 500

KEY = "kind, subject, ref, space_no"
DUE = f"{KEY}, next_seq, due_ms"

# What a Job is read from.
READ = f"{KEY}, next_seq, attempts, lease_ms"

# One job, with how far it is done; and as its worker has leased it.
AS_READ = """
  kind = :kind
  AND subject = :subject
  AND ref = :ref
  AND space_no = :space_no
  AND next_seq = :next_seq
"""
LEASED = f"{AS_READ} AND lease_ms = :lease_ms"
FREED: dict[str, str] = {"error": "NULL", "attempts": "0", "lease_ms": "0"}

INSERT_SESSION = compose.insert_select(
    "jobs.embed_session",
    "jobs",
    DUE,
    """
SELECT 'embed', 'session', :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL
""",
    compose.NOTHING,
)

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
compose.annotate(SELECT_SESSION_LACKS, compose.Notes(assumed=(1,)))

# The text of an entry or item that changed.
INSERT_TEXT = compose.insert_select(
    "jobs.embed_text",
    "jobs",
    DUE,
    """
SELECT 'embed', CAST(:subject AS TEXT), :ref, space_no, :next_seq, :now_ms
FROM embedding_spaces
WHERE retired_ms IS NULL AND space_no <> :embedded_in
""",
    compose.conflict(KEY, "next_seq, due_ms", lease_ms="0"),
)

# A message that the embedder refused, with its first failure.
INSERT_MESSAGE = compose.insert(
    "jobs.embed_message",
    "jobs",
    "ref, space_no, due_ms, error",
    kind="'embed'",
    subject="'message'",
    attempts="1",
    otherwise=compose.NOTHING,
)

INSERT_SUMMARIZE = compose.insert(
    "jobs.summarize",
    "jobs",
    "subject, ref",
    kind="'summarize'",
    due_ms=":now_ms",
    otherwise=compose.NOTHING,
)

INSERT_REDO = compose.insert(
    "jobs.redo_node",
    "jobs",
    "ref",
    kind="'summarize'",
    subject="'summary'",
    due_ms=":now_ms",
    otherwise=compose.conflict(KEY, "due_ms", **FREED),
)

SELECT_DUE = f"""/* jobs.due */
SELECT {READ}
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

UPDATE_LEASE = compose.update(
    "jobs.lease", "jobs", f"{AS_READ} AND lease_ms <= :now_ms", "lease_ms"
)

UPDATE_NEXT_SEQ = compose.update("jobs.advance", "jobs", LEASED, next_seq=":new_seq", **FREED)

# Work on the file comes round again: it keeps when it was done last, and gets its next time.
UPDATE_DUE = compose.update(
    "jobs.reschedule", "jobs", LEASED, "due_ms", next_seq=":now_ms", **FREED
)

UPDATE_FAILED = compose.update(
    "jobs.fail", "jobs", LEASED, "error, due_ms", attempts="attempts + 1", lease_ms="0"
)

UPDATE_RENEWED = compose.update("jobs.renew", "jobs", LEASED, lease_ms=":until_ms")

DELETE_JOB = compose.delete("jobs.done", "jobs", LEASED)

DELETE_SUBJECT = """/* jobs.drop */
DELETE FROM jobs
WHERE kind IN ('embed', 'summarize', 'archive', 'decay', 'extract')
  AND subject = :subject
  AND ref BETWEEN :low AND :high
"""

DELETE_OF_MESSAGES = """/* jobs.drop_messages */
DELETE FROM jobs WHERE kind = 'embed' AND subject = 'message' AND ref BETWEEN :low AND :high
"""

DELETE_OF_NODES = """/* jobs.drop_nodes */
DELETE FROM jobs
WHERE kind = 'summarize' AND subject = 'summary' AND ref IN (SELECT value FROM json_each(:ids))
"""

INSERT_EXTRACTED = compose.insert(
    "jobs.extracted",
    "jobs",
    "ref, next_seq",
    kind="'extract'",
    subject="'session'",
    due_ms=":now_ms",
    otherwise=compose.conflict(
        KEY, "next_seq", where="jobs.next_seq < excluded.next_seq", lease_ms="0"
    ),
)

SELECT_EXTRACT = """/* jobs.extract_due */
SELECT
  'extract',
  'session',
  sessions.id,
  0,
  coalesce(jobs.next_seq, 1) AS next_seq,
  coalesce(jobs.attempts, 0),
  coalesce(jobs.lease_ms, 0)
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

SELECT_WATERMARK = f"""/* jobs.watermark */
SELECT {READ}
FROM jobs
WHERE kind = 'extract' AND subject = 'session' AND ref = :ref AND space_no = 0
"""

INSERT_UPKEEP = compose.insert(
    "jobs.add_upkeep",
    "jobs",
    "kind",
    subject="'file'",
    ref="0",
    due_ms="0",
    otherwise=compose.NOTHING,
)

SELECT_UPKEEP = f"""/* jobs.find_upkeep */
SELECT {READ}
FROM jobs
WHERE kind = :kind AND subject = 'file' AND ref = 0 AND space_no = 0 AND due_ms <= :due_ms
"""

SELECT_ALL_UPKEEP = """/* jobs.list_upkeep */
SELECT kind, nullif(next_seq, 0), due_ms, lease_ms, attempts, error
FROM jobs
WHERE
  kind IN ('expire', 'retain', 'sessions', 'optimize', 'checkpoint')
  AND subject = 'file'
  AND ref = 0
  AND space_no = 0
ORDER BY kind
"""


SELECT_QUEUE = """/* jobs.queue */
SELECT
  kind,
  model,
  count(*),
  sum(CASE WHEN due_ms <= :now_ms THEN 1 ELSE 0 END),
  min(CASE WHEN due_ms <= :now_ms THEN due_ms END),
  sum(CASE WHEN error IS NULL THEN 0 ELSE 1 END)
FROM jobs
LEFT JOIN embedding_spaces ON embedding_spaces.space_no = jobs.space_no
WHERE kind IN ('embed', 'summarize')
GROUP BY kind, model
ORDER BY kind, model
"""

SELECT_FAILED = """/* jobs.list_failed */
SELECT kind, subject, ref, model, attempts, due_ms, error
FROM jobs
LEFT JOIN embedding_spaces ON embedding_spaces.space_no = jobs.space_no
WHERE error IS NOT NULL
ORDER BY due_ms DESC, kind, subject, ref
LIMIT :limit
"""

UPDATE_ERRORS = compose.update(
    "jobs.clear_errors",
    "jobs",
    """
  kind IN ('embed', 'summarize', 'archive', 'decay', 'extract')
  AND subject = 'session'
  AND ref = :session
""",
    error="NULL",
)


class Job(Record):
    """
    A piece of due work, as its row was when it was last read or changed.

    Attributes:
        subject: "session", "message", "entry", "item" (one of its texts), "summary" or
            "file".
        next_seq: For a session the first seq still to do, for an entry the version to do. For the
            file the time of the last run.
        attempts: Number of failures in a row.
        lease_ms: End of the lease of the process that has it; 0 means that no process has it.
    """

    kind: str
    subject: str
    ref: int
    space_no: int
    next_seq: int
    attempts: int
    lease_ms: int = 0

    def key(self) -> dict[str, object]:
        """Return the values that identify this job and the state that its row must have."""
        return {name: getattr(self, name) for name in self._fields if name != "attempts"}


class FailedJob(Record):
    """
    A job that failed and waits to be tried again.

    Attributes:
        model: Model of its space; None means that it is not about vectors.
    """

    kind: str
    subject: str
    ref: int
    model: str | None
    attempts: int
    due_ms: int
    error: str


def add_session(tx: Tx, session: int, first_seq: int) -> None:
    """Queue the embedding of messages from *first_seq* on, in every space that gets vectors."""
    if tx.one(SELECT_SESSION_LACKS, {"ref": session}) is not None:
        tx.run(INSERT_SESSION, {"ref": session, "next_seq": first_seq, "now_ms": tx.now_ms})


def add_entry(tx: Tx, entry_id: int, version: int, embedded_in: int = 0) -> None:
    """
    Queue the embedding of *version* of an entry, in every space that gets vectors.

    Args:
        embedded_in: Number of the space that has the vector already; 0 means none.
    """
    values = {"subject": "entry", "ref": entry_id, "next_seq": version, "now_ms": tx.now_ms}
    tx.run(INSERT_TEXT, {**values, "embedded_in": embedded_in})


def add_items(tx: Tx, refs: Iterable[int]) -> None:
    """Queue the embedding of the texts of an item, by the refs of their vectors, in every space."""
    values = {"subject": "item", "next_seq": 0, "now_ms": tx.now_ms, "embedded_in": 0}
    tx.many(INSERT_TEXT, [{**values, "ref": ref} for ref in refs])


def add_refused(tx: Tx, space_no: int, message: int, error: str) -> None:
    """Queue a message that an embedder refused, to be tried again later."""
    values = {"ref": message, "space_no": space_no, "due_ms": tx.now_ms + RETRY_MS}
    tx.run(INSERT_MESSAGE, {**values, "error": error[:MAX_ERROR_CHARS]})


def drop_messages(tx: Tx, low: int, high: int) -> None:
    """Remove every job about a message with *low* <= id <= *high*."""
    tx.run(DELETE_OF_MESSAGES, {"low": low, "high": high})


def add_summarize(tx: Tx, subject: str, ref: int) -> None:
    """Queue a session that may have messages to summarise, or a node that needs a better text."""
    tx.run(INSERT_SUMMARIZE, {"subject": subject, "ref": ref, "now_ms": tx.now_ms})


def redo_node(tx: Tx, ref: int) -> None:
    """
    Queue a node to be rewritten because its sources changed.

    Who is writing it just now, from the old texts, loses the lease, so that
    this is not what stays.
    """
    tx.run(INSERT_REDO, {"ref": ref, "now_ms": tx.now_ms})


def summarize_session(session: int) -> Job:
    """Return the job that `add_summarize` notes for a session."""
    return Job("summarize", "session", session, 0, 0, 0)


def improve_summary(row_id: int) -> Job:
    """Return the job that `add_summarize` notes for a summary."""
    return Job("summarize", "summary", row_id, 0, 0, 0)


def grew(tx: Tx, session: int, first_seq: int, last_seq: int, every: int) -> None:
    """Note that a session got messages; one in *every* makes it due for a summary."""
    if (first_seq - 1) // every != last_seq // every:
        add_summarize(tx, "session", session)


def due(
    tx: Tx, space_no: int, low: int, high: int, now_ms: int, limit: int, *, early: bool = False
) -> list[Job]:
    """
    Return up to *limit* jobs of a space and id range that are not leased, by ref.

    Args:
        early: Also jobs that failed and wait to be tried again.
    """
    values = {"space_no": space_no, "low": low, "high": high, "now_ms": now_ms, "limit": limit}
    values["due_ms"] = MAX_INT if early else now_ms
    return [Job(*row) for row in tx.all(SELECT_DUE, values)]


def lease(tx: Tx, job: Job, lease_ms: int = LEASE_MS) -> Job | None:
    """Take *job* for *lease_ms* and return it; None if another process has it, or it changed."""
    held = job.replace(lease_ms=tx.now_ms + lease_ms)
    taken = tx.count_changed(UPDATE_LEASE, {**held.key(), "now_ms": tx.now_ms}) > 0
    return held if taken else None


def renew(tx: Tx, job: Job, lease_ms: int = LEASE_MS) -> Job | None:
    """Renew the lease of *job* for *lease_ms* and return it; None if another process has it now."""
    until_ms = tx.now_ms + lease_ms
    renewed = tx.count_changed(UPDATE_RENEWED, {**job.key(), "until_ms": until_ms}) > 0
    return job.replace(lease_ms=until_ms) if renewed else None


def release(tx: Tx, job: Job) -> Job | None:
    """Release *job*, which stays due, and return it; None if another process has it now."""
    released = tx.count_changed(UPDATE_RENEWED, {**job.key(), "until_ms": 0}) > 0
    return job.replace(lease_ms=0) if released else None


def advance(tx: Tx, job: Job, new_seq: int) -> bool:
    """Set *job* as done below *new_seq*, and release it; False if it changed meanwhile."""
    return tx.count_changed(UPDATE_NEXT_SEQ, {**job.key(), "new_seq": new_seq}) > 0


def done(tx: Tx, job: Job) -> bool:
    """Remove *job*; False if it changed meanwhile."""
    return tx.count_changed(DELETE_JOB, job.key()) > 0


def fail(tx: Tx, job: Job, error: str, wait_ms: int | None = None) -> bool:
    """
    Keep *job* for later, with the *error* that stopped it; False if it changed meanwhile.

    Args:
        wait_ms: Time until it is due again; None means 2 seconds, doubled per failure up to an
            hour.
    """
    if wait_ms is None:
        wait_ms = min(RETRY_MS << min(job.attempts, 20), MAX_RETRY_MS)
    values = {"error": error[:MAX_ERROR_CHARS], "due_ms": tx.now_ms + wait_ms}
    return tx.count_changed(UPDATE_FAILED, {**job.key(), **values}) > 0


def reschedule(tx: Tx, job: Job, wait_ms: int) -> bool:
    """Set work on the file as done, and due again after *wait_ms*; False if it changed."""
    values = {"now_ms": tx.now_ms, "due_ms": tx.now_ms + wait_ms}
    return tx.count_changed(UPDATE_DUE, {**job.key(), **values}) > 0


def drop(tx: Tx, subject: str, low: int, high: int | None = None) -> None:
    """Remove every job about a *subject* with an id from *low* to *high*, or only *low*."""
    tx.run(DELETE_SUBJECT, {"subject": subject, "low": low, "high": low if high is None else high})


def drop_nodes(tx: Tx, ids: Collection[int]) -> None:
    """Remove every job about the nodes with these *ids*."""
    tx.run(DELETE_OF_NODES, {"ids": ids})


def watermark(tx: Tx, session: int) -> Job:
    """
    Return the extraction job of a session, leased or not.

    Its `next_seq` is the first seq that was not searched for facts, 1 at first.
    """
    row = tx.one(SELECT_WATERMARK, {"ref": session})
    return Job("extract", "session", session, 0, 1, 0) if row is None else Job(*row)


def set_extracted(tx: Tx, session: int, last_seq: int) -> None:
    """
    Store that a session was searched for facts up to *last_seq*, 0 if there is none, at least.
    """
    values = {"ref": session, "next_seq": last_seq + 1, "now_ms": tx.now_ms}
    tx.run(INSERT_EXTRACTED, values)


def extract_due(
    tx: Tx, low: int, high: int, now_ms: int, limit: int, *, least: int, quiet_ms: int, early: bool
) -> list[Job]:
    """
    Return sessions of an id range with messages not yet searched for facts, by id.

    Args:
        least: Only those with this many such messages ...
        quiet_ms: ... or without a new message since this time.
        early: Also jobs that failed and wait to be tried again.
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


def lease_upkeep(tx: Tx, kind: str, lease_ms: int, *, early: bool = False) -> Job | None:
    """
    Take a kind of work on the file; None if it is not due or another process has it.

    Args:
        early: Even if it is not due yet.
    """
    tx.run(INSERT_UPKEEP, {"kind": kind})
    row = tx.one(SELECT_UPKEEP, {"kind": kind, "due_ms": MAX_INT if early else tx.now_ms})
    return None if row is None else lease(tx, Job(*row), lease_ms)


def list_upkeep(tx: Tx) -> tuple[Upkeep, ...]:
    """Return the state of each kind of work on the file that was ever taken, by kind."""
    return tuple(Upkeep(*row) for row in tx.all(SELECT_ALL_UPKEEP))


# Failed jobs that are looked at for their reasons.
MAX_FAILED = 10_000


def count_queue(tx: Tx, now_ms: int) -> list[Row]:
    """
    Return (kind, model, jobs, due, oldest due time, failed) of each kind of pending work.

    Cost: 1 ms per 1,000 jobs.
    """
    return tx.all(SELECT_QUEUE, {"now_ms": now_ms})


def list_failed(tx: Tx) -> list[FailedJob]:
    """Return the failed jobs, those that are tried last first."""
    return [FailedJob(*row) for row in tx.all(SELECT_FAILED, {"limit": MAX_FAILED})]


# A single text that failed so often keeps its space from being complete no longer.
GIVEN_UP = 3

# The vector of a row in a space, for its kind and where it stands in the query around.
VECTOR_OF = """
  SELECT 1
  FROM vector_groups
  JOIN vectors ON vectors.id = vector_groups.id + ({ref} & 255)
  WHERE space_no = :space_no AND vector_groups.kind = '{kind}' AND bucket = {ref} >> 8
"""

# What has no vector in a space. Each session is due from its first such message on.
INSERT_MISSING = compose.insert_select(
    "jobs.embed_missing",
    "jobs",
    DUE,
    f"""
SELECT
  'embed',
  'session',
  id >> 24 << 24,
  CAST(:space_no AS BIGINT),
  min(id & :seq_mask),
  CAST(:now_ms AS BIGINT)
FROM messages
WHERE
  (text <> '' OR text IS NULL)
  AND NOT EXISTS ({VECTOR_OF.format(kind="message", ref="messages.id")})
GROUP BY id >> 24
UNION ALL
SELECT 'embed', 'entry', id, :space_no, version, :now_ms
FROM entries
WHERE :again = 1 OR NOT EXISTS ({VECTOR_OF.format(kind="entry", ref="entries.id")})
""",
    compose.conflict(
        KEY,
        "next_seq",
        where="jobs.subject = 'session' AND jobs.next_seq > excluded.next_seq",
        lease_ms="0",
    ),
)

# The texts of items without a vector: putting an item removes what it had.
INSERT_ITEMS = compose.insert_select(
    "jobs.embed_items",
    "jobs",
    "kind, subject, ref, space_no, due_ms",
    f"""
WITH RECURSIVE texts (ref, last_ref) AS (
  SELECT vector_ref, vector_ref + vector_count - 1
  FROM items
  WHERE vector_ref IS NOT NULL AND embedded = 1
  UNION ALL
  SELECT ref + 1, last_ref FROM texts WHERE ref < last_ref
)
SELECT 'embed', 'item', texts.ref, CAST(:space_no AS BIGINT), CAST(:now_ms AS BIGINT)
FROM texts
WHERE NOT EXISTS ({VECTOR_OF.format(kind="item", ref="texts.ref")})
""",
    compose.NOTHING,
)

SELECT_UNFINISHED = """/* jobs.unfinished */
SELECT 1 FROM jobs
WHERE
  space_no = :space_no
  AND (subject = 'session' OR attempts < :given_up)
LIMIT 1
"""

# Texts of an id range: those that wait for a space, of a session from `next_seq` on, and all.
SELECT_TEXTS = """/* jobs.texts */
SELECT
  (
    SELECT CAST(
      coalesce(
        sum(
          CASE
            WHEN subject = 'session' AND last_seq > next_seq THEN last_seq - next_seq + 1
            ELSE 1
          END
        ),
        0
      ) AS BIGINT
    )
    FROM jobs
    LEFT JOIN sessions ON subject = 'session' AND sessions.id = ref
    WHERE jobs.space_no = :space_no AND ref BETWEEN :low AND :high
  ),
  (
    SELECT CAST(coalesce(sum(last_seq - leaves_at), 0) AS BIGINT)
    FROM sessions
    WHERE id BETWEEN :low AND :high
  )
  + (SELECT count(*) FROM entries WHERE id BETWEEN :low AND :high)
  + (
    SELECT CAST(coalesce(sum(vector_count), 0) AS BIGINT) FROM items
    WHERE vector_ref BETWEEN :low AND :high AND embedded = 1
  )
"""

DELETE_OF_SPACE = compose.delete("jobs.delete_space", "jobs", "space_no = :space_no")

SELECT_COUNT = """/* jobs.count */
SELECT count(*) FROM jobs
WHERE
  space_no IN (SELECT value FROM json_each(:spaces))
  AND kind <> 'extract'
  AND subject <> 'file'
"""


SELECT_SUBJECTS = """/* jobs.count_subjects */
SELECT
  (SELECT count(*) FROM sessions WHERE last_seq > leaves_at)
  + (SELECT count(*) FROM entries)
  + (
    SELECT CAST(coalesce(sum(vector_count), 0) AS BIGINT) FROM items
    WHERE vector_ref IS NOT NULL AND embedded = 1
  )
"""


def count_subjects(tx: Tx) -> int:
    """Return the approximate number of jobs that `add_missing` would add for a new space."""
    return tx.read_number(SELECT_SUBJECTS)


def add_missing(tx: Tx, space_no: int, *, again: bool = False) -> int:
    """
    Queue everything without a vector in a space; return the number of jobs. Reads all messages.

    Args:
        again: Also queue every entry, because its vector may belong to an earlier text.
    """
    values = {"space_no": space_no, "now_ms": tx.now_ms}
    queued = tx.count_changed(INSERT_MISSING, {**values, "again": int(again), "seq_mask": MAX_SEQ})
    return queued + tx.count_changed(INSERT_ITEMS, values)


def is_unfinished(tx: Tx, space_no: int) -> bool:
    """Return whether a space has pending work, except single texts that failed `GIVEN_UP` times."""
    return tx.one(SELECT_UNFINISHED, {"space_no": space_no, "given_up": GIVEN_UP}) is not None


def count_texts(tx: Tx, space_no: int, low: int, high: int) -> tuple[int, int]:
    """
    Return how many texts of an id range are pending for a space, and how many exist.

    Cost: 1 ms per 10,000 sessions in the range.
    """
    row = existing(tx.one(SELECT_TEXTS, {"space_no": space_no, "low": low, "high": high}), "jobs")
    return row[0], row[1]


def delete_space(tx: Tx, space_no: int) -> None:
    """Remove every job of a space."""
    tx.run(DELETE_OF_SPACE, {"space_no": space_no})


def count_jobs(tx: Tx, *spaces: int) -> int:
    """
    Return how many jobs to embed or summarise *spaces* have, leased and failed ones too.

    0: of no space.
    """
    return tx.read_number(SELECT_COUNT, {"spaces": spaces})


def clear_errors(tx: Tx, session: int) -> None:
    """Clear the errors of a session's failed jobs, which may quote a message."""
    tx.run(UPDATE_ERRORS, {"session": session})
