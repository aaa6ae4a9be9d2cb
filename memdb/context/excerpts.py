"""
What is found for a question: long-term entries and older messages, word for word.
"""

from __future__ import annotations

from itertools import islice

from memdb.context.blocks import RECALLED, Block, Line, block, frame_tokens, quoted, with_costs
from memdb.models.record import Record
from memdb.models.summaries import Piece
from memdb.search.request import search_request
from memdb.text.sanitize import prompt_line
from memdb.text.times import iso_day

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from memdb.models.messages import Entry, Hit
    from memdb.records.scopes import Owner
    from memdb.search.request import SearchRequest
    from memdb.text.tokens import Counting

    Recall = Callable[[Owner, SearchRequest, dict[str, int]], dict[str, list[Hit]]]
    Pinned = Callable[[Owner, str], Iterable[Entry]]

# Hits that are asked for: one for so many tokens of the budget, twice what fits as
# a rule, since those of the tail are there already.
TOKENS_PER_HIT = 40
LEAST_MESSAGES = 20
MOST_MESSAGES = 200
MOST_ENTRIES = 20

# Of the block, for entries: they are short, and facts that were thought worth keeping.
ENTRIES_PER_MILLE = 250

# Of the block, for what is pinned, where something else matches the question.
PINNED_PER_MILLE = 250

# Hits in a row that are too long for what is left, after which no more are tried.
MAX_MISSES = 8

# Lines that are counted in one call: most hits are never looked at.
COUNTED_AT_ONCE = 32


class Found(Record):
    """
    What is there to show: the hits for a question, each kind best first, and what is pinned.

    Attributes:
        pinned: Entries that belong into every context, the most important first.
    """

    entries: tuple[Hit, ...]
    messages: tuple[Hit, ...]
    pinned: tuple[Entry, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether there is nothing at all."""
        return not (self.entries or self.messages or self.pinned)

    @property
    def answers(self) -> bool:
        """Whether something matches a question."""
        return bool(self.entries or self.messages)


class Excerpts:
    """Finds what a question is about, and words it for a context."""

    def __init__(self, counting: Counting, recall: Recall, pinned: Pinned) -> None:
        """Count by *counting*, find by *recall* (as `Recaller.recall`) and *pinned*."""
        self._counting = counting
        self._recall = recall
        self._pinned = pinned

    def find(self, owner: Owner, session: str, query: str | None, budget_tokens: int) -> Found:
        """
        Return what is pinned, and what matches: entries of the scope, messages of the session.

        Without *query* nothing is looked up.
        """
        pinned = tuple(self._pinned(owner, session))
        if query is None:
            return Found((), (), pinned)
        most = min(max(budget_tokens // TOKENS_PER_HIT, LEAST_MESSAGES), MOST_MESSAGES)
        request = search_request(
            query, most, kinds=("message", "entry"), messages_of=session, visible=session
        )
        by_kind = self._recall(owner, request, {"entry": MOST_ENTRIES, "message": most})
        entries, said = by_kind["entry"], by_kind["message"]
        known = {entry.id for entry in pinned}
        fresh = [hit for hit in entries if hit.source.entry_id not in known]
        return Found(tuple(fresh), tuple(said), pinned)

    def block(self, found: Found, known: set[int], limit: int, session: str) -> Block | None:
        """
        Return the best of *found* within *limit* tokens, in the order it was said.

        None where nothing was found that is not *known* (seqs that are in the
        context anyway), or nothing fits.
        """
        room = limit - frame_tokens(RECALLED, self._counting) - 1
        if room <= 0:
            return None
        most = room * PINNED_PER_MILLE // 1000 if found.answers else room
        always = self._chosen(map(_pinned_line, found.pinned), most)
        room -= sum(line.piece.tokens for line in always)
        most = room * ENTRIES_PER_MILLE // 1000
        entries = self._chosen(map(_entry_line, found.entries), most)
        room -= sum(line.piece.tokens for line in entries)
        said = (hit for hit in found.messages if hit.source.seq not in known)
        told = self._chosen(map(_message_line, said), room)
        told.sort(key=lambda line: line.piece.first_seq or 0)
        while always or entries or told:
            made = block([*always, *entries, *told], RECALLED, self._counting, session)
            if made.tokens <= limit:
                return made
            (told or entries or always).pop()
        return None

    def _chosen(self, lines: Iterator[Line], room: int) -> list[Line]:
        """Return the first of *lines* that fit *room*; longer ones are passed over."""
        chosen: list[Line] = []
        misses = 0
        while some := list(islice(lines, COUNTED_AT_ONCE)):
            for line in with_costs(some, self._counting):
                if line.piece.tokens <= room:
                    chosen.append(line)
                    room -= line.piece.tokens
                    misses = 0
                elif (misses := misses + 1) > MAX_MISSES:
                    return chosen
        return chosen


def _entry_line(hit: Hit) -> Line:
    source = hit.source
    piece = Piece(
        "entry",
        None,
        None,
        0,
        f"entry {hit.rank} for the question",
        str(source.entry_id),
        hit.score,
    )
    return Line(f"({prompt_line(source.category or '')}) {prompt_line(hit.text)}", piece)


def _pinned_line(entry: Entry) -> Line:
    piece = Piece("entry", None, None, 0, "pinned: in every context", str(entry.id))
    return Line(f"({prompt_line(entry.category)}) {prompt_line(entry.text)}", piece)


def _message_line(hit: Hit) -> Line:
    source = hit.source
    piece = Piece(
        "recalled",
        source.seq,
        source.seq,
        0,
        f"message {hit.rank} for the question",
        None,
        hit.score,
    )
    who = f" {source.author}" if source.author else ""
    day = iso_day(source.created_ms or 0)
    return Line(f"[{source.seq} {day}{who}] {quoted(hit.text)}", piece)
