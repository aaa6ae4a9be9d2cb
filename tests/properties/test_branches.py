"""
A random tree of branches under random writes, against a plain Python model.

The model is a list of messages per head, as if each branch had copies; what is shared is
the same object. After each step every way of reading a head gives the model's.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import memdb
from memdb import MemDB, NotFound, Session, Settings
from memdb.adapters.host import Host
from memdb.models.ids import MASKS
from memdb.tables.checks import RULES

WORDS = "apple birch cedar delta ember flint grove heron iris juniper kelp larch".split()
SETTINGS = Settings(summary_messages=4, summary_condense_at=3, summary_group=2)


class Said:
    """A message of the model; heads that share it hold the same object."""

    def __init__(self, seq: int, text: str) -> None:
        """Say *text* as number *seq*."""
        self.seq = seq
        self.text = text


class Model:
    """What each head holds: a list of messages, and the last seq given out."""

    def __init__(self) -> None:
        """Begin with the session itself, under ""."""
        self.heads: dict[str, list[Said]] = {"": []}
        self.last: dict[str, int] = {"": 0}
        self.parents: dict[str, str] = {}

    def owner(self, head: str, seq: int, leaves: dict[str, int]) -> str:
        """Return the head that holds message *seq* of the path of *head*."""
        while head and seq <= leaves[head]:
            head = self.parents[head]
        return head


class Play:
    """Does the same to a file and to the model."""

    def __init__(self, db: MemDB, seed: int) -> None:
        """Play with the session "talk" of *db*."""
        self.db = db
        self.random = random.Random(seed)
        self.model = Model()
        self.count = 0
        self.scope = db.scope("ann")
        self.scope.session("talk").append("user", "apple begins 0")
        self.model.heads[""].append(Said(1, "apple begins 0"))
        self.model.last[""] = 1
        self.scope.session("other").append("user", "apple of another session")

    def chat(self, head: str) -> Session:
        """Return a head of the session."""
        main = self.scope.session("talk")
        return main.branch(head, create=False) if head else main

    def step(self) -> None:
        """Do one random thing."""
        heads = sorted(self.model.heads)
        head = self.random.choice(heads)
        acts = [self.append] * 6 + [self.branch] * 2 + [self.delete, self.pop] + [self.replace] * 2
        acts += [self.compact, self.archive, self.edit, self.drop, self.forget, self.embed]
        acts += [self.clear] if self.random.random() < 0.3 else []
        self.random.choice(acts)(head)

    def append(self, head: str) -> None:
        """Add one to six messages."""
        for _ in range(self.random.randint(1, 6)):
            self.count += 1
            text = f"{self.random.choice(WORDS)} {self.random.choice(WORDS)} {self.count}"
            expected = self.model.last[head]
            role = self.random.choice(("user", "assistant"))
            stored = self.chat(head).append(role, text, expected=expected)
            self.model.last[head] += 1
            assert stored.seq == self.model.last[head]
            self.model.heads[head].append(Said(stored.seq, text))

    def branch(self, head: str) -> None:
        """Let a new branch leave from somewhere."""
        if len(self.model.heads) > 7:
            return
        name = f"b{self.count}_{len(self.model.heads)}_{self.random.randint(0, 10**6)}"
        after = self.random.choice((None, self.random.randint(0, self.model.last[head])))
        self.chat(head).branch(name, after, create=True)
        at = self.model.last[head] if after is None else after
        self.model.heads[name] = [one for one in self.model.heads[head] if one.seq <= at]
        self.model.last[name] = at

    def _some(self, head: str) -> list[Said]:
        held = self.model.heads[head]
        return self.random.sample(held, min(len(held), self.random.randint(1, 3)))

    def delete(self, head: str) -> None:
        """Remove messages: from every head that shares them."""
        gone = self._some(head)
        if gone:
            self.chat(head).delete([one.seq for one in gone])
            self._remove(gone)

    def forget(self, head: str) -> None:
        """Forget messages: on every head that shares them."""
        gone = self._some(head)
        if gone:
            self.chat(head).forget([one.seq for one in gone])
            self._remove(gone)

    def _remove(self, gone: list[Said]) -> None:
        ids = set(map(id, gone))
        for name, held in self.model.heads.items():
            self.model.heads[name] = [one for one in held if id(one) not in ids]

    def pop(self, head: str) -> None:
        """Take the newest message back from one head alone."""
        popped = self.chat(head).pop()
        held = self.model.heads[head]
        assert (popped and popped.text) == (held[-1].text if held else None)
        self.model.heads[head] = held[:-1]

    def replace(self, head: str) -> None:
        """Shorten one head alone."""
        gone = self._some(head)
        if not gone:
            return
        ids = set(map(id, gone))
        self.count += 1
        text = f"kelp instead {self.count}"
        (new,) = self.chat(head).replace(
            [one.seq for one in gone], [{"role": "user", "text": text}]
        )
        self.model.heads[head] = [one for one in self.model.heads[head] if id(one) not in ids]
        self.model.last[head] += 1
        assert new.seq == self.model.last[head]
        self.model.heads[head].append(Said(new.seq, text))

    def clear(self, head: str) -> None:
        """Empty one head alone."""
        assert self.chat(head).clear() == bool(self.model.heads[head])
        self.model.heads[head] = []

    def compact(self, head: str) -> None:
        """Make the summaries that are due."""
        self.chat(head).summaries.compact(keep_last=None)

    def archive(self, head: str) -> None:
        """Compress what is old, or bring it back."""
        if self.random.random() < 0.3:
            self.chat(head).unarchive()
        else:
            self.chat(head).archive(keep_last=self.random.randint(0, 5))

    def edit(self, head: str) -> None:
        """Change what a message says: on every head that shares it."""
        for one in self._some(head)[:1]:
            self.count += 1
            one.text = f"heron edited {self.count}"
            self.chat(head).edit(one.seq, {"role": "user", "text": one.text})

    def drop(self, head: str) -> None:
        """Delete a branch, if none leaves from it."""
        parents = {info.parent for info in self.scope.session("talk").branches()}
        if head and head not in parents and self.random.random() < 0.5:
            self.chat(head).delete()
            del self.model.heads[head], self.model.last[head]
            with pytest.raises(NotFound):
                self.chat(head)

    def embed(self, _head: str) -> None:
        """Do what is due in the file."""
        self.db.jobs.run()

    def compare(self) -> None:
        """Compare every way of reading every head."""
        scope = self.scope
        assert [one.name for one in scope.sessions()] == ["other", "talk"]
        infos = {one.name: one for one in scope.session("talk").branches()}
        assert set(infos) == set(self.model.heads) - {""}
        for head, held in self.model.heads.items():
            chat = self.chat(head)
            wanted = [(one.seq, one.text) for one in held]
            assert [(one.seq, one.text) for one in chat.messages()] == wanted
            assert chat.last_seq == self.model.last[head]
            for count in (0, 1, 3, 50):
                newest = wanted[len(wanted) - min(count, len(wanted)) :]
                assert [(one.seq, one.text) for one in chat.last(count)] == newest
            self.compare_one(chat, wanted)
            if head:
                assert infos[head].message_count == len(held)
                assert infos[head].last_seq == self.model.last[head]

    def compare_one(self, chat: Session, wanted: list[tuple[int, str]]) -> None:
        """Compare what depends on where a message is, and what is found."""
        middle = self.random.randint(0, 40)
        after = [one.seq for one in chat.messages(middle, 4)]
        assert after == [seq for seq, _ in wanted if seq > middle][:4]
        for seq, text in self.random.sample(wanted, min(3, len(wanted))):
            assert chat.get(seq).text == text
        head = chat.head()
        assert head is not None
        assert (head.last_seq, head.newest_seq) == (chat.last_seq, wanted[-1][0] if wanted else 0)
        snapshot = Host(chat).snapshot()
        assert snapshot is not None
        assert [one.seq for one in snapshot.messages] == [seq for seq, _ in wanted]
        window = Host(chat).window()
        assert [one.text for one in window.messages] == [text for _, text in wanted]
        word = self.random.choice(WORDS)
        hits = chat.recall(word, 1000, kinds=("message",), by="words", min_score=0.0)
        holding = sorted(seq for seq, text in wanted if word in text.split())
        assert sorted(hit.source.seq or 0 for hit in hits) == holding
        texts = {text for _, text in wanted}
        meant = chat.recall("heron grove", 1000, kinds=("message",), min_score=0.0)
        assert {hit.text for hit in meant} <= texts
        self.compare_context(chat, wanted)

    def compare_context(self, chat: Session, wanted: list[tuple[int, str]]) -> None:
        """Compare contexts and summaries with what they may stand for."""
        numbers = {text.split()[-1] for _, text in wanted}
        context = chat.context(400)
        tail = [one for one in context.messages if one.seq]
        assert [(one.seq, one.text) for one in tail] == wanted[len(wanted) - len(tail) :]
        covered = [
            (piece.first_seq or 0, piece.last_seq or 0)
            for piece in context.pieces
            if piece.kind in ("summary", "digest", "omitted", "message", "system")
        ]
        for seq, _ in wanted:
            assert sum(first <= seq <= last for first, last in covered) == 1
        tree = chat.summaries.tree()
        for one in tree.summaries:
            said = {word for word in one.text.split() if word.isdecimal()}
            assert said <= numbers, (one, numbers)
            assert chat.summaries.expand(one.id).summary == one

    def compare_counts(self) -> None:
        """Compare what sessions and branches keep with what is counted anew."""
        with self.db._db.read() as tx:
            assert tx.all(RULES["session_counts"], MASKS) == []

    def compare_scope(self) -> None:
        """Compare what a search of the whole scope finds: each message once."""
        every = {uid.uid: uid for name in self.model.heads for uid in self.chat(name).messages()}
        word = self.random.choice(WORDS)
        hits = self.scope.recall(word, 1000, kinds=("message",), by="words", min_score=0.0)
        mine = [hit for hit in hits if hit.source.session == "talk"]
        for hit in mine:
            chat = self.chat(hit.source.branch or "")
            assert chat.get(hit.source.seq or 0).text == hit.text
        # Heads share a message by its uid, and no copy of it is left that no head shows.
        shared = [one for held in self.model.heads.values() for one in held]
        assert len(every) == len({id(one) for one in shared})
        texts = sorted(one.text for one in every.values() if word in one.text.split())
        assert sorted(hit.text for hit in mine) == texts


def without_times(lines: Iterator[str]) -> list[str]:
    """Return an export as a list."""
    return list(lines)


@pytest.mark.parametrize("seed", range(2))
def test_every_head_reads_as_if_it_had_copies(tmp_path: Path, seed: int) -> None:
    """Under 60 random writes; checked, rebuilt, exported and imported at the end."""
    with memdb.open(str(tmp_path / "a.db"), settings=SETTINGS) as db:
        play = Play(db, seed)
        for number in range(60):
            play.step()
            play.compare_counts()
            if number % 4 == 3:
                play.compare()
        play.compare()
        play.compare_scope()
        assert db.file.check(deep=True) == []
        db.file.rebuild()
        assert db.file.check(deep=True) == []
        play.compare()
        round_trip(db, play, tmp_path)


def round_trip(db: MemDB, play: Play, folder: Path) -> None:
    """Import an export into a new file: it gives the same export, and reads the same."""
    db.export(folder / "a.jsonl", user="ann")
    with memdb.open(str(folder / "b.db"), settings=SETTINGS) as other:
        other.import_file(folder / "a.jsonl")
        other.export(folder / "b.jsonl", user="ann")
        assert lines_of(folder / "b.jsonl") == lines_of(folder / "a.jsonl")
        assert other.file.check(deep=True) == []
        play.db, play.scope = other, other.scope("ann")
        play.compare()


def lines_of(path: Path) -> list[Any]:
    """Return the lines of an export without summaries, which are made anew."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if not line.startswith('{"kind":"summary"')]
