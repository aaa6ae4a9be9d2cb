"""
Archive: old messages in compressed segments. Owns `archive_segments`.

An archived message keeps its row, without text, parts and metadata, as an index card. Reading
segments is `memdb.engine.segments`'.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose, segments
from memdb.engine.segments import CODEC, block_of, cut, digest, open_segment, pack, squeeze
from memdb.errors import Corrupt
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.models.summaries import ArchivedSpan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Row, Tx
    from memdb.engine.segments import Content

SELECT_KEPT = """/* archive.first_kept */
SELECT min(id)
FROM (SELECT id FROM messages WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT :count)
"""

SELECT_FIRST_HOT = """/* archive.first_hot */
SELECT id FROM messages
WHERE id > :after AND id <= :high AND text IS NOT NULL
ORDER BY id
LIMIT 1
"""

SELECT_HOT = """/* archive.hot */
SELECT id & :seq_mask, text, parts, metadata
FROM messages
WHERE id BETWEEN :low AND :high AND text IS NOT NULL
ORDER BY id
"""

SELECT_HASHES = """/* archive.hashes */
SELECT id, content_hash FROM messages
WHERE id BETWEEN :low AND :high AND text IS NOT NULL
ORDER BY id
"""

# A segment that begins before a span may reach into it; one is enough, because
# segments do not overlap.
SELECT_TOUCHED = """/* archive.touched */
SELECT first_seq, last_seq, message_count, codec, data, sha256
FROM archive_segments
WHERE
  session_id = :session
  AND first_seq <= :last_seq
  AND first_seq >= coalesce(
    (
      SELECT first_seq FROM archive_segments
      WHERE session_id = :session AND first_seq <= :first_seq
      ORDER BY first_seq DESC
      LIMIT 1
    ),
    0
  )
  AND last_seq >= :first_seq
ORDER BY first_seq
"""

SELECT_PLACES = """/* archive.places */
SELECT session_id, first_seq, last_seq
FROM archive_segments
WHERE session_id IN (SELECT value FROM json_each(:ids))
ORDER BY session_id, first_seq
"""

SELECT_MANY = """/* archive.get_many */
SELECT session_id, first_seq, last_seq, message_count, codec, data, sha256
FROM archive_segments
WHERE
  session_id IN (SELECT value FROM json_each(:ids))
  AND session_id + first_seq IN (SELECT value FROM json_each(:places))
ORDER BY session_id, first_seq
"""

SELECT_AFTER = """/* archive.after */
SELECT session_id, first_seq, last_seq, message_count, codec, data, sha256
FROM archive_segments
WHERE (session_id, first_seq) > (:session, :after) AND session_id <= :last
ORDER BY session_id, first_seq
LIMIT :limit
"""

SELECT_SPANS = """/* archive.spans */
SELECT first_seq, last_seq, message_count, length(data), created_ms
FROM archive_segments
WHERE session_id = :session
ORDER BY first_seq
"""

SELECT_ARCHIVED = """/* archive.ids */
SELECT id FROM messages WHERE id BETWEEN :low AND :high AND text IS NULL ORDER BY id
"""

INSERT_SEGMENT = compose.insert("archive.insert", "archive_segments", created_ms=":now_ms")

DELETE_SEGMENTS = """/* archive.delete */
DELETE FROM archive_segments
WHERE session_id = :session AND first_seq IN (SELECT value FROM json_each(:firsts))
"""

DELETE_BETWEEN = """/* archive.delete_between */
DELETE FROM archive_segments WHERE session_id BETWEEN :low AND :high
"""

UPDATE_EMPTIED = compose.update(
    "archive.empty",
    "messages",
    "id BETWEEN :low AND :high AND text IS NOT NULL",
    text="NULL",
    parts="NULL",
    metadata="NULL",
    bigrams="NULL",
)

UPDATE_FILLED = compose.update(
    "archive.refill", "messages", "id = :id AND text IS NULL", "text, parts, metadata, bigrams"
)


class Segment(Record):
    """
    A segment of a session.

    Attributes:
        data: The compressed messages, as `memdb.engine.segments` made them.
        sha256: SHA-256 of the data before compression.
    """

    first_seq: int
    last_seq: int
    message_count: int
    codec: str
    data: bytes
    sha256: bytes


def first_kept(tx: Tx, low: int, high: int, count: int) -> int:
    """
    Return the id of the oldest of the newest *count* messages of a range of ids.

    The result is above *high* if there is none.
    """
    row = tx.one(SELECT_KEPT, {"low": low, "high": high, "count": count})
    return high + 1 if row is None or row[0] is None else int(row[0])


def hot(tx: Tx, session: int, after_seq: int, before: int) -> list[Content]:
    """
    Return the messages to archive of the first block after *after_seq* that has some.

    Args:
        before: The id at which the search ends; [] means that nothing is left.
    """
    first = tx.one(SELECT_FIRST_HOT, {"after": session | after_seq, "high": before - 1})
    if first is None:
        return []
    _, last_seq = block_of(first[0] - session)
    high = min(session + last_seq, before - 1)
    return tx.all(SELECT_HOT, {"low": first[0], "high": high, "seq_mask": MAX_SEQ})


def hashes(tx: Tx, low: int, high: int) -> list[Row]:
    """Return (id, content hash) of the unarchived messages with *low* <= id <= *high*."""
    return tx.all(SELECT_HASHES, {"low": low, "high": high})


def touched(tx: Tx, session: int, first_seq: int, last_seq: int) -> list[Segment]:
    """Return the segments that contain seqs of a span, and so must be rewritten with it."""
    values = {"session": session, "first_seq": first_seq, "last_seq": last_seq}
    return [Segment(*row) for row in tx.all(SELECT_TOUCHED, values)]


def after(tx: Tx, place: tuple[int, int], last: int, limit: int) -> list[tuple[int, Segment]]:
    """Return up to *limit* segments with their rows, after (row, first seq), up to row *last*."""
    values = {"session": place[0], "after": place[1], "last": last, "limit": limit}
    return [(session, Segment(*row)) for session, *row in tx.all(SELECT_AFTER, values)]


def list_places(tx: Tx, sessions: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (row, first seq, last seq) of every segment of some rows, in order."""
    return [(row[0], row[1], row[2]) for row in tx.all(SELECT_PLACES, {"ids": sessions})]


