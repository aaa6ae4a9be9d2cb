"""Looking changes nothing: with count_use=False no row of the file is another after a read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from memdb.adapters.host import Host

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb import MemDB


def ann(db: MemDB) -> Any:
    return db.scope("ann")


def trip(db: MemDB) -> Any:
    return ann(db).session("trip")


# Every read that can be told not to count; all others never do.
TOLD: dict[str, Callable[[MemDB, bool], object]] = {
    "Scope.recall": lambda db, flag: ann(db).recall("where does Ann sleep?", count_use=flag),
    "Scope.recall by words": lambda db, flag: ann(db).recall(
        "red tent", by="words", count_use=flag
    ),
    "Session.recall": lambda db, flag: trip(db).recall("Ann in Oslo", count_use=flag),
    "Session.context": lambda db, flag: trip(db).context(400, "Ann in Oslo", count_use=flag),
    "Session.context without a query": lambda db, flag: trip(db).context(400, count_use=flag),
    "Scope.profile": lambda db, flag: ann(db).profile(400, ["Oslo?"], count_use=flag),
    "Scope.profile of a session": lambda db, flag: ann(db).profile(
        400, session="trip", count_use=flag
    ),
}
OTHERS: dict[str, Callable[[MemDB], object]] = {
    "why": lambda db: ann(db).why("Oslo", "trip", 1),
    "sessions": lambda db: ann(db).sessions(order="updated"),
    "messages": lambda db: [*trip(db).messages()],
    "entries": lambda db: [*ann(db).entries.list(inactive=True)],
    "entries.find": lambda db: ann(db).entries.find("home"),
    "history": lambda db: ann(db).entries.history(ann(db).entries.list()[0].id),
    "artifacts": lambda db: ann(db).artifacts.list(),
    "summaries": lambda db: trip(db).summaries.tree(),
    "window": lambda db: Host(trip(db)).window(budget_tokens=100),
    "forget preview": lambda db: ann(db).forget(query="Oslo", dry_run=True),
    "info": lambda db: db.file.info(),
    "check": lambda db: db.file.check(),
    "stats": lambda db: db.stats(),
    "export": lambda db: [*db.export_lines()],
}


@pytest.fixture
def filled(file_db: MemDB) -> MemDB:
    """Return a file with entries, and with embeddings and summaries that are due."""
    ann(file_db).remember("Ann lives in Oslo.", key="home")
    ann(file_db).remember("Ann sleeps in the red tent.")
    ann(file_db).artifacts.save("menu.md", "soup")
    trip(file_db).extend([{"role": "user", "text": f"We go to Oslo, day {n}."} for n in range(90)])
    return file_db


@pytest.fixture
def rows(dump: Callable[[str], list[Any]]) -> Callable[[MemDB], list[Any]]:
    """Return a function that reads every row of every ordinary table."""

    def read(db: MemDB) -> list[Any]:
        db._services.usage.flush()
        return dump(db.path)

    return read


@pytest.mark.parametrize("name", TOLD)
def test_what_is_told_not_to_count_changes_no_row(
    filled: MemDB, name: str, rows: Callable[[MemDB], list[Any]]
) -> None:
    """Neither a use, nor what is due of embeddings and summaries; the ranking stays too."""
    before = rows(filled)

    first = TOLD[name](filled, False)
    again = TOLD[name](filled, False)

    assert rows(filled) == before
    assert first == again


@pytest.mark.parametrize("name", [name for name in TOLD if "without" not in name])
def test_by_default_a_use_counts(filled: MemDB, name: str) -> None:
    """The flag is what makes the difference."""
    TOLD[name](filled, True)
    filled._services.usage.flush()

    assert max(one.use_count for one in ann(filled).entries.list()) > 0


@pytest.mark.parametrize("name", OTHERS)
def test_other_reads_change_no_row(
    filled: MemDB, name: str, rows: Callable[[MemDB], list[Any]]
) -> None:
    """They need no flag."""
    before = rows(filled)

    OTHERS[name](filled)

    assert rows(filled) == before
