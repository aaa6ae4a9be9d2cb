"""Long posting lists that a connection keeps: they are those of the index, whatever changed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

import memdb
from memdb.adapters.host import Host
from memdb.engine.sqlite import words
from memdb.models.ids import scope_range
from memdb.text.terms import word_terms

if TYPE_CHECKING:
    from pathlib import Path

WORDS = "tea oslo ferry tulip harbour train ticket winter".split()
TERMS = word_terms(WORDS, len(WORDS))


def said(source: random.Random) -> str:
    """Return a text of some of the words."""
    return " ".join(source.choices(WORDS, k=4))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("newest", [None, 40])
def test_kept_lists_are_those_of_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, newest: int | None
) -> None:
    """Appended, moved, edited, erased, rebuilt, undone, by this connection or another."""
    monkeypatch.setattr(words, "LONG", 2)
    source = random.Random(seed)
    path = tmp_path / "agent.db"
    with memdb.open(path, embedder=None) as db, memdb.open(path, embedder=None) as other:

        def append(to: memdb.MemDB, count: int) -> None:
            texts = [memdb.NewMessage("user", said(source)) for _ in range(count)]
            to.scope("ann").session(source.choice("ab")).extend(texts)

        def undo(to: memdb.MemDB) -> None:
            with pytest.raises(ValueError, match="undo"), to.transaction():
                append(to, 70)
                assert read(to) == fresh(to)
                raise ValueError("undo")

        def edit(to: memdb.MemDB) -> None:
            chat = to.scope("ann").session("a")
            chat.edit(chat.last(1)[0].seq, memdb.NewMessage("user", said(source)))

        def erase(to: memdb.MemDB) -> None:
            chat = to.scope("ann").session("a")
            Host(chat).erase(source.randint(1, chat.last(1)[0].seq))

        ways = [
            lambda to: append(to, 1),
            lambda to: append(to, 70),
            undo,
            edit,
            erase,
            lambda to: to.file.rebuild(),
        ]

        def read(to: memdb.MemDB) -> dict[object, list[int]]:
            with to._db.read() as tx:
                low, high = scope_range(to.scope("ann")._owner.find(tx) or 0)
                found = tx.words.postings("message", TERMS, low, high, newest)
            return {term: sorted(ids) for term, ids in found.items()}

        def fresh(to: memdb.MemDB) -> dict[object, list[int]]:
            with to._db.read() as tx, monkeypatch.context() as changed:
                tx.words._lists._lists.clear()
                changed.setattr(words, "LONG", 1 << 40)
                return read(to)

        append(db, 200)
        db.scope("ann").session("a").append("user", said(source))
        for _ in range(15):
            source.choice(ways)(source.choice((db, other)))
            for to in (db, other):
                kept = read(to)
                assert kept == fresh(to)
                assert kept == read(to)
