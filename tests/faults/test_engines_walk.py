"""
The same random calls to a file and to a server: results, errors and exports are equal.

The calls are every public one of the tables of this folder, and changes with random names and
texts. What may differ stands in docs/postgres.md.
"""

from __future__ import annotations

import itertools
import random
import re
from typing import TYPE_CHECKING, Any

import pytest
from isolated import OTHER_FILES, READ_CALLS
from tenants import Embedder, show, without_scope
from writes import POLICY, WRITES, Summarizer, beside, prepare

from memdb import MemDB
from memdb.api import _resolve
from memdb.api._container import Ports, Services

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Call = Callable[[MemDB], object]

START_MS = 1_700_000_000_000
USERS = ("ann", "bob", "名 %_")
SESSIONS = ("trip", "due", "long", "new", "a/b")
TEXTS = (
    "We fly to Oslo on 3 May.",
    "Ann lives in Bergen now, not in Oslo.",
    "green tea in Kyoto 京都市",
    "Straße nach Zürich, naïve résumé",
    "ไปกินข้าว हिन्दी",
    "don't stop: search.py, e-mail me",
    "password = hunter2hunter2",
    "tea " * 400,
    "a",
    "\ud7ff \uffff 🎉",
)
QUERIES = (
    "tea",
    "Oslo",
    "京都",
    "Zürich may",
    "lamp",
    "nothing has this",
    "ข้าว",
    "where does Ann live?",
)

# What a walk leaves out: other files, and what docs/postgres.md says is different.
LEFT_OUT = {
    *OTHER_FILES,
    *("backup", "sync", "vacuum", "vacuum whole"),
    "forget and prove",  # the proof and what is pending are about files
    "work in a thread",  # as "run_due", at a time of its own
    "append that moves the tail",  # arranges the tail of one engine
}


class Clock:
    """Gives a time that moves between calls alone."""

    def __init__(self) -> None:
        """Stand at the start."""
        self.now_ms = START_MS

    def __call__(self) -> int:
        """Return the time."""
        return self.now_ms


