"""
No column of a message gets lost: forked, exported, imported, archived, erased, hashed, adapted.

A new column of `messages` fails here until GIVEN or MADE names it, `tables/messages.py`
says whether the hash covers it and erasing keeps it, and every route carries it.
"""

import asyncio
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
from cases import each

import memdb
import memdb.aio
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.models.messages import Message, NewMessage
from memdb.tables import entries, messages, summaries
from memdb.text.derived import content_hash
from tests.architecture.postgres import read_schema_table

# A value that is no default for each field that a host gives, by its name in `append`.
GIVEN: dict[str, Any] = {
    "role": "assistant",
    "author": "Ann",
    "text": "We fly to Oslo.",
    "external_id": "host-7",
    "created_ms": 1_600_000_000_000,
    "metadata": {"lang": "en"},
    "parts": [{"type": "text", "text": "We fly to Oslo."}, {"type": "image", "url": "a.png"}],
}
FIELDS = sorted(GIVEN)
# The same for `append`, whose times have no unit.
ARGUMENTS = {name.removesuffix("_ms"): value for name, value in GIVEN.items()}

# What memdb makes.
MADE = {"seq", "tokens", "counter", "session", "row_id", "uid", "writer"}

# What a copy in another session has of its own.
OWN = {"session", "row_id", "uid", "seq"}


@pytest.fixture
def db(open_db: Callable[..., MemDB]) -> MemDB:
    """Return a database with one message, whose fields all have values."""
    db = open_db(":memory:", embedder=None)
    db._db.opened_by = "mail"
    db.scope("ann").session("trip").append(**ARGUMENTS)
    return db


def stored(db: MemDB, session: str = "trip") -> Message:
    """Return the message of a session, read by its columns."""
    (message,) = db.scope("ann").session(session).last(2)
    return message


def forked(db: MemDB, **_: Any) -> Message:
    """Copy the message by a fork."""
    db.scope("ann").session("trip").fork("copy")
    return stored(db, "copy")


def imported(db: MemDB, open_db: Callable[..., MemDB], tmp_path: Any) -> Message:
    """Export the file and import it into another."""
    path = str(tmp_path / "all.jsonl")
    db.export(path)
    other = open_db(":memory:", embedder=None)
    other.import_file(path)
    return stored(other)


def archived(db: MemDB, **_: Any) -> Message:
    """Move the message to a segment and read it from there."""
    db.scope("ann").session("trip").archive(keep_last=0)
    return stored(db)


def brought_back(db: MemDB, **_: Any) -> Message:
    """Move the message to a segment and back."""
    session = db.scope("ann").session("trip")
    session.archive(keep_last=0)
    session.unarchive()
    return stored(db)


def awaited(db: MemDB, tmp_path: Any, **_: Any) -> Message:
    """Append by `memdb.aio`."""

    async def append() -> Message:
        opened: Any = memdb.aio.open(
            str(tmp_path / "aio.db"), embedder=None, counter="estimate", writer="mail"
        )
        async with opened if hasattr(opened, "__aenter__") else await opened as other:
            session = other.scope("ann").session("trip")
            await session.append(**ARGUMENTS)
            (message,) = await session.last(2)
            return message

    return asyncio.run(append())


def extended(db: MemDB, **_: Any) -> Message:
    """Append by `extend`, as adapters do."""
    db.scope("ann").session("many").extend([GIVEN])
    return stored(db, "many")


def looked_up(db: MemDB, **_: Any) -> Message:
    """Find it by the host's id."""
    found = db.scope("ann").session("trip").find(GIVEN["external_id"])
    assert found is not None
    return found


ROUTES = {
    "fork": forked,
    "export and import": imported,
    "archive": archived,
    "unarchive": brought_back,
    "aio": awaited,
    "extend": extended,
    "external id": looked_up,
}


def test_every_field_has_a_value_here() -> None:
    """A new field is in GIVEN or in MADE; what a host may give is in NewMessage."""
    assert {*FIELDS, *MADE} == set(Message._fields)
    assert set(GIVEN) == set(NewMessage._fields) - {"uid", "writer"}


