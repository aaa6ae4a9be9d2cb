"""
What memdb hands out: frozen records, no behaviour beyond reading them.

Times are UTC milliseconds, sequence numbers and versions count from 1, and
None always means "absent", never "unknown default".
"""

from __future__ import annotations

from memdb.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memdb.summary_models import Piece

ROLES = ("system", "user", "assistant", "tool")


class NewMessage(Record):
    """
    A message before it is stored.

    Attributes:
        role: One of `ROLES`.
        text: What is searched and counted; "" derives it from *parts*.
        author: Who spoke; None when only the role is known.
        parts: The whole original as JSON objects, for example text, tool_call
            and tool_result parts; None when the text is all there is.
        external_id: The host's id, unique in its session. Adding it again
            returns the stored message and writes nothing.
        created_ms: When it was said; None: now.
        metadata: A JSON object that is kept and never searched.
    """

    role: str
    text: str = ""
    author: str | None = None
    parts: list[Any] | None = None
    external_id: str | None = None
    created_ms: int | None = None
    metadata: Mapping[str, Any] | None = None
    uid: str | None = None


class Message(Record):
    """
    One stored message.

    Attributes:
        seq: Its place in the session, from 1; never changes.
        body: The original parts, or None when the text is all there is.
        tokens: Tokens of text and parts, by the counter called *counter*.
        id: Packed row id, see `memdb.ids`.
        uid: UUIDv7, the same in every copy of the file.
    """

    seq: int
    role: str
    author: str | None
    text: str
    body: list[Any] | None
    tokens: int
    counter: str
    external_id: str | None
    created_ms: int
    metadata: dict[str, Any] | None
    session: str
    id: int
    uid: str


class ContextWindow(Record):
    """
    The messages handed to a model, oldest first.

    Attributes:
        tokens: What they cost by the file's counter, overhead included.
        budget_tokens: The limit that *tokens* keeps to (the strategy
            "token_window" may go over it); None: no limit given.
        pieces: What each token was spent on, in the order of the messages, and
            why; () for a plain window.

    Messages that were never stored (summaries, excerpts) have seq 0.
    """

    messages: tuple[Message, ...]
    tokens: int
    budget_tokens: int | None
    pieces: tuple[Piece, ...] = ()

    def to(self, shape: str) -> dict[str, Any]:
        """
        Return the messages as the keyword arguments of a model's client, JSON-ready.

        Args:
            shape: "openai", "anthropic" or "gemini"; see `memdb.shapes.to_shape`.

        Raises:
            InvalidInput: there is no such shape.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     chat = db.scope("ann").session("tea")
        ...     said = chat.append("user", "Green, please.")
        ...     chat.window().to("openai")
        {'messages': [{'role': 'user', 'content': 'Green, please.'}]}
        """
        from memdb.shapes import to_shape  # only for sending

        return to_shape(self.messages, shape)


class SessionInfo(Record):
    """What a listing says about a session."""

    name: str
    title: str | None
    last_seq: int
    message_count: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    uid: str


class Entry(Record):
    """
    One long-term record.

    Attributes:
        id: Packed row id; it names the entry in this file.
        version: Grows by one with each change; what it said before is in its
            history.
        pinned: Whether it belongs into every prompt; it is never evicted.
        trust: "trusted", "untrusted" (said by others than the user) or
            "flagged" (it looks like an instruction to a model).
        superseded_by: Id of the entry that took its place, None if it stands.
        session: Name of the session it was told in, None if nobody told it.
        first_seq: With *last_seq* the span of messages it comes from.
        session_only: Whether only that session recalls it.
        source: What put it here, for example "extracted"; None: the host.
        updated_ms: When it was last said or changed.
        stored_ms: When the file learnt this version.
    """

    id: int
    category: str
    text: str
    key: str | None
    keywords: tuple[str, ...]
    importance: int
    pinned: bool
    trust: str
    version: int
    active: bool
    superseded_by: int | None
    session: str | None
    first_seq: int | None
    last_seq: int | None
    session_only: bool
    source: str | None
    use_count: int
    last_used_ms: int | None
    valid_from_ms: int | None
    valid_to_ms: int | None
    expires_ms: int | None
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    stored_ms: int
    uid: str

    def holds(self, at_ms: int) -> bool:
        """Say whether it is active, unexpired and true at a time."""
        return (
            self.active
            and (self.expires_ms is None or self.expires_ms > at_ms)
            and (self.valid_from_ms is None or self.valid_from_ms <= at_ms)
            and (self.valid_to_ms is None or self.valid_to_ms > at_ms)
        )


