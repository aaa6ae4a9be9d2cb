"""
Any query: no exception, and no empty answer where it shares a word with the scope.

Queries are drawn from words of the scope, of all scripts, punctuation, SQL, operators of FTS5 and
very long texts, with a fixed seed: a few hundred in the default suite, 10,000 in the slow one.
"""

import random
from collections.abc import Iterator

import pytest
from cases import each

import memdb
from memdb import Scope
from memdb.search.asked_time import read_time
from memdb.text.terms import query_words

SAID = [
    "I drink green tea in the morning.",
    "We fly to Oslo on 3 May 2024, flight SK-4035.",
    "The release slipped: see memdb/search/service.py, line 42.",
    "Ann is allergic to peanuts; Bob isn't.",
    "Crème brûlée à Orléans, naïve résumé",
    "Die Straße nach Łódź ist gesperrt",
    "我们周五飞往奥斯陆。手机iPhone坏了",
    "ピーナッツのアレルギーがあります",
    "우리는 금요일에 오슬로로 갑니다",
    "نسافر إلى أوسلو يوم الجمعة",
    "אנחנו טסים לאוסלו ביום שישי",
    "Мы летим в Осло в пятницу, ёлка",
    "Πετάμε στο Όσλο την Παρασκευή",
    "हम शुक्रवार को ओस्लो जा रहे हैं",
    "เราจะบินไปออสโลวันศุกร์",
    "party 🎉 🇳🇴 👍🏽 tonight",
    "东京trip2024 caféбар Приветworld",
    "who are you and what is this",
]
WORDS = sorted({word for text in SAID for word in query_words(text)})
TIMES = (
    *("yesterday", "last week", "two weeks ago", "31 February 2023", "13/13/2023"),
    "999999 days ago",
)
NOISE = (
    *"\"'`*^():-+{}[]\\.,;!?~#@/|&%$=<>",
    *(" ", "\t", "\n", "\r\n", "\0", "\ud800", "\u200b", "\u200d", "\ufe0f", "\ufeff", "\uffff"),
    *("\u0301", "\u202e", "\u0e31", "\u3099", "\U0010ffff", "\u00ad"),
    *("AND", "OR", "NOT", "NEAR(a b, 3)", "rowid:", "text:", "bigrams :", "{text author}:", "^a"),
    *("a*", '""', '"', '"a', "-", "-a", '-"a b"', "--", "/*", "*/", "- text : a", "col:a AND", "("),
    *("'; DROP TABLE messages; --", "1=1", "SELECT * FROM messages", "UNION ALL", "%", "_", "?1"),
    *("../../etc/passwd", "C:\\x", "${x}", "{{x}}", "%s", "\\u0000", "<b>", "&amp;", "null", "NaN"),
    *TIMES,
    *(
        "🎉",
        "👩‍👩‍👧",
        "🇳",
        "🏽",
        "猫",
        "ก",
        "\U00020000",
        "é",
        "e\u0301",
        "ß",
        "ı",
        "İ",
        "ﬁ",
        "３",
        "²",
    ),
)
LENGTHS = (1, 2, 3, 5, 8, 20, 60)


def queries(count: int, seed: int) -> Iterator[tuple[str, bool]]:
    """Yield *count* queries, and whether they hold a word of the scope as a word."""
    source = random.Random(seed)
    for number in range(count):
        parts = [source.choice(NOISE) for _ in range(source.choice(LENGTHS))]
        if number % 3 == 0:
            letters = [chr(source.randrange(1, 0x11000)) for _ in range(source.randrange(1, 40))]
            parts.append("".join(letters))
        shares = number % 2 == 0
        if shares:
            word = source.choice(WORDS)
            parts.insert(source.randrange(len(parts) + 1), f" {word} ")
        if number % 500 == 50:
            parts = [*parts, *source.choices(NOISE, k=40_000)]  # about 100 KB
        glue = source.choice(("", " ", " "))
        yield glue.join(parts), shares


def ask(scope: Scope, count: int, seed: int) -> None:
    """Put *count* queries to *scope*, and fail at the first that goes wrong."""
    for query, shares in queries(count, seed):
        hits = scope.recall(query, min_score=0)

        assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
        assert hits or not shares or is_time(query), repr(query[:300])


def is_time(query: str) -> bool:
    """Return whether a query names a time alone: it lists what is of that time, which is nothing."""
    time = read_time(query, 20_000)
    return time.is_all and not time.asked.is_empty


@pytest.fixture(scope="module", params=[None, "static"], ids=["words", "all arms"])
def scope(request: pytest.FixtureRequest) -> Iterator[Scope]:
    """Return a scope that says something in every script."""
    with memdb.open(":memory:", counter="estimate", embedder=request.param) as db:
        ann = db.scope("ann")
        ann.session("s").extend([{"role": "user", "text": text} for text in SAID])
        yield ann
        assert db.file.check() == []


def test_any_query_is_answered(scope: Scope) -> None:
    """100 queries, one of about 100 KB."""
    ask(scope, 100, seed=1)


@pytest.mark.slow
def test_ten_thousand_queries_are_answered(scope: Scope) -> None:
    """The same for 10,000 others, 20 of about 100 KB."""
    ask(scope, 10_000, seed=2)


@each("word", WORDS)
def test_every_word_of_the_scope_is_found_alone(scope: Scope, word: str) -> None:
    """Whatever its script, and if it is a stop word."""
    assert scope.recall(word)
