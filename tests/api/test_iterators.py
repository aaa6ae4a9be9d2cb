"""Iterators of the public API: a rolled-back transaction leaves nothing in them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest

from memdb.api import collections, database, items, scope, session
from memdb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB

SECRET = "sk-proj-" + "Ab3dEf6hIj9lMn2pQr5t" * 2


class Undone(Exception):
    """What the tests raise inside a transaction."""


def put(db: MemDB, number: int, mark: str) -> None:
    """Store a row of each kind with *mark* in its text."""
    ann = db.scope("ann")
    ann.session("s").append("user", f"{mark} message {number} {SECRET}{number}")
    ann.session("s").branch("b", None).append("user", f"{mark} on a branch {number}")
    ann.remember(f"{mark} entry {number}", key=f"{mark} {number}")


# What each begins, and what it shows of a row; whether it refuses to go on.
ITERATORS: dict[str, tuple[Callable[[MemDB], Iterator[Any]], Callable[[Any], str], bool]] = {
    "MemDB.export_lines": (lambda db: db.export_lines(), str, True),
    "Scope.find_secrets": (lambda db: db.scope("ann").find_secrets(), str, True),
}
each_iterator = pytest.mark.parametrize("name", ITERATORS)


@pytest.fixture(params=["file", "memory"])
def db(path: str, open_db: Callable[..., MemDB], request: pytest.FixtureRequest) -> MemDB:
    """Return a database with three rows of each kind."""
    opened = open_db(path if request.param == "file" else ":memory:")
    opened.scope("ann").session("s").append("user", "kept at first")
    opened.scope("ann").session("s").branch("b")
    for number in range(3):
        put(opened, number, "kept")
    return opened


def rest_of(rows: Iterator[Any], text_of: Callable[[Any], str], *, may_refuse: bool) -> list[str]:
    """Return the texts that *rows* still gives; none if it refuses to go on."""
    if not may_refuse:
        return [text_of(row) for row in rows]
    with pytest.raises(InvalidInput, match="rolled back"):
        next(rows)
    return []


def test_every_public_iterator_is_in_the_table() -> None:
    """By the annotation of what it returns; `State.__iter__` gives the keys of one moment."""
    public = {
        f"{owner.__name__}.{name}"
        for module in (collections, database, items, scope, session)
        for owner in vars(module).values()
        if inspect.isclass(owner) and owner.__module__ == module.__name__
        for name, method in vars(owner).items()
        if not name.startswith("_")
        and callable(method)
        and "Iterator[" in str(inspect.signature(method).return_annotation)
    }

    unending = {"MemDB.watch"}  # what anybody committed, until the file is closed
    assert public - unending == {name.partition(" ")[0] for name in ITERATORS}


@each_iterator
@pytest.mark.parametrize("given", [1, 4], ids="after {}".format)
def test_rows_of_a_rolled_back_transaction_are_not_given(db: MemDB, name: str, given: int) -> None:
    """Begun inside, gone on with afterwards: what was undone does not come, the rest does."""
    begin, text_of, may_refuse = ITERATORS[name]
    with pytest.raises(Undone), db.transaction():
        for number in range(3, 6):
            put(db, number, "undone")
        rows = begin(db)
        for _ in range(given):
            next(rows)
        raise Undone

    texts = rest_of(rows, text_of, may_refuse=may_refuse)

    assert not any("undone" in text for text in texts)
    if not may_refuse and given == 1 and "time" not in name:
        assert sum("kept" in text for text in texts) >= 2


@each_iterator
def test_rows_of_an_undone_savepoint_are_not_given(db: MemDB, name: str) -> None:
    """Also while the transaction around it goes on."""
    begin, text_of, may_refuse = ITERATORS[name]
    with db.transaction():
        with pytest.raises(Undone), db.transaction():
            for number in range(3, 6):
                put(db, number, "undone")
            rows = begin(db)
            next(rows)
            raise Undone
        put(db, 6, "later")

        texts = rest_of(rows, text_of, may_refuse=may_refuse)

    assert not any("undone" in text for text in texts)


@each_iterator
def test_rows_of_a_committed_transaction_are_given(db: MemDB, name: str) -> None:
    """An iterator goes on behind the end of its transaction, without a gap or a row twice."""
    begin, text_of, _ = ITERATORS[name]
    with db.transaction():
        for number in range(3, 6):
            put(db, number, "new")
        whole = [text_of(row) for row in begin(db)]
        rows = begin(db)
        first = text_of(next(rows))

    assert [first, *map(text_of, rows)] == whole
