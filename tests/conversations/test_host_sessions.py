"""What hosts with sessions of their own ask: create, commit, snapshot, erase and state."""

import pytest

import memdb
from memdb import NewMessage
from memdb.adapters.host import Host, HostFile


def event(text: str = "hello", **fields: object) -> NewMessage:
    """Return a message of the host with an id."""
    return NewMessage("user", text, **{"external_id": "e-1", **fields})


@pytest.fixture
def chat(db):
    """Return a session that does not exist yet."""
    return db.scope("ann", "desk").session("trip")


def test_a_created_session_is_there_before_anything_is_said(chat):
    """It has the title, metadata and time that were given, and no message."""
    head = chat.create(title="Trip", metadata={"host": "x"}, created=5)

    assert head == chat.head()
    assert (head.title, head.metadata, head.created_ms, head.last_seq) == (
        "Trip",
        {"host": "x"},
        5,
        0,
    )
    assert [*chat.messages()] == []


def test_creating_sets_every_state(chat, db):
    """The values stand where they belong, without a session for the user's and the app's."""
    Host(chat).create(state={"a": 1}, user_state={"b": None}, app_state={"c": [2]})

    assert dict(chat.state) == {"a": 1}
    assert dict(db.scope("ann", "desk").state) == {"b": None}
    assert dict(db.shared("desk").state) == {"c": [2]}
    assert db.shared().state.all() == {}


def test_a_session_is_created_once(chat):
    """A second time, and after a message, it exists already; what it holds stays."""
    chat.create(metadata={"n": 1})

    with pytest.raises(memdb.AlreadyExists, match="'trip'"):
        Host(chat).create(metadata={"n": 2}, state={"a": 1})

    assert chat.head().metadata == {"n": 1}
    assert len(chat.state) == 0


def test_messages_alone_make_a_session_that_cannot_be_created(chat):
    """Another client's conversation is not taken over."""
    chat.append("user", "hello")

    with pytest.raises(memdb.AlreadyExists):
        chat.create()


def test_a_session_of_artifacts_and_state_can_be_created(chat):
    """What was saved before the session began stays in it."""
    chat.artifacts.save("a.txt", "soup")
    chat.state["a"] = 1

    assert chat.head().metadata is None
    chat.create()

    assert chat.artifacts.load("a.txt").text == "soup"
    assert chat.state["a"] == 1


def test_commit_stores_the_message_with_what_it_changes(chat, db):
    """Message, states and metadata are there together; other keys stay."""
    Host(chat).create(metadata={"t": 1}, state={"a": 1, "b": 1})

    stored = Host(chat).commit(
        event(), expected=0, metadata={"t": 2}, state={"a": 2}, app_state={"c": 3}
    )

    found = Host(chat).snapshot()
    assert found.messages == (stored,)
    assert found.head.metadata == {"t": 2}
    assert (found.state, found.user_state, found.app_state) == ({"a": 2, "b": 1}, {}, {"c": 3})


def test_commit_needs_the_session(chat, db):
    """Without it nothing is made, not even the app's state."""
    with pytest.raises(memdb.NotFound, match="session"):
        Host(chat).commit(event(), app_state={"c": 3})

    assert chat.head() is None
    assert db.shared("desk").state.all() == {}


def test_a_head_knows_the_newest_message_and_the_last_seq(chat):
    """Taking messages back lowers the former only; an archived message counts as before."""

    def seqs():
        head = chat.head()
        assert Host(chat).snapshot().head == head
        return head.last_seq, head.newest_seq

    chat.create()
    found = [seqs()]
    for number in range(3):
        Host(chat).commit(event(str(number), external_id=f"e-{number}"))
    found.append(seqs())
    chat.archive(keep_last=0)
    found.append(seqs())
    chat.pop()
    found.append(seqs())
    chat.forget(1)
    found.append(seqs())
    chat.clear()
    found.append(seqs())
    Host(chat).commit(event("4", external_id="e-4"))
    found.append(seqs())

    assert found == [(0, 0), (3, 3), (3, 3), (3, 2), (3, 2), (3, 0), (4, 4)]


