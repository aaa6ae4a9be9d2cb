"""
State: values that hosts keep under keys. Owns the table `state`.

A row belongs to an app (no user), to a user of it (no session), or to a
session. A place is named by all three, "" for what does not apply.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine import compose
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from memdb.engine.base import Row, Tx

    Place = tuple[str, str, str]  # app, user, session

INSERT_STATE = compose.insert("state.insert", "state", user_name=":user", otherwise=compose.NOTHING)

# The fields of a StateRow in their order.
_LISTED = "app, user_name, session, key, value, version, updated_ms"
_OF_USER = "app = :app AND user_name = :user"
_OF_PLACE = f"{_OF_USER} AND session = :session"
_OF_SESSION = f"{_OF_USER} AND (CAST(:session AS TEXT) IS NULL OR session = :session)"

SELECT_PAGE = compose.select(
    "state.list",
    _LISTED,
    "state",
    f"{_OF_USER} AND (CAST(:key AS TEXT) IS NULL OR (session, key) > (:session, :key))",
    order="session, key",
    limit=":limit",
)

SELECT_VALUES = compose.select("state.values", "key, value", "state", _OF_PLACE, order="key")

SELECT_SOME = compose.select(
    "state.find_values",
    "session, key, value",
    "state",
    f"""
  {_OF_USER}
  AND session IN (SELECT value FROM json_each(:sessions))
  AND key IN (SELECT value FROM json_each(:keys))
""",
)

SELECT_ROW = compose.select("state.find", _LISTED, "state", f"{_OF_PLACE} AND key = :key")

# The same value again is no change: no version, no page written.
UPSERT_STATE = compose.insert(
    "state.put",
    "state",
    "app, session, key, value",
    user_name=":user",
    updated_ms=":now_ms",
    otherwise=compose.conflict(
        "app, user_name, session, key",
        "value, updated_ms",
        where="state.value <> excluded.value",
        version="state.version + 1",
    ),
)

DELETE_KEY = compose.delete("state.delete", "state", f"{_OF_PLACE} AND key = :key")

SELECT_STATE = compose.select(
    "state.list_values", "key, value", "state", _OF_SESSION, order="session, key"
)

DELETE_STATE = compose.delete("state.clear", "state", _OF_SESSION)

DELETE_SESSIONS = compose.delete(
    "state.clear_sessions",
    "state",
    "app = :app AND user_name = :user AND session IN (SELECT value FROM json_each(:names))",
)


class StateRow(Record):
    """
    A value under a key.

    Attributes:
        user: "" for what belongs to the app itself.
        session: "" for what belongs to no session.
        value: JSON text.
        version: Grows by one with each change.
    """

    app: str
    user: str
    session: str
    key: str
    value: str
    version: int
    updated_ms: int


def add(tx: Tx, row: StateRow) -> bool:
    """Add a value; False, and nothing changes, when the key has one."""
    values = {field: getattr(row, field) for field in StateRow._fields}
    return tx.count_changed(INSERT_STATE, values) > 0


def list_page(
    tx: Tx, app: str, user: str, *, after: StateRow | None = None, limit: int = 1000
) -> list[StateRow]:
    """Return up to *limit* rows behind *after*, by session and key; None: from the first."""
    session, key = (None, None) if after is None else (after.session, after.key)
    values = {"app": app, "user": user, "session": session, "key": key, "limit": limit}
    found = tx.all(SELECT_PAGE, values)
    tx.verify("state", [row[:4] for row in found])
    return [StateRow(*row) for row in found]


def values(tx: Tx, place: Place) -> dict[str, str]:
    """Return the JSON text of every value of a place, by key."""
    found: dict[str, str] = dict(tx.all(SELECT_VALUES, _named(place)))
    tx.verify("state", [(*place, key) for key in found])
    return found


def find_values(
    tx: Tx, app: str, user: str, keys: Collection[tuple[str, str]]
) -> dict[tuple[str, str], str]:
    """Return the JSON texts of those of a user's values that are there, by (session, key)."""
    if not keys:
        return {}
    values = {"sessions": [one for one, _ in keys], "keys": [key for _, key in keys]}
    rows = tx.all(SELECT_SOME, {"app": app, "user": user, **values})
    tx.verify("state", [(app, user, session, key) for session, key, _ in rows])
    found = {(session, key): value for session, key, value in rows}
    return {one: found[one] for one in keys if one in found}


def find(tx: Tx, place: Place, key: str) -> StateRow | None:
    """Return the row of a key, None if the place has no such key."""
    row = tx.one(SELECT_ROW, {**_named(place), "key": key})
    if row is None:
        return None
    tx.verify("state", [(*place, key)])
    return StateRow(*row)


def put(tx: Tx, place: Place, given: Mapping[str, str]) -> None:
    """Set values, given as JSON text by key; the other keys stay unchanged."""
    tx.verify("state", [(*place, key) for key in given])
    for key, value in given.items():
        tx.run(UPSERT_STATE, {**_named(place), "key": key, "value": value, "now_ms": tx.now_ms})


def delete(tx: Tx, place: Place, key: str) -> bool:
    """Remove a key; False if the place has none such."""
    return tx.count_changed(DELETE_KEY, {**_named(place), "key": key}) > 0


def _named(place: Place) -> dict[str, str]:
    app, user, session = place
    return {"app": app, "user": user, "session": session}


def list_values(tx: Tx, app: str, user: str, session: str | None) -> list[Row]:
    """Return (key, value) of what hosts keep for a user, or for one session of theirs."""
    return tx.all(SELECT_STATE, {"app": app, "user": user, "session": session})


def clear(tx: Tx, app: str, user: str, session: str | None) -> int:
    """Remove what hosts keep for a user, or for one session of theirs; how many values."""
    return tx.count_changed(DELETE_STATE, {"app": app, "user": user, "session": session})


def delete_keys(tx: Tx, app: str, user: str, keys: Iterable[tuple[str, str]]) -> None:
    """Remove some values of a user, given as (session, key)."""
    tx.many(DELETE_KEY, [{**_named((app, user, session)), "key": key} for session, key in keys])


def clear_sessions(tx: Tx, app: str, user: str, names: Collection[str]) -> None:
    """Remove what hosts keep for sessions of a user."""
    tx.run(DELETE_SESSIONS, {"app": app, "user": user, "names": names})
