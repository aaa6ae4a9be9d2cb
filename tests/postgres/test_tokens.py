"""Tokens for a server's index: those of FTS5, and terms that mean what FTS5 makes of them."""

import threading
from collections import Counter
from collections.abc import Iterator

import apsw
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from query_terms import match_terms

from memdb.engine.full_text import query_of
from memdb.models.ids import MAX_SEQ
from memdb.postgres.tokens import (
    HASH_MARK,
    MAX_KEY_BYTES,
    MAX_TOKEN_BYTES,
    PART_CHARS,
    Phrase,
    beginning_of,
    block_of,
    inverted,
    is_in_row,
    key_of,
    keys_of,
    phrases_of,
    tokenize,
    tokens_by_column,
)
from memdb.text.terms import Term, begun_terms, word_terms

CREATE = """
CREATE VIRTUAL TABLE texts USING fts5 (
  text, author, bigrams, tokenize="porter unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE tokens USING fts5vocab (texts, instance);
"""
# What separates, joins, folds or is stemmed in some script.
ODD = [
    "\u200d", "\u200c", "\ufe0f", "\u0301", "\u0308", "\u093f", "\u094d", "\u0e31", "\u0e49",
    "\u05b8", "\u064e", "\u00ad", "\u00a0", "\u3000", "\u2028", "\x1f", "_", "-", "'", "’",
    "é", "İ", "ı", "ß", "ẞ", "ſ", "ﬁ", "Σ", "ς", "ё", "й", "٣", "４", "Ⅷ", "²", "½", "𝟗",
    "京", "都", "ひ", "カ", "가", "ก", "ไ", "ह", "न", "👍🏽", "👨‍👩‍👧", "🇩🇪", "\U000e0020", "\uffff",
    "\ufffd", "\ue000", "\U0010fffd", "\u0378", "ING", "running", "ational", "sses", "y", "4",
]  # fmt: skip
characters = st.one_of(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
    st.sampled_from(ODD),
    st.sampled_from(["tea", "Teas", "the ", " ", "running", "e-mail"]),
)
texts = st.lists(characters, max_size=40).map("".join)


@pytest.fixture(scope="module")
def index() -> apsw.Connection:
    """Return an index of FTS5 in memory."""
    connection = apsw.Connection(":memory:")
    for _ in connection.execute(CREATE):
        pass
    return connection


def holds(term: Term, row: dict[str, str | None]) -> bool:
    """Return whether a row holds a term."""
    return is_in_row(term, phrases_of(term), tokens_by_column(row))


def fts5_tokens(index: apsw.Connection, text: str) -> list[str]:
    """Return the tokens that FTS5 stores for a text, in order."""
    index.execute("DELETE FROM texts")
    index.execute("INSERT INTO texts (rowid, text) VALUES (1, ?)", (text,))
    rows = index.execute("SELECT CAST(term AS BLOB) FROM tokens ORDER BY offset")
    return [bytes(row[0]).decode() for row in rows]


@given(text=texts)
@example("हिन्दी भाषा है")
@example("ไปกินข้าวที่บ้าน")
@example("👨‍👩‍👧 123 １２３ Ⅷ x²")
@example("caféбар naïve ẞtraße İstanbul ﬁne ſtop")
@example("relational conditional hopping troubled agreed sky")
def test_tokens_are_those_of_fts5(index: apsw.Connection, text: str) -> None:
    """In every script, and in order."""
    assert tokenize(text) == fts5_tokens(index, text)


def test_characters_are_folded_as_fts5_does(index: apsw.Connection) -> None:
    """All of the small scripts, and some of the large ones, alone and between letters."""
    every = [*range(1, 0x3400), *range(0x3400, 0x1F000, 37), *range(0x1F000, 0x20000)]
    every = [one for one in every if not 0xD800 <= one < 0xE000]
    text = "".join(f"{chr(one)} a{chr(one)}b " for one in [*every, *range(0x20000, 0x10FFFF, 997)])

    assert tokenize(text) == fts5_tokens(index, text)


@given(
    text=texts,
    author=texts,
    words=st.lists(texts.filter(bool), min_size=1, max_size=3),
    prefix=st.booleans(),
    fields=st.sampled_from([(), ("text",), ("author",)]),
)
def test_a_term_is_in_the_rows_that_fts5_finds(
    index: apsw.Connection,
    text: str,
    author: str,
    words: list[str],
    prefix: bool,
    fields: tuple[str, ...],
) -> None:
    """Whatever its words are made of: phrases, beginnings, fields, and words without a token."""
    row = {"text": text, "author": author, "bigrams": None}
    index.execute("DELETE FROM texts")
    index.execute("INSERT INTO texts (rowid, text, author) VALUES (1, ?, ?)", (text, author))
    found = text.split()
    for term in (
        Term(tuple(words), prefix=prefix, fields=fields),
        Term(tuple(words[:1]), prefix=prefix, any_of=tuple(words[1:]), fields=fields),
        Term(tuple(found[:2]), prefix=prefix, fields=fields),
        *match_terms(text),
        *begun_terms(word_terms(found), text),
    ):
        rows = index.execute("SELECT rowid FROM texts WHERE texts MATCH ?", (query_of(term),))
        assert holds(term, row) == (rows.fetchone() is not None), term


