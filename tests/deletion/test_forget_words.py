"""What a query forgets follows one rule: in messages, entries, their old versions, and the proof."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from memdb import MemDB

# (query, text that holds it, text that does not): stems, accents, widths, scripts.
HELD = [
    ("peanuts", "The peanut is bad.", "The peacock is bad."),
    ("Zoe", "Zoë lives in Bergen.", "Zoey lives in Bergen."),
    ("run", "She was running fast.", "She was runic."),
    ("strasse", "Eine Straße in Köln.", "Eine Strophe in Köln."),
    ("东京", "我们去东京旅行。", "我们去京都旅行。"),
    ("елка", "ёлка стоит", "полка стоит"),
    ("fullwidth", "Ｆｕｌｌｗｉｄｔｈ secret.", "Full width."),
    ("art", "Modern art is nice.", "The party is nice."),
    ("ABC-123", "User ABC-123 is his.", "User ABC-1234 is his."),
]


@pytest.mark.parametrize(("query", "held", "other"), HELD, ids=[query for query, *_ in HELD])
def test_one_rule_for_all_that_was_said(db: MemDB, query: str, held: str, other: str) -> None:
    """A message, an entry and an old version go by the same words, and stay by the same."""
    ann = db.scope("ann")
    ann.session("s").extend([{"role": "user", "text": held}, {"role": "user", "text": other}])
    ann.remember(held, key="now")
    ann.remember(other, key="other")
    for key, text in (("a", held), ("b", other)):
        entry = ann.remember(text, key=key).entry
        ann.entries.update(entry.id, text=f"Nothing of {key}.")
    receipt = ann.forget(query=query, prove=True)
    history = {
        key: [one.text for one in ann.entries.history(found.id)]
        for key in "ab"
        if (found := ann.entries.find(key)) is not None
    }

    assert [one.text for one in ann.session("s").last(9)] == [other]
    assert (ann.entries.find("now"), ann.entries.find("other") is None) == (None, False)
    assert history == {"a": [], "b": [other]}
    assert receipt.proof is not None
    assert receipt.proof.found_bytes == 0


@pytest.mark.parametrize(("query", "held", "other"), HELD, ids=[query for query, *_ in HELD])
def test_an_item_goes_for_all_that_it_says(db: MemDB, query: str, held: str, other: str) -> None:
    """Names of fields and of metadata too, at any depth, searched or not."""
    items = db.scope("ann").items
    for name, text in (("first", held), ("second", other)):
        items.put((name,), "text", text)
        items.put((name,), "deep", {"a": [{"b": [text]}]}, index=False)
        items.put((name,), "name", {"a": [{text: {"b": 1}}]})
        items.put((name,), "metadata", 1, metadata={"about": text})
        items.put((name,), "name of metadata", 1, metadata={text: None})
        items.put((name,), text, 1)
        items.put((name, text), "below", 1)
    receipt = db.scope("ann").forget(query=query, prove=True)

    assert [*items.list(("first",))] == []
    assert len(items.list(("second",))) == 7
    assert receipt.removed["items"] == 7
    assert receipt.proof is not None
    assert receipt.proof.found_bytes == 0


def test_an_item_goes_for_a_number(db: MemDB) -> None:
    """Its value may be one, or hold one."""
    ann = db.scope("ann")
    for key, value in (("pin", 73_912), ("deep", [{"a": 73_912}]), ("other", 73_913)):
        ann.items.put(("n",), key, value)

    receipt = ann.forget(query="73912", prove=True)

    assert [item.key for item in ann.items.list()] == ["other"]
    assert receipt.proven


@pytest.mark.parametrize(("query", "held", "other"), HELD, ids=[query for query, *_ in HELD])
def test_places_that_still_say_it(db: MemDB, query: str, held: str, other: str) -> None:
    """Are listed, by stems and by letters: titles, state and artifacts are not removed by a query."""
    chat = db.scope("ann").session("s")
    chat.host.create(title=held)
    chat.append("user", held)
    chat.state["k"] = held
    chat.artifacts.save("plan.md", held)
    receipt = db.scope("ann").forget(query=query, prove=True)

    assert receipt.proof is not None
    assert set(receipt.proof.still_said_in) >= {
        "name, title or metadata of session s",
        "state k of session s",
        "artifact plan.md",
    }


def test_names_of_what_was_deleted_before(db: MemDB) -> None:
    """Forgetting a session takes them from the tombstones too, whatever was deleted first."""
    ann = db.scope("ann")
    for first in ("artifact", "session"):
        chat = ann.session("zoe-affair")
        chat.append("user", "hello")
        chat.artifacts.save("zoe.md", "text")
        if first == "artifact":
            chat.artifacts.delete("zoe.md")
        else:
            chat.delete()
        receipt = ann.forget(session="zoe-affair", prove=True)
        refs = [row[0] for row in db.query("SELECT ref FROM tombstones").rows]

        assert receipt.proven
        assert refs
        assert not [ref for ref in refs if "zoe" in ref]
