"""How often a call waits for a server, and how many statements it takes in a file."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

import memdb
from memdb.engine.sqlite.connection import Tx

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DIM = 8
VECTOR = [1.0, *[0.0] * (DIM - 1)]
QUERY = "which tea does Ann drink?"

# What a session of use does over and over, each with a new scope object, as adapters do it: the
# most waits for a server, and the most statements in a file without BEGIN and COMMIT.
CALLS: dict[str, tuple[Callable[[memdb.Scope], object], int, int]] = {
    "append": (lambda ann: ann.session("trip").append("user", "We drink tea."), 1, 5),
    "last": (lambda ann: ann.session("trip").last(50), 2, 2),
    # Items are among what is searched: their words, vectors, owners and texts; links of entries.
    # Three more look after the WAL, if the call before was a while ago.
    "recall": (lambda ann: ann.recall(QUERY), 17, 33),
    "recall by words": (lambda ann: ann.recall(QUERY, by="words"), 11, 22),
    "put": (
        lambda ann: ann.items.put(("notes",), "k1", {"a": 1}, index=False, vectors=[VECTOR]),
        4,
        15,
    ),
    "sessions": (lambda ann: ann.sessions(limit=200), 3, 3),
    "find": (lambda ann: ann.items.find(("notes",), "k1"), 1, 1),
    "items by vector": (
        lambda ann: ann.items.recall(vector=VECTOR, prefix=("notes",), limit=10),
        6,
        7,
    ),
    "items of a scope by vector": (lambda ann: ann.items.recall(vector=VECTOR, limit=10), 5, 6),
    "items by words": (lambda ann: ann.items.recall("green tea"), 11, 24),
    "context": (lambda ann: ann.session("trip").context(500), 12, 30),
}


def fill(db: memdb.MemDB) -> None:
    """Store messages, entries, and items with a vector and with a text."""
    ann = db.scope("ann")
    for number in range(60):
        ann.session("trip").append("user", f"message {number} on flights to Oslo, author Ann")
    ann.session("trip").append("user", "I drink green tea each morning.")
    for number in range(30):
        ann.session(f"chat {number}").append("user", f"hello {number}")
    ann.remember("Ann drinks green tea.")
    for number in range(30):
        vector = [1.0, number, *[1.0] * (DIM - 2)]
        ann.items.put(("notes",), f"k{number}", {"n": number}, index=False, vectors=[vector])
        ann.items.put(("texts",), f"k{number}", {"text": f"flight number {number}"})
    ann.items.put(("texts",), "tea", {"text": "green tea"})
    db.jobs.run(kinds=("embed", "summarize"))


@contextmanager
def counted(
    monkeypatch: pytest.MonkeyPatch, kind: type, names: tuple[str, ...]
) -> Iterator[list[str]]:
    """Count the calls of some methods of *kind*."""
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        real = getattr(kind, name)

        def call(*given: Any, **options: Any) -> Any:
            calls.append(name)
            return real(*given, **options)

        return call

    with monkeypatch.context() as patched:
        for name in names:
            patched.setattr(kind, name, counting(name))
        yield calls


@pytest.fixture(scope="module")
def on_server(postgres_databases: Any) -> Iterator[memdb.MemDB]:
    """Return a database of a server with all of it."""
    address = postgres_databases.address_of("/trips")
    with memdb.open(address, counter="estimate", writer="bot") as db:
        fill(db)
        yield db
    postgres_databases.empty_all()


@pytest.fixture(scope="module")
def in_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[memdb.MemDB]:
    """Return a file with all of it."""
    path: Path = tmp_path_factory.mktemp("trips") / "agent.db"
    with memdb.open(path, counter="estimate") as db:
        fill(db)
        yield db


def least(call: Callable[[memdb.Scope], object], db: memdb.MemDB, calls: Callable[[], Any]) -> int:
    """Return how many calls it makes, the least of some: now and then an index is merged."""
    counts = []
    for _ in range(4):
        with calls() as made:
            assert call(db.scope("ann"))
        counts.append(len(made))
    return min(counts)


@pytest.mark.parametrize("name", CALLS)
def test_a_call_waits_for_the_server_only_so_often(
    on_server: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What a call knows is asked once, and what nobody reads is not waited for."""
    from memdb.postgres.wire import Wire

    call, most, _ = CALLS[name]
    monkeypatch.setattr("memdb.postgres.facts.LASTS_S", float("inf"))
    waits = least(call, on_server, lambda: counted(monkeypatch, Wire, ("_read_until",)))

    assert 1 <= waits <= most


