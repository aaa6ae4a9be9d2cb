"""
Messages, in order. Owns the table `messages`.

A row's id is its place (`memdb.models.ids`), so the messages of a session are one range of the
primary key. The messages of a branch are several ranges, its path. Only `Session.edit` changes the
content of a message, and erasing removes it; the place stays. A row without text is archived; the
functions here add the content from its segment.
"""

from __future__ import annotations

from hashlib import blake2b
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.branches import row_of, runs_of
from memdb.engine.columns import hashed_names, names_without
from memdb.engine.segments import fill
from memdb.models import fields
from memdb.models.fields import MESSAGE, names_with
from memdb.models.ids import MASKS, MAX_SEQ, is_branch, session_of, session_range
from memdb.models.messages import Message, uid_from_bytes, uid_to_bytes
from memdb.text.derived import content_hash
from memdb.text.validate import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Row, Tx
    from memdb.engine.branches import Run

# Most rows have the same counter, whose name they leave out.
COUNTER = "nullif(:counter, 'cl100k_base')"

INSERT_MESSAGE = compose.insert("messages.insert", "messages", uid=":uid_bytes", counter=COUNTER)
compose.annotate(INSERT_MESSAGE, compose.UNCOUNTED)  # its session is longer

# The fields of a Message in their order, each as its column but for those that are made of others.
COLUMNS = tuple("id" if name == "row_id" else name for name in Message._fields)
TEXT, PARTS, METADATA = (COLUMNS.index(name) for name in ("text", "parts", "metadata"))
_MADE = {
    "seq": "id & :seq_mask AS seq",
    "session": ":session_name AS session",
    "counter": "coalesce(counter, 'cl100k_base') AS counter",
}
_LISTED = [_MADE.get(name, name) for name in COLUMNS]

# Messages of any session, with its name.
_NAME = """(
    SELECT name FROM sessions WHERE sessions.id = messages.id & ~CAST(:seq_mask AS BIGINT)
  ) AS session"""
_LISTED_ANY = [_NAME if name == "session" else _MADE.get(name, name) for name in COLUMNS]

IN_IDS = "id IN (SELECT value FROM json_each(:ids))"

SELECT_AFTER = compose.select(
    "messages.after", _LISTED, "messages", "id > :after AND id <= :high", order="id", limit=":limit"
)

SELECT_PAGE = compose.select(
    "messages.page",
    _LISTED_ANY,
    "messages",
    "id > :after AND id <= :high",
    order="id",
    limit=":limit",
)

SELECT_LAST = compose.select(
    "messages.last",
    _LISTED,
    "messages",
    "id >= :low AND id < :before",
    order="id DESC",
    limit=":limit",
)

SELECT_MANY = compose.select("messages.get_many", _LISTED_ANY, "messages", IN_IDS)

# Of the index: id >> 24 is the session.
_OF_SESSION = "id >> 24 = CAST(:session AS BIGINT) >> 24 AND id BETWEEN :session AND :high"

SELECT_BY_EXTERNAL = compose.select(
    "messages.by_external", _LISTED, "messages", f"{_OF_SESSION} AND external_id = :external_id"
)

EXTERNALS = ("external_id", "id", "role", "text")

SELECT_EXTERNALS = compose.select(
    "messages.by_externals",
    EXTERNALS,
    "messages",
    f"{_OF_SESSION} AND external_id IN (SELECT value FROM json_each(:external_ids))",
)

SELECT_UIDS = compose.select("messages.uids", "id, uid", "messages", IN_IDS)

SELECT_SOURCES = compose.select(
    "messages.sources", "id, uid, external_id", "messages", IN_IDS, order="id"
)

SELECT_EXTERNAL_IDS = compose.select(
    "messages.external_ids",
    "id, external_id",
    "messages",
    "id BETWEEN :low AND :high AND external_id IS NOT NULL",
    order="id",
)

# A list of values for a statement is JSON, which holds no bytes.
SELECT_ALL_UIDS = """/* messages.all_uids */
SELECT id, uid FROM messages WHERE id > :after AND id <= :high ORDER BY id LIMIT 5000
"""

FEATURES = ("id", "text", "author", "created_ms", "role", "spans")

SELECT_FEATURES = compose.select("messages.features", FEATURES, "messages", IN_IDS)

SELECT_TEXTS = """/* messages.texts */
SELECT id, text FROM messages WHERE id >= :low AND id <= :high ORDER BY id LIMIT :limit
"""

