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
    """Are listed, by stems and by letters: artifacts are removed by a query only if asked for."""
    chat = db.scope("ann").session("s")
    chat.append("user", held)
    chat.artifacts.save("plan.md", held)
    receipt = db.scope("ann").forget(query=query, prove=True)

    assert receipt.proof is not None
    assert "artifact plan.md" in receipt.proof.still_said_in
    assert receipt.remaining == ("artifact 'plan.md': add artifacts=True",)
    assert db.scope("ann").forget(query=query, artifacts=True, prove=True).proven


@pytest.mark.parametrize("verb", ["delete", "forget"])
@pytest.mark.parametrize("whole", [True, False], ids=["scope", "session"])
@pytest.mark.parametrize(("query", "held", "other"), HELD, ids=[query for query, *_ in HELD])
def test_titles_and_state_go_too(
    db: MemDB, query: str, held: str, other: str, whole: bool, verb: str
) -> None:
    """Of the session that is named, or of all; what does not contain the words stays."""
    ann = db.scope("ann")
    for name in ("s", "t"):
        chat = ann.session(name)
        chat.create(title=held, metadata={"topic": other})
        chat.append("user", other)
        chat.state.update({"a": held, "b": other, f"of {held}": 1})
    ann.state["own"] = {held: [other]}

    removed = getattr(ann if whole else ann.session("s"), verb)(query=query).removed

    assert (removed["titles"], removed["state"]) == ((2, 5) if whole else (1, 2))
    titles = {one.name: (one.title, one.metadata) for one in ann.sessions()}
    assert titles["s"] == (None, None)
    assert titles["t"] == ((None, None) if whole else (held, {"topic": other}))
    assert dict(ann.session("s").state) == {"b": other}
    assert len(ann.session("t").state) == (1 if whole else 3)
    assert len(ann.state) == (0 if whole else 1)


@pytest.mark.parametrize("field", ["query", "person"])
def test_quoted_words_stand_side_by_side(db: MemDB, field: str) -> None:
    """As in `recall`: other texts with the same words stay, in every kind of row."""
    ann = db.scope("ann")
    for number, text in enumerate(("A cup of green tea.", "Tea from a green cup.")):
        ann.session("s").append("user", text)
        ann.remember(text, key=f"k{number}")
        ann.items.put(("n",), f"k{number}", text)
        ann.state[f"k{number}"] = text
        ann.artifacts.save(f"user:{number}.md", text)

    receipt = ann.forget(**{field: '"green tea"'}, artifacts=field == "query", prove=True)

    assert receipt.proven, receipt.proof
    assert [one.text for one in ann.session("s").messages()] == ["Tea from a green cup."]
    assert [one.key for one in ann.entries.list()] == ["k1"]
    assert ([one.key for one in ann.items.list()], [*ann.state]) == (["k1"], ["k1"])
    assert [one.name for one in ann.artifacts.list()] == ["user:1.md"]


def test_a_person_goes_from_every_field(db: MemDB) -> None:
    """It removes what says the word, lists that before, and keeps what does not say it."""
    ann = db.scope("ann")
    chat = ann.session("s")
    chat.create(title="A letter to Sue", metadata={"topic": "post"})
    chat.extend([{"role": "user", "text": f"An issue, day {n}."} for n in range(3)])
    chat.append("user", "Who is she?", author="Sue")
    chat.state.update({"friend": "Sue", "city": "Oslo"})
    chat.artifacts.save("plan.md", "Ask Sue.")
    chat.artifacts.save("plan.md", "Ask nobody.")
    chat.artifacts.save("sue.md", "x")
    ann.session("about Sue").append("user", "She sings.")
    ann.items.put(("people", "Sue"), "age", 40)
    ann.items.put(("people", "Ida"), "age", 41)
    ann.remember("She sings.", key="sue/hobby")
    ann.session("Sue's").append("user", "hello")
    ann.delete(session="Sue's")

    usual = ann.forget(query="Sue", dry_run=True)
    page = ann.forget(person="Sue", dry_run=True)
    would = ann.forget(person="Sue", dry_run=True)
    kept = [one.text for one in chat.messages()]
    receipt = ann.forget(person="Sue", prove=True, expected=page.digest)

    assert receipt.proven, receipt.proof
    assert sum(usual.removed.values()) < sum(would.removed.values())
    assert (would.removed, kept[3]) == (receipt.removed, "Who is she?")
    assert {row.kind for row in page.rows} == {
        *("message", "title", "state", "version", "artifact", "session", "item", "entry")
    }
    assert [one.text for one in chat.messages()] == kept[:3]
    assert [(one.name, one.title, one.metadata) for one in ann.sessions()] == [("s", None, None)]
    assert dict(chat.state) == {"city": "Oslo"}
    assert [one.name for one in chat.artifacts.list()] == ["plan.md"]
    assert [one.version for one in chat.artifacts.versions("plan.md")] == [2]
    assert [str(item) for item in ann.items.list()] == ["people/Ida/age"]
    assert not [ref for (ref,) in db.query("SELECT ref FROM tombstones").rows if "ue" in ref]
    assert sum(ann.forget(person="Sue").removed.values()) == 0


