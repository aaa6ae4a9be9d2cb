"""
Random lives of a file, against plain dicts that remember the same.

Every rule does a thing to the file and to the dicts; after each, what the file
says equals what the dicts say. A reopened file, and a rebuilt one, is the same
file.
"""

import os
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import memdb

USERS = st.sampled_from(["ann", "bob", "ann%", "名"])
NAMES = st.sampled_from(["trip", "work", "user:x", "a/b"])
KEYS = st.sampled_from(["home", "drink", None])
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
) | st.sampled_from(["green tea", "我爱北京", "Oslo, 3 May", "tea"])
SAID = TEXTS.filter(lambda text: text.strip())
BYTES = st.binary(max_size=50) | st.sampled_from([b"tea", b"x" * 300_000])


class Life(RuleBasedStateMachine):
    """A file and the dicts that should say the same."""

    def __init__(self) -> None:
        """Make a folder for the file."""
        super().__init__()
        self.folder = tempfile.mkdtemp(prefix="memdb-life-")
        self.path = os.path.join(self.folder, "agent.db")
        self.db: memdb.MemDB | None = None
        self.messages: dict[tuple[str, str], list[tuple[str, str]]] = {}
        self.external: dict[tuple[str, str], dict[str, int]] = {}
        self.entries: dict[tuple[str, int], dict[str, Any]] = {}
        self.artifacts: dict[tuple[str, str, str], dict[int, bytes]] = {}
        self.last_version: dict[tuple[str, str, str], int] = {}

    @initialize()
    def open(self) -> None:
        """Open it, with the embedder and counter that everybody gets."""
        self.db = memdb.open(
            self.path,
            counter="estimate",
            durability="process",
            settings=memdb.Settings(extract=False),  # what it learns is no model's to know
        )

    def teardown(self) -> None:
        """Check deeply, close, and remove the folder where all was well."""
        found = self.db.file.check(deep=True)
        self.db.close()
        assert found == [], f"{found} in {self.path}"
        shutil.rmtree(self.folder)

    @rule(
        user=USERS, session=NAMES, text=TEXTS, role=st.sampled_from(["user", "assistant", "tool"])
    )
    def append(self, user: str, session: str, text: str, role: str) -> None:
        """Say something."""
        said = self.messages.setdefault((user, session), [])
        stored = self.db.scope(user).session(session).append(role, text)
        said.append((role, text))
        assert stored.seq == len(said)

    @rule(user=USERS, session=NAMES, number=st.integers(0, 3), text=TEXTS)
    def append_external(self, user: str, session: str, number: int, text: str) -> None:
        """Say something under the host's id, perhaps again, perhaps differently."""
        place = (user, session)
        said = self.messages.setdefault(place, [])
        seq = self.external.setdefault(place, {}).get(f"m{number}")
        chat = self.db.scope(user).session(session)
        if seq is None:
            assert chat.append("user", text, external_id=f"m{number}").seq == len(said) + 1
            said.append(("user", text))
            self.external[place][f"m{number}"] = len(said)
        elif said[seq - 1] == ("user", text):
            assert chat.append("user", text, external_id=f"m{number}").seq == seq
        else:
            with pytest.raises(memdb.AlreadyExists):
                chat.append("user", text, external_id=f"m{number}")

    @rule(user=USERS, session=NAMES, texts=st.lists(TEXTS, min_size=1, max_size=5))
    def extend(self, user: str, session: str, texts: list[str]) -> None:
        """Say several things at once."""
        said = self.messages.setdefault((user, session), [])
        self.db.scope(user).session(session).extend(
            [{"role": "user", "text": text} for text in texts]
        )
        said += [("user", text) for text in texts]

    @rule(user=USERS, session=NAMES)
    def append_at_a_wrong_seq(self, user: str, session: str) -> None:
        """Be told where the session is."""
        count = len(self.messages.get((user, session), []))
        with pytest.raises(memdb.VersionConflict) as caught:
            self.db.scope(user).session(session).append("user", "x", expected=count + 1)
        assert caught.value.got == count

    @rule(user=USERS, session=NAMES)
    def delete_session(self, user: str, session: str) -> None:
        """Remove a session with all it has."""
        existed = self.db.scope(user).session(session).delete()
        assert existed or (user, session) not in self.messages
        self.messages.pop((user, session), None)
        self.external.pop((user, session), None)
        for place in [one for one in self.artifacts if one[:2] == (user, session)]:
            del self.artifacts[place]
        for place in [one for one in self.last_version if one[:2] == (user, session)]:
            del self.last_version[place]

    @rule(user=USERS, key=KEYS, text=SAID)
    def remember(self, user: str, key: str | None, text: str) -> None:
        """State a fact, perhaps one with a key that is known."""
        scope = self.db.scope(user)
        mine = {place for place in self.entries if place[0] == user}
        keyed = [one for one in mine if key is not None and self.entries[one]["key"] == key]
        done = scope.remember(text, key=key)
        now = (user, done.entry.id)
        if done.action in ("added", "updated"):
            assert now not in self.entries
            self.entries[now] = {"text": text, "old": []}
        else:
            assert (done.action, done.entry.text) == ("repeated", self.entries[now]["text"])
            if done.entry.key != self.entries[now]["key"]:  # a key that it had not is a change
                self.entries[now]["old"].append(done.entry.text)
        self.entries[now] |= {"key": done.entry.key, "text": done.entry.text}
        gone = {(user, one.id) for one in scope.entries.replaced(done.entry.id)} & mine
        assert (done.action == "updated") <= bool(gone)
        assert set(keyed) <= gone | {now}
        for place in gone:
            del self.entries[place]

    def _change(self, place: tuple[str, int], text: str) -> None:
        entry = self.entries[place]
        entry["old"].append(entry["text"])
        entry["text"] = text

    @precondition(lambda self: self.entries)
    @rule(data=st.data(), text=SAID)
    def update(self, data: st.DataObject, text: str) -> None:
        """Change an entry."""
        user, number = data.draw(st.sampled_from(sorted(self.entries)))
        self.db.scope(user).entries.update(number, text=text)
        if text != self.entries[user, number]["text"]:
            self._change((user, number), text)

    @precondition(lambda self: self.entries)
    @rule(data=st.data())
    def delete_entry(self, data: st.DataObject) -> None:
        """Forget an entry; again does nothing."""
        user, number = data.draw(st.sampled_from(sorted(self.entries)))
        del self.entries[user, number]
        entries = self.db.scope(user).entries
        assert (entries.delete(number), entries.delete(number)) == (True, False)

    @rule(user=USERS, session=NAMES, name=NAMES, data=BYTES)
    def save(self, user: str, session: str, name: str, data: bytes) -> None:
        """Save a version."""
        place = (user, "" if name.startswith("user:") else session, name)
        version = self.db.scope(user).session(session).artifacts.save(name, data).version
        assert version == self.last_version.get(place, 0) + 1
        self.last_version[place] = version
        self.artifacts.setdefault(place, {})[version] = data
        if place[1]:
            self.messages.setdefault((user, session), [])

    @precondition(lambda self: self.artifacts)
    @rule(data=st.data(), everything=st.booleans())
    def delete_artifact(self, data: st.DataObject, everything: bool) -> None:
        """Remove one version, or all."""
        place = data.draw(st.sampled_from(sorted(self.artifacts)))
        user, session, name = place
        version = None if everything else data.draw(st.sampled_from(sorted(self.artifacts[place])))
        self.db.scope(user).session(session or "other").artifacts.delete(name, version)
        if version is not None:
            del self.artifacts[place][version]
        if everything or not self.artifacts[place]:
            del self.artifacts[place]

    @rule()
    def reopen(self) -> None:
        """Close and open."""
        self.db.close()
        self.open()

    @rule()
    def rebuild(self) -> None:
        """Make everything derived anew."""
        self.db.file.rebuild()

    @rule()
    def embed(self) -> None:
        """Do what is due; then nothing is."""
        self.db.jobs.run()
        assert self.db.jobs.pending() == 0

    @invariant()
    def sessions_are_the_same(self) -> None:
        """Messages, order and numbers."""
        if self.db is None:
            return
        for user in ("ann", "bob", "ann%", "名"):
            scope = self.db.scope(user)
            listed = {one.name: one.last_seq for one in scope.sessions()}
            expected = {name: said for (who, name), said in self.messages.items() if who == user}
            assert listed == {name: len(said) for name, said in expected.items()}
            for name, said in expected.items():
                stored = list(scope.session(name).messages())
                assert [(message.role, message.text) for message in stored] == said
                assert scope.session(name).last(3) == stored[-3:]

    @invariant()
    def entries_are_the_same(self) -> None:
        """Texts, keys and history."""
        if self.db is None:
            return
        for user in ("ann", "bob", "ann%", "名"):
            entries = self.db.scope(user).entries
            expected = {number: one for (who, number), one in self.entries.items() if who == user}
            assert {one.id: (one.key, one.text) for one in entries.list()} == {
                number: (one["key"], one["text"]) for number, one in expected.items()
            }
            for number, one in expected.items():
                assert [was.text for was in entries.history(number)] == one["old"]

    @invariant()
    def artifacts_are_the_same(self) -> None:
        """Versions and bytes."""
        if self.db is None:
            return
        for (user, session, name), versions in self.artifacts.items():
            files = self.db.scope(user).session(session or "other").artifacts
            assert [one.version for one in files.versions(name)] == sorted(versions, reverse=True)
            newest = max(versions)
            assert files.load(name).data == versions[newest]
        total = sum(len(versions) for versions in self.artifacts.values())
        assert self.db.file.info().counts["artifact versions"] == total

    @invariant()
    def words_find_what_holds_them(self) -> None:
        """Every message, entry and scope with `tea` answers to it, no other does."""
        if self.db is None:
            return
        for (user, name), said in self.messages.items():
            hits = (
                self.db.scope(user)
                .session(name)
                .recall("tea", limit=1_000, kinds=("message",), by="words")
            )
            expected = {
                seq for seq, (_, text) in enumerate(said, start=1) if text in ("tea", "green tea")
            }
            assert expected <= {one.seq for hit in hits for one in (hit.source, *hit.also)}
            assert all("tea" in hit.text.lower() for hit in hits)


LIMITS = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large],
    "print_blob": True,
}


class TestLife(Life.TestCase):
    """A few lives in each run."""

    settings = settings(max_examples=4, stateful_step_count=30, **LIMITS)


@pytest.mark.slow
class TestManyLives(Life.TestCase):
    """Many longer ones at night."""

    settings = settings(max_examples=300, stateful_step_count=60, **LIMITS)
