"""Messages and sessions through the front door: append, extend, read, delete."""

import threading
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import pytest

import memdb
from memdb import MemDB, NewMessage
from memdb.text.parts import whole_text

THREE = [
    {"role": "user", "text": "one"},
    {"role": "assistant", "text": "two"},
    {"role": "user", "text": "three"},
]


def texts(messages: Any) -> list[str]:
    """Return what the messages say."""
    return [message.text for message in messages]


def test_append_returns_the_message_as_it_is_stored(db: MemDB) -> None:
    """What append answers equals what get reads."""
    chat = db.scope("ann").session("trip")

    stored = chat.append(
        "user", "We fly to Oslo.", author="Ann", external_id="m1", metadata={"a": [1]}
    )

    assert stored == chat.get(1)
    assert (stored.seq, stored.role, stored.text, stored.author) == (
        1,
        "user",
        "We fly to Oslo.",
        "Ann",
    )
    assert (stored.external_id, stored.metadata, stored.session) == ("m1", {"a": [1]}, "trip")


def test_append_takes_time_and_uid_from_the_ports(db: MemDB, clock: Any) -> None:
    """A message without a time gets the clock's."""
    clock.advance(5)

    stored = db.scope("ann").session("trip").append("user", "hi")

    assert stored.created_ms == 1_700_000_000_005
    assert stored.uid.startswith("00000000-0000-7000-8000-")


def test_append_keeps_a_given_time(db: MemDB) -> None:
    """A message can be older than its neighbour; its place stays the end."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "new")

    old = chat.append("user", "old", created=1_000)

    assert (old.seq, old.created_ms) == (2, 1_000)


def test_append_keeps_parts_as_they_are(db: MemDB) -> None:
    """The original parts come back unchanged, and their words are the text."""
    parts = [
        {"type": "tool_call", "name": "read", "arguments": '{"path": "é"}'},
        {"type": "x", "n": 1},
    ]

    stored = db.scope("ann").session("trip").append("assistant", parts=parts)

    assert stored.parts == parts
    assert stored.text == 'read({"path": "é"})\n[x] 1'


def test_append_of_nothing_is_a_message(db: MemDB) -> None:
    """An empty text is stored and read back."""
    chat = db.scope("ann").session("trip")

    chat.append("assistant", "")

    assert texts(chat.last(1)) == [""]


def test_append_counts_seqs_from_one_without_gaps(db: MemDB) -> None:
    """Each append of a session gets the next number."""
    chat = db.scope("ann").session("trip")

    seqs = [chat.append("user", text).seq for text in "abc"]

    assert seqs == [1, 2, 3]
    assert chat.last_seq == 3


def test_sessions_count_apart(db: MemDB) -> None:
    """Two sessions of a scope have their own numbers."""
    ann = db.scope("ann")
    ann.session("a").append("user", "x")

    assert ann.session("b").append("user", "y").seq == 1


def test_append_with_a_known_external_id_writes_nothing(db: MemDB) -> None:
    """The stored message comes back and no row is added."""
    chat = db.scope("ann").session("trip")
    first = chat.append("user", "hi", external_id="m1")

    again = chat.append("user", "hi", external_id="m1")

    assert again == first
    assert chat.last_seq == 1


@pytest.mark.parametrize(
    ("role", "text"), [("user", "other"), ("assistant", "hi")], ids=["text", "role"]
)
def test_append_refuses_other_content_under_a_known_external_id(
    db: MemDB, role: str, text: str
) -> None:
    """An external id names one content for good."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "hi", external_id="m1")

    with pytest.raises(memdb.AlreadyExists) as caught:
        chat.append(role, text, external_id="m1")

    assert caught.value.ref == "m1"
    assert texts(chat.messages()) == ["hi"]


