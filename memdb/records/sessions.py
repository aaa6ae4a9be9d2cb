"""
Session records: a session with everything that hangs on it.

The one way in and out of the table `sessions`. What goes with a session is
listed in `memdb.records.dependents`. Every function joins the caller's
transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import branches_of, descendants
from memdb.errors import NotFound
from memdb.models.ids import (
    BRANCH_MARK,
    MAX_SEQ,
    branch_of,
    is_branch,
    scope_of,
    session_no_of,
    session_range,
)
from memdb.records import artifacts, branches, dependents, entries, messages
from memdb.records.scopes import find_session
from memdb.tables import checks, jobs, sessions, state
from memdb.text.derived import bigrams_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.engine.base import Tx
    from memdb.models.protocols import Ids
    from memdb.records.scopes import ScopeRef


def ensure(tx: Tx, owner: ScopeRef, name: str, ids: Ids) -> int:
    """
    Return the id of a session, making the session and its scope if they are new.

    Raises:
        NotFound: *name* names a branch that is not there: `records.branches` makes them.
    """
    scope_no = owner.ensure(tx)
    branch = branch_of(name)
    facts, place = tx.facts(), ("session", scope_no, str(name), branch)
    session = facts.get(place)
    if session is None:
        session = sessions.find(tx, scope_no, name, branch)
        if session is None:
            if branch:
                raise NotFound("branch", branch, f"session {name!s}")
            session = sessions.add(tx, scope_no, name, ids(tx.now_ms))
        facts[place] = session
        tx.keep_facts()
    return session


def restore(tx: Tx, scope_no: int, name: str, uid: str, columns: Mapping[str, Any]) -> int:
    """Make a session as it was exported, and return its id; it comes back, if it was removed."""
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


def undescribe(tx: Tx, session: int) -> None:
    """Take its title and its metadata from a session or a branch."""
    tx.words.drop("session", session)
    sessions.rename(tx, session, None, None)
    sessions.describe(tx, session, None)


def queue_extraction(tx: Tx, session: int) -> None:
    """Queue a session to be looked at for facts, from its first message on, unless it is."""
    jobs.set_extracted(tx, session, 0)


def set_extracted(tx: Tx, session: int, last_seq: int) -> None:
    """
    Note that facts were looked for in a session up to *last_seq*; 0 means not yet.

    For copies: what was learnt from the messages is here, or was deleted.
    """
    if last_seq:
        jobs.set_extracted(tx, session, last_seq)


def forget(tx: Tx, owner: ScopeRef, name: str) -> bool:
    """
    Remove a session as `remove` does; False if it is absent.

    No tombstone says its name, nor that of an artifact, also of what was deleted before:
    which session an artifact belonged to is not known any more.
    """
    is_here = remove(tx, owner, name, is_forgotten=True)
    scope_no = owner.find(tx)
    if scope_no is not None:
        branch = branch_of(name)
        if not branch:
            dependents.keep_away(tx, scope_no, "session", [(name,)])
        ref = f"{name}{BRANCH_MARK}{branch}" if branch else name
        dependents.hide(tx, scope_no, "session", ref, dependents.digest_of(ref))
        if not branch:
            dependents.hide_artifacts(tx, scope_no)
    return is_here


def remove(tx: Tx, owner: ScopeRef, name: str, *, is_forgotten: bool = False) -> bool:
    """
    Remove a session with everything that hangs on it; False if it is absent.

    Entries told in it stay, without the link, but for those that only this
    session recalls. A tombstone says that the session was there. Its branches go too,
    and with a branch those that leave from it; what others show of them becomes theirs.
    """
    session = find_session(tx, owner, name)
    if session is None:
        return False
    going = [session, *descendants(tx, session)]
    if is_branch(session):
        for row in going:
            branches.leave_to_others(tx, row, going)
    for row in going if is_forgotten else ():
        messages.keep_away(tx, row, *session_range(row))
    for branch in reversed(going[1:]):
        _remove_row(tx, branch)
    if not is_branch(session):
        artifacts.remove_session(tx, owner.ensure(tx), session_no_of(session))
        state.clear(tx, owner.app, owner.user, name)
    return _remove_row(tx, session)


def _remove_row(tx: Tx, session: int) -> bool:
    """Remove a session or a branch that none leaves from, with its own messages."""
    _leave_row(tx, session)
    return sessions.delete(tx, session)


def _leave_row(tx: Tx, session: int) -> None:
    messages.remove_all(tx, session)
    entries.leave_session(tx, session)
    jobs.drop(tx, "session", session)
    tx.words.drop("session", session)


def drop_row(tx: Tx, branch: int) -> None:
    """Remove a branch that is empty and that none leaves from, without a tombstone."""
    _leave_row(tx, branch)
    sessions.drop(tx, branch)


def replace_branch(tx: Tx, branch: int, parent: int, leaves_at: int) -> int:
    """
    Attach a branch to a row that is newer than itself: it gets a newer row; return its id.

    It keeps its name, uid, messages and what refers to these. Those that leave it leave the new
    row, which is newer than all of them, only if they are replaced too: the caller does so.
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
    checks.set_bigrams(tx, "session")