_FILTERED = """
  id BETWEEN :low AND :high
  AND created_ms >= :since_ms
  AND created_ms < :until_ms
  AND (:any_role = 1 OR role IN (SELECT value FROM json_each(:roles)))
  AND (:any_author = 1 OR author IN (SELECT value FROM json_each(:authors)))
"""

SELECT_IDS_BETWEEN = compose.select("messages.ids_between", "id", "messages", _FILTERED)

SELECT_NEWEST_BETWEEN = compose.select(
    "messages.newest_between",
    "id, created_ms",
    "messages",
    _FILTERED,
    order="created_ms DESC, id DESC",
    limit=":limit",
)

# Archived messages have their metadata where their text is.
SELECT_METADATA = """/* messages.metadata_between */
SELECT id, text, metadata FROM messages
WHERE id BETWEEN :low AND :high AND (metadata IS NOT NULL OR text IS NULL)
"""

SELECT_OPENINGS = """/* messages.openings */
SELECT messages.id, substr(messages.text, 1, 1000)
FROM json_each(:ids) AS refs
JOIN messages ON messages.id = (
  SELECT min(opening.id) FROM messages AS opening
  WHERE
    opening.id BETWEEN :low AND :high
    AND opening.id BETWEEN refs.value + 1 AND refs.value + :seqs
    AND opening.role = 'user'
)
WHERE messages.id BETWEEN :low AND :high
"""

SELECT_WRITTEN = compose.select(
    "messages.written",
    "id, uid, created_ms",
    "messages",
    "id BETWEEN :low AND :high AND writer = :writer",
    order="id",
)

SELECT_COUNT = compose.select("messages.count", "count(*)", "messages", "id BETWEEN :low AND :high")

SELECT_HASHES_OF = """/* messages.hashes */
SELECT id, content_hash FROM messages WHERE id IN (SELECT value FROM json_each(:ids)) ORDER BY id
"""

SELECT_HASHES_BETWEEN = """/* messages.hashes_between */
SELECT id, content_hash FROM messages WHERE id BETWEEN :low AND :high ORDER BY id
"""

# Hops from one author to the next along an index would need that index; the
# sample is the newest part of the scope, where the people who talk now are.
SELECT_AUTHORS = """/* messages.authors */
SELECT DISTINCT author
FROM (
  SELECT author FROM messages WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT :sample
)
WHERE author IS NOT NULL
ORDER BY author
"""


DELETE_RANGE = compose.delete("messages.delete_range", "messages", "id BETWEEN :low AND :high")

AUTHOR_SAMPLE = 500
SPAN_HASH_BYTES = 16
HASH_BYTES = 8
OPENING_SEQS = 50


SELECT_NEWEST_TIME = """/* messages.newest_time */
SELECT created_ms FROM messages WHERE id BETWEEN :low AND :high ORDER BY id DESC LIMIT 1
"""


# What erasing a message leaves of the columns that the hash covers; the others stay.
ERASED = dict.fromkeys(names_with(MESSAGE, fields.ERASED)) | {"text": ""}

# What the content hash covers. A new column may stand anywhere: one that is NULL changes no hash.
HASHED = hashed_names("messages", MESSAGE)
WITH_HASH = ("id", *HASHED, "content_hash")

SELECT_HASHED = compose.select(
    "messages.hashed", WITH_HASH, "messages", "id > :after", order="id", limit="1000"
)

_columns = itemgetter(*COLUMNS)
_row_id = itemgetter(COLUMNS.index("id"))


def _to_messages(tx: Tx, rows: list[Row]) -> list[Message]:
    """
    Return rows of `COLUMNS` as messages, with the content of archived ones.

    Raises:
        Corrupt: a row differs from its digest, or its segment is damaged.
    """
    tx.verify("messages", [*map(_row_id, rows)])
    return [
        Message(*(row if row[PARTS] is None and row[METADATA] is None else _parsed(row)))
        for row in _filled(tx, rows, COLUMNS)
    ]


def added_message(row: dict[str, Any], session_name: str) -> Message:
    """Return the row given to `add` as the message that a read returns; it changes *row*."""
    row["seq"], row["session"] = row["id"] & MAX_SEQ, session_name
    values = _columns(row)
    is_plain = values[PARTS] is None and values[METADATA] is None
    return Message(*(values if is_plain else _parsed(values)))


def _parsed(row: Row) -> list[Any]:
    """Return the values of a row, with its JSON columns parsed."""
    values = list(row)
    values[PARTS] = parse_json(row[PARTS], list)
    values[METADATA] = parse_json(row[METADATA], dict)
    return values


def _filled(tx: Tx, rows: list[Row], columns: tuple[str, ...]) -> list[Row]:
    """Return *rows* of *columns* with the content of archived messages."""
    text = columns.index("text")
    for row in rows:
        if row[text] is None:
            return fill(tx, rows, columns)
    return rows