def test_append_refuses_other_parts_under_a_known_external_id(db: MemDB) -> None:
    """Two pictures with the same caption are not the same message."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "look", external_id="m1", parts=[{"type": "image", "ref": "1"}])

    with pytest.raises(memdb.AlreadyExists):
        chat.append("user", "look", external_id="m1", parts=[{"type": "image", "ref": "2"}])


def test_external_ids_belong_to_a_session(db: MemDB) -> None:
    """The same host id in another session is another message."""
    ann = db.scope("ann")
    ann.session("a").append("user", "x", external_id="m1")

    stored = ann.session("b").append("user", "y", external_id="m1")

    assert (stored.text, stored.seq) == ("y", 1)


def test_extend_stores_all_in_order(db: MemDB) -> None:
    """Dicts and NewMessages mix, and come back in the order given."""
    chat = db.scope("ann").session("trip")

    stored = chat.extend([*THREE, NewMessage("user", "four")])

    assert [message.seq for message in stored] == [1, 2, 3, 4]
    assert texts(chat.messages()) == ["one", "two", "three", "four"]


def test_extend_with_a_bad_message_stores_none(db: MemDB) -> None:
    """One message that cannot be stored keeps all of them out."""
    chat = db.scope("ann").session("trip")

    with pytest.raises(memdb.InvalidInput):
        chat.extend([*THREE, {"role": "nobody", "text": "four"}])

    assert list(chat.messages()) == []


def test_extend_with_a_conflict_stores_none(db: MemDB) -> None:
    """One external id that is taken keeps the messages before it out too."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "hi", external_id="m1")

    with pytest.raises(memdb.AlreadyExists):
        chat.extend([*THREE, {"role": "user", "text": "other", "external_id": "m1"}])

    assert texts(chat.messages()) == ["hi"]


def test_extend_with_known_external_ids_adds_only_the_new_ones(db: MemDB) -> None:
    """Adding a history again stores just what came since, without a gap."""
    chat = db.scope("ann").session("trip")
    history = [{"role": "user", "text": f"t{n}", "external_id": f"m{n}"} for n in range(4)]
    chat.extend(history[:2])

    stored = chat.extend(history)

    assert [message.seq for message in stored] == [1, 2, 3, 4]
    assert texts(chat.messages()) == ["t0", "t1", "t2", "t3"]


def test_extend_with_a_repeated_external_id_stores_it_once(db: MemDB) -> None:
    """Two equal messages in one batch are one message, given back twice."""
    chat = db.scope("ann").session("trip")
    same = {"role": "user", "text": "hi", "external_id": "m1"}

    stored = chat.extend([same, same])

    assert [message.seq for message in stored] == [1, 1]
    assert chat.last_seq == 1


def test_extend_with_a_repeated_external_id_and_other_text_is_refused(db: MemDB) -> None:
    """A batch cannot give one id to two contents."""
    chat = db.scope("ann").session("trip")

    with pytest.raises(memdb.AlreadyExists):
        chat.extend(
            [{"role": "user", "text": text, "external_id": "m1"} for text in ("one", "two")]
        )


def test_extend_of_nothing_makes_no_session(db: MemDB) -> None:
    """A session is made at its first message, and there is none."""
    ann = db.scope("ann")

    assert ann.session("trip").extend([]) == []
    assert ann.sessions() == []


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"text": "no role"}, id="no role"),
        pytest.param({"role": "user", "txt": "x"}, id="unknown field"),
        pytest.param("user: hi", id="a str"),
    ],
)
def test_extend_refuses_what_is_no_message(db: MemDB, message: Any) -> None:
    """The error is memdb's own and says what to give."""
    with pytest.raises(memdb.InvalidInput, match="message"):
        db.scope("ann").session("trip").extend([message])


