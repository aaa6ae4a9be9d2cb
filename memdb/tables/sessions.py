"""
Sessions: ordered runs of messages in a scope. Owns the table `sessions`.

A session is created by its first message. Its number and the seqs of its messages are never reused,
not even after deletes. Branches are rows with the name of their session; listings of sessions leave
them out.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.branches import runs_of
from memdb.errors import TooLarge, existing
from memdb.models.ids import (
    BRANCH_MARK,
    MASKS,
    MAX_INT,
    MAX_SEQ,
    MAX_SESSION_NO,
    is_branch,
    scope_range,
    session_id,
)
from memdb.models.messages import BranchInfo, SessionInfo
from memdb.models.record import Record
from memdb.models.reports import SessionHead as Head
from memdb.models.reports import SessionPlace
from memdb.text.validate import MAX_NAME_CHARS, json_list, parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from memdb.engine.base import Row, Tx
    from memdb.engine.branches import Run
    from memdb.models.reports import SessionHead

# No name sorts after it: names have 1,024 characters at most.
LAST_NAME = "\U0010ffff" * (MAX_NAME_CHARS + 1)

IN_IDS = "id IN (SELECT value FROM json_each(:ids))"

UPDATE_NEXT_NO = compose.update(
    "sessions.next_no",
    "scopes",
    "scope_no = :scope_no AND last_session_no < :most",
    last_session_no="last_session_no + 1",
    returning="last_session_no",
)
compose.annotate(UPDATE_NEXT_NO, compose.UNCOUNTED)  # before one is made

INSERT_SESSION = compose.insert(
    "sessions.insert",
    "sessions",
    "id, scope_no, uid, name, title, metadata, created_ms, updated_ms, bigrams",
)
compose.annotate(INSERT_SESSION, compose.UNCOUNTED)  # there is one more

INSERT_BRANCH = compose.insert(
    "sessions.insert_branch",
    "sessions",
    """
  id, scope_no, uid, name, branch, parent_id, leaves_at, metadata, created_ms, updated_ms
""",
    last_seq=":leaves_at",
)
compose.annotate(INSERT_BRANCH, compose.UNCOUNTED)  # there is one more

SELECT_ID = """/* sessions.find */
SELECT id FROM sessions WHERE scope_no = :scope_no AND name = :name AND branch = :branch
"""

SELECT_LAST_SEQ = compose.select("sessions.last_seq", "last_seq", "sessions", "id = :id")
compose.annotate(SELECT_LAST_SEQ, compose.Notes(needs_known=True))

SELECT_BY_NAME = """/* sessions.by_name */
SELECT id FROM sessions
WHERE
  scope_no = :scope_no AND name > :after AND name >= :first AND name <= :last AND branch = ''
ORDER BY name
LIMIT :limit
"""

# No index by time: each message would have to move its session in it. 20,000 rows take 8 ms.
SELECT_BY_TIME = {
    order: compose.select(
        f"sessions.by_{order}",
        "id",
        "sessions",
        f"""
  id BETWEEN :low AND :high
  AND branch = ''
  AND name >= :first
  AND name <= :last
  AND ({order}_ms < :before_ms OR ({order}_ms = :before_ms AND name > :after))
""",
        order=f"{order}_ms DESC, name",
        limit=":limit",
    )
    for order in ("updated", "created")
}

# The fields of a SessionInfo in their order, without its opening, which messages have.
_INFO = [name for name in SessionInfo._fields if name != "opening"]

SELECT_INFOS = compose.select("sessions.infos", ["id", *_INFO], "sessions", IN_IDS)

# The newest message is one seek from the end of the session's range.
_NEWEST = """coalesce(
    (SELECT max(id) FROM messages WHERE messages.id BETWEEN sessions.id AND sessions.id | :seq_mask)
      & :seq_mask,
    0
  )"""
SELECT_HEAD = compose.select(
    "sessions.head",
    ["id", *(_NEWEST if name == "newest_seq" else name for name in Head._fields)],
    "sessions",
    "scope_no = :scope_no AND name = :name AND branch = :branch",
)

# The count is that of its own run: the shared messages are counted along the path.
_MADE = {"name": "sessions.branch", "parent": "nullif(parent.branch, '')"}
_BRANCH = [_MADE.get(name, f"sessions.{name}") for name in BranchInfo._fields]

SELECT_BRANCHES = compose.select(
    "sessions.branches",
    ["sessions.id", *_BRANCH],
    "sessions JOIN sessions AS parent ON parent.id = sessions.parent_id",
    """
  sessions.scope_no = :scope_no
  AND sessions.name IN (SELECT value FROM json_each(:names))
  AND sessions.branch <> ''
