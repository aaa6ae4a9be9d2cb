"""
Entries, the long-term records. Owns the table `entries`.

At most one active entry of a scope states a given key without an end. An entry is active and valid
while `HOLDS` is true, as `Entry.holds` defines it. A caller that updates an entry first stores its
old version (`entry_history.keep`) in the same transaction.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import hashed_names, names_without
from memdb.errors import existing
from memdb.models.entries import Entry
from memdb.models.fields import ENTRY
from memdb.models.ids import SESSION_SHIFT, in_rows, scope_of, scope_range, span_holds_any
from memdb.models.record import Record
from memdb.models.reports import CategoryCount
from memdb.text.derived import content_hash, said_hash
from memdb.text.validate import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from memdb.engine.base import Row, Tx

# Where the fields of an Entry stand that a row holds in another form.
KEYWORDS, METADATA = (Entry._fields.index(name) for name in ("keywords", "metadata"))
FLAGS = tuple(Entry._fields.index(name) for name in ("pinned", "active", "session_only"))

# What `row` reads, and what `update` sets of it, with the hashes.
ROW_FIELDS = names_without(
    "entries",
    *("id", "scope_no", "version", "use_count", "last_used_ms", "stored_ms"),
    *("content_hash", "said_hash"),
)
SET_FIELDS = tuple(name for name in ROW_FIELDS if name not in ("uid", "created_ms"))

# The fields of an Entry in their order, each as its column.
_MADE = {
    "session": "sessions.name",
    "branch": "nullif(sessions.branch, '')",
    "outdated_by": "NULL",
}
_LISTED = [_MADE.get(name, f"entries.{name}") for name in Entry._fields]

IN_IDS = "id IN (SELECT value FROM json_each(:ids))"
_HOLDS = """{0}active = 1
  AND ({0}valid_from_ms IS NULL OR {0}valid_from_ms <= :now_ms)
  AND ({0}valid_to_ms IS NULL OR {0}valid_to_ms > :now_ms)
  AND ({0}expires_ms IS NULL OR {0}expires_ms > :now_ms)"""
HOLDS = _HOLDS.format("")
HAS_ENDED = "(valid_to_ms <= :now_ms OR expires_ms <= :now_ms)"
# The only session that recalls an entry, 0 if all do; the index of keys has the same expression.
_PRIVATE_TO = "(CASE WHEN {0}session_only = 1 THEN {0}session_id ELSE 0 END)"
PRIVATE_TO = _PRIVATE_TO.format("")
# An entry that states its key, until another one does; the index of keys has the same condition.
STATES_KEY = "key IS NOT NULL AND active = 1 AND valid_to_ms IS NULL"
WANTED = f"""
  (CAST(:category AS TEXT) IS NULL OR category = :category)
  AND (CAST(:pinned AS BIGINT) IS NULL OR pinned = :pinned)
  AND (:inactive OR ({HOLDS}))
"""

# What a person has to judge: words that nobody trusts, and what a newer entry seems to outdate.
ASKED = f"""
  {WANTED}
  AND (
    NOT :undecided
    OR trust <> 'trusted'
    OR EXISTS (
      SELECT 1 FROM entry_links
      JOIN entries AS newer ON newer.id = entry_links.newer_id
      WHERE
        entry_links.newer_id BETWEEN :scope_low AND :scope_high
        AND newer.id BETWEEN :scope_low AND :scope_high
        AND entry_links.older_id = entries.id
        AND entry_links.rejected_ms IS NULL
        AND entry_links.kind <> 'repeats'
        AND (entry_links.kind = 'retracts' OR ({_HOLDS.format("newer.")}))
    )
  )
"""

INSERT_ENTRY = compose.insert("entries.insert", "entries")

SELECT_BY_KEY = f"""/* entries.find_key */
SELECT id FROM entries
WHERE
  scope_no = :scope_no
  AND key = :key
  AND {PRIVATE_TO} IN (SELECT value FROM json_each(:sessions))
  AND {HOLDS}
ORDER BY session_only DESC, valid_from_ms DESC NULLS LAST, id DESC
LIMIT 1
"""

SELECT_OPEN = f"""/* entries.open_key */
SELECT id FROM entries
WHERE
  scope_no = :scope_no
  AND key = :key
  AND {PRIVATE_TO} = :private_to
  AND {STATES_KEY}
