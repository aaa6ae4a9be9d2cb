"""
Context service: the messages for a model, within a token budget.

A context consists of the system text, summaries of older messages, hits for the
question, and the newest messages unchanged. Each token belongs to one piece, and
each piece gives its reason. The tail begins where a leaf of the summary DAG begins, unless that
makes it much shorter. So the beginning of the context stays the same for several turns, and a
provider's prompt cache continues to work.
"""

from __future__ import annotations

from functools import partial
from heapq import merge
from typing import TYPE_CHECKING

from memdb.context import shares
from memdb.context.blocks import (
    SYSTEM_REASON,
    Excerpts,
    Recalled,
    message_piece,
    note,
    omitted_tokens,
)
from memdb.context.coverage import Coverage
from memdb.context.shares import percent_of
from memdb.context.truncation import LEAST_TOKENS, in_part, shorten
from memdb.conversations.tool_calls import orphans, unit_starts, unknown_answers
from memdb.conversations.windows import (
    LARGER,
    MESSAGE_OVERHEAD_TOKENS,
    NewestMedia,
    cost_tokens,
)
from memdb.errors import TooLarge
from memdb.models.messages import ContextWindow, Message, Piece
from memdb.models.record import Record
from memdb.records.scopes import find_session
from memdb.search.request import search_request
from memdb.summaries.planning import head_seq
from memdb.tables import messages
from memdb.tables import summaries as summary_rows
from memdb.text.validate import MANY, flag_value, int_value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from memdb.context.blocks import Block, Line
    from memdb.context.profile import ProfileService
    from memdb.engine.base import Engine, Tx
    from memdb.models.messages import Hit
    from memdb.models.settings import Settings
    from memdb.records.scopes import ScopeRef
    from memdb.search.request import SearchRequest
    from memdb.search.service import Retrieved, SearchService
    from memdb.summaries.builder import Summaries
    from memdb.text.tokens import Counting

# Budget per requested hit: about twice as many hits as fit, because those in the tail
# are shown already.
TOKENS_PER_HIT = 20
LEAST_HITS = 20
MOST_HITS = 200

# Artifacts that are quoted, each by its best passage.
PASSAGES = 5

# The coarser places where a tail may begin: leaves, then each so many seqs.
STEADY_SEQS = 5

NO_HITS: dict[str, tuple[Hit, ...]] = {"entry": (), "message": (), "artifact": ()}

# Messages that are read at once: those that the budget holds if they are like the ones before.
FIRST_PAGE = 64
LEAST_PAGE = 16
MAX_PAGE = 1024


# Model APIs require that a user's message comes first.
OPENING = "[The conversation begins with the assistant.]"


