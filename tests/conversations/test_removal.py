"""Taking the newest message back, and going on in two ways."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.models.settings import Settings
from memdb.models.summaries import SummaryText


def talk(count: int) -> list[dict[str, Any]]:
    """Return messages about trips, user and assistant in turns."""
    roles = ("user", "assistant")
    return [
        {"role": roles[n % 2], "text": f"trip {n} goes to Oslo{n}", "external_id": f"m{n}"}
        for n in range(1, count + 1)
    ]


def test_pop_removes_the_newest_and_gives_it(db: MemDB) -> None:
    """What was said last is gone from reading and from search, and its seq with it."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(3))
    db.jobs.run()

    popped = chat.pop()

    assert popped is not None
    assert (popped.seq, popped.external_id) == (3, "m3")
    assert [one.seq for one in chat.messages()] == [1, 2]
    assert list(chat.recall("Oslo3", kinds=("message",), by="words")) == []
    assert chat.find("m3") is None
    assert chat.append("user", "again").seq == 4


def test_pop_of_nothing_gives_none(db: MemDB) -> None:
    """An empty and an absent session have no newest message."""
    chat = db.scope("ann").session("trip")

    assert chat.pop() is None
    assert chat.pop(expected=0) is None

    chat.append("user", "hi")

    assert (chat.pop() is not None, chat.pop(), chat.last(5)) == (True, None, [])


def test_pop_of_another_than_expected_changes_nothing(db: MemDB) -> None:
    """Who knows an older state learns so."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(2))

    with pytest.raises(memdb.VersionConflict):
        chat.pop(expected=1)

    assert [one.text for one in chat.messages()] == [one["text"] for one in talk(2)]


def test_pop_takes_an_archived_message_out_of_its_segment(db: MemDB) -> None:
    """The others of the segment stay as they were; its words are found no more."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(300))
    chat.archive(keep_last=0)
    before = chat.last(300)

    popped = [chat.pop() for _ in range(60)]

    assert popped == before[:239:-1]
    assert [*chat.messages()] == before[:240]
    assert list(chat.recall("Oslo300", kinds=("message",), by="words")) == []
    assert len(chat.recall("Oslo240", kinds=("message",), by="words")) > 0


@pytest.mark.parametrize("left", [73, 60, 59, 11, 1, 0])
def test_pop_takes_summaries_back_that_told_it(
    open_db: Callable[..., MemDB], path: str, left: int
) -> None:
    """Whatever stood for it goes; what is left is summarised as if it had never been said."""
    db = open_db(
        path, settings=Settings(summary_messages=3, summary_condense_at=3, summary_group=2)
    )
    chat = db.scope("ann").session("trip")
    chat.extend(talk(73))
    db.jobs.run()

    while (last := chat.last(1)) and last[0].seq > left:
        chat.pop()

    assert db.file.check(deep=True) == []
    covered = [summary.last_seq for summary in chat.summaries.tree().summaries]
    assert max(covered, default=0) <= left

    chat.extend([{"role": "user", "text": f"later {n}"} for n in range(30)])
    db.jobs.run()

    assert db.file.check(deep=True) == []
    assert chat.context(2000).tokens <= 2000


def test_a_message_that_is_popped_while_it_is_embedded_leaves_no_vector(
    open_db: Callable[..., MemDB], path: str, make_embedder: Callable[[], Any]
) -> None:
    """The vector of a message that is gone is not stored."""
    embedder = make_embedder()
    db = open_db(path, embedder=embedder)
    chat = db.scope("ann").session("trip")
    chat.extend(talk(4))
    embedder.before = lambda: chat.pop() if chat.last(1)[0].seq == 4 else None

    db.jobs.run()

    assert db.file.check(deep=True) == []
    assert [one.seq for one in chat.messages()] == [1, 2, 3]


def test_a_summary_of_a_message_that_is_popped_meanwhile_is_not_kept(
    open_db: Callable[..., MemDB], path: str
) -> None:
    """What was taken back while it was summarised is in no summary."""

    class Slow:
        name = "slow"
        quality = "extractive"

        def summarize(self, source: Any, **_: Any) -> Any:
            if "Oslo12" in str(source) and chat.last(1)[0].seq == 12:
                chat.pop()
            return SummaryText("in short")

    db = open_db(
        path,
        summarizer=Slow(),
        settings=Settings(summary_messages=3, summary_condense_at=3, summary_group=2),
    )
    chat = db.scope("ann").session("trip")
    chat.extend(talk(12))

    db.jobs.run()

    assert chat.last(1)[0].seq == 11
    assert max(summary.last_seq for summary in chat.summaries.tree().summaries) == 9
    assert db.file.check(deep=True) == []


def test_threads_that_pop_at_once_get_different_messages(file_db: MemDB) -> None:
    """Each message is handed out once."""
    chat = file_db.scope("ann").session("trip")
    chat.extend(talk(40))
    taken: list[int] = []

    def take() -> None:
        while (popped := chat.pop()) is not None:
            taken.append(popped.seq)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(taken) == list(range(1, 41))


