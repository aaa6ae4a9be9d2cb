"""Full-text indexes under random changes: FTS5's own check after each, and no word of a lost row."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from fts5_leaves import INDEXES, read_terms

import memdb
from memdb.models.ids import number_of
from memdb.models.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

SETTINGS = Settings(summary_messages=4, summary_group=2, summary_condense_at=3)
CHECK = "INSERT INTO {0}_fts ({0}_fts, rank) VALUES ('integrity-check', {1})"
SET_LEAF_BYTES = "INSERT INTO {0}_fts ({0}_fts, rank) VALUES ('pgsz', 64)"
TERMS = "SELECT term FROM temp.{0}_terms"
CREATE_TERMS = "CREATE VIRTUAL TABLE temp.{0}_terms USING fts5vocab (main, {0}_fts, row)"

SUMMARIES = "SELECT id FROM summaries ORDER BY id"

RUNS, STEPS = 22, 150


class Life:
    """One user's memory, and the random calls that change what its indexes hold."""

    def __init__(self, db: memdb.MemDB, seed: int) -> None:
        """Begin with rows of every kind; the words are drawn."""
        self.db, self.random = db, random.Random(seed)
        self.ann = db.scope("ann")
        self.chat = self.ann.session("chat")
        self.keys = [f"k{number}" for number in range(40)]
        self.names = [f"s{number}" for number in range(30)]
        with db._db.write() as tx:
            for index in INDEXES:  # many leaves of few rows
                tx.run(SET_LEAF_BYTES.format(index))
        self.chat.extend(self.said(150))
        self.chat.archive(keep_last=40)
        for key in self.keys:
            self.ann.remember(self.text(), key=key)
            self.ann.items.put(("notes",), key, {"text": self.text()})
            self.ann.artifacts.save(key, self.text())
        for name in self.names:
            self.title(name)
        db.jobs.run()

    def text(self) -> str:
        """Return a few words, some of which many rows hold."""
        draw = self.random
        return f"fact {draw.randrange(50)} about {draw.random()} of w{draw.randrange(9**6)}"

    def said(self, count: int) -> list[dict[str, Any]]:
        """Return new messages."""
        return [{"role": "user", "text": self.text()} for _ in range(count)]

    def title(self, name: str) -> None:
        """Give a session a title."""
        session = self.ann.session(name)
        if session.head() is None:
            session.create(title=self.text())
        else:
            session.update(title=self.text())

    def seq(self, *, is_old: bool = False) -> int:
        """Return the number of a message that is there; an old one may be archived."""
        newest = [one.seq for one in self.chat.last(40)]
        if is_old:
            older = [one.seq for one in self.chat.messages() if one.seq < min(newest, default=0)]
            newest = older[:60] or newest
        if not newest:
            newest = [one.seq for one in self.chat.extend(self.said(30))]
        return self.random.choice(newest)

    def entry(self) -> int:
        """Return an entry that is there."""
        found = [one.id for one in self.ann.entries.list()]
        return self.random.choice(found) if found else self.remember()

    def remember(self) -> int:
        """Store an entry, or replace one."""
        entry = self.ann.remember(self.text(), key=self.random.choice(self.keys)).entry
        assert entry is not None
        return entry.id

    def summary(self) -> int:
        """Return a summary that is there."""
        self.chat.summaries.compact(keep_last=10)
        # `summaries.list` would make each text that was pruned anew.
        return self.random.choice([number_of(one["id"]) for one in self.db.query(SUMMARIES)])

    def steps(self, index: str) -> list[Step]:
        """Return what changes an index: additions, edits, deletions and, last, forgetting."""
        key, name = self.random.choice(self.keys), self.random.choice(self.names)
        ann, chat, text = self.ann, self.chat, self.text
        new = {"role": "user", "text": text()}
        changes: dict[str, Callable[[], list[Step]]] = {
            "messages": lambda: [
                lambda: chat.extend(self.said(20)),
                lambda: chat.append("user", text()),
                lambda: chat.edit(self.seq(), new),
                lambda: chat.edit(self.seq(), new),
                lambda: chat.delete(self.seq()),
                lambda: chat.forget(self.seq()),
            ],
            "archived": lambda: [
                lambda: chat.extend(self.said(10)),
                lambda: chat.archive(keep_last=20),
                lambda: chat.unarchive(),
                lambda: chat.edit(self.seq(is_old=True), new),
                lambda: chat.delete(self.seq(is_old=True)),
                lambda: chat.forget(self.seq(is_old=True)),
            ],
            "entries": lambda: [
                lambda: self.remember(),
                lambda: ann.entries.update(self.entry(), text=text()),
                lambda: ann.entries.update(self.entry(), text=text()),
                lambda: ann.entries.delete(self.entry()),
                lambda: ann.forget(entry=self.entry()),
            ],
            "summaries": lambda: [
                lambda: chat.extend(self.said(10)),
                lambda: chat.summaries.compact(keep_last=10),
                lambda: chat.summaries.rewrite(self.summary(), text()),
                lambda: chat.summaries.delete(self.summary()),
                lambda: chat.edit(self.seq(is_old=True), new),
                lambda: chat.forget(self.seq(is_old=True)),
            ],
            "artifacts": lambda: [
                lambda: ann.artifacts.save(key, text()),
                lambda: ann.artifacts.save(key, text()),
                lambda: ann.artifacts.delete(key),
                lambda: ann.forget(query=text().split()[1], artifacts=True),
            ],
            "items": lambda: [
                lambda: ann.items.put(("notes",), key, {"text": text()}),
                lambda: ann.items.put(("notes",), key, {"text": text()}),
                lambda: ann.items.delete(("notes",), key),
                lambda: ann.forget(query=text().split()[1]),
            ],
            "sessions": lambda: [
                lambda: self.title(name),
                lambda: self.title(name),
                lambda: ann.delete(session=name),
                lambda: ann.forget(session=name),
            ],
        }
        return changes[index]()


