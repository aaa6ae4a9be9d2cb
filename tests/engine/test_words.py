"""The full-text indexes; agreement with a scan is in properties/test_fts_agrees.py."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from memdb.engine import full_text
from memdb.text.derived import bigrams_of
from memdb.text.terms import Term

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB
    from memdb.engine.sqlite.engine import SqliteEngine

ALL = (0, 1 << 62)
TEA, NOWHERE = Term(("tea",)), Term(("nowhere",))


@pytest.fixture
def filled(db: MemDB) -> MemDB:
    """Return a file in which each kind says something about tea."""
    ann = db.scope("ann")
    ann.session("trip").extend(
        [{"role": "user", "text": "green tea", "author": "Zoe"}, {"role": "user", "text": "coffee"}]
    )
    ann.remember("likes tea", keywords=["beverage"])
    ann.artifacts.save("tealist.md", "tea, cake and more tea")
    return db


@pytest.mark.parametrize("kind", ["message", "entry", "artifact"])
def test_postings_are_the_ids_that_hold_a_term(
    filled: MemDB, database: SqliteEngine, kind: str
) -> None:
    """A list per term; an unknown word has an empty one."""
    with database.read() as tx:
        found = tx.words.postings(kind, [TEA, NOWHERE], *ALL)

    assert (len(found[TEA]), found[NOWHERE]) == (1, [])


@pytest.mark.parametrize(
    ("kind", "word"),
    [("message", "zoe"), ("entry", "beverage"), ("artifact", "tealist")],
    ids=["author", "keyword", "name"],
)
def test_other_columns_are_searched_too(
    filled: MemDB, database: SqliteEngine, kind: str, word: str
) -> None:
    """Who said it, what else to find it by, what it is called."""
    term = Term((word,))
    with database.read() as tx:
        assert len(tx.words.postings(kind, [term], *ALL)[term]) == 1


def test_postings_keep_to_their_range(filled: MemDB, database: SqliteEngine) -> None:
    """Both ends inclusive."""
    with database.read() as tx:
        ((one,),) = tx.words.postings("message", [TEA], *ALL).values()
        inside = tx.words.postings("message", [TEA], one, one)
        outside = tx.words.postings("message", [TEA], one + 1, one + 9)

    assert (inside, outside) == ({TEA: [one]}, {TEA: []})


def test_an_excerpt_is_the_place_that_matches() -> None:
    """A text where nothing matches is left out; a question may have hundreds of words."""
    texts = [(1, "a.md", "milk " * 90 + "and then tea"), (2, "b.md", "milk")]
    many = [*(Term((f"w{n}",)) for n in range(1_500)), TEA]

    assert "then tea" in full_text.excerpts(texts, [TEA])[1]
    assert full_text.excerpts(texts, many).keys() == {1}
    assert full_text.excerpts(texts, [NOWHERE]) == full_text.excerpts(texts, []) == {}


@pytest.mark.parametrize(
    "text",
    ["tea " * 300_000, "milk " * 150_000 + "then the teas came", "x" * 900_000 + " tea"],
    ids=["tea alone", "tea at the end", "one long word before it"],
)
def test_the_place_in_a_huge_text_is_found_in_a_piece_of_it(
    db: MemDB, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FTS5, whose excerpts take quadratic time, never sees more than a few thousand characters."""
    pieces: list[str] = []
    monkeypatch.setattr(
        full_text, "bigrams_of", lambda piece: pieces.append(piece) or bigrams_of(piece)
    )
    db.scope("ann").artifacts.save("user:huge.txt", text)
    (hit,) = db.scope("ann").recall("tea", kinds=["artifact"], min_score=0)

    assert "tea" in hit.text
    assert len(hit.text) < 2000
    assert 0 < max(map(len, pieces)) <= full_text.MAX_CHARS


def test_what_is_dropped_is_not_found(filled: MemDB, database: SqliteEngine) -> None:
    """Before its row goes; undone with the transaction."""
    with pytest.raises(KeyError), database.write() as tx:
        tx.words.drop("message", *ALL)
        assert tx.words.postings("message", [TEA], *ALL) == {TEA: []}
        raise KeyError

    with database.read() as tx:
        assert len(tx.words.postings("message", [TEA], *ALL)[TEA]) == 1


@pytest.mark.parametrize(
    "word",
    ['"', 'tea" OR "coffee', "tea OR coffee", "author : zoe", "tea*", "NEAR(tea)", "^tea", ""],
)
def test_a_word_is_never_syntax(filled: MemDB, database: SqliteEngine, word: str) -> None:
    """Whatever stands in a term is looked for as a word; only the values say more."""
    with database.read() as tx:
        found = tx.words.postings("message", [Term((word,))], *ALL)
        ((tea,),) = tx.words.postings("message", [TEA], *ALL).values()

    assert found[Term((word,))] in ([], [tea])
    assert len(found) == 1