def hash_of(row: dict[str, Any]) -> bytes:
    """Return the content hash of a row: the first 8 bytes of the hash of the columns `HASHED`."""
    return content_hash(row, HASHED)[:HASH_BYTES]


def add(tx: Tx, rows: list[dict[str, Any]]) -> None:
    """
    Add messages; each row contains every column by name.

    Cost: 8 µs per row in bulk.
    """
    for row in rows:
        row["uid_bytes"] = uid_to_bytes(row["uid"])
    if len(rows) == 1:
        tx.run(INSERT_MESSAGE, rows[0])
    else:
        tx.many(INSERT_MESSAGE, rows)


def find(tx: Tx, session: int, session_name: str, seq: int) -> Message | None:
    """Return message *seq* of the session, None if there is none."""
    rows = _between(tx, row_of(tx, session, seq), session_name, seq - 1, seq, 1)
    return _to_messages(tx, rows)[0] if rows else None


def find_external(tx: Tx, session: int, session_name: str, external_id: str) -> Message | None:
    """Return the message with the host's id *external_id*, None if there is none."""
    rows: list[Row] = []
    for run in runs_of(tx, session):
        values = {
            "session": run.session,
            "high": run.span[1],
            "session_name": session_name,
            "external_id": external_id,
        }
        rows = tx.all(SELECT_BY_EXTERNAL, {**values, **MASKS}) or rows
    return _to_messages(tx, rows)[0] if rows else None


def by_externals(tx: Tx, session: int, external_ids: list[str]) -> dict[str, tuple[int, str, str]]:
    """Return (id, role, text) by external id, for the stored ones."""
    rows = []
    for run in runs_of(tx, session):
        values = {"session": run.session, "high": run.span[1], "external_ids": external_ids}
        rows += tx.all(SELECT_EXTERNALS, values)
    filled = _filled(tx, rows, EXTERNALS)
    return {external_id: (row_id, role, text) for external_id, row_id, role, text in filled}


def external_ids(tx: Tx, low: int, high: int) -> list[Row]:
    """Return (id, the host's id) of the messages in an id range that have one."""
    return tx.all(SELECT_EXTERNAL_IDS, {"low": low, "high": high})


def uids(tx: Tx, ids: Collection[int]) -> dict[int, str]:
    """Return the uid of each message with these *ids*."""
    return {row_id: uid_from_bytes(uid) for row_id, uid in tx.all(SELECT_UIDS, {"ids": ids})}


def sources(tx: Tx, ids: Collection[int]) -> list[tuple[int, str, str | None]]:
    """Return (id, uid, the host's id) of the messages with these *ids*, by id."""
    rows = tx.all(SELECT_SOURCES, {"ids": ids})
    return [(row_id, uid_from_bytes(uid), external_id) for row_id, uid, external_id in rows]


def find_uids(tx: Tx, session: int, uids: list[str]) -> dict[str, int]:
    """Return the id by uid, for the *uids* in the session. Reads it whole."""
    wanted = {uid_to_bytes(uid): uid for uid in uids}
    _, high = session_range(session)
    found: dict[str, int] = {}
    after = session
    while rows := tx.all(SELECT_ALL_UIDS, {"after": after, "high": high}):
        found |= {wanted[uid]: row_id for row_id, uid in rows if uid in wanted}
        after = rows[-1][0]
    return found


def list_after(
    tx: Tx, session: int, session_name: str, after_seq: int, limit: int
) -> list[Message]:
    """Return up to *limit* messages with a seq above *after_seq*, oldest first."""
    rows: list[Row] = []
    for run in runs_of(tx, session):
        if len(rows) >= limit:
            break
        if run.last_seq > after_seq:
            after, left = max(after_seq, run.first_seq - 1), limit - len(rows)
            rows += _between(tx, run.session, session_name, after, run.last_seq, left)
    return _to_messages(tx, rows)


def list_own(
    tx: Tx, row: int, session_name: str, after_seq: int, last_seq: int, limit: int
) -> list[Message]:
    """Return up to *limit* messages of the row itself up to *last_seq*, as `list_after` does."""
    return _to_messages(tx, _between(tx, row, session_name, after_seq, last_seq, limit))


def list_run(tx: Tx, run: Run, session_name: str) -> list[Message]:
    """Return the messages of a run, oldest first."""
    return _to_messages(tx, tx.all(SELECT_AFTER, _run_values(run, session_name)))


