"""Words, stop words, pairs and FTS5 terms, checked against a real FTS5 table."""

import random
from collections.abc import Iterator

import apsw
import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st
from query_terms import match_terms

from memdb.engine.full_text import query_of
from memdb.text.terms import (
    MAX_TERMS,
    STOP_WORDS,
    Term,
    cjk_grams,
    content_words,
    has_cjk,
    query_words,
    word_terms,
)

CREATE_INDEX = """/* test.create_index */ CREATE VIRTUAL TABLE words USING fts5(
    text, author, bigrams, tokenize = 'porter unicode61 remove_diacritics 2')"""
INSERT_ROW = "/* test.insert */ INSERT INTO words(rowid, text, bigrams) VALUES (:id, :text, :grams)"
FIND_ROWS = (
    "/* test.find */ SELECT rowid FROM words WHERE words MATCH :term AND rowid BETWEEN 1 AND 99"
)

HOSTILE = (
    "\"'`*^():-+{}[]\\.,;!?~#@/|&%$=<> \t\n\0\ud800\udfff\u200b\ufeff\uffff\u0301\u0130\u00df"
    "\u2019\u0e31\u0e48ก猫京都ガ한กข\u3099\U0001f600\U00020000\U0010ffff\u0939\u093f\u1780\u17c1"
    "aAbBzZ019_éÉñ"
)
OPERATORS = ("AND", "OR", "NOT", "NEAR(a,3)", "rowid", "text:", "^", '""', "--", "{a}:")

TEXTS = (
    "She cooks in a Café",
    "京都駅に着いた",
    "我的iPhone手机",
    "ฉันกินข้าวแล้ว",
    "मैं हिन्दी बोलता हूँ",
    "ตา",
)


@pytest.fixture
def index() -> Iterator[apsw.Connection]:
    """Yield a connection with an empty table `words` like the real index."""
    connection = apsw.Connection(":memory:")
    connection.execute(CREATE_INDEX)
    yield connection
    connection.close()


def found(index: apsw.Connection, query: str) -> set[int]:
    """Return the rows that match any term of *query*."""
    return {
        row[0]
        for term in match_terms(query)
        for row in index.execute(FIND_ROWS, {"term": query_of(term)})
    }


def put(index: apsw.Connection, *texts: str) -> None:
    """Insert *texts* as rows 1, 2, 3 ..., as the store does."""
    for number, text in enumerate(texts, start=1):
        index.execute(INSERT_ROW, {"id": number, "text": text, "grams": cjk_grams(text)})


@each(
    "text, words",
    [
        pytest.param("", [], id="empty"),
        pytest.param("Green TEA", ["green", "tea"], id="lower"),
        pytest.param("tea, Tea; TEA!", ["tea"], id="once"),
        pytest.param("Ann's", ["ann"], id="possessive"),
        pytest.param("Ann\u2019s and they\u2019ll", ["ann", "and", "they"], id="curly"),
        pytest.param("don't I'm you're we've she'd", ["don", "i", "you", "we", "she"], id="short"),
        pytest.param("O'Brien's rock'n'roll", ["o", "brien", "rock", "n", "roll"], id="inner"),
        pytest.param("snake_case a-b c.d", ["snake", "case", "a", "b", "c", "d"], id="separators"),
        pytest.param("3.5 km 2023-05-03", ["3", "5", "km", "2023", "05", "03"], id="numbers"),
        pytest.param("Cafe\u0301 CAF\u00c9", ["caf\u00e9"], id="composed"),
        pytest.param("a\0b\ud800c", ["a", "b", "c"], id="nul and surrogate"),
        pytest.param("हिन्दी भाषा।", ["हिन्दी", "भाषा"], id="marks stay inside"),
        pytest.param("iPhone手机 x", ["iphone", "手机", "x"], id="glued"),
        pytest.param("京都に行く。東京", ["京都に行く", "東京"], id="runs"),
        pytest.param("!!! __ …", [], id="no word"),
        pytest.param("ok👍🏽👍 ❤️🇳🇴", ["ok", "👍", "❤", "🇳🇴"], id="emoji"),
        pytest.param("👩\u200d👧", ["👩", "👧"], id="family"),
        pytest.param("caféбар Приветworld1", ["café", "бар", "привет", "world1"], id="two scripts"),
    ],
)
def test_query_words(text: str, words: list[str]) -> None:
    """Words are lower case, unique, in order, and cut where unicode61 cuts."""
    assert query_words(text) == words


def test_content_words_drops_stop_words() -> None:
    """Stop words go as long as something else remains."""
    assert content_words(["what", "does", "ann", "drink"]) == ["ann", "drink"]


def test_content_words_keeps_all_when_only_stop_words() -> None:
    """A question of stop words alone is searched as it is."""
    assert content_words(["who", "are", "you"]) == ["who", "are", "you"]


def test_content_words_of_nothing() -> None:
    """No words stay no words."""
    assert content_words([]) == []


def test_stop_words_are_what_query_words_makes() -> None:
    """Each stop word can be met: it is one lower-case word."""
    assert [word for word in sorted(STOP_WORDS) if query_words(word) != [word]] == []


