"""
Forking: a conversation that goes on in two ways.
"""

from __future__ import annotations

from memdb.conversations.reader import find_session
from memdb.errors import NotFound
from memdb.models.ids import MAX_SEQ
from memdb.models.messages import NewMessage
from memdb.tables import messages
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.conversations.writer import Writer
    from memdb.engine.sqlite.database import Database
    from memdb.models.messages import Message
    from memdb.records.scopes import Owner


def fork(
    db: Database,
    writer: Writer,
    owner: Owner,
    session: str,
    name: str,
    before_seq: int | None,
) -> None:
    """
    Copy the messages of *session* before *before_seq* to a new session *name*.

    Raises:
        AlreadyExists: there is a session of that name.
        NotFound: *session* is not there.

    Transaction: one read, then one write that makes the new session whole.
    """
    name_value(name, "name")
    before = MAX_SEQ + 1
    if before_seq is not None:
        before = int_value(before_seq, "before_seq", 1, MAX_SEQ + 1)
    with db.read() as tx:
        target = find_session(tx, owner, session)
        if target is None:
            raise NotFound("session", session)
        said = messages.last(tx, target, session, MAX_SEQ, before)
    writer.begin(owner, name, [_copy(message) for message in said])


def _copy(message: Message) -> NewMessage:
    """Return what a message said, to be stored once more under a uid of its own."""
    return NewMessage(
        message.role,
        message.text,
        message.author,
        message.body,
        message.external_id,
        message.created_ms,
        message.metadata,
    )
