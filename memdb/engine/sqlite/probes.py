"""
What to search a file for, to prove that a text is gone: pieces of it, and its words.

A piece is 32 bytes of the text as UTF-8: long enough to be its own, short enough
to lie on one page. A word is looked for as the full-text indexes hold it: stemmed,
and without the two letters that an index may share with the word before it.
"""

from __future__ import annotations

from memdb.engine.sqlite.transaction import Tx

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

PIECE_BYTES = 32
PIECES_PER_TEXT = 16
MIN_BYTES = 8
MAX_PIECES = 400
MIN_WORD_BYTES = 8
SHARED_BYTES = 2
MAX_WORDS = 100

# Of so much of each text words are taken.
WORDS_OF_CHARS = 20_000

CREATE_TEXTS = """/* probes.create_texts */
CREATE VIRTUAL TABLE IF NOT EXISTS texts USING fts5 (
  text, tokenize="porter unicode61 remove_diacritics 2"
)
"""

CREATE_VOCABULARY = """/* probes.create_vocabulary */
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5vocab (texts, row)
"""

INSERT_TEXT = """/* probes.insert_text */
INSERT INTO texts (text) VALUES (:text)
"""

SELECT_LONGEST = """/* probes.longest */
SELECT term FROM words
WHERE length(CAST(term AS BLOB)) >= :least
ORDER BY length(term) DESC, term
LIMIT :most
"""


class Probes:
    """
    The pieces and words of forgotten texts.

    Attributes:
        short: How many texts were too short to give one.
    """

    def __init__(self) -> None:
        """Start with none."""
        self._pieces: dict[bytes, bool] = {}
        self._stride = 1
        self._seen = 0
        self._texts: list[str] = []
        self.short = 0

    def add(self, values: Iterable[str | bytes | None], *, summary: bool = False) -> None:
        """
        Add texts, or bytes as they are stored; None and "" are nothing.

        Args:
            summary: They are of summaries: a piece that reaches over two
                messages may be in one that stays, or is written anew, too.
        """
        for value in values:
            if not value:
                continue
            data = value if isinstance(value, bytes) else value.encode()
            if isinstance(value, str):
                self._texts.append(value[:WORDS_OF_CHARS])
            if len(data) < MIN_BYTES:
                self.short += 1
                continue
            for piece in _pieces(data):
                self._keep(piece, summary=summary)

    def _keep(self, piece: bytes, *, summary: bool) -> None:
        """Keep every n-th piece; n doubles whenever there are too many."""
        self._seen += 1
        if self._seen % self._stride:
            return
        self._pieces[piece] = summary and self._pieces.get(piece, True)
        if len(self._pieces) > MAX_PIECES:
            self._pieces = dict(list(self._pieces.items())[::2])
            self._stride *= 2

    def pieces(self) -> dict[bytes, bool]:
        """Return the pieces, and whether each comes from a summary alone."""
        return self._pieces

    def words(self) -> list[bytes]:
        """Return the longest words as an index holds them, without their first two bytes."""
        from apsw import Connection

        scratch = Tx(Connection(":memory:"))
        try:
            scratch.run(CREATE_TEXTS)
            scratch.run(CREATE_VOCABULARY)
            scratch.many(INSERT_TEXT, [{"text": text} for text in self._texts])
            rows = scratch.all(SELECT_LONGEST, {"least": MIN_WORD_BYTES, "most": MAX_WORDS})
        finally:
            scratch.close()
        return [row[0].encode()[SHARED_BYTES:PIECE_BYTES] for row in rows]


def _pieces(data: bytes) -> list[bytes]:
    """Return up to 16 pieces, the first and the last among them; a short text whole."""
    last = len(data) - PIECE_BYTES
    if last <= PIECE_BYTES // 2:
        return [data]
    count = min(PIECES_PER_TEXT, -(-len(data) // PIECE_BYTES))
    starts = {last * n // (count - 1) for n in range(count)}
    return [data[start : start + PIECE_BYTES] for start in sorted(starts)]
