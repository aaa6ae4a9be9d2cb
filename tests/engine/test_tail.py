"""The tail of the index of messages: found like what is in the index, once, by every process."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.engine.sqlite.tail import MAX_CHARS, MAX_ROWS
from memdb.text.terms import Term

ALL = (0, 1 << 62)
TERMS = [
    Term(("tea",)),
    Term(("number", "3")),
    Term(("北京",)),
    Term(("北",), prefix=True),
    Term(("zoe",)),
    Term(("strasse",), any_of=("straße",)),
    Term(("nowhere",)),
]

SEARCH = """
import sys, memdb
with memdb.open(sys.argv[1], embedder=None, mode=sys.argv[2]) as db:
    print(len(db.scope("ann").recall("quagga")))
"""


def listed(db: MemDB) -> list[int]:
    """Return the ids of the tail."""
    with db._db.read() as tx:
        return [row[0] for row in tx.all("SELECT id FROM messages_fts_tail ORDER BY id")]


def postings(db: MemDB, newest: int | None = None, span: tuple[int, int] = ALL) -> dict[Term, Any]:
    """Return the postings of every term, in order."""
    with db._db.read() as tx:
        found = tx.words.postings("message", TERMS, *span, newest=newest)
    return {term: sorted(ids) for term, ids in found.items()}


def matches(db: MemDB, word: str) -> int:
    """Return how often a search finds a message with a word."""
    term = Term((word,))
    with db._db.read() as tx:
        return len(tx.words.postings("message", [term], *ALL)[term])


def move(db: MemDB) -> None:
    """Move the tail into the index."""
    with db._db.write() as tx:
        tx.words.move_tail()


def fill(db: MemDB, count: int = 20) -> None:
    """Append messages one by one to two sessions."""
    for n in range(count):
        text = f"tea number {n} 北京 Strasse" if n % 3 else f"coffee {n}"
        author = "Zoe" if n % 4 == 0 else None
        db.scope("ann").session(f"s{n % 2}").append("user", text, author=author)


@pytest.mark.parametrize("newest", [None, 3, 100])
def test_the_tail_answers_as_the_index_does(db: MemDB, newest: int | None) -> None:
    """Every kind of term has the same ids in the tail, in both, and in the index."""
    fill(db)
    move(db)
    fill(db)
    both = postings(db, newest)
    low, high = listed(db)[3], listed(db)[-3]
    inside = postings(db, newest, (low, high))
    assert len(listed(db)) == 20

    move(db)

    assert listed(db) == []
    assert both == postings(db, newest)
    assert inside == postings(db, newest, (low, high))
    assert sum(map(len, both.values())) > 6
    assert both[TERMS[-1]] == []


def test_the_tail_stays_short(db: MemDB) -> None:
    """Whatever number of messages come at a time; long texts never wait in it."""
    chat = db.scope("ann").session("s")
    lengths = []
    for count in [*[1] * 70, 5, 30, 30, 63, 64, 200, 1, 63, 2]:
        chat.extend([{"role": "user", "text": "tea"}] * count)
        lengths.append(len(listed(db)))
    chat.append("user", "long " * MAX_CHARS)
    assert len(listed(db)) == lengths[-1]

    assert max(lengths) < MAX_ROWS
    assert lengths[:70] == [*range(1, 64), 0, *range(1, 7)]
    assert db.file.check(deep=True) == []


def test_what_another_connection_writes_is_found_at_once(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """Search by search, while the other adds, edits, removes and moves."""
    one, other = open_db(path), open_db(path)
    chat = one.scope("ann").session("s")
    found = []

    def look() -> None:
        found.append(matches(other, "quagga"))

    chat.append("user", "hello")
    look()
    chat.append("user", "a quagga")
    look()
    chat.append("user", "the second quagga")
    look()
    chat.edit(2, {"role": "user", "text": "no animal"})
    look()
    move(one)
    look()
    chat.append("user", "the third quagga")
    look()
    chat.pop()
    look()
    chat.forget([3])
    look()

    assert found == [0, 1, 2, 1, 1, 2, 1, 0]


@pytest.mark.parametrize("mode", ["write", "read"])
def test_another_process_finds_it(path: str, open_db: Callable[..., MemDB], mode: str) -> None:
    """Also one that may not write."""
    db = open_db(path)
    db.scope("ann").session("s").append("user", "a quagga")
    assert len(listed(db)) == 1

    ended = subprocess.run(
        [sys.executable, "-c", SEARCH, path, mode], capture_output=True, text=True, check=True
    )

    assert ended.stdout == "1\n"


@pytest.mark.parametrize(
    "remove",
    [
        lambda chat: chat.edit(1, {"role": "user", "text": "nothing"}),
        lambda chat: Host(chat).erase(1),
        lambda chat: chat.replace([1]),
        lambda chat: chat.clear(),
        lambda chat: chat.delete(),
        lambda chat: chat.forget([1]),
        lambda chat: chat.forget([1], prove=True),
    ],
)
def test_what_is_removed_from_the_tail_is_not_found(
    db: MemDB, remove: Callable[[Any], object]
) -> None:
    """Nor is anything left of it in the index, whose rows it never had."""
    chat = db.scope("ann").session("s")
    chat.append("user", "a quagga")
    chat.append("user", "a zebra")

    remove(chat)

    assert matches(db, "quagga") == 0
    assert db.file.check(deep=True) == []
    move(db)
    assert matches(db, "quagga") == 0
    assert db.file.check(deep=True) == []


def test_archived_messages_of_the_tail_are_found_once(db: MemDB) -> None:
    """By their words, which go into the other index, and by their author."""
    chat = db.scope("ann").session("s")
    for n in range(4):
        chat.append("user", f"quagga {n}", author="Zoe")

    chat.archive(keep_last=1)

    assert matches(db, "quagga") == 4
    found = postings(db)
    assert len(found[TERMS[4]]) == 4
    assert len(set(found[TERMS[4]])) == 4
    assert db.file.check(deep=True) == []


def test_what_was_rolled_back_is_not_found(db: MemDB) -> None:
    """Also if the same transaction searched for it, and the next one gives its id away again."""
    chat = db.scope("ann").session("s")
    chat.append("user", "hello")
    with pytest.raises(ZeroDivisionError), db.transaction():
        chat.append("user", "a quagga")
        assert matches(db, "quagga") == 1
        _ = 1 // 0

    assert matches(db, "quagga") == 0
    chat.append("user", "a zebra")
    assert (matches(db, "quagga"), matches(db, "zebra")) == (0, 1)


def test_closing_moves_the_tail(path: str, open_db: Callable[..., MemDB]) -> None:
    """So that other programs find every word of a closed file."""
    with open_db(path) as db:
        fill(db)
        assert len(listed(db)) == 20

    with memdb.open(path, embedder=None, mode="read") as db:
        assert listed(db) == []


def test_a_copy_has_the_tail(tmp_path: Path, path: str, open_db: Callable[..., MemDB]) -> None:
    """A backup of an open file is searched as the file is."""
    with open_db(path) as db:
        db.scope("ann").session("s").append("user", "a quagga")
        db.file.backup(tmp_path / "copy.db")

    with memdb.open(tmp_path / "copy.db", embedder=None) as db:
        assert len(listed(db)) == 1
        assert matches(db, "quagga") == 1


def test_recover_and_rebuild_need_no_tail(
    tmp_path: Path, path: str, raw: Callable[[str], apsw.Connection], open_db: Callable[..., MemDB]
) -> None:
    """What it listed is in the new index; a list that names wrong messages does no harm."""
    with open_db(path) as db:
        fill(db)
    connection = raw(path)
    connection.execute("INSERT INTO messages_fts_tail (id) SELECT id FROM messages").fetchall()
    connection.close()

    memdb.recover(path, tmp_path / "new.db")
    with open_db(path) as db:
        counts = [len(ids) for ids in postings(db).values()]
        db.file.rebuild()
        again = [len(ids) for ids in postings(db).values()]
        assert db.file.check(deep=True) == []
    with memdb.open(tmp_path / "new.db", embedder=None) as db:
        recovered = [len(ids) for ids in postings(db).values()]
        assert listed(db) == []

    assert counts == again == recovered
