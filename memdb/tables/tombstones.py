"""
Tombstones: what was removed, and when; never what it said. Owns `tombstones`.

Each delete leaves one. Here is what moving them between files
takes; a row that comes back takes its tombstone away. What was forgotten
does not come back by an import. A thing that another program exports gets a new uid at each import.
So a second tombstone has `source:` and a hash of the thing's name in that program
(`memdb.records.dependents.keep_away`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.models.ids import BRANCH_MARK, scope_range
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from memdb.engine.base import Tx

INSERT_TOMBSTONE = compose.insert(
    "tombstones.insert",
    "tombstones",
    otherwise=compose.conflict(
        "scope_no, uid",
        "ref",
        where="excluded.forgotten = 1 AND tombstones.forgotten = 0",
        forgotten="1",
    ),
)

SELECT_ONE = """/* tombstones.find */
SELECT 1 FROM tombstones WHERE scope_no = :scope_no AND uid = :uid
"""

SELECT_PAGE = """/* tombstones.list */
SELECT uid, kind, ref, deleted_ms, forgotten
FROM tombstones
WHERE scope_no = :scope_no AND uid > :after
ORDER BY uid
LIMIT :limit
"""

SELECT_LIVE = """/* tombstones.live */
SELECT uid FROM sessions
WHERE scope_no = :scope_no AND uid IN (SELECT value FROM json_each(:uids))
UNION ALL
SELECT uid FROM entries
WHERE
  id BETWEEN :low AND :high
  AND uid IN (SELECT value FROM json_each(:uids))
UNION ALL
SELECT items.uid
FROM item_namespaces
JOIN items ON items.namespace_id = item_namespaces.id
WHERE
  item_namespaces.scope_no = :scope_no
  AND items.uid IN (SELECT value FROM json_each(:uids))
UNION ALL
SELECT uid FROM artifacts
WHERE scope_no = :scope_no AND uid IN (SELECT value FROM json_each(:uids))
"""

DELETE_MANY = """/* tombstones.drop */
DELETE FROM tombstones
WHERE EXISTS (SELECT 1 FROM tombstones WHERE scope_no = :scope_no)
  AND scope_no = :scope_no
  AND uid IN (SELECT value FROM json_each(:uids))
"""

UPDATE_REFS = compose.update(
    "tombstones.hide_ref",
    "tombstones",
    """
  scope_no = :scope_no
  AND kind = :kind
  AND (ref = :ref OR substr(ref, 1, length(:branches)) = :branches)
""",
    ref="'sha256:' || :digest",
    forgotten="1",
)

UPDATE_KIND = compose.update(
    "tombstones.hide_kind",
    "tombstones",
    "scope_no = :scope_no AND kind = :kind AND ref NOT LIKE 'sha256:%'",
    ref="'forgotten'",
)

UPDATE_ALL_REFS = compose.update(
    "tombstones.hide_all_refs",
    "tombstones",
    "scope_no = :scope_no",
    ref="CASE WHEN kind IN ('entry', 'item') THEN ref ELSE 'forgotten' END",
    forgotten="1",
)

UPDATE_NAMED = compose.update(
    "tombstones.hide_named",
    "tombstones",
    "scope_no = :scope_no AND uid IN (SELECT value FROM json_each(:uids))",
    ref="'forgotten'",
    forgotten="1",
)

UPDATE_ENTRY = compose.update(
    "tombstones.forget_entry",
    "tombstones",
    "scope_no = :scope_no AND kind = 'entry' AND ref = :ref",
    forgotten="1",
)

SELECT_FORGOTTEN_UIDS = compose.select(
    "tombstones.forgotten",
    "uid",
    "tombstones",
    """
  EXISTS (SELECT 1 FROM tombstones WHERE scope_no = :scope_no)
  AND scope_no = :scope_no
  AND forgotten = 1
  AND uid IN (SELECT value FROM json_each(:uids))
""",
)


class Tombstone(Record):
    """
    Mark that something was removed.

    Attributes:
        kind: "session", "message", "entry", "item" or "artifact".
        ref: Where it was: a session's name, `name@version`, or an id.
        forgotten: Whether an import may not bring it back.
    """

    uid: str
    kind: str
    ref: str
    deleted_ms: int
    forgotten: bool = False


def add(tx: Tx, scope_no: int, *stones: Tombstone) -> None:
    """Add tombstones; one for the same uid stays, unless only the new one is `forgotten`."""
    rows = ({field: getattr(one, field) for field in Tombstone._fields} for one in stones)
    tx.many(INSERT_TOMBSTONE, [{**row, "scope_no": scope_no} for row in rows])


def find(tx: Tx, scope_no: int, uid: str) -> bool:
    """Return whether the row with *uid* was removed from a scope."""
    return tx.one(SELECT_ONE, {"scope_no": scope_no, "uid": uid}) is not None


def list_page(tx: Tx, scope_no: int, *, after: str = "", limit: int = 1000) -> list[Tombstone]:
    """Return up to *limit* tombstones of a scope whose uid sorts after *after*, by uid."""
    values = {"scope_no": scope_no, "after": after, "limit": limit}
    rows = tx.all(SELECT_PAGE, values)
    return [
        Tombstone(uid, kind, ref, deleted_ms, bool(forgotten))
        for uid, kind, ref, deleted_ms, forgotten in rows
    ]


def live(tx: Tx, scope_no: int, uids: list[str]) -> set[str]:
    """Return those of *uids* that a session, entry, item or artifact here has."""
    low, high = scope_range(scope_no)
    values = {"scope_no": scope_no, "low": low, "high": high, "uids": uids}
    return {row[0] for row in tx.all(SELECT_LIVE, values)}


def drop(tx: Tx, scope_no: int, uids: list[str]) -> None:
    """Remove the tombstones of *uids* from a scope: those rows are back."""
    tx.run(DELETE_MANY, {"scope_no": scope_no, "uids": uids})


def hide_ref(tx: Tx, scope_no: int, kind: str, ref: str, digest: str) -> None:
    """Replace the name of *ref*, which was forgotten, by its hash in its tombstones."""
    values = {"scope_no": scope_no, "kind": kind, "ref": ref, "digest": digest}
    tx.run(UPDATE_REFS, {**values, "branches": ref + BRANCH_MARK})


def hide_kind(tx: Tx, scope_no: int, kind: str) -> None:
    """Remove the names from the tombstones of a kind in a scope."""
    tx.run(UPDATE_KIND, {"scope_no": scope_no, "kind": kind})


def hide_named(tx: Tx, scope_no: int, uids: Collection[str]) -> None:
    """Remove the names from the tombstones with *uids*, whose things count as forgotten."""
    tx.run(UPDATE_NAMED, {"scope_no": scope_no, "uids": uids})


def hide_all_refs(tx: Tx, scope_no: int) -> None:
    """Remove the names from the tombstones of a scope, which was forgotten."""
    tx.run(UPDATE_ALL_REFS, {"scope_no": scope_no})


def forget_entries(tx: Tx, scope_no: int, ids: Iterable[int]) -> None:
    """Note that entries that were removed, maybe before, are forgotten."""
    tx.many(UPDATE_ENTRY, [{"scope_no": scope_no, "ref": str(one)} for one in ids])


def forgotten(tx: Tx, scope_no: int, uids: Iterable[str]) -> set[str]:
    """Return those of *uids* that were forgotten in a scope."""
    values = {"scope_no": scope_no, "uids": list(uids)}
    return {row[0] for row in tx.all(SELECT_FORGOTTEN_UIDS, values)}
