"""What a fact says is looked for in messages: the same by sets as word by word."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memdb.extraction.evidence import share_subject, support
from memdb.facts import wording
from memdb.facts.pairs import same_stem
from memdb.facts.wording import Word, words_of

WORDS = (
    "Ann Oslo oslo works working worked 42 1,500 1500 moved. Moved: Vetra's vetra 東京 カメラ café "
    "the a is € x naïve deployment deployments"
).split()
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)


def stands_in(word: Word, words: list[Word]) -> bool:
    """Return whether a word or a form of it is among *words*, word by word."""
    return any(
        word.text == other.text or (word.kind == "word" and same_stem(word.text, other.text))
        for other in words
    )


@given(fact=TEXTS, sources=st.lists(TEXTS, max_size=3), speakers=st.lists(TEXTS, max_size=1))
def test_the_share_of_words_is_that_of_each_alone(
    fact: str, sources: list[str], speakers: list[str]
) -> None:
    """Repeated words count as often as they are said, names of speakers never."""
    told = [word for source in sources for word in words_of(source)]
    names = {word.text for name in speakers for word in words_of(name)}
    heavy = [word for word in words_of(fact) if word.weight > 0.5 and word.text not in names]
    found = [word for word in heavy if stands_in(word, told)]

    assert support(fact, sources, speakers) == (len(found) / len(heavy) if heavy else 1.0)


@given(one=TEXTS, other=TEXTS)
def test_a_subject_is_shared_by_a_word_or_a_form_of_it(one: str, other: str) -> None:
    """A number is no subject."""
    heavy = [word for word in words_of(one) if word.weight > 0.5 and word.kind != "number"]

    assert share_subject(one, other) == any(
        stands_in(word, list(words_of(other))) for word in heavy
    )


@given(texts=st.lists(TEXTS, min_size=1, max_size=4))
def test_words_are_the_same_whatever_was_read_before(texts: list[str]) -> None:
    """A word is known by its writing, its language and its place in the sentence."""
    kept = [words_of(text) for text in texts]
    alone = []
    for text in texts:
        wording.words_of.cache_clear()
        wording._word.cache_clear()
        alone.append(words_of(text))

    assert kept == alone
