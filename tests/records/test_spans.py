"""
The days that a text speaks of are those of the text that is stored, whoever changed it.

MESSAGES and ENTRIES name every public call that changes a text. Each leaves the
`spans` that a rebuild makes, and that its text and time give.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cases import each

from memdb import MemDB
from memdb.adapters.host import Host
from memdb.text.derived import date_spans

# 15 August 2022.
SAID_MS = 1_660_521_600_000
TEXT = "I moved to Oslo last month."
OTHER = "I was in Rome on 3 May 2021."
JULY, MAY = "2022-07-01/2022-07-31", "2021-05-03"

TABLES = {
    "messages": "SELECT spans FROM messages ORDER BY id",
    "entries": "SELECT spans FROM entries ORDER BY id",
}


def spans(db: MemDB, table: str) -> list[str | None]:
    """Return the spans of every row, which `check` and `rebuild` leave as they are."""

    def read() -> list[str | None]:
        return [row[0] for row in db.query(TABLES[table]).rows]

    found = read()
    assert db.file.check(deep=True) == []
    db.file.rebuild()
    assert read() == found
    return found


def talk(db: MemDB, text: str = TEXT) -> Any:
    """Store a message of August 2022 and return its session."""
    session = db.scope("ann").session("s")
    session.append("user", text, created=SAID_MS)
    return session


def extended(db: MemDB, **_: Any) -> None:
    """Add it as one of many, as adapters do."""
    db.scope("ann").session("s").extend([{"role": "user", "text": TEXT, "created_ms": SAID_MS}])


def archived(db: MemDB, **_: Any) -> None:
    """Move it to a segment, where it is still found."""
    talk(db).archive(keep_last=0)


def brought_back(db: MemDB, **_: Any) -> None:
    """Move it to a segment and back."""
    talk(db).archive(keep_last=0)
    db.scope("ann").session("s").unarchive()


def archived_edit(db: MemDB, **_: Any) -> None:
    """Let an archived message say something else."""
    talk(db).archive(keep_last=0)
    db.scope("ann").session("s").edit(1, {"role": "user", "text": OTHER})


def imported(db: MemDB, open_db: Callable[..., MemDB], folder: Any) -> None:
    """Take it and an entry from the export of another file."""
    other = open_db(str(folder / "other.db"), embedder=None)
    talk(other)
    other.scope("ann").remember(TEXT, created=SAID_MS)
    other.export(str(folder / "all.jsonl"))
    db.import_file(str(folder / "all.jsonl"))


MESSAGES: dict[str, tuple[Callable[..., object], list[str | None]]] = {
    "append": (lambda db, **_: talk(db), [JULY]),
    "append of no time": (lambda db, **_: talk(db, "hi"), [None]),
    "extend": (extended, [JULY]),
    "fork": (lambda db, **_: talk(db).fork("copy"), [JULY, JULY]),
    "archive": (archived, [JULY]),
    "unarchive": (brought_back, [JULY]),
    "import": (imported, [JULY]),
    "erase": (lambda db, **_: Host(talk(db)).erase(1), [None]),
    "edit": (lambda db, **_: talk(db).edit(1, {"role": "user", "text": OTHER}), [MAY]),
    "edit away": (lambda db, **_: talk(db).edit(1, {"role": "user", "text": "hi"}), [None]),
    "edit an archived one": (archived_edit, [MAY]),
    "replace": (
        lambda db, **_: talk(db).replace(
            [1], [{"role": "user", "text": OTHER, "created_ms": SAID_MS}]
        ),
        [MAY],
    ),
    "redact": (
        lambda db, **_: (
            db.scope("ann")
            .session("s")
            .append("user", f"{OTHER} My key is AKIAIOSFODNN7EXAMPLE.", secrets="redact")
        ),
        [MAY],
    ),
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_the_days_of_its_text(
    open_db: Callable[..., MemDB], path: str, tmp_path: Any, name: str
) -> None:
    """No call leaves those of another text."""
    write, expected = MESSAGES[name]
    db = open_db(path, embedder=None)
    write(db, open_db=open_db, folder=tmp_path)

    assert spans(db, "messages") == expected


def fact(db: MemDB, text: str = TEXT, **fields: Any) -> int:
    """Remember something in August 2022, and return its id."""
    entry = db.scope("ann").remember(text, created=SAID_MS, **fields).entry
    assert entry is not None
    return int(entry.id)


def superseded(db: MemDB, **_: Any) -> None:
    """State the fact of a key anew."""
    fact(db, key="home")
    fact(db, OTHER, key="home")


ENTRIES: dict[str, tuple[Callable[..., object], list[str | None]]] = {
    "remember": (lambda db, **_: fact(db), [JULY]),
    "update": (lambda db, **_: db.scope("ann").entries.update(fact(db), text=OTHER), [MAY]),
    "update to none": (lambda db, **_: db.scope("ann").entries.update(fact(db), text="a"), [None]),
    "pin": (lambda db, **_: db.scope("ann").entries.update(fact(db), pinned=True), [JULY]),
    "supersede": (superseded, [JULY, MAY]),
    "import": (imported, [JULY]),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry_has_the_days_of_its_text(
    open_db: Callable[..., MemDB], path: str, tmp_path: Any, name: str
) -> None:
    """They count from when it was said or changed last."""
    write, expected = ENTRIES[name]
    db = open_db(path, embedder=None)
    write(db, open_db=open_db, folder=tmp_path)

    assert spans(db, "entries") == expected


@pytest.mark.parametrize("table", TABLES)
def test_check_finds_other_days_and_rebuild_makes_them_anew(
    open_db: Callable[..., MemDB], path: str, run_sql: Callable[..., Any], table: str
) -> None:
    """Also of archived messages, whose text is in a segment."""
    db = open_db(path, embedder=None)
    archived(db)
    fact(db)
    db.close()
    run_sql(path, f"UPDATE {table} SET spans = '2020-01-01'")
    db = open_db(path, embedder=None)
    code = {"messages": "message_spans", "entries": "entry_spans"}[table]

    assert [(one.code, one.rebuildable) for one in db.file.check(deep=True)] == [(code, True)]
    db.file.rebuild()
    assert spans(db, table) == [JULY]


@pytest.mark.parametrize("stored", ["x", "2022-13-01", "2022-05-03/", "/", " ", "2022-05-03/x/y"])
def test_damaged_days_do_not_stop_a_recall(
    open_db: Callable[..., MemDB], path: str, run_sql: Callable[..., Any], stored: str
) -> None:
    """They count as none."""
    db = open_db(path, embedder=None)
    talk(db)
    fact(db, "Ann lives in Oslo since July.")
    db.close()
    run_sql(path, "UPDATE messages SET spans = ?", stored)
    run_sql(path, "UPDATE entries SET spans = ?", stored)

    hits = open_db(path, embedder=None).scope("ann").recall("what was in Oslo in July?")

    assert {hit.kind for hit in hits} == {"message", "entry"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hi",
        "I remember a sunny market.",
        "We need 20 of them, or 1900 g.",
        "It is today.",
        "Nothing at all",
        "a" * 20_000,
        "\u6211\u7231\u5317",
    ],
)
def test_most_texts_speak_of_no_day(text: str) -> None:
    """NULL costs nothing."""
    assert date_spans(text, SAID_MS) is None


def test_only_the_first_page_of_a_long_text_is_read() -> None:
    """A message of 64 MB takes no time."""
    assert date_spans("a" * 10_000 + " in May 2021", SAID_MS) is None
    assert date_spans("in May 2021 " + "a" * 10_000, SAID_MS) == "2021-05-01/2021-05-31"


@each(
    "text, expected",
    [
        ("yesterday", "2022-08-14"),
        ("the day after tomorrow", "2022-08-17"),
        ("two weeks ago", "2022-08-01/2022-08-07"),
        ("a few weeks ago", "2022-07-11/2022-08-07"),
        ("three months back", "2022-05-01/2022-05-31"),
        ("in ten days", "2022-08-25"),
        ("last Friday", "2022-08-12"),
        ("next Friday", "2022-08-19/2022-08-26"),
        ("this weekend", "2022-08-20/2022-08-21"),
        ("next month", "2022-09-01/2022-09-30"),
        ("over the past two weeks", "2022-08-01/2022-08-15"),
        ("in April", "2022-04-01/2022-04-30"),
        ("In APRIL 2020", "2020-04-01/2020-04-30"),
        ("since March", "2022-03-01/2022-03-31"),
        ("on 3 May", "2022-05-03"),
        ("on Dec 24", "2022-12-24"),
        ("by 24 Dec. 2021", "2021-12-24"),
        ("2021-12-24", "2021-12-24"),
        ("2021-12", "2021-12-01/2021-12-31"),
        ("back in 2019", "2019-01-01/2019-12-31"),
        ("Christmas 2021", "2021-12-24/2021-12-26"),
        ("New Year's Eve", "2022-12-31"),
        ("last Easter", "2022-04-15/2022-04-18"),
        ("Thanksgiving 2021", "2021-11-25"),
        ("in the summer of 2021", "2021-06-01/2021-08-31"),
        ("last winter", "2021-12-01/2022-02-28"),
        ("Q3 2021", "2021-07-01/2021-09-30"),
        ("in the week of 6 May 2024", "2024-05-06/2024-05-12"),
        ("on the weekend of 25 May 2024", "2024-05-25/2024-05-26"),
        ("on 3 May and last year", "2022-05-03 2021-01-01/2021-12-31"),
        ("I may fall over the market in 20 minutes", None),
        ("on 31 June", "2022-06-01/2022-06-30"),
    ],
)
def test_times_of_a_text_count_from_when_it_was_written(text: str, expected: str | None) -> None:
    """A time that is not certain becomes a longer span."""
    assert date_spans(text, SAID_MS) == expected


def test_a_list_of_dates_has_a_most() -> None:
    """A table of a year's dates is no evidence of any of them."""
    found = date_spans(" ".join(f"on {day} May 2021," for day in range(1, 31)), SAID_MS)

    assert found is not None
    assert len(found.split()) == 16
