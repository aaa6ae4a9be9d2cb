"""A session knows how many messages and tokens it has, and how many of them are archived."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB, Session
from memdb.adapters.host import Host

SIX = [{"role": "user", "text": f"tea number {n}", "external_id": f"m{n}"} for n in range(1, 7)]


@pytest.fixture
def chat(db: MemDB) -> Session:
    """Return a session of six messages."""
    chat = db.scope("ann").session("talk")
    chat.extend(SIX)
    return chat


CHANGES: dict[str, tuple[Callable[[Session], Any], tuple[int, int]]] = {
    "append": (lambda chat: chat.append("user", "one more"), (7, 0)),
    "a known external id": (lambda chat: chat.extend(SIX[:2]), (6, 0)),
    "delete": (lambda chat: chat.delete([2, 3, 5]), (3, 0)),
    "forget": (lambda chat: chat.forget([1, 6]), (4, 0)),
    "pop": (lambda chat: chat.pop(), (5, 0)),
    "replace": (lambda chat: chat.replace([1, 2], [SIX[0] | {"external_id": "n"}]), (5, 0)),
    "edit": (lambda chat: chat.edit(2, {"role": "user", "text": "much " * 30}), (6, 0)),
    "erase": (lambda chat: Host(chat).erase(2), (6, 0)),
    "clear": (lambda chat: chat.clear(), (0, 0)),
    "archive": (lambda chat: chat.archive(keep_last=2), (6, 4)),
    "archive twice": (lambda chat: [chat.archive(keep_last=n) for n in (4, 1)], (6, 5)),
    "unarchive": (lambda chat: (chat.archive(keep_last=0), chat.unarchive()), (6, 0)),
    "delete archived": (lambda chat: (chat.archive(keep_last=2), chat.delete([1, 4, 6])), (3, 2)),
    "forget archived": (lambda chat: (chat.archive(keep_last=2), chat.forget([1])), (5, 3)),
    "edit archived": (
        lambda chat: (
            chat.archive(keep_last=2),
            chat.edit(1, {"role": "user", "text": "other"}),
        ),
        (6, 0),
    ),
    "clear archived": (lambda chat: (chat.archive(keep_last=2), chat.clear()), (0, 0)),
}


@pytest.mark.parametrize(("change", "counts"), CHANGES.values(), ids=CHANGES)
def test_the_counts_follow(
    db: MemDB, chat: Session, change: Callable[[Session], Any], counts: tuple[int, int]
) -> None:
    """Each way in and out; the tokens are those of the messages that are left."""
    change(chat)

    (info,) = db.scope("ann").sessions()
    assert (info.message_count, info.archived_count) == counts
    assert info.tokens == sum(one.tokens for one in chat.messages())
    assert db.file.check(deep=True) == []


def test_a_write_that_is_undone_counts_nothing(db: MemDB, chat: Session) -> None:
    """The counts are part of the transaction."""
    with pytest.raises(ZeroDivisionError), Host(chat).transaction():
        chat.append("user", "never")
        1 / 0

    (info,) = db.scope("ann").sessions()
    assert info.message_count == 6


def test_an_import_counts_what_it_stores(
    db: MemDB, chat: Session, tmp_path: Path, open_db: Callable[..., MemDB]
) -> None:
    """Messages keep their numbers, and a second import adds none."""
    chat.delete([3])
    chat.branch("b", 2, create=True).append("user", "on a branch")
    db.export(tmp_path / "a.jsonl", user="ann")
    other = open_db(str(tmp_path / "other.db"))

    for _ in range(2):
        other.import_file(tmp_path / "a.jsonl")

    (here,), (there,) = db.scope("ann").sessions(), other.scope("ann").sessions()
    assert (
        (there.message_count, there.tokens) == (here.message_count, here.tokens) == (5, here.tokens)
    )
    assert other.file.check(deep=True) == []


def test_recovered_sessions_count_what_is_left(
    path: str, tmp_path: Path, open_db: Callable[..., MemDB], raw: Any
) -> None:
    """Recovery makes the counts anew."""
    db = open_db(path)
    chat = db.scope("ann").session("talk")
    chat.extend(SIX)
    chat.archive(keep_last=3)
    db.close()
    other = raw(path)
    other.execute("UPDATE sessions SET message_count = 99, tokens = -1").fetchall()
    other.execute("DELETE FROM messages WHERE id & 255 = 5").fetchall()
    other.close()

    memdb.recover(path, str(tmp_path / "new.db"))

    with memdb.open(str(tmp_path / "new.db")) as found:
        (info,) = found.scope("ann").sessions()
        assert (info.message_count, info.archived_count) == (5, 3)
        assert found.file.check(deep=True) == []


def test_the_file_counts_by_its_sessions(db: MemDB, chat: Session) -> None:
    """`info` adds up what they keep."""
    chat.branch("b", 2, create=True).append("user", "on a branch")
    chat.archive(keep_last=2)

    info = db.file.info()

    assert (info.counts["messages"], info.archived_messages) == (7, 4)
