"""Selectors: what a removal names, checked before anything is read."""

import asyncio
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import pytest
from cases import each

import memdb
import memdb.aio
from memdb import MemDB
from memdb.api.threads import Threads

SCOPE = {"entry": 1, "session": "s", "query": "tea", "person": "Zoe", "everything": True}
IN_SESSION = {"seqs": [1], "last": 1, "before": 1 << 50, "query": "tea"}
PAIRS = [
    ("scope", {}),
    ("scope", {"seqs": 3}),
    *(("scope", dict(pair)) for pair in combinations(SCOPE.items(), 2)),
    *(("scope", {name: SCOPE[name], "seqs": [1]}) for name in SCOPE if name != "session"),
    *(("session", dict(pair)) for pair in combinations(IN_SESSION.items(), 2)),
    ("session", IN_SESSION),
]


@each("level, given, verb", [(*pair, verb) for pair in PAIRS for verb in ("delete", "forget")])
def test_selectors_that_contradict_remove_nothing(
    db: MemDB, level: str, given: dict[str, Any], verb: str
) -> None:
    """Nor does one that names nothing; the same awaited."""
    chat = db.scope("ann").session("s")
    if not chat.last_seq:
        chat.append("user", "tea")
        db.scope("ann").remember("Ann likes tea.")

    target = chat if level == "session" else db.scope("ann")
    with pytest.raises(memdb.InvalidInput):
        getattr(target, verb)(**given)
    with pytest.raises(memdb.InvalidInput):
        asyncio.run(awaited(db, level, verb, given))

    assert chat.last(1)[0].text == "tea"
    assert len(list(db.scope("ann").entries.list())) == 1


async def awaited(db: MemDB, level: str, verb: str, given: dict[str, Any]) -> Any:
    """Return what the same removal of `memdb.aio` gives."""
    with Threads(db.path) as worker:
        ann = memdb.aio.MemDB(db, worker).scope("ann")
        return await getattr(ann.session("s") if level == "session" else ann, verb)(**given)


@each(
    "field, value",
    [
        *(("last", wrong) for wrong in (0, -1, True, "1", 1.0)),
        *(("seqs", wrong) for wrong in (0, [0], ["x"], [True], [1 << 30])),
        *(("before", wrong) for wrong in (1.5, datetime(2026, 1, 1), "no such time")),  # noqa: DTZ001 (no zone)
        *(("query", wrong) for wrong in ("", "...", 5)),
    ],
)
def test_wrong_selectors_of_a_session_remove_nothing(db: MemDB, field: str, value: object) -> None:
    """The error names the argument."""
    chat = db.scope("ann").session("s")
    if not chat.last_seq:
        chat.append("user", "tea")

    for remove in (chat.delete, chat.forget):
        with pytest.raises(memdb.InvalidInput, match=field):
            remove(**{field: value})

    assert chat.last_seq == len(chat.last(9)) == 1


@pytest.fixture
def filled(db: MemDB) -> MemDB:
    """Return a file with messages, an entry told by one, an artifact and state."""
    ann = db.scope("ann")
    chat = ann.session("s")
    chat.extend([{"role": "user", "text": f"tea {n}"} for n in range(12)])
    chat.artifacts.save("n.txt", "tea")
    chat.state["k"] = "tea"
    ann.items.put(("n",), "k", {"text": "green tea"})
    ann.items.put(("n",), "other", {"text": "a dog"})
    ann.remember("Ann likes green tea.", session="s", seq=3)
    ann.remember("Ann has a dog.", session="s", seq=3)
    db.jobs.run()
    return db


