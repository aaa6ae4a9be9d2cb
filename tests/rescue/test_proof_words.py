"""Words of every length: none is left in the file, and the proof compares them as a query does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from fts5_leaves import INDEXES, read_keys, read_terms

import memdb
from memdb.models.settings import Settings
from memdb.rescue.index_words import mend_indexes

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import Scope

# Names of 2 to 12 letters, and a text that holds all of them.
NAMES = (
    "qz zuq otzo quzka zorvik quixozb zarquonk qazlemburk zuvopertik qivoplutank zaprodelnuki"
).split()
# In front of each stand words that differ in the last letter, so that keys are whole names.
NEAR = [f"{name[:-1]}{chr(ord(name[-1]) - step)}" for name in NAMES for step in (1, 2, 3)]
TEXT = f"The boat belongs to {' and '.join(NAMES)}, not to {' or '.join(NEAR)}."
PLAIN = "The boat belongs to somebody."
BYTES = 4  # of a name that stands in no other bytes by chance

SETTINGS = Settings(summary_messages=4, summary_group=2, summary_condense_at=3)


def say(scope: Scope, count: int = 40) -> None:
    """Append a message that holds the names, and others."""
    scope.session("chat").append("user", TEXT)
    more = [{"role": "user", "text": f"Filler {number} of the day."} for number in range(count)]
    scope.session("chat").extend(more)


def say_more_and_summarize(scope: Scope) -> None:
    """Summarize again, which makes summaries of summaries, then delete the message."""
    say(scope)
    scope.session("chat").summaries.compact(keep_last=2)
    scope.session("chat").delete([1, 42])


def summarize(scope: Scope) -> None:
    """Append the message and summarize it."""
    say(scope)
    chat = scope.session("chat")
    chat.summaries.compact(keep_last=2)
    chat.summaries.rewrite(chat.summaries.list()[0].id, TEXT)


def rewrite(scope: Scope) -> None:
    """Change the message and every summary."""
    change_message(scope)
    summaries = scope.session("chat").summaries
    for one in summaries.list():
        summaries.rewrite(one.id, PLAIN)


def archive(scope: Scope) -> None:
    """Append the message and archive it."""
    say(scope)
    scope.session("chat").archive(keep_last=2)


def change_message(scope: Scope) -> None:
    """Change the message, archived or not."""
    scope.session("chat").edit(1, {"role": "user", "text": PLAIN})


def unarchive(scope: Scope) -> None:
    """Take the message out of the archive, then change it."""
    scope.session("chat").unarchive()
    change_message(scope)


def entry_of(scope: Scope) -> int:
    """Return the only entry."""
    return scope.entries.list()[0].id


def put(scope: Scope, text: str = TEXT) -> None:
    """Store an item."""
    scope.items.put(("notes",), "boat", {"text": text})


def save(scope: Scope, text: str = TEXT) -> None:
    """Save an artifact."""
    scope.artifacts.save("boat.md", text)


# What stores the names, and what takes them out of an index.
WAYS: dict[str, tuple[Callable[[Scope], object], Callable[[Scope], object]]] = {
    "session deleted": (say, lambda scope: scope.session("chat").delete()),
    "session cleared": (say, lambda scope: scope.session("chat").clear()),
    "compacted twice": (summarize, say_more_and_summarize),
    "summaries made anew": (summarize, rewrite),
    "archived message edited": (archive, change_message),
    "unarchived": (archive, unarchive),
    "entry updated": (
        lambda scope: scope.remember(TEXT, key="boat"),
        lambda scope: scope.entries.update(entry_of(scope), text=PLAIN),
    ),
    "entry deleted": (
        lambda scope: scope.remember(TEXT, key="boat"),
        lambda scope: scope.entries.delete(entry_of(scope)),
    ),
    "artifact saved again": (save, lambda scope: save(scope, PLAIN)),
    "title changed": (
        lambda scope: scope.session("titled").create(title=TEXT),
        lambda scope: scope.session("titled").update(title=PLAIN),
    ),
    "item replaced": (put, lambda scope: put(scope, PLAIN)),
    "item deleted": (put, lambda scope: scope.items.delete(("notes",), "boat")),
}


def fill_leaves(db: memdb.MemDB) -> None:
    """Give the indexes small leaves, and words of another user that begin as the names do."""
    with db._db.write() as tx:
        for index in INDEXES:
            tx.run(f"INSERT INTO {index}_fts ({index}_fts, rank) VALUES ('pgsz', 32)")
    bob = db.scope("bob")
    text = " ".join(NEAR)
    chat = bob.session("s")
    chat.extend([{"role": "user", "text": text} for _ in range(70)])
    chat.archive(keep_last=40)
    bob.remember(text)
    bob.items.put((), "k", {"text": text})
    bob.artifacts.save("x", text)
    bob.session("t").create(title=text)


def left(db: memdb.MemDB) -> set[str]:
    """Return the names that are terms or keys of an index."""
    with db._db.write() as tx:
        tx.words.move_tail()
        words = [read(tx.all, index) for index in INDEXES for read in (read_terms, read_keys)]
    return set().union(*words) & {*NAMES}


def test_no_name_is_left_that_went_before(tmp_path: Path) -> None:
    """Each way in which words leave an index before they are forgotten, with a proof."""
    wrong: dict[str, object] = {}
    for number, (way, (store, change)) in enumerate(WAYS.items()):
        path = tmp_path / f"{number}.db"
        with memdb.open(path, embedder=None, counter="estimate", settings=SETTINGS) as db:
            fill_leaves(db)
            ann = db.scope("ann")
            store(ann)
            db.file.rebuild()  # the names stand in one part with words of another user
            change(ann)
            receipt = ann.forget(everything=True, prove=True)
            kept = left(db)
            if not receipt.proven or receipt.pending or kept or db.file.check(deep=True):
                wrong[way] = receipt.proof, receipt.pending, kept
        data = path.read_bytes().lower()
        if seen := [name for name in NAMES if len(name) >= BYTES and name.encode() in data]:
            wrong[f"{way}, bytes"] = seen

    assert wrong == {}


def test_a_word_that_an_index_keeps_is_taken_out(tmp_path: Path) -> None:
    """Another program switched off that words leave at once: the proof makes the indexes anew."""
    with memdb.open(tmp_path / "f.db", embedder=None) as db:
        with db._db.write() as tx:
            tx.run("INSERT INTO entries_fts (entries_fts, rank) VALUES ('secure-delete', 0)")
        ann = db.scope("ann")
        ann.remember(TEXT, key="boat")
        ann.entries.update(entry_of(ann), text=PLAIN)
        before = left(db)
        receipt = ann.forget(everything=True, prove=True)

        assert before == {*NAMES}
        assert (receipt.proven, left(db)) == (True, set())


def test_an_index_without_a_stale_key_is_left_as_it_is(tmp_path: Path) -> None:
    """Empty or full: a proof costs nothing more then."""
    with memdb.open(tmp_path / "f.db", embedder=None) as db:
        assert mend_indexes(db._db) == []

        fill_leaves(db)
        db.file.rebuild()

        assert mend_indexes(db._db) == []


@pytest.mark.parametrize("is_session", [False, True])
def test_names_inside_other_words_are_no_remainder(is_session: bool) -> None:
    """The proof compares words as the query does."""
    inside = {
        "Ann": "planning",
        "Tim": "time",
        "Ed": "edited",
        "Ian": "Brian",
        "Al": "also",
        "Art": "party",
        "Mark": "market",
        "Eva": "evaluate",
        "552": "1552",
        "Sue": "issue",
        "Dan": "danger",
        "Pat": "patient",
        "Max": "maximum",
    }
    wrong = []
    with memdb.open(":memory:", embedder=None) as db:
        for name, word in inside.items():
            scope = db.scope(f"user of {len(name)} {word}")
            chat = scope.session("c")
            chat.append("user", f"{name} lives next door.")
            chat.append("user", f"There was {word} in the house.", metadata={"note": f"a\n{word}"})
            receipt = (chat if is_session else scope).forget(query=name, prove=True)
            if not receipt.proven or receipt.removed["messages"] != 1:
                wrong.append((name, receipt.proof))

    assert wrong == []


def test_a_word_behind_an_escape_is_still_said() -> None:
    """JSON writes a line break as two characters; the word behind it is whole all the same."""
    with memdb.open(":memory:", embedder=None) as db:
        chat = db.scope("bob").session("c")
        chat.append("user", "Eva lives next door.")
        chat.append("user", "Nobody else.", metadata={"note": "neighbour:\nEva"})

        receipt = chat.forget(query="Eva", prove=True)

    assert receipt.proof is not None
    assert (receipt.proven, receipt.proof.still_said_in) == (False, ("message c#2",))


def test_a_query_keeps_an_entry_that_does_not_hold_its_words() -> None:
    """Also if the message that told it goes."""
    with memdb.open(":memory:", embedder=None) as db:
        scope = db.scope("bob")
        chat = scope.session("a")
        chat.append("user", "I moved to Bergen last week. My sister Ida helped me carry the boxes.")
        told = scope.remember("The user lives in Bergen.", session="a", seq=1).entry
        scope.remember("Ida is the user's sister.", session="a", seq=1)

        receipts = [chat.forget(query="Ida"), scope.forget(query="Ida")]

        assert told is not None
        assert [one.id for one in scope.entries.list()] == [told.id]
        assert [one.removed["entries"] for one in receipts] == [1, 0]


def test_the_copy_of_a_migration_is_named(tmp_path: Path) -> None:
    """It keeps what is forgotten: the proof finds it, and `info` lists it."""
    path = tmp_path / "f.db"
    with memdb.open(path, embedder=None) as db:
        db.scope("ann").session("s").append("user", TEXT)
        db.file.backup(tmp_path / "f.db.v1.bak")
        receipt = db.scope("ann").forget(everything=True, prove=True)

        assert receipt.proof is not None
        assert receipt.proof.found_in == ("f.db.v1.bak",)
        (notice,) = receipt.proof.notices
        assert notice.startswith("f.db.v1.bak holds the file as it was before a migration: delete")
        assert f"(`rm {path}.v1.bak`)" in notice
        assert db.file.info().migration_copies == ("f.db.v1.bak",)


def test_secrets_in_the_copy_of_a_migration_are_found(tmp_path: Path) -> None:
    """Also those that the file holds no more, and only those of the scope that is asked."""
    path, secret = tmp_path / "f.db", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
    with memdb.open(path, embedder=None) as db:
        for user in ("ann", "bob"):
            db.scope(user).session("s").append("user", f"Use {secret}.", secrets="allow")
        db.file.backup(tmp_path / "f.db.v1.bak")
        db.scope("ann").forget(session="s")

        found = [[one.where for one in db.scope(user).find_secrets()] for user in ("ann", "bob")]

        assert found == [["f.db.v1.bak: message s#1"], ["message s#1", "f.db.v1.bak: message s#1"]]
        (tmp_path / "f.db.v1.bak").unlink()
        assert list(db.scope("ann").find_secrets()) == []