"""

SELECT_BY_UIDS = """/* entries.find_uids */
SELECT uid, id
FROM entries
WHERE id BETWEEN :low AND :high AND uid IN (SELECT value FROM json_each(:uids))
"""

SELECT_PAGE = compose.select(
    "entries.list",
    "id",
    "entries",
    f"id > :after AND id <= :high AND {ASKED}",
    order="id",
    limit=":limit",
)

SELECT_NEWEST = compose.select(
    "entries.list_newest",
    "id",
    "entries",
    f"id >= :low AND id < :before AND {WANTED}",
    order="id DESC",
    limit=":limit",
)

# No index by time: a use would have to move the entry in it. 10,000 rows take 8 ms.
SELECT_BY_TIME = {
    order: compose.select(
        f"entries.by_{order}",
        "id",
        "entries",
        f"""
  id BETWEEN :low AND :high
  AND {ASKED}
  AND ({order}_ms < :before_ms OR ({order}_ms = :before_ms AND id < :before))
""",
        order=f"{order}_ms DESC, id DESC",
        limit=":limit",
    )
    for order in ("updated", "created")
}

SELECT_MANY = compose.select(
    "entries.get_many",
    _LISTED,
    "entries LEFT JOIN sessions ON sessions.id = entries.session_id",
    f"entries.{IN_IDS}",
)

SELECT_VALIDITY = f"""/* entries.validity */
SELECT id, created_ms, {HOLDS} FROM entries WHERE {IN_IDS}
"""

SELECT_TEXT = """/* entries.text */
SELECT text, version FROM entries WHERE id = :id
"""

SELECT_ROW = compose.select("entries.row", ROW_FIELDS, "entries", "id = :id")

UPDATE_ENTRY = compose.update(
    "entries.update",
    "entries",
    "id = :id",
    ", ".join((*SET_FIELDS, "content_hash", "said_hash")),
    version="version + 1",
    stored_ms="CASE WHEN stored_ms < :now_ms THEN :now_ms ELSE stored_ms END",
    returning="version",
)

UPDATE_REPEATED = compose.update("entries.repeat", "entries", "id = :id", version="version + 1")

UPDATE_SUPERSEDED = compose.update("entries.link", "entries", "id = :id", "superseded_by")

UPDATE_OUTCOME = compose.update(
    "entries.set_outcome", "entries", "id = :id", "version, active, superseded_by, stored_ms"
)

UPDATE_FORGET_SESSION = compose.update(
    "entries.forget_sessions",
    "entries",
    "session_id BETWEEN :low AND :high",
    session_id="NULL",
    first_seq="NULL",
    last_seq="NULL",
)

UPDATE_SOURCE = compose.update(
    "entries.move_source",
    "entries",
    "session_id = :session_id AND first_seq >= :first_seq AND last_seq <= :last_seq",
    session_id=":to",
)

SELECT_SESSION_ONLY = """/* entries.session_only */
SELECT id FROM entries
WHERE session_id BETWEEN :low AND :high AND session_only = 1
ORDER BY id
"""

UPDATE_UNLINKED = compose.update(
    "entries.unlink",
    "entries",
    "id BETWEEN :low AND :high AND superseded_by = :id",
    superseded_by="NULL",
)

DELETE_ENTRY = """/* entries.delete */
DELETE FROM entries WHERE id = :id
"""

INSERT_TOMBSTONE = compose.insert_select(
    "entries.insert_tombstone",
    "tombstones",
    "uid, kind, scope_no, ref, deleted_ms",
    """
SELECT uid, 'entry', scope_no, CAST(id AS TEXT), :now_ms FROM entries WHERE id = :id
""",
    compose.conflict("scope_no, uid", "deleted_ms"),
)
compose.annotate(INSERT_TOMBSTONE, compose.UNCOUNTED)  # beside the deletion


SELECT_FROM = """/* entries.from_session */
SELECT id, session_id, first_seq, last_seq
FROM entries
WHERE session_id IN (SELECT value FROM json_each(:sessions)) AND id BETWEEN :low AND :high
ORDER BY id
"""

SELECT_IN_SESSIONS = """/* entries.in_sessions */
SELECT entries.id, text, session_id + first_seq, session_id + last_seq
FROM json_each(:sessions) AS wanted
CROSS JOIN entries
WHERE entries.session_id = wanted.value AND entries.id BETWEEN :low AND :high
  AND last_seq IS NOT NULL
