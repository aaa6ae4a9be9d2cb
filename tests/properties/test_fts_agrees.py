"""Full text against a naive scan of the same texts."""

import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from query_terms import match_terms

import memdb
from memdb.text.terms import Term

# Words that Porter's stemmer leaves alone, so that a scan can compare them.
TEA = Term(("tea",))

WORDS = ["tea", "oslo", "xyz", "café", "京都", "3", "b2b", "ann", "zürich", "rok"]
SEPARATORS = [" ", ", ", "-", "_", ".\n", "/", '" ', " (", "* "]


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Draw some words with separators between them."""
    words = draw(st.lists(st.sampled_from(WORDS), max_size=6))
    return "".join(word + draw(st.sampled_from(SEPARATORS)) for word in words)


def words_of(text: str) -> set[str]:
    """Return the words of a text, without accents, lower case, scripts apart."""
    plain = unicodedata.normalize("NFD", text.lower())
    plain = "".join(char for char in plain if not unicodedata.combining(char))
    return set(re.findall(r"[一-鿿]+|[a-z0-9]+", plain))


@given(stored=st.lists(texts(), min_size=1, max_size=12), query=st.sampled_from(WORDS))
def test_postings_are_those_of_a_scan(stored: list[str], query: str) -> None:
    """A term's list holds exactly the rows whose text holds the word."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("s")
        chat.extend([{"role": "user", "text": text} for text in stored])
        (term,) = match_terms(query)
        with db._db.read() as tx:
            found = tx.words.postings("message", [term], 0, 1 << 62)[term]

    wanted = words_of(query)
    expected = {seq for seq, text in enumerate(stored, start=1) if wanted <= words_of(text)}
    assert {one & 0xFFFFFF for one in found} == expected
    assert len(found) == len(set(found))


@given(
    stored=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xy"), texts()), max_size=12),
    query=st.sampled_from(WORDS),
)
def test_search_finds_the_rows_of_a_scan_in_its_session_alone(
    stored: list[tuple[str, str, str]], query: str
) -> None:
    """Whatever other scopes and sessions hold."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        expected = {}
        for user, session, text in stored:
            message = db.scope(user).session(session).append("user", text)
            if words_of(query) <= words_of(text):
                expected.setdefault((user, session), set()).add(message.seq)
        for user in "ab":
            for session in "xy":
                hits = (
                    db.scope(user)
                    .session(session)
                    .recall(query, limit=100, kinds=("message",), by="words")
                )
                found = {one.seq for hit in hits for one in (hit.source, *hit.also)}
                assert found == expected.get((user, session), set())


@given(before=texts(), after=texts(), query=st.sampled_from(WORDS))
def test_a_changed_entry_answers_to_its_new_words_only(before: str, after: str, query: str) -> None:
    """After an update the index says what the row says."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        ann = db.scope("ann")
        entry = ann.remember(f"{before} one").entry
        ann.entries.update(entry.id, text=f"{after} two")

        hits = ann.recall(query, kinds=["entry"])

        assert bool(hits) == (words_of(query) <= words_of(after))
        assert db.file.check() == []


@pytest.mark.parametrize("newest", [1, 5, 50], ids=str)
def test_a_cut_list_holds_the_newest(newest: int) -> None:
    """Of a common word only so many rows are looked at, from the end."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        db.scope("ann").session("s").extend([{"role": "user", "text": "tea"} for _ in range(30)])
        with db._db.read() as tx:
            found = tx.words.postings("message", [TEA], 0, 1 << 62, newest)[TEA]

    assert sorted(one & 0xFFFFFF for one in found) == list(range(max(1, 31 - newest), 31))
