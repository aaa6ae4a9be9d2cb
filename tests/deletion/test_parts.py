"""Parts of an app: forgetting, exporting and scanning take along what adapters keep there."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

import memdb
from memdb.records.scopes import PARTS, name_part

SAID = "my illness is quibblitis"
PACKED = b"\0\x81\xa4text\xd9P" + SAID.encode()  # MessagePack in an item
LETTERED = b"\0\x81\xa4text\xd9Pquibblitis is my illness"  # its length is a letter


def say(db, user, app):
    """Let *user* say the sentence in *app* and in each of its parts, in all kinds of rows."""
    for name in (app, *(name_part(app, part) for part in PARTS)):
        scope = db.scope(user, name)
        scope.session("s").append("user", SAID)
        scope.remember(f"{SAID}.")
        scope.items.put(("s", "deep"), "packed", PACKED, index=False)
        scope.items.put(("s",), "lettered", LETTERED, index=False)


def left(db, user, app):
    """Return how many rows of each of the scopes still say it."""
    return [
        scope.counts().days[0].messages if scope.counts().days else 0
        for scope in (db.scope(user, name_part(app, part)) for part in PARTS)
    ]


EVERYTHING = [
    {"everything": True},
    {"query": "quibblitis"},
    {"person": "quibblitis"},
]


@pytest.mark.parametrize("asked", EVERYTHING, ids=str)
def test_forgetting_takes_the_parts_along(tmp_path: Path, asked):
    """No byte and no row of the user is left in any part; other users and apps keep theirs."""
    path = tmp_path / "a.db"
    with closing(memdb.open(path, embedder=None)) as db:
        say(db, "ann", "travel")
        db.scope("ann", "travel").items.clear()
        receipt = db.scope("ann", "travel").forget(**asked, dry_run=True)
        assert receipt.removed["items"] == 2 * len(PARTS)
        assert db.scope("ann", "travel").forget(**asked, prove=True, expected=receipt).proven
        if db.path == str(path):  # bytes of a server are its own
            assert b"quibblitis" not in path.read_bytes().lower()
        say(db, "ann", "travel")
        say(db, "bob", "travel")
        say(db, "ann", "travel (old)")
        receipt = db.scope("ann", "travel").forget(**asked, prove=True)
        assert (receipt.removed["messages"], receipt.proof.still_said_in) == (1 + len(PARTS), ())
        assert left(db, "ann", "travel") == [0] * len(PARTS)
        kept = [1] * len(PARTS)
        assert left(db, "bob", "travel") == left(db, "ann", "travel (old)") == kept
        assert db.scope("ann", "travel (old)").entries.list()


def test_a_session_goes_with_its_copies_in_the_parts(db):
    """Forgetting a session takes its copy and the items that bear its name; seqs are its own."""
    say(db, "ann", "travel")
    ann, parts = (
        db.scope("ann", "travel"),
        [db.scope("ann", name_part("travel", one)) for one in PARTS],
    )
    parts[1].items.put(("other",), "k", PACKED, index=False)
    ann.forget(session="s", seqs=1)
    assert [one.session("s").last_seq for one in parts] == [1] * len(PARTS)
    ann.session("s").delete()
    assert [len(one.session("s").messages()) for one in parts] == [1] * len(PARTS)
    ann.session("s").append("user", SAID)
    ann.session("s").forget(query="quibblitis")
    assert [len(one.session("s").messages()) for one in parts] == [0] * len(PARTS)
    assert [[item.key for item in one.items.list()] for one in parts] == [[], ["k"], []]


def test_an_export_holds_the_parts_and_comes_back_in_them(db, tmp_path: Path):
    """What an export of one user holds of the parts is imported into the parts, renamed too."""
    say(db, "ann", "travel")
    path = tmp_path / "ann.jsonl"
    db.export(path, user="ann", app="travel")
    with closing(memdb.open(tmp_path / "b.db", embedder=None)) as other:
        other.import_file(path)
        other.import_file(path, user="bo", app="tours")
        names = {(scope.user, scope.app) for scope in other.scopes()}
        assert names == {
            *(("ann", name_part("travel", part)) for part in PARTS),
            *(("bo", name_part("tours", part)) for part in PARTS),
            ("ann", "travel"),
            ("bo", "tours"),
        }
        assert other.export(tmp_path / "again.jsonl", user="ann", app="travel")
    assert (tmp_path / "again.jsonl").read_bytes() == path.read_bytes()


def test_secrets_of_the_parts_are_found(db):
    """A key that stands in a part alone is named with the part."""
    db.scope("ann", "travel").session("s").append("user", "hello")
    part = db.scope("ann", name_part("travel", "checkpoints"))
    part.items.put(("s",), "k", b"\0\xd9 ghp_0123456789abcdefghijABCDEFGHIJ012345 ", index=False)
    (found,) = db.scope("ann", "travel").find_secrets()
    assert found.where.startswith("travel (checkpoints): item")