"""

SELECT_PLACES = """/* entries.places */
SELECT id, first_seq, session_only FROM entries
WHERE session_id = :session
ORDER BY id
"""

SELECT_IDS_BETWEEN = """/* entries.ids_between */
SELECT id FROM entries WHERE id BETWEEN :low AND :high ORDER BY id
"""


# What the content hash covers; a new column that is NULL changes no hash.
HASHED = hashed_names("entries", ENTRY)


def _to_entry(row: Row) -> Entry:
    values = list(row)
    values[KEYWORDS] = tuple(row[KEYWORDS].split("\n")) if row[KEYWORDS] else ()
    for place in FLAGS:
        values[place] = bool(row[place])
    values[METADATA] = parse_json(row[METADATA], dict)
    return Entry(*values)


def hash_of(row: dict[str, Any]) -> bytes:
    """Return the content hash of a row, which covers its content and not its use."""
    return content_hash(row, HASHED)


def add(tx: Tx, row: dict[str, Any]) -> None:
    """Add an entry; *row* contains every column by name."""
    tx.run(INSERT_ENTRY, row)


def find(tx: Tx, entry_id: int) -> Entry | None:
    """Return an entry, None if there is none with this id."""
    return get_many(tx, [entry_id]).get(entry_id)


def find_key(tx: Tx, scope_no: int, key: str, now_ms: int, path: Sequence[int] = ()) -> int | None:
    """
    Return the id of the active entry with the fact *key* at a time, None if there is none.

    Args:
        path: The rows of the requesting session; entries that only it recalls come first.
    """
    values = {"scope_no": scope_no, "key": key, "now_ms": now_ms, "sessions": [0, *path]}
    return tx.find_number(SELECT_BY_KEY, values)


def open_key(tx: Tx, scope_no: int, key: str | None, private_to: int | None) -> int | None:
    """
    Return the id of the active entry of *key* that has no end, None if there is none.

    There is none of the key None.

    Args:
        private_to: As `PRIVATE_TO` of a row, because each session has its own keys.
    """
    values = {"scope_no": scope_no, "key": key, "private_to": private_to}
    return None if key is None else tx.find_number(SELECT_OPEN, values)


def states_key(row: Mapping[str, Any]) -> bool:
    """Return whether a row states its key; as `STATES_KEY` does."""
    return bool(row["key"] is not None and row["active"] and row["valid_to_ms"] is None)


def private_to(row: Mapping[str, Any]) -> int | None:
    """Return the only session that recalls an entry, 0 if all do; as `PRIVATE_TO` does."""
    session: int | None = row["session_id"] if row["session_only"] else 0
    return session


def find_uids(tx: Tx, low: int, high: int, uids: list[str]) -> dict[str, int]:
    """Return the id by uid, for the *uids* in an id range. Reads it whole."""
    return dict(tx.all(SELECT_BY_UIDS, {"low": low, "high": high, "uids": uids}))


class EntryFilter(Record):
    """
    Filter and order of a list of entries.

    Attributes:
        now_ms: Only entries that are valid at this time ...
        category: Only this one; None means every category.
        pinned: Only pinned entries, or only the others; None means both.
        inactive: ... or also entries that are not.
        undecided: Only entries of one scope that a person should judge. `list_newest` and
            `list_as_of` ignore it.
    """

    now_ms: int
    category: str | None = None
    pinned: bool | None = None
    inactive: bool = False
    undecided: bool = False


def list_page(tx: Tx, after: int, high: int, *, limit: int, wanted: EntryFilter) -> list[Entry]:
    """Return up to *limit* entries with *after* < id <= *high*, by id."""
    low, last = scope_range(scope_of(after))
    values = {**wanted._asdict(), "after": after, "high": high, "limit": limit}
    values |= {"scope_low": low, "scope_high": last}
    return _in_order(tx, SELECT_PAGE, values)


def list_newest(tx: Tx, low: int, before: int, *, limit: int, wanted: EntryFilter) -> list[Entry]:
    """Return up to *limit* entries with *low* <= id < *before*, newest first."""
    values = {**wanted._asdict(), "low": low, "before": before, "limit": limit}
    return _in_order(tx, SELECT_NEWEST, values)


def list_by_time(
    tx: Tx,
    span: tuple[int, int],
    order: str,
    before: tuple[int, int],
    *,
    limit: int,
    wanted: EntryFilter,
) -> list[Entry]:
    """
    Return up to *limit* entries of a range of ids by their *order* time, newest first.

    Args:
        order: "updated" or "created".
        before: The time and id of the entry that the previous page ended with.
    """
    values = {**wanted._asdict(), "low": span[0], "high": span[1], "limit": limit}
    values |= {"before_ms": before[0], "before": before[1]}
    values |= {"scope_low": span[0], "scope_high": span[1]}
    return _in_order(tx, SELECT_BY_TIME[order], values)


def _in_order(tx: Tx, sql: str, values: dict[str, Any]) -> list[Entry]:
    """Return the entries whose ids a query returns, in its order."""
    ids = [row[0] for row in tx.all(sql, values)]
    found = get_many(tx, ids)
    return [found[one] for one in ids]


def get_many(tx: Tx, ids: Collection[int]) -> dict[int, Entry]:
    """Return the entries with these *ids*, by id; Corrupt if one differs from its digest."""
    if not ids:
        return {}
    tx.verify("entries", ids)
    return {row[0]: _to_entry(row) for row in tx.all(SELECT_MANY, {"ids": ids})}


def list_validity(tx: Tx, ids: Collection[int], at_ms: int) -> dict[int, tuple[int, bool]]:
    """Return by id of *ids* when an entry was made, and whether it holds at a time."""
    rows = tx.all(SELECT_VALIDITY, {"ids": ids, "now_ms": at_ms}) if ids else []
    return {key: (created_ms, bool(holds)) for key, created_ms, holds in rows}


def text(tx: Tx, entry_id: int) -> tuple[str, int] | None:
    """Return an entry's text and version, None if it is absent."""
    row = tx.one(SELECT_TEXT, {"id": entry_id})
    return None if row is None else (row[0], row[1])


