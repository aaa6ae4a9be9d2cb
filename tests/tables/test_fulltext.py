"""The room of the full-text tables; agreement with a scan is in properties/test_fts_agrees.py."""

import pytest

import memdb
from memdb import MemDB
from memdb.engine.sqlite.database import Database
from memdb.tables import words

ALL = (0, 1 << 62)


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
    filled: MemDB, database: Database, kind: str
) -> None:
    """A list per term; an unknown word has an empty one."""
    with database.read() as tx:
        found = words.postings(tx, kind, ['"tea"', '"nowhere"'], *ALL)

    assert (len(found['"tea"']), found['"nowhere"']) == (1, [])


@pytest.mark.parametrize(
    ("kind", "term"),
    [("message", '"zoe"'), ("entry", '"beverage"'), ("artifact", '"tealist"')],
    ids=["author", "keyword", "name"],
)
def test_other_columns_are_searched_too(
    filled: MemDB, database: Database, kind: str, term: str
) -> None:
    """Who said it, what else to find it by, what it is called."""
    with database.read() as tx:
        assert len(words.postings(tx, kind, [term], *ALL)[term]) == 1


def test_postings_keep_to_their_range(filled: MemDB, database: Database) -> None:
    """Both ends inclusive."""
    with database.read() as tx:
        ((one,),) = words.postings(tx, "message", ['"tea"'], *ALL).values()
        inside = words.postings(tx, "message", ['"tea"'], one, one)
        outside = words.postings(tx, "message", ['"tea"'], one + 1, one + 9)

    assert (inside, outside) == ({'"tea"': [one]}, {'"tea"': []})


def test_a_snippet_is_the_place_that_matches(filled: MemDB, database: Database) -> None:
    """With marks where they are asked for; None where nothing matches."""
    with database.read() as tx:
        ((one,),) = words.postings(tx, "message", ['"tea"'], *ALL).values()

        assert words.snippet(tx, "message", one, ['"tea"'], before="[", after="]") == "green [tea]"
        assert words.snippet(tx, "message", one, ['"nowhere"']) is None
        assert words.snippet(tx, "message", one, []) is None


def test_a_snippet_takes_hundreds_of_terms(filled: MemDB, database: Database) -> None:
    """A long question does not break FTS5's parser."""
    terms = [f'"w{n}"' for n in range(1_500)] + ['"tea"']
    with database.read() as tx:
        ((one,),) = words.postings(tx, "artifact", ['"tea"'], *ALL).values()

        assert "tea" in (words.snippet(tx, "artifact", one, terms) or "")


def test_what_is_dropped_is_not_found(filled: MemDB, database: Database) -> None:
    """Before its row goes; undone with the transaction."""
    with pytest.raises(KeyError), database.write() as tx:
        words.drop_messages(tx, *ALL)
        assert words.postings(tx, "message", ['"tea"'], *ALL) == {'"tea"': []}
        raise KeyError

    with database.read() as tx:
        assert len(words.postings(tx, "message", ['"tea"'], *ALL)['"tea"']) == 1


def test_raw_syntax_does_not_get_here(database: Database) -> None:
    """A term that is no term is an error of memdb, not a crash."""
    with database.read() as tx, pytest.raises(memdb.MemDBError):
        words.postings(tx, "message", ['"'], *ALL)
