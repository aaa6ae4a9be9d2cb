"""
Every public call as one user: nothing of others shows in it, changes it, or is changed by it.

A call is made in two files that differ by other users only (`tenants.py`): result, error, log
and output have to be the same, scores and counts in them too. What may differ is listed with
its reason. `test_isolation_of_clients.py` does the same through aio and the command line, the tests of
integrations through MCP and frameworks.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import tenants
from counters import count
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from isolated import (
    NAMES_OF_THE_FILE,
    OTHER_FILES,
    READ_CALLS,
    THEIR_NAMES,
    WHOLE_FILE,
    names_of_others,
)
from tenants import (
    SECRETS,
    THEIR_USER,
    Embedder,
    Files,
    damage,
    leaked,
    warm_as_others,
)
from writes import WRITES, public_calls

import memdb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb import MemDB


def test_every_public_call_is_tried() -> None:
    """A call that is in no table is not known to keep users apart."""
    tried = {name.split()[0] for name in (*READ_CALLS, *THEIR_NAMES)}
    writes = {name for write in WRITES.values() for name in write.covers}

    assert public_calls() - tried - writes - NAMES_OF_THE_FILE == set()
    assert NAMES_OF_THE_FILE & tried <= {"MemDB.export"}
    assert WRITES.keys() >= WHOLE_FILE.keys() | OTHER_FILES


@pytest.fixture
def files(tmp_path: Path, two_databases: tuple[Any, Any]) -> Iterator[Files]:
    """Return both files, open; the others have used theirs."""
    made = Files(tmp_path, two_databases)
    yield made
    made.close()


def test_the_others_hold_every_secret(files: Files) -> None:
    """Or nothing could leak; what they removed is in no table any more."""
    removed = {"deleted_text", "forgotten_text", "deleted_session", "entry_deleted"}
    found = "".join(map(str, files.others.values())).casefold()
    exports = [files.beside.export_lines(user=user, app=app) for user, app in tenants.OTHERS]
    shown = found + "".join(line for lines in exports for line in lines).casefold()

    assert {field for field, word in SECRETS.items() if word not in shown} <= removed | {
        "artifact_deleted"
    }


# Of `WHOLE_FILE`: what nobody has or lacks here, and what is free in none of the two files.
MAY_BE_EQUAL = ("delete_space", "rebuild", "change settings", "vacuum", "vacuum whole")


@pytest.mark.parametrize("name", sorted(WRITES.keys() - OTHER_FILES))
def test_a_write_shows_and_changes_nothing_of_others(files: Files, name: str) -> None:
    """Its result and ann's memory after it are the same with others in the file."""
    write = WRITES[name]

    alone, beside = files.compare(write.act)
    memory = files.compare(lambda db: db.export_lines(user="ann"))

    assert leaked(beside) == []
    if name in WHOLE_FILE:
        assert alone != beside or files.changed() or name in MAY_BE_EQUAL
        return
    assert alone == beside
    assert files.changed() == []
    assert memory[0] == memory[1]
    count("isolation")


def test_a_read_shows_nothing_of_others(files: Files) -> None:
    """Scores, explanations and what was not found included; the others read before."""
    warm_as_others(files.beside)
    files.others = files.dump_others()

    for name, call in READ_CALLS.items():
        alone, beside = files.compare(call)
        assert not alone.startswith("raised"), name
        assert alone == beside, name
        count("isolation")
    assert files.changed() == []


def test_names_and_ids_of_others_are_those_of_nothing(files: Files) -> None:
    """Each call ends as it does where nothing has such a name, and leaves theirs as it is."""
    names = names_of_others(files.beside)

    for name, call in THEIR_NAMES.items():
        alone, beside = files.compare(lambda db, call=call: call(db, names))
        assert alone == beside, name
        assert files.changed() == [], name
        count("isolation")