@pytest.mark.parametrize("name", CALLS)
def test_a_call_takes_only_so_many_statements_in_a_file(
    in_file: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A file is not made slower by what saves a server's round trips."""
    call, _, most = CALLS[name]
    names = ("all", "one", "run", "many")
    statements = least(call, in_file, lambda: counted(monkeypatch, Tx, names))

    assert 1 <= statements <= most


def fill_scope(ann: memdb.Scope, count: int) -> None:
    """
    Store *count* of each kind of thing, and a branch, artifacts and state in each session.

    Of those that say "Oslo" some go as a whole, and of some an old version or a title.
    """
    for number in range(count):
        chat = ann.session(f"c{number}")
        message = {"role": "user", "text": f"hello {number} from Oslo"}
        chat.extend([{**message, "external_id": f"e{one}"} for one in range(12)])
        chat.branch("rail", after_seq=1).append("user", "Oslo by rail")
        for text in ("Day 1", "Day 2"):
            chat.artifacts.save("plan.md", f"{text} in Oslo {number}")
            ann.artifacts.save(f"user:{number}.md", f"{text} in Oslo {number}")
        chat.state.put("city", "Oslo")
        ann.state.put(f"k{number}", "Oslo")
        ann.artifacts.save(f"user:{number}.md", "no town")
        hotel = ann.remember(f"Hotel number {number} is in Oslo.", key=f"hotel {number}")
        ann.entries.update(hotel.entry.id, text=f"Hotel number {number} is in Rome, or Oslo.")
        inn = ann.remember(f"Inn number {number} is in Oslo.", key=f"inn {number}")
        ann.entries.update(inn.entry.id, text=f"Inn number {number} is in Rome.")
        chat.title = f"Oslo {number}"
        ann.items.put(("notes",), f"k{number}", {"text": f"Oslo {number}"})


# Listings and removals: of four times as many things they take no more round trips than of
# few, but for a few pages more, and for words that moved out of the tail of the index meanwhile.
OF_MANY: dict[str, Callable[[memdb.Scope], object]] = {
    "sessions": lambda ann: ann.sessions(),
    "entries": lambda ann: ann.entries.list(),
    "items": lambda ann: ann.items.list(),
    "namespaces": lambda ann: ann.items.namespaces(),
    "branches": lambda ann: ann.session("c0").branches(),
    "state": lambda ann: ann.session("c0").state.all(),
    "counts": lambda ann: ann.counts(),
    "preview": lambda ann: ann.delete(everything=True, dry_run=True),
    "artifacts": lambda ann: ann.artifacts.list(),
    "artifacts of a session": lambda ann: ann.session("c0").artifacts.list(),
    "artifacts by time": lambda ann: ann.artifacts.list(order="updated"),
    "clear a namespace": lambda ann: ann.items.clear(("notes",)),
    "delete an entry": lambda ann: ann.delete(entry=ann.entries.list()[0].id),
    "forget an entry": lambda ann: ann.forget(entry=ann.entries.list()[0].id),
    "delete a session": lambda ann: ann.delete(session="c0"),
    "forget a session": lambda ann: ann.forget(session="c0"),
    "clear a session": lambda ann: ann.session("c0").clear(),
    "clear the items": lambda ann: ann.items.clear(),
    "delete by words": lambda ann: ann.delete(query="Oslo"),
    "forget by words": lambda ann: ann.forget(query="Oslo"),
    "preview by words": lambda ann: ann.forget(query="Oslo", artifacts=True, dry_run=True),
    "forget artifacts": lambda ann: ann.forget(query="Oslo", artifacts=True),
    "delete artifacts": lambda ann: ann.delete(query="Oslo", artifacts=True),
    "forget a person": lambda ann: ann.forget(person="Oslo"),
    "find secrets": lambda ann: [*ann.find_secrets()],
    "undo": lambda ann: ann.undo(writer="bot"),
    "delete all": lambda ann: ann.delete(everything=True),
    "forget all": lambda ann: ann.forget(everything=True),
}
# A call that asks once for each session more would wait 26 times more; larger pages wait a few times.
FEW, MANY, MORE = 4, 30, 22


@pytest.mark.parametrize("name", OF_MANY)
def test_many_things_take_as_few_round_trips_as_few(
    on_server: memdb.MemDB, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What is listed or removed is asked for, and removed, together."""
    from memdb.postgres.wire import Wire

    waits = []
    for count in (FEW, MANY):
        ann = on_server.scope(f"{name} {count}")
        fill_scope(ann, count)
        on_server.jobs.run(kinds=("summarize",))
        ann.sessions()
        with counted(monkeypatch, Wire, ("_read_until",)) as made:
            OF_MANY[name](ann)
        waits.append(len(made))

    assert waits[1] <= waits[0] + MORE


def test_two_hundred_sessions_are_deleted_in_sixty_round_trips(
    on_server: memdb.MemDB, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And forgotten in as many; nothing is left of them."""
    from memdb.postgres.wire import Wire

    for way in ("delete", "forget"):
        ann = on_server.scope(f"many to {way}")
        for number in range(200):
            ann.session(f"c{number}").append("user", f"hello {number}")
        with counted(monkeypatch, Wire, ("_read_until",)) as made:
            done = getattr(ann, way)(everything=True)

        assert len(made) <= 60
        assert done.removed["sessions"] == done.removed["messages"] == 200
        assert ann.sessions() == []
    assert on_server.file.check(deep=True) == []
