"""
Value classes of summaries: sources, summaries and pages.

Apart from `memdb.models.messages`, because a program that only reads and writes
messages never loads them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.models.record import Record

if TYPE_CHECKING:
    from memdb.models.messages import Message

# From worst to best: 'fallback' stands in for a model that failed, 'extractive'
# is made without a model, 'model' by one.
QUALITIES = ("fallback", "extractive", "model")

# Marks a range of messages that a text leaves out.
OMITTED = "[Messages {first}-{last} are not shown here.]"


class SourceItem(Record):
    """
    One source of a summary: a message, or a summary one level down.

    Attributes:
        who: The author, or else the role; "summary" for a summary.
        role: Role of a message; None for a summary.
        text: Text of a message with its tool calls and results, or of a summary.
        created_ms: Time of a message, UTC milliseconds; None for a summary.
        trust: As in `Hit`.
    """

    first_seq: int
    last_seq: int
    who: str
    role: str | None
    text: str
    created_ms: int | None = None
    trust: str = "untrusted"


class SummaryText(Record):
    """
    The answer of a `Summarizer`.

    Attributes:
        hint: Topics that the sources tell and the summary leaves out; None means unknown.
    """

    text: str
    hint: str | None = None


class Summary(Record):
    """
    Summary of a span of messages of one session.

    Attributes:
        id: A number in its scope, from 1.
        depth: 0 is made from messages, n from summaries of depth n - 1.
        first_seq: With *last_seq* the span, both inclusive.
        hint: What expanding it would show; None means unknown.
        quality: One of `QUALITIES`.
        summarizer: Name of what made it.
        tokens: Tokens of the text, by the counter called *counter*.
        condensed_into: Id of the summary one level up that covers it; None
            means that it is part of the frontier.
        uid: Unique in its session; the same in every copy of the file.
        branch: The branch that it belongs to; None means the session itself.
        trust: "untrusted", or "flagged" if its text or something that it covers reads like
            an order to a model.
    """

    id: int
    session: str
    depth: int
    first_seq: int
    last_seq: int
    text: str
    hint: str | None
    quality: str
    summarizer: str
    tokens: int
    counter: str
    condensed_into: int | None
    created_ms: int
    uid: str
    branch: str | None = None
    trust: str = "untrusted"

    _numbered = ("id", "condensed_into")

    @property
    def message_count(self) -> int:
        """The number of seqs in its span."""
        return self.last_seq - self.first_seq + 1


class Expansion(Record):
    """
    One page of what a summary was made from: summaries one level down, or messages.

    Attributes:
        next_seq: `after_seq` for the next page; None means that this is the last.
    """

    summary: Summary | None
    summaries: tuple[Summary, ...]
    messages: tuple[Message, ...]
    next_seq: int | None

    _numbered = ("summary", "summaries")


class Archived(Record):
    """Result of archiving: messages moved, segments, and their bytes before and after."""

    messages: int
    segments: int
    bytes_before: int
    bytes_after: int


class ArchivedSpan(Record):
    """
    A span of messages in the archive, compressed to *size_bytes*.

    Seqs in it may be gaps; from the last span's *last_seq* on nothing is archived.
    """

    first_seq: int
    last_seq: int
    message_count: int
    size_bytes: int
    created_ms: int


class Compacted(Record):
    """
    Result of compacting.

    Attributes:
        summarized: Summaries made.
        pruned: Summary texts dropped because they can be made again.
        archived: Messages moved into segments.
        remaining: Summaries that the session has now.
    """

    summarized: int
    pruned: int
    archived: int
    remaining: int
