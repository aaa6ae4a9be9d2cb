"""Entries are switched off and on, counted as used, cleared, and rendered in a given order."""

from __future__ import annotations

import pytest

import memdb
from memdb import AlreadyExists, InvalidInput, MemDB, NotFound


def texts(db: MemDB) -> list[str]:
    """Return what holds."""
    return [entry.text for entry in db.scope("ann").entries.list()]


def test_an_entry_is_switched_off_and_on(db: MemDB) -> None:
    """Off it is in no recall and no profile; its history says what happened."""
    ann = db.scope("ann")
    kept = ann.remember("Ann lives in Oslo.", category="identity").entry

    off = ann.entries.update(kept.id, active=False)
    assert (off.active, texts(db)) == (False, [])
    assert list(ann.recall("Oslo", by="words")) == []
    assert ann.profile(400).text == ""

    on = ann.entries.update(kept.id, active=True)
    assert (on.active, texts(db)) == (True, ["Ann lives in Oslo."])
    assert ann.recall("Oslo", by="words")[0].source.entry_id == kept.id
    assert [one.active for one in ann.entries.history(kept.id)] == [True, False]
    assert ann.entries.update(kept.id, active=True) == on
    assert db.file.check(deep=True) == []


def test_what_expired_is_switched_on_without_its_end(clock, open_db) -> None:
    """An end that has passed would switch it off again at once."""
    db = open_db(":memory:", clock=clock)
    kept = db.scope("ann").remember("Ann is in Oslo.", expires="1d").entry
    clock.advance(2 * 86_400_000)

    on = db.scope("ann").entries.update(kept.id, active=True)

    assert (on.expires_ms, texts(db)) == (None, ["Ann is in Oslo."])


def test_what_gave_way_is_switched_on_in_the_place_of_the_other(db: MemDB) -> None:
    """Of two statements of a key one holds."""
    ann = db.scope("ann")
    first = ann.remember("Ann lives in Oslo.", key="home").entry
    ann.remember("Ann lives in Bergen.", key="home")
    off = ann.remember("Ann works in Oslo.", key="work").entry
    ann.entries.update(off.id, active=False)
    ann.remember("Bea drives lorries.", key="work")
    with pytest.raises(NotFound):
        db.scope("bob").entries.update(first.id, active=True)
    with pytest.raises(InvalidInput, match="active"):
        ann.entries.update(first.id, active=1)

    for entry_id, version in ((first.id, 3), (off.id, 3)):
        on = ann.entries.update(entry_id, active=True, expires=None, importance=7)
        assert (on.active, on.superseded_by, on.importance) == (True, None, 7)
        assert on.version == version

    assert texts(db) == ["Ann lives in Oslo.", "Ann works in Oslo."]


def test_all_entries_are_deleted_and_nothing_else(db: MemDB) -> None:
    """Inactive ones too, in one transaction; messages, artifacts and other users stay."""
    ann = db.scope("ann")
    ann.session("s").append("user", "I live in Oslo.")
    ann.artifacts.save("a", "Oslo")
    for text in ("Ann lives in Oslo.", "Ann has moved to Bergen.", "Tea is green."):
        ann.remember(text)
    db.scope("bob").remember("Bob lives in Oslo.")

    with db.transaction():
        gone = [ann.entries.delete(one.id) for one in ann.entries.list(inactive=True)]

    assert gone == [True] * 3
    assert list(ann.entries.list(inactive=True)) == []
    assert len(list(db.scope("bob").entries.list())) == 1
    assert {hit.kind for hit in ann.recall("Oslo", by="words")} == {"message", "artifact"}
    assert db.file.check(deep=True) == []


def test_a_profile_of_given_entries(db: MemDB) -> None:
    """In their order, each once; what holds no more or is not there is left out."""
    ann = db.scope("ann")
    oslo, tea, old = [
        ann.remember(text).entry.id for text in ("Ann lives in Oslo.", "Tea is green.", "Bees fly.")
    ]
    ann.entries.update(old, active=False)

    block = ann.profile(400, entries=[tea, old, 99, oslo, tea])

    assert block.entry_ids == (tea, oslo)
    assert ann.profile(block.tokens - 1, entries=[tea, oslo]).entry_ids == (tea,)
    assert ann.profile(400, entries=[]).text == ""


def test_a_hit_has_the_metadata_that_was_given(db: MemDB) -> None:
    """Of messages and entries."""
    ann = db.scope("ann")
    ann.session("s").append("user", "Oslo?", metadata={"of": "mail"})
    ann.remember("Ann lives in Oslo.", metadata={"of": "form"})

    found = {hit.kind: hit.source.metadata for hit in ann.recall("Oslo", by="words")}

    assert found == {"message": {"of": "mail"}, "entry": {"of": "form"}}


def test_messages_are_counted_before_they_are_stored(db: MemDB) -> None:
    """As they would be, with their tool calls."""
    chat = db.scope("ann").session("s")
    messages = [
        {"role": "user", "text": "How is the weather in Oslo?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            ],
        },
        "Just a text.",
    ]

    counts = db.file.count_tokens(messages)

    stored = chat.extend(messages[:2])
    assert counts[:2] == [message.tokens for message in stored]
    assert counts[2:] == db.file.count_tokens(["Just a text."])
    assert db.file.count_tokens([]) == []
    with pytest.raises(InvalidInput):
        db.file.count_tokens([7])


def test_the_prompts_in_force_can_be_read(db: MemDB) -> None:
    """Memdb's own, and those of the settings."""
    own = db.settings.prompts()
    db.settings.update(compare_prompt="Compare.")

    assert {name: len(text) > 50 for name, text in own.items()} == {
        "summary_prompt": True,
        "extract_prompt": True,
        "compare_prompt": True,
    }
    assert db.settings.prompts() == {**own, "compare_prompt": "Compare."}


def test_secrets_of_a_text_are_found_and_redacted() -> None:
    """Without a file."""
    key = "ghp_0123456789abcdefghijABCDEFGHIJ012345"

    (found,) = memdb.find_secrets(f"use {key} now")

    assert (found.kind, found.start, found.end) == ("github_token", 4, 44)
    assert memdb.redact_secrets(f"use {key} now") == "use [REDACTED github_token] now"


def test_an_update_gives_and_takes_a_key(db: MemDB) -> None:
    """With other fields in one version; not one that another entry states now."""
    ann = db.scope("ann")
    home = ann.remember("Ann lives in Oslo.", key="home").entry
    other = ann.remember("Tea is green.").entry

    with pytest.raises(AlreadyExists):
        ann.entries.update(other.id, key="home")
    keyed = ann.entries.update(other.id, key="tea", pinned=True, trust="untrusted", active=False)
    assert (keyed.key, keyed.pinned, keyed.trust, keyed.active) == ("tea", True, "untrusted", False)
    assert keyed.version == 2
    assert ann.entries.update(home.id, key=None).key is None
    assert ann.entries.update(other.id, key="home", active=True).holds(keyed.stored_ms)
    assert ann.entries.find("home").text == "Tea is green."
