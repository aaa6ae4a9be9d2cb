"""The life of entries: quota, expiry, retention, use, supersede, history, and the past."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

import memdb
from memdb import Category, MemDB
from memdb.deletion.service import retain_sessions
from memdb.entries import lifecycle
from memdb.models.entries import NewEntry
from memdb.models.settings import Settings

DAY_MS = 86_400_000
WORDS = "apple bridge candle drum engine feather garden hammer island jacket kettle lamp".split()


def texts(scope: memdb.Scope, **asked: Any) -> list[str]:
    """Return what a scope holds."""
    return [entry.text for entry in scope.entries.list(**asked)]


def active(scope: memdb.Scope) -> int:
    """Return how many entries count for the quota."""
    return sum(entry.active for entry in scope.entries.list(inactive=True))


def test_the_quota_is_never_exceeded(open_db: Callable[..., MemDB]) -> None:
    """Each new entry sets the least worth aside; none is deleted."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 5})
    ann = db.scope("ann")
    counts = []
    for word in WORDS:
        ann.remember(f"I bought a {word}.")
        counts.append(active(ann))

    assert max(counts) == 5
    assert texts(ann) == [f"I bought a {word}." for word in WORDS[-5:]]
    assert len(texts(ann, inactive=True)) == len(WORDS)


def test_the_quota_is_of_each_user(open_db: Callable[..., MemDB]) -> None:
    """Bob's entries cost ann no room."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 2})
    for user in ("ann", "bob"):
        for word in WORDS[:3]:
            db.scope(user).remember(f"I bought a {word}.")

    assert [len(texts(db.scope(user))) for user in ("ann", "bob")] == [2, 2]


def test_what_ended_goes_before_what_is_worth_least(
    open_db: Callable[..., MemDB], clock: Any
) -> None:
    """An expired entry makes room for what still holds."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 2})
    ann = db.scope("ann")
    ann.remember("I bought a lamp.", importance=10, expires="1h")
    ann.remember("I bought a drum.", importance=1)
    clock.advance(3_600_000)

    ann.remember("I bought a kettle.")

    assert texts(ann) == ["I bought a drum.", "I bought a kettle."]


def test_importance_and_use_decide_what_goes(open_db: Callable[..., MemDB], clock: Any) -> None:
    """What matters, and what is recalled often, stays."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 3})
    ann = db.scope("ann")
    ann.remember("I bought a lamp.", importance=9)
    ann.remember("I bought a drum.", importance=4)
    ann.remember("I bought a kettle.", importance=5)
    for _ in range(8):
        ann.recall("drum", limit=1, kinds=["entry"])

    ann.remember("I bought a jacket.")

    assert texts(ann) == ["I bought a lamp.", "I bought a drum.", "I bought a jacket."]


def test_what_is_pinned_is_never_set_aside(open_db: Callable[..., MemDB]) -> None:
    """Where all is pinned nothing more is taken in, and the answer says why."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 2})
    ann = db.scope("ann")
    for word in WORDS[:2]:
        ann.remember(f"I bought a {word}.", importance=1, pinned=True)

    done = ann.remember("I bought a lamp.", importance=10)

    assert (done.action, done.entry.id, done.entry.text) == ("refused", 0, "")
    assert "pinned" in done.reason
    assert texts(ann) == [f"I bought a {word}." for word in WORDS[:2]]


def test_a_category_has_its_share(open_db: Callable[..., MemDB]) -> None:
    """It pushes out its own, not those of others."""
    db = open_db(
        ":memory:",
        embedder=None,
        settings={"entry_quota": 10, "categories": [Category("notes", quota_percent=20)]},
    )
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", category="profile", importance=1)
    for word in WORDS[:4]:
        ann.remember(f"I bought a {word}.", category="notes")

    assert len(texts(ann, category="notes")) == 2
    assert len(texts(ann, category="profile")) == 1


def test_what_was_set_aside_and_is_said_again_is_added(open_db: Callable[..., MemDB]) -> None:
    """Another makes room for it."""
    db = open_db(":memory:", embedder=None, settings={"entry_quota": 1})
    ann = db.scope("ann")
    first = ann.remember("I bought a lamp.").entry
    ann.remember("I bought a drum.")

    done = ann.remember("I bought a lamp.")

    assert (done.action, done.entry.id == first.id) == ("added", False)
    assert texts(ann) == ["I bought a lamp."]