def expect_run(tx: Tx, run: Run, session_name: str) -> None:
    """Prefetch what `list_run` reads."""
    tx.expect(SELECT_AFTER, _run_values(run, session_name))


def _run_values(run: Run, session_name: str) -> dict[str, Any]:
    low, high = run.span
    return {"after": low - 1, "high": high, "session_name": session_name, "limit": -1, **MASKS}


def _between(
    tx: Tx, row: int, session_name: str, after_seq: int, last_seq: int, limit: int
) -> list[Row]:
    values = {"after": row + after_seq, "high": row | last_seq, "session_name": session_name}
    return tx.all(SELECT_AFTER, {**values, "limit": limit, **MASKS})


def last(
    tx: Tx, session: int, session_name: str, count: int, before_seq: int | None = None
) -> list[Message]:
    """Return the newest *count* messages before *before_seq*, oldest first."""
    before = MAX_SEQ + 1 if before_seq is None else before_seq
    rows: list[Row] = []
    for run in reversed(runs_of(tx, session)):
        if len(rows) >= count:
            break
        rows += tx.all(SELECT_LAST, _last_values(run, session_name, count - len(rows), before))
    rows.reverse()
    return _to_messages(tx, rows)


def expect_last(tx: Tx, session: int, session_name: str, count: int) -> None:
    """Prefetch what `last` reads; for a branch do nothing."""
    if not is_branch(session):
        (run,) = runs_of(tx, session)
        tx.expect(SELECT_LAST, _last_values(run, session_name, count, MAX_SEQ + 1))


def _last_values(run: Run, name: str, count: int, before_seq: int) -> dict[str, Any]:
    low, high = run.span
    before = min(run.session + before_seq, high + 1)
    return {"low": low, "before": before, "session_name": name, "limit": count, **MASKS}


def get_many(tx: Tx, ids: Collection[int]) -> dict[int, Message]:
    """Return the messages with these *ids*, by id."""
    rows = tx.all(SELECT_MANY, {"ids": ids, **MASKS})
    return {message.row_id: message for message in _to_messages(tx, rows)}


def expect_many(tx: Tx, ids: Collection[int]) -> None:
    """Prefetch what `get_many` reads."""
    tx.expect(SELECT_MANY, {"ids": ids, **MASKS})


def list_page(tx: Tx, after: int, high: int, limit: int) -> list[Message]:
    """Return up to *limit* messages of any session with *after* < id <= *high*, by rising id."""
    values = {"after": after, "high": high, "limit": limit, **MASKS}
    return _to_messages(tx, tx.all(SELECT_PAGE, values))


def features(tx: Tx, ids: Collection[int]) -> list[Row]:
    """Return (id, text, author, created_ms, role, spans) of the messages with these *ids*."""
    rows = tx.all(SELECT_FEATURES, {"ids": ids})
    return _filled(tx, rows, FEATURES)


def texts(tx: Tx, low: int, high: int, limit: int) -> list[tuple[int, str]]:
    """Return (id, text) of up to *limit* messages with *low* <= id <= *high*, by id."""
    rows = tx.all(SELECT_TEXTS, {"low": low, "high": high, "limit": limit})
    return [(row_id, text) for row_id, text in _filled(tx, rows, ("id", "text"))]


def ids_between(
    tx: Tx,
    low: int,
    high: int,
    since_ms: int,
    until_ms: int,
    *,
    roles: Collection[str] | None = None,
    authors: Collection[str] | None = None,
) -> set[int]:
    """
    Return the ids in a range whose time is in [since_ms, until_ms).

    Args:
        roles, authors: Only messages of these. None means all.
    """
    values = _filter_values(low, high, since_ms, until_ms, roles, authors)
    return {row[0] for row in tx.all(SELECT_IDS_BETWEEN, values)}


def newest_between(
    tx: Tx,
    low: int,
    high: int,
    since_ms: int,
    until_ms: int,
    limit: int,
    *,
    roles: Collection[str] | None = None,
    authors: Collection[str] | None = None,
) -> list[tuple[int, int]]:
    """Return (id, time) of the newest *limit* messages that `ids_between` finds, newest first."""
    values = _filter_values(low, high, since_ms, until_ms, roles, authors)
    rows = tx.all(SELECT_NEWEST_BETWEEN, {**values, "limit": limit})
    return [(row[0], row[1]) for row in rows]


def _filter_values(
    low: int,
    high: int,
    since_ms: int,
    until_ms: int,
    roles: Collection[str] | None,
    authors: Collection[str] | None,
) -> dict[str, Any]:
    return {
        "low": low,
        "high": high,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "any_role": roles is None,
        "roles": roles or (),
        "any_author": authors is None,
        "authors": authors or (),
    }