class Tail(Record):
    """The newest messages, oldest first, with the cost of each."""

    messages: tuple[Message, ...]
    costs: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens of all of them."""
        return sum(self.costs)


class ContextService:
    """Fits the conversations of a file into token budgets."""

    def __init__(
        self,
        db: Engine,
        counting: Counting,
        summaries: Summaries,
        search: Callable[[], SearchService],
        profiles: Callable[[], ProfileService],
        settings: Settings,
    ) -> None:
        """
        Read *db*, and count with *counting*.

        Args:
            search: Returns the search service, if there is a question.
            profiles: Returns the service that knows which entries belong in every prompt.
            settings: The shares of a budget.
        """
        self._db = db
        self.counting = counting
        self.summaries = summaries
        self._search = search
        self._profiles = profiles
        self.settings = settings

    def context(
        self,
        owner: ScopeRef,
        session: str,
        budget_tokens: int | None = None,
        query: str | None = None,
        *,
        count_use: bool = True,
        scope_messages: bool = True,
    ) -> ContextWindow:
        """
        Return the messages for the model; see `Session.context`.

        Summaries and embeddings that are due are made first, a batch of them.

        Args:
            scope_messages: False quotes no message of another session, and only artifacts of this
                one.

        Transaction: one snapshot without a question; with one a second, after
        the question was embedded; with a reranker a third.
        """
        if budget_tokens is None:
            budget_tokens = self.settings.window_tokens
        int_value(budget_tokens, "budget_tokens", 1, MANY)
        flag_value(count_use, "count_use")
        if query is None:
            with self._db.read() as tx:
                target = find_session(tx, owner, session)
                if target is not None:
                    messages.expect_last(tx, target, session, FIRST_PAGE)
                    owner.shared().expect(tx)
                if target is None or not (count_use and self.summaries.is_behind(tx, target)):
                    return self._window(tx, owner, session, budget_tokens)
            self.summaries.drain(target)
            with self._db.read() as tx:
                return self._window(tx, owner, session, budget_tokens)
        search = self._search()
        most = min(max(budget_tokens // TOKENS_PER_HIT, LEAST_HITS), MOST_HITS)
        request = search_request(
            query,
            most,
            kinds=("message", "entry", "artifact"),
            session=session,
            count_use=count_use,
        )
        # The categories are those of the entries; messages are searched besides.
        request = request.replace(
            categories=self.settings.context_categories, scope_messages=scope_messages
        )
        retrieved = self._retrieve(search, owner, session, request)
        if retrieved is None:
            with self._db.read() as tx:
                return self._window(tx, owner, session, budget_tokens)
        embedding = search.embed(retrieved)
        limits = {"entry": self.settings.context_entries, "message": most, "artifact": PASSAGES}
        asked = retrieved.question.query.content
        with self._db.read() as tx:
            hits = search.load_kinds(tx, retrieved, embedding, limits, fill=budget_tokens)
            if search.reranker is None:
                return self._window(tx, owner, session, budget_tokens, hits, asked)
        for kind, found in hits.items():
            hits[kind], _ = search.reranked(retrieved.question, found, len(found))
        with self._db.read() as tx:
            return self._window(tx, owner, session, budget_tokens, hits, asked)

    def _retrieve(
        self, search: SearchService, owner: ScopeRef, session: str, request: SearchRequest
    ) -> Retrieved | None:
        """Return the first snapshot of the search, after due work was done."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            is_due = request.count_use and target and self.summaries.is_behind(tx, target)
            serving = search.serving(tx, owner, request)
            if not (is_due or (request.count_use and search.is_behind(tx, owner, serving))):
                return search.retrieve(tx, owner, request, serving)
        if target and is_due:
            self.summaries.drain(target)
        return search.first_read(owner, request)

    def _window(
        self,
        tx: Tx,
        owner: ScopeRef,
        session: str,
        budget_tokens: int,
        hits: Mapping[str, Sequence[Hit]] = NO_HITS,
        asked: Sequence[str] = (),
    ) -> ContextWindow:
        """Return the context with the hits for a question with the words *asked*."""
        target = find_session(tx, owner, session)
        profiles = self._profiles()
        pinned, others, before = profiles.known(owner, session)
        first = dict.fromkeys(row[0] for row in pinned)
        entries = tuple(hit for hit in hits["entry"] if hit.source.entry_id not in first)
        shown = {hit.source.entry_id for hit in entries}
        rest = tuple(row[0] for row in others if row[0] not in shown)
        quoted = merge(hits["message"], hits["artifact"], key=lambda hit: -hit.score)
        parts = tuple(in_part(hit, asked, budget_tokens) for hit in quoted)
        load = partial(profiles.load, owner)
        recalled = Recalled(entries, parts, tuple(first), rest, load, owner.find(tx), before)
        return _Plan(self, tx, (target or 0, session), budget_tokens).window(recalled)


