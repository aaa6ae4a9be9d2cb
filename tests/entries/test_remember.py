"""Remembering: what a statement does to what is known already."""

import subprocess
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from cases import each

import memdb
from memdb import MemDB
from memdb.models.protocols import Claim, Verdict


class Arbiter:
    """Answers with `verdict`, and keeps what it was asked."""

    name = "judge"

    def __init__(self, verdict: Any = None) -> None:
        """Answer with *verdict*, or raise it."""
        self.verdict = verdict
        self.asked: list[tuple[str, list[str]]] = []
        self.before: Callable[[], object] = lambda: None

    def decide(self, said: Claim, known: Sequence[Claim]) -> Verdict:
        """Return the verdict."""
        self.before()
        self.asked.append((said.text, [one.text for one in known]))
        if isinstance(self.verdict, Exception):
            raise self.verdict
        return self.verdict


# The second is linked to the first, whatever the model of links learns next.
OLD = "The rent is 14,500 a month."
NEW = "Correction: the rent is 15,400 a month, not 14,500."


def texts(scope: memdb.Scope) -> list[str]:
    """Return what a scope holds."""
    return [entry.text for entry in scope.entries.list()]


@pytest.mark.parametrize(
    "again", ["ann likes tea", "Ann likes  tea!", ' "Ann likes tea." ', "Ann likes tea."]
)
def test_the_same_words_are_stored_once(db: MemDB, again: str) -> None:
    """Case, spaces and the marks around a sentence do not matter."""
    ann = db.scope("ann")
    first = ann.remember("Ann likes tea.").entry

    done = ann.remember(again)

    assert (done.action, done.entry.id, done.entry.text) == ("repeated", first.id, first.text)
    assert texts(ann) == ["Ann likes tea."]


def test_said_again_with_more_it_takes_that_over(db: MemDB) -> None:
    """The lasting category, the greater importance, all keywords, and a pin."""
    ann = db.scope("ann")
    ann.remember("Ann likes tea.", category="profile", importance=7, keywords=["drink"])

    done = ann.remember(
        "ann likes tea", category="events", importance=3, keywords=["leaf"], pinned=True
    )

    assert done.action == "repeated"
    entry = done.entry
    assert (entry.category, entry.importance, entry.keywords, entry.pinned) == (
        "profile",
        7,
        ("drink", "leaf"),
        True,
    )
    assert [old.reason for old in ann.entries.history(entry.id)] == ["merge", "repeat"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("I like tea.", "I like coffee."),
        ("I met Bob in Paris.", "I met Carl in Paris."),
        ("I read Emma in April.", "I read Emma in May."),
        ("My sister lives in Oslo.", "I live in Bergen."),
        ("My sister lives in Oslo.", "My brother lives in Bergen."),
        ("Task 12 is done.", "Task 13 is done."),
        ("I ran 5 km yesterday.", "I ran 10 km yesterday."),
        ("Ann loves Bob.", "Bob loves Ann."),
        ("I don't like tea.", "I like coffee."),
        ("I took a course on chess.", "I quit chess."),
        ("I visited Rome in 2019.", "I visited Rome in 2021."),
        ("My hobby is chess.", "My hobby is rowing."),
    ],
)
def test_different_facts_stand_beside_each_other(db: MemDB, one: str, other: str) -> None:
    """However alike they sound."""
    ann = db.scope("ann")
    ann.remember(one)

    done = ann.remember(other)

    assert done.action == "added"
    assert texts(ann) == [one, other]


def test_a_key_needs_no_likeness(db: MemDB) -> None:
    """Whatever was said under it before gives way, and what was not said stays."""
    ann = db.scope("ann")
    old = ann.remember("Oslo", key="home", category="profile", importance=8).entry

    done = ann.remember("somewhere else entirely", key="home")

    assert (done.action, done.other) == ("updated", old)
    assert (done.entry.category, done.entry.importance) == ("profile", 8)
    assert ann.entries.find("home") == done.entry