def test_fork_copies_what_was_said_before(db: MemDB) -> None:
    """The copy goes on by itself; both are found."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(5))

    other = chat.fork("trip, again", before_seq=4)
    other.append("user", "another way to Bergen")

    assert [one.text for one in other.messages()] == [
        *(one["text"] for one in talk(3)),
        "another way to Bergen",
    ]
    assert [one.external_id for one in other.last(4)] == ["m1", "m2", "m3", None]
    assert chat.last_seq == 5
    assert {one.uid for one in other.messages()} & {one.uid for one in chat.messages()} == set()
    assert len(other.recall("Oslo2", kinds=("message",), by="words")) > 0


def test_fork_of_an_archived_session_has_its_words(db: MemDB) -> None:
    """Archiving is not noticed."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(20))
    chat.archive(keep_last=0)

    other = chat.fork("b")

    assert [one.text for one in other.messages()] == [one.text for one in chat.messages()]


def test_fork_before_the_first_message_is_an_empty_session(db: MemDB) -> None:
    """It is there, so its name is taken."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(2))

    other = chat.fork("b", before_seq=1)

    assert other.last(5) == []
    assert [one.name for one in db.scope("ann").sessions()] == ["b", "trip"]


def test_fork_refuses_taken_names_and_absent_sessions(db: MemDB) -> None:
    """Nothing is written then."""
    chat = db.scope("ann").session("trip")

    with pytest.raises(memdb.NotFound):
        chat.fork("b")

    chat.extend(talk(2))

    with pytest.raises(memdb.AlreadyExists):
        chat.fork("trip")
    with pytest.raises(memdb.InvalidInput):
        chat.fork("b", before_seq=0)
    with pytest.raises(memdb.InvalidInput):
        chat.fork(" ")
    assert [one.name for one in db.scope("ann").sessions()] == ["trip"]


def test_sessions_can_be_listed_by_the_beginning_of_their_names(db: MemDB) -> None:
    """Wildcards are letters like others; other scopes are not seen."""
    names = ["a%", "a%b", "a%\U0010ffff\U0010ffff", "ab", "b"]
    for name in names:
        db.scope("ann").session(name).append("user", "hi")
    db.scope("bob").session("a%c").append("user", "hi")

    found = [one.name for one in db.scope("ann").sessions("a%")]

    assert found == ["a%", "a%b", "a%\U0010ffff\U0010ffff"]


@pytest.mark.parametrize("archived", [False, True], ids=["fresh", "archived"])
def test_clear_removes_messages_and_nothing_else(db: MemDB, archived: bool) -> None:
    """Artifacts and entries stay, and no seq comes back."""
    ann = db.scope("ann")
    chat = ann.session("trip")
    chat.extend(talk(25))
    chat.artifacts.save("list.md", "- passport")
    ann.remember("Ann flies to Oslo.", session="trip", seq=2)
    db.jobs.run()
    if archived:
        chat.archive(keep_last=3)

    assert chat.clear() is True

    assert (chat.clear(), chat.last(5), chat.summaries.tree().summaries) == (False, [], ())
    assert list(chat.recall("Oslo2", kinds=("message",), by="words")) == []
    assert chat.artifacts.load("list.md").text == "- passport"
    assert len([*ann.entries.list()]) == 1
    assert chat.append("user", "again").seq == 26


def test_clear_of_an_absent_session_does_nothing(db: MemDB) -> None:
    """It is not made."""
    assert db.scope("ann").session("trip").clear() is False
    assert db.scope("ann").sessions() == []


def test_replace_takes_messages_out_and_adds_others(db: MemDB) -> None:
    """Both ends of a conversation at once; what is left stays as it was."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(9))
    db.jobs.run()

    added = chat.replace([8, 1, 2, 9, 9, 77], [{"role": "user", "text": "in short"}])

    assert [(one.seq, one.text) for one in added] == [(10, "in short")]
    assert [one.seq for one in chat.messages()] == [3, 4, 5, 6, 7, 10]
    found = {
        hit.text
        for hit in chat.recall(
            "Oslo1 Oslo2 Oslo3 Oslo8 Oslo9 short", kinds=("message",), by="words", min_score=0
        )
    }
    assert found == {"in short", "trip 3 goes to Oslo3"}
    assert db.file.check(deep=True) == []


def test_replace_of_what_moved_on_changes_nothing(db: MemDB) -> None:
    """As the caller knows it, or not at all."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(2))

    with pytest.raises(memdb.VersionConflict):
        chat.replace([1, 2], [{"role": "user", "text": "x"}], expected=1)

    assert [one.text for one in chat.messages()] == [one["text"] for one in talk(2)]


@pytest.mark.parametrize(
    ("seqs", "instead"),
    [([0], []), (["1"], []), ([1.0], []), ([1], [{"role": "robot"}]), ([1], ["x"])],
)
def test_replace_refuses_bad_input_before_it_writes(
    db: MemDB, seqs: list[Any], instead: list[Any]
) -> None:
    """A seq, or a message."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(1))

    with pytest.raises(memdb.InvalidInput):
        chat.replace(seqs, instead)

    assert chat.last(5)[0].text == "trip 1 goes to Oslo1"


