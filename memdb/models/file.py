"""
Records about the file and about sessions of frameworks.

Few programs load them: apart from `memdb.models.messages`, which all do.
"""

from __future__ import annotations

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.models.messages import Message, SpaceInfo


class Upkeep(Record):
    """
    Work about the whole file that comes round again.

    Attributes:
        kind: "expire", "retain", "sessions", "optimize" or "checkpoint".
        done_ms: When it was last done, None if never.
        due_ms: From when on it is due again.
        lease_ms: Until when a process is at it; past if none is.
        attempts: How often it failed since.
        error: What stopped it last; None: nothing did.
    """

    kind: str
    done_ms: int | None
    due_ms: int
    lease_ms: int
    attempts: int
    error: str | None


class FileInfo(Record):
    """
    What is in a file.

    Attributes:
        counts: Rows per store, by name.
        bytes_per_store: Bytes on disk per store with its indexes, by name.
        oldest_ms: created_ms of the oldest message, None without messages.
        pending_jobs: Jobs that are due and not done.
        pending: The same by kind: "embed", "summarize".
        summaries: How many there are, by quality.
        archived_messages: Messages that are in compressed segments.
        upkeep: What was done to the whole file in the background, by kind.
    """

    path: str
    format: int
    size_bytes: int
    wal_bytes: int
    counts: dict[str, int]
    bytes_per_store: dict[str, int]
    spaces: tuple[SpaceInfo, ...]
    oldest_ms: int | None
    newest_ms: int | None
    pending_jobs: int
    pending: dict[str, int]
    summaries: dict[str, int]
    archived_messages: int
    meta: dict[str, str]
    upkeep: tuple[Upkeep, ...] = ()


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
