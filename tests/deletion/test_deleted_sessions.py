"""What is left of a deleted session: nothing, also where it is being summarised or made anew."""

from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.models.summaries import SourceItem, SummaryText


class Meddler:
    """A summariser that lets a test do something while it answers."""

    name = "meddler"
    quality = "model"

    def __init__(self) -> None:
        """Do nothing."""
        self.asked = 0
        self.meddle: Callable[[int], object] = lambda _depth: None

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short text, after what the test wants."""
        self.asked += 1
        self.meddle(depth)
        return SummaryText(f"zanzibar {depth} {source[0].first_seq}")


@pytest.fixture
def meddler() -> Meddler:
    """Return a summariser."""
    return Meddler()


def say(db: MemDB, count: int, session: str = "gone") -> memdb.Session:
    """Return a session with so many messages more, of words of its own."""
    chat = db.scope("ann").session(session)
    chat.extend([{"role": "user", "text": f"{session} {n} zanzibar 北京"} for n in range(count)])
    return chat


LEFT = {
    "nodes": "SELECT count(*) FROM summaries",
    "node words": "SELECT count(*) FROM summaries_fts WHERE summaries_fts MATCH 'zanzibar OR 北京'",
    "jobs": "SELECT count(*) FROM jobs",
    "segments": "SELECT count(*) FROM archive_segments",
    "archived words": "SELECT count(*) FROM archived_fts WHERE archived_fts MATCH 'zanzibar OR 北京'",
    "message words": "SELECT count(*) FROM messages_fts WHERE messages_fts MATCH 'zanzibar OR gone'",
    "messages": "SELECT count(*) FROM messages",
    "vectors": "SELECT count(*) FROM vectors",
}


def left(db: MemDB, raw: Any) -> dict[str, int]:
    """Return what the file holds beside the session's name."""
    connection = raw(db.path)
    found = {name: connection.execute(sql).fetchone()[0] for name, sql in LEFT.items()}
    connection.close()
    return found


def grow(db: MemDB) -> memdb.Session:
    """Return a session with everything: nodes, some pruned, jobs for them, segments, raw ones."""
    chat = say(db, 130)
    chat.summaries.compact(keep_last=40)
    db.jobs.run()
    say(db, 10)
    return chat


def test_a_deleted_session_leaves_nothing(
    path: str, open_db: Callable[..., MemDB], meddler: Meddler, raw: Any
) -> None:
    """No node, no job for one, no segment, no word in any index."""
    plain = open_db(path)
    grow(plain)
    db = open_db(path, summarizer=meddler)
    chat = db.scope("ann").session("gone")
    assert chat.summaries.upgrade() > 10
    before = left(db, raw)
    assert all(before.values()), before

    assert chat.delete().removed["sessions"] == 1

    assert set(left(db, raw).values()) == {0}
    assert db.jobs.pending() == 0
    assert db.file.check(deep=True) == []


def test_another_session_keeps_all(
    path: str, open_db: Callable[..., MemDB], meddler: Meddler
) -> None:
    """Its tree, its jobs and what it says."""
    db = open_db(path)
    grow(db)
    kept = say(db, 130, "kept")
    kept.summaries.compact(keep_last=40)
    before = (
        kept.summaries.tree(),
        [*kept.messages()],
        kept.recall("zanzibar", kinds=("summary",), by="words"),
    )

    db.scope("ann").session("gone").delete()

    assert (
        kept.summaries.tree(),
        [*kept.messages()],
        kept.recall("zanzibar", kinds=("summary",), by="words"),
    ) == before
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("depth", [0, 1], ids=["leaf", "condensed"])
def test_deleted_while_it_is_summarised(
    path: str, open_db: Callable[..., MemDB], meddler: Meddler, raw: Any, depth: int
) -> None:
    """The late summary is dropped, whether the run works by job or for a compaction."""
    for work in ("run", "compact"):
        db = open_db(path, summarizer=meddler, embedder=None)
        chat = say(db, 60)
        meddler.meddle = lambda now, chat=chat: chat.delete() if now == depth else None
        _ = db.jobs.run() if work == "run" else chat.summaries.compact()

        assert set(left(db, raw).values()) == {0}
        assert db.file.check(deep=True) == []


def test_deleted_while_a_node_is_improved(
    path: str, open_db: Callable[..., MemDB], meddler: Meddler, raw: Any
) -> None:
    """The better text finds no node."""
    say(open_db(path, embedder=None), 60)
    open_db(path, embedder=None).jobs.run()
    db = open_db(path, summarizer=meddler, embedder=None)
    chat = db.scope("ann").session("gone")
    chat.summaries.upgrade()
    meddler.meddle = lambda _depth: chat.delete()

    db.jobs.run()

    assert meddler.asked == 1
    assert set(left(db, raw).values()) == {0}
    assert db.file.check(deep=True) == []


def test_made_anew_while_it_is_summarised(
    path: str, open_db: Callable[..., MemDB], meddler: Meddler
) -> None:
    """The same name, the same words: no node of the old one enters the new one."""
    db = open_db(path, summarizer=meddler, embedder=None)
    old = say(db, 10)

    def again(_depth: int) -> None:
        meddler.meddle = lambda _depth: None
        old.delete()
        say(db, 10)

    meddler.meddle = again
    db.jobs.run()

    assert [summary.text for summary in old.summaries.tree().summaries] in ([], ["zanzibar 0 1"])
    db.jobs.run()
    assert meddler.asked == 2
    assert len(old.summaries.tree().summaries) == 1
    assert db.file.check(deep=True) == []


def test_made_anew_it_knows_nothing_of_before(db: MemDB) -> None:
    """Other ids, no summary, nothing to expand or to search; numbers begin at 1."""
    old = grow(db)
    before = {summary.id for summary in old.summaries.tree().summaries}
    old.delete()

    new = say(db, 130)

    assert new.summaries.tree().summaries == ()
    assert new.summaries.tree().last_seq == 130
    assert list(new.recall("zanzibar", kinds=("summary",), by="words")) == []
    for one in before:
        with pytest.raises(memdb.NotFound):
            new.summaries.expand(one)
    new.summaries.compact(keep_last=40)
    assert before.isdisjoint(summary.id for summary in new.summaries.tree().summaries)
    assert [message.seq for message in new.messages()] == list(range(1, 131))