class Apart(Embedder):
    """Points no two texts in the same direction: equally near ones have no order of their own."""

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector per text."""
        found = super().embed(texts)
        return [
            [number + random.Random(f"{place} {text}").random() for place, number in enumerate(one)]
            for text, one in zip(texts, found, strict=True)
        ]


class Side:
    """One of the two memories."""

    def __init__(self, address: str, clock: Clock, folder: Path) -> None:
        """Open it with a fixed source of uids, and give ann one of everything."""
        numbers = itertools.count(1)
        engine = _resolve.open_engine(
            address,
            durability="process",
            clock=clock,
            ids=lambda _: f"00000000-0000-7000-8000-{next(numbers):012x}",
        )
        ports = Ports(embedder=Apart(), counter="estimate", summarizer=Summarizer())
        self.db = MemDB(engine, Services(engine, ports, POLICY))
        self.paths = (address, str(beside(self.db, "")), str(folder))
        self.uids: dict[str, str] = {}
        prepare(self.db)

    def shown(self, text: str) -> str:
        """Return *text* without what a side gives at random: its place, uids, numbers of scopes."""
        for path in self.paths:
            text = text.replace(path, "PLACE")
        text = UID.sub(lambda found: self.uids.setdefault(found[0], f"U{len(self.uids)}"), text)
        text = PENDING.sub("'pending'", DIGEST.sub("'digest'", without_scope(text)))
        return FLOAT.sub(lambda found: f"{float(found[0]):.2f}", EXPLAINED.sub("", text))

    def outcome(self, call: Call) -> str:
        """Return what a call gives or raises."""
        try:
            return self.shown(show(call(self.db)))
        except Exception as error:  # noqa: BLE001 (also of the table's own calls)
            return self.shown(f"raised {type(error).__name__}: {error}")

    def exports(self) -> Iterator[str]:
        """Yield all that each user has."""
        for one in self.db.scopes():
            if one.user:
                yield from map(self.shown, self.db.export_lines(user=one.user, app=one.app))


UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")
DIGEST = re.compile(r"'digest': '\w*'")  # of a preview: the numbers of scopes are in it
PENDING = re.compile(r"'pending': \[[^\]]*\]")
EXPLAINED = re.compile(r"'explanation': \{[^}]*\}")  # the parts of a score, in their order
FLOAT = re.compile(r"-?\d+\.\d+(e-?\d+)?")


def differing(first: str, second: str) -> tuple[str, str]:
    """Return both texts around the first place at which they differ, "" if they do not."""
    if first == second:
        return "", ""
    pairs = zip(first, second, strict=False)
    place = next((n for n, (one, two) in enumerate(pairs) if one != two), 0)
    around = slice(max(place - 200, 0), place + 400)
    return first[around], second[around]


def changes(source: random.Random) -> dict[str, Call]:
    """Return one call of each kind, with names, numbers and texts of its own."""
    user, name, other = source.choice(USERS), source.choice(SESSIONS), source.choice(SESSIONS)
    text, query, number = source.choice(TEXTS), source.choice(QUERIES), source.randint(1, 6)
    some = [
        {"role": source.choice(["user", "assistant"]), "text": source.choice(TEXTS)}
        for _ in range(source.choice([1, 2, 9, 70]))
    ]
    key = source.choice(["home", "drink", None])
    flag = source.random() < 0.5
    place = source.choice([("notes",), ("notes", "trip"), ("n", "m")])

    def scope(db: MemDB) -> Any:
        return db.scope(user)

    def chat(db: MemDB) -> Any:
        return db.scope(user).session(name)

    def entry(db: MemDB) -> int:
        found = [one.id for one in scope(db).entries.list(inactive=True)]
        return found[number % len(found)] if found else 77

    return {
        "append": lambda db: chat(db).append("user", text),
        "append external": lambda db: chat(db).append("user", text, external_id=f"x{number}"),
        "append expected": lambda db: chat(db).append("user", text, expected=number),
        "extend": lambda db: chat(db).extend(some),
        "remember": lambda db: scope(db).remember(f"Note: {text}", key=key),
        "remember of a session": lambda db: scope(db).remember(
            f"Told: {text}", session=name, session_only=flag
        ),
        "update": lambda db: scope(db).entries.update(entry(db), text=text),
        "pin": lambda db: scope(db).entries.update(entry(db), pinned=flag, active=not flag),
        "revert": lambda db: scope(db).entries.revert(entry(db), 1),
        "delete an entry": lambda db: scope(db).delete(entry=entry(db)),
        "history": lambda db: scope(db).entries.history(entry(db)),
        "save": lambda db: chat(db).artifacts.save(f"{number}.md", text * number),
        "save of the user": lambda db: scope(db).artifacts.save(f"user:{number}", text),
        "load": lambda db: chat(db).artifacts.load(f"{number}.md"),
        "delete an artifact": lambda db: chat(db).artifacts.delete(
            f"{number}.md", number if flag else None
        ),
        "put": lambda db: scope(db).items.put(
            place, f"k{number}", {"text": f"Item: {text}", "n": number}
        ),
        "put for a while": lambda db: scope(db).items.put(
            place, f"k{number}", f"Soon: {text}", ttl="1h"
        ),
        "delete an item": lambda db: scope(db).items.delete(place, f"k{number}"),
        "list items": lambda db: scope(db).items.list(place, where={"n": {"$gte": number}}),
        "search items": lambda db: scope(db).items.recall(query, prefix=place[:1]),
        "state": lambda db: chat(db).state.put(f"k{number}", {"t": text}),
        "state of the user": lambda db: scope(db).state.update({f"k{number}": number}),
        "delete state": lambda db: chat(db).state.delete(f"k{number}"),
        "recall": lambda db: scope(db).recall(query, number * 3, explain=flag),
        "recall by words": lambda db: scope(db).recall(query, by="words"),
        "recall in a session": lambda db: chat(db).recall(query),
        "context": lambda db: chat(db).context(100 * number, query if flag else None),
        "last": lambda db: chat(db).last(number * 10),
        "pages": lambda db: scope(db).sessions(limit=number),
        "messages": lambda db: [*scope(db).messages(limit=number)],
        "edit": lambda db: chat(db).edit(number, {"role": "user", "text": text}),
        "pop": lambda db: chat(db).pop(),
        "delete messages": lambda db: chat(db).delete([number, number + 2]),
        "delete words": lambda db: scope(db).delete(query=query, artifacts=flag),
        "delete a session": lambda db: chat(db).delete(),
        "forget messages": lambda db: chat(db).forget([number]),
        "forget a session": lambda db: scope(db).forget(session=name),
        "forget words": lambda db: scope(db).forget(query=query, artifacts=flag),
        "forget a person": lambda db: scope(db).forget(person="Ann"),
        "forget everything": lambda db: number == 1 and scope(db).forget(everything=True),
        "preview": lambda db: scope(db).forget(query=query, dry_run=True),
        "archive": lambda db: chat(db).archive(keep_last=number),
        "unarchive": lambda db: chat(db).unarchive(),
        "branch": lambda db: repr(chat(db).branch(f"b{number}", number)),
        "append to a branch": lambda db: chat(db).branch(f"b{number}").append("user", text),
        "delete a branch": lambda db: chat(db).branch(f"b{number}").delete(force=flag),
        "branches": lambda db: chat(db).branches(),
        "fork": lambda db: repr(chat(db).fork(other)),
        "title": lambda db: chat(db).update(title=text[:50], metadata={"n": number}),
        "compact": lambda db: chat(db).summaries.compact(keep_last=number),
        "tree": lambda db: chat(db).summaries.tree(),
        "secrets": lambda db: [*scope(db).find_secrets(entropy=flag)],
        "counts": lambda db: scope(db).counts(),
        "work": lambda db: db.jobs.run(),
        "due": lambda db: (db.jobs.pending(), db.jobs.run(due=True)),
        "rebuild": lambda db: number == 1 and db.file.rebuild(),
        "check": lambda db: db.file.check(deep=flag),
    }


def calls(source: random.Random) -> Iterator[tuple[str, Call]]:
    """Yield calls without end: two of three change something at random."""
    tables: dict[str, Call] = {
        **READ_CALLS,
        **{
            f"write: {name}": lambda db, write=write: (write.arrange(db), write.act(db))[1]
            for name, write in WRITES.items()
            if name not in LEFT_OUT
        },
    }
    while True:
        every = changes(source) if source.random() < 0.66 else tables
        name = source.choice(sorted(every))
        yield name, every[name]


@pytest.mark.parametrize(
    ("seed", "count"),
    [(0, 25), *(pytest.param(seed, 300, marks=pytest.mark.slow) for seed in range(1, 16))],
)
def test_a_file_and_a_server_answer_alike(
    postgres_databases: Any, tmp_path: Path, seed: int, count: int
) -> None:
    """Call after call, then in all that each user has; and both are sound."""
    source, clock = random.Random(seed), Clock()
    with postgres_databases.bare() as address:
        sides = [
            Side(str(tmp_path / "agent.db"), clock, tmp_path),
            Side(address, clock, tmp_path),
        ]
        for number, (name, call) in enumerate(itertools.islice(calls(source), count)):
            clock.now_ms += source.choice([0, 1, 60_000, 3_600_000])
            file, server = (side.outcome(call) for side in sides)
            assert differing(file, server) == ("", ""), (seed, number, name)
        assert differing(*("\n".join(side.exports()) for side in sides)) == ("", "")
        assert [side.db.file.check(deep=True) for side in sides] == [[], []]
        for side in sides:
            side.db.close()
