"""
Summary buffer: a window of one block of summaries and the newest messages.

The strategy of hector (docs/seeds/hector.md), but nothing is replaced. Summaries
are made of messages that stay stored, and cannot fall out of the window. A long
run of tool calls moves the cut too. The cut depends on the number of tokens in
the session, so that every process returns the same window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.context.blocks import SYSTEM_REASON, message_piece
from memdb.context.coverage import Coverage
from memdb.context.truncation import shorten
from memdb.conversations.tool_calls import unit_starts
from memdb.conversations.windows import (
    LARGER,
    MESSAGE_OVERHEAD_TOKENS,
    NewestMedia,
    cost_tokens,
)
from memdb.errors import TooLarge
from memdb.models.messages import ContextWindow
from memdb.summaries.planning import head_seq
from memdb.tables import messages, sessions

if TYPE_CHECKING:
    from memdb.context.blocks import Block
    from memdb.engine.base import Tx
    from memdb.models.messages import Message
    from memdb.models.settings import Settings
    from memdb.summaries.builder import Summaries
    from memdb.text.tokens import Counting

# Newest messages stay in any case, one per so many tokens of what condensing leaves.
TOKENS_PER_MESSAGE = 60

PAGE = 128


class Limits:
    """The limits of a budget, in tokens."""

    __slots__ = ("budget", "keep_last", "longest", "recent", "summary", "trigger")

    def __init__(self, budget_tokens: int, settings: Settings) -> None:
        """
        Divide *budget_tokens* by the shares of *settings*.

        >>> from memdb.models.settings import DEFAULTS
        >>> limits = Limits(8_000, DEFAULTS)
        >>> limits.trigger, limits.recent, limits.summary, limits.keep_last
        (6800, 4480, 1120, 10)
        """
        self.budget = budget_tokens
        target = budget_tokens * settings.buffer_target_percent // 100
        self.trigger = budget_tokens * settings.buffer_trigger_percent // 100
        self.recent = target * settings.buffer_recent_percent // 100
        self.summary = target - self.recent
        self.longest = self.trigger - self.summary
        self.keep_last = min(settings.buffer_keep_last, max(2, target // TOKENS_PER_MESSAGE))

    def tail(self, total: int) -> int:
        """
        Return the most tokens of the newest messages of a session with *total* tokens.

        It falls from `longest` to `recent` and leaps back, so that the cut
        stays where it is while the conversation grows, and then moves once.
        """
        step = max(self.longest - self.recent, 1)
        return total - max(0, -(-(total - self.longest) // step)) * step


class Measured:
    """The tokens of a session, and whether a budget needs summaries of it."""

    __slots__ = ("count", "first", "head", "limits", "total", "used", "whole")

    def __init__(self, tx: Tx, counting: Counting, place: tuple[int, str], limits: Limits) -> None:
        """Measure the session *place* (id and name)."""
        self.limits = limits
        self.head = _head(tx, place)
        self.first = self.head[-1].seq + 1 if self.head else 1
        self.used = sum(cost_tokens(one, counting) for one in self.head)
        tokens, self.count = sessions.tokens(tx, place[0], self.first)
        self.total = tokens + MESSAGE_OVERHEAD_TOKENS * self.count
        few = self.count <= self.limits.keep_last
        self.whole = few or self.used + self.total <= self.limits.trigger


def summary_buffer(
    tx: Tx,
    summaries: Summaries,
    counting: Counting,
    place: tuple[int, str],
    limits: Limits,
) -> ContextWindow:
    """
    Return the window of a session (*place*: id and name); see `Host(session).window`.

    Raises:
        TooLarge: the budget cannot contain the system text and views of the newest messages.
    """
    session = Measured(tx, counting, place, limits)
    budget_tokens = limits.budget
    if session.used > budget_tokens:
        raise TooLarge("tokens of the system text", budget_tokens, session.used, LARGER)
    tail: list[Message] = []
    total = session.total
    if session.whole:
        tail = _newest(tx, counting, place, session, total, session.count)
        total = sum(cost_tokens(one, counting) for one in tail)  # with what has no text
    if not session.whole or session.used + total > budget_tokens:
        wanted = max(limits.tail(session.used + total) - session.used, 0)
        tail = _newest(tx, counting, place, session, wanted, limits.keep_last)
    cover: Block | None = None
    if tail and tail[0].seq > session.first:
        coverage = Coverage(tx, summaries, counting, place)
        cover = coverage.before(session.first, tail[0].seq - 1, limits.summary)
    room = budget_tokens - session.used - (0 if cover is None else cover.tokens)
    views = tail
    if sum(cost_tokens(one, counting) for one in tail) > room:
        views = shorten(tail, room, counting, budget_tokens)
    return _window(place[1], session.head, cover, views, tail, counting, budget_tokens)


def _head(tx: Tx, place: tuple[int, str]) -> list[Message]:
    last = head_seq(tx, *place)
    return [one for one in messages.list_after(tx, *place, 0, last) if one.seq <= last]


def _newest(
    tx: Tx,
    counting: Counting,
    place: tuple[int, str],
    session: Measured,
    tokens: int,
    least: int,
) -> list[Message]:
    """Return the newest messages within *tokens*, *least* at least, in whole units."""
    media = NewestMedia(counting, session.limits.budget - session.used)
    found: list[Message] = []
    before: int | None = None
    total = 0
    while True:
        page = messages.last(tx, *place, PAGE, before)
        more = media.views([one for one in page if one.seq >= session.first])
        found = more + found
        total += sum(cost_tokens(one, counting) for one in more)
        done = len(page) < PAGE or len(more) < len(page)
        if done or (total > tokens and len(found) > least and found[0].role != "tool"):
            break
        before = page[0].seq
    start, spent = len(found), 0
    while start > 0:
        spent += cost_tokens(found[start - 1], counting)
        if spent > tokens and len(found) - start >= least:
            break
        start -= 1
    later = [one for one in unit_starts(found) if one >= start]
    if later and len(found) - later[0] >= min(least, len(found)):
        return found[later[0] :]
    earlier = [one for one in unit_starts(found) if one <= start]
    return found[earlier[-1] :] if earlier else found


def _window(
    session: str,
    head: list[Message],
    cover: Block | None,
    views: list[Message],
    tail: list[Message],
    counting: Counting,
    budget_tokens: int,
) -> ContextWindow:
    shown = list(head)
    pieces = [
        message_piece("system", one, cost_tokens(one, counting), SYSTEM_REASON, (place, session))
        for place, one in enumerate(head)
    ]
    if cover is not None:
        pieces += cover.pieces_at(len(shown))
        shown.append(cover.message)
    for view in views:
        reason = "newest messages" if view in tail else "newest messages, shortened to the budget"
        cost, place = cost_tokens(view, counting), (len(shown), session)
        pieces.append(message_piece("message", view, cost, reason, place))
        shown.append(view)
    tokens = sum(piece.tokens for piece in pieces)
    return ContextWindow(tuple(shown), tokens, budget_tokens, tuple(pieces))