def test_the_same_message_again_changes_nothing(chat):
    """The stored one comes back, and the state is not set a second time."""
    chat.create()
    first = Host(chat).commit(event(), state={"a": 1})
    chat.state["a"] = 7

    again = Host(chat).commit(event(), expected=99, state={"a": 1}, metadata={"t": 2})

    assert again == first
    assert chat.state["a"] == 7
    assert chat.head().metadata == {}


def test_another_message_under_the_same_id_is_refused(chat):
    """And with it all that it would change."""
    chat.create()
    Host(chat).commit(event())

    with pytest.raises(memdb.AlreadyExists):
        Host(chat).commit(event("other"), state={"a": 1})

    assert len(chat.state) == 0


def test_of_two_that_know_the_same_seq_one_succeeds(chat):
    """The other one changes nothing."""
    chat.create()
    Host(chat).commit(event(), expected=0)

    with pytest.raises(memdb.VersionConflict) as caught:
        Host(chat).commit(event("b", external_id="e-2"), expected=0, state={"a": 1})

    assert (caught.value.expected, caught.value.got) == (0, 1)
    assert len(chat.state) == 0
    assert chat.last_seq == 1


@pytest.mark.parametrize(
    ("state", "named"),
    [
        ({"a": object()}, "state\\['a'\\]"),
        ({"a\0": 1}, "NUL"),
        ({1: "a"}, "str keys"),
        ({"\ud800": 1}, "surrogate"),
        (["a"], "give a dict"),
    ],
    ids=["object", "nul", "int key", "surrogate", "list"],
)
def test_state_without_a_json_form_is_refused_whole(chat, state, named):
    """Neither the message nor the good values are stored."""
    chat.create()

    with pytest.raises(memdb.InvalidInput, match=named):
        Host(chat).commit(event(), user_state={"ok": 1}, state=state)

    found = Host(chat).snapshot()
    assert (found.messages, found.state, found.user_state) == ((), {}, {})


def test_numbers_come_back_exactly(chat):
    """Integers of any size and floats are not rounded."""
    values = {"big": 2**80, "float": 0.1 + 0.2, "tiny": 5e-324, "minus": -(2**63) - 1}
    Host(chat).create(state=values)

    assert Host(chat).snapshot().state == values


def test_a_snapshot_has_the_messages_asked_for(chat):
    """The newest, those since a time, or both."""
    chat.create()
    for number, at in enumerate([10, 30, 20, 40]):
        Host(chat).commit(event(str(number), external_id=f"e-{number}", created_ms=at))

    def texts(**asked):
        return [message.text for message in Host(chat).snapshot(**asked).messages]

    assert texts() == ["0", "1", "2", "3"]
    assert texts(last=0) == []
    assert texts(last=2) == ["2", "3"]
    assert texts(since=30) == ["1", "3"]
    assert texts(since=20, last=2) == ["2", "3"]
    assert texts(since=41) == []


def test_a_snapshot_of_nothing_is_none(chat):
    """So is its head."""
    assert Host(chat).snapshot() is None
    assert chat.head() is None


def test_an_erased_message_says_nothing_and_stays_away(chat, db):
    """Its words are gone from the index; adding it again brings nothing back."""
    chat.extend([event("red fox", author="Ann", metadata={"m": 1}), event("hen", external_id="b")])
    db.jobs.run()

    assert Host(chat).erase(1)

    one = chat.get(1)
    assert (one.text, one.parts, one.author, one.metadata, one.tokens) == ("", None, None, None, 0)
    assert list(chat.recall("fox", kinds=("message",), by="words")) == []
    assert [hit.text for hit in chat.recall("hen", kinds=("message",), by="words")] == ["hen"]
    chat.extend([event("red fox")], keep=True)
    assert chat.get(1).text == ""
    assert chat.last_seq == 2
    assert not Host(chat).erase(1)
    assert not Host(chat).erase(9)


def test_erasing_takes_the_summaries_along(chat, db):
    """They may quote what was erased; they are made anew from what is left."""
    chat.extend([{"role": "user", "text": f"The heron number {n} is grey."} for n in range(200)])
    db.jobs.run()
    assert chat.recall("heron", kinds=("summary",), by="words")

    Host(chat).erase(3)
    assert list(chat.recall("heron", kinds=("summary",), by="words")) == []

    db.jobs.run()
    assert chat.recall("heron", kinds=("summary",), by="words")


