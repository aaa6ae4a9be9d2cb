"""
Value classes of summaries: sources, summaries, trees and pages.

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

# Mark a range of messages that a text leaves out.
OMITTED = "[Messages {first}-{last} are not shown here.]"
UNCONDENSED = "[Messages {first}-{last} have no summary yet.]"


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


class SummaryTree(Record):
    """
    All summaries of a session, and the span that has none yet.

    Attributes:
        summaries: By depth, deepest first, then by place.
        first_raw_seq: The first seq after the summarised ones; all from there
            to *last_seq* are messages only.
        head_seq: Messages 1 to this one are the system text at the start, which
            is never summarised; 0 if there is none.
    """

    summaries: tuple[Summary, ...]
    head_seq: int
    first_raw_seq: int
    last_seq: int

    _numbered = ("summaries",)

    @property
    def frontier(self) -> tuple[Summary, ...]:
        """The summaries that no other covers, oldest first: together they cover each seq once."""
        roots = [summary for summary in self.summaries if summary.condensed_into is None]
        return tuple(sorted(roots, key=lambda summary: summary.first_seq))

    def text(self, budget_tokens: int) -> str:
        """
        Return the summaries as one text within a budget, oldest first, a line break between two.

        It covers all of the frontier if that fits, else the end of it, and the first line names the
        messages that are not covered. The last line names those without a summary, which `compact`
        makes. If the budget allows more, the summaries below replace one, the newest first.

        Args:
            budget_tokens: Most tokens, 0 or more, by the counter of the summaries. The text is ""
                where the lines that name messages do not fit: each character counts as a token.
        """
        chosen = [*self.frontier]
        mark = end = ""
        if self.first_raw_seq <= self.last_seq:
            end = UNCONDENSED.format(first=self.first_raw_seq, last=self.last_seq)
        left = budget_tokens - sum(one.tokens + 1 for one in chosen) - len(end)
        while left < len(mark) and chosen:
            gone = chosen.pop(0)
            left += gone.tokens + 1
            mark = OMITTED.format(first=self.head_seq + 1, last=gone.last_seq)
        left -= len(mark)
        if left < 0:
            return ""
        waiting = [*chosen]
        while waiting:
            summary = waiting.pop()
            below = sorted(
                (one for one in self.summaries if one.condensed_into == summary.id),
                key=lambda one: one.first_seq,
            )
            more = sum(one.tokens + 1 for one in below) - summary.tokens - 1
            if below and more <= left:
                left -= more
                place = chosen.index(summary)
                chosen[place : place + 1] = below
                waiting += below
        return "\n".join(filter(None, (mark, *(one.text for one in chosen), end)))


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
