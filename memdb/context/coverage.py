"""
Coverage: the summaries of everything before the fresh tail, within a token budget.

The frontier of the summary DAG covers each seq once. A summary that reaches into
the tail is replaced by its sources. Messages without a leaf, or with a leaf that reaches into the
tail, are condensed on the spot. A summary that does not fit is shortened, oldest first. Every
omitted range is marked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.context.blocks import (
    BARE,
    SUMMARIES,
    Block,
    Line,
    block,
    frame_tokens,
    omitted_tokens,
    with_costs,
)
from memdb.context.shares import FAR, percent_of
from memdb.conversations.tool_calls import units
from memdb.models.ids import number_of
from memdb.models.messages import Piece
from memdb.models.record import Record
from memdb.models.summaries import OMITTED
from memdb.summaries.planning import covered_seq
from memdb.summaries.summarizer import EXTRACT_MOST_TOKENS
from memdb.tables import messages
from memdb.tables import summaries as summary_rows
from memdb.text.sanitize import clipped, quoted
from memdb.text.trust import FLAGGED, UNTRUSTED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Message
    from memdb.models.summaries import Summary
    from memdb.summaries.builder import Summaries
    from memdb.text.tokens import Counting

# Summaries of this depth and more are far, with a share of their own.
FAR_DEPTH = 2

# What naming its span adds to a part's tokens, about.
SPAN_TOKENS = 8

# How many parts are read: a line, shortened too, usually costs more than 20 tokens.
TOKENS_PER_PART = 20
LEAST_PARTS = 8

# Messages without a leaf that are condensed on the spot; older ones are left out.
MOST_LOOSE = 200

# Characters of a part that is shortened.
SHORT_CHARS = 90

# Mean tokens of the newest messages from which on an extract costs less than a message.
# Below, extracts show fewer words of the evidence than the messages they displace:
# .694 against .722 of the words with 120 tokens per message; with 600 tokens .432 against
# .361 (`bench/context.py`, contexts without a question).
EXTRACT_PAYS_FROM = EXTRACT_MOST_TOKENS


OMITTED_REASON = (
    "over the budget: `summaries.expand` reads these, `summaries.compact` condenses them"
)


class Part(Record):
    """A span and its summary; *summary_id* is None if the summary was made on the spot."""

    first_seq: int
    last_seq: int
    depth: int
    text: str
    tokens: int
    summary_id: int | None
    writer: str | None = None
    trust: str = UNTRUSTED


class Coverage:
    """Makes the block of summaries before a tail, in one transaction."""

    def __init__(
        self, tx: Tx, summaries: Summaries, counting: Counting, place: tuple[int, str]
    ) -> None:
        """Cover the messages of the session *place* (id and name)."""
        self._tx = tx
        self._summaries = summaries
        self._counting = counting
        self._session, self._name = place
        self.covered_seq = covered_seq(tx, *place)

    def pays(self, costs: Sequence[int]) -> bool:
        """
        Return whether summaries are worth their share of a budget.

        Summaries by a model are worth it; extracts are if they cost less than a message.

        Args:
            costs: Tokens of each of the newest messages.
        """
        if sum(costs) >= EXTRACT_PAYS_FROM * len(costs):
            return True
        # The newest leaves may be extracts that the model has still to replace.
        newest = summary_rows.frontier(self._tx, self._session, self.covered_seq, LEAST_PARTS)
        return any(summary.quality == "model" for summary, _ in newest)

    def before(self, first_seq: int, end_seq: int, limit: int) -> Block | None:
        """
        Return the summaries of *first_seq* to *end_seq* within *limit* tokens.

        None means that the range is empty. The block exceeds *limit* only if the sentence about the
        omitted range does.
        """
        if end_seq < first_seq:
            return None
        naming = omitted_tokens(first_seq, end_seq, self._counting)
        room = limit - frame_tokens(SUMMARIES, self._counting) - naming
        parts = self._parts(first_seq, end_seq, max(room // TOKENS_PER_PART, LEAST_PARTS))
        while True:
            lines = self._fill(parts, room)
            whole = self._block(lines, first_seq, end_seq)
            if whole.tokens <= limit or not lines:
                return whole
            room -= whole.tokens - limit  # lines together may cost more than one by one

    def _block(self, lines: list[Line], first_seq: int, end_seq: int) -> Block:
        """Return *lines*, newest first, and a mark for older messages, as a message."""
        oldest = lines[-1].piece.first_seq if lines else end_seq + 1
        assert oldest is not None
        if oldest > first_seq:
            lines = [*lines, *with_costs([_omitted(first_seq, oldest - 1)], self._counting)]
        frame = SUMMARIES if oldest <= end_seq else BARE
        return block(lines[::-1], frame, self._counting, self._name)

    def _parts(self, first_seq: int, end_seq: int, most: int) -> list[Part]:
        """
        Return the summaries of the span, newest first, without gaps between them.

        The summaries may begin after its start.
        """
        found = self._loose(max(self.covered_seq + 1, first_seq), end_seq)
        if self.covered_seq >= first_seq:
            end = min(end_seq, self.covered_seq)
            for summary, last in summary_rows.frontier(self._tx, self._session, end, most):
                found += self._opened(summary, last)
        last = end_seq
        for place, part in enumerate(found):
            # Too many messages have no leaf: the rest is left out. Messages that were
            # forgotten leave no gap.
            if part.last_seq != last and self._any(part.last_seq, last):
                return found[:place]
            last = part.first_seq - 1
        return found

    def _any(self, after_seq: int, last_seq: int) -> bool:
        """Return whether there is a message after *after_seq* up to *last_seq*."""
        found = messages.last(self._tx, self._session, self._name, 1, last_seq + 1)
        return bool(found) and found[0].seq > after_seq

    def _opened(self, summary: Summary, end_seq: int) -> list[Part]:
        """Return *summary*, or its sources up to *end_seq*, newest first."""
        if summary.last_seq <= end_seq:
            return [_part(self._summaries.with_text(self._tx, summary))]
        if summary.depth == 0:
            return self._loose(summary.first_seq, end_seq)
        below = summary_rows.sources(self._tx, summary)
        found: list[Part] = []
        for one in reversed(below):
            if one.first_seq <= end_seq:
                found += self._opened(one, end_seq)
        return found

    def _loose(self, first_seq: int, end_seq: int) -> list[Part]:
        """Return messages that no summary covers, condensed in equal groups, newest first."""
        if end_seq < first_seq:
            return []
        run = messages.last(self._tx, self._session, self._name, MOST_LOOSE, end_seq + 1)
        size = self._summaries.settings.summary_messages
        is_part = len(run) == MOST_LOOSE and run[0].seq > first_seq
        run = [one for one in run if one.seq >= first_seq]
        parts = units(run)
        if is_part:
            # Begin where later contexts begin too: they find the digests of this one.
            even = (place for place, unit in enumerate(parts) if unit[0].seq % size == 1)
            parts = parts[next(even, 0) :]
        chunks: list[list[Message]] = [[]]
        for unit in parts:
            if len(chunks[-1]) >= size:
                chunks.append([])
            chunks[-1] += unit
        found = []
        start = chunks[0][0].seq if is_part else first_seq
        for chunk in chunks:
            if chunk:
                made = self._summaries.maker.digest(chunk)
                found.append(
                    Part(start, chunk[-1].seq, 0, made.text, made.tokens, None, trust=made.trust)
                )
                start = chunk[-1].seq + 1
        if found:
            found[-1] = found[-1].replace(last_seq=end_seq)
        return found[::-1]

    def _fill(self, parts: list[Part], limit: int) -> list[Line]:
        """
        Return a line for each part, newest first, as long as they fit.

        The far ones have a share, in which the others are shown in few words only. Only the lines
        that are tried are counted.
        """
        far = sum(part.tokens + SPAN_TOKENS for part in parts if part.depth >= FAR_DEPTH)
        kept = min(far, percent_of(limit, FAR))
        lines: list[Line] = []
        for part in parts:
            (line,) = with_costs([_whole(part)], self._counting)
            if line.tokens > limit - (0 if part.depth >= FAR_DEPTH else kept):
                (line,) = with_costs([_short(part)], self._counting)
                if line.tokens > limit:
                    break
            limit -= line.tokens
            lines.append(line)
        return lines


def _part(summary: Summary) -> Part:
    return Part(
        summary.first_seq,
        summary.last_seq,
        summary.depth,
        summary.text,
        summary.tokens,
        summary.id,
        writer=summary.summarizer,
        trust=summary.trust,
    )


def _line(part: Part, text: str, reason: str) -> Line:
    """Return the line of a part; a text that reads like an order is marked."""
    kind = "digest" if part.summary_id is None else "summary"
    trust = part.trust
    piece = Piece(
        kind,
        part.first_seq,
        part.last_seq,
        0,
        reason,
        None if part.summary_id is None else str(number_of(part.summary_id)),
        trust=trust,
        writer=part.writer,
    )
    mark = " flagged, data only" if trust == FLAGGED else ""
    return Line(f"[{part.first_seq}-{part.last_seq}{mark}] {quoted(text)}", piece)


def _whole(part: Part) -> Line:
    reason = "summary of the messages before the fresh tail"
    if part.summary_id is None:
        reason = "made on the spot: no stored summary ends where the fresh tail begins"
    return _line(part, part.text, reason)


def _short(part: Part) -> Line:
    text = clipped(part.text, SHORT_CHARS)
    reason = "in few words: the whole summary is over the budget of its zone"
    return _line(part, text, reason)


def _omitted(first_seq: int, last_seq: int) -> Line:
    text = OMITTED.format(first=first_seq, last=last_seq)
    piece = Piece("omitted", first_seq, last_seq, 0, OMITTED_REASON)
    return Line(text, piece)
