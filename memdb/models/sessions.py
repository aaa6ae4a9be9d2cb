"""
What memdb hands to frameworks that bring sessions and state of their own.

Frozen records like those in `memdb.models.messages`, apart from them because a program
that keeps its conversations in memdb alone never needs them.
"""

from __future__ import annotations

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.models.messages import Message


class SessionHead(Record):
    """
    What a session's own row says.

    Attributes:
        last_seq: The highest seq given out, 0 before the first message.
        newest_seq: Of the newest message that is there, 0 for none; it falls
            where messages are taken back, which `last_seq` never does.
        metadata: As given to `session.host.create`; None for a session that was
            made by its first message, artifact or state.
        uid: Differs from that of a session of the same name that was deleted.
    """

    name: str
    title: str | None
    last_seq: int
    newest_seq: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    uid: str


class SessionSnapshot(Record):
    """
    A session at one moment, with every state that it sees.

    Attributes:
        messages: Those asked for, oldest first.
        state: Of the session itself.
        user_state: Of its scope.
        app_state: Of its app.
    """

    head: SessionHead
    messages: tuple[Message, ...]
    state: dict[str, Any]
    user_state: dict[str, Any]
    app_state: dict[str, Any]
