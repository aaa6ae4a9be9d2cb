"""
State: values that hosts keep under keys. Owns the table `state`.

A row belongs to an app (no user), to a user of it (no session), or to a
session. Here is what moving it between files takes.
"""

from __future__ import annotations

from memdb.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.db.transaction import Row, Tx

INSERT_STATE = """/* state.insert */
INSERT INTO state (app, user, session, key, value, revision, updated_ms)
VALUES (:app, :user, :session, :key, :value, :revision, :updated_ms)
ON CONFLICT DO NOTHING
"""

SELECT_PAGE = """/* state.list */
SELECT app, user, session, key, value, revision, updated_ms
FROM state
WHERE app = :app AND user = :user AND (session, key) > (:session, :key)
ORDER BY session, key
LIMIT :limit
"""

SELECT_FIRST = """/* state.first */
SELECT app, user, session, key, value, revision, updated_ms
FROM state
WHERE app = :app AND user = :user
ORDER BY session, key
LIMIT :limit
"""


class StateRow(Record):
    """
    A value under a key.

    Attributes:
        user: "" for what belongs to the app itself.
        session: "" for what belongs to no session.
        value: JSON text.
        revision: Grows by one with each change.
    """

    app: str
    user: str
    session: str
    key: str
    value: str
    revision: int
    updated_ms: int


def _to_state(row: Row) -> StateRow:
    return StateRow(*row)


def add(tx: Tx, row: StateRow) -> bool:
    """Add a value; False, and nothing changes, when the key has one."""
    values = {field: getattr(row, field) for field in StateRow._fields}
    return tx.run(INSERT_STATE, values) > 0


def list_page(
    tx: Tx, app: str, user: str, *, after: StateRow | None = None, limit: int = 1000
) -> list[StateRow]:
    """Return up to *limit* rows behind *after*, by session and key; None: from the first."""
    values = {"app": app, "user": user, "limit": limit}
    if after is None:
        return [_to_state(row) for row in tx.all(SELECT_FIRST, values)]
    behind = {**values, "session": after.session, "key": after.key}
    return [_to_state(row) for row in tx.all(SELECT_PAGE, behind)]