""",
    order="sessions.id",
)

SELECT_ALL_BRANCHES = """/* sessions.all_branches */
SELECT id, name, branch FROM sessions
WHERE id > :after AND id <= :high AND parent_id IS NOT NULL
ORDER BY id
LIMIT :limit
"""

SELECT_SHARING = """/* sessions.sharing */
SELECT id, name, branch FROM sessions
WHERE id > :after AND shares IS NOT NULL
ORDER BY id
LIMIT 500
"""

SELECT_BRANCH_ROW = compose.select(
    "sessions.branch_row",
    "name, branch, uid, metadata, created_ms, updated_ms",
    "sessions",
    "id = :id",
)

UPDATE_IDENTITY = compose.update("sessions.set_identity", "sessions", "id = :id", "uid, created_ms")

UPDATE_BRANCH = compose.update("sessions.rename_branch", "sessions", "id = :id", "branch")

SELECT_PARENT = """/* sessions.parent */
SELECT parent.branch
FROM sessions
JOIN sessions AS parent ON parent.id = sessions.parent_id
WHERE sessions.id = :id
"""

# Of branches and of sessions: the row of the session itself.
SELECT_ROOTS = """/* sessions.roots */
SELECT sessions.id, root.id
FROM sessions
JOIN sessions AS root
  ON root.scope_no = sessions.scope_no AND root.name = sessions.name AND root.branch = ''
WHERE sessions.id IN (SELECT value FROM json_each(:ids))
"""

SELECT_BRANCH_NAMES = compose.select(
    "sessions.branch_names", "id, branch", "sessions", f"{IN_IDS} AND branch <> ''"
)

UPDATE_PLACE = compose.update(
    "sessions.move", "sessions", "id = :id", "parent_id, leaves_at, shares"
)

SELECT_NEWEST = """/* sessions.newest */
SELECT max(id) & :seq_mask FROM messages WHERE id BETWEEN :low AND :high
"""

SELECT_BY_ID = """/* sessions.list_by_id */
SELECT id FROM sessions
WHERE id > :after AND id <= :high AND branch = ''
ORDER BY id
LIMIT :limit
"""

SELECT_NAMES = compose.select("sessions.names", "id, name", "sessions", IN_IDS)

SELECT_TITLES = compose.select(
    "sessions.titles", "id, title", "sessions", f"{IN_IDS} AND title IS NOT NULL"
)

SELECT_DESCRIPTION = """/* sessions.description */
SELECT id, title, metadata, leaves_at FROM sessions WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_IDENTITY = compose.select("sessions.identity", "name, uid", "sessions", "id = :id")

SELECT_CARDS = """/* sessions.cards */
SELECT
  id,
  name,
  title,
  coalesce(
    (
      SELECT created_ms FROM messages
      WHERE messages.id > sessions.id AND messages.id <= (sessions.id | 16777215)
      ORDER BY messages.id
      LIMIT 1
    ),
    created_ms
  )
FROM sessions
WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_TOTAL = """/* sessions.total */
SELECT CAST(coalesce(sum(last_seq - leaves_at), 0) AS BIGINT) FROM sessions
WHERE scope_no = :scope_no
"""

SELECT_TOKENS = """/* sessions.tokens */
SELECT
  id & ~CAST(:seq_mask AS BIGINT) AS session,
  CAST(coalesce(sum(tokens), 0) AS BIGINT),
  count(*)