def test_a_space_that_is_filled_says_nothing_of_others(
    tmp_path: Path, two_databases: tuple[Any, Any]
) -> None:
    """What waits for a new embedder is counted in the own scope."""
    embedder = Embedder()
    embedder.name = "new"
    files = Files(tmp_path, two_databases, embedder=embedder)

    for _ in range(2):
        alone, beside = files.compare(lambda db: db.scope("ann").recall("lamp", explain=True))
        assert alone == beside
    files.close()


def test_what_others_do_changes_no_score(files: Files) -> None:
    """They remember, recall, forget and delete between two equal questions."""

    def ask(db: MemDB) -> object:
        return db.scope("ann").recall("Oslo lamp", explain=True)

    files.compare(ask)
    for user, app in tenants.OTHERS:
        scope = files.beside.scope(user, app)
        scope.remember("Ann has a red lamp in Oslo.")
        scope.session("trip").append("user", "lamp lamp lamp Oslo")
        scope.delete(session="long")
        scope.forget(query="lamp")
    files.beside.scope(THEIR_USER).forget(everything=True)

    alone, beside = files.compare(ask)
    assert alone == beside


def test_a_proof_says_not_whether_others_have_artifacts(files: Files) -> None:
    """Or archived messages: both are searched, whoever has some."""

    def prove(db: MemDB) -> object:
        db.scope("ann").delete(session="trip")
        return db.scope("ann").forget(everything=True, prove=True)

    alone, beside = files.compare(prove)

    assert alone == beside


@pytest.fixture
def beside_damage(tmp_path: Path, two_databases: tuple[Any, Any]) -> Iterator[Callable[[], Files]]:
    """Return a function that opens both files, all rows of the others damaged."""
    alone, beside = two_databases
    broken = tmp_path / "broken.db"
    beside.put(broken)
    damage(broken, tenants.THEIRS)
    damaged = type(beside)(broken, None)
    opened: list[Files] = []

    def make() -> Files:
        folder = tmp_path / str(len(opened))
        opened.append(Files(folder, (alone, damaged)))
        return opened[-1]

    yield make
    for files in opened:
        files.close()


def test_damage_in_others_rows_harms_no_read(beside_damage: Callable[[], Files]) -> None:
    """Nor does a recall or an export stumble over it."""
    files = beside_damage()

    for name, call in READ_CALLS.items():
        alone, beside = files.compare(call)
        assert alone == beside, name


@pytest.mark.parametrize(
    "name", ["delete a session", "delete an artifact", "forget everything", "forget and prove"]
)
def test_damage_in_others_rows_harms_no_removal(
    beside_damage: Callable[[], Files], name: str
) -> None:
    """Also if the others have the same bytes."""
    alone, beside = beside_damage().compare(WRITES[name].act)

    assert alone == beside


def test_damage_of_one_user_stops_no_work_for_others(
    tmp_path: Path, two_files: tuple[bytes, bytes], raw: Any
) -> None:
    """Summaries, extraction and upkeep go on behind a session that cannot be read."""
    path = tmp_path / "agent.db"
    path.write_bytes(two_files[1])
    damage(path, "BETWEEN 1 AND 1")
    with tenants.open_as(path, 0) as db:
        db.settings.update(extract_every=1, session_max_count=1, session_retention="delete")
        for user, app in tenants.OTHERS:
            db.scope(user, app).session("due").append("user", "I moved to Rome.")
        with pytest.raises(memdb.Corrupt):
            db.jobs.run(due=True)

        for user, app in tenants.OTHERS:
            assert len(db.scope(user, app).sessions()) == 1
        ran = {one.kind for one in db.file.info().upkeep if one.done_ms is not None}
    left = raw(str(path)).execute(
        "SELECT kind FROM jobs WHERE kind IN ('summarize', 'extract') AND ref >> 44 > 2"
    )
    assert left.fetchall() == []
    assert ran >= {"expire", "optimize", "checkpoint"}