def test_expected_seq_lets_one_of_two_writers_through(db: MemDB) -> None:
    """Of two that know the same state, the second is told where the session is now."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "one", expected=0)

    with pytest.raises(memdb.VersionConflict) as caught:
        chat.append("user", "also one", expected=0)

    assert (caught.value.expected, caught.value.got) == (0, 1)
    assert texts(chat.messages()) == ["one"]


def test_expected_seq_holds_between_threads(db: MemDB) -> None:
    """Eight writers with the same knowledge: exactly one message."""
    chat = db.scope("ann").session("trip")
    outcomes: list[str] = []

    def write(name: str) -> None:
        try:
            chat.append("user", name, expected=0)
            outcomes.append("stored")
        except memdb.VersionConflict:
            outcomes.append("refused")

    threads = [threading.Thread(target=write, args=(f"w{n}",)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert sorted(outcomes) == ["refused"] * 7 + ["stored"]
    assert chat.last_seq == 1


def test_a_refused_first_message_makes_no_session(db: MemDB) -> None:
    """A conflict leaves neither session nor scope behind."""
    with pytest.raises(memdb.VersionConflict):
        db.scope("ann").session("trip").append("user", "hi", expected=7)

    assert db.scopes() == []


def test_get_without_the_message_is_not_found(db: MemDB) -> None:
    """The error names session and number."""
    chat = db.scope("ann").session("trip")
    chat.append("user", "hi")

    with pytest.raises(memdb.NotFound) as caught:
        chat.get(2)

    assert (caught.value.kind, caught.value.ref) == ("message", "trip#2")


def test_find_returns_the_message_of_an_external_id(db: MemDB) -> None:
    """A host can ask by its own id; another id gives None."""
    chat = db.scope("ann").session("trip")
    stored = chat.append("user", "hi", external_id="m1")

    assert chat.find("m1") == stored
    assert chat.find("m2") is None


@pytest.mark.parametrize(
    ("after", "limit", "expected"),
    [
        pytest.param(0, None, ["one", "two", "three"], id="all"),
        pytest.param(1, None, ["two", "three"], id="after the first"),
        pytest.param(0, 2, ["one", "two"], id="limited"),
        pytest.param(1, 1, ["two"], id="both"),
        pytest.param(3, None, [], id="after the last"),
        pytest.param(0, 0, [], id="none"),
    ],
)
def test_messages_gives_a_range(
    db: MemDB, after: int, limit: int | None, expected: list[str]
) -> None:
    """Oldest first, after a seq, at most so many."""
    chat = db.scope("ann").session("trip")
    chat.extend(THREE)

    assert texts(chat.messages(after, limit)) == expected


def test_messages_crosses_pages_without_hole_or_repeat(db: MemDB) -> None:
    """More messages than a page holds come in order, each once."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": str(n)} for n in range(1_203)])

    assert [message.seq for message in chat.messages()] == list(range(1, 1_204))
    assert [message.seq for message in chat.messages(499, 502)] == list(range(500, 1_002))


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        pytest.param(0, [], id="none"),
        pytest.param(2, ["two", "three"], id="some"),
        pytest.param(9, ["one", "two", "three"], id="more than there are"),
    ],
)
def test_last_gives_the_newest_oldest_first(db: MemDB, n: int, expected: list[str]) -> None:
    """The end of the session, in the order it was said."""
    chat = db.scope("ann").session("trip")
    chat.extend(THREE)

    assert texts(chat.last(n)) == expected


def test_an_unknown_session_is_empty(db: MemDB) -> None:
    """Reading what was never written gives nothing and makes nothing."""
    chat = db.scope("ann").session("never")

    assert (list(chat.messages()), chat.last(5), chat.last_seq) == ([], [], 0)
    assert chat.find("m1") is None
    assert db.scopes() == []


def test_sessions_lists_by_name(db: MemDB, clock: Any) -> None:
    """A listing has the numbers of each session and its times."""
    ann = db.scope("ann")
    ann.session("b").append("user", "x")
    clock.advance(10)
    ann.session("a").extend(THREE)

    found = ann.sessions()

    assert [(one.name, one.last_seq, one.message_count) for one in found] == [
        ("a", 3, 3),
        ("b", 1, 1),
    ]
    assert found[0].created_ms - found[1].created_ms == 10


def test_sessions_lists_more_than_a_page(db: MemDB) -> None:
    """1,003 sessions are listed, each once."""
    ann = db.scope("ann")
    with db._db.write():
        [ann.session(f"s{n:04}").append("user", "") for n in range(1_003)]

    assert [one.name for one in ann.sessions()] == [f"s{n:04}" for n in range(1_003)]


def test_delete_removes_everything_that_came_from_the_session(db: MemDB) -> None:
    """Messages, index, vectors, jobs and artifacts go; other sessions stay."""
    ann = db.scope("ann")
    ann.session("gone").append("user", "peanuts are bad")
    ann.session("gone").artifacts.save("menu.md", "peanut soup")
    ann.session("kept").append("user", "walnuts are good")
    db.jobs.run()
    ann.session("gone").append("user", "a job waits for this")

    assert ann.session("gone").delete().removed["sessions"] == 1

    assert [one.name for one in ann.sessions()] == ["kept"]
    assert list(ann.recall("peanuts", kinds=("message", "artifact"))) == []
    assert db.file.info().counts["vectors"] == 1
    assert (db.jobs.pending(), db.file.info().counts["artifact versions"]) == (0, 0)


