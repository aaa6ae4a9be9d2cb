"""
Long-term entries: the values that a host gives, that memdb returns, and that extraction finds.

The decay of an entry's weight with its age is here too. Decay is computed when it is needed and
never stored. A stored value would be outdated until the next computation, and could not answer for
a time in the past.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from memdb.models.record import Record
from memdb.text.validate import DAY_MS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import EllipsisType

    from memdb.models.messages import Message
    from memdb.models.types import Action, LinkKind, Trust, When

UNKNOWN_HALF_LIFE_MS = 90 * DAY_MS

NEUTRAL_IMPORTANCE = 5
"""Importance that changes no score: that of an entry for which nobody gave one."""


class NewEntry(Record):
    """
    A fact to remember, as a host gives it; `Scope.remember` describes the fields.

    None means "not given": a known entry keeps its value, and a new one gets the default.

    Attributes:
        uid: Identifier of a new entry; None makes one.
        updated_ms: Time when a new entry was changed last; None means when it was made.
    """

    text: str
    category: str | None = None
    key: str | None = None
    keywords: Sequence[str] = ()
    importance: int | None = None
    pinned: bool | None = None
    expires: When | None = None
    valid_from: When | None = None
    session: str | None = None
    seq: int | tuple[int, int] | None = None
    session_only: bool | None = None
    shared: bool | None = None
    writer: str | None = None
    trust: Trust | None = None
    created_ms: int | None = None
    metadata: Mapping[str, Any] | None = None
    uid: str | None = None
    updated_ms: int | None = None


class EntryChanges(Record):
    """
    New values for the fields of an entry; `...` keeps a field.

    `Entries.update` describes the fields.
    """

    text: str | EllipsisType = ...
    category: str | EllipsisType = ...
    keywords: Sequence[str] | EllipsisType = ...
    importance: int | EllipsisType = ...
    expires: When | EllipsisType | None = ...
    metadata: Mapping[str, Any] | EllipsisType | None = ...
    key: str | EllipsisType | None = ...
    pinned: bool | EllipsisType = ...
    trust: Trust | EllipsisType = ...
    active: bool | EllipsisType = ...


class Entry(Record):
    """
    One long-term record.

    Attributes:
        id: Its number in its scope, from 1.
        version: Grows by one with each change; the history has the earlier versions.
        pinned: Whether it belongs in every prompt; it is never evicted.
        trust: "trusted", "untrusted" (not from the user) or "flagged" (it looks
            like an instruction to a model).
        superseded_by: Id of the entry that replaced it; None means that none did.
        session: Name of the session it comes from; None means no session.
        branch: The branch of that session that it comes from; None means the session itself.
        first_seq: With *last_seq* the span of messages it comes from.
        session_only: Whether only that session recalls it; for a branch, only the branches that
            share the message.
        writer: The program that stored it: the name given to `open`, or for example
            "extracted:sentences-1". None: nobody said.
        updated_ms: Time when it was last stated or changed.
        stored_ms: Time when the file got this version.
        outdated_by: Id of the newest entry that updates, corrects or retracts it, by a link
            of at least 0.5; None if there is none, or where no links were read.
    """

    id: int
    category: str
    text: str
    key: str | None
    keywords: tuple[str, ...]
    importance: int
    pinned: bool
    trust: Trust
    version: int
    active: bool
    superseded_by: int | None
    session: str | None
    first_seq: int | None
    last_seq: int | None
    session_only: bool
    writer: str | None
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
    branch: str | None = None
    outdated_by: int | None = None

    _numbered = ("id", "superseded_by", "outdated_by")

    def holds(self, at_ms: int) -> bool:
        """Return whether it is active, unexpired and valid at a time."""
        return (
            self.active
            and (self.expires_ms is None or self.expires_ms > at_ms)
            and (self.valid_from_ms is None or self.valid_from_ms <= at_ms)
            and (self.valid_to_ms is None or self.valid_to_ms > at_ms)
        )

    def status(self, at_ms: int) -> str:
        """
        Return "active" if `holds` is true at a time, else the reason.

        "superseded", "expired" (also if it stopped being true), "inactive"
        (switched off or evicted) or "future" (it is not true yet).
        """
        if self.holds(at_ms):
            return "active"
        if self.superseded_by is not None:
            return "superseded"
        ends = [end for end in (self.expires_ms, self.valid_to_ms) if end is not None]
        if ends and min(ends) <= at_ms:
            return "expired"
        return "future" if self.active else "inactive"


class EntryVersion(Record):
    """
    An earlier version of an entry, which was current from *stored_ms* until *replaced_ms*.

    Attributes:
        reason: Why it changed: "update", "merge", "repeat" (the same was said again),
            "supersede", "expire", "evict", "restore", "pin" or "trust".
    """

    version: int
    category: str
    key: str | None
    text: str
    keywords: tuple[str, ...]
    importance: int
    pinned: bool
    trust: Trust
    active: bool
    session: str | None
    first_seq: int | None
    last_seq: int | None
    session_only: bool
    writer: str | None
    valid_from_ms: int | None
    valid_to_ms: int | None
    expires_ms: int | None
    metadata: dict[str, Any] | None
    updated_ms: int
    stored_ms: int
    reason: str
    replaced_ms: int
    branch: str | None = None


# What a newer entry does to an older one.
LINK_KINDS = ("repeats", "updates", "corrects", "retracts")


class Link(Record):
    """
    Relation of the entry *newer_id* to the entry *older_id*; both stay unchanged.

    Attributes:
        kind: "repeats": says the same. "updates": says it of a later time. "corrects": names
            the older value as wrong. "retracts": takes it back without a new value.
        probability: Probability that the link is right, 0 to 1; 1 if it is confirmed.
        reason: The features that decided, with their weights; "" if it is confirmed.
        model: Short hash of the model that guessed; "" if it is confirmed.
        made_ms: Time when the link was made.
        decided: "guessed", "confirmed" (the older entry was superseded by the newer one) or
            "rejected" (by `Entries.unlink`).
    """

    newer_id: int
    older_id: int
    kind: LinkKind
    probability: float
    reason: str
    model: str
    made_ms: int
    decided: Literal["guessed", "confirmed", "rejected"]

    _numbered = ("newer_id", "older_id")


class Remembered(Record):
    """
    Result of `remember`.

    Attributes:
        action: One of "added", "repeated", "updated", "retracted" and "refused". "repeated":
            *entry* says the same, and took over new details. "updated": *entry* replaced *other*,
            or took over the new text. "retracted": *entry*, which is inactive, retracts *other*.
        entry: The entry that states the fact now. A refused fact has an entry with id 0 and no
            text, which is not stored.
        other: The entry that was repeated, replaced or retracted, in its earlier state; None if
            there is none.
        reason: The reason, in one line that quotes neither text.
        links: The guessed effects of *entry* on older entries, and of newer ones on it.
    """

    action: Action
    entry: Entry
    other: Entry | None = None
    reason: str = ""
    links: tuple[Link, ...] = ()

    _numbered = ("entry", "other", "links")


def decay(age_ms: int, half_life_ms: int | None) -> float:
    """
    Return the weight for an age: 1.0 when new, 0.5 after a half-life.

    0.5 ** (age / half_life), which equals exp(-ln 2 / half_life * age). A
    negative age counts as new; a half-life of None means no decay.

    >>> decay(0, DAY_MS), decay(DAY_MS, DAY_MS), decay(2 * DAY_MS, DAY_MS), decay(DAY_MS, None)
    (1.0, 0.5, 0.25, 1.0)
    """
    if half_life_ms is None or age_ms <= 0:
        return 1.0
    return float(0.5 ** (age_ms / half_life_ms))


def decay_of(
    category: str, updated_ms: int, now_ms: int, half_lives_ms: Mapping[str, int | None]
) -> float:
    """Return the decay of an entry of *category*; an unlisted category has 90 days."""
    return decay(now_ms - updated_ms, half_lives_ms.get(category, UNKNOWN_HALF_LIFE_MS))


# Why two facts disagree.
CONFLICTS = ("factual_correction", "preference_change", "context_dependent")


class Candidate(Record):
    """
    A fact found in a conversation, before it is compared with stored entries.

    Attributes:
        text: One fact, in a sentence that can stand alone.
        key: Name of the fact if only one value can be true at a time; else None.
        importance: 1 to 10; None means the default.
        valid_from_ms: Time since which it is true, or when it happened; None means unknown.
        first_seq: With *last_seq* the messages that state it; None means unknown.
    """

    category: str
    text: str
    key: str | None = None
    keywords: tuple[str, ...] = ()
    importance: int | None = None
    valid_from_ms: int | None = None
    expires_ms: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None


class Outcome(Record):
    """
    Result of extraction for one candidate; in a dry run the expected result.

    Attributes:
        action: As in `Remembered`, or "dropped" if it was not stored at all.
        reason: The reason, in a short sentence.
        entry: The entry that states it now; None if it was dropped.
        conflict: One of `CONFLICTS`; None if the model named none.
        target: Id of the entry that it changed, replaced or repeats.
    """

    candidate: Candidate
    action: str
    reason: str
    entry: Entry | None = None
    conflict: str | None = None
    target: int | None = None

    _numbered = ("entry", "target")


class Extracted(Record):
    """
    Result of extracting from a session.

    Attributes:
        messages: Number of messages that were read.
        batches: Number of batches in which they were read.
        outcomes: One for each candidate, in order.
        calls: Number of requests to a model.
        next_seq: First message that was not read yet (watermark).
    """

    messages: int
    batches: int
    outcomes: tuple[Outcome, ...]
    calls: int
    next_seq: int

    _numbered = ("outcomes",)


class ExtractHooks(Record):
    """
    A host's own steps of extraction; None means memdb's.

    Attributes:
        render: Turns messages into text for a model.
        edit: Changes, adds and drops candidates before they are compared; gets
            them with the messages that they come from.
        find_prompt: Instruction for a model that looks for facts; see `Settings.extract_prompt`.
    """

    render: Callable[[Sequence[Message]], str] | None = None
    edit: Callable[[list[Candidate], Sequence[Message]], list[Candidate]] | None = None
    find_prompt: str | None = None