def row(tx: Tx, entry_id: int) -> dict[str, Any]:
    """Return the columns of an existing entry that `update` takes, and those of its hash."""
    tx.verify("entries", [entry_id])
    found = existing(tx.one(SELECT_ROW, {"id": entry_id}), "entries")
    return dict(zip(ROW_FIELDS, found, strict=True))


def update(tx: Tx, entry_id: int, row: dict[str, Any]) -> int:
    """Replace an entry's content and return its new version; store the old version first."""
    values = {**row, "id": entry_id, "now_ms": tx.now_ms}
    return existing(tx.find_number(UPDATE_ENTRY, values), "entries")


def repeat(tx: Tx, entry_id: int) -> None:
    """Count a version without a change of the entry, because the fact was repeated."""
    tx.run(UPDATE_REPEATED, {"id": entry_id})


def link(tx: Tx, entry_id: int, superseded_by: int | None) -> None:
    """Store which entry replaced this one; None means none."""
    tx.run(UPDATE_SUPERSEDED, {"id": entry_id, "superseded_by": superseded_by})


def session_only(tx: Tx, low: int, high: int) -> list[int]:
    """Return the ids of the entries that only a session or branch in an id range recalls."""
    return [row[0] for row in tx.all(SELECT_SESSION_ONLY, {"low": low, "high": high})]


def forget_sessions(tx: Tx, low: int, high: int) -> None:
    """Clear the references to the rows in an id range, which are being deleted; the texts stay."""
    tx.run(UPDATE_FORGET_SESSION, {"low": low, "high": high})


def move_source(tx: Tx, session: int, to: int, first_seq: int, last_seq: int) -> None:
    """Point entries told by these messages to another row, which has the messages now."""
    values = {"session_id": session, "to": to, "first_seq": first_seq, "last_seq": last_seq}
    tx.run(UPDATE_SOURCE, values)


def delete(tx: Tx, ids: Collection[int]) -> None:
    """Remove entries and their history, leaving tombstones."""
    spans = [(one, *scope_range(scope_of(one))) for one in ids]
    tx.many(INSERT_TOMBSTONE, [{"id": one, "now_ms": tx.now_ms} for one in ids])
    tx.many(UPDATE_UNLINKED, [{"id": one, "low": low, "high": high} for one, low, high in spans])
    tx.many(DELETE_ENTRY, [{"id": one} for one in ids])


SELECT_SAID = """/* entries.said */
SELECT id FROM entries
WHERE scope_no = :scope_no AND said_hash = :said_hash
ORDER BY active DESC, id DESC
"""