def test_an_archived_message_can_be_erased(chat):
    """The archive is unpacked for it: no copy of the words stays."""
    chat.extend([{"role": "user", "text": f"heron {n}"} for n in range(5)])
    chat.archive(keep_last=0)

    assert Host(chat).erase(2)

    assert [message.text for message in chat.messages()] == [
        "heron 0",
        "",
        "heron 2",
        "heron 3",
        "heron 4",
    ]


def test_an_edited_message_says_something_else_in_its_place(chat, db):
    """Its old words are nowhere: not in the index, the vectors, the summaries or the archive."""
    chat.extend([{"role": "user", "text": f"The heron number {n} is grey."} for n in range(200)])
    chat.append("user", "A red fox.", author="Ann", metadata={"m": 1}, external_id="x")
    db.jobs.run()
    before = chat.get(201)
    chat.archive(keep_last=0)

    after = chat.edit(201, {"role": "assistant", "text": "A blue whale."})

    assert after == chat.get(201)
    assert (after.role, after.text, after.author, after.metadata) == (
        "assistant",
        "A blue whale.",
        None,
        None,
    )
    assert (after.row_id, after.uid, after.external_id, after.created_ms) == (
        before.row_id,
        before.uid,
        "x",
        before.created_ms,
    )
    assert list(chat.recall("fox", kinds=("message", "summary"), by="words")) == []
    db.jobs.run()
    assert [hit.source.seq for hit in chat.recall("A blue whale.", 1, by="vector")] == [201]
    assert chat.recall("whale", kinds=("message",), by="words")
    assert chat.recall("heron", kinds=("summary",), by="words")
    assert db.file.check(deep=True) == []


def test_a_text_alone_changes_what_a_message_says_and_nothing_else(chat):
    """Who said it, when and with what metadata stays, in the archive too; parts are told by it."""
    parts = [{"type": "text", "text": "A red fox."}, {"type": "text", "text": "It ran."}]
    for number in (1, 2):
        given = {"author": "Ann", "metadata": {"m": 1}, "external_id": f"x{number}"}
        chat.append("assistant", parts=parts, **given)
    before = [*chat.messages()]
    chat.archive(keep_last=1)

    for old in before:
        new = chat.edit(old.seq, "A blue whale.")

        assert new == chat.get(old.seq) == old.replace(text=new.text, parts=None, tokens=new.tokens)
        assert new.text == "A blue whale."
    with pytest.raises(memdb.NotFound, match="#3"):
        chat.edit(3, "A blue whale.")


def test_an_edit_that_changes_nothing_leaves_the_summaries(chat, db):
    """Saying the same again is free."""
    chat.extend([{"role": "user", "text": f"The heron number {n} is grey."} for n in range(40)])
    db.jobs.run()
    tree = chat.summaries.tree()

    chat.edit(3, {"role": "user", "text": chat.get(3).text})

    assert chat.summaries.tree() == tree


@pytest.mark.parametrize("seq", [2, 1 << 20])
def test_there_must_be_a_message_to_edit(chat, seq):
    """None is made."""
    chat.append("user", "a")

    with pytest.raises(memdb.NotFound):
        chat.edit(seq, {"role": "user", "text": "b"})


def test_a_session_is_given_another_title_and_metadata(chat, db):
    """Each by itself; it is found by the new title only."""
    chat.append("user", "a")

    assert chat.update(title="Heron").title == "Heron"
    head = chat.update(metadata={"of": "mail"})

    assert (head.title, head.metadata) == ("Heron", {"of": "mail"})
    chat.update(title="Fox 北京")
    desk = db.scope("ann", "desk")
    words = ("Heron", "Fox", "北京")
    found = {word: len(desk.recall(word, by="words")) for word in words}
    assert found == {"Heron": 0, "Fox": 1, "北京": 1}
    assert db.file.check(deep=True) == []
    assert desk.session("never").update(title="x").last_seq == 0