FROM messages
WHERE id IN (SELECT value FROM json_each(:ids))
GROUP BY session
"""

UPDATE_LAST_SEQ = compose.update(
    "sessions.advance",
    "sessions",
    "id = :id AND last_seq + :count <= :seq_mask",
    last_seq="last_seq + :count",
    updated_ms=":newest_ms",
    message_count="message_count + :messages",
    tokens="tokens + :tokens",
    returning="last_seq",
)
# Its session is longer.
compose.annotate(
    UPDATE_LAST_SEQ, compose.Notes(is_counted=False, takes_seqs=True, needs_known=True)
)

UPDATE_COUNTS = compose.update(
    "sessions.count",
    "sessions",
    "id = :id",
    message_count="message_count + :messages",
    tokens="tokens + :tokens",
    archived_count="archived_count + :archived",
)
compose.annotate(UPDATE_COUNTS, compose.UNCOUNTED)  # beside what it counts

UPDATE_EMPTY = compose.update(
    "sessions.set_empty",
    "sessions",
    "id = :id",
    message_count="0",
    tokens="0",
    archived_count="0",
)

SELECT_ARCHIVED_COUNT = """/* sessions.archived_count */
SELECT CAST(coalesce(sum(archived_count), 0) AS BIGINT)
FROM sessions
WHERE id BETWEEN :low AND :high
"""

SELECT_IDS_BETWEEN = """/* sessions.ids_between */
SELECT id FROM sessions WHERE id BETWEEN :low AND :high ORDER BY id
"""

SELECT_FAMILIES = """/* sessions.families */
SELECT id, name, branch, parent_id
FROM sessions
WHERE scope_no = :scope_no AND name IN (SELECT value FROM json_each(:names))
ORDER BY id
"""

UPDATE_TIMES = compose.update(
    "sessions.set_times",
    "sessions",
    "id = :id",
    created_ms="coalesce(:created_ms, created_ms)",
    updated_ms="coalesce(:updated_ms, updated_ms)",
)

UPDATE_HEAD = compose.update("sessions.describe", "sessions", "id = :id", "metadata")

UPDATE_TITLE = compose.update("sessions.rename", "sessions", "id = :id", "title, bigrams")

UPDATE_CHANGED = compose.update("sessions.touch", "sessions", "id = :id", "updated_ms")

# Every session of the file: none may be missed, no matter who wrote to it.
SELECT_LENGTHS = compose.select("sessions.lengths", "id, last_seq", "sessions")

SELECT_PLACES = """/* sessions.places */
SELECT scopes.app, scopes.user_name, sessions.name, sessions.branch
FROM sessions
JOIN scopes ON scopes.scope_no = sessions.scope_no
WHERE sessions.id IN (SELECT value FROM json_each(:ids))
ORDER BY sessions.id
"""

SELECT_UPDATED = compose.select("sessions.updated_ms", "updated_ms", "sessions", "id = :id")

UPDATE_SEQ_TO = compose.update(
    "sessions.raise_seq",
    "sessions",
    "id = :id",
    "updated_ms",
    last_seq="CASE WHEN last_seq < :last_seq THEN :last_seq ELSE last_seq END",
)
# Its session is longer.
compose.annotate(UPDATE_SEQ_TO, compose.Notes(is_counted=False, sets_seqs=True))

DELETE_SESSION = compose.delete("sessions.delete", "sessions", "id = :id")
compose.annotate(DELETE_SESSION, compose.Notes(outdates_known=True))

INSERT_TOMBSTONE = compose.insert_select(
    "sessions.insert_tombstone",
    "tombstones",
    "uid, kind, scope_no, ref, deleted_ms",
    """
SELECT
  uid,
  'session',
  scope_no,
  CASE WHEN branch = '' THEN name ELSE name || :mark || branch END,
  :now_ms