@each(
    "text, grams",
    [
        pytest.param("", "", id="empty"),
        pytest.param("plain ascii", "", id="ascii"),
        pytest.param("Grün, été, Привет, שלו", "gruen", id="spaced scripts"),
        pytest.param("猫", "猫", id="one character"),
        pytest.param("我爱北京", "我爱 爱北 北京 京", id="run"),
        pytest.param("我爱，北京", "我爱 爱 北京 京", id="punctuation cuts"),
        pytest.param("iPhone手机 and tea", "iphone 手机 机", id="glued word"),
        pytest.param("用Python写code", "用 python 写 code", id="glued on both sides"),
        pytest.param("カ\u3099ス", "ガス ス", id="composed first"),
        pytest.param("กินข้าว", "กน นข ขา าว ว", id="thai without signs"),
        pytest.param("한국어 공부", "한국 국어 어 공부 부", id="korean"),
        pytest.param("\u0e31", "", id="only a sign"),
        pytest.param("猫\0犬\ud800鳥", "猫 犬 鳥", id="nul and surrogate"),
    ],
)
def test_cjk_grams(text: str, grams: str) -> None:
    """The second column holds pairs, last characters and glued words, and nothing else."""
    assert cjk_grams(text) == grams


def test_has_cjk() -> None:
    """Only scripts without spaces between words count."""
    assert [has_cjk(text) for text in ("tea", "thé", "чай", "茶", "ชา", "차")] == [
        False,
        False,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        pytest.param("", [], id="empty"),
        pytest.param("Where is Kyoto?", [Term(("kyoto",))], id="content only"),
        pytest.param(
            "to be or not to be",
            [Term((word,)) for word in ("to", "be", "or", "not")],
            id="stop words only",
        ),
        pytest.param("猫", [Term(("猫",), prefix=True)], id="one character"),
        pytest.param("京都市", [Term(("京都",)), Term(("都市",))], id="pairs"),
        pytest.param(
            "tea OR NOT milk*", [Term(("tea",)), Term(("milk",))], id="operators are words"
        ),
        pytest.param("\u0e31 \u0e48", [], id="only signs"),
    ],
)
def test_match_terms(text: str, terms: list[Term]) -> None:
    """Each content word becomes one term, each run its pairs."""
    assert match_terms(text) == terms


def test_match_terms_stops_at_the_limit() -> None:
    """A page of text as query costs a bounded number of statements."""
    text = " ".join(f"word{number}" for number in range(500))

    assert len(match_terms(text)) == MAX_TERMS == 64
    assert len(match_terms("京都" * 300 + "市", limit=1)) == 1
    assert word_terms(["a", "b", "c"], limit=2) == [Term(("a",)), Term(("b",))]


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        pytest.param("cooking", {1}, id="stem"),
        pytest.param("CAFE", {1}, id="without accent"),
        pytest.param("café", {1}, id="with accent"),
        pytest.param("京", {2}, id="first character"),
        pytest.param("都", {2}, id="inner character"),
        pytest.param("駅", {2}, id="last character"),
        pytest.param("京都大学", {2}, id="partly matching run"),
        pytest.param("iphone", {3}, id="glued word"),
        pytest.param("手机", {3}, id="run beside a word"),
        pytest.param("กินข้าว", {4}, id="thai"),
        pytest.param("हिन्दी", {5}, id="hindi"),
        pytest.param("ตา", {6}, id="thai pair"),
        pytest.param("犬", set(), id="absent"),
    ],
)
def test_terms_find_the_text(index: apsw.Connection, query: str, rows: set[int]) -> None:
    """What is written with `cjk_grams` is found by `match_terms` in real FTS5."""
    put(index, *TEXTS)

    assert found(index, query) == rows


def test_hostile_strings_are_accepted_by_fts5(index: apsw.Connection) -> None:
    """FTS5 refuses no term of 5,000 strings made of quotes, operators, NUL and half characters."""
    rng = random.Random(7)
    put(index, "a b c 猫 京都")
    for _ in range(5_000):
        pieces = rng.choices([*HOSTILE, *OPERATORS], k=rng.randint(0, 12))
        found(index, rng.choice(["", " "]).join(pieces))


@given(st.text())
def test_no_text_fails(text: str) -> None:
    """Any string gives words without separators, and grams that can be stored as UTF-8."""
    words = query_words(text)

    assert words == list(dict.fromkeys(words))
    parts = [part for term in match_terms(text) for part in (*term.words, *term.any_of)]
    assert all(part and '"' not in part for part in parts)
    assert cjk_grams(text).encode() is not None


@given(st.text(alphabet="京都駅猫犬ガ한ก", min_size=1, max_size=6), st.data())
def test_every_part_of_a_run_is_found(run: str, data: st.DataObject) -> None:
    """A query that is a part of the text shares at least one gram or prefix with it."""
    start = data.draw(st.integers(0, len(run) - 1))
    part = run[start : data.draw(st.integers(start + 1, len(run)))]
    grams = cjk_grams("x" + run).split()

    assert all(any(gram.startswith(term.words[0]) for gram in grams) for term in match_terms(part))
