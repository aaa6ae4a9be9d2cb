"""The context log: what a context gave is known later, holds no words, and goes with its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import memdb

if TYPE_CHECKING:
    from pathlib import Path

    from memdb import MemDB

LOGGED = {"context_log_days": 30}


def talk(db: MemDB) -> None:
    """Let an agent be given a context and answer, as message 2."""
    ann = db.user("ann")
    chat = ann.session("secret plan")
    chat.append("user", "I am allergic to peanuts. What may I eat?")
    ann.remember("Ann likes zucchini.")
    ann.session("other").append("user", "The harbour of Bergen is deep.")
    ann.artifacts.save("harbour.md", "The harbour of Oslo is wide.")
    chat.context(2_000, query="How deep is the harbour of Bergen?")
    chat.append("assistant", "Bread.")


def test_what_an_answer_was_given(tmp_path: Path) -> None:
    """Each kind of row is there with its words, after work or another opening."""
    path = tmp_path / "a.db"
    with memdb.open(path, settings=LOGGED) as db:
        talk(db)
        assert db.user("ann").session("secret plan").given(2) == []
        db.jobs.run()
        given = db.user("ann").session("secret plan").given(2)
        texts = {(one.kind, one.text, one.reason) for one in given}
        assert ("message", "I am allergic to peanuts. What may I eat?", "as given") in texts
        assert ("entry", "Ann likes zucchini.", "as given") in texts
        assert ("recalled", "The harbour of Bergen is deep.", "as given") in texts
        assert ("artifact", "user:harbour.md", "as given") in texts
        assert db.user("ann").session("secret plan").given(1) == []
        assert db.user("ann").session("nothing").given(5) == []
        assert db.file.check(deep=True) == []
    with memdb.open(path) as db:
        chat = db.user("ann").session("secret plan")
        assert chat.given(2) == given
        db.user("ann").entries.update(1, text="Ann hates zucchini.")
        db.user("ann").forget(session="other")
        reasons = {one.kind: one.reason for one in chat.given(2)}
        assert (reasons["entry"], reasons["recalled"]) == ("changed since", "removed since")


def test_it_is_off_by_default_and_a_look_is_no_context(tmp_path: Path) -> None:
    """Without the setting, and with count_use=False, nothing is kept."""
    for settings in (None, LOGGED):
        with memdb.open(tmp_path / "a.db", settings=settings) as db:
            chat = db.user("ann").session("s")
            chat.append("user", "Hello.")
            chat.context(500, count_use=settings is None)
            db.jobs.run()
            assert chat.given(9) == []
            assert [one.app for one in db.scopes()] == ["default"]


def test_a_call_of_context_writes_nothing(tmp_path: Path) -> None:
    """Only work or the end does."""
    with memdb.open(tmp_path / "a.db", settings=LOGGED) as db:
        chat = db.user("ann").session("s")
        chat.append("user", "Hello.")
        before = db._db.commits
        chat.context(500)
        assert db._db.commits == before


@pytest.mark.parametrize("how", ["session", "everything"])
def test_forgetting_leaves_no_byte(tmp_path: Path, how: str) -> None:
    """A session, or all, goes with its log; the words were never in it."""
    path = tmp_path / "a.db"
    with memdb.open(path, settings=LOGGED) as db:
        talk(db)
        db.jobs.run()
        log = db.scope("ann", "default (given)").items.list()
        assert len(log) == 1
        assert not any(word in str(log[0].value) for word in ("peanuts", "zucchini", "harbour"))
        ann = db.user("ann")
        if how == "session":
            receipt = ann.forget(session="secret plan", prove=True)
        else:
            receipt = ann.forget(everything=True, prove=True)
        assert receipt.proven
        assert len(db.scope("ann", "default (given)").items.list()) == 0
    assert b"secret plan" not in path.read_bytes()


def test_it_expires(tmp_path: Path) -> None:
    """After so many days it is gone by itself."""
    now = [1_790_000_000_000]
    with memdb.open(tmp_path / "a.db", settings=LOGGED, clock=lambda: now[0]) as db:
        talk(db)
        db.jobs.run()
        chat = db.user("ann").session("secret plan")
        assert chat.given(2)
        now[0] += 31 * 86_400_000
        assert chat.given(2) == []


def test_branches_have_their_own(tmp_path: Path) -> None:
    """A context of a branch is of that branch, with the messages that it shares."""
    with memdb.open(tmp_path / "a.db", settings=LOGGED) as db:
        chat = db.user("ann").session("s")
        chat.append("user", "Hello.")
        other = chat.branch("other", 1)
        other.append("user", "Hello again.")
        other.context(500)
        db.jobs.run()
        assert [one.text for one in other.given(3) if one.kind == "message"] == [
            "Hello.",
            "Hello again.",
        ]
        assert chat.given(3) == []
