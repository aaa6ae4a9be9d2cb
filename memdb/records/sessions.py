"""
Session records: a session with all rows that depend on it.

Rows of the table `sessions` are added and removed only through this module, except by `memdb copy`.
Every function joins the caller's transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import branches_of
from memdb.errors import NotFound
from memdb.models.ids import (
    BRANCH_MARK,
    MAX_SEQ,
    branch_of,
    is_branch,
    scope_of,
    session_no_of,
)
from memdb.records import artifacts, branches, dependents, entries, messages
from memdb.tables import checks, jobs, sessions, state, tombstones
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef


def ensure(tx: Tx, owner: ScopeRef, name: str, ids: Ids) -> int:
    """
    Return the id of a session; create the session and its scope if they are new.

    Raises:
        NotFound: *name* names a branch that does not exist; `records.branches` creates branches.
    """
    scope_no = owner.ensure(tx)
    branch = branch_of(name)
    known, place = tx.known(), ("session", scope_no, str(name), branch)
    session = known.get(place)
    if session is None:
        session = sessions.find(tx, scope_no, name, branch)
        if session is None:
            if branch:
                raise NotFound("branch", branch, f"session {name!s}")
            session = sessions.add(tx, scope_no, name, ids(tx.now_ms))
        known[place] = session
        tx.keep_known()
    return session


def restore(tx: Tx, scope_no: int, name: str, uid: str, columns: Mapping[str, Any]) -> int:
    """Create an exported session, and return its id; a removed one is restored."""
    title = columns.get("title")
    derived = {"bigrams": None if title is None else bigrams_of(title)}
    session = sessions.add(tx, scope_no, name, uid, **columns, **derived)
    if title is not None:
        tx.words.add("session", session)
    dependents.clear(tx, scope_no, [uid])
    return session


def set_title(tx: Tx, session: int, title: str) -> None:
    """Replace the title of a session, and index its words."""
    tx.words.drop("session", session)
    sessions.rename(tx, session, title, bigrams_of(title))
    tx.words.add("session", session)


def undescribe(tx: Tx, *rows: int) -> None:
    """Take title and metadata from sessions and branches."""
    tx.words.drop_each("session", rows)
    for row in rows:
        sessions.rename(tx, row, None, None)
        sessions.describe(tx, row, None)


def queue_extraction(tx: Tx, session: int) -> None:
    """Queue the search for facts in a session, from its first message on, unless it is queued."""
    jobs.set_extracted(tx, session, 0)


def set_extracted(tx: Tx, session: int, last_seq: int) -> None:
    """
    Store that a session was searched for facts up to *last_seq*; 0 means not yet.

    The call is for copies, whose facts were copied or deleted.
    """
    if last_seq:
        jobs.set_extracted(tx, session, last_seq)


def remove(tx: Tx, owner: ScopeRef, *names: str, is_forgotten: bool = False) -> None:
    """
    Remove the existing ones of some sessions and branches, with all rows that depend on them.

    Entries that come from them stay, without the reference, except those that only they recall.
    Tombstones record that they existed. Their branches are removed too, and with a branch those
    that start from it. Messages that others show of them then belong to those.

    Args:
        is_forgotten: No import brings them back, also those that were removed before. No tombstone
            contains their names or the name of an artifact. That includes earlier tombstones,
            because the session of a deleted artifact is not known any more.
    """
    scope_no = owner.find(tx)
    if scope_no is None or not names:
        return
    named = {(str(name), branch_of(name)) for name in names}
    going: dict[int, str] = {}
    for row, name, branch, parent in sessions.families(tx, scope_no, [*map(str, names)]):
        if parent in going or (name, branch) in named:
            going[row] = name
    if going:
        _remove_rows(tx, owner, going, is_forgotten=is_forgotten)
    if is_forgotten:
        _hide(tx, scope_no, names)


def _remove_rows(tx: Tx, owner: ScopeRef, going: dict[int, str], *, is_forgotten: bool) -> None:
    """Remove sessions and branches, given with the names of their sessions."""
    whole = {name: row for row, name in going.items() if not is_branch(row)}
    for row, name in going.items():
        if name not in whole:
            branches.leave_to_others(tx, row, going)
    for low, high in sessions.spans_of(tx, going):
        if is_forgotten:
            messages.keep_away(tx, low, high)
        _leave_rows(tx, low, high)
    session_nos = {session_no_of(row) for row in whole.values()}
    artifacts.remove_sessions(tx, scope_of(min(going)), session_nos)
    state.clear_sessions(tx, owner.app, owner.user, [*whole])
    sessions.delete(tx, going)


def _hide(tx: Tx, scope_no: int, names: Sequence[str]) -> None:
    """Keep imports from restoring sessions and branches, and remove their names."""
    whole = [name for name in names if not branch_of(name)]
    dependents.keep_away(tx, scope_no, "session", [(name,) for name in whole])
    for name in names:
        branch = branch_of(name)
        ref = f"{name}{BRANCH_MARK}{branch}" if branch else name
        tombstones.hide_ref(tx, scope_no, "session", ref, dependents.digest_of(ref))
    if whole:
        tombstones.hide_kind(tx, scope_no, "artifact")


def _leave_rows(tx: Tx, low: int, high: int) -> None:
    """Remove the rows that depend on an id range of rows, which are deleted then."""
    messages.remove_all(tx, low, high)
    entries.leave_sessions(tx, low, high)
    jobs.drop(tx, "session", low, high)
    tx.words.drop("session", low, high)


def drop_row(tx: Tx, branch: int) -> None:
    """Remove an empty branch from which no branch starts, without a tombstone."""
    _leave_rows(tx, branch, branch | MAX_SEQ)
    sessions.drop(tx, branch)


def replace_branch(tx: Tx, branch: int, parent: int, leaves_at: int) -> int:
    """
    Attach a branch to a row that is newer than itself: it gets a newer row; return its id.

    The branch keeps its name, its uid, its messages, and references to them. The new row is newer
    than the branches that start from it, so these are replaced too.
    """
    place = sessions.place_of(tx, branch)
    sessions.rename_branch(tx, branch, f"{place['branch']}{BRANCH_MARK}")
    columns = {name: place.pop(name) for name in ("metadata", "created_ms", "updated_ms")}
    place |= {"parent_id": parent, "leaves_at": leaves_at}
    new = sessions.add_branch(tx, scope_of(branch), place, **columns)
    sessions.raise_seq(tx, new, sessions.last_seq(tx, branch), columns["updated_ms"])
    messages.move(tx, branch, new, [(1, MAX_SEQ)])
    for child in branches_of(tx, new):
        if child.parent_id == branch:
            replace_branch(tx, child.id, new, child.leaves_at)
    drop_row(tx, branch)
    return new


def derive(tx: Tx) -> None:
    """Rebuild the bigrams of titles."""
    checks.derive(tx, "session")
