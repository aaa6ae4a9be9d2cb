"""What recall is measured against ranks as it says."""

from __future__ import annotations

from memdb.evaluation.baselines import Text, cosine, fts5, sessions_of
from memdb.testing import FakeEmbedder

TEXTS = [
    Text("a", "s1", "Ann: We walked to the harbour."),
    Text("b", "s2", "Bea: The harbour, the harbour at night!"),
    Text("c", "s1", "Ann: Tea is ready."),
]


def test_fts5_stems_and_ranks_by_bm25() -> None:
    """Any word of the question counts but stop words; quotes and operators are text."""
    search = fts5(TEXTS)

    assert [one.id for one in search("Who was walking to the harbours?", 9)] == ["a", "b"]
    assert [one.id for one in search("harbour", 1)] == ["b"]
    assert search('NOT " OR *', 9) == []
    assert search("?!", 9) == []


def test_fts5_finds_pairs_of_characters_without_spaces() -> None:
    """In Chinese and Japanese too a baseline must be able to win."""
    texts = [
        Text("a", "s", "我们决定在北京部署新的服务。"),
        Text("b", "s", "ミーナは犬を飼っています。"),
        Text("c", "s", "Tea is ready."),
    ]
    search = fts5(texts)

    assert [one.id for one in search("服务在北京哪里?", 9)] == ["a"]
    assert [one.id for one in search("犬を飼う人は?", 9)] == ["b"]
    assert [one.id for one in search("tea", 9)] == ["c"]


def test_cosine_ranks_by_the_vectors_alone() -> None:
    """Texts without a vector are not found."""
    search = cosine([*TEXTS, Text("d", None, " ")], FakeEmbedder())

    assert search("Ann: Tea is ready.", 9)[0].id == "c"
    assert {one.id for one in search("tea", 9)} == {"a", "b", "c"}
    assert search(" ", 9) == []


def test_a_session_stands_where_its_best_turn_does() -> None:
    """Each once; documents have none."""
    assert sessions_of([TEXTS[1], TEXTS[0], Text("d", None, "x"), TEXTS[2]]) == ["s2", "s1"]
