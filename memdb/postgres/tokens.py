"""
Tokens of texts and of terms, made by FTS5's own tokenizer in this process.

The index of a server holds the tokens that a file's index holds: both come from
`porter unicode61 remove_diacritics 2`. What a term asks for is what FTS5 makes of its query
(`memdb.engine.full_text.query_of`).
"""

from __future__ import annotations

import sys
from array import array
from hashlib import blake2b
from threading import local
from typing import TYPE_CHECKING, Any

from memdb.engine.full_text import COLUMNS
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from apsw import Connection, FTS5Tokenizer

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

# The characters from 65,536 on as numbers of this machine, of which the lower half counts.
CHARACTERS = f"utf-32-{sys.byteorder[0]}e"
LOWER_HALF = slice(0 if sys.byteorder == "little" else 1, None, 2)

_own = local()


class Phrase(Record):
    """
    Tokens that stand side by side in one column.

    Attributes:
        tokens: In order; () is found nowhere.
        prefix: The last one is only the beginning of a token.
    """

    tokens: tuple[str, ...]
    prefix: bool = False

    @property
    def whole(self) -> tuple[str, ...]:
        """The tokens that are no beginning."""
        return self.tokens[:-1] if self.prefix else self.tokens

    def is_in(self, tokens: Sequence[str]) -> bool:
        """Return whether the tokens of a column hold the phrase."""
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
    """Return the tokenizer of this thread: it has a buffer of its own."""
    found: FTS5Tokenizer | None = getattr(_own, "tokenizer", None)
    if found is None:
        from apsw import Connection

        memory = Connection(":memory:")
        found = memory.fts5_tokenizer("porter", ["unicode61", "remove_diacritics", "2"])
        _own.tokenizer = found
    return found


def _index() -> Connection:
    """Return the empty index of this thread."""
    found: Connection | None = getattr(_own, "index", None)
    if found is None:
        from apsw import Connection

        found = Connection(":memory:")
        found.execute(INDEX)
        _own.index = found
    return found


def inverted(rows: Iterable[Sequence[str | None]]) -> tuple[list[tuple[bytes, int]], array[int]]:
    """
    Return which of some rows hold each token: (key, how many), and the numbers for all in turn.

    Args:
        rows: Their columns; 65,536 rows at most, numbered from 0.

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
    """Return what the index holds for a token: itself, or a hash of a long one."""
    if len(token) <= MAX_KEY_BYTES // 4:
        return token
    return stored_key(token.encode()).decode()


def stored_key(token: bytes) -> bytes:
    """Return `key_of` a token in UTF-8, which FTS5 may have cut within a character."""
    if len(token) <= MAX_KEY_BYTES:
        return token
    digest = blake2b(token[:MAX_TOKEN_BYTES], digest_size=16).hexdigest()
    beginning = token[: MAX_KEY_BYTES - 40].decode(errors="ignore")
    return f"{beginning}{HASH_MARK}{digest}".encode()


def beginning_of(token: str) -> str:
    """Return as much of a token as every key that stands for it begins with."""
    return token.encode()[: MAX_KEY_BYTES - 40].decode(errors="ignore")


def phrases_of(term: Term) -> list[Phrase]:
    """Return the phrases of a term, of which any counts; see `query_of`."""
    purpose = QUERY | PREFIX if term.prefix else QUERY
    first = Phrase(tuple(tokenize(" ".join(term.words), purpose)), prefix=term.prefix)
    others = [Phrase(tuple(tokenize(other, QUERY))) for other in term.any_of]
    return [phrase for phrase in (first, *others) if phrase.tokens]


def tokens_by_column(row: Mapping[str, str | None]) -> dict[str, list[str]]:
    """Return the tokens of each column of a row, given by name."""
    return {name: tokenize(text) for name, text in row.items() if text}


def is_in_row(term: Term, phrases: Iterable[Phrase], row: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a row holds a term, given its phrases and `tokens_by_column`."""
    fields = {name for field in term.fields for name in COLUMNS.get(field, field).split()}
    columns = [tokens for name, tokens in row.items() if not fields or name in fields]
    return any(phrase.is_in(column) for column in columns for phrase in phrases)
