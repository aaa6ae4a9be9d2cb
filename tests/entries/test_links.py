"""Links: what newer entries do to older ones, whoever stores them, and how they are read."""

from __future__ import annotations

import itertools
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.adapters.host import HostEntries
from memdb.facts import pairs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from memdb import MemDB, Scope

OLD = "The rent is 14,500 a month."
NEW = "Correction: the rent is 15,400 a month, not 14,500."
OTHER = "The harbour keeper plays the oboe."

# Each is a word that the model below reads.
KINDS = ("repeats", "updates", "corrects", "retracts")


@pytest.fixture
def judge(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a newer text that begins with a kind and a probability have that relation to all."""

    def relate(newer: pairs.Statement, older: pairs.Statement, **_: object) -> pairs.Relation:
        kind, _, rest = newer.text.partition(" ")
        if kind not in KINDS:
            return pairs.Relation("none", 1.0)
        return pairs.Relation(kind, float(rest.split()[0]), (("word", 1.0),))

    monkeypatch.setattr(pairs, "relate", relate)


def told(scope: Scope, *texts: str, **given: Any) -> list[int]:
    """Remember texts and return their ids."""
    return [scope.remember(text, **given).entry.id for text in texts]


def shown(scope: Scope, entry_id: int) -> list[tuple[str, int, int, str]]:
    """Return what the links of an entry say."""
    links = scope.entries.links(entry_id)
    return [(one.kind, one.newer_id, one.older_id, one.decided) for one in links]


def test_every_way_in_links_and_retires_nothing(db: MemDB, tmp_path: Path) -> None:
    """By `remember`, prepared, extracted, hand-written lines, an export, and a change of text."""
    db.settings.update(extract=True)
    line = tmp_path / "lines.jsonl"
    line.write_text(f'{{"kind": "entry", "text": "{NEW}"}}\n')
    export = tmp_path / "export.jsonl"
    other = db.scope("export")
    told(other, OLD, NEW)
    db.export(export, user="export")

    def change(scope: Scope) -> None:
        scope.entries.update(told(scope, OTHER)[0], text=NEW)

    def extract(scope: Scope) -> None:
        scope.session("s").append("user", f"Please remember that {NEW[12:]}")
        scope.session("s").append("user", f"Remember: {NEW}")
        scope.session("s").extract()

    ways: dict[str, Callable[[Scope], object]] = {
        "remember": lambda scope: scope.remember(NEW),
        "prepared": lambda scope: HostEntries(scope).prepare({"text": NEW})(),
        "lines": lambda scope: db.import_file(line, user=scope.user),
        "text": change,
        "extract": extract,
    }
    wrong = {}
    for name, put in ways.items():
        scope = db.scope(name)
        (old,) = told(scope, OLD)
        put(scope)
        kept = scope.entries.get(old)
        links = {one.kind for one in scope.entries.links(old)}
        if not kept.active or kept.outdated_by is None or "corrects" not in links:
            wrong[name] = (kept, links)
    with memdb.open(":memory:") as copy:
        copy.import_file(export, user="ann")
        old_entry, new_entry = copy.scope("ann").entries.list()

    assert wrong == {}
    assert (old_entry.outdated_by, new_entry.outdated_by) == (new_entry.id, None)


def test_a_repetition_keeps_its_words_and_place_in_the_history(db: MemDB) -> None:
    """The entry stays as it was said first; a version holds how it was said again."""
    ann = db.scope("ann")
    for text in ("one", "two"):
        ann.session("s").append("user", text)
    first = ann.remember("I drink oat milk.", session="s", seq=1).entry

    again = ann.remember("please remember that I drink oat milk", session="s", seq=2)
    plain = ann.remember("I drink oat milk.")

    (old,) = ann.entries.history(first.id)
    assert (again.action, again.entry.text, again.other) == ("repeated", first.text, first)
    assert (old.text, old.session, old.first_seq, old.reason) == (
        *("please remember that I drink oat milk", "s", 2, "repeat"),
    )
    assert (plain.action, plain.entry.version) == ("repeated", 2)
    assert [one.text for one in ann.entries.list(as_of=first.created_ms)] == [first.text]


def test_what_is_outdated_and_said_again_is_the_newest(db: MemDB, judge: None) -> None:
    """A move and the way back: the first statement is made anew."""
    ann = db.scope("ann")
    first, moved = told(ann, "I live in Lisbon.", "updates 0.9 I live in Porto.")

    back = ann.remember("I live in Lisbon.")

    assert (back.action, back.entry.id == first) == ("added", False)
    assert ann.entries.get(first).outdated_by == moved


def test_a_day_that_moves_is_another_fact(db: MemDB, clock: Any) -> None:
    """Words such as "tomorrow" say something else each day."""
    ann = db.scope("ann")
    ann.remember("I see the dentist tomorrow.")
    same_day = ann.remember("i see the dentist tomorrow").action
    clock.advance(30 * 86_400_000)

    assert (same_day, ann.remember("I see the dentist tomorrow.").action) == ("repeated", "added")


def test_lists_mark_what_is_older_and_leave_it_out(db: MemDB, judge: None) -> None:
    """Chains lead to the newest; below 0.8 it is marked and stays; a repetition is not older."""
    ann = db.scope("ann")
    names = ("I rent a flat.", "updates 0.9 I rent a house.", "updates 0.85 I rent a barn.")
    flat, house, barn = told(ann, *names)
    (doubt,) = told(ann, "updates 0.6 I rent a tent.")
    (again,) = told(ann, "repeats 0.99 I rent a tent, I said.")

    marked = {entry.id: entry.outdated_by for entry in ann.entries.list()}
    current = [entry.id for entry in ann.entries.list(current=True)]

    assert marked == {flat: doubt, house: doubt, barn: doubt, doubt: None, again: None}
    assert current == [barn, doubt, again]
    assert [entry.id for entry in ann.entries.list(current=True, limit=1)] == [barn]
    assert [one.id for one in ann.entries.list(order="created") if one.outdated_by is None] == [
        *(again, doubt),
    ]


def test_a_newer_entry_that_holds_no_more_outdates_nothing(db: MemDB, judge: None) -> None:
    """Switched off, expired, or gone."""
    ann = db.scope("ann")
    old, new = told(ann, "I rent a flat.", "updates 0.9 I rent a house.")

    ann.entries.update(new, active=False)
    off = ann.entries.get(old).outdated_by
    ann.entries.update(new, active=True)
    on = ann.entries.get(old).outdated_by
    ann.entries.delete(new)

    assert (off, on, ann.entries.get(old).outdated_by) == (None, new, None)


def test_the_past_is_read_with_the_links_of_then(db: MemDB, judge: None, clock: Any) -> None:
    """What was said later outdates nothing before."""
    ann = db.scope("ann")
    told(ann, "I rent a flat.")
    before = clock.now_ms
    clock.advance(1_000)
    (new,) = told(ann, "updates 0.9 I rent a house.")

    (then,) = ann.entries.list(as_of=before)
    now = ann.entries.list(as_of=clock.now_ms)

    assert then.outdated_by is None
    assert [entry.outdated_by for entry in now] == [new, None]


def test_a_link_is_confirmed_by_superseding_and_taken_back(db: MemDB, judge: None) -> None:
    """It is certain then, and the older entry is history."""
    ann = db.scope("ann")
    old, new = told(ann, "I rent a flat.", "updates 0.9 I rent a house.")

    ann.entries.supersede(old, new)
    certain = {one[3] for one in shown(ann, old)}
    with pytest.raises(memdb.InvalidInput, match="active again"):
        ann.entries.unlink(new, old)
    ann.entries.update(old, active=True)

    assert "confirmed" in certain
    assert {one[3] for one in shown(ann, old)} == {"guessed"}


def test_a_rejected_link_is_never_made_again(
    db: MemDB, judge: None, tmp_path: Path, open_db: Callable[..., MemDB]
) -> None:
    """Not by a change, a rebuild, an export with its import, or a copy to another file."""
    ann = db.scope("ann")
    old, new = told(ann, "I rent a flat.", "updates 0.9 I rent a house.")

    assert ann.entries.unlink(new, old)
    assert not ann.entries.unlink(new, old)
    assert not ann.entries.unlink(old, new)
    ann.entries.update(new, text="updates 0.95 I rent a house.")
    db.file.rebuild(links=True)

    assert shown(ann, old) == [("updates", new, old, "rejected")]
    assert ann.entries.get(old).outdated_by is None
    db.export(tmp_path / "all.jsonl")
    for name in ("import", "copy"):
        if name == "copy":
            db.file.copy(tmp_path / "copy.db")
        with open_db(tmp_path / f"{name}.db") as other:
            if name == "import":
                other.import_file(tmp_path / "all.jsonl")
            first, second = other.scope("ann").entries.list()
            assert shown(other.scope("ann"), first.id) == [
                ("updates", second.id, first.id, "rejected")
            ], name
            assert other.file.check(deep=True) == []


def test_an_order_to_forget_takes_one_entry_back(db: MemDB, judge: None) -> None:
    """It is stored as an inactive entry; in doubt as an ordinary one."""
    ann = db.scope("ann")
    (old,) = told(ann, "I play the oboe.")

    def told_to_forget(text: str) -> str:
        return ann.remember(text).action

    is_order = pytest.MonkeyPatch()
    is_order.setattr(pairs, "is_retraction", lambda text: text.startswith("retracts"))
    try:
        unsure = told_to_forget("retracts 0.6 the oboe")
        ann.entries.delete(max(entry.id for entry in ann.entries.list()))
        done = ann.remember("retracts 0.9 the oboe")
    finally:
        is_order.undo()

    assert unsure == "added"
    assert (done.action, done.entry.active, done.other and done.other.id) == (
        *("retracted", False, old),
    )
    assert ann.entries.get(old).active
    assert ann.entries.get(old).outdated_by == done.entry.id
    assert list(ann.entries.list(current=True)) == []
    ann.entries.unlink(done.entry.id, old)
    assert [entry.id for entry in ann.entries.list(current=True)] == [old]


FORGOTTEN = (
    ("I play the oboe in the town band.", "Forget what I said about the town band."),
    ("Ich spiele in der Stadtkapelle.", "Vergiss, was ich über die Stadtkapelle gesagt habe."),
    ("Toco el oboe en la banda municipal.", "Olvida lo que dije de la banda municipal."),
    ("Je joue dans la fanfare.", "Oublie ce que j'ai dit sur la fanfare."),
    ("我在市乐队吹双簧管。", "忘掉我说的市乐队的事。"),
    ("市民バンドでオーボエを吹いている。", "市民バンドのことは忘れて。"),
)


def test_an_order_to_forget_is_read_in_six_languages(db: MemDB) -> None:
    """It takes back the one entry that it names, and none beside others that it does not name."""
    wrong = []
    for number, (told_before, order) in enumerate(FORGOTTEN):
        ann, bob = db.scope(f"ann {number}"), db.scope(f"bob {number}")
        for text in ("I live in Oslo.", "My sister keeps bees."):
            ann.remember(text)
            bob.remember(text)
        fact = ann.remember(told_before).entry
        done = ann.remember(order)
        back = None if done.other is None else done.other.id
        current = [entry.id for entry in ann.entries.list(current=True)]
        is_left = fact.id in current or len(current) != 2
        others = bob.remember(order).action
        if is_left or (done.action, back, others) != ("retracted", fact.id, "added"):
            wrong.append((order, done))

    assert wrong == []


def test_private_entries_are_linked_within_their_session(db: MemDB, judge: None) -> None:
    """Nobody else learns that there is something newer."""
    ann = db.scope("ann")
    ann.session("a").append("user", "hm")
    (old,) = told(ann, "I rent a flat.")

    done = ann.remember("updates 0.9 I rent a house.", session="a", session_only=True)

    assert done.links == ()
    assert ann.entries.get(old).outdated_by is None


def test_prompts_show_the_newest_of_a_chain(db: MemDB, judge: None) -> None:
    """With what it was, also if only the older one is pinned; a repetition is shown once."""
    ann = db.scope("ann")
    old = ann.remember("I rent a flat.", category="profile", pinned=True).entry.id
    told(ann, "updates 0.9 I rent a house.", category="events")
    mug = ann.remember("I own a mug.", category="profile").entry.id
    told(ann, "I own a mug, I said.", category="profile")
    doubt = ann.remember("updates 0.6 I own a cup.", category="profile").entry.id

    bob = db.scope("bob")
    told(bob, "I own a cup.", "repeats 0.9 I own a cup.", category="profile")

    block, contexts = ann.profile(500), []
    for scope in (ann, bob):
        chat = scope.session("chat")
        chat.append("user", "Hello.")
        contexts.append(chat.context(2_000).messages[0].text)

    assert old not in block.entry_ids
    assert {mug, doubt} <= {*block.entry_ids}
    for text in (block.text, contexts[0]):
        assert "I rent a house. (was: I rent a flat., until " in text
    for text in (bob.profile(500).text, contexts[1]):
        assert text.count("I own a cup.") == 1


BROKEN = {
    "an end that is gone": "UPDATE entry_links SET older_id = older_id + 100",
    "a foreign kind": "UPDATE entry_links SET kind = 'likes'",
    "a probability above 1": "UPDATE entry_links SET probability = 1.5",
    "a probability below 0": "UPDATE entry_links SET probability = -0.5",
    "an entry and itself": "UPDATE entry_links SET older_id = newer_id",
    "another scope": "UPDATE entry_links SET older_id = older_id + (1 << 44)",
    "no model": "UPDATE entry_links SET model = ''",
}


def test_a_broken_link_is_named_and_made_anew(
    open_db: Callable[..., MemDB], tmp_path: Path
) -> None:
    """By `check`, with its entries, and by `rebuild`; reading goes on meanwhile."""
    wrong = {}
    for number, (name, sql) in enumerate(BROKEN.items()):
        path = tmp_path / f"{number}.db"
        with open_db(path) as db:
            old, new = told(db.scope("ann"), OLD, NEW)
        subprocess.run(
            ["sqlite3", path, f"PRAGMA foreign_keys=0; PRAGMA ignore_check_constraints=1; {sql}"],
            check=True,
            capture_output=True,
        )
        with open_db(path) as db:
            codes = {one.code for one in db.file.check()}
            listed = len(list(db.scope("ann").entries.list()))
            db.file.rebuild()
            after = shown(db.scope("ann"), old), db.file.check(deep=True)
        if (
            not codes & {"link", "page"}
            or listed != 2
            or after != ([("corrects", new, old, "guessed")], [])
        ):
            wrong[name] = codes, listed, after

    assert wrong == {}


def test_guesses_of_another_model_are_made_anew(db: MemDB, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deep check names them; what a person said stays."""
    ann = db.scope("ann")
    old, new = told(ann, OLD, NEW)
    monkeypatch.setattr(pairs.weights_used(), "hash", "another")

    found = [one.code for one in db.file.check(deep=True)]
    plain = db.file.check()
    db.file.rebuild()

    assert (found, plain) == (["link_model"], [])
    assert {one.model for one in ann.entries.links(new)} == {"another"}
    assert shown(ann, old) == [("corrects", new, old, "guessed")]


def test_what_is_forgotten_takes_its_links_along(db: MemDB, judge: None) -> None:
    """Of both ends."""
    ann = db.scope("ann")
    old, new = told(ann, "I rent a flat.", "updates 0.9 I rent a house.")
    (newest,) = told(ann, "updates 0.9 I rent a barn.")

    ann.forget(entry=new)

    assert shown(ann, old) == [("updates", newest, old, "guessed")]
    assert db.file.check(deep=True) == []


def test_a_statement_ends_one_other_and_those_of_the_very_value(db: MemDB) -> None:
    """A correction among thirty numbered things links to what it corrects, and to no other."""
    scope = db.scope("ann")
    told(scope, *(f"Pump {number} now burns biogas." for number in range(30)))
    (old,) = told(scope, "The membership of the rowing club costs 240 euros a year, due in April.")
    (new,) = told(scope, "Correction: the membership is 260 euros a year, not 240.")

    assert shown(scope, new) == [("corrects", new, old, "guessed")]


@pytest.mark.usefixtures("judge")
def test_what_waits_for_a_decision_is_what_nobody_decided(db: MemDB) -> None:
    """Entries of doubtful trust, and those that a newer one outdates: no others, in each order."""
    endings: list[dict[str, Any]] = [{}, {"active": False}, {"expires": "2020-01-01"}]
    found = set()
    for kind, ending, is_rejected in itertools.product(KINDS, endings, (False, True)):
        scope = db.scope(f"{kind} {ending} {is_rejected}")
        old, new = told(scope, OLD, f"{kind} 0.9 of it: {OLD}")
        told(scope, OTHER, trust="untrusted")
        scope.entries.update(new, **ending)
        if is_rejected:
            scope.entries.unlink(new, old)

        every = scope.entries.list()
        expected = {e.id for e in every if e.trust != "trusted" or e.outdated_by is not None}
        for order in ("id", "updated", "created"):
            asked = scope.entries.list(undecided=True, order=order)
            assert {one.id for one in asked} == expected
        found.add((kind, len(expected)))

    assert found > {("corrects", 2), ("updates", 2), ("retracts", 2), ("repeats", 1)}


OVER = (  # of one person: what is over is named, and it is not the older fact
    ("Ann's brother Tor keeps bees.", "Ann sold the blue van."),
    ("Ann is allergic to peanuts.", "Ann cancelled the gym."),
    ("Tor plays the cello.", "Tor quit his job."),
    ("Mia wohnt in Bremen.", "Mia hat den Wagen verkauft."),
    ("Luis es celíaco.", "Luis vendió la moto."),
)


def test_what_is_over_ends_no_other_fact_of_the_person(open_db: Callable[..., MemDB]) -> None:
    """Only a name is shared: both are stored, both are current, and neither is an order."""
    for older, newer in OVER:
        with open_db(":memory:", embedder=None) as db:
            ann = db.scope("ann")
            ann.remember(older)
            done = ann.remember(newer)
            current = {entry.text for entry in ann.entries.list(current=True)}
            assert (done.action, done.entry.active, current) == ("added", True, {older, newer})