FROM sessions
WHERE id = :id
""",
    compose.conflict("scope_no, uid", "deleted_ms"),
)
compose.annotate(INSERT_TOMBSTONE, compose.UNCOUNTED)  # beside the deletion


class Card(Record):
    """Identity of a session; *first_ms* is the time of its first message, or of its creation."""

    name: str
    title: str | None
    first_ms: int


def _to_info(row: Row) -> SessionInfo:
    _, *values = row
    values[4] = parse_json(values[4], dict)
    return SessionInfo(*values)


def add(tx: Tx, scope_no: int, name: str, uid: str, **given: Any) -> int:
    """
    Add a session and return its id.

    Args:
        given: `title`, `metadata` (JSON text), `created_ms` and `updated_ms`, and `bigrams` if
            known; the times default to now.

    Raises:
        TooLarge: the scope has used its last number; nothing was changed.
    """
    new_id = _next_id(tx, scope_no)
    defaults = {
        "title": None,
        "bigrams": None,
        "metadata": None,
        "created_ms": tx.now_ms,
        "updated_ms": tx.now_ms,
    }
    tx.run(
        INSERT_SESSION,
        {**defaults, **given, "id": new_id, "scope_no": scope_no, "uid": uid, "name": name},
    )
    return new_id


def add_branch(tx: Tx, scope_no: int, place: dict[str, Any], **given: Any) -> int:
    """
    Add a branch and return its id.

    Args:
        place: `name` of the session, `branch`, `parent_id`, `leaves_at` and `uid`.
        given: `metadata` (JSON text), `created_ms` and `updated_ms`, as for `add`.

    Raises:
        TooLarge: the scope has used its last number; nothing was changed.
    """
    new_id = _next_id(tx, scope_no, branch=True)
    values = {"metadata": None, "created_ms": tx.now_ms, "updated_ms": tx.now_ms, **given}
    tx.run(INSERT_BRANCH, {**values, **place, "id": new_id, "scope_no": scope_no})
    return new_id


def _next_id(tx: Tx, scope_no: int, *, branch: bool = False) -> int:
    row = tx.one(UPDATE_NEXT_NO, {"scope_no": scope_no, "most": MAX_SESSION_NO})
    if row is None:
        raise TooLarge("number of sessions in one scope", MAX_SESSION_NO, MAX_SESSION_NO + 1)
    return session_id(scope_no, int(row[0]), branch=branch)


def list_branches(tx: Tx, scope_no: int, *names: str) -> list[tuple[int, BranchInfo]]:
    """Return (id, branch) of every branch of sessions, oldest first, with its own messages."""
    rows = tx.all(SELECT_BRANCHES, {"scope_no": scope_no, "names": names})
    tx.verify("sessions", [row[0] for row in rows])
    return [(row[0], _to_branch(row)) for row in rows]


def _to_branch(row: Row) -> BranchInfo:
    _, *values = row
    values[5] = parse_json(values[5], dict)
    return BranchInfo(*values)


def list_all_branches(tx: Tx, after: int, high: int, limit: int) -> list[tuple[int, str, str]]:
    """Return (id, session, branch) of up to *limit* branches with *after* < id <= *high*, by id."""
    return [
        (row[0], row[1], row[2])
        for row in tx.all(SELECT_ALL_BRANCHES, {"after": after, "high": high, "limit": limit})
    ]


def list_sharing(tx: Tx) -> Iterator[tuple[int, str, str]]:
    """Yield (id, session, branch), in order of id, for every branch that has `shares`."""
    for rows in tx.pages(SELECT_SHARING, {"after": 0}):
        yield from ((row[0], row[1], row[2]) for row in rows)


def parent_name(tx: Tx, branch: int) -> str:
    """Return the name of the branch that a branch starts from; "" for the session itself."""
    row = tx.one(SELECT_PARENT, {"id": branch})
    return "" if row is None else str(row[0])


def roots(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """Return the id of the session itself for each of these sessions and branches."""
    return dict(tx.all(SELECT_ROOTS, {"ids": ids}))


def branch_names(tx: Tx, ids: Collection[int]) -> dict[int, str]:
    """Return the names of those of these *ids* that are branches."""
    return dict(tx.all(SELECT_BRANCH_NAMES, {"ids": ids}))


def move(tx: Tx, branch: int, parent: int, leaves_at: int, shares: Iterable[Run]) -> None:
    """Attach a branch to *parent* after *leaves_at*; after that it shares *shares*."""
    spans = json_list([[one.first_seq, one.last_seq, one.session] for one in shares], "shares")
    values = {"id": branch, "parent_id": parent, "leaves_at": leaves_at, "shares": spans}
    tx.run(UPDATE_PLACE, values)


def find(tx: Tx, scope_no: int, name: str, branch: str = "") -> int | None:
    """Return the id of the session *name*, or of a branch of it; None if there is none."""
    row = tx.one(SELECT_ID, {"scope_no": scope_no, "name": name, "branch": branch})
    if row is None:
        return None
    tx.verify("sessions", row)
    return int(row[0])


def head(tx: Tx, scope_no: int, name: str, branch: str = "") -> tuple[int, SessionHead] | None:
    """Return the id of a session or branch and its head, None if there is none."""
    values = {"scope_no": scope_no, "name": name, "branch": branch, "seq_mask": MAX_SEQ}
    row = tx.one(SELECT_HEAD, values)
    if row is None:
        return None
    row_id, found = int(row[0]), Head(*row[1:])
    tx.verify("sessions", [row_id])
    newest = _newest_on_path(tx, row_id) if is_branch(row_id) else found.newest_seq
    return row_id, found.replace(newest_seq=newest, metadata=parse_json(row[5], dict))


def _newest_on_path(tx: Tx, session: int) -> int:
    """
    Return the seq of the newest message of a branch, which may be a shared one.

    0 if there is none.
    """
    for run in reversed(runs_of(tx, session)):
        low, high = run.span
        row = tx.one(SELECT_NEWEST, {"low": low, "high": high, "seq_mask": MAX_SEQ})
        if row is not None and row[0] is not None:
            return int(row[0])
    return 0


def describe(tx: Tx, session: int, metadata: str | None) -> None:
    """Set the metadata (JSON text) of a session."""
    tx.run(UPDATE_HEAD, {"id": session, "metadata": metadata})


def rename(tx: Tx, session: int, title: str | None, bigrams: str | None) -> None:
    """Set the title of a session; the caller updates its index entry."""
    tx.run(UPDATE_TITLE, {"id": session, "title": title, "bigrams": bigrams})


def last_seq(tx: Tx, session: int) -> int:
    """Return the highest seq ever given out in the session, 0 before the first."""
    return tx.read_number(SELECT_LAST_SEQ, {"id": session})


def expect_last_seq(tx: Tx, session: int) -> None:
    """Prefetch what `last_seq` reads."""
    tx.expect(SELECT_LAST_SEQ, {"id": session})


class SessionPage(Record):
    """
    Filter and order of a list of sessions.

    Attributes:
        prefix: Only names that begin with this text.
        order: Sort by "name", "updated" (time of the newest message) or "created"; the last two
            put the newest first.
        after: End of the previous page: its time (0 in order of names) and its name. None means the
            first page.
    """

    prefix: str
    order: str
    after: tuple[int, str] | None
    limit: int


def list_page(tx: Tx, scope_no: int, page: SessionPage) -> list[tuple[int, SessionInfo]]:
    """Return (id, session) of a page, in its order, without their openings."""
    before_ms, after = page.after or (MAX_INT, "")
    low, high = scope_range(scope_no)
    values = {
        "scope_no": scope_no,
        "low": low,
        "high": high,
        "first": page.prefix,
        "last": page.prefix + LAST_NAME,
        "before_ms": before_ms,
        "after": after,
        "limit": page.limit,
    }
    rows = tx.all(SELECT_BY_TIME.get(page.order, SELECT_BY_NAME), values)
    return _infos(tx, [row[0] for row in rows])


def list_by_id(
    tx: Tx, after: int, high: int, *, limit: int = 1000
) -> list[tuple[int, SessionInfo]]:
    """Return (id, session) of up to *limit* sessions with *after* < id <= *high*, by id."""
    rows = tx.all(SELECT_BY_ID, {"after": after, "high": high, "limit": limit})
    tx.verify("sessions", [row[0] for row in rows])
    return _infos(tx, [row[0] for row in rows])


def _infos(tx: Tx, ids: list[int]) -> list[tuple[int, SessionInfo]]:
    rows = tx.all(SELECT_INFOS, {"ids": ids}) if ids else []
    found = {row[0]: _to_info(row) for row in rows}
    return [(one, found[one]) for one in ids]


def names(tx: Tx, ids: Collection[int]) -> dict[int, str]:
    """Return the name of each session with these *ids*; Corrupt if one is lost."""
    return _Names(tx.all(SELECT_NAMES, {"ids": ids}))


class _Names(dict[int, str]):
    """The names of sessions to which other rows belong."""

    def __missing__(self, session: int) -> str:
        """Raise Corrupt: the row of the session is lost."""
        return existing(None, "sessions")


def titles(tx: Tx, ids: Collection[int]) -> dict[int, str]:
    """Return the title of each session with these *ids* that has one."""
    return dict(tx.all(SELECT_TITLES, {"ids": ids}))


def identity(tx: Tx, session: int) -> tuple[str, str] | None:
    """Return the name and uid of a session, None if it is gone."""
    row = tx.one(SELECT_IDENTITY, {"id": session})
    return None if row is None else (row[0], row[1])


def descriptions(tx: Tx, ids: Collection[int]) -> dict[int, tuple[str | None, str | None, int]]:
    """Return title, metadata (JSON text) and `leaves_at` of sessions that are there, by id."""
    found = {row[0]: row[1:] for row in tx.all(SELECT_DESCRIPTION, {"ids": ids})}
    return {one: existing(found.get(one), "sessions") for one in ids}


def cards(tx: Tx, ids: Iterable[int]) -> dict[int, Card]:
    """Return what names each of these sessions, by id."""
    return {row[0]: Card(*row[1:]) for row in tx.all(SELECT_CARDS, {"ids": ids})}


def archived_count(tx: Tx, low: int, high: int) -> int:
    """Return how many messages of the rows in an id range are archived."""
    return tx.read_number(SELECT_ARCHIVED_COUNT, {"low": low, "high": high})


def families(tx: Tx, scope_no: int, names: Collection[str]) -> list[Row]:
    """Return (id, name, branch, parent id) of sessions and of all their branches, parents first."""
    rows = tx.all(SELECT_FAMILIES, {"scope_no": scope_no, "names": names})
    tx.verify("sessions", [row[0] for row in rows])
    return rows


def spans_of(tx: Tx, rows: Collection[int]) -> list[tuple[int, int]]:
    """
    Return rising spans of ids, both ends inclusive, with all that belongs to *rows*, and no more.

    So what is removed with many sessions takes as many statements as with one.
    """
    going, spans = {*rows}, []
    for is_of_branches in (False, True):
        some = sorted(row for row in going if is_branch(row) == is_of_branches)
        every = some
        if len(some) > 1:
            values = {"low": some[0], "high": some[-1]}
            every = [row for (row,) in tx.all(SELECT_IDS_BETWEEN, values)]
        for is_going, rising in groupby(every, going.__contains__):
            run = [*rising]
            if is_going:
                spans.append((run[0], run[-1] | MAX_SEQ))
    return spans


def totals(tx: Tx, ids: Collection[int]) -> list[tuple[int, int, int]]:
    """Return (session, tokens, number) of the messages with these *ids*."""
    rows = tx.all(SELECT_TOKENS, {"ids": ids, **MASKS})
    return [(session, tokens, number) for session, tokens, number in rows]


def total(tx: Tx, scope_no: int) -> int:
    """Return how many seqs the scope's sessions gave out: about its number of messages."""
    return tx.read_number(SELECT_TOTAL, {"scope_no": scope_no})