def test_two_keys_are_two_facts(db: MemDB) -> None:
    """Also when they say the same."""
    ann = db.scope("ann")
    ann.remember("Oslo", key="home")
    ann.remember("Oslo", key="birthplace")

    assert len(texts(ann)) == 2


def test_a_fact_of_the_future_takes_its_place_then(db: MemDB, clock: Any) -> None:
    """Until then the old one is the answer."""
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", key="home")
    ann.remember("I live in Bergen.", key="home", valid_from=clock.now_ms + 1_000)
    before = (ann.entries.find("home").text, texts(ann))
    clock.advance(1_000)
    after = (ann.entries.find("home").text, texts(ann))

    assert before == ("I live in Oslo.", ["I live in Oslo."])
    assert after == ("I live in Bergen.", ["I live in Bergen."])


def test_a_fact_of_the_past_does_not_replace_the_present(db: MemDB) -> None:
    """It is kept as what was true before."""
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", key="home", valid_from=2_000)

    done = ann.remember("I live in Bergen.", key="home", valid_from=1_000)

    assert (done.action, done.entry.active, done.entry.valid_to_ms) == ("added", False, 2_000)
    assert texts(ann) == ["I live in Oslo."]


def test_what_is_less_trusted_changes_nothing_that_is_trusted(db: MemDB) -> None:
    """It stands beside it; under the key of a trusted fact it is refused."""
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", key="home")

    beside = ann.remember("I moved to Bergen.", trust="untrusted")
    refused = ann.remember("Rome", key="home", trust="flagged")

    assert (beside.action, refused.action, refused.entry.id) == ("added", "refused", 0)
    assert ann.entries.find("home").text == "I live in Oslo."


@pytest.mark.parametrize(
    ("verdict", "action", "left"),
    [
        (Verdict("add"), "added", [OLD, NEW]),
        (Verdict("noop", (0,)), "repeated", [OLD]),
        (Verdict("update", (0,), "both"), "updated", ["both"]),
        (Verdict("update", (0,)), "updated", [NEW]),
        (Verdict("delete", (0,)), "updated", [NEW]),
    ],
    ids=str,
)
def test_an_arbiter_decides_about_what_is_related(
    open_db: Callable[..., MemDB], verdict: Verdict, action: str, left: list[str]
) -> None:
    """Each of its answers is carried out, and its reason kept."""
    arbiter = Arbiter(verdict.replace(reason="because"))
    ann = open_db(":memory:", arbiter=arbiter).scope("ann")
    ann.remember(OLD)

    done = ann.remember(NEW)

    assert arbiter.asked == [(NEW, [OLD])]
    assert (done.action, done.reason, texts(ann)) == (action, "because", left)


@pytest.mark.parametrize(
    "verdict",
    [
        memdb.PortError("judge", "no answer"),
        Verdict("delete", (7,)),
        Verdict("noop", (-1,)),
        Verdict("noop"),
        Verdict("destroy", (0,)),
        None,
        Verdict("update", (0,), 5),
        Verdict("delete", ("0",)),
    ],
    ids=str,
)
def test_an_arbiter_that_fails_or_invents_decides_nothing(
    open_db: Callable[..., MemDB], verdict: Any
) -> None:
    """Nothing that it was not shown can be touched, and nothing is half written."""
    ann = open_db(":memory:", arbiter=Arbiter(verdict)).scope("ann")
    ann.remember(OLD)

    done = ann.remember(NEW)

    assert (done.action, texts(ann)) == ("added", [OLD, NEW])
    assert [one.kind for one in done.links] == ["corrects"]


def test_an_arbiter_is_asked_again_about_what_changed_meanwhile(
    open_db: Callable[..., MemDB],
) -> None:
    """Its answer is about the version that it saw."""
    arbiter = Arbiter(Verdict("noop", (0,)))
    ann = open_db(":memory:", arbiter=arbiter).scope("ann")
    entry = ann.remember(OLD).entry
    newer = OLD.replace("14,500", "14,600")
    arbiter.before = lambda: ann.entries.update(entry.id, text=newer) if not arbiter.asked else None
    ann.remember(NEW)

    assert [known for _, known in arbiter.asked] == [[OLD], [newer]]