def test_a_summary_that_says_more_than_its_messages(db: MemDB) -> None:
    """It is written anew from them, also if no message says the word."""
    chat = db.scope("ann").session("s")
    chat.extend([{"role": "user", "text": f"Day {n} was sunny."} for n in range(40)])
    chat.summaries.compact()
    (first, *_) = chat.summaries.list()
    chat.summaries.rewrite(first.id, "Zoe enjoyed the sun.")

    receipt = db.scope("ann").forget(person="Zoe", prove=True)

    assert receipt.proven, receipt.proof
    assert (receipt.removed["messages"], receipt.rewritten["summaries"] > 0) == (0, True)
    assert "sunny" in (chat.summaries.list()[0].text or "")


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


# Each line: ways to write one number, and numbers that it is not.
NUMBERS = {
    "trunk": (
        [
            "+358 40 123 4567",
            "+358401234567",
            "00358 40 1234567",
            "00358401234567",
            "0401234567",
            "040-123 4567",
            "(040) 12 34 567",
            "+358 (0)40 123.4567",
        ],
        ["0401234568", "040 123 45678", "123 4567 040", "40 123", "x0401234567"],
    ),
    "no trunk": (
        ["+1 212 555 1234", "212-555-1234", "(212) 555-1234", "+12125551234", "2125551234"],
        ["212 555 1235", "555 1234 212", "212 555 12345"],
    ),
    "local": (["123 4567", "123-45-67", "1234567"], ["1234568", "4567 123", "991234567"]),
    "card": (
        ["4444 1111 2222 3333", "4444111122223333", "4444-1111-2222-3333"],
        ["4444 1111 2222 3334", "3333 2222 1111 4444"],
    ),
    "day": (["2026-05-01", "2026.05.01", "20260501"], ["2026-05-02", "01 05 2026"]),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_goes_however_it_is_written(db: MemDB, name: str) -> None:
    """Wherever it stands, beside other words; and no other number goes with it."""
    same, others = NUMBERS[name]
    for number, asked in enumerate(same):
        ann = db.scope(f"ann {number}")
        trip = ann.session("s")
        for text in [*same, *others]:
            trip.append("user", f"Call {text}, please.")
            ann.remember(f"The number {text} is hers.", key=text, secrets="allow")
            ann.items.put(("numbers",), text, {"said": f"Call {text}."})
            ann.state[text] = f"Call {text}."
        for seq, text in enumerate(same):
            ann.session(f"titled {seq}").update(title=f"About {text}")

        receipt = ann.forget(query=asked, prove=number == 0)

        assert [one.text for one in trip.last(99)] == [f"Call {text}, please." for text in others]
        assert {one.text for one in ann.entries.list()} == {
            f"The number {text} is hers." for text in others
        }
        assert {one.key for one in ann.items.list(("numbers",))} == {*others}
        assert {*ann.state} == {*others}
        assert receipt.removed["titles"] == len(same)
        assert receipt.proof is None or receipt.proof.still_said_in == ()


def test_other_words_beside_a_number_count_too(db: MemDB) -> None:
    """The number alone is not enough."""
    trip = db.scope("ann").session("s")
    trip.append("user", "Call Zoe at 040 123 4567.")
    trip.append("user", "Call Bob at 040 123 4567.")

    db.scope("ann").forget(query="Zoe, +358401234567")

    assert [one.text for one in trip.last(9)] == ["Call Bob at 040 123 4567."]


@pytest.mark.parametrize("asked", ["2026-05-01 12:30", "12:30 2026-05-01", "12:30 on 2026-05-01"])
def test_a_time_of_day_is_no_part_of_a_number(db: MemDB, asked: str) -> None:
    """A day and a time are found in any order, as other words are."""
    trip = db.scope("ann").session("s")
    texts = ["2026-05-01 12:30 dentist", "at 12:30 on 2026-05-01", "12:30, 1 May 2026"]
    trip.extend([{"role": "user", "text": text} for text in texts])

    db.scope("ann").forget(query=asked)

    assert [one.text for one in trip.last(9)] == texts[2:]
