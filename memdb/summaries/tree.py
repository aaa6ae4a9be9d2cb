"""
Read the summaries of a session: its tree, the sources of a summary, an index.

Every summary leads back to its messages, one level at a time.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, NotFound, PortError
from memdb.facts.extractive import ExtractiveSummarizer
from memdb.models.ids import MAX_NUMBER, MAX_SEQ, is_branch, scope_of, scope_range
from memdb.models.record import Record
from memdb.models.summaries import OMITTED, Expansion, Summary
from memdb.records.scopes import find_session
from memdb.summaries.planning import covered_seq, head_seq
from memdb.summaries.summarizer import items_of_summaries
from memdb.tables import messages, sessions, summaries
from memdb.text.tokens import counter_by_name
from memdb.text.validate import int_value, text_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.records.scopes import ScopeRef
    from memdb.summaries.builder import Summaries

# Summaries or messages per page of an expansion.
PAGE = 50
MAX_PAGE = 1_000

# Tokens of extracts that a text is chosen from, per token of the text: all leaves of most sessions.
READ_SHARE = 10

UNCONDENSED = "[Messages {first}-{last} have no summary yet.]"


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
        Return the summaries as one text within a budget, oldest first.

        Without summaries by a model, the text has the whole sentences of all extracts that tell
        most, each once. Summaries by a model stay whole, a line break between two. If the frontier
        does not fit, its end is returned, and the first line names the messages that are not
        covered. If the budget allows more, the summaries below replace one, the deepest first
        and of these the newest. The last line names the messages without a summary, which
        `compact` makes.

        Args:
            budget_tokens: Most tokens, 0 or more, by the counter of the summaries. The text is ""
                if the lines that name messages do not fit: each character counts as a token.

        Cost: 40 to 80 ms for extracts of 2,000 messages.
        """
        end = ""
        if self.first_raw_seq <= self.last_seq:
            end = UNCONDENSED.format(first=self.first_raw_seq, last=self.last_seq)
        left = budget_tokens - len(end)
        text = self._extract(left - 1) if left > 1 else None
        if text is None:
            text = self._whole(left)
        return "" if left < 0 or text is None else "\n".join(filter(None, (text, end)))

    def _extract(self, limit: int) -> str | None:
        """Return the best sentences; None without extracts alone, or for an unknown counter."""
        if not self.summaries or any(one.quality == "model" for one in self.summaries):
            return None
        cover = self._cover(self.frontier, READ_SHARE * limit)
        source = items_of_summaries(cover, [one.text for one in cover])
        try:
            count_many = counter_by_name(cover[-1].counter).count_many
            most = sum(len(item.text) for item in source)
            summarizer = ExtractiveSummarizer(count_many, most)
            return summarizer.summarize(source, depth=1, limit_tokens=limit).text
        except (InvalidInput, PortError):  # of another host
            return None

    def _whole(self, limit: int) -> str | None:
        """Return the summaries that fit, the newest if not all do; None if not even a mark does."""
        chosen = [*self.frontier]
        left = limit - sum(one.tokens + 1 for one in chosen)
        mark = ""
        while left < len(mark) and chosen:
            gone = chosen.pop(0)
            left += gone.tokens + 1
            mark = OMITTED.format(first=self.head_seq + 1, last=gone.last_seq)
        if left < len(mark):
            return None
        cover = self._cover(chosen, limit - len(mark))
        return "\n".join(filter(None, (mark, *(one.text for one in cover))))

    def _cover(self, roots: Sequence[Summary], limit: int) -> list[Summary]:
        """Return *roots*, with as many replaced by those below as *limit* tokens allow."""
        below: dict[int | None, list[Summary]] = defaultdict(list)
        for one in self.summaries:
            below[one.condensed_into].append(one)
        chosen = {one.id: one for one in roots}
        left = limit - sum(one.tokens + 1 for one in roots)
        for one in sorted(self.summaries, key=lambda one: (-one.depth, -one.first_seq)):
            more = sum(each.tokens + 1 for each in below[one.id]) - one.tokens - 1
            if below[one.id] and one.id in chosen and more <= left:
                left -= more
                del chosen[one.id]
                chosen |= {each.id: each for each in below[one.id]}
        return sorted(chosen.values(), key=lambda one: one.first_seq)