@pytest.mark.parametrize("embedder", ["static", None])
@pytest.mark.parametrize(
    ("first", "again", "beside"),
    [
        ("I drink oat milk.", "i drink oat milk", "Tom has a blue car."),
        ("I drink oat milk.", "Please remember that I drink oat milk!", "Tom has a blue car."),
        ("The rent is 14,500 a month.", "The rent is 14 500 a month", "Tom has a blue car."),
        ("J'habite \u00e0 \u00c9vry.", "J\u2019habite a Evry", "Tom a une auto."),
    ],
)
def test_no_arbiter_is_asked_about_a_text_that_is_known(
    open_db: Callable[..., MemDB], embedder: str | None, first: str, again: str, beside: str
) -> None:
    """A call costs money; equal words say the same, whatever else resembles them."""
    arbiter = Arbiter(Verdict("add"))
    ann = open_db(":memory:", arbiter=arbiter, embedder=embedder).scope("ann")
    ann.remember(first)
    ann.remember(beside)
    arbiter.asked.clear()

    done = ann.remember(again)

    assert (done.action, done.entry.text, arbiter.asked) == ("repeated", first, [])


def test_no_arbiter_is_called_inside_a_transaction(open_db: Callable[..., MemDB]) -> None:
    """Other writers wait for none."""
    arbiter = Arbiter(Verdict("add"))
    db = open_db(":memory:", arbiter=arbiter)
    inside: list[bool] = []
    arbiter.before = lambda: inside.append(db._db.writing)
    db.scope("ann").remember(OLD)
    db.scope("ann").remember(NEW)
    with db._db.write():
        db.scope("ann").remember(NEW.replace("15,400", "15,500"))

    assert inside == [False]


def test_a_failing_embedder_does_not_stop_remembering(
    open_db: Callable[..., MemDB], embedder: Any
) -> None:
    """The words are compared, and the vector is due for later."""
    embedder.fail = RuntimeError("down")
    db = open_db(":memory:", embedder=embedder)
    ann = db.scope("ann")
    ann.remember(OLD)

    done = ann.remember(NEW)

    assert [one.kind for one in done.links] == ["corrects"]
    assert db.jobs.pending() > 0


def test_two_users_know_nothing_of_each_other(db: MemDB) -> None:
    """The same words of two people are two facts."""
    done = [db.scope(user).remember("I live in Oslo.").action for user in ("ann", "bob")]
    moved = db.scope("bob").remember("I moved to Bergen.")
    ids = [entry.id for entry in db.scope("ann").entries.list()]

    assert done == ["added", "added"]
    assert [link.kind for link in moved.links] == ["updates"]
    assert [db.scope("ann").entries.links(one) for one in ids] == [[]]
    assert texts(db.scope("ann")) == ["I live in Oslo."]


@each(
    "given, field",
    [
        ({"text": ""}, "text"),
        ({"text": " \n"}, "text"),
        ({"text": "x" * 500_001}, "characters in text"),
        ({"text": "x" * 1_000_000}, "characters in text"),
        ({"text": "x", "importance": 0}, "importance"),
        ({"text": "x", "importance": 11}, "importance"),
        ({"text": "x", "expires": "banana"}, "expires"),
        ({"text": "x", "expires": "0d"}, "expires"),
        ({"text": "x", "expires": "-1d"}, "expires"),
        ({"text": "x", "expires": "7"}, "expires"),
        ({"text": "x", "expires": "d"}, "expires"),
        ({"text": "x", "expires": "7x"}, "expires"),
        ({"text": "x", "expires": "7 d"}, "expires"),
        ({"text": "x", "expires": "1.5d"}, "expires"),
        ({"text": "x", "expires": "1d12h"}, "expires"),
        ({"text": "x", "expires": "7D"}, "expires"),
        ({"text": "x", "expires": "9" * 30 + "d"}, "expires"),
        ({"text": "x", "expires": ""}, "expires"),
        ({"text": "x", "expires": "\u0663d"}, "expires"),
        ({"text": "x", "trust": "blind"}, "trust"),
        ({"text": "x", "pinned": 1}, "pinned"),
        ({"text": "x", "shared": "yes"}, "shared"),
        ({"text": "x", "session_only": True}, "session"),
        ({"text": "x", "session": "s", "seq": (2, 1)}, "seq"),
        ({"text": "x", "session": "s", "seq": (1, 2, 3)}, "seq"),
        ({"text": "x", "writer": ""}, "writer"),
    ],
)
def test_bad_input_names_the_field(db: MemDB, given: dict[str, Any], field: str) -> None:
    """And nothing is written."""
    with pytest.raises(memdb.InvalidInput, match=field):
        db.scope("ann").remember(**given)

    assert db.scopes() == []


