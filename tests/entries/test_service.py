"""Entries through the front door: remember, list, update, history, delete."""

from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.models.entries import NewEntry


def test_remember_adds_an_entry(db: MemDB) -> None:
    """Every given field is read back."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "I eat no peanuts")

    done = ann.remember(
        "Ann is allergic to peanuts.",
        category="profile",
        keywords=["nuts", "food"],
        importance=9,
        session="trip",
        seq=1,
        valid_from=1,
        expires=2_000_000_000_000,
        created=3,
        metadata={"by": "llm"},
    )

    entry = done.entry
    assert done.action == "added"
    assert entry == ann.entries.get(entry.id)
    assert (entry.text, entry.category) == ("Ann is allergic to peanuts.", "profile")
    assert (entry.keywords, entry.importance, entry.version) == (("nuts", "food"), 9, 1)
    assert (entry.session, entry.first_seq, entry.last_seq) == ("trip", 1, 1)
    assert (entry.valid_from_ms, entry.expires_ms, entry.created_ms) == (1, 2_000_000_000_000, 3)
    assert (entry.metadata, entry.active, entry.superseded_by) == ({"by": "llm"}, True, None)


def test_the_same_text_twice_is_one_entry(db: MemDB) -> None:
    """The second time there is nothing to add."""
    ann = db.scope("ann")

    done = [ann.remember("Ann likes tea.") for _ in range(2)]

    assert [one.action for one in done] == ["added", "repeated"]
    assert done[0].entry == done[1].entry


def test_a_key_replaces_and_keeps_history(db: MemDB, clock: Any) -> None:
    """The later statement of a fact takes the earlier one's place."""
    ann = db.scope("ann")
    first = ann.remember("Ann lives in Oslo.", key="home").entry
    clock.advance(1_000)

    done = ann.remember("Ann lives in Bergen.", key="home")

    (old,) = ann.entries.history(first.id)
    (replaced,) = ann.entries.replaced(done.entry.id)
    assert (done.action, done.entry.version, done.other) == ("updated", 1, first)
    assert ann.entries.find("home") == done.entry
    assert (replaced.id, replaced.superseded_by, replaced.active) == (
        first.id,
        done.entry.id,
        False,
    )
    assert (old.version, old.text, old.reason) == (1, "Ann lives in Oslo.", "supersede")
    assert old.replaced_ms == replaced.valid_to_ms == first.created_ms + 1_000


def test_a_key_with_the_same_statement_is_ignored(db: MemDB) -> None:
    """Saying the same again changes nothing."""
    ann = db.scope("ann")
    first = ann.remember("Ann lives in Oslo.", key="home").entry

    done = ann.remember("Ann lives in Oslo.", key="home")

    assert (done.action, done.entry) == ("repeated", first)
    assert ann.entries.history(first.id) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"keywords": ["norway"]}, id="keywords"),
        pytest.param({"metadata": {"by": "llm"}}, id="metadata"),
        pytest.param({"expires": 2_000_000_000_000}, id="expires"),
    ],
)
def test_a_key_with_a_new_detail_is_not_ignored(db: MemDB, change: Any) -> None:
    """What the caller newly says about a fact is stored."""
    ann = db.scope("ann")
    ann.remember("Ann lives in Oslo.", key="home")

    done = ann.remember("Ann lives in Oslo.", key="home", **change)

    assert (done.action, done.entry.version) == ("repeated", 2)


def test_a_merged_entry_comes_from_where_it_was_told_last(db: MemDB) -> None:
    """The source of a fact is the message that states it now."""
    ann = db.scope("ann")
    ann.session("old").append("user", "Oslo")
    ann.session("new").append("user", "Bergen")
    ann.remember("Ann lives in Oslo.", key="home", session="old", seq=1)

    done = ann.remember("Ann lives in Bergen.", key="home", session="new", seq=1)

    assert done.entry.session == "new"