def live(life: Life, steps: int, indexes: tuple[str, ...]) -> list[str]:
    """Change *indexes* at random; return what FTS5 found wrong, and terms that no row has."""
    for number in range(steps):
        index = life.random.choice(indexes)
        *others, forget = life.steps(index)
        (forget if number % 10 == 9 else life.random.choice(others))()
        with life.db._db.write() as tx:
            try:
                if index == "messages":
                    tx.words.move_tail()
                tx.run(CHECK.format(index, int(index != "archived")))
            except memdb.Corrupt as error:
                return [f"step {number}, {index}: {error}"]
    found = [f"{one.code}: {one.text}" for one in life.db.file.check(deep=True)]
    with life.db._db.write() as tx:
        for index in indexes:
            tx.run(CREATE_TERMS.format(index))
            held = {term for (term,) in tx.all(TERMS.format(index))}
            stray = sorted(read_terms(tx.all, index) - held)
            found += [f"{index} keeps {term!r}" for term in stray]
    return found


def run(seed: int, steps: int, indexes: tuple[str, ...]) -> list[str]:
    """Return what is wrong after one run, with its seed."""
    with memdb.open(":memory:", embedder=None, counter="estimate", settings=SETTINGS) as db:
        return [f"seed {seed}: {one}" for one in live(Life(db, seed), steps, indexes)[:3]]


def test_random_changes_leave_every_index_whole() -> None:
    """A short run over all indexes."""
    assert run(0, 70, INDEXES) == []


@pytest.mark.slow
@pytest.mark.parametrize("index", INDEXES)
def test_many_random_changes_leave_an_index_whole(index: str) -> None:
    """Random edits, archiving, deletions and forgetting, in many runs."""
    assert [one for seed in range(RUNS) for one in run(seed, STEPS, (index,))] == []
