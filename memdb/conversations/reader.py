"""
Conversations: reading messages back in order, and the sessions of a scope.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import runs_of
from memdb.engine.paging import pages_of
from memdb.errors import NotFound
from memdb.models.ids import MAX_SEQ, MAX_SESSION_NO
from memdb.records.scopes import find_session
from memdb.tables import messages, sessions
from memdb.tables.sessions import SessionPage
from memdb.text.validate import choice_value, int_value, name_value, row_after, text_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Engine, Tx
    from memdb.models.ids import BranchName
    from memdb.models.messages import BranchInfo, Message, SessionInfo
    from memdb.models.types import SessionOrder
    from memdb.records.scopes import ScopeRef

PAGE = 500
LAST_SAID = 50
OPENING_CHARS = 120
SESSION_ORDERS = ("name", "updated", "created")


class Conversations:
    """Reads the messages of a file; another service adds them."""

    def __init__(self, db: Engine) -> None:
        """Read from *db*."""
        self._db = db

    def messages(
        self, owner: ScopeRef, session: str, after_seq: int = 0, limit: int | None = None
    ) -> Iterator[Message]:
        """
        Yield the messages after *after_seq*, oldest first, *limit* at most.

        The call reads pages of 500, so messages added meanwhile may be included; those of a
        transaction that was rolled back meanwhile are not.
        """
        int_value(after_seq, "after", 0, MAX_SEQ)
        left = MAX_SEQ if limit is None else int_value(limit, "limit", 0, MAX_SEQ)

        def read(tx: Tx, after: int, count: int) -> list[Message]:
            target = find_session(tx, owner, session)
            if target is None:
                return []
            return messages.list_after(tx, target, session, after, count)

        return pages_of(self._db, read, _seq_of, after_seq, limit=left, size=PAGE)

    def last(
        self, owner: ScopeRef, session: str, count: int, before_seq: int | None = None
    ) -> list[Message]:
        """Return the newest *count* messages, oldest first; [] if there are none."""
        int_value(count, "n", 0, MAX_SEQ)
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                return []
            return messages.last(tx, target, session, count, before_seq)

    def last_said(self, owner: ScopeRef, session: str) -> list[str]:
        """Return the user's last texts, oldest first, from the newest 50 messages."""
        newest = self.last(owner, session, LAST_SAID)
        return [one.text for one in newest if one.role == "user" and one.text.strip()]

    def get(self, owner: ScopeRef, session: str, seq: int) -> Message:
        """Return message *seq*; NotFound if the session has none."""
        int_value(seq, "seq", 1, MAX_SEQ)
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            found = None if target is None else messages.find(tx, target, session, seq)
        if found is None:
            raise NotFound("message", f"{session}#{seq}")
        return found

    def find_external(self, owner: ScopeRef, session: str, external_id: str) -> Message | None:
        """Return the message with the host's id *external_id*, None if there is none."""
        name_value(external_id, "external_id")
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                return None
            return messages.find_external(tx, target, session, external_id)

    def last_seq(self, owner: ScopeRef, session: str) -> int:
        """Return the highest seq ever used in the session, 0 before the first."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            return 0 if target is None else sessions.last_seq(tx, target)

    def branches(self, owner: ScopeRef, session: str) -> list[BranchInfo]:
        """Return every branch of a session, oldest first; [] if there is none."""
        name = str(name_value(session, "session"))
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            rows = [] if scope_no is None else sessions.list_branches(tx, scope_no, name)
            found = [
                info.replace(message_count=_count(tx, row, info.message_count))
                for row, info in rows
            ]
        return sorted(found, key=lambda one: (one.created_ms, one.name))  # on each device the same

    def parent(self, owner: ScopeRef, session: BranchName) -> str | None:
        """Return the name of the branch from which a branch starts, None for the session itself."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                raise NotFound("branch", session.branch, f"session {str(session)!r}")
            return sessions.parent_name(tx, target) or None

    def sessions(
        self,
        owner: ScopeRef,
        prefix: str = "",
        *,
        after: SessionInfo | dict[str, Any] | None = None,
        limit: int | None = None,
        order: SessionOrder = "name",
    ) -> list[SessionInfo]:
        """Return the sessions of the scope, as `Scope.sessions` describes it."""
        text_value(prefix, "prefix")
        most = MAX_SESSION_NO if limit is None else limit
        choice_value(order, "order", SESSION_ORDERS)
        if order == "name":
            place = row_after(after, {"name": str})
            begin = None if place is None else (0, place[0])
        else:
            begin = row_after(after, {f"{order}_ms": int, "name": str})
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            found = sessions.list_page(tx, scope_no, SessionPage(prefix, order, begin, most))
            openings = messages.openings(tx, [row_id for row_id, _ in found])
        return [
            info.replace(opening=_first_line(openings.get(row_id, ""))) for row_id, info in found
        ]


def _seq_of(message: Message) -> int:
    return message.seq


def _first_line(text: str) -> str | None:
    """Return the first line of a text that is not blank, shortened; None if there is none."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return f"{line[: OPENING_CHARS - 1]}…" if len(line) > OPENING_CHARS else line or None


def _count(tx: Tx, branch: int, own: int) -> int:
    """Return the number of messages on a branch's path; *own* of them are its own."""
    shared = [run for run in runs_of(tx, branch) if run.session != branch]
    return own + sum(messages.count(tx, *run.span) for run in shared)
