"""
Which entries stand: at a time, beside each other, and against the quota.

Reads `entries` for recall, for finding what a statement repeats, and for
deciding what goes. The room of the table is `entries`.
"""

from __future__ import annotations

from memdb.models.ids import SCOPE_SHIFT, scope_range
from memdb.text.derived import content_hash, said_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Row, Tx

SELECT_SAID = """/* active_entries.said */
SELECT id FROM entries
WHERE scope_no = :scope_no AND said_hash = :said_hash
ORDER BY active DESC, id DESC
"""

SELECT_OF_KEY = """/* active_entries.of_key */
SELECT id FROM entries
WHERE id BETWEEN :low AND :high AND key = :key
ORDER BY id
"""

SELECT_LEADS_TO = """/* active_entries.leads_to */
WITH RECURSIVE chain (id) AS (
  SELECT CAST(:start AS BIGINT)
  UNION
  SELECT entries.superseded_by
  FROM chain
  JOIN entries ON entries.id = chain.id
  WHERE entries.superseded_by IS NOT NULL
)
SELECT 1 FROM chain WHERE id = :wanted
"""

SELECT_REPLACED = """/* active_entries.replaced */
WITH RECURSIVE chain (id) AS (
  SELECT CAST(:start AS BIGINT)
  UNION
  SELECT entries.id
  FROM chain
  JOIN entries ON entries.superseded_by = chain.id AND entries.id BETWEEN :low AND :high
)
SELECT id FROM chain WHERE id <> :start ORDER BY id DESC
"""

# What superseded an entry, and that one, and so on to the one that stands.
SELECT_SUCCESSORS = """/* active_entries.successors */
WITH RECURSIVE chain (start, id, depth) AS (
  SELECT id, id, 0 FROM entries WHERE id IN (SELECT value FROM json_each(:ids))
  UNION
  SELECT chain.start, entries.superseded_by, chain.depth + 1
  FROM chain
  JOIN entries ON entries.id = chain.id
  WHERE entries.superseded_by IS NOT NULL AND chain.depth < 100
)
SELECT start, id FROM chain ORDER BY start, depth
"""

# The version of each entry that the file held at a time: the row itself where it was
# stored by then, else the version of its history that was replaced after it.
SELECT_AS_OF = """/* active_entries.as_of */
SELECT id, CAST(NULL AS BIGINT) AS version FROM entries
WHERE
  id > :after
  AND id <= :high
  AND stored_ms <= :at_ms
  AND (CAST(:category AS TEXT) IS NULL OR category = :category)
  AND (CAST(:pinned AS BIGINT) IS NULL OR pinned = :pinned)
  AND (:inactive OR (holds_from_ms <= :at_ms AND holds_until_ms > :at_ms))
UNION ALL
SELECT entry_id, version FROM entry_history
WHERE
  entry_id > :after
  AND entry_id <= :high
  AND stored_ms <= :at_ms
  AND replaced_ms > :at_ms
  AND (CAST(:category AS TEXT) IS NULL OR category = :category)
  AND (CAST(:pinned AS BIGINT) IS NULL OR pinned = :pinned)
  AND (:inactive OR (holds_from_ms <= :at_ms AND holds_until_ms > :at_ms))
ORDER BY 1
LIMIT :limit
"""

SELECT_ACTIVE = """/* active_entries.active */
SELECT count(*) FROM entries
WHERE
  scope_no = :scope_no
  AND active = 1
  AND (CAST(:category AS TEXT) IS NULL OR category = :category)
"""

SELECT_WORTH = """/* active_entries.worth */
SELECT
  id,
  category,
  importance,
  use_count,
  CASE WHEN last_used_ms > updated_ms THEN last_used_ms ELSE updated_ms END,
  holds_until_ms <= :now_ms
FROM entries
WHERE
  scope_no = :scope_no
  AND active = 1
  AND pinned = 0
  AND id <> :keep
  AND (CAST(:category AS TEXT) IS NULL OR category = :category)
ORDER BY id
"""