@pytest.mark.parametrize(
    ("term", "texts"),
    [
        pytest.param(Term(("green", "tea")), {"green tea"}, id="side by side"),
        pytest.param(Term(("tea", "green")), set(), id="the other way round"),
        pytest.param(Term(("cof",), prefix=True), {"coffee"}, id="a beginning"),
        pytest.param(Term(("cof",)), set(), id="no whole word"),
        pytest.param(Term(("kaffee",), any_of=("coffee",)), {"coffee"}, id="another spelling"),
        pytest.param(Term(("zoe",)), {"green tea"}, id="any field"),
        pytest.param(Term(("zoe",), fields=("text",)), set(), id="one field"),
        pytest.param(
            Term(("coffee",), any_of=("zoe",), fields=("text",)), {"coffee"}, id="each in the field"
        ),
    ],
)
def test_a_term_is_what_it_says(
    filled: MemDB, database: SqliteEngine, term: Term, texts: set[str]
) -> None:
    """Words, prefix, other spellings and fields."""
    with database.read() as tx:
        (ids,) = tx.words.postings("message", [term], *ALL).values()
        rows = tx.all("SELECT id, text FROM messages")

    assert {text for row_id, text in rows if row_id in ids} == texts


@pytest.mark.parametrize("end", ["commit", "undo", "undo all"])
def test_an_index_that_loses_most_messages_is_made_anew(db: MemDB, end: str) -> None:
    """In its transaction too no word of a lost row is found; whatever is undone is found again."""
    ann = db.scope("ann")
    for name, word in (("gone", "aardvark"), ("kept", "buttercup")):
        ann.session(name).extend(
            [{"role": "user", "text": f"{word} number {n}"} for n in range(150)]
        )

    def found(word: str) -> bool:
        with db._db.read() as tx:
            ids = tx.words.postings("message", [Term((word,))], *ALL)
        return any(ids.values())

    with contextlib.suppress(ZeroDivisionError), db.transaction():
        with contextlib.suppress(ZeroDivisionError), db.transaction():
            ann.session("gone").delete()
            assert not found("aardvark")
            assert found("buttercup")
            ann.session("kept").archive(keep_last=10)
            if end == "undo":
                raise ZeroDivisionError
        ann.session("kept").append("user", "a crocodile")
        if end == "undo all":
            raise ZeroDivisionError
    assert found("aardvark") == (end != "commit")
    assert found("buttercup")
    assert found("crocodile") == (end != "undo all")
    assert db.file.check(deep=True) == []


def _forget_messages(db: MemDB, seqs: range) -> None:
    for seq in seqs:
        db.scope("ann").session("trip").forget(seq)


# For each index: add so many rows, and remove those from FIRST to LAST.
ROWS: dict[str, tuple[Callable[[MemDB, range], Any], Callable[[MemDB, range], Any]]] = {
    "messages": (
        lambda db, rows: (
            db.scope("ann").session("trip").extend([{"role": "user", "text": "y"}] * len(rows))
        ),
        _forget_messages,
    ),
    "archived": (
        lambda db, rows: (
            db.scope("ann").session("trip").extend([{"role": "user", "text": "y"}] * len(rows)),
            db.scope("ann").session("trip").archive(keep_last=0),
        ),
        _forget_messages,
    ),
    "entries": (
        lambda db, rows: [db.scope("ann").remember(f"y{one}", key=f"{one}") for one in rows],
        lambda db, rows: [
            db.scope("ann").entries.delete(db.scope("ann").entries.find(f"{one}").id)
            for one in rows
        ],
    ),
    "artifacts": (
        lambda db, rows: [db.scope("ann").artifacts.save(f"{one}", "y") for one in rows],
        lambda db, rows: [db.scope("ann").artifacts.delete(f"{one}") for one in rows],
    ),
    "items": (
        lambda db, rows: [db.scope("ann").items.put((), f"{one}", {"text": "y"}) for one in rows],
        lambda db, rows: [db.scope("ann").items.delete((), f"{one}") for one in rows],
    ),
    "sessions": (
        lambda db, rows: [db.scope("ann").session(f"{one}").update(title="y") for one in rows],
        lambda db, rows: [db.scope("ann").session(f"{one}").delete() for one in rows],
    ),
}


@pytest.mark.parametrize("index", ROWS)
def test_an_index_that_another_process_rebuilt_is_sound(
    path: str, open_db: Callable[..., MemDB], index: str
) -> None:
    """FTS5 took it for damaged once a connection from before the rebuild removed a whole leaf."""
    add, remove = ROWS[index]
    one, other = open_db(path), open_db(path)
    add(one, range(1, 101))
    remove(one, range(1, 2))
    add(other, range(101, 201))
    other.file.rebuild()

    remove(one, range(2, 201))

    assert other.file.check(deep=True) == []
    assert open_db(path).file.check(deep=True) == []