def test_every_column_is_read() -> None:
    """A message has each column of schema.sql, derived ones apart."""
    columns = set(read_schema_table("messages"))
    derived = {"content_hash", "bigrams", "spans", "id"}  # the id is `row_id`
    assert columns - derived == set(Message._fields) - {"seq", "session", "row_id"}


# What the hashes of format 1 cover, in this order; a new column may stand between them.
FROZEN = {
    messages: "uid role author text parts external_id metadata created_ms",
    entries: "uid category key text keywords importance metadata created_ms",
    summaries: "uid depth first_seq last_seq hint quality summarizer text",
}


def test_the_hash_covers_what_it_did() -> None:
    """Hashes of rows that are stored stay the same."""
    for table, frozen in FROZEN.items():
        assert " ".join(name for name in table.HASHED if name in frozen.split()) == frozen
    assert set(FIELDS) <= set(messages.HASHED)


@pytest.mark.parametrize("column", messages.HASHED)
def test_the_hash_covers_a_column(column: str) -> None:
    """Another value gives another hash."""
    row = dict.fromkeys(messages.HASHED, "x")

    assert messages.hash_of(row) != messages.hash_of({**row, column: "y"})


@pytest.mark.parametrize("field", sorted({*FIELDS, *MADE} - OWN))
@pytest.mark.parametrize("route", ROUTES.values(), ids=ROUTES)
def test_a_route_carries_a_field(
    db: MemDB,
    open_db: Callable[..., MemDB],
    tmp_path: Any,
    route: Callable[..., Message],
    field: str,
) -> None:
    """What comes out is what went in."""
    before = stored(db)
    after = route(db, open_db=open_db, tmp_path=tmp_path)

    assert getattr(before, field) not in (None, "", [], {})
    assert getattr(after, field) == getattr(before, field)


@pytest.mark.parametrize("field", Message._fields)
def test_erasing_a_message_says_of_each_field_whether_it_stays(db: MemDB, field: str) -> None:
    """What a message says goes; its place, time and external id stay."""
    before = stored(db)
    Host(db.scope("ann").session("trip")).erase(before.seq)
    after = stored(db)

    if field == "tokens":
        assert after.tokens == 0
    else:
        kept = getattr(before, field)
        assert getattr(after, field) == messages.ERASED.get(field, kept)


@each("table", [messages, entries, summaries])
def test_a_hash_covers_the_fields_that_are_present_by_name(table: Any) -> None:
    """A later column that a row lacks changes no hash; a value, its name and its absence do."""
    row = {name: f"value of {name}" for name in table.HASHED}
    hashed = table.hash_of(row)

    for place in range(len(table.HASHED) + 1):
        names = (*table.HASHED[:place], "language", *table.HASHED[place:])
        with mock.patch.object(table, "HASHED", names):
            found = [table.hash_of({**row, "language": value}) for value in (None, "", "en")]
            assert found[0] == hashed
            assert len({*found}) == 3
    for name in table.HASHED:
        others = [table.hash_of({**row, name: value}) for value in (None, "", "other")]
        assert len({hashed, *others}) == 4
    first, second = table.HASHED[:2]
    swapped = {**row, first: row[second], second: row[first]}
    assert table.hash_of(swapped) != hashed


def test_no_value_looks_like_another_field() -> None:
    """The mark of a field inside a text cuts nothing."""
    one = content_hash({"a": "x\1b", "b": None, "c": "1"}, "abc")

    assert one != content_hash({"a": "x", "b": "", "c": "1"}, "abc")
    assert one != content_hash({"a": "x\1b\1", "b": None, "c": None}, "abc")


def test_the_hashes_of_format_1_stay() -> None:
    """A file of 0.1.0 holds them."""
    row = dict.fromkeys({*messages.HASHED, *entries.HASHED, *summaries.HASHED}, "x")

    assert [table.hash_of(row).hex() for table in (messages, entries, summaries)] == [
        "af6caad37a41297b",
        "a103ec530fb70bd3390b804fa83e5cde",
        "04c5acf2075c8950",
    ]
