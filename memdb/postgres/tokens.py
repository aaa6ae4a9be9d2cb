"""
Tokens of texts and terms, made by FTS5's own tokenizer in this process.

The index of a server contains the same tokens as that of a file: both come from `porter unicode61
remove_diacritics 2`. The tokens of a term are those that FTS5 makes of its query
(`memdb.engine.full_text.query_of`).
"""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from struct import Struct
from threading import local
from typing import TYPE_CHECKING, Any

from apsw import Connection

from memdb.engine.full_text import COLUMNS
from memdb.models.ids import MAX_SEQ, SCOPE_SHIFT, SESSION_NO_MASK, SESSION_SHIFT
from memdb.models.record import Record
from memdb.postgres.binary import SIZE, row_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apsw import FTS5Tokenizer

    from memdb.text.terms import Term


# FTS5 cuts longer tokens.
MAX_TOKEN_BYTES = 32_768

# A key of an index has its limit there: a longer token is its beginning and a hash.
MAX_KEY_BYTES = 400
HASH_MARK = "\x01"  # no token holds it

# A text is tokenized in parts of so many characters, each up to a space: the tokens of a book
# take ten times its memory.
PART_CHARS = 1 << 20

# What FTS5 says to a tokenizer of the purpose.
DOCUMENT, QUERY, PREFIX = 4, 1, 2

# The index of one load, in memory: which of its texts hold each token. Numbers of texts are
# characters from 65,536 on: those before it lack some.
INDEX = """
CREATE VIRTUAL TABLE texts USING fts5 (
  text,
  content = '',
  detail = none,
  columnsize = 0,
  tokenize = 'porter unicode61 remove_diacritics 2'
);
INSERT INTO texts (texts, rank) VALUES ('hashsize', 33554432);
CREATE VIRTUAL TABLE tokens USING fts5vocab (texts, row);
CREATE VIRTUAL TABLE places USING fts5vocab (texts, instance);
"""
INSERT_TEXT = "INSERT INTO texts (rowid, text) VALUES (?, ?)"
SELECT_TOKENS = "SELECT CAST(term AS BLOB), doc FROM tokens"

# The rows of all tokens in turn. To group them by their token would take twice as long.
SELECT_PLACES = "SELECT group_concat(char(doc + 65536), '') FROM places"

# The characters from 65,536 on as numbers of this machine; the lower half counts.
CHARACTERS = f"utf-32-{sys.byteorder[0]}e"
LOWER_HALF = slice(0 if sys.byteorder == "little" else 1, None, 2)

_own = local()


class Phrase(Record):
    """
    Tokens next to each other in one column.

    Attributes:
        tokens: In order; () matches nothing.
        prefix: Whether the last one is only the beginning of a token.
    """

    tokens: tuple[str, ...]
    prefix: bool = False

    @property
    def whole(self) -> tuple[str, ...]:
        """The tokens that are not only a beginning."""
        return self.tokens[:-1] if self.prefix else self.tokens

    def is_in(self, tokens: Sequence[str]) -> bool:
        """Return whether the tokens of a column contain the phrase."""
        size = len(self.tokens)
        if not size:
            return False
        *rest, last = self.tokens
        for place in range(len(tokens) - size + 1):
            end = tokens[place + size - 1]
            is_last = end.startswith(last) if self.prefix else end == last
            if is_last and all(map(str.__eq__, rest, tokens[place:])):
                return True
        return False


def tokenize(text: str, purpose: int = DOCUMENT) -> list[str]:
    """Return the tokens of *text*, in order. Cost: 0.2 µs per token."""
    tokenizer = _tokenizer()
    tokens: list[str] = []
    for part in _parts(text):
        tokens += tokenizer(  # type: ignore[arg-type] # texts alone, if nothing else is asked for
            part.encode(), purpose, None, include_offsets=False, include_colocated=False
        )
    return tokens


def _tokenizer() -> FTS5Tokenizer:
    """Return the tokenizer of this thread, which has its own buffer."""
    found: FTS5Tokenizer | None = getattr(_own, "tokenizer", None)
    if found is None:
        memory = Connection(":memory:")
        found = memory.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        _own.tokenizer = found
    return found


def _index() -> Connection:
    """Return the empty index of this thread."""
    found: Connection | None = getattr(_own, "index", None)
    if found is None:
        found = Connection(":memory:")
        found.execute(INDEX)
        _own.index = found
    return found


def inverted(rows: Iterable[Sequence[str | None]]) -> tuple[list[tuple[bytes, int]], array[int]]:
    """
    Return the rows that contain each token: (key, number of rows), then their numbers in turn.

    Args:
        rows: The columns of each row; 65,536 rows at most, numbered from 0.

    Cost: 10 µs per row and 0.3 µs per number.
    """
    memory = _index()
    texts = ("\n".join([column for column in row if column]) for row in rows)
    memory.execute("BEGIN")
    try:
        memory.executemany(INSERT_TEXT, enumerate(texts))
        found: Any = memory.execute(SELECT_TOKENS).fetchall()
        ((places,),) = memory.execute(SELECT_PLACES)
    finally:
        memory.execute("ROLLBACK")
    keys = [(stored_key(token), count) for token, count in found]
    return keys, array("H", (places or "").encode(CHARACTERS))[LOWER_HALF]


def _parts(text: str) -> Iterable[str]:
    if len(text) <= PART_CHARS:
        return (text,)
    parts, start = [], 0
    while start < len(text):
        end = text.find(" ", start + PART_CHARS)
        end = len(text) if end < 0 else end
        parts.append(text[start:end])
        start = end
    return parts