SELECT_OF_KEYS = f"""/* entries.of_keys */
SELECT key, {PRIVATE_TO}, id FROM entries
WHERE id BETWEEN :low AND :high AND key IN (SELECT value FROM json_each(:keys))
ORDER BY id
"""

SELECT_KEYS = f"""/* entries.keys */
SELECT key FROM entries
WHERE scope_no = :scope_no AND {PRIVATE_TO} = 0
  AND {STATES_KEY}
ORDER BY key
LIMIT :limit
"""

SELECT_LEADS_TO = """/* entries.leads_to */
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

SELECT_REPLACED = """/* entries.replaced */
WITH RECURSIVE chain (id) AS (
  SELECT CAST(:start AS BIGINT)
  UNION
  SELECT entries.id
  FROM chain
  JOIN entries ON entries.superseded_by = chain.id AND entries.id BETWEEN :low AND :high
)
SELECT id FROM chain WHERE id <> :start ORDER BY id DESC
"""

# The version of each entry that the file held at a time: the row itself where it was
# stored by then, else the version of its history that was replaced after it.
SELECT_AS_OF = f"""/* entries.as_of */
SELECT id, CAST(NULL AS BIGINT) AS version FROM entries
WHERE id > :after AND id <= :high AND stored_ms <= :now_ms AND {WANTED}
UNION ALL
SELECT entry_id, version FROM entry_history
WHERE
  entry_id > :after
  AND entry_id <= :high
  AND stored_ms <= :now_ms
  AND replaced_ms > :now_ms
  AND {WANTED}
ORDER BY 1
LIMIT :limit
"""

# The index `entries_scope` finds the active entries of one category, so each category is asked for,
# and inactive entries are not read. With CROSS JOIN SQLite looks at the categories first.
ACTIVE = """
WITH RECURSIVE made (name) AS (
  SELECT min(category) FROM entries WHERE scope_no = :scope_no
  UNION ALL
  SELECT (SELECT min(category) FROM entries WHERE scope_no = :scope_no AND category > name)
  FROM made
  WHERE name IS NOT NULL
)
SELECT {}
FROM made
CROSS JOIN entries
WHERE
  scope_no = :scope_no
  AND category = name
  AND active = 1
  AND (CAST(:category AS TEXT) IS NULL OR name = :category)
"""

SELECT_ACTIVE = f"/* entries.active */{ACTIVE.format('count(*)')}"

SELECT_ANY = f"/* entries.any_active */{ACTIVE.format('1')}  AND pinned <= :most_pinned LIMIT 1\n"

WORTH = f"""
  id,
  category,
  importance,
  use_count,
  CASE WHEN last_used_ms > updated_ms THEN last_used_ms ELSE updated_ms END,
  {HAS_ENDED}"""

SELECT_WORTH = f"""/* entries.worth */{ACTIVE.format(WORTH)}  AND pinned = 0
  AND id <> :keep
"""

SELECT_ENDED = f"""/* entries.ended */
SELECT id FROM entries
WHERE
  id > :after
  AND active = 1
  AND {HAS_ENDED}
ORDER BY id
LIMIT :limit
"""

SELECT_INACTIVE = """/* entries.inactive */
SELECT id FROM entries
WHERE
  id > :after
  AND active = 0
  AND pinned = 0
  AND stored_ms < :before_ms
ORDER BY id
LIMIT :limit
"""

UPDATE_USED = compose.update(
    "entries.used",
    "entries",
    "id = :id",
    use_count="use_count + :times",
    last_used_ms="CASE WHEN last_used_ms > :used_ms THEN last_used_ms ELSE :used_ms END",
)
compose.annotate(UPDATE_USED, compose.UNCOUNTED)  # looking changes nothing

# The number of entries of a range, then the ids of those that are left out: usually few.
SELECT_LEFT_OUT = f"""/* entries.left_out */
SELECT count(*), NULL FROM entries WHERE id BETWEEN :low AND :high
UNION ALL
SELECT 0, id FROM entries
WHERE
  id BETWEEN :low AND :high
  AND (
    {HOLDS}
    AND created_ms >= :since_ms
    AND created_ms < :until_ms
    AND (
      (session_only = 0 AND :of_scope = 1)
      OR session_id IN (SELECT value FROM json_each(:sessions))
    )
    AND (:any_category = 1 OR category IN (SELECT value FROM json_each(:categories)))
  ) IS NOT TRUE
