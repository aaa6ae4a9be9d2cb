"""
Rows that remain after something was forgotten and contain parts of it.

If a row of the same scope contains a text, that row is named. Rows of other scopes are not
reported, because that would show one user the words of another.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from memdb.engine.text_rows import (
    SELECT_SEGMENTS,
    WORDS_AT_ONCE,
    inflated,
    name_place,
    rows_holding,
    text_rows,
)
from memdb.models.ids import MAX_INT, scope_range
from memdb.rescue.byte_search import ByteSearch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from memdb.engine.base import Tx
    from memdb.engine.text_rows import TextRow
    from memdb.text.terms import Term

MAX_PLACES = 10

# Rows that are searched together.
SEARCHED_BYTES = 256 << 10

SELECT_CHUNKS = """/* remaining.chunks */
SELECT blob_no, chunk_no, codec, data FROM blob_chunks
WHERE (blob_no, chunk_no) > (:blob_no, :chunk_no)
ORDER BY blob_no, chunk_no
LIMIT 20
"""

# What belongs to no scope.
SELECT_COMMON = """/* remaining.common */
SELECT key || char(10) || value FROM meta
UNION ALL
SELECT name || char(10) || value FROM settings
UNION ALL
SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL
UNION ALL
SELECT model FROM embedding_spaces
UNION ALL
SELECT summarizer || char(10) || counter
FROM (SELECT DISTINCT summarizer, counter FROM summaries)
UNION ALL
SELECT counter FROM (SELECT DISTINCT counter FROM messages WHERE counter IS NOT NULL)
"""


class Remaining:
    """
    Rows that contain some byte strings, or the words of a query.

    Attributes:
        said: Strings that a row of the own scopes contains. A summary may contain only those that
            come from summaries.
        summarized: Other strings that a summary of the own scopes contains: they stayed in it.
        places: Some of the rows that contain one, by name.
        still: Rows of the own scopes that contain every word.
    """

    def __init__(
        self,
        wanted: Iterable[bytes],
        of_summaries: set[bytes],
        asked: list[Term],
        scopes: Sequence[int],
    ) -> None:
        """Look for *wanted*, those *of_summaries* also in summaries, and the words *asked*."""
        self._search = ByteSearch(wanted)
        self._of_summaries = of_summaries
        self._asked = asked
        self._own = [scope_range(one) for one in sorted(scopes)]
        self.said: set[bytes] = set()
        self.summarized: set[bytes] = set()
        self.places: dict[str, None] = {}
        self.still: dict[str, None] = {}

    def read_own(self, tx: Tx) -> None:
        """Read the rows of the own scopes, twice if words are searched. Cost: 5 µs per row."""
        batch: list[TextRow] = []
        size = 0
        for row in chain.from_iterable(text_rows(tx, *one) for one in self._own):
            batch.append(row)
            size += len(row[2])
            if size > SEARCHED_BYTES or len(batch) >= WORDS_AT_ONCE:
                self._note(tx, batch)
                batch, size = [], 0
        self._note(tx, batch)
        held = (rows_holding(tx, *one, self._asked) for one in self._own)
        for row_id, ref, _ in chain.from_iterable(held):
            self.still[name_place(tx, ref, row_id)] = None
            if len(self.still) >= MAX_PLACES:
                break
        self.summarized -= self.said

    def said_by_others(self, tx: Tx, wanted: set[bytes]) -> set[bytes]:
        """
        Return the *wanted* strings that rows of other scopes contain.

        Stop when all are found.
        """
        found: set[bytes] = set()
        common = ((0, ("",), text.encode()) for (text,) in tx.all(SELECT_COMMON))
        lows = [0, *(high + 1 for _, high in self._own)]
        highs = [*(low - 1 for low, _ in self._own), MAX_INT]
        others = (text_rows(tx, *span) for span in zip(lows, highs, strict=True))
        for _, ref, text in chain(common, *others):
            for one in wanted - found:
                if one in text and (ref[0] != "summary" or one in self._of_summaries):
                    found.add(one)
            if len(found) == len(wanted):
                break
        return found

    def _note(self, tx: Tx, batch: list[TextRow]) -> None:
        held = self._search.find(b"\n".join([text for _, _, text in batch]))
        for row_id, ref, text in batch if held else ():
            here = {one for one in held - self.said if one in text}
            if ref[0] == "summary":
                self.summarized |= here - self._of_summaries
                here &= self._of_summaries
            if here and len(self.places) < MAX_PLACES:
                self.places[name_place(tx, ref, row_id)] = None
            self.said |= here


def unpacked(tx: Tx) -> Iterator[tuple[str, bytes]]:
    """Yield the contents of every archive segment and artifact chunk, used or not."""
    after_segment, after_chunk = {"session": 0, "first_seq": 0}, {"blob_no": 0, "chunk_no": -1}
    for _, _, data, codec in chain.from_iterable(tx.pages(SELECT_SEGMENTS, after_segment)):
        yield "archive", inflated(codec, data)
    for _, _, codec, data in chain.from_iterable(tx.pages(SELECT_CHUNKS, after_chunk)):
        yield "artifacts", inflated(codec, data)