SELECT_ENDED = """/* active_entries.ended */
SELECT id FROM entries
WHERE
  id > :after
  AND active = 1
  AND holds_until_ms <= :now_ms
ORDER BY id
LIMIT :limit
"""

SELECT_INACTIVE = """/* active_entries.inactive */
SELECT id FROM entries
WHERE
  id > :after
  AND active = 0
  AND pinned = 0
  AND stored_ms < :before_ms
ORDER BY id
LIMIT :limit
"""

UPDATE_USED = """/* active_entries.used */
UPDATE entries
SET
  use_count = use_count + :times,
  last_used_ms = CASE WHEN last_used_ms > :used_ms THEN last_used_ms ELSE :used_ms END
WHERE id = :id
"""

SELECT_LIVE = """/* active_entries.live */
SELECT id FROM entries
WHERE
  id BETWEEN :low AND :high
  AND holds_from_ms <= :now_ms
  AND holds_until_ms > :now_ms
  AND created_ms >= :since_ms
  AND created_ms < :until_ms
  AND (CAST(:session_id AS BIGINT) IS NULL OR session_id = :session_id)
  AND (CAST(:visible AS BIGINT) IS NULL OR session_only = 0 OR session_id = :visible)
"""

# Entries of a range whose key or words an entry of another range, which holds, has too.
SELECT_SHADOWED = """/* active_entries.shadowed */
SELECT shared.id
FROM entries AS shared
JOIN entries AS own ON own.scope_no = :own_no AND own.said_hash = shared.said_hash
WHERE
  shared.id BETWEEN :low AND :high
  AND own.holds_from_ms <= :now_ms
  AND own.holds_until_ms > :now_ms
UNION
SELECT shared.id
FROM entries AS shared
JOIN entries AS own ON own.scope_no = :own_no AND own.key = shared.key
WHERE
  shared.id BETWEEN :low AND :high
  AND shared.key IS NOT NULL
  AND own.holds_from_ms <= :now_ms
  AND own.holds_until_ms > :now_ms
"""

SELECT_WORTHS = """/* active_entries.worths */
SELECT id, importance, category, updated_ms, use_count
FROM entries
WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_COUNT = """/* active_entries.count */
SELECT count(*) FROM entries WHERE id BETWEEN :low AND :high
"""

SELECT_HASHED = """/* active_entries.hashed */
SELECT
  id,
  uid,
  category,
  key,
  text,
  keywords,
  importance,
  metadata,
  created_ms,
  content_hash,
  said_hash