"""

# Entries of a range whose key or words an entry of another range, which holds, has too.
SELECT_SHADOWED = f"""/* entries.shadowed */
SELECT shared.id
FROM entries AS shared
JOIN entries AS own ON own.scope_no = :own_no AND own.said_hash = shared.said_hash
WHERE
  shared.id BETWEEN :low AND :high
  AND {_PRIVATE_TO.format("own.")} IN (SELECT value FROM json_each(:sessions))
  AND {_HOLDS.format("own.")}
UNION
SELECT shared.id
FROM entries AS shared
JOIN entries AS own ON own.scope_no = :own_no AND own.key = shared.key
WHERE
  shared.id BETWEEN :low AND :high
  AND shared.key IS NOT NULL
  AND {_PRIVATE_TO.format("own.")} IN (SELECT value FROM json_each(:sessions))
  AND {_HOLDS.format("own.")}
"""

SELECT_WORTHS = """/* entries.worths */
SELECT id, text, importance, category, updated_ms, use_count, spans FROM entries
WHERE id IN (SELECT value FROM json_each(:ids))
"""

SELECT_METADATA = compose.select(
    "entries.get_metadata", "id, metadata", "entries", f"{IN_IDS} AND metadata IS NOT NULL"
)

WITH_HASH = ("id", *HASHED, "content_hash", "said_hash")

SELECT_HASHED = compose.select(
    "entries.hashed", WITH_HASH, "entries", "id > :after", order="id", limit="1000"
)


def find_same_text(tx: Tx, scope_no: int, text: str) -> list[int]:
    """
    Return the ids of the entries with *text*, normalised.

    Active ones first, then newest first.
    """
    values = {"scope_no": scope_no, "said_hash": said_hash(text)}
    return [row[0] for row in tx.all(SELECT_SAID, values)]


def list_keyed(
    tx: Tx, low: int, high: int, keys: list[str]
) -> defaultdict[tuple[str, int | None], list[int]]:
    """
    Return the ids of all entries of a range with each of *keys*, active or not, oldest first.

    They are under the key and `PRIVATE_TO` of the row. Cost: 0.1 µs per entry of the range, because
    no index holds the keys of inactive entries.
    """
    found: defaultdict[tuple[str, int | None], list[int]] = defaultdict(list)
    if keys:
        values = {"low": low, "high": high, "keys": keys}
        for key, private_to, entry_id in tx.all(SELECT_OF_KEYS, values):
            found[key, private_to].append(entry_id)
    return found


def list_keys(tx: Tx, scope_no: int, limit: int) -> list[str]:
    """
    Return up to *limit* keys of the active entries of a scope that have no end, in order.

    Entries that only one session recalls are left out.
    """
    return [row[0] for row in tx.all(SELECT_KEYS, {"scope_no": scope_no, "limit": limit})]


def leads_to(tx: Tx, start: int, wanted: int) -> bool:
    """Return whether *wanted* is *start* or follows it in the chain of replacements."""
    return tx.one(SELECT_LEADS_TO, {"start": start, "wanted": wanted}) is not None


def list_replaced(tx: Tx, entry_id: int) -> list[int]:
    """Return the ids of the earlier entries in this one's chain of replacements, newest first."""
    low, high = scope_range(scope_of(entry_id))
    values = {"start": entry_id, "low": low, "high": high}
    return [row[0] for row in tx.all(SELECT_REPLACED, values)]


def list_as_of(
    tx: Tx, after: int, high: int, *, limit: int, wanted: EntryFilter
) -> list[tuple[int, int | None]]:
    """
    Return (id, version) of the entries that the file held at `wanted.now_ms`, by id.

    The version is that of the history. None means the row itself.
    """
    values = {**wanted._asdict(), "after": after, "high": high, "limit": limit}
    return [(int(row[0]), row[1]) for row in tx.all(SELECT_AS_OF, values)]


def count_active(tx: Tx, scope_no: int, category: str | None = None) -> int:
    """Return the number of active entries of a scope, including those that expired meanwhile."""
    return tx.read_number(SELECT_ACTIVE, {"scope_no": scope_no, "category": category})