@pytest.mark.parametrize("text", ["x" * 501, "\u6f22" * 501, "x" * 500_000])
def test_limits_are_in_characters(db: MemDB, text: str) -> None:
    """501 bytes are nothing special, nor are 501 characters of three bytes."""
    assert db.scope("ann").remember(text).entry.text == text


@pytest.mark.parametrize(
    ("expires", "later_ms"), [("7d", 604_800_000), ("24h", 86_400_000), ("60m", 3_600_000)]
)
def test_expires_takes_a_span(db: MemDB, clock: Any, expires: str, later_ms: int) -> None:
    """Days, hours and minutes from now."""
    assert db.scope("ann").remember("x", expires=expires).entry.expires_ms == (
        clock.now_ms + later_ms
    )


def test_a_clock_that_goes_back_breaks_nothing(db: MemDB, clock: Any) -> None:
    """Versions follow each other, whatever the time says."""
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", key="home")
    clock.advance(-1_000_000)
    ann.remember("I live in Bergen.", key="home")
    clock.advance(-1_000_000)
    ann.remember("I live in Bergen.", key="home", importance=9)

    assert texts(ann) == ["I live in Bergen."]
    assert ann.entries.find("home").importance == 9


AT_ONCE = """
import sys, memdb
with memdb.open(sys.argv[1], durability="process") as db:
    ann = db.scope("ann")
    print("ready", flush=True)
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        ann.remember(f"The code word of room {number} is w{number * 7919}x.")
    print("done", flush=True)
"""


@pytest.mark.parametrize(
    ("processes", "facts"), [(3, 20), pytest.param(8, 100, marks=pytest.mark.slow)]
)
def test_processes_store_each_fact_exactly_once(
    path: str,
    start_child: Callable[..., subprocess.Popen[str]],
    open_db: Callable[..., MemDB],
    processes: int,
    facts: int,
) -> None:
    """Whoever is first adds it, the others find it there."""
    with memdb.open(path):
        pass
    children = [start_child(AT_ONCE, path, facts) for _ in range(processes)]
    for child in children:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    ends = [child.wait(timeout=120) for child in children]

    held = texts(open_db(path).scope("ann"))
    assert ends == [0] * processes
    assert sorted(held) == sorted(
        f"The code word of room {number} is w{number * 7919}x." for number in range(facts)
    )


@pytest.mark.parametrize(
    "texts",
    [
        ("Ann visited Rome in 2019.", "Ann visited Rome in 2021."),
        ("Ann won her second cup in May 2022.", "Ann won her fourth cup in July 2022."),
        ("The deploy on 3 May failed.", "The deploy on 4 May failed."),
        ("We drink tea on Monday. It rained.", "We bake a cake on Monday. It rained."),
        ("Ann is allergic to peanuts.", "Ann is allergic to shrimp."),
        ("Ann's brother lives in Oslo.", "Ann lives in Bergen."),
    ],
    ids=["years", "ordinals", "days", "one clause of two", "values of many", "subjects"],
)
def test_two_facts_that_look_alike_are_both_kept(db, texts):
    """What happened twice is two facts, and half a repetition is news."""
    ann = db.scope("ann")
    for text in texts:
        assert ann.remember(text).action == "added"

    assert [entry.text for entry in ann.entries.list()] == list(texts)