class _Plan:
    """One context under construction, inside one read."""

    def __init__(
        self, service: ContextService, tx: Tx, place: tuple[int, str], budget_tokens: int
    ) -> None:
        self._tx = tx
        self._place = place
        self._budget = budget_tokens
        self._counting = service.counting
        self._summaries = service.summaries
        self._settings = service.settings
        self._excerpts = Excerpts(service.counting, flagged=service.settings.context_flagged)
        self._shortened: set[int] = set()
        self._head = self._system() if place[0] else Tail((), ())
        self._first = self._head.messages[-1].seq + 1 if self._head.messages else 1

    def window(self, recalled: Recalled) -> ContextWindow:
        """Return the context; *recalled* as in `Excerpts.known`."""
        left = self._budget - self._head.tokens
        newest, complete = self._capped(*self._newest(left))
        session = newest.tokens + self._opening_cost(newest)
        most = self._settings.context_known_tokens
        room = min(most, percent_of(left, shares.ENTRIES), left - self._least(newest))
        found = recalled.messages
        rest = left - session if complete else 0
        wide = percent_of(rest, shares.BESIDE_HITS) if found else rest
        known, reserved = self._excerpts.known(recalled, room, wide)
        if complete and session + reserved <= left:
            block = self._block(known, found, newest, left - newest.tokens)
            if found:
                spare = left - newest.tokens - (0 if block is None else block.tokens - reserved)
                known, more = self._excerpts.known(recalled, room, spare)
                if more > reserved:  # what the hits leave holds all entries
                    block = self._block(known, found, newest, left - newest.tokens)
            return self._joined(None, block, newest)
        rest = left - reserved
        share = self._settings.context_recall_percent if found else 0
        while True:
            tail, cover = self._split(newest, rest, share)
            spent = tail.tokens + (0 if cover is None else cover.tokens)
            block = self._block(known, found, tail, left - spent)
            used = max(0, (0 if block is None else block.tokens) - reserved)
            if 100 * used >= (share - shares.SPARE) * rest:
                return self._joined(cover, block, tail)
            # The hits need less: the newest messages get the rest, which may hold hits too.
            share = -(-100 * used // rest)

    def _system(self) -> Tail:
        """Return the system messages at the beginning of the session."""
        head = head_seq(self._tx, *self._place)
        found = messages.list_after(self._tx, *self._place, 0, head) if head else []
        found = [one for one in found if one.seq <= head]
        tail = self._costed(found)
        if tail.tokens >= self._budget and found:
            least = tail.tokens + shares.LEAST_LEFT_TOKENS
            raise TooLarge("tokens of the system text", self._budget, least, LARGER)
        return tail

    def _costed(self, found: list[Message]) -> Tail:
        return Tail(tuple(found), tuple([cost_tokens(one, self._counting) for one in found]))

    def _newest(self, limit: int) -> tuple[Tail, bool]:
        """
        Return the newest messages up to the first one beyond *limit*, and whether these are all.

        The newest unit is whole if its first message is among the newest `FIRST_PAGE` before the
        limit is reached. One more page is read if a tool answers a call that was not read.
        """
        found: list[Message] = []
        costs: list[int] = []
        before: int | None = None
        page_size = FIRST_PAGE
        total = 0
        met = False
        media = NewestMedia(self._counting, limit)
        while self._place[0]:
            page = messages.last(self._tx, *self._place, page_size, before)
            page = media.views([one for one in page if one.seq >= self._first])
            some = [cost_tokens(one, self._counting) for one in page]
            found, costs = page + found, some + costs
            total += sum(some)
            if len(page) < page_size:
                break
            if total > limit:
                early = found[0].role == "tool" or any(
                    place < FIRST_PAGE for place in unknown_answers(found)
                )
                if met or not early:
                    return Tail(tuple(found), tuple(costs)), False
                met = True
            before = page[0].seq
            page_size = min(2 * page_size, MAX_PAGE)
            if not met:
                wanted = (limit - total) * len(found) // max(total, 1)
                page_size = min(page_size, wanted + LEAST_PAGE)
        return Tail(tuple(found), tuple(costs)), True

    def _capped(self, newest: Tail, complete: bool) -> tuple[Tail, bool]:  # noqa: FBT001 (a pair's second half)
        """Return the newest messages without those over the number that the settings allow."""
        most, count = self._settings.context_messages, len(newest.messages)
        if most is None or count <= most:
            return newest, complete
        starts = unit_starts(newest.messages)
        start = next((place for place in starts if count - place <= most), starts[-1])
        return Tail(newest.messages[start:], newest.costs[start:]), False

    def _least(self, newest: Tail) -> int:
        """Return the tokens of the whole newest unit, and of the line about the others."""
        if not newest.messages:
            return 0
        unit = sum(newest.costs[unit_starts(newest.messages)[-1] :])
        return unit + omitted_tokens(self._first, newest.messages[-1].seq, self._counting)

    def _split(self, newest: Tail, left: int, share: int) -> tuple[Tail, Block | None]:
        """
        Return the fresh tail and the summaries of all older messages, within *left* tokens.

        *share* percent of them are left for the hits. Tokens that the summaries do not need go to
        the tail. Both shares depend on the start of the tail, not on its length. So the text of the
        summaries stays the same until the tail begins at another place.
        """
        self._shortened = set()
        room = left - percent_of(left, share)
        coverage = Coverage(self._tx, self._summaries, self._counting, self._place)
        tail_limit = percent_of(room, self._settings.context_tail_percent)
        if not coverage.pays(newest.costs):
            end = newest.messages[-1].seq
            tail_limit = max(tail_limit, room - omitted_tokens(self._first, end, self._counting))
        tail_limit = min(tail_limit, newest.tokens)
        limit = room - tail_limit
        grids = self._grids(newest, coverage)
        newest_unit = grids[-1][0]
        start = self._start_within(newest, grids, tail_limit)
        if start is None:
            return self._narrow(newest, newest_unit, left, share, coverage)
        cover = coverage.before(self._first, newest.messages[start].seq - 1, limit)
        spare = limit - (0 if cover is None else cover.tokens)
        wider = self._start_within(newest, grids, tail_limit + max(spare, 0))
        if wider is not None and wider < start:
            more = coverage.before(self._first, newest.messages[wider].seq - 1, limit)
            if sum(newest.costs[wider:]) + (0 if more is None else more.tokens) <= room:
                start, cover = wider, more
        tail = Tail(newest.messages[start:], newest.costs[start:])
        before = self._opening_cost(tail) if cover is None else cover.tokens
        if tail.tokens + before > left:
            return self._narrow(newest, newest_unit, left, share, coverage)
        return tail, cover

    def _grids(self, newest: Tail, coverage: Coverage) -> list[list[int]]:
        """Return where a tail may begin, as indexes in *newest*, newest first: coarse to fine."""
        places = unit_starts(newest.messages)[::-1]
        seqs = [newest.messages[place].seq for place in places]
        leaves = summary_rows.leaf_starts(self._tx, self._place[0], seqs[-1] - 1)
        leaves |= {self._first, coverage.covered_seq + 1}
        return [
            [place for place, seq in zip(places, seqs, strict=True) if seq in leaves],
            [place for place, seq in zip(places, seqs, strict=True) if seq % STEADY_SEQS == 1],
            places,
        ]

    @staticmethod
    def _start_within(newest: Tail, grids: list[list[int]], limit: int) -> int | None:
        """Return the start of a long tail within *limit*, as coarse as possible. None: nowhere."""
        found: list[tuple[int, int]] = []
        for starts in grids:
            best = (0, 0)
            tokens = 0
            end = len(newest.costs)
            for place in starts:
                tokens += sum(newest.costs[place:end])
                end = place
                if tokens > limit:
                    break
                best = (tokens, place)
            found.append(best)
        least = found[-1][0] * shares.STEADY
        if not least:
            return None
        return next(place for tokens, place in found if tokens * 100 >= least)

    def _narrow(
        self, newest: Tail, start: int, left: int, share: int, coverage: Coverage
    ) -> tuple[Tail, Block | None]:
        """Return the newest unit, shortened if necessary, and summaries in what it leaves."""
        least = sum(min(cost, LEAST_TOKENS) for cost in newest.costs[start:])
        if least + shares.LEAST_LEFT_TOKENS > left:
            start = self._within_unit(newest, start, percent_of(left, shares.CUT_TURN))
        unit = list(newest.messages[start:])
        end = unit[0].seq - 1
        room = left - (
            omitted_tokens(self._first, end, self._counting)
            if end >= self._first
            else self._opening_cost(newest)
        )
        if sum(newest.costs[start:]) > room:
            whole, unit = unit, shorten(unit, room, self._counting, self._budget)
            self._shortened = {view.seq for view in unit if view not in whole}
        tail = self._costed(unit)
        rest = left - tail.tokens
        return tail, coverage.before(self._first, end, rest - percent_of(rest, share))

    @staticmethod
    def _within_unit(newest: Tail, start: int, limit: int) -> int:
        """
        Return where a unit can be cut so that its end is within *limit*; *start*: nowhere.

        Tool messages without a call are one unit, however many there are; between them any cut is
        allowed.
        """
        loose = orphans(newest.messages)
        place = len(newest.messages)
        tokens = 0
        while place > start and newest.messages[place - 1].seq in loose:
            tokens += newest.costs[place - 1]
            if tokens > limit and place < len(newest.messages):
                break
            place -= 1
        return start if place == len(newest.messages) else place

    def _opening_cost(self, tail: Tail) -> int:
        """Return the tokens of a user's message that must be added at the beginning, or 0."""
        if not tail.messages or tail.messages[0].role == "user":
            return 0
        (tokens,) = self._counting.count_many([OPENING])
        return tokens + MESSAGE_OVERHEAD_TOKENS

    def _block(
        self, known: list[Line], found: Sequence[Hit], tail: Tail, limit: int
    ) -> Block | None:
        shown = {message.seq for message in (*self._head.messages, *tail.messages)}
        return self._excerpts.block(known, found, shown, limit, self._place[1])

    def _joined(self, cover: Block | None, recalled: Block | None, tail: Tail) -> ContextWindow:
        """Return all parts in order, with their pieces."""
        shown: list[Message] = list(self._head.messages)
        name = self._place[1]
        pieces = [
            message_piece("system", one, cost, SYSTEM_REASON, (place, name))
            for place, (one, cost) in enumerate(
                zip(self._head.messages, self._head.costs, strict=True)
            )
        ]
        blocks = [one for one in (cover, recalled) if one is not None]
        for one in blocks:
            pieces += one.pieces_at(len(shown))
            shown.append(one.message)
        if tail.messages and tail.messages[0].role != "user" and not blocks:
            opening = note(OPENING, self._counting, self._place[1])
            cost = opening.tokens + MESSAGE_OVERHEAD_TOKENS
            reason, at = "model APIs want a user's message first", len(shown)
            pieces.append(Piece("frame", None, None, cost, reason, text=OPENING, message=at))
            shown.append(opening)
        first = len(shown)
        shown += tail.messages
        newest = len(tail.messages) - 1
        for place, (message, cost) in enumerate(zip(tail.messages, tail.costs, strict=True)):
            reason = "the newest message" if place == newest else "fresh tail, word for word"
            if message.seq in self._shortened:
                reason += ", shortened: it is over the budget"
            pieces.append(message_piece("message", message, cost, reason, (first + place, name)))
        tokens = sum(piece.tokens for piece in pieces)
        return ContextWindow(tuple(shown), tokens, self._budget, tuple(pieces))