def test_keys_belong_to_a_scope(db: MemDB) -> None:
    """Bob's home does not replace Ann's."""
    db.scope("ann").remember("Ann lives in Oslo.", key="home")

    done = db.scope("bob").remember("Bob lives in Rome.", key="home")

    assert done.action == "added"
    assert db.scope("ann").entries.find("home").text == "Ann lives in Oslo."


def test_find_without_the_key_is_none(db: MemDB) -> None:
    """Absence is no error for find."""
    assert db.scope("ann").entries.find("home") is None


def test_get_of_another_scopes_id_is_not_found(db: MemDB) -> None:
    """A number holds in its scope, and says nothing in another one."""
    db.scope("ann").remember("Tea is green.")
    entry = db.scope("ann").remember("Ann likes lamps.").entry
    own = db.scope("bob").remember("Bob likes drums.").entry

    assert own.id == 1
    assert db.scope("bob").entries.get(1).text == own.text
    with pytest.raises(memdb.NotFound) as caught:
        db.scope("bob").entries.get(entry.id)

    assert (caught.value.kind, caught.value.ref) == ("entry", entry.id)


def test_reading_another_scopes_id_is_not_found(db: MemDB) -> None:
    """Also for a scope that was never written to."""
    entry = db.scope("ann").remember("secret").entry

    with pytest.raises(memdb.NotFound):
        db.scope("eve").entries.get(entry.id)


def test_changing_another_scopes_id_is_not_found_or_false(db: MemDB) -> None:
    """Neither update nor delete reaches over."""
    entry = db.scope("ann").remember("secret").entry
    bob = db.scope("bob").entries

    with pytest.raises(memdb.NotFound):
        bob.update(entry.id, text="changed")

    assert bob.delete(entry.id) is False
    assert db.scope("ann").entries.get(entry.id) == entry


def test_list_gives_the_entries_by_id(db: MemDB) -> None:
    """All of them, or those of a category."""
    ann = db.scope("ann")
    made = [ann.remember(f"fact {n}", category=("events", "cases")[n % 2]).entry for n in range(5)]
    listed = [entry.replace(outdated_by=None) for entry in ann.entries.list()]

    assert listed == made
    assert [one.id for one in ann.entries.list(category="cases")] == [made[1].id, made[3].id]
    assert list(db.scope("eve").entries.list()) == []


def test_list_crosses_pages(db: MemDB) -> None:
    """More entries than a page holds come in order, each once."""
    ann = db.scope("ann")
    with db._db.write():
        made = [ann.remember(f"fact {n}").entry.id for n in range(403)]

    assert [entry.id for entry in ann.entries.list()] == made


def test_update_changes_what_is_given_and_keeps_the_rest(db: MemDB, clock: Any) -> None:
    """One field changes; version and time move; the old text is history."""
    ann = db.scope("ann")
    old = ann.remember(
        "Ann likes tea.", category="preferences", keywords=["drink"], importance=7
    ).entry
    clock.advance(50)

    new = ann.entries.update(old.id, text="Ann likes coffee.")

    assert new == old.replace(
        text="Ann likes coffee.",
        version=2,
        updated_ms=old.updated_ms + 50,
        stored_ms=old.stored_ms + 50,
    )
    assert [(was.version, was.text, was.reason) for was in ann.entries.history(old.id)] == [
        (1, "Ann likes tea.", "update")
    ]


def test_update_is_found_by_the_new_words_only(db: MemDB) -> None:
    """The index follows the text."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry
    db.jobs.run()

    ann.entries.update(entry.id, text="Ann likes coffee.")
    db.jobs.run()

    assert [hit.source.entry_id for hit in ann.recall("coffee", kinds=["entry"])] == [entry.id]
    assert db.file.info().counts["vectors"] == 1


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({"category": "profile"}, ("profile", (), 5, None, None), id="category"),
        pytest.param(
            {"keywords": ["a", " ", "b\nc"]}, ("events", ("a", "b c"), 5, None, None), id="keywords"
        ),
        pytest.param({"importance": 1}, ("events", (), 1, None, None), id="importance"),
        pytest.param({"expires": 9}, ("events", (), 5, 9, None), id="expires"),
        pytest.param({"metadata": {"a": 1}}, ("events", (), 5, None, {"a": 1}), id="metadata"),
    ],
)
def test_update_takes_each_field(db: MemDB, change: Any, expected: Any) -> None:
    """Every changeable field can be changed alone."""
    ann = db.scope("ann")
    entry_id = ann.remember("Ann likes tea.", category="events").entry.id

    new = ann.entries.update(entry_id, **change)

    assert (new.category, new.keywords, new.importance, new.expires_ms, new.metadata) == expected
    assert new.text == "Ann likes tea."


def test_update_has_no_unknown_field(db: MemDB) -> None:
    """What can be changed is in the signature; the error names the field."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry

    with pytest.raises(TypeError, match="created_ms"):
        ann.entries.update(entry.id, created_ms=1)

    assert ann.entries.get(entry.id) == entry