def get_many(tx: Tx, places: Sequence[tuple[int, int]]) -> list[tuple[int, Segment]]:
    """Return the segments with these rows and first seqs, in order, each with its row."""
    values = {"ids": [*{row for row, _ in places}], "places": [row | seq for row, seq in places]}
    return [(session, Segment(*row)) for session, *row in tx.all(SELECT_MANY, values)]


def spans(tx: Tx, session: int) -> list[ArchivedSpan]:
    """Return the archived messages of a session, oldest first."""
    return [ArchivedSpan(*row) for row in tx.all(SELECT_SPANS, {"session": session})]


def same(tx: Tx, session: int, span: tuple[int, int], known: Sequence[Segment]) -> bool:
    """Return whether exactly the segments *known* contain the seqs of a span."""
    return touched(tx, session, *span) == known


def archived(tx: Tx, low: int, high: int) -> list[int]:
    """Return the ids of the archived messages with *low* <= id <= *high*."""
    return [row[0] for row in tx.all(SELECT_ARCHIVED, {"low": low, "high": high})]


def opened(session: int, known: Sequence[Segment]) -> list[Content]:
    """
    Return what segments hold.

    Raises:
        Corrupt: one of them is damaged.
    """
    return [
        content
        for one in known
        for content in segments.opened(session, one.first_seq, (one.codec, one.data, one.sha256))
    ]


def to_segments(contents: Sequence[Content]) -> list[Segment]:
    """
    Return messages by rising seq as segments, which were opened again and compared.

    Raises:
        Corrupt: a message contains something that cannot be archived.
    """
    made = []
    for part in cut(contents):
        packed = pack(part)
        one = Segment(part[0][0], part[-1][0], len(part), CODEC, squeeze(packed), digest(packed))
        if open_segment(one.codec, one.data, one.sha256) != part:
            raise Corrupt(
                f"one of the messages {one.first_seq} to {one.last_seq} would change in the "
                "archive, so they stay as they are: run `memdb check --deep`"
            )
        made.append(one)
    return made


def replace(tx: Tx, session: int, old: Sequence[Segment], new: Sequence[Segment]) -> None:
    """Remove the segments *old* and add *new*."""
    tx.run(DELETE_SEGMENTS, {"session": session, "firsts": [one.first_seq for one in old]})
    for one in new:
        tx.run(INSERT_SEGMENT, {**one._asdict(), "session_id": session, "now_ms": tx.now_ms})


def empty(tx: Tx, low: int, high: int) -> int:
    """
    Remove text, parts and metadata from the rows of *low* <= id <= *high*.

    Return how many had some.
    """
    return tx.count_changed(UPDATE_EMPTIED, {"low": low, "high": high})


def refill(tx: Tx, rows: Sequence[dict[str, Any]]) -> None:
    """Restore text, parts, metadata and bigrams in archived rows, by id."""
    tx.many(UPDATE_FILLED, rows)


def delete_between(tx: Tx, low: int, high: int) -> None:
    """Remove every segment of the rows in an id range."""
    tx.run(DELETE_BETWEEN, {"low": low, "high": high})