class SummaryReader:
    """Reads the summaries of a file."""

    def __init__(self, db: Engine, summaries: Summaries) -> None:
        """Read the summaries that *summaries* stored in *db*."""
        self._db = db
        self._summaries = summaries

    def tree(self, owner: ScopeRef, session: str) -> SummaryTree:
        """Return every summary of a session; see `session.summaries.tree`."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                return SummaryTree((), 0, 1, 0)
            found: list[Summary] = []
            for depth in range(summaries.MAX_DEPTH, -1, -1):
                found += summaries.list_shared_depth(tx, target, depth)
            found = [_on_path(tx, target, one) for one in found]
            covered = covered_seq(tx, target, session)
            head = head_seq(tx, target, session)
            last = sessions.last_seq(tx, target)
            whole = tuple(self._summaries.with_text(tx, summary) for summary in found)
        return SummaryTree(whole, head, covered + 1, last)

    def select(
        self,
        owner: ScopeRef,
        session: str,
        *,
        depth: int | None = None,
        first_seq: int = 1,
        last_seq: int | None = None,
    ) -> list[Summary]:
        """Return some summaries of a session; see `session.summaries.list`."""
        int_value(first_seq, "first_seq", 1, MAX_SEQ)
        last = MAX_SEQ if last_seq is None else int_value(last_seq, "last_seq", 1, MAX_SEQ)
        if depth is not None:
            int_value(depth, "depth", 0, summaries.MAX_DEPTH)
        return [
            one
            for one in self.tree(owner, session).summaries
            if depth in (None, one.depth) and one.last_seq >= first_seq and one.first_seq <= last
        ]

    def expand(
        self, owner: ScopeRef, session: str, ref: int | str, after_seq: int = 0, limit: int = PAGE
    ) -> Expansion:
        """Return a page of the sources of *ref*; see `session.summaries.expand`."""
        int_value(after_seq, "after_seq", 0, MAX_SEQ)
        int_value(limit, "limit", 0, MAX_PAGE)
        named = summary_or_span(ref)
        span = None if isinstance(named, int) else named
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            summary = None if target is None else find_summary(tx, target, ref)
            if target is None or (summary is None and span is None):
                what = named if isinstance(named, int) else str(ref)
                raise NotFound("summary", what, f"session {session!r}")
            if summary is not None:
                summary = _on_path(tx, target, self._summaries.with_text(tx, summary))
                span = summary.first_seq, summary.last_seq
                if summary.depth:
                    return self._sources(tx, summary, after_seq, limit)
            assert span is not None
            return _list_span(
                tx, target, session, summary, (max(span[0] - 1, after_seq), span[1]), limit
            )

    def upgrade(self, owner: ScopeRef, session: str) -> int:
        """Queue the summaries that no model wrote; see `session.summaries.upgrade`."""
        port = self._summaries.maker.port
        if port is None or port.quality != "model":
            raise InvalidInput("upgrade needs a model: give one to memdb.open(model=...)")
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
        return 0 if target is None else self._summaries.upgrade(target)

    def get_many(self, owner: ScopeRef, session: str, ids: Iterable[int]) -> list[Summary]:
        """Return the summaries with these packed ids, in that order; missing ones are left out."""
        with self._db.read() as tx:
            target = find_session(tx, owner, session)
            if target is None:
                return []
            found = [summaries.find(tx, target, one) for one in ids]
            return [_on_path(tx, target, summary) for summary in found if summary]

    def _sources(self, tx: Tx, summary: Summary, after_seq: int, limit: int) -> Expansion:
        found = summaries.sources(tx, summary, after_seq, limit + 1)
        page = tuple(self._summaries.with_text(tx, one) for one in found[:limit])
        more = page[-1].first_seq if len(found) > limit else None
        return Expansion(summary, page, (), more)


def _list_span(
    tx: Tx, target: int, session: str, summary: Summary | None, span: tuple[int, int], limit: int
) -> Expansion:
    """Return the messages after span[0] up to span[1], a page of them."""
    after, last = span
    found = messages.list_after(tx, target, session, after, limit + 1)
    found = [one for one in found if one.seq <= last]
    if summary is None and not found:
        raise NotFound("message", f"{session}#{after + 1}-{last}")
    more = found[limit - 1].seq if len(found) > limit else None
    return Expansion(summary, (), tuple(found[:limit]), more)


def _on_path(tx: Tx, target: int, summary: Summary) -> Summary:
    """Return a summary as a branch has it, without its parent's later changes."""
    above = summary.condensed_into
    if above is None or not is_branch(target) or summaries.find(tx, target, above) is not None:
        return summary
    return summary.replace(condensed_into=None)


def find_summary(tx: Tx, target: int, ref: int | str) -> Summary | None:
    """Return the summary of a session by its number or its span; None if there is none."""
    named = summary_or_span(ref)
    if isinstance(named, int):
        return summaries.find(tx, target, scope_range(scope_of(target))[0] | named)
    return summaries.find_span(tx, target, *named)


def summary_or_span(ref: int | str) -> int | tuple[int, int]:
    """
    Return the number of a summary, or the span of messages, in *ref*.

    >>> summary_or_span(7), summary_or_span("7"), summary_or_span("11-20"), summary_or_span("#12")
    (7, 7, (11, 20), (12, 12))

    Raises:
        InvalidInput: *ref* is neither, or a span that ends before it begins.
    """
    if not isinstance(ref, str):
        if isinstance(ref, int) and not isinstance(ref, bool):
            return int_value(ref, "summary_id", 1, MAX_NUMBER)
        raise InvalidInput(f"summary_id is {type(ref).__name__}: {REF_FORMS}")
    first, dash, last = text_value(ref, "summary_id").removeprefix("#").partition("-")
    are_numbers = all(len(one) <= REF_DIGITS and one.isdecimal() for one in (first, last or first))
    if not are_numbers or (dash and not last):
        raise InvalidInput(f"summary_id is {ref[:SHOWN_CHARS]!r}: {REF_FORMS}")
    if not dash and not ref.startswith("#"):
        return int_value(int(ref), "summary_id", 1, MAX_NUMBER)
    span = int(first), int(last or first)
    if not 1 <= span[0] <= span[1] <= MAX_SEQ:
        raise InvalidInput(f"summary_id is {ref!r}: a span is written 'first-last', from 1")
    return span


REF_FORMS = "give a summary's number, or messages as '11-20'"
REF_DIGITS = 14
SHOWN_CHARS = 40