def expect_total(tx: Tx, scope_no: int) -> None:
    """Prefetch what `total` reads."""
    tx.expect(SELECT_TOTAL, {"scope_no": scope_no})


def advance(
    tx: Tx,
    session: int,
    count: int,
    *,
    newest_ms: int | None = None,
    messages: int = 0,
    tokens: int = 0,
) -> int | None:
    """
    Allot *count* seqs and return the last of them; None if it is gone or too full.

    Args:
        newest_ms: Time when the last message was written; None means now.
        messages, tokens: Of what is added to the session, for its counts.
    """
    newest_ms = tx.now_ms if newest_ms is None else newest_ms
    values = {"id": session, "count": count, "newest_ms": newest_ms, "seq_mask": MAX_SEQ}
    return tx.find_number(UPDATE_LAST_SEQ, {**values, "messages": messages, "tokens": tokens})


def count(tx: Tx, session: int, *, messages: int = 0, tokens: int = 0, archived: int = 0) -> None:
    """Add to the counts of a row what came to it; what went is negative."""
    values = {"id": session, "messages": messages, "tokens": tokens, "archived": archived}
    tx.run(UPDATE_COUNTS, values)


def set_empty(tx: Tx, session: int) -> None:
    """Set the counts of a row that has no messages any more."""
    tx.run(UPDATE_EMPTY, {"id": session})