@pytest.mark.parametrize(
    ("given", "removed"),
    [
        ({"session": "s"}, {"messages": 12, "sessions": 1, "artifacts": 1, "state": 1}),
        ({"session": "s", "seqs": [3, 4]}, {"messages": 2}),
        ({"session": "gone"}, {}),
        ({"query": "tea"}, {"messages": 12, "entries": 1, "items": 1}),
        ({"query": "tea", "artifacts": True}, {"messages": 12, "entries": 1, "artifacts": 1}),
        ({"everything": True}, {"messages": 12, "sessions": 1, "entries": 2, "items": 2}),
    ],
    ids=str,
)
def test_delete_takes_what_forget_takes_but_for_what_was_told(
    filled: MemDB, given: dict[str, Any], removed: dict[str, int]
) -> None:
    """A dry run says the same, and removes nothing."""
    ann = filled.scope("ann")
    planned = ann.delete(**given, dry_run=True)
    done = ann.delete(**given)
    again = ann.delete(**given)

    assert planned.removed == done.removed
    assert {key: done.removed[key] for key in removed} == removed
    assert not any(again.removed[key] for key in ("messages", "sessions", "entries", "state"))
    assert filled.file.check(deep=True) == []


def test_a_deleted_entry_is_gone(filled: MemDB) -> None:
    """Once; of one that never was there is nothing to delete either."""
    ann = filled.scope("ann")
    entry = ann.entries.list()[0]

    assert ann.delete(entry=entry.id).removed["entries"] == 1
    assert ann.delete(entry=entry.id).removed["entries"] == 0
    assert ann.delete(entry=7).removed["entries"] == 0


def test_messages_are_forgotten_by_their_seqs(filled: MemDB) -> None:
    """The same selector as that of delete; what they told goes with them."""
    receipt = filled.scope("ann").forget(session="s", seqs=[3, 4])

    assert receipt.what == "messages"
    assert (receipt.removed["messages"], receipt.removed["entries"]) == (2, 2)


TOLD = {"s": "Ann plays chess on Sundays.", "other": "The dog is called Rex."}


@pytest.fixture
def three_days(db: MemDB) -> MemDB:
    """Return a file with two sessions that say the same on six days, half of it archived."""
    ann = db.scope("ann")
    for name in ("s", "other"):
        chat = ann.session(name)
        for day in range(1, 7):
            drink = "tea" if day % 2 else "milk"
            chat.append("user", f"{drink} on day {day}", created=day * 86_400_000)
        chat.artifacts.save("tea.md", "tea", message_seq=1)
        ann.remember(TOLD[name], session=name, seq=3)
    ann.session("s").archive(keep_last=3)
    return db


@pytest.mark.parametrize("verb", ["delete", "forget"])
@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"seqs": [2, 3]}, [1, 4, 5, 6]),
        ({"seqs": 6}, [1, 2, 3, 4, 5]),
        ({"last": 2}, [1, 2, 3, 4]),
        ({"last": 99}, []),
        ({"before": 3 * 86_400_000}, [3, 4, 5, 6]),
        ({"before": datetime(1970, 1, 6, tzinfo=UTC)}, [5, 6]),
        ({"before": 0}, [1, 2, 3, 4, 5, 6]),
        ({"query": "tea"}, [2, 4, 6]),
        ({"query": "coffee"}, [1, 2, 3, 4, 5, 6]),
    ],
    ids=str,
)
def test_a_session_removes_what_its_selector_names(
    three_days: MemDB, verb: str, given: dict[str, Any], left: list[int]
) -> None:
    """Archived messages too, nothing of another session; a dry run counts the same."""
    ann = three_days.scope("ann")
    chat, other = ann.session("s"), ann.session("other")
    planned = getattr(chat, verb)(**given, dry_run=True)
    done = getattr(chat, verb)(**given)

    assert planned.removed == done.removed
    assert done.removed["messages"] == 6 - len(left)
    assert [one.seq for one in chat.messages()] == left
    assert len(other.last(9)) == 6
    entries = [one.text for one in ann.entries.list()]
    told = verb == "forget" and 3 not in left and "query" not in given
    assert entries == ([TOLD["other"]] if told else [*TOLD.values()])
    assert done.removed["entries"] == (1 if told else 0)
    assert [one.name for one in chat.artifacts.list()] == ["tea.md"]
    assert three_days.file.check(deep=True) == []


@pytest.mark.parametrize("verb", ["delete", "forget"])
def test_artifacts_of_a_session_go_with_a_query(three_days: MemDB, verb: str) -> None:
    """Those that say it in this session, if they are asked for."""
    ann = three_days.scope("ann")
    done = getattr(ann.session("s"), verb)(query="tea", artifacts=True)

    assert done.removed["artifacts"] == 1
    assert [one.session for one in ann.artifacts.list()] == ["other"]