def test_the_same_memory_twice_is_two(tmp_path: Path) -> None:
    """What two users got from one export has the same uids: each removes and gets back its own."""
    path = tmp_path / "lines.jsonl"
    with memdb.open(tmp_path / "a.db", embedder=None, counter="estimate") as db:
        scope = db.scope("ann")
        scope.session("trip").append("user", "hello")
        scope.remember("Ann likes tea.", session="trip", seq=1)
        for text in ("soup", "fish"):
            scope.artifacts.save("user:menu.md", text)
        db.export(path, user="ann")
        for user in ("bob", "eve"):
            db.import_file(path, user=user)
        bob, eve = db.scope("bob"), db.scope("eve")
        (of_bob,), (of_eve,) = bob.entries.list(), eve.entries.list()

        bob.forget(entry=of_bob.id)
        bob.artifacts.delete("user:menu.md", 1)
        eve.forget(entry=of_eve.id)

        assert eve.forget(entry=of_eve.id).removed["entries"] == 0  # it is known to be gone
        assert removed_in(db, "bob") == {"artifact", "entry"}
        assert removed_in(db, "eve") == {"entry"}
        db.import_file(path, user="eve")
        assert removed_in(db, "bob") == {"artifact", "entry"}


def removed_in(db: MemDB, user: str) -> set[str]:
    """Return the kinds of what a user's export says was removed."""
    return {
        kind
        for line in db.export_lines(user=user)
        if '"kind":"tombstone"' in line
        for kind in re.findall(r'"of":"(\w+)"', line)
    }


def test_a_shared_entry_counts_everybodys_uses(files: Files) -> None:
    """The one thing of others that a score tells: how often the app's users recalled it."""
    files.beside.scope(THEIR_USER).recall("house")
    files.compare(lambda db: db.shared().remember("The garden is large."))  # counts are written

    found = files.compare(
        lambda db: db.scope("ann").recall("house", 1, kinds=["entry"], explain=True)
    )
    alone, beside = (re.sub(r"'(use|score|best)': [\d.]+", "", one) for one in found)

    assert found[0] != found[1]
    assert alone == beside


CALLS: dict[str, Callable[[MemDB, Any], object]] = {
    **{f"write: {name}": lambda db, _, w=w: w.act(db) for name, w in WRITES.items()},
    **{f"read: {name}": lambda db, _, c=c: c(db) for name, c in READ_CALLS.items()},
    **{f"theirs: {name}": c for name, c in THEIR_NAMES.items()},
}
for whole in WHOLE_FILE.keys() | OTHER_FILES:
    del CALLS[f"write: {whole}"]


NAMES = st.lists(st.sampled_from(sorted(CALLS)), min_size=5, max_size=20)
LIMITS: dict[str, Any] = {"deadline": None, "suppress_health_check": list(HealthCheck)}


@settings(max_examples=6, **LIMITS)
@given(names=NAMES)
def test_any_order_of_calls_keeps_users_apart(
    two_databases: tuple[Any, Any], tmp_path_factory: Any, names: list[str]
) -> None:
    """Each call of a sequence ends the same in both files; all of the others stays."""
    assert_apart_in_order(Files(tmp_path_factory.mktemp("any"), two_databases), names)


@pytest.mark.slow
@settings(max_examples=300, **LIMITS)
@given(names=NAMES)
def test_many_orders_of_calls_keep_users_apart(
    two_databases: tuple[Any, Any], tmp_path_factory: Any, names: list[str]
) -> None:
    """The same, longer."""
    assert_apart_in_order(Files(tmp_path_factory.mktemp("many"), two_databases), names)


def assert_apart_in_order(files: Files, names: list[str]) -> None:
    """Fail if a call of *names* ends otherwise beside others, or changed a row of theirs."""
    theirs = names_of_others(files.beside)
    try:
        for name in names:
            alone, beside = files.compare(lambda db, name=name: CALLS[name](db, theirs))
            assert alone == beside, name
            count("isolation")
        assert files.changed() == []
    finally:
        files.close()