def touch(tx: Tx, session: int, updated_ms: int) -> None:
    """Set the time by which lists order the session."""
    tx.run(UPDATE_CHANGED, {"id": session, "updated_ms": updated_ms})


def updated_ms(tx: Tx, session: int) -> int:
    """Return when the newest message of the session was written."""
    return tx.read_number(SELECT_UPDATED, {"id": session})


def set_times(tx: Tx, session: int, created_ms: int | None, updated_ms: int | None) -> None:
    """Set when the session was made and changed, for imports; None leaves it as it is."""
    values = {"id": session, "created_ms": created_ms, "updated_ms": updated_ms}
    tx.run(UPDATE_TIMES, values)


def raise_seq(tx: Tx, session: int, last: int, updated_ms: int) -> None:
    """Make sure that seqs up to *last* count as given out (for imports)."""
    tx.run(UPDATE_SEQ_TO, {"id": session, "last_seq": last, "updated_ms": updated_ms})


def delete(tx: Tx, rows: Collection[int]) -> None:
    """Remove the rows of sessions and branches, leaving tombstones; what is theirs goes first."""
    newest_first = [{"id": row} for row in sorted(rows, reverse=True)]  # a branch is newer
    given = {"now_ms": tx.now_ms, "mark": BRANCH_MARK}
    tx.many(INSERT_TOMBSTONE, [{**one, **given} for one in newest_first])
    tx.many(DELETE_SESSION, newest_first)


