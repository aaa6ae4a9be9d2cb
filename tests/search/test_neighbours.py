"""A message is not above the one beside it whose words are all that it has, in any language."""

from __future__ import annotations

from collections.abc import Iterator
from math import log

import pytest
from cases import each

import memdb
from memdb import MemDB
from memdb.search.rank import _below_lenders
from memdb.text.terms import count_words

# By language: a short remark, a sentence of a long answer, one with the word, and the word.
TALKS = {
    "Chinese": ("好的，谢谢你。", "我们昨天一起去公园散步，看到了很多漂亮的花。", "护照放在书桌的抽屉里。", "护照"),
    "Japanese": (
        "はい、ありがとう。",
        "昨日は友達と公園に行って、きれいな花をたくさん見ました。",
        "パスポートは机の引き出しに入っています。",
        "パスポート",
    ),
    "Thai": (
        "ครับ ขอบคุณ",
        "เมื่อวานเราไปเดินเล่นที่สวนกับเพื่อนและเห็นดอกไม้สวยมาก ",
        "หนังสือเดินทางอยู่ในลิ้นชักโต๊ะ ",
        "หนังสือเดินทาง",
    ),
    "German": (
        "Ja, vielen Dank.",
        "Gestern gingen wir zusammen in den Park und sahen dort viele Blumen. ",
        "Der Reisepass liegt in der Schublade. ",
        "Reisepass",
    ),
    "English": (
        "Yes, thank you.",
        "Yesterday we went to the park together and saw many lovely flowers. ",
        "The passport is in the drawer of the desk. ",
        "passport",
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=[None, "static"], ids=["words", "all arms"])
def talks(request: pytest.FixtureRequest) -> Iterator[MemDB]:
    """Return a file in which each case has a scope of its own."""
    with memdb.open(":memory:", counter="estimate", embedder=request.param) as db:
        yield db


@each("sentences", [0, 3, 7, 15])
@each("place", [0, 1, 2])
@each("language", TALKS)
def test_the_message_that_holds_the_word_is_first(
    talks: MemDB, language: str, place: int, sentences: int
) -> None:
    """In a chat with an assistant too, where short messages of the user go before long answers."""
    remark, sentence, said, word = TALKS[language]
    answers = [sentence * (sentences + 1)] * 3
    answers[place] = sentence * sentences + said
    scope = talks.scope(f"{language} {place} {sentences}")
    chat = scope.session("trip")
    for answer in answers:
        chat.append("user", remark)
        chat.append("assistant", answer)
    hits = scope.recall(word, kinds=("message",), min_score=0, explain=True)

    assert word in hits[0].text
    assert [word in hit.text for hit in hits].count(True) == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", 0, id="empty"),
        pytest.param("We fly to Oslo", 4, id="English"),
        pytest.param("Größe naïve", 2, id="Latin"),
        pytest.param("我的护照放在抽屉里", 5, id="Chinese"),
        pytest.param("パスポートは机の中", 5, id="Japanese"),
        pytest.param("여권은 책상 서랍에", 3, id="Korean"),
        pytest.param("我用 memdb 写 日记", 4, id="mixed"),
    ],
)
def test_words_are_counted_in_scripts_without_spaces(text: str, words: int) -> None:
    """About as many as the text would have with spaces: two characters each."""
    assert count_words(text) == words


def test_thai_has_fewer_words_than_characters() -> None:
    """Four characters each, so a sentence is no single word."""
    text = TALKS["Thai"][2].strip()

    assert len(text) / 6 < count_words(text) < len(text) / 2


def test_a_lowered_score_is_the_product_of_its_terms() -> None:
    """What is taken off is a term of its own; the others keep their scores."""
    scores = {1: 2.0, 2: 3.0, 3: 1.0, 4: 0.5}
    lowered = _below_lenders(scores, {2: [1, 3], 4: [3]})

    assert scores[2] < scores[1] == 2.0
    assert (scores[3], scores[4], lowered.keys()) == (1.0, 0.5, {2})
    assert lowered[2] == pytest.approx(log(2 / 3), abs=1e-5)
