"""
State records: values that hosts store under keys, for an app, a user or a session.

Rows of the table `state` are added and removed only through this module, except by `memdb copy`. A
value of a session needs that session, and is removed with it. Every function joins the caller's
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import require_version
from memdb.records import dependents, sessions
from memdb.tables import state

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef
    from memdb.tables.state import Place, StateRow


def places_of(owner: ScopeRef, session: str) -> tuple[Place, Place, Place]:
    """Return the places of the state of a session, of its user and of its app."""
    return (owner.app, owner.user, str(session)), (owner.app, owner.user, ""), (owner.app, "", "")


def put(tx: Tx, owner: ScopeRef | None, place: Place, values: Mapping[str, str], ids: Ids) -> None:
    """
    Set values of a place, given as JSON text by key; its other keys stay.

    Args:
        owner: The scope of the session in *place*, which is created if it is new; None if *place*
            has no session.
    """
    if owner is not None and place[2]:
        sessions.ensure(tx, owner, place[2], ids)
    state.put(tx, place, values)


def require_key(tx: Tx, place: Place, key: str, expected: int | None) -> None:
    """Raise VersionConflict unless a key is at a version; 0 means that there must be no key."""
    if expected is not None:
        found = state.find(tx, place, key)
        require_version("key", key, expected, 0 if found is None else found.version)


def restore(tx: Tx, owner: ScopeRef, row: StateRow, ids: Ids) -> bool:
    """Add an exported value; return False and change nothing if its key has one."""
    if row.session:
        sessions.ensure(tx, owner, row.session, ids)
    return state.add(tx, row)


def remove(tx: Tx, place: Place, key: str | None = None) -> bool:
    """Remove a key of a place, or every key for None; return False if there was none."""
    return state.clear(tx, *place) > 0 if key is None else state.delete(tx, place, key)


def remove_many(
    tx: Tx,
    owner: ScopeRef,
    sessions: Collection[str | None] = (),
    keys: Collection[tuple[str, str]] = (),
    *,
    is_forgotten: bool = False,
) -> None:
    """
    Remove some of a user's values.

    Args:
        sessions: Sessions whose values are all removed; None among them means all values of the
            user.
        keys: Single values to remove, as (session, key).
        is_forgotten: No import brings them back.
    """
    if is_forgotten and (sessions or keys):
        _keep_away(tx, owner, sessions, keys)
    if None in sessions:
        state.clear(tx, owner.app, owner.user, None)
    elif sessions:
        state.clear_sessions(tx, owner.app, owner.user, [str(name) for name in sessions])
    state.delete_keys(tx, owner.app, owner.user, keys)


def _keep_away(
    tx: Tx,
    owner: ScopeRef,
    sessions: Collection[str | None],
    keys: Collection[tuple[str, str]],
) -> None:
    after, names = None, []
    while page := state.list_page(tx, owner.app, owner.user, after=after):
        after = page[-1]
        names += [
            _source_names(row)
            for row in page
            if not {None, row.session}.isdisjoint(sessions) or (row.session, row.key) in keys
        ]
    if names:
        dependents.keep_away(tx, owner.ensure(tx), "item", names)


def find_kept_away(tx: Tx, owner: ScopeRef, rows: Sequence[StateRow]) -> list[StateRow]:
    """Return the *rows* of an import that were forgotten."""
    names = {_source_names(row): row for row in rows}
    gone = dependents.are_kept_away(tx, owner.ensure(tx), "item", [*names])
    return [names[each] for each in gone]


def _source_names(row: StateRow) -> tuple[str, ...]:
    return "state", row.session, row.key
