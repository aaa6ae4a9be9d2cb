"""
What is found for a question: long-term entries and older messages, word for word.
"""

from __future__ import annotations

from itertools import islice

from memdb.record import Record
from memdb.shortterm.blocks import RECALLED, Block, Line, block, frame_tokens, quoted, with_costs
from memdb.summary_models import Piece
from memdb.text.times import iso_day

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.models import Hit
    from memdb.owner import Owner
    from memdb.text.counting import Counting

    Recall = Callable[..., list[Hit]]

# Hits that are asked for: one for so many tokens of the budget, twice what fits as
# a rule, since those of the tail are there already.
TOKENS_PER_HIT = 40
LEAST_MESSAGES = 20
MOST_MESSAGES = 200
MOST_ENTRIES = 20

# Of the block, for entries: they are short, and facts that were thought worth keeping.
ENTRIES_PER_MILLE = 250

# Hits in a row that are too long for what is left, after which no more are tried.
MAX_MISSES = 8

# Lines that are counted in one call: most hits are never looked at.
COUNTED_AT_ONCE = 32


class Found(Record):
    """The hits for a question, each kind best first."""

    entries: tuple[Hit, ...]
    messages: tuple[Hit, ...]

    @property
    def nothing(self) -> bool:
        """Whether nothing was found at all."""
        return not (self.entries or self.messages)


class Excerpts:
    """Finds what a question is about, and words it for a context."""

    def __init__(self, counting: Counting, recall: Recall) -> None:
        """Count by *counting*, find by *recall* (as `Recaller.recall`)."""
        self._counting = counting
        self._recall = recall

    def find(self, owner: Owner, session: str, query: str, budget_tokens: int) -> Found:
        """Return what matches: entries of the scope, and messages of the session."""
        most = min(max(budget_tokens // TOKENS_PER_HIT, LEAST_MESSAGES), MOST_MESSAGES)
        entries = self._recall(owner, query, MOST_ENTRIES, kinds=("entry",))
        said = self._recall(owner, query, most, kinds=("message",), session=session)
        return Found(tuple(entries), tuple(said))

    def block(self, found: Found, known: set[int], limit: int, session: str) -> Block | None:
        """
        Return the best of *found* within *limit* tokens, in the order it was said.

        None where nothing was found that is not *known* (seqs that are in the
        context anyway), or nothing fits.
        """
        room = limit - frame_tokens(RECALLED, self._counting) - 1
        if room <= 0:
            return None
        most = room * ENTRIES_PER_MILLE // 1000
        entries = self._chosen(map(_entry_line, found.entries), most)
        room -= sum(line.piece.tokens for line in entries)
        said = (hit for hit in found.messages if hit.source.seq not in known)
        told = self._chosen(map(_message_line, said), room)
        if not entries and not told:
            return None
        told.sort(key=lambda line: line.piece.first_seq or 0)
        while True:
            made = block([*entries, *told], RECALLED, self._counting, session)
            if made.tokens <= limit or not (entries or told):
                return made if entries or told else None
            (told or entries).pop()

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
    return Line(f"({source.category}) {quoted(hit.text)}", piece)


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
