"""A person is forgotten at every place of a memory where a name can stand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import Scope

NAME = "Quibblina"


def summarized(ann: Scope) -> None:
    chat = ann.session("long")
    chat.extend([{"role": "user", "text": f"Day {number} was sunny."} for number in range(40)])
    chat.summaries.compact()
    chat.summaries.rewrite(chat.summaries.list()[0].id, f"{NAME} enjoyed the sun.")


def archived(ann: Scope) -> None:
    chat = ann.session("old")
    chat.extend([{"role": "user", "text": f"{NAME} rowed on day {number}."} for number in range(9)])
    chat.archive(keep_last=1)


def branched(ann: Scope) -> None:
    ann.session("s").branch(f"with {NAME}", 1)


def deleted(ann: Scope) -> None:
    ann.session(f"a talk with {NAME}").append("user", "hello")
    ann.delete(session=f"a talk with {NAME}")


def renewed(ann: Scope) -> None:
    ann.session("s").artifacts.save("plan.md", f"Ask {NAME}.")
    ann.session("s").artifacts.save("plan.md", "Ask nobody.")


CALL = {"type": "tool_call", "id": "c", "name": "mail", "arguments": {"to": NAME}}
PLACES: dict[str, Callable[[Scope], Any]] = {
    "text of a message": lambda ann: ann.session("s").append("user", f"Is {NAME} here?"),
    "author of a message": lambda ann: ann.session("s").append("user", "Who?", author=NAME),
    "metadata of a message": lambda ann: ann.session("s").append(
        "user", "Who?", metadata={"by": NAME}
    ),
    "external id of a message": lambda ann: ann.session("s").append(
        "user", "Who?", external_id=f"{NAME}-1"
    ),
    "part of a message": lambda ann: ann.session("s").append("assistant", parts=[CALL]),
    "archived messages": archived,
    "name of a session": lambda ann: ann.session(f"{NAME} and I").append("user", "hello"),
    "title of a session": lambda ann: ann.session("s").update(title=f"A letter to {NAME}"),
    "metadata of a session": lambda ann: ann.session("s").update(metadata={"with": NAME}),
    "name of a branch": branched,
    "name of a session that was deleted": deleted,
    "summary": summarized,
    "text of an entry": lambda ann: ann.remember(f"{NAME} sings."),
    "key of an entry": lambda ann: ann.remember("She sings.", key=f"{NAME}/hobby"),
    "keywords of an entry": lambda ann: ann.remember("She sings.", keywords=[NAME]),
    "metadata of an entry": lambda ann: ann.remember("She sings.", metadata={"who": NAME}),
    "old text of an entry": lambda ann: ann.entries.update(
        ann.remember(f"{NAME} owns it.", key="boat").entry.id, text="Karl owns it."
    ),
    "value of an item": lambda ann: ann.items.put(("n",), "k", {"a": [NAME]}, index=False),
    "bytes of an item": lambda ann: ann.items.put(("n",), "k", f"x {NAME} y".encode()),
    "namespace of an item": lambda ann: ann.items.put(("n", NAME), "k", 1),
    "key of an item": lambda ann: ann.items.put(("n",), NAME, 1),
    "metadata of an item": lambda ann: ann.items.put(("n",), "k", 1, metadata={"of": NAME}),
    "name of an artifact": lambda ann: ann.session("s").artifacts.save(f"{NAME}.md", "x"),
    "text of an artifact": lambda ann: ann.session("s").artifacts.save("a.md", f"Ask {NAME}."),
    "bytes of an artifact": lambda ann: ann.artifacts.save("a.bin", f"Ask {NAME} now".encode()),
    "old version of an artifact": renewed,
    "metadata of an artifact": lambda ann: ann.artifacts.save("a.md", "x", metadata={"by": NAME}),
    "state of a session": lambda ann: ann.session("s").state.update({"friend": NAME}),
    "key of a state": lambda ann: ann.session("s").state.update({NAME: 1}),
    "state of the user": lambda ann: ann.state.update({"friend": NAME}),
    "part of the app": lambda part: part.remember(f"{NAME} sails."),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_person_goes_from_each_place(place: str, tmp_path: Path) -> None:
    """Listed before, gone from rows and bytes after; what does not name her stays."""
    path = tmp_path / "a.db"
    with memdb.open(path, embedder=None) as db:
        ann, bob = db.scope("ann", "desk"), db.scope("bob", "desk")
        for scope in (ann, bob):
            scope.session("s").append("user", "The harbour is calm.")
            scope.remember("The ferry leaves at noon.")
        PLACES[place](db.scope("ann", "desk (memory)") if place == "part of the app" else ann)
        listed = ann.forget(person=NAME, dry_run=True)
        receipt = ann.forget(person=NAME, prove=True, expected=listed)

        is_kept = place == "name of a session that was deleted"  # only a mark of it is left
        assert is_kept or listed.rows
        assert receipt.proven, receipt
        assert (receipt.what, receipt.remaining, listed.remaining) == ("person", (), ())
        assert not any(ann.forget(person=NAME).removed.values())
        for scope in (ann, bob):
            assert scope.session("s").get(1).text == "The harbour is calm."
            assert [one.text for one in scope.entries.list()][:1] == ["The ferry leaves at noon."]
        assert db.file.check(deep=True) == []
        if db.path == str(path):  # bytes of a server are its own
            assert NAME.lower().encode() not in path.read_bytes().lower()


def test_what_remains_is_listed_with_the_call_that_removes_it() -> None:
    """Other apps of the same user, and the names of scopes; nothing of other users."""
    with memdb.open(":memory:", embedder=None) as db:
        for user, app in (("ann", "desk"), ("ann", "trip"), ("bob", "desk"), ("ann", NAME)):
            db.scope(user, app).remember(f"{NAME} sails.")
        ann = db.scope("ann", "desk")
        ann.session("s").append("user", "hello")

        listed = ann.forget(person=NAME, dry_run=True).remaining
        receipt = ann.forget(person=NAME)

        assert receipt.remaining == listed
        assert [one.split(":")[0] for one in listed] == [
            f"the name of user 'ann' of app '{NAME}'",
            f"app '{NAME}' of the user",
            "app 'trip' of the user",
        ]
        for one in listed:
            place, _, call = one.partition(": ")
            if place.startswith("app"):
                assert eval(f"db.{call}").removed["entries"] == 1
        assert [one[:8] for one in ann.forget(person=NAME).remaining] == ["the name"]
        assert len(db.scope("bob", "desk").entries.list()) == 1


def test_only_forget_takes_a_person() -> None:
    """Deleting has no rule for each place."""
    with memdb.open(":memory:", embedder=None) as db:
        db.scope("ann").remember(f"{NAME} sails.")
        with pytest.raises(InvalidInput, match="only `forget`"):
            db.scope("ann").delete(person=NAME)
        assert len(db.scope("ann").entries.list()) == 1
