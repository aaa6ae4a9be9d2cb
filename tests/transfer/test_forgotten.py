"""What was forgotten does not come back by an import; what was only deleted does."""

from collections.abc import Callable
from typing import Any

import pytest

from memdb import MemDB, Scope
from memdb.adapters.host import Host

SECRET = "pelican"


def fill(db: MemDB) -> Scope:
    """Store something of every kind, most of it with the word."""
    ann = db.scope("ann")
    trip = ann.session("trip")
    Host(trip).create(title=f"A {SECRET}", state={"pet": SECRET})
    trip.extend([{"role": "user", "text": f"The {SECRET} no {n}."} for n in range(1, 13)])
    ann.session("other").append("user", "Hello.")
    ann.remember(f"Ann owns a {SECRET}.", session="trip", seq=2)
    ann.remember(f"In here it is the {SECRET}.", session="trip", session_only=True)
    ann.remember("Ann lives in Bergen.", key="home")
    trip.artifacts.save("a.md", f"Of the {SECRET}.", message_seq=3)
    trip.artifacts.save("user:b.md", f"Of the {SECRET}, for all.")
    trip.summaries.compact()
    return ann


def entry_id(ann: Scope) -> int:
    """Return the entry of the key "home"."""
    found = ann.entries.find("home")
    assert found is not None
    return found.id


FORGETTING: dict[str, Callable[[Scope], object]] = {
    "a session": lambda ann: ann.forget(session="trip"),
    "a session deleted before": lambda ann: (
        ann.delete(session="trip"),
        ann.forget(session="trip"),
    ),
    "messages": lambda ann: ann.forget(session="trip", seqs=[2, 3]),
    "all that is found": lambda ann: ann.forget(query=SECRET),
    "an entry": lambda ann: ann.forget(entry=entry_id(ann)),
    "an entry deleted before": lambda ann: [
        (ann.entries.delete(one), ann.forget(entry=one)) for one in [entry_id(ann)]
    ],
    "everything": lambda ann: ann.forget(everything=True),
}


def contents(db: MemDB) -> list[str]:
    """Return the lines of an export without vectors and tombstones, and what names rows."""
    return [
        line for line in db.export_lines(embeddings=False) if not line.startswith('{"kind":"tomb')
    ]


def tombstones(db: MemDB) -> list[str]:
    """Return the lines of an export that `contents` leaves out."""
    return [line for line in db.export_lines() if line.startswith('{"kind":"tomb')]


@pytest.mark.parametrize("how", FORGETTING)
@pytest.mark.parametrize("embeddings", [True, False])
def test_what_was_forgotten_stays_away(
    db: MemDB, tmp_path: Any, how: str, embeddings: bool
) -> None:
    """Whatever else the old export holds is here, and is counted as known."""
    ann = fill(db)
    db.jobs.run()
    db.export(tmp_path / "old.jsonl", embeddings=embeddings)
    FORGETTING[how](ann)
    left = contents(db)
    report = db.import_file(tmp_path / "old.jsonl")

    if how != "a session deleted before":  # its entries were left, and are here
        assert contents(db) == left
    assert report.forgotten > 0
    assert report.messages_added == 0
    verb = "stays" if report.forgotten == 1 else "stay"
    assert f"forgotten here and {verb} away" in str(report)
    assert db.file.check(deep=True) == []
    assert db.import_file(tmp_path / "old.jsonl").forgotten == report.forgotten


@pytest.mark.parametrize("how", FORGETTING)
def test_an_export_remembers_what_was_forgotten(
    db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any, how: str
) -> None:
    """The copy does not take it from an older export either."""
    ann = fill(db)
    db.export(tmp_path / "old.jsonl")
    FORGETTING[how](ann)
    db.export(tmp_path / "new.jsonl")
    with open_db(":memory:") as copy:
        copy.import_file(tmp_path / "new.jsonl")
        left = contents(copy)
        assert tombstones(copy) == tombstones(db) != []
        assert copy.import_file(tmp_path / "old.jsonl").forgotten > 0

        if how != "a session deleted before":
            assert contents(copy) == left


def test_what_was_deleted_comes_back(db: MemDB, tmp_path: Any) -> None:
    """An export is a copy to restore from."""
    ann = fill(db)
    db.export(tmp_path / "old.jsonl")
    before = [one.text for one in ann.entries.list()]
    ann.delete(session="trip")
    ann.entries.delete(entry_id(ann))
    report = db.import_file(tmp_path / "old.jsonl")

    assert report.forgotten == 0
    assert sorted(one.text for one in ann.entries.list()) == sorted(before)
    assert len(list(ann.session("trip").messages())) == 12
    assert tombstones(db) == []


def test_what_is_said_again_is_stored(db: MemDB, tmp_path: Any) -> None:
    """Under the name of a forgotten session too, which the old export does not fill."""
    ann = fill(db)
    db.export(tmp_path / "old.jsonl")
    ann.forget(session="trip")
    ann.session("trip").append("user", "A new start.")
    ann.remember(f"Ann owns a {SECRET}.")
    db.import_file(tmp_path / "old.jsonl")

    assert [one.text for one in ann.session("trip").messages()] == ["A new start."]
    assert ann.session("trip").state.all() == {}
    assert f"Ann owns a {SECRET}." in [one.text for one in ann.entries.list()]
    assert db.file.check(deep=True) == []


def test_another_user_is_not_concerned(db: MemDB, tmp_path: Any) -> None:
    """Each scope forgets for itself."""
    ann = fill(db)
    db.export(tmp_path / "old.jsonl")
    ann.forget(everything=True)
    report = db.import_file(tmp_path / "old.jsonl", user="bob")

    assert (report.forgotten, report.messages_added) == (0, 13)