def has_active(tx: Tx, scope_no: int, category: str | None = None, *, pinned: bool = True) -> bool:
    """Return whether a scope has an active entry; *pinned* False leaves pinned ones out."""
    values = {"scope_no": scope_no, "category": category, "most_pinned": int(pinned)}
    return tx.one(SELECT_ANY, values) is not None


def list_evictable(
    tx: Tx, scope_no: int, keep: int, now_ms: int, category: str | None = None
) -> list[Row]:
    """
    Return the entries that may be evicted: active and not pinned, except *keep*.

    Returns:
        Each is (id, category, importance, use count, time of last statement or use, whether it
        ended), in any order.
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
    """Return (id, text, importance, category, updated_ms, use count, spans) by *ids*."""
    return tx.all(SELECT_WORTHS, {"ids": ids})


def get_metadata(tx: Tx, ids: Collection[int]) -> list[tuple[int, dict[str, Any]]]:
    """Return (id, metadata) of those with these *ids* that have metadata."""
    rows = tx.all(SELECT_METADATA, {"ids": ids})
    return [(row_id, parse_json(metadata, dict)) for row_id, metadata in rows]


def list_active_ids(
    tx: Tx,
    low: int,
    high: int,
    *,
    now_ms: int,
    since_ms: int,
    until_ms: int,
    path: Sequence[int] = (),
    of_scope: bool = True,
    before: tuple[int, int] | None = None,
    categories: Collection[str] | None = None,
) -> tuple[set[int] | None, int]:
    """
    Return the ids in a range that are active, unexpired and made in [since, until).

    None means that these are all entries of the range. The second value is their number.

    Args:
        path: The rows of the session that asks; () for none. Entries that only other sessions
            recall are left out.
        of_scope: With False, entries that do not come from that session are left out.
        before: Leaves out entries whose text or key an entry of this range has.
        categories: Only these; None means every category.
    """
    values = {
        "low": low,
        "high": high,
        "now_ms": now_ms,
        "since_ms": since_ms,
        "until_ms": until_ms,
        "sessions": path,
        "of_scope": of_scope,
        "any_category": categories is None,
        "categories": categories or (),
    }
    rows = tx.all(SELECT_LEFT_OUT, values)
    total = sum(number for number, entry_id in rows if entry_id is None)
    left_out = {entry_id for _, entry_id in rows if entry_id is not None}
    if before is not None and total > len(left_out):
        values = {
            "low": low,
            "high": high,
            "own_no": scope_of(before[0]),
            "now_ms": now_ms,
            "sessions": [0, *path],
        }
        left_out.update(row[0] for row in tx.all(SELECT_SHADOWED, values))
    if not left_out:
        return None, total
    found = {*ids_between(tx, low, high)} - left_out if total > len(left_out) else set()
    return found, len(found)


def damaged(tx: Tx) -> Iterable[int]:
    """Yield the id of each entry whose content does not match its hash."""
    for rows in tx.pages(SELECT_HASHED, {"after": 0}):
        for values in rows:
            row = dict(zip(WITH_HASH, values, strict=True))
            if hash_of(row) != row["content_hash"] or said_hash(row["text"]) != row["said_hash"]:
                yield row["id"]


# What puts an entry at its place in a prompt, or leaves it out.
_KNOWN = "id, category, pinned, importance, updated_ms, trust, session_only"

SELECT_PINNED = f"""/* entries.list_pinned */
SELECT {_KNOWN}
FROM (
  SELECT {_KNOWN} FROM entries
  WHERE scope_no = :scope_no AND pinned = 1 AND {HOLDS}
  UNION ALL
  SELECT {_KNOWN} FROM entries
  WHERE scope_no = :scope_no AND pinned = 0 AND {HOLDS}
    AND category IN (SELECT value FROM json_each(:categories))
) AS made
ORDER BY pinned DESC, importance DESC, updated_ms DESC, id DESC
LIMIT :limit
"""


# In the order of `Entry.status`.
SELECT_STATES = f"""/* entries.states */
SELECT category,
  CASE
    WHEN {HOLDS} THEN 'active'
    WHEN superseded_by IS NOT NULL THEN 'superseded'
    WHEN {HAS_ENDED} THEN 'expired'
    WHEN active = 0 THEN 'inactive'
    ELSE 'future'
  END AS state,
  count(*)