def metadata_between(tx: Tx, low: int, high: int) -> list[tuple[int, dict[str, Any] | None]]:
    """
    Return (id, metadata) of the messages in a range that may have some.

    Cost: archived messages there are decompressed.
    """
    rows = tx.all(SELECT_METADATA, {"low": low, "high": high})
    filled = _filled(tx, rows, ("id", "text", "metadata"))
    return [(row_id, parse_json(metadata, dict)) for row_id, _, metadata in filled]


def openings(tx: Tx, sessions: Collection[int]) -> dict[int, str]:
    """
    Return the beginning of the user's first message by session; sessions without one are left out.

    Only the first 50 seqs of a session are looked at. A message in a damaged segment is left out.
    Cost: archived messages are decompressed.
    """
    if not sessions:
        return {}
    span = {"low": min(sessions), "high": max(sessions) | MAX_SEQ}
    rows = tx.all(SELECT_OPENINGS, {"ids": sessions, "seqs": OPENING_SEQS, **span})
    filled = fill(tx, rows, ("id", "text"), lost_ok=True)
    return {session_of(row_id): text for row_id, text in filled if text is not None}


def count(tx: Tx, low: int, high: int) -> int:
    """Return the number of messages with *low* <= id <= *high*. Cost: 30 µs per 1,000."""
    return tx.read_number(SELECT_COUNT, {"low": low, "high": high})


def newest_ms(tx: Tx, low: int, high: int) -> int | None:
    """Return the time of the last message of a range of ids, None if there is none."""
    return tx.find_number(SELECT_NEWEST_TIME, {"low": low, "high": high})


def written(tx: Tx, low: int, high: int, writer: str) -> list[tuple[int, str, int]]:
    """Return (id, uid, created_ms) of the messages in an id range that *writer* stored."""
    rows = tx.all(SELECT_WRITTEN, {"low": low, "high": high, "writer": writer})
    return [(row_id, uid_from_bytes(uid), created_ms) for row_id, uid, created_ms in rows]


def authors(tx: Tx, low: int, high: int) -> list[str]:
    """Return the authors of the newest 500 messages of a range, by name."""
    values = {"low": low, "high": high, "sample": AUTHOR_SAMPLE}
    return [row[0] for row in tx.all(SELECT_AUTHORS, values)]


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the id of each message whose content does not match its hash, or is lost."""
    for rows in tx.pages(SELECT_HASHED, {"after": 0}):
        for values in fill(tx, rows, WITH_HASH, lost_ok=True):
            row = dict(zip(WITH_HASH, values, strict=True))
            row["uid"] = uid_from_bytes(row["uid"])
            if row["text"] is None or hash_of(row) != row["content_hash"]:
                yield row["id"]


def span_hash(tx: Tx, session: int, first_seq: int, last_seq: int) -> str:
    """
    Return a hash, in hex, of the content of messages *first_seq* to *last_seq* of a session.

    The hash changes if one of them is added, removed, edited or erased. A caller that reads
    messages, works outside a transaction and stores the result compares the hash before and after.
    Cost: 1 µs per message.
    """
    found = blake2b(digest_size=SPAN_HASH_BYTES)
    for run in runs_of(tx, session):
        if run.last_seq < first_seq or run.first_seq > last_seq:
            continue
        low = run.session | max(first_seq, run.first_seq)
        high = run.session | min(last_seq, run.last_seq)
        for _, digest in hashes_between(tx, low, high):
            found.update(digest)
    return found.hexdigest()


def hashes(tx: Tx, ids: Collection[int]) -> dict[int, bytes]:
    """Return the content hash of each message with these *ids*."""
    return dict(tx.all(SELECT_HASHES_OF, {"ids": ids}))


def hashes_between(tx: Tx, low: int, high: int) -> list[Row]:
    """Return (id, content hash) of the messages with *low* <= id <= *high*, by id."""
    return tx.all(SELECT_HASHES_BETWEEN, {"low": low, "high": high})


def delete_range(tx: Tx, low: int, high: int) -> None:
    """Remove the messages with *low* <= id <= *high*."""
    tx.run(DELETE_RANGE, {"low": low, "high": high})


UPDATE_CONTENT = compose.update(
    "messages.rewrite",
    "messages",
    "id = :id",
    ", ".join(names_without("messages", "id", "uid", "external_id", "created_ms", "counter")),
    counter=COUNTER,
)


def rewrite(tx: Tx, row: dict[str, Any]) -> None:
    """Set the content of a message to that of *row*; uid, external id and time stay."""
    tx.run(UPDATE_CONTENT, row)