def test_expired_entries_are_set_aside_by_the_sweep(db: MemDB, clock: Any) -> None:
    """Nobody saw them before either, and what lasts is not touched."""
    ann = db.scope("ann")
    gone = ann.remember("I bought a lamp.", expires="1h").entry
    ann.remember("I bought a drum.", category="identity")
    clock.advance(3_600_000)
    hidden = texts(ann)

    swept = (lifecycle.expire(db._db), lifecycle.expire(db._db))

    assert (hidden, swept) == (["I bought a drum."], (1, 0))
    assert ann.entries.get(gone.id).active is False
    assert list(ann.recall("lamp")) == []


def test_inactive_entries_are_removed_after_their_time(db: MemDB, clock: Any) -> None:
    """Old active ones stay, so do pinned ones and those that ended lately."""
    ann = db.scope("ann")
    ann.remember("I live in Oslo.", key="home")
    ann.remember("I bought a drum.")
    kept = ann.remember("I like jazz.", key="music", pinned=True).entry
    ann.remember("I live in Bergen.", key="home")
    ann.remember("I like folk.", key="music")
    clock.advance(100 * DAY_MS)
    ann.remember("I live in Rome.", key="home")

    removed = lifecycle.remove_inactive(db._db, 90 * DAY_MS)

    left = texts(ann, inactive=True)
    assert removed == 1
    assert "I live in Oslo." not in left
    assert {"I live in Bergen.", "I bought a drum.", kept.text} <= set(left)


@pytest.mark.parametrize("age", [-1, None, 1.5, True])
def test_retention_needs_an_age(db: MemDB, age: Any) -> None:
    """A time of the future would remove everything."""
    with pytest.raises(memdb.InvalidInput, match="older_than_ms"):
        lifecycle.remove_inactive(db._db, age)


