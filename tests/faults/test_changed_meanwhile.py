"""
A port works outside of transactions: what is removed or edited meanwhile does not come back.

Each removal is done by another thread while a summarizer, an embedder or a model
has message 5 before it.
"""

import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.models.summaries import SourceItem, SummaryText

WORD = "pelican"
REMOVALS: dict[str, Callable[[memdb.Session, memdb.Scope], object]] = {
    "forget": lambda _, ann: ann.forget(session="s", seqs=5),
    "delete": lambda chat, _: chat.delete([5]),
    "delete by words": lambda _, ann: ann.delete(query=WORD),
    "erase": lambda chat, _: Host(chat).erase(5),
    "edit": lambda chat, _: chat.edit(5, {"role": "user", "text": "It was about herons."}),
    "replace": lambda chat, _: chat.replace([5], []),
    "the session": lambda _, ann: ann.delete(session="s"),
}
every_removal = pytest.mark.parametrize("how", REMOVALS)


class Ports:
    """A summarizer, an embedder and a model that let something happen while they work."""

    name, quality, dim = "slow", "model", 4

    def __init__(self) -> None:
        """Let nothing happen yet."""
        self.meanwhile: Callable[[], object] | None = None

    def happen(self) -> None:
        """Do once, in another thread, what is to happen meanwhile."""
        done, self.meanwhile = self.meanwhile, None
        if done is not None:
            thread = threading.Thread(target=done)
            thread.start()
            thread.join()

    def summarize(self, source: list[SourceItem], **_options: Any) -> SummaryText:
        """Quote the word if a source has it."""
        self.happen()
        text = " ".join(item.text for item in source)
        return SummaryText(f"They spoke of a {WORD}." if WORD in text else "They spoke.")

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Say by the first component whether a text has the word."""
        self.happen()
        return [[2.0 if WORD in text else 1.0, 1.0, 1.0, 1.0] for text in texts]

    def complete(self, messages: Any, **_options: Any) -> str:
        """Find a fact if the material has the word."""
        self.happen()
        if WORD not in str(messages):
            return json.dumps({"memories": []})
        fact = {
            "category": "entities",
            "content": f"The user owns a {WORD}.",
            "keywords": [],
            "importance": 5,
            "first_message": 5,
            "last_message": 5,
        }
        return json.dumps({"memories": [fact]})


@pytest.fixture
def ports() -> Ports:
    """Give the ports of a test."""
    return Ports()


def fill(db: MemDB, count: int = 12) -> tuple[memdb.Session, memdb.Scope]:
    """Store messages, the fifth with the word."""
    ann = db.scope("ann")
    chat = ann.session("s")
    texts = [
        f"Number {n} tells many long and winding things of the old town."
        for n in range(1, count + 1)
    ]
    texts[4] += f" And of the {WORD}."
    chat.extend([{"role": "user", "text": text} for text in texts])
    return chat, ann


def summary_texts(chat: memdb.Session) -> list[str]:
    """Return the texts of all summaries, [] if the session is gone."""
    try:
        return [summary.text or "" for summary in chat.summaries.tree().summaries]
    except memdb.NotFound:
        return []


def assert_no_word(db: MemDB, chat: memdb.Session) -> None:
    """Fail if a summary, an entry or a finding of `check` tells of what was removed."""
    assert [text for text in summary_texts(chat) if WORD in text] == []
    assert [one.text for one in db.scope("ann").entries.list(inactive=True)] == []
    assert db.file.check(deep=True) == []


@every_removal
def test_a_new_summary_does_not_bring_it_back(
    how: str, ports: Ports, open_db: Callable[..., MemDB]
) -> None:
    """A leaf is stored only if its messages are as they were read."""
    with open_db(":memory:", summarizer=ports) as db:
        chat, ann = fill(db)
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        chat.summaries.compact()
        db.jobs.run()

        assert_no_word(db, chat)


@every_removal
def test_a_condensed_summary_does_not_bring_it_back(
    how: str, ports: Ports, open_db: Callable[..., MemDB]
) -> None:
    """Nor is one that stands for other summaries."""
    with open_db(":memory:", summarizer=ports) as db:
        chat, ann = fill(db, 100)
        db.jobs.run(limit=10, kinds=["summarize"])
        assert any(WORD in text for text in summary_texts(chat))
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        db.jobs.run()

        assert_no_word(db, chat)


@every_removal
@pytest.mark.parametrize("count", [12, 100])
def test_an_upgrade_does_not_bring_it_back(
    how: str, count: int, ports: Ports, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """Nor is a better text of one that was there, pruned or not."""
    with open_db(tmp_path / "a.db") as db:
        fill(db, count)[0].summaries.compact()
    with open_db(tmp_path / "a.db", summarizer=ports) as db:
        ann = db.scope("ann")
        chat = ann.session("s")
        assert chat.summaries.upgrade() > 0
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        db.jobs.run(kinds=["summarize"])

        assert_no_word(db, chat)


@pytest.mark.parametrize("how", [how for how in REMOVALS if how != "the session"])
def test_a_summary_made_anew_does_not_bring_it_back(
    how: str, ports: Ports, open_db: Callable[..., MemDB]
) -> None:
    """`rewrite` without words makes it again, or finds it gone."""
    with open_db(":memory:", summarizer=ports) as db:
        chat, ann = fill(db)
        chat.summaries.compact()
        (summary,) = chat.summaries.tree().summaries
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        try:
            chat.summaries.rewrite(summary.id)
        except memdb.NotFound:
            assert how != "forget"

        assert_no_word(db, chat)


def test_a_model_does_not_replace_the_words_of_a_host(
    ports: Ports, open_db: Callable[..., MemDB], tmp_path: Any
) -> None:
    """Not when it was asked before they were written."""
    with open_db(tmp_path / "a.db") as db:
        fill(db)[0].summaries.compact()
    with open_db(tmp_path / "a.db", summarizer=ports) as db:
        chat = db.scope("ann").session("s")
        assert chat.summaries.upgrade() == 1
        (summary,) = chat.summaries.tree().summaries
        ports.meanwhile = lambda: chat.summaries.rewrite(summary.id, "What I say.")
        db.jobs.run()

        assert summary_texts(chat) == ["What I say."]


def marked(db: MemDB) -> list[int]:
    """Return the seqs of messages whose stored vector is of a text with the word."""
    from struct import unpack

    with db._services.db.read() as tx:
        rows = tx.vectors.list_stored(1, "message", 0, 1 << 62, 10_000)
    firsts = {ref & 0xFFFFFF: unpack("<4b", vector)[:2] for ref, vector in rows}
    return [seq for seq, (first, second) in sorted(firsts.items()) if first > second]


def embedded(db: MemDB) -> int:
    """Return how many messages have a vector."""
    return db.file.info().counts["vectors"]


@every_removal
def test_no_vector_of_it_is_stored(how: str, ports: Ports, open_db: Callable[..., MemDB]) -> None:
    """Nor is one left out: an edited message gets the vector of what it says now."""
    with open_db(":memory:", embedder=ports) as db:
        chat, ann = fill(db)
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        db.jobs.run(kinds=["embed"])

        assert marked(db) == []
        left = 0 if how == "the session" else {"edit": 12}.get(how, 11)
        assert embedded(db) == left
        assert db.jobs.run(kinds=["embed"]) == 0
        assert db.file.check(deep=True) == []


@every_removal
def test_no_vector_of_a_refused_message_is_stored(
    how: str, ports: Ports, open_db: Callable[..., MemDB]
) -> None:
    """It is embedded by a job of its own."""
    with open_db(":memory:", embedder=ports) as db:
        chat, ann = fill(db)
        refusing, ports.embed = ports.embed, refuse_word(ports)
        with pytest.raises(memdb.PortError):
            db.jobs.run(kinds=["embed"])
        assert embedded(db) == 11
        ports.embed = refusing
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        db.jobs.run(kinds=["embed"])

        assert marked(db) == []
        assert db.jobs.run(kinds=["embed"]) == 0
        assert db.file.check(deep=True) == []


def refuse_word(ports: Ports) -> Callable[[list[str]], list[list[float]]]:
    """Return an embedder that fails on texts with the word."""
    healthy = ports.embed

    def embed(texts: list[str]) -> list[list[float]]:
        if any(WORD in text for text in texts):
            raise ValueError("no")
        return healthy(texts)

    return embed


@every_removal
@pytest.mark.parametrize("context", [0, 6], ids=["of the batch", "of its context"])
def test_no_fact_of_it_is_learnt(
    how: str, context: int, ports: Ports, open_db: Callable[..., MemDB]
) -> None:
    """Also if it was shown beside the messages of the batch."""
    with open_db(":memory:", model=ports) as db:
        db.settings.update(extract_messages=12 - context, extract_context=8)
        chat, ann = fill(db)
        if context:
            ports.complete, asked = (lambda *_, **__: '{"memories": []}'), ports.complete
            chat.extract(limit=6)
            ports.complete = asked
        ports.meanwhile = lambda: REMOVALS[how](chat, ann)
        done = chat.extract()

        assert ports.meanwhile is None
        assert_no_word(db, chat)
        assert how == "the session" or done.next_seq == 13