def test_update_that_fails_changes_nothing(db: MemDB) -> None:
    """Neither the entry nor its history."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.").entry

    with pytest.raises(memdb.InvalidInput):
        ann.entries.update(entry.id, text=5)

    assert ann.entries.get(entry.id) == entry
    assert ann.entries.history(entry.id) == []


def test_history_keeps_every_version(db: MemDB) -> None:
    """Oldest first, without the present one."""
    ann = db.scope("ann")
    entry_id = ann.remember("one").entry.id
    ann.entries.update(entry_id, text="two")
    ann.entries.update(entry_id, text="three")

    assert [(was.version, was.text) for was in ann.entries.history(entry_id)] == [
        (1, "one"),
        (2, "two"),
    ]


def test_delete_removes_entry_history_index_and_vectors(db: MemDB) -> None:
    """Nothing derived from it stays."""
    ann = db.scope("ann")
    entry_id = ann.remember("Ann likes tea.").entry.id
    db.jobs.run()
    ann.entries.update(entry_id, text="Ann likes green tea.")

    assert ann.entries.delete(entry_id) is True

    assert list(ann.recall("green tea")) == []
    assert (
        db.file.info().counts["entries"],
        db.file.info().counts["vectors"],
        db.jobs.pending(),
    ) == (0, 0, 0)
    assert ann.entries.delete(entry_id) is False


def test_a_deleted_key_can_be_stated_again(db: MemDB) -> None:
    """It is a new entry under a new id."""
    ann = db.scope("ann")
    old = ann.remember("Ann lives in Oslo.", key="home").entry
    ann.entries.delete(old.id)

    done = ann.remember("Ann lives in Oslo.", key="home")

    assert done.action == "added"
    assert done.entry.id != old.id


def test_two_entries_with_one_uid_can_both_be_deleted(db: MemDB) -> None:
    """A copy of an entry in another scope has the same uid; forgetting both works."""
    from memdb.records.scopes import ScopeRef

    owners = [ScopeRef(db._db, "default", user) for user in ("ann", "bob")]
    made = [db._services.entries.add(owner, NewEntry("x", uid="same")).entry.id for owner in owners]

    assert made[0] != made[1]
    assert [db._services.entries.delete(owner, 1) for owner in owners] == [True, True]


def test_an_entry_told_in_an_unknown_session_is_refused(db: MemDB) -> None:
    """Nothing is stored, not even the scope."""
    with pytest.raises(memdb.NotFound) as caught:
        db.scope("ann").remember("x", session="never")

    assert (caught.value.kind, caught.value.ref) == ("session", "never")
    assert db.scopes() == []


def test_a_seq_without_its_session_is_refused(db: MemDB) -> None:
    """A number alone names no message."""
    with pytest.raises(memdb.InvalidInput, match="seq"):
        db.scope("ann").remember("x", seq=3)


def test_a_fact_said_again_after_it_expired_is_added_anew(db: MemDB, clock: Any) -> None:
    """A time of expiry that has passed is not inherited."""
    ann = db.scope("ann")
    ann.remember("Ann is in Rome.", key="place", expires=clock.now_ms + 1_000)
    clock.advance(1_000)

    done = ann.remember("Ann is in Rome.", key="place")

    assert (done.action, done.entry.expires_ms) == ("added", None)
    assert [hit.text for hit in ann.recall("Rome")] == ["Ann is in Rome."]


def test_a_fact_said_again_keeps_an_expiry_to_come(db: MemDB, clock: Any) -> None:
    """What was not said stays as it was."""
    ann = db.scope("ann")
    ann.remember("Ann is in Rome.", key="place", expires=clock.now_ms + 1)

    done = ann.remember("Ann is in Bari.", key="place")

    assert done.entry.expires_ms == clock.now_ms + 1


@pytest.mark.parametrize("field", ["valid_from", "expires"])
def test_zero_is_said(db: MemDB, field: str) -> None:
    """The year 1970 began at 0: that is a time, not silence."""
    ann = db.scope("ann")
    ann.remember("Ann is in Rome.", key="place", valid_from=7, expires=2_000_000_000_000)

    done = ann.remember("Ann is in Rome.", key="place", **{field: 0})

    assert (done.action, getattr(done.entry, f"{field}_ms")) == ("repeated", 0)


def test_a_merge_keeps_category_importance_and_keywords_that_are_not_said(db: MemDB) -> None:
    """The defaults are those of a new entry only."""
    ann = db.scope("ann")
    ann.remember("Ann is in Rome.", key="place", category="profile", importance=9, keywords=["it"])

    kept = ann.remember("Ann is in Bari.", key="place").entry
    said = ann.remember("Ann is in Bari.", key="place", category="events", importance=5).entry
    new = ann.remember("Ann is here.", category="events").entry

    assert (kept.category, kept.importance, kept.keywords) == ("profile", 9, ("it",))
    assert (said.category, said.importance, said.keywords) == ("events", 5, ("it",))
    assert (new.category, new.importance, new.keywords) == ("events", 5, ())


def test_a_kept_keyword_without_spaces_between_words_is_still_found(db: MemDB) -> None:
    """The pairs in the index are those of the text and of the keywords it ends up with."""
    ann = db.scope("ann")
    ann.remember("Ann lives there.", key="home", keywords=["我爱北京烤鸭"])

    ann.remember("Ann still lives there.", key="home")

    assert ann.recall("北京", kinds=["entry"])[0].explanation is None
    with db._db.read() as tx:
        assert tx.all("SELECT rowid FROM entries_fts WHERE entries_fts MATCH '\"北京\"'") != []


@pytest.mark.parametrize("seq", [2, 16_777_215])
def test_an_entry_told_in_an_unknown_message_is_refused(db: MemDB, seq: int) -> None:
    """The error names session and message; nothing is written."""
    ann = db.scope("ann")
    ann.session("s").append("user", "hello")

    with pytest.raises(memdb.NotFound) as caught:
        ann.remember("x", session="s", seq=seq)

    assert (caught.value.kind, caught.value.ref) == ("message", f"s#{seq}")
    assert list(ann.entries.list(inactive=True)) == []


def test_an_update_that_changes_nothing_makes_no_version(db: MemDB, clock: Any) -> None:
    """Neither with the same values nor with none; nothing is due for embedding."""
    ann = db.scope("ann")
    entry = ann.remember("Ann likes tea.", keywords=["drink"], metadata={"a": 1}).entry
    db.jobs.run()
    clock.advance(5)

    same = ann.entries.update(entry.id, text="Ann likes tea.", keywords=["drink"])

    assert (same, ann.entries.update(entry.id)) == (entry, entry)
    assert (ann.entries.history(entry.id), db.jobs.pending()) == ([], 0)


def test_list_leaves_out_expired_entries(db: MemDB, clock: Any) -> None:
    """From its time on an entry is listed only with the inactive ones."""
    ann = db.scope("ann")
    kept = ann.remember("later", expires=clock.now_ms + 1_001).entry
    gone = ann.remember("soon", expires=clock.now_ms + 1_000).entry
    before = list(ann.entries.list())

    clock.advance(1_000)

    assert before == [kept, gone]
    assert list(ann.entries.list()) == [kept]
    assert list(ann.entries.list(inactive=True)) == [kept, gone]
