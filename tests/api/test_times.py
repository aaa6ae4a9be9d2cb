"""Every argument that is a time takes milliseconds, a datetime or text."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from cases import arguments_of, each

import memdb
import memdb.aio
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.api.threads import Threads

DAY = 86_400_000
NOW = 1_700_000_000_000  # Tuesday 14 November 2023, 22:13 UTC
MIDNIGHT = NOW - NOW % DAY

PAST: dict[str | date, int] = {
    "2023-11-01": 1_698_796_800_000,
    date(2023, 11, 1): 1_698_796_800_000,
    " 2023-11-01T06:30:00+01:00 ": 1_698_796_800_000 + 19_800_000,
    "2023-11-01T05:30Z": 1_698_796_800_000 + 19_800_000,
    "30d": NOW - 30 * DAY,
    "12h": NOW - DAY // 2,
    "45m": NOW - 2_700_000,
    "yesterday": MIDNIGHT - DAY,
    "10 days ago": MIDNIGHT - 10 * DAY,
    "2 weeks ago": MIDNIGHT - 15 * DAY,  # the Monday of that week
    "last Monday": MIDNIGHT - DAY,
    "3 May": 1_683_072_000_000,
    "1 May 2022": 1_651_363_200_000,
}
WRONG = ["", " ", "soon", "30", "d", "-3d", "0d", "1.5h", "30 d", "2023-13-01", "yesterday we flew",
         "on 31 June", "2023-11-01T09:00 Mars/Phobos", "x" * 100_000, "1" * 5_000 + "d", "2023-11-01T99:00", True, 1.5, [], 1 << 60,
         datetime(2023, 11, 1)]  # fmt: skip  # noqa: DTZ001 (no zone)


@pytest.fixture
def db() -> Iterator[MemDB]:
    with memdb.open(":memory:", counter="estimate", embedder=None, clock=lambda: NOW) as opened:
        yield opened


Call = Callable[[MemDB, Any], object]


def session(db: MemDB) -> memdb.Session:
    return db.scope("ann").session("trip")


STORES: dict[str, Callable[[MemDB, Any], int | None]] = {
    "append": lambda db, at: session(db).append("user", "x", created=at).created_ms,
    "prepare": lambda db, at: (
        Host(session(db)).prepare([{"role": "user", "text": "x", "created": at}])()[0].created_ms
    ),
    "extend": lambda db, at: (
        session(db).extend([{"role": "user", "text": "x", "created": at}])[0].created_ms
    ),
    "append of a dict": lambda db, at: (
        session(db).append({"role": "user", "text": "x", "created": at}).created_ms
    ),
    "append of a provider's dict": lambda db, at: (
        session(db).append({"role": "user", "content": "x", "created": at}).created_ms
    ),
    "create": lambda db, at: session(db).create(created=at).created_ms,
    "remember": lambda db, at: db.scope("ann").remember("x", created=at).entry.created_ms,
    "valid_from": lambda db, at: db.scope("ann").remember("x", valid_from=at).entry.valid_from_ms,
    "save": lambda db, at: session(db).artifacts.save("a.md", "x", created=at).created_ms,
}
READS: dict[str, Call] = {
    "since": lambda db, at: db.scope("ann").recall("tea", since=at),
    "until": lambda db, at: db.scope("ann").recall("tea", until=at),
    "as_of": lambda db, at: session(db).recall("tea", as_of=at),
    "session since": lambda db, at: session(db).recall("tea", since=at),
    "session until": lambda db, at: session(db).recall("tea", until=at),
    "snapshot since": lambda db, at: Host(session(db)).snapshot(since=at),
    "list as_of": lambda db, at: list(db.scope("ann").entries.list(as_of=at)),
    "delete before": lambda db, at: session(db).delete(before=at),
    "forget before": lambda db, at: session(db).forget(before=at),
    "expires": lambda db, at: db.scope("ann").remember("x", expires=at),
    "why": lambda db, at: db.scope("ann").why("tea", "trip", 1, since=at),
    "counts since": lambda db, at: db.scope("ann").counts(since=at),
    "counts until": lambda db, at: db.scope("ann").counts(until=at),
}
SPANS: dict[str, Callable[..., object]] = {
    "Scope.counts": lambda db, **span: db.scope("ann").counts(**span),
    "Scope.recall": lambda db, **span: db.scope("ann").recall("tea", **span),
    "Scope.why": lambda db, **span: db.scope("ann").why("tea", "trip", 1, **span),
    "Session.recall": lambda db, **span: session(db).recall("tea", **span),
}


@pytest.mark.parametrize("text", PAST)
@pytest.mark.parametrize("name", STORES)
def test_a_time_in_words_is_stored_as_milliseconds(db: MemDB, name: str, text: str | date) -> None:
    """Spans and days without a year are of the past."""
    assert STORES[name](db, text) == PAST[text]


@pytest.mark.parametrize("name", STORES)
def test_a_datetime_and_milliseconds_mean_the_same(db: MemDB, name: str) -> None:
    """To the millisecond."""
    moment = datetime(2023, 11, 1, 6, 30, 0, 123_000, tzinfo=UTC) + timedelta(0)
    at_ms = round(moment.timestamp() * 1000)
    with memdb.open(":memory:", counter="estimate", embedder=None, clock=lambda: NOW) as other:
        assert STORES[name](db, moment) == STORES[name](other, at_ms) == at_ms


@each("name", [*STORES, *READS])
def test_what_is_no_time_is_refused(db: MemDB, name: str) -> None:
    """The message names the argument, and stays short."""
    field = inspect_field(name)
    for wrong in WRONG:
        with pytest.raises(memdb.InvalidInput, match=field) as caught:
            {**STORES, **READS}[name](db, wrong)
            pytest.fail(f"{wrong!r} was taken")
        assert len(str(caught.value)) < 300
        if isinstance(wrong, str):
            assert repr(wrong[:50])[:-1] in str(caught.value)

    assert db.file.info().counts["messages"] == db.file.info().counts["entries"] == 0


def test_a_span_that_ends_before_it_begins_is_refused(db: MemDB) -> None:
    """By every call that takes a span; the error has dates, and a day counts to its end."""
    takes = {
        f"{kind.__name__}.{name}"
        for kind in (memdb.MemDB, memdb.Scope, memdb.Session, memdb.Entries, memdb.Artifacts,
                     memdb.File, memdb.Jobs, memdb.Summaries)
        for name, call in inspect.getmembers(kind, inspect.isfunction)
        if "until" in arguments_of(call)
    }  # fmt: skip
    assert takes == set(SPANS)
    session(db).append("user", "tea")
    told = "until is 2023-11-02T00:00:00.000Z, before since, 2023-11-03T00:00:00.000Z: swap them"
    for name, call in SPANS.items():
        with pytest.raises(memdb.InvalidInput) as caught:
            call(db, since="2023-11-03", until="2023-11-01")
            pytest.fail(name)
        assert str(caught.value) == told, name
        call(db, since="2023-11-02", until="2023-11-01")  # empty, and no mistake
        call(db, since="0001-01-01", until="9999-12-31")
        with pytest.raises(memdb.InvalidInput, match="'999999d': give a time of the years 1 to"):
            call(db, since="999999d")


def inspect_field(name: str) -> str:
    """Return the argument that a case is about."""
    word = name.split()[-1]
    fields = {"since", "until", "as_of", "before", "expires", "valid_from"}
    return word if word in fields else {"why": "since"}.get(word, "created")


def test_reads_by_a_time_in_words(db: MemDB) -> None:
    """The same as by its milliseconds."""
    ann, chat = db.scope("ann"), session(db)
    for days in (1, 10, 40):
        chat.append("user", f"tea {days}", created=f"{days}d")

    assert sorted(hit.text for hit in ann.recall("tea", since="2 weeks ago")) == ["tea 1", "tea 10"]
    assert [hit.text for hit in ann.recall("tea", until="30d")] == ["tea 40"]
    assert [hit.text for hit in chat.recall("tea", as_of="2023-10-20")] == ["tea 40"]
    snapshot = Host(chat).snapshot(since="yesterday")
    assert snapshot is not None
    assert [one.text for one in snapshot.messages] == ["tea 1"]
    assert chat.delete(before="2023-11-01").removed["messages"] == 1
    assert chat.forget(before="3d").removed["messages"] == 1
    assert [one.text for one in chat.messages()] == ["tea 1"]


def test_an_expiry_in_words_is_ahead(db: MemDB) -> None:
    """A span counts from now on, a day without a year is the next one."""
    ann = db.scope("ann")
    entry = ann.remember("Ann is in Oslo.", expires="3 May").entry
    assert entry.expires_ms == 1_714_694_400_000  # 2024
    assert ann.entries.update(entry.id, expires="2h").expires_ms == NOW + 7_200_000
    assert ann.entries.update(entry.id, expires="next month").expires_ms == 1_701_388_800_000


def test_the_same_awaited(db: MemDB) -> None:
    async def append() -> list[int]:
        with Threads(db.path) as worker:
            chat = memdb.aio.MemDB(db, worker).scope("ann").session("trip")
            told = [await chat.append("user", "x", created=text) for text in PAST]
            with pytest.raises(memdb.InvalidInput, match="created"):
                await chat.append("user", "x", created="soon")
            return [one.created_ms for one in told]

    assert asyncio.run(append()) == [*PAST.values()]


def test_no_argument_that_is_a_time_names_a_unit() -> None:
    """And each of them has the type `When`."""
    names = {"created", "since", "until", "as_of", "before", "expires", "valid_from"}
    for kind in (memdb.MemDB, memdb.Scope, memdb.Session, memdb.Entries,
                 memdb.Artifacts, memdb.File, memdb.Jobs, memdb.Summaries):  # fmt: skip
        for name, call in inspect.getmembers(kind, inspect.isfunction):
            for field, argument in arguments_of(call).items():
                assert not field.endswith("_ms"), f"{kind.__name__}.{name}({field})"
                if field in names and name not in {"changes", "watch"}:  # since a token
                    assert "When" in argument.annotation, f"{kind.__name__}.{name}({field})"