def keys_of(columns: Iterable[str | None]) -> set[str]:
    """Return the keys of all tokens of a row, given its columns."""
    found: set[str] = set()
    for column in columns:
        if column is not None:
            found.update(tokenize(column))
    if found and max(map(len, found)) > MAX_KEY_BYTES // 4:
        return {key_of(token) for token in found}
    return found


def key_of(token: str) -> str:
    """Return the form of a token in the index: itself, or a hash of a long one."""
    if len(token) <= MAX_KEY_BYTES // 4:
        return token
    return stored_key(token.encode()).decode()


def stored_key(token: bytes) -> bytes:
    """Return `key_of` for a token in UTF-8 that FTS5 may have cut within a character."""
    if len(token) <= MAX_KEY_BYTES:
        return token
    digest = blake2b(token[:MAX_TOKEN_BYTES], digest_size=16).hexdigest()
    beginning = token[: MAX_KEY_BYTES - 40].decode(errors="ignore")
    return f"{beginning}{HASH_MARK}{digest}".encode()


def beginning_of(token: str) -> str:
    """Return the part of a token with which each of its keys begins."""
    return token.encode()[: MAX_KEY_BYTES - 40].decode(errors="ignore")


def phrases_of(term: Term) -> list[Phrase]:
    """Return the phrases of a term. A row must contain one of them; see `query_of`."""
    purpose = QUERY | PREFIX if term.prefix else QUERY
    first = Phrase(tuple(tokenize(" ".join(term.words), purpose)), prefix=term.prefix)
    others = [Phrase(tuple(tokenize(other, QUERY))) for other in term.any_of]
    return [phrase for phrase in (first, *others) if phrase.tokens]


def tokens_by_column(row: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the tokens of each column of a row, given by name."""
    return {name: tokenize(text) for name, text in row.items() if text}


def is_in_row(term: Term, phrases: Iterable[Phrase], row: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a row contains a term, given its phrases and `tokens_by_column`."""
    fields = {name for field in term.fields for name in COLUMNS.get(field, field).split()}
    columns = [tokens for name, tokens in row.items() if not fields or name in fields]
    return any(phrase.is_in(column) for column in columns for phrase in phrases)


# A list is for 16 sessions and the same 128 messages of each; of other kinds for 2,048 numbers. So
# what an append writes back stays small in a large scope, and short sessions share (ADR-0032).
SESSION_BITS, SEQ_BITS = 4, 7
NUMBER_BITS = 11
PART_BITS = SESSION_SHIFT - SEQ_BITS  # what of a block's number says which part of its sessions


# Every archived message has this key too: its row says nothing of what it held.
EVERY = "\x01"


class NewLists:
    """
    Lists that are collected in memory before they are stored.

    Attributes:
        kind: Kind of their rows.
        size: Length of all texts, in characters.
    """

    __slots__ = ("_blocks", "kind", "size")

    def __init__(self, kind: str) -> None:
        """Begin with none."""
        self.kind = kind
        self.size = 0
        self._blocks: dict[int, list[tuple[int, Sequence[str | None]]]] = {}

    def add(self, ref: int, columns: Sequence[str | None]) -> None:
        """Add the row *ref* with its texts; refs must rise."""
        self._blocks.setdefault(block_of(self.kind, ref), []).append((ref, columns))
        self.size += sum([len(column) for column in columns if column])

    def sorted(self) -> list[tuple[bytes, int, bytes]]:
        """Return (key, block, list) in the order of the index."""
        found = []
        for block, rows in self._blocks.items():
            refs = [ref.to_bytes(8, "big")[2:] for ref, _ in rows]  # as `packed` has them
            if self.kind == "archived":
                found.append((EVERY.encode(), block, b"".join(refs)))
            keys, numbers = inverted([columns for _, columns in rows])
            data, start = b"".join(map(refs.__getitem__, numbers)), 0
            for key, count in keys:
                end = start + 6 * count
                found.append((key, block, data[start:end]))
                start = end
        found.sort()
        return found


def block_of(kind: str, ref: int) -> int:
    """Return in which lists of its scope and kind the row *ref* is."""
    if kind in ("message", "archived"):
        session_no = ref >> SESSION_SHIFT & SESSION_NO_MASK
        return session_no >> SESSION_BITS << PART_BITS | (ref & MAX_SEQ) >> SEQ_BITS
    if kind == "session":
        return (ref >> SESSION_SHIFT & SESSION_NO_MASK) >> NUMBER_BITS
    return (ref & (1 << SCOPE_SHIFT) - 1) >> NUMBER_BITS


def copied_rows(scope_no: int, kind: int, lists: Iterable[tuple[bytes, int, bytes]]) -> list[bytes]:
    """Return the result of `NewLists.sorted` as rows of `words` in the binary format of COPY."""
    start = row_of(5, scope_no.to_bytes(4, "big"), kind.to_bytes(2, "big"))
    size, block_and_size = SIZE.pack, Struct("!iqi").pack
    rows = []
    for key, block, data in lists:
        rest = block_and_size(8, block, len(data))
        rows.append(b"".join((start, size(len(key)), key, rest, data)))
    return rows


def packed(refs: list[int]) -> bytes:
    """Return ids as a list stores them: the last 6 bytes of each."""
    return b"".join([ref.to_bytes(8, "big")[2:] for ref in refs])


def refs_of(scope_no: int, data: bytes) -> list[int]:
    """Return the ids of *scope_no* from the result of `packed`. Cost: 25 ns for each."""
    count = len(data) // 6
    whole = bytearray(8 * count)
    start = (scope_no << SCOPE_SHIFT).to_bytes(8, "big")
    for place in range(2):
        whole[place::8] = start[place : place + 1] * count
    for place in range(6):
        whole[place + 2 :: 8] = data[place::6]
    refs = array("q", bytes(whole))
    if sys.byteorder == "little":
        refs.byteswap()
    return refs.tolist()