class EntryVersion(Record):
    """
    What an entry was from *stored_ms* until *replaced_ms*, and why that changed.

    Attributes:
        reason: "update", "merge", "supersede", "expire", "evict", "restore",
            "pin" or "trust".
    """

    version: int
    category: str
    key: str | None
    text: str
    keywords: tuple[str, ...]
    importance: int
    pinned: bool
    trust: str
    active: bool
    session: str | None
    first_seq: int | None
    last_seq: int | None
    session_only: bool
    source: str | None
    valid_from_ms: int | None
    valid_to_ms: int | None
    expires_ms: int | None
    metadata: dict[str, Any] | None
    updated_ms: int
    stored_ms: int
    reason: str
    replaced_ms: int


class Remembered(Record):
    """
    What `remember` did with a statement.

    Attributes:
        action: "added", "merged" (into *entry*), "superseded" (*entry* took the
            place of *other*), "ignored" (*entry* says it already) or "refused".
        entry: What says it now. Of a refused statement an entry with id 0, which
            was never stored and holds no text.
        other: What the statement resembled, as it was before; None: nothing.
        reason: Why, in one line that quotes neither.
        similarity: Their cosine, None if it did not matter.
    """

    action: str
    entry: Entry
    other: Entry | None = None
    reason: str = ""
    similarity: float | None = None


class Decision(Record):
    """
    What became of a statement that resembled the entry *other_id*, and why.

    Attributes:
        action: As in `Remembered`.
        similarity: Their cosine, None if it did not matter.
        decided_by: "key", "hash", "similarity", or the name of an arbiter.
    """

    action: str
    other_id: int
    similarity: float | None
    decided_by: str
    reason: str
    decided_ms: int


class ArtifactVersion(Record):
    """
    One immutable version of a named artifact, without its bytes.

    Attributes:
        session: The session it belongs to; None for a `user:` name, which all
            sessions of the scope share.
        message_session: With *message_seq* the message that made it; None if
            that was not said, or its session is gone.
        sha256: Of the bytes, in hexadecimal.
    """

    name: str
    version: int
    session: str | None
    size_bytes: int
    mime: str
    metadata: dict[str, Any] | None
    message_session: str | None
    message_seq: int | None
    sha256: str
    created_ms: int
    uid: str


class Artifact(Record):
    """A version together with its bytes."""

    info: ArtifactVersion
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as UTF-8 text; a UnicodeDecodeError if they are not."""
        return self.data.decode()


class Source(Record):
    """
    Where a hit comes from; fields that do not apply are None.

    A message has session, seq, external_id, author and created_ms; an entry
    entry_id and category, and the session and seq it was told in; an artifact
    name, version and its session.
    """

    session: str | None = None
    seq: int | None = None
    external_id: str | None = None
    author: str | None = None
    created_ms: int | None = None
    entry_id: int | None = None
    category: str | None = None
    artifact: str | None = None
    version: int | None = None

    def __str__(self) -> str:
        """Name the place in one short line, as the command line prints it."""
        if self.entry_id is not None:
            return f"entry {self.entry_id} ({self.category})"
        if self.artifact is not None:
            return f"{self.artifact}@{self.version}"
        return f"{self.session}#{self.seq}"


class Hit(Record):
    """
    One answer of a search.

    Attributes:
        kind: "message", "entry" or "artifact".
        text: The whole text of a message or entry; of an artifact the place
            that matched.
        score: Higher is better; only comparable within one answer.
        rank: 1 is best.
        explanation: Each term of the score by name, None unless asked for.
    """

    kind: str
    text: str
    score: float
    rank: int
    source: Source
    explanation: dict[str, float] | None = None


class Finding(Record):
    """One inconsistency that `check` reports: *code* names the rule, *text* the place."""

    code: str
    text: str
    rebuildable: bool


class SpaceInfo(Record):
    """An embedding space in the file and how many vectors it holds."""

    model: str
    dim: int
    vectors: int


class FileInfo(Record):
    """
    What is in a file.

    Attributes:
        counts: Rows per store, by name.
        bytes_per_store: Bytes on disk per store with its indexes, by name.
        oldest_ms: created_ms of the oldest message, None without messages.
        pending_jobs: Jobs that are due and not done.
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
    meta: dict[str, str]
