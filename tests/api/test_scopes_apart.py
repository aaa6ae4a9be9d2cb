"""Private, shared and session-tagged entries: who sees what."""

import unicodedata
from typing import Any

import pytest

import memdb
from memdb import Category, MemDB


def found(scope: memdb.Scope, query: str = "lamp", **asked: Any) -> list[str]:
    """Return the texts of the entries that a scope recalls."""
    return [hit.text for hit in scope.recall(query, kinds=["entry"], **asked)]


def test_a_shared_entry_is_recalled_by_all_users_of_the_app(db: MemDB) -> None:
    """And by nobody of another app; each hit says that it is shared."""
    db.shared().remember("The lamp is in the hall.")
    db.scope("ann").session("s").append("user", "hello")

    for user in ("ann", "bob"):
        (hit,) = db.scope(user).recall("lamp", kinds=["entry"])
        assert (hit.text, hit.source.shared) == ("The lamp is in the hall.", True)
    assert found(db.scope("ann", app="other")) == []


def test_the_own_entry_goes_before_the_shared_one(db: MemDB) -> None:
    """Of one key, and of the same words."""
    db.shared().remember("The lamp is red.", key="lamp")
    db.shared().remember("A lamp stands here.")
    ann = db.scope("ann")
    ann.remember("The lamp is blue.", key="lamp")
    ann.remember("a lamp stands here")

    assert sorted(found(ann)) == ["The lamp is blue.", "a lamp stands here"]
    assert sorted(found(db.scope("bob"))) == ["A lamp stands here.", "The lamp is red."]


def test_remember_shares_only_on_request(db: MemDB) -> None:
    """By the call, or by a category that was declared shared."""
    db.settings.update(categories=[Category("house", shared=True)])
    ann = db.scope("ann")
    ann.remember("The lamp of ann is green.")
    ann.remember("The lamp of all is white.", shared=True)
    ann.remember("The lamp of the house is red.", category="house")
    ann.remember("The lamp of my room is blue.", category="house", shared=False)

    assert sorted(found(db.scope("bob"))) == [
        "The lamp of all is white.",
        "The lamp of the house is red.",
    ]
    assert len(found(ann)) == 4


def test_a_user_changes_no_shared_entry(db: MemDB) -> None:
    """Its id is not there for any call of a user's scope."""
    entry = db.shared().remember("The lamp is red.", key="lamp").entry
    ann = db.scope("ann").entries

    with pytest.raises(memdb.NotFound):
        ann.get(entry.id)
    assert [call(entry.id) for call in (ann.history, ann.replaced, ann.links)] == [[], [], []]
    with pytest.raises(memdb.NotFound):
        ann.update(entry.id, text="x")
    assert (ann.delete(entry.id), ann.find("lamp"), list(ann.list())) == (False, None, [])


def test_a_private_statement_does_not_touch_a_shared_one(db: MemDB) -> None:
    """What ann says of herself ends nothing for others."""
    db.shared().remember("I live in Oslo.")

    done = db.scope("ann").remember("I moved to Bergen.")

    assert done.action == "added"
    assert [entry.text for entry in db.shared().entries.list()] == ["I live in Oslo."]


def test_nobody_can_be_called_like_the_shared_scope(db: MemDB) -> None:
    """An empty user is refused, not taken for everybody."""
    with pytest.raises(memdb.InvalidInput, match="user"):
        db.scope("")


def test_a_shared_entry_names_no_session(db: MemDB) -> None:
    """A session is one user's."""
    db.scope("ann").session("s").append("user", "x")

    with pytest.raises(memdb.InvalidInput, match="session"):
        db.scope("ann").remember("x", shared=True, session="s")


def test_shared_entries_have_a_past_too(db: MemDB, clock: Any) -> None:
    """With the same order of who goes first."""
    db.shared().remember("The lamp is red.", key="lamp")
    then = clock.now_ms
    clock.advance(1_000)
    db.scope("ann").remember("The lamp is blue.", key="lamp")

    assert found(db.scope("ann"), as_of=then) == ["The lamp is red."]
    assert found(db.scope("ann"), as_of=clock.now_ms) == ["The lamp is blue."]


def test_what_is_for_one_session_is_not_in_anothers_context(db: MemDB) -> None:
    """Nor does a search of the whole scope find it."""
    ann = db.scope("ann")
    for name in ("one", "two"):
        ann.session(name).append("user", f"hello from {name}")
    ann.remember("The lamp is red.", session="one", session_only=True)
    ann.remember("A lamp stands here.", session="one")

    def shown(name: str) -> str:
        messages = ann.session(name).context(4_000, query="lamp").messages
        return "\n".join(one.text for one in messages)

    assert "The lamp is red." in shown("one")
    assert "The lamp is red." not in shown("two")
    assert "A lamp stands here." in shown("two")
    assert found(ann) == ["A lamp stands here."]
    assert len(found(ann, session="one")) == 2
    assert "The lamp is red." not in ann.session("two").tools().call(
        "memory_search", {"query": "lamp"}
    )


def test_what_is_for_one_session_goes_with_it(db: MemDB) -> None:
    """The others stay, told by nobody."""
    ann = db.scope("ann")
    ann.session("one").append("user", "hello")
    ann.remember("The lamp is red.", session="one", session_only=True)
    kept = ann.remember("A lamp stands here.", session="one", seq=1).entry
    ann.entries.update(kept.id, text="A lamp stood here.")

    ann.session("one").delete()

    (left,) = ann.entries.list(inactive=True)
    assert (left.text, left.session, left.first_seq) == ("A lamp stood here.", None, None)
    assert ann.entries.history(left.id)[0].session is None


def test_the_same_words_for_a_session_and_for_all_are_two_entries(db: MemDB) -> None:
    """One of them goes with its session."""
    ann = db.scope("ann")
    ann.session("one").append("user", "hello")
    ann.remember("The lamp is red.")

    done = ann.remember("The lamp is red.", session="one", session_only=True)

    assert done.action == "added"


def test_names_that_look_alike_are_one_scope(db: MemDB) -> None:
    """A system that decomposes the letters of a name means the same user, and the same app."""
    composed, decomposed = (unicodedata.normalize(form, "José") for form in ("NFC", "NFD"))
    db.scope(composed, app=composed).remember("José lives in Vigo.")

    assert db.scope(decomposed, app=decomposed).recall("Where does José live?")
    assert [(one.user, one.app) for one in db.scopes()] == [(composed, composed)]