@given(rows=st.lists(st.tuples(texts, st.none() | texts), max_size=5))
@example([("a" * 90 + "京" * MAX_TOKEN_BYTES, None), ("京" * 200, "b")])
@example([("", None), ("running", "runs"), ("", "")])
def test_rows_are_inverted_as_they_are_one_by_one(rows: list[tuple[str, str | None]]) -> None:
    """Each key names the rows that hold it, once and in order; keys are in order too."""
    expected: dict[bytes, list[int]] = {}
    for number, row in enumerate(rows):
        for key in keys_of(row):
            expected.setdefault(key.encode(), []).append(number)
    keys, numbers = inverted(rows)
    left = numbers.tolist()
    found = {}
    for key, count in keys:
        found[key], left = left[:count], left[count:]

    assert found == expected
    assert not left
    assert len(found) == len(keys)


def test_what_is_written_back_does_not_grow_with_a_scope() -> None:
    """No list has more than 2,048 ids, and 16 short sessions share theirs, whatever is in a scope."""
    for kind, refs in {
        "message": (
            [5 << 44 | session << 24 | seq for session in range(40) for seq in range(1, 700)]
            + [5 << 44 | 3 << 24 | seq for seq in range(1, 20_000)]
        ),
        "session": [5 << 44 | session << 24 for session in range(9_000)],
        "entry": [5 << 44 | number for number in range(9_000)],
    }.items():
        blocks = Counter(block_of(kind, ref) for ref in {*refs})
        assert max(blocks.values()) <= 2_048, kind
        assert len({block_of(kind, ref) for ref in refs if ref & MAX_SEQ < 128}) <= 5, kind


def test_an_index_forgets_rows_that_were_refused() -> None:
    """An error leaves nothing behind for the next rows."""

    def failing() -> Iterator[tuple[str]]:
        yield ("tea",)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        inverted(failing())

    assert inverted([("milk",)])[0] == [(b"milk", 1)]


@given(text=texts, author=texts, term=texts.filter(bool), prefix=st.booleans())
def test_the_keys_of_a_row_leave_no_match_out(
    text: str,
    author: str,
    term: str,
    prefix: bool,
) -> None:
    """A row that holds a term has the keys of all its tokens, or one that begins so."""
    row = {"text": text, "author": author}
    keys = keys_of(row.values())
    for one in (Term((term,), prefix=prefix), Term((text[:3],), prefix=prefix)):
        if holds(one, row):
            assert any(
                keys.issuperset(map(key_of, phrase.whole))
                and (
                    not phrase.prefix
                    or any(key.startswith(beginning_of(phrase.tokens[-1])) for key in keys)
                )
                for phrase in phrases_of(one)
            )


@pytest.mark.parametrize(
    ("tokens", "prefix", "column", "expected"),
    [
        (("a", "b"), False, "a b", True),
        (("a", "b"), False, "b a", False),
        (("a", "b"), False, "a a b", True),
        (("a", "b"), False, "a bc", False),
        (("a", "b"), True, "a bc", True),
        (("b",), True, "abc", False),
        (("a", "b", "c"), False, "a b", False),
        ((), False, "a", False),
        (("a",), False, "", False),
    ],
)
def test_a_phrase_is_tokens_side_by_side(
    tokens: tuple[str, ...],
    prefix: bool,
    column: str,
    expected: bool,
) -> None:
    """In their order; of the last one only the beginning, if so."""
    assert Phrase(tokens, prefix=prefix).is_in(column.split()) is expected


@pytest.mark.parametrize(
    "token", ["a" * 100, "a" * MAX_KEY_BYTES, "京" * 133, "京" * 134, "a" * 401, "𝟗" * 20_000]
)
def test_a_key_has_a_limit(token: str) -> None:
    """A longer token is a beginning and a hash, which differ where tokens do."""
    key = key_of(token)

    assert len(key.encode()) <= MAX_KEY_BYTES
    assert key.startswith(beginning_of(token))
    assert (key == token) == (len(token.encode()) <= MAX_KEY_BYTES) == (HASH_MARK not in key)
    assert key_of("a" + token) != key
    assert key_of(token[:-1] + "b") != key or len(token.encode()) > MAX_TOKEN_BYTES


def test_a_long_text_is_tokenized_in_parts(index: apsw.Connection) -> None:
    """Cut at spaces, so that no word is."""
    text = "running teas 京都 " * (3 * PART_CHARS // 16) + "x" * 2_000_000 + " end"

    assert len(text) > 4 * PART_CHARS
    parts = tokenize(text)
    assert parts[-3:] == ["京都", "x" * 2_000_000, "end"]
    assert len(parts) == 3 * (3 * PART_CHARS // 16) + 2


def test_threads_have_tokenizers_of_their_own() -> None:
    """Their results do not mix."""
    found: dict[int, set[tuple[str, ...]]] = {}

    def work(number: int) -> None:
        text = f"running number{number} " * 50
        found[number] = {tuple(tokenize(text)) for _ in range(200)}

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert found == {n: {("run", f"number{n}") * 50} for n in range(4)}
