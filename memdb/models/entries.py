"""Long-term entries as memdb hands them out; `memdb.models.messages` has the other records."""

from __future__ import annotations

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


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