def test_a_sweep_goes_on_over_many_batches(
    open_db: Callable[..., MemDB], clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in a transaction of its own."""
    monkeypatch.setattr(lifecycle, "BATCH", 2)
    db = open_db(":memory:", embedder=None)
    ann = db.scope("ann")
    for word in WORDS[:5]:
        ann.remember(f"I bought a {word}.", expires="1h")
    clock.advance(3_600_000)

    assert lifecycle.expire(db._db) == 5
    clock.advance(1)
    assert lifecycle.remove_inactive(db._db, 0) == 5


def test_recalling_writes_nothing_until_the_next_write(
    path: str, open_db: Callable[..., MemDB], raw: Any
) -> None:
    """Uses are counted in memory, and stored with the next entry or at the end."""
    db = open_db(path)
    ann = db.scope("ann")
    entry = ann.remember("I bought a lamp.").entry
    db.jobs.run()
    ann.recall("lamp")
    while not db._db.checkpoint_if_idle():  # else upkeep commits a second after the last write
        pass
    before = raw(path).execute("PRAGMA data_version").fetchall()
    reader = raw(path)
    version = reader.execute("PRAGMA data_version").fetchall()
    for _ in range(5):
        ann.recall("lamp")
    assert reader.execute("PRAGMA data_version").fetchall() == version
    assert ann.entries.get(entry.id).use_count == 0

    ann.remember("I bought a drum.")
    after = ann.entries.get(entry.id).use_count
    ann.recall("lamp")
    db.close()

    assert before
    assert after == 6
    assert open_db(path).scope("ann").entries.get(entry.id).use_count == 7


def test_uses_are_stored_once_an_hour(db: MemDB, clock: Any) -> None:
    """Also where nobody remembers anything."""
    ann = db.scope("ann")
    entry = ann.remember("I bought a lamp.").entry
    ann.recall("lamp")
    clock.advance(3_600_000)
    ann.recall("lamp")

    found = ann.entries.get(entry.id)
    assert (found.use_count, found.last_used_ms) == (2, clock.now_ms)
    assert found.version == 1


def test_newer_goes_before_older_and_lasting_before_passing(db: MemDB, clock: Any) -> None:
    """Of the same words the newest is first; of one time the one that lasts, which stays fresh."""
    ann = db.scope("ann")
    ages = (("events", 90), ("profile", 90), ("events", 1), ("cases", 120))
    for name, (category, age) in zip(("Ida", "Tim", "Lea", "Max"), ages, strict=True):
        created_ms = clock.now_ms - age * DAY_MS
        text = f"{name} has a green lamp"  # what says the same is one hit
        new = NewEntry(text, category=category, created_ms=created_ms)
        ann._services.entries.add(ann._owner, new)

    hits = ann.recall("green lamp", kinds=["entry"], explain=True)

    def age(hit: memdb.Hit) -> int:
        assert hit.source.created_ms is not None
        return (clock.now_ms - hit.source.created_ms) // DAY_MS

    fresh = {(hit.source.category, age(hit)): (hit.explanation or {})["freshness"] for hit in hits}
    assert [*fresh][:2] == [("events", 1), ("profile", 90)]
    assert fresh["events", 90] < fresh["cases", 120] < fresh["profile", 90]
    assert all(0.8 <= one <= 1 for one in fresh.values())


def test_supersede_links_two_entries(db: MemDB) -> None:
    """The old one is inactive, with its end and its successor."""
    ann = db.scope("ann")
    old, new = (ann.remember(f"I bought a {word}.").entry for word in WORDS[:2])

    done = ann.entries.supersede(old.id, new.id)

    assert (done.active, done.superseded_by, done.valid_to_ms) == (False, new.id, new.created_ms)
    assert texts(ann) == [new.text]


def test_supersede_refuses_itself_circles_and_a_second_time(open_db: Callable[..., MemDB]) -> None:
    """However long the chain is."""
    db = open_db(":memory:", embedder=None)
    ann = db.scope("ann")
    made = [ann.remember(f"I bought a {word}.").entry.id for word in WORDS]
    for old, new in pairwise(made):
        ann.entries.supersede(old, new)

    with pytest.raises(memdb.InvalidInput, match="itself"):
        ann.entries.supersede(made[-1], made[-1])
    with pytest.raises(memdb.InvalidInput, match="swap the two"):
        ann.entries.supersede(made[-1], made[0])
    with pytest.raises(memdb.InvalidInput, match="was already superseded"):
        ann.entries.supersede(made[0], made[5])
    assert [one.id for one in ann.entries.replaced(made[-1])] == made[-2::-1]


def test_supersede_does_not_reach_over_scopes(db: MemDB) -> None:
    """Another's entry is not there."""
    mine = db.scope("ann").remember("I bought a lamp.").entry
    other = db.scope("bob").remember("I bought a drum.").entry.replace(id=mine.id + 1)

    for old, new in ((mine.id, other.id), (other.id, mine.id)):
        with pytest.raises(memdb.NotFound):
            db.scope("ann").entries.supersede(old, new)


def test_a_pin_is_set_and_taken_away(db: MemDB) -> None:
    """Each is a version; doing it again is none. Its age stays as it was."""
    ann = db.scope("ann")
    entry = ann.remember("I bought a lamp.").entry

    pinned = [ann.entries.update(entry.id, pinned=True) for _ in range(2)][1]
    found = texts(ann, pinned=True)
    loose = [ann.entries.update(entry.id, pinned=False) for _ in range(2)][1]

    assert (pinned.pinned, loose.pinned, found) == (True, False, [entry.text])
    assert (pinned.version, loose.version, loose.updated_ms) == (2, 3, entry.updated_ms)
    assert texts(ann, pinned=True) == []


def test_trust_can_be_changed_by_the_host(db: MemDB) -> None:
    """With its history."""
    ann = db.scope("ann")
    entry = ann.remember("I bought a lamp.", trust="untrusted").entry

    assert ann.entries.update(entry.id, trust="trusted").trust == "trusted"
    assert [old.trust for old in ann.entries.history(entry.id)] == ["untrusted"]
    with pytest.raises(memdb.InvalidInput, match="trust"):
        ann.entries.update(entry.id, trust="very")


def test_the_past_answers_as_the_file_would_have(db: MemDB, clock: Any) -> None:
    """By what it had been told, by what held then, and in the words of then."""
    ann = db.scope("ann")
    times = []
    answers = []
    steps: list[Callable[[], object]] = [
        lambda: ann.remember("I live in Oslo.", key="home"),
        lambda: ann.remember("I like tea."),
        lambda: ann.remember("I live in Bergen.", key="home"),
        lambda: ann.remember("I am in Rome.", expires="1d"),
        lambda: ann.remember("I no longer like tea."),
        lambda: clock.advance(2 * DAY_MS),
        lambda: ann.entries.update(ann.entries.find("home").id, text="I live in Bergen, Norway."),
        lambda: ann.remember("I live in Turin.", key="home", valid_from=clock.now_ms + 10_000),
        lambda: clock.advance(20_000),
        lambda: ann.remember("I like tea."),
        lambda: ann.entries.update(ann.entries.find("home").id, pinned=True),
    ]
    for step in steps:
        step()
        times.append(clock.now_ms)
        answers.append([(e.id, e.version, e.text, e.pinned) for e in ann.entries.list()])
        clock.advance(1_000)

    then = [
        [(e.id, e.version, e.text, e.pinned) for e in ann.entries.list(as_of=at)] for at in times
    ]
    assert then == answers
    assert list(ann.entries.list(as_of=0)) == []


def test_recall_of_the_past_finds_what_was_said_then(db: MemDB, clock: Any) -> None:
    """Also by words that the entry has no more, and nothing that came later."""
    ann = db.scope("ann")
    ann.session("s").append("user", "The lamp is in the garden.")
    entry = ann.remember("The lamp is green.").entry
    then = clock.now_ms
    clock.advance(1_000)
    ann.entries.update(entry.id, text="The lamp is purple.")
    ann.remember("A second lamp stands here.")
    ann.session("s").append("user", "The lamp broke.")

    past = ann.recall("lamp", as_of=then)
    words = ann.recall("green", as_of=then, kinds=["entry"])

    assert {hit.text for hit in past} == {"The lamp is in the garden.", "The lamp is green."}
    assert [hit.text for hit in words] == ["The lamp is green."]
    assert "The lamp is green." not in {hit.text for hit in ann.recall("green")}


def test_recall_of_now_is_recall_of_the_past_at_this_time(
    open_db: Callable[..., MemDB], clock: Any
) -> None:
    """The same hits in the same order."""
    db = open_db(":memory:", embedder=None)
    ann = db.scope("ann")
    for word in WORDS:
        ann.remember(f"I bought a {word} in {word} street.", importance=len(word))
        clock.advance(DAY_MS)

    now = ann.recall("which street has the lamp and the drum?", kinds=["entry"])
    past = ann.recall(
        "which street has the lamp and the drum?", kinds=["entry"], as_of=clock.now_ms
    )

    assert [hit.source.entry_id for hit in past] == [hit.source.entry_id for hit in now]


def retain(db: MemDB, policy: Settings) -> list[tuple[str, str, str]]:
    """Apply a policy to the sessions of a file."""
    services = db._services
    return retain_sessions(
        db._db, services.conversations, services.archivist, services.deletion, policy
    )


@pytest.mark.parametrize(
    ("policy", "gone"),
    [
        (Settings(session_max_count=1), ["one", "two"]),
        (Settings(session_max_idle_ms=15_000), ["one"]),
        (Settings(session_max_age_ms=5_000), ["one", "two"]),
        (Settings(), []),
    ],
    ids=str,
)
def test_sessions_are_retained_by_count_idle_time_and_age(
    db: MemDB, clock: Any, policy: Settings, gone: list[str]
) -> None:
    """Those longest without a message go first; nothing does without a limit."""
    for name in ("one", "two", "three"):
        db.scope("ann").session(name).append("user", f"hello {name}")
        clock.advance(10_000)
    clock.advance(-5_000)

    archived = retain(db, policy)
    forgotten = retain(db, policy.replace(session_retention="forget"))

    assert archived == forgotten == [("default", "ann", name) for name in gone]
    left = {info.name for info in db.scope("ann").sessions()}
    assert left == {"one", "two", "three"} - set(gone)


def test_an_archived_session_says_what_it_said(db: MemDB) -> None:
    """Retention by archiving loses no word, and does nothing the second time."""
    db.scope("ann").session("s").append("user", "hello")
    policy = Settings(session_max_count=0)

    done = [retain(db, policy) for _ in range(2)]

    assert done == [[("default", "ann", "s")], []]
    assert db.scope("ann").session("s").last(1)[0].text == "hello"