def test_delete_of_an_absent_session_removes_nothing(db: MemDB) -> None:
    """Absence is no error and writes nothing."""
    assert set(db.scope("ann").session("never").delete().removed.values()) == {0}
    assert db.scopes() == []


def test_delete_keeps_entries_without_their_link(db: MemDB) -> None:
    """What was learned stays; where it was told is gone."""
    ann = db.scope("ann")
    ann.session("trip").append("user", "I live in Oslo")
    told = ann.remember("Ann lives in Oslo.", session="trip", seq=1).entry

    ann.session("trip").delete()

    entry = ann.entries.get(told.id)
    assert (entry.session, entry.first_seq, entry.last_seq) == (None, None, None)


def test_delete_keeps_shared_artifacts(db: MemDB) -> None:
    """`user:` names belong to no session."""
    ann = db.scope("ann")
    ann.session("trip").artifacts.save("user:me.md", "Ann")

    ann.session("trip").delete()

    assert ann.artifacts.load("me.md").data == b"Ann"


def test_a_session_number_never_comes_back(db: MemDB) -> None:
    """A session of the same name is another one: ids of the old name nothing new."""
    chat = db.scope("ann").session("trip")
    old = chat.append("user", "old")
    chat.delete()

    new = chat.append("user", "new")

    assert new.seq == 1
    assert new.row_id != old.row_id


def test_a_deleted_session_is_gone_for_its_other_handles(db: MemDB) -> None:
    """A handle made before the delete sees the session empty."""
    ann = db.scope("ann")
    handle = ann.session("trip")
    handle.append("user", "hi")

    ann.session("trip").delete()

    assert (handle.last_seq, handle.last(1)) == (0, [])


def test_scopes_lists_each_scope_that_was_written_to(db: MemDB) -> None:
    """By app and user; reading makes none."""
    db.scope("bob").session("s").append("user", "x")
    db.scope("ann", app="zoo").remember("x")
    db.scope("eve").recall("x")

    assert [(one.app, one.user) for one in db.scopes()] == [("default", "bob"), ("zoo", "ann")]


def test_the_same_user_of_two_apps_is_two_scopes(db: MemDB) -> None:
    """Nothing crosses from one app into another."""
    db.scope("ann", app="a").session("s").append("user", "x")

    assert db.scope("ann", app="b").session("s").last(1) == []


def test_what_was_appended_is_there_after_opening_again(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """Closing and opening changes nothing."""
    first = open_db(path)
    stored = first.scope("ann").session("trip").extend(THREE)
    first.close()

    again = open_db(path)

    assert list(again.scope("ann").session("trip").messages()) == stored


def test_session_names_its_place() -> None:
    """The reprs say what they stand for."""
    with memdb.open(":memory:", embedder=None) as db:
        ann = db.scope("ann")

        assert repr(db) == "<MemDB :memory:>"
        assert repr(ann) == "<Scope 'ann' of 'default'>"
        assert repr(ann.session("trip")) == "<Session 'trip' of 'ann'>"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("It says ok.", [{"type": "tool_result", "content": "ok"}]),
        ("", [{"type": "text", "text": "Look"}, {"type": "tool_result", "content": "ok"}]),
        ("ok", [{"type": "tool_result", "content": "ok"}]),
        ("", [{"type": "tool_call", "name": "read", "arguments": {"path": "a"}}]),
    ],
)
def test_a_message_is_counted_with_each_part_once(
    db: MemDB, text: str, parts: list[dict[str, Any]]
) -> None:
    """Whether its text repeats a part by chance, or was made of the parts."""
    said = db.scope("ann").session("trip").append("tool", text, parts=parts)

    assert [said.tokens] == db.file.count_tokens([whole_text(said.text, said.parts)])


def test_metadata_may_be_any_mapping(db: MemDB) -> None:
    """As its annotation says."""
    chat = db.scope("ann").session("trip")
    said = chat.append("user", "x", metadata=MappingProxyType({"a": 1}))

    assert said.metadata == {"a": 1}