def test_replace_makes_a_session_only_for_messages(db: MemDB) -> None:
    """Nothing to add to nothing leaves nothing."""
    scope = db.scope("ann")

    assert scope.session("none").replace([1, 2]) == []
    assert scope.sessions() == []
    assert [one.seq for one in scope.session("new").replace([1], talk(2))] == [1, 2]


def test_replace_reaches_into_the_archive(db: MemDB) -> None:
    """Over several segments; the others of them stay."""
    chat = db.scope("ann").session("trip")
    chat.extend(talk(300))
    chat.archive(keep_last=20)
    before = chat.last(300)

    chat.replace([*range(1, 140), 200, *range(270, 301)])

    assert [*chat.messages()] == [*before[139:199], *before[200:269]]
    assert list(chat.recall("Oslo200", kinds=("message",), by="words")) == []
    assert len(chat.recall("Oslo201", kinds=("message",), by="words")) > 0
    assert db.file.check(deep=True) == []


@pytest.mark.parametrize("gone", [range(1, 40), range(1, 74), range(30, 50), range(60, 74)])
def test_what_is_left_after_replacing_is_summarised_again(
    open_db: Callable[..., MemDB], path: str, gone: range
) -> None:
    """No summary tells what went; the next ones cover all that is there."""
    db = open_db(
        path, settings=Settings(summary_messages=3, summary_condense_at=3, summary_group=2)
    )
    chat = db.scope("ann").session("trip")
    chat.extend(talk(73))
    db.jobs.run()

    chat.replace(gone, [{"role": "user", "text": "in short"}])

    assert (
        max((summary.last_seq for summary in chat.summaries.tree().summaries), default=0) < gone[0]
    )
    assert db.file.check(deep=True) == []

    chat.extend([{"role": "user", "text": f"later {n}"} for n in range(30)])
    db.jobs.run()
    window = chat.context(2000)

    assert db.file.check(deep=True) == []
    assert window.tokens <= 2000
    told = " ".join(one.text for one in window.messages)
    assert not any(f"Oslo{n}." in told or f"Oslo{n} " in told for n in gone)


def test_fork_copies_title_and_metadata(db: MemDB) -> None:
    """State stays with the original."""
    chat = db.scope("ann").session("trip")
    Host(chat).create(title="To Bergen", metadata={"a": [1]}, state={"k": 1})
    chat.append("user", "Hello.")
    copy = chat.fork("copy")

    assert (copy.head().title, copy.head().metadata) == ("To Bergen", {"a": [1]})
    assert copy.state.all() == {}


@pytest.mark.parametrize(
    "how",
    [
        lambda chat: chat.forget([3]),
        lambda chat: Host(chat).erase(3),
        lambda chat: chat.delete([3]),
    ],
    ids=["forget", "erase", "delete"],
)
def test_fork_does_not_bring_back_what_goes_meanwhile(
    open_db: Callable[..., MemDB], how: Callable[[Any], object]
) -> None:
    """Tokens are counted between the read and the write."""
    waiting: list[Any] = []

    class Slow:
        """A counter that lets something happen."""

        name = "slow"

        def count(self, text: str) -> int:
            """Count the words of one."""
            return len(text.split())

        def count_many(self, texts: list[str]) -> list[int]:
            """Count the words of each."""
            if waiting:
                thread = threading.Thread(target=how, args=(waiting.pop(),))
                thread.start()
                thread.join()
            return [len(text.split()) for text in texts]

    db = open_db(":memory:", counter=Slow())
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"Secret {n}."} for n in range(1, 6)])
    waiting.append(chat)
    copy = chat.fork("copy")

    assert waiting == []
    assert "Secret 3." not in [message.text for message in copy.messages()]
    assert copy.messages()


def test_fork_of_a_session_that_goes_meanwhile(db: MemDB) -> None:
    """There is nothing to copy."""
    with pytest.raises(memdb.NotFound):
        db.scope("ann").session("nowhere").fork("copy")


def test_a_context_after_a_delete_below_what_was_pruned() -> None:
    """A pruned summary that nothing stands for any more is made again from its messages."""
    few = memdb.Settings(summary_messages=4, summary_condense_at=3, summary_group=2)
    with memdb.open(":memory:", settings=few) as db:
        chat = db.scope("ann").session("tea")
        chat.extend([{"role": "user", "text": f"tea {number}"} for number in range(30)])
        assert chat.summaries.compact(keep_last=None).pruned

        chat.delete([6])

        chat.append("user", "more tea")
        assert "more tea" in str(chat.context(200).messages)
        assert all(one.text for one in chat.summaries.tree().summaries)
        assert db.file.check(deep=True) == []