def drop(tx: Tx, session: int) -> None:
    """Remove the row of a branch that nothing belongs to, without a tombstone."""
    tx.run(DELETE_SESSION, {"id": session})


def rename_branch(tx: Tx, branch: int, name: str) -> None:
    """Rename a branch; its session does not have the new name."""
    tx.run(UPDATE_BRANCH, {"id": branch, "branch": name})


def set_identity(tx: Tx, session: int, uid: str, created_ms: int) -> None:
    """Set uid and time of creation of a session to those of the session in another file."""
    tx.run(UPDATE_IDENTITY, {"id": session, "uid": uid, "created_ms": created_ms})


def place_of(tx: Tx, branch: int) -> dict[str, Any]:
    """Return name, branch, uid, metadata and times of a session or branch that is there."""
    names = ("name", "branch", "uid", "metadata", "created_ms", "updated_ms")
    row = existing(tx.one(SELECT_BRANCH_ROW, {"id": branch}), "sessions")
    return dict(zip(names, row, strict=True))


def read_lengths(tx: Tx) -> dict[int, int]:
    """
    Return the highest seq of each session and branch of the file, by its id.

    The seq only grows: one that is the same got no message. Cost: 0.3 ms per 1,000.
    """
    return dict(tx.all(SELECT_LENGTHS))


def find_places(tx: Tx, ids: Iterable[int]) -> tuple[SessionPlace, ...]:
    """Return where sessions and branches are; those that are gone are skipped."""
    rows = tx.all(SELECT_PLACES, {"ids": list(ids)})
    return tuple(SessionPlace(app, user, name, branch or None) for app, user, name, branch in rows)