FROM entries
WHERE scope_no = :scope_no
GROUP BY category, state
ORDER BY category, state
"""


SELECT_RECENT = f"""/* entries.recent */
SELECT {_KNOWN} FROM entries
WHERE id BETWEEN :low AND :high AND {HOLDS}
ORDER BY id DESC
LIMIT :limit
"""


class KnownFilter(Record):
    """
    Filter for the entries in every prompt.

    Attributes:
        categories: The categories whose entries are all pinned.
        most_pinned: Most pinned entries.
        most_others: Largest number of the newest other entries.
    """

    categories: list[str]
    now_ms: int
    most_pinned: int
    most_others: int


def list_known(
    tx: Tx, scopes: Collection[int], wanted: KnownFilter
) -> dict[int, tuple[list[Row], list[Row]]]:
    """
    Return, by scope, the pinned entries, most important first, and the newest ones.

    A row has id, category, pinned, importance, updated_ms, trust and session_only.
    """
    asked = []
    for scope_no in scopes:
        low, high = scope_range(scope_no)
        span = {"low": low, "high": high, "now_ms": wanted.now_ms, "limit": wanted.most_others}
        pinned = {
            "scope_no": scope_no,
            "categories": wanted.categories,
            "now_ms": wanted.now_ms,
            "limit": wanted.most_pinned,
        }
        asked.append((scope_no, pinned, span))
        tx.expect(SELECT_PINNED, pinned)
        if wanted.most_others:
            tx.expect(SELECT_RECENT, span)
    return {
        scope_no: (
            tx.all(SELECT_PINNED, pinned),
            tx.all(SELECT_RECENT, span) if wanted.most_others else [],
        )
        for scope_no, pinned, span in asked
    }


def list_places(tx: Tx, session: int) -> list[Row]:
    """Return (id, first seq, session_only) of the entries that come from a session."""
    return tx.all(SELECT_PLACES, {"session": session})


def list_from(tx: Tx, seqs: Mapping[int, Collection[int] | None]) -> list[int]:
    """Return the entries that come from some *seqs* of rows of a scope; None means any."""
    rising = {row: some if some is None else sorted(some) for row, some in seqs.items()}
    found = []
    for entry_id, row, first, last in tx.all(SELECT_FROM, in_rows(rising)) if rising else ():
        some = rising[row]
        if some is None or span_holds_any(first, last, some):
            found.append(entry_id)
    return found


def _in_sessions_of(messages: Collection[int]) -> dict[str, Any]:
    return in_rows({one >> SESSION_SHIFT << SESSION_SHIFT for one in messages})


def expect_in_messages(tx: Tx, messages: Collection[int]) -> None:
    """Prefetch what `texts_in_messages` reads."""
    if messages:
        tx.expect(SELECT_IN_SESSIONS, _in_sessions_of(messages))


def texts_in_messages(tx: Tx, messages: Collection[int]) -> dict[int, dict[int, str]]:
    """
    Return, by id of a message, the texts of the entries that come from it, by id.

    All of one scope.
    """
    found = tx.all(SELECT_IN_SESSIONS, _in_sessions_of(messages)) if messages else []
    texts: dict[int, dict[int, str]] = {one: {} for one in messages}
    ordered = sorted(texts)
    for key, text, low, high in found:
        for one in ordered[bisect_left(ordered, low) : bisect_right(ordered, high)]:
            texts[one][key] = text
    return texts


def ids_between(tx: Tx, low: int, high: int) -> list[int]:
    """Return the ids of all entries in a range, including inactive ones."""
    return [row[0] for row in tx.all(SELECT_IDS_BETWEEN, {"low": low, "high": high})]


def count_states(tx: Tx, scope_no: int, now_ms: int) -> tuple[CategoryCount, ...]:
    """Return the entries of each category by their state at a time."""
    counts: dict[str, dict[str, int]] = {}
    for category, state, count in tx.all(SELECT_STATES, {"scope_no": scope_no, "now_ms": now_ms}):
        counts.setdefault(category, {})[state] = count
    states = CategoryCount.__match_args__[1:]
    return tuple(
        CategoryCount(category, *(of.get(state, 0) for state in states))
        for category, of in counts.items()
    )


def set_outcome(tx: Tx, entry_id: int, **columns: int | None) -> None:
    """Set version, active, superseded_by and stored_ms of an entry, as copies agree on them."""
    tx.run(UPDATE_OUTCOME, {**columns, "id": entry_id})