@pytest.mark.parametrize("verb", ["delete", "forget"])
def test_a_session_without_a_selector_goes_as_a_whole(three_days: MemDB, verb: str) -> None:
    """As `Scope` removes it, with the same receipt."""
    ann = three_days.scope("ann")
    planned = getattr(ann, verb)(session="s", dry_run=True)
    done = getattr(ann.session("s"), verb)()

    assert (done.what, done.removed, done.subject_sha256) == (
        "session",
        planned.removed,
        planned.subject_sha256,
    )
    assert [one.name for one in ann.sessions()] == ["other"]
    assert getattr(ann.session("s"), verb)().removed["sessions"] == 0
    assert getattr(ann.session("never"), verb)(last=1).removed["messages"] == 0


@each(
    "verb, flag",
    [
        ("delete", "everything"),
        ("delete", "artifacts"),
        ("delete", "dry_run"),
        ("forget", "everything"),
        ("forget", "artifacts"),
        ("forget", "dry_run"),
        ("forget", "prove"),
    ],
)
def test_a_flag_is_true_or_false(db: MemDB, verb: str, flag: str) -> None:
    """What Python would take for one removes nothing."""
    ann = db.scope("ann")
    ann.session("s").append("user", "hello")
    for value in ("no", "", 0, 1, None, []):
        given = {flag: value} if flag == "everything" else {"session": "s", flag: value}
        with pytest.raises(memdb.InvalidInput, match=flag):
            getattr(ann, verb)(**given)

        assert ann.session("s").last(1)[0].text == "hello"


# What an artifact can say a word in: by what is saved, the versions that a query leaves.
SAYING = {
    "its name": ([("peanuts.md", "x"), ("peanuts.md", "y")], None),
    "an emoji in its name": ([("list 🥜.md", "x")], None),
    "an older version": ([("a.md", "no peanuts"), ("a.md", "nothing")], [2]),
    "the newest version": ([("a.md", "nothing"), ("a.md", "no peanuts")], [1]),
    "every version": ([("a.md", "peanuts"), ("a.md", "a peanut")], None),
    "no text by its type": ([("a.bin", b"no peanuts")], None),
    "behind the indexed text": ([("a.md", "x " * 600_000 + "peanuts")], None),
    "across two chunks": ([("a.md", "x" * ((256 << 10) - 4) + " peanuts")], None),
    "nothing": ([("a.md", "walnuts")], [1]),
}


@pytest.mark.parametrize("verb", ["delete", "forget", "forget person"])
def test_artifacts_go_by_one_rule(db: MemDB, verb: str) -> None:
    """A query with artifacts and a person take the same of them."""
    wrong = []
    for number, (case, (saved, left)) in enumerate(SAYING.items()):
        ann = db.scope(f"ann {number}")
        for name, data in saved:
            ann.session("s").artifacts.save(name, data)
        query = "🥜" if "emoji" in case else "peanuts"
        given: dict[str, Any] = {"query": query, "artifacts": True}
        if verb == "forget person":
            given = {"person": query}
        planned = getattr(ann, verb.split()[0])(dry_run=True, **given)
        done = getattr(ann, verb.split()[0])(**given)
        name = saved[0][0]
        kept = [one.version for one in ann.session("s").artifacts.versions(name)]
        if kept != (left or []) or planned.removed != done.removed:
            wrong.append((case, kept, done.removed))
        if (left is None) != (done.removed["artifacts"] == 1):
            wrong.append((case, kept, done.removed))

    assert wrong == []


@pytest.mark.parametrize("verb", ["delete", "forget"])
def test_an_entry_is_named_by_its_number_in_its_own_scope(db: MemDB, verb: str) -> None:
    """Ann's first entry stays when Bob's first entry goes."""
    ann, bob = db.scope("ann"), db.scope("bob")
    first, second = (one.remember("They like tea.").entry.id for one in (ann, bob))

    getattr(bob, verb)(entry=second)

    assert first == second
    assert (len(ann.entries.list()), len(bob.entries.list())) == (1, 0)