FROM entries
WHERE id > :after
ORDER BY id
LIMIT :limit
"""


def find_same_text(tx: Tx, scope_no: int, text: str) -> list[int]:
    """Return the ids of the entries that say *text*, normalised; active ones, newest, first."""
    values = {"scope_no": scope_no, "said_hash": said_hash(text)}
    return [row[0] for row in tx.all(SELECT_SAID, values)]


def list_key(tx: Tx, low: int, high: int, key: str) -> list[int]:
    """Return the ids of all entries of a range that state or stated a fact, oldest first."""
    return [row[0] for row in tx.all(SELECT_OF_KEY, {"low": low, "high": high, "key": key})]


def leads_to(tx: Tx, start: int, wanted: int) -> bool:
    """Say whether *start*, or what superseded it, and so on, is *wanted*."""
    return tx.one(SELECT_LEADS_TO, {"start": start, "wanted": wanted}) is not None


def list_replaced(tx: Tx, entry_id: int) -> list[int]:
    """Return the ids of the entries that led to this one by being superseded, newest first."""
    low, high = scope_range(entry_id >> SCOPE_SHIFT)
    values = {"start": entry_id, "low": low, "high": high}
    return [row[0] for row in tx.all(SELECT_REPLACED, values)]


def find_successors(tx: Tx, ids: Collection[int]) -> dict[int, int]:
    """Return, for each of *ids*, the entry that stands where it was superseded."""
    return dict(tx.all(SELECT_SUCCESSORS, {"ids": ids}))  # the last of each chain wins


def list_as_of(
    tx: Tx,
    after: int,
    high: int,
    *,
    at_ms: int,
    limit: int,
    category: str | None = None,
    pinned: bool | None = None,
    inactive: bool = False,
) -> list[tuple[int, int | None]]:
    """
    Return (id, version) of what an id range held at a time, by id; version None: the row itself.

    Arguments as in `entries.list_page`.
    """
    values = {
        "after": after,
        "high": high,
        "at_ms": at_ms,
        "limit": limit,
        "category": category,
        "pinned": pinned,
        "inactive": inactive,
    }
    return [(int(row[0]), row[1]) for row in tx.all(SELECT_AS_OF, values)]


def count_active(tx: Tx, scope_no: int, category: str | None = None) -> int:
    """Return how many entries of a scope are active, those that expired meanwhile too."""
    row = tx.one(SELECT_ACTIVE, {"scope_no": scope_no, "category": category})
    assert row is not None
    return int(row[0])


def list_evictable(tx: Tx, scope_no: int, keep: int, now_ms: int, category: str | None = None) -> list[Row]:
    """
    Return what may be set aside: every active entry that is not pinned, but *keep*.

    Returns:
        (id, category, importance, use count, when it was last said or used,
        whether it ended) by id.
    """
    values = {"scope_no": scope_no, "keep": keep, "now_ms": now_ms, "category": category}
    return tx.all(SELECT_WORTH, values)


def list_ended(tx: Tx, after: int, now_ms: int, limit: int) -> list[int]:
    """Return active entries of the file that expired or stopped being true, by id."""
    values = {"after": after, "now_ms": now_ms, "limit": limit}
    return [row[0] for row in tx.all(SELECT_ENDED, values)]


def list_inactive(tx: Tx, after: int, before_ms: int, limit: int) -> list[int]:
    """Return inactive, unpinned entries of the file that changed before a time, by id."""
    values = {"after": after, "before_ms": before_ms, "limit": limit}
    return [row[0] for row in tx.all(SELECT_INACTIVE, values)]


def note_used(tx: Tx, uses: Iterable[tuple[int, int, int]]) -> None:
    """Count uses: (entry id, how many times, when last); entries that are gone are left out."""
    tx.many(
        UPDATE_USED,
        [{"id": one, "times": times, "used_ms": used_ms} for one, times, used_ms in uses],
    )


def get_worths(tx: Tx, ids: Collection[int]) -> list[Row]:
    """Return (id, importance, category, updated_ms, use count) of those with these *ids*."""
    return tx.all(SELECT_WORTHS, {"ids": ids})


def list_active_ids(
    tx: Tx,
    low: int,
    high: int,
    *,
    now_ms: int,
    since_ms: int,
    until_ms: int,
    session: int | None = None,
    visible: int | None = None,
    before: tuple[int, int] | None = None,
) -> set[int]:
    """
    Return the ids in a range that are active, unexpired and made in [since, until).

    Args:
        session: Only those told in it; None: wherever they were told.
        visible: Without those that only other sessions recall; None: with them.
        before: Without those that say what an entry of this range says, or
            what it is the fact for.
    """
    values = {
        "low": low,
        "high": high,
        "now_ms": now_ms,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "session_id": session,
        "visible": visible,
    }
    found = {row[0] for row in tx.all(SELECT_LIVE, values)}
    if before is not None and found:
        values = {"low": low, "high": high, "own_no": before[0] >> SCOPE_SHIFT, "now_ms": now_ms}
        found -= {row[0] for row in tx.all(SELECT_SHADOWED, values)}
    return found


def count(tx: Tx, low: int, high: int) -> int:
    """Return how many entries have *low* <= id <= *high*."""
    row = tx.one(SELECT_COUNT, {"low": low, "high": high})
    return 0 if row is None else int(row[0])


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the id of each entry whose content does not match its hash."""
    after = 0
    while rows := tx.all(SELECT_HASHED, {"after": after, "limit": 1000}):
        for row in rows:
            *content, stored, said = row
            if content_hash(*content[1:]) != stored or said_hash(row[4]) != said:
                yield row[0]
        after = rows[-1][0]