def test_keep_leaves_the_first_to_come(chat):
    """In the file and within one batch."""
    chat.extend([event("a")])

    chat.extend(
        [event("b"), event("c", external_id="e-2"), event("d", external_id="e-2")], keep=True
    )

    assert [message.text for message in chat.messages()] == ["a", "c"]


def test_state_is_a_dict_in_the_file(chat, db):
    """Reading, setting, removing and counting work as in a dict."""
    state = chat.state
    state["b"] = {"n": [1, None]}
    state.update({"a": 1}, c=3)

    assert [*state] == ["a", "b", "c"]
    assert (len(state), state["b"], state.get("x", 9), "c" in state) == (
        3,
        {"n": [1, None]},
        9,
        True,
    )
    assert state.pop("c") == 3
    assert state == {"a": 1, "b": {"n": [1, None]}}
    assert repr(state) == "<State {'a': 1, 'b': {'n': [1, None]}}>"
    with pytest.raises(KeyError):
        del state["c"]
    state.clear()
    assert not state
    assert [info.name for info in db.scope("ann", "desk").sessions()] == ["trip"]


def test_state_of_one_place_is_not_that_of_another(db):
    """Also when names look like each other's."""
    db.scope("b", "a").session("c").state["k"] = "session"
    db.scope("b", "a").state["k"] = "user"
    db.shared("a").state["k"] = "app"
    db.scope("c", "a b").state["k"] = "other"

    assert db.scope("b", "a").session("c").state.all() == {"k": "session"}
    assert db.scope("b", "a").state.all() == {"k": "user"}
    assert db.shared("a").state.all() == {"k": "app"}
    assert db.scope("b", "a").session("d").state.all() == {}


def test_a_deleted_session_takes_its_state_along(chat, db):
    """The user's and the app's stay, and the next session of the name begins empty."""
    Host(chat).create(state={"a": 1}, user_state={"b": 2}, app_state={"c": 3})
    first = chat.head().uid

    assert chat.delete().removed["sessions"] == 1

    assert chat.state.all() == {}
    assert chat.create().uid != first
    found = Host(chat).snapshot()
    assert (found.state, found.user_state, found.app_state) == ({}, {"b": 2}, {"c": 3})


def test_scope_search_goes_by_words_alone(db):
    """Neighbours and meaning bring nothing; entries are found beside messages."""
    ann = db.scope("ann")
    ann.session("a").extend([{"role": "user", "text": "red fox"}, {"role": "user", "text": "hen"}])
    ann.remember("The fox sleeps.")
    db.scope("bob").remember("A fox of Bob's.")

    assert sorted(hit.text for hit in ann.recall("fox", by="words")) == [
        "The fox sleeps.",
        "red fox",
    ]
    assert [hit.text for hit in ann.recall("fox", kinds=["entry"], by="words")] == [
        "The fox sleeps."
    ]
    assert list(ann.recall("nothing like it", by="words")) == []


def test_warm_loads_what_counts_and_embeds(db, embedder):
    """The first call after it finds both ready; nothing is written."""
    HostFile(db).warm()

    assert embedder.calls == ["warm"]
    assert db.scopes() == []

    embedder.fail = RuntimeError("no model")
    with pytest.raises(memdb.PortError, match="no model"):
        HostFile(db).warm()


@pytest.mark.parametrize("change", ["append", "pop", "clear", "describe"])
def test_a_commit_to_a_session_that_moved_on_writes_nothing(db, change):
    """Whatever moved it: messages that came or went, or its metadata."""
    chat = db.scope("ann").session("s")
    chat.create(metadata={"n": 1})
    Host(chat).commit({"role": "user", "text": "one"})
    known = chat.head()
    changes = {
        "append": lambda: chat.append("user", "two"),
        "pop": chat.pop,
        "clear": chat.clear,
        "describe": lambda: Host(chat).commit({"role": "user", "text": "two"}, metadata={"n": 2}),
    }
    changes[change]()
    before = [one.text for one in chat.messages()]

    with pytest.raises(memdb.VersionConflict):
        Host(chat).commit({"role": "user", "text": "late"}, expected=known, state={"late": 1})

    assert [one.text for one in chat.messages()] == before
    assert dict(chat.state) == {}
    assert Host(chat).commit({"role": "user", "text": "now"}, expected=chat.head()).text == "now"
