"""
Scopes: each is the memory of one user in one app. Owns the table `scopes`.

A scope is created at its first write, and its number is never reused. Its two counters assign
session numbers and the `n` of packed ids. The counters only grow, so an id never gets another
meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.errors import TooLarge, existing
from memdb.models.ids import MAX_SCOPE_NO, SCOPE_SHIFT

if TYPE_CHECKING:
    from memdb.engine.base import Tx

INSERT_SCOPE = compose.insert(
    "scopes.insert",
    "scopes",
    "uid, app, created_ms",
    user_name=":user",
    numbered="scope_no",
    returning="scope_no",
)

SELECT_SCOPE = """/* scopes.find */
SELECT scope_no FROM scopes WHERE app = :app AND user_name = :user
"""

SELECT_IDENTITY = """/* scopes.identity */
SELECT uid, created_ms FROM scopes WHERE scope_no = :scope_no
"""

SELECT_SCOPES = """/* scopes.list */
SELECT scope_no, app, user_name FROM scopes ORDER BY app, user_name
"""

SELECT_LAST_NO = compose.select("scopes.last_no", "coalesce(max(scope_no), 0)", "scopes")

SELECT_LAST_N = compose.select("scopes.last_n", "last_n", "scopes", "scope_no = :scope_no")

UPDATE_NEXT_ID = compose.update(
    "scopes.next_id", "scopes", "scope_no = :scope_no", last_n="last_n + :count", returning="last_n"
)


def find(tx: Tx, app: str, user: str) -> int | None:
    """Return the number of the scope, None before its first write."""
    row = tx.one(SELECT_SCOPE, {"app": app, "user": user})
    if row is None:
        return None
    tx.verify("scopes", row)
    return int(row[0])


def expect(tx: Tx, app: str, user: str) -> None:
    """Prefetch what `find` reads."""
    tx.expect(SELECT_SCOPE, {"app": app, "user": user})


def ensure(tx: Tx, app: str, user: str, uid: str, created_ms: int | None = None) -> int:
    """
    Return the number of the scope; a new one gets *uid* and *created_ms*, None for now.

    Raises:
        TooLarge: no scope number is left for a new one.
    """
    found = find(tx, app, user)
    if found is not None:
        return found
    if count_left(tx) <= 0:
        advice = "use another database, or `memdb serve DIR`"
        raise TooLarge("number of scopes", MAX_SCOPE_NO, MAX_SCOPE_NO + 1, advice)
    made_ms = tx.now_ms if created_ms is None else created_ms
    values = {"uid": uid, "app": app, "user": user, "created_ms": made_ms}
    return existing(tx.find_number(INSERT_SCOPE, values), "scopes")


def identity(tx: Tx, scope_no: int) -> tuple[str, int]:
    """
    Return the uid of an existing scope and the time when it was created.

    Raises:
        Corrupt: its row is lost, although an index still contains it.
    """
    row = existing(tx.one(SELECT_IDENTITY, {"scope_no": scope_no}), "scopes")
    return row[0], row[1]


def count_left(tx: Tx) -> int:
    """Return how many scope numbers are still free."""
    return MAX_SCOPE_NO - tx.read_number(SELECT_LAST_NO)


def list_all(tx: Tx) -> list[tuple[int, str, str]]:
    """Return (number, app, user) of every scope, by app and user."""
    return [(int(number), app, user) for number, app, user in tx.all(SELECT_SCOPES)]


def last_n(tx: Tx, scope_no: int) -> int:
    """Return how many ids of entries, artifact names, summaries and items a scope has assigned."""
    return tx.read_number(SELECT_LAST_N, {"scope_no": scope_no})


def next_id(tx: Tx, scope_no: int, count: int = 1) -> int:
    """Return the first of *count* packed ids `scope_no << 44 | n` that were never assigned."""
    tx.verify("scopes", [scope_no])  # a damaged counter would give an id twice
    values = {"scope_no": scope_no, "count": count}
    last = existing(tx.find_number(UPDATE_NEXT_ID, values), "scopes")
    return scope_no << SCOPE_SHIFT | last - count + 1
