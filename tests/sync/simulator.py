"""Three files, their replicas of one folder, clocks that differ, and histories of a seed."""

from __future__ import annotations

import json
import random
import re
import shutil
from contextlib import suppress
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import memdb
from memdb.errors import MemDBError
from memdb.models.ids import uuid7
from memdb.sync import device, service

START_MS = 1_750_000_000_000
HOUR_MS = 3_600_000
YEAR_MS = 365 * 24 * HOUR_MS
LOCAL = {
    "scope": ("uid", "created_ms"),
    "session": ("uid", "created_ms", "updated_ms", "last_seq", "extracted_seq"),
    "branch": ("updated_ms", "last_seq", "extracted_seq"),
    "entry": ("version", "session", "branch", "first_seq", "last_seq", "use_count", "last_used_ms"),
    "history": ("version", "session", "branch", "first_seq", "last_seq", "active", "replaced_ms"),
    "artifact": ("version", "message"),
}
LEFT_OUT = ("memdb", "tombstone", "summary", "artifact_name")
SESSIONS = ("trip", "work")


class Killed(BaseException):
    """The process is gone."""


class Computer:
    """A device: its file, its clock, its replica of the folder."""

    def __init__(self, world: World, place: Path, skew_ms: int) -> None:
        """Open a new file in *place*."""
        self.world, self.place, self.skew_ms = world, place, skew_ms
        self.folder = place / "folder"
        self.folder.mkdir(parents=True)
        self.backup: Path | None = None
        self.untold: set[str] = set()  # forgotten here, and nobody was told yet
        self.number = count()
        self.devices: set[str] = (
            set()
        )  # that this computer is or was: it alone writes their folders
        self.db = self.open(":memory:")

    def open(self, path: str) -> memdb.MemDB:
        """Open a file with this clock."""
        bits = self.world.random

        def ids(now_ms: int) -> str:
            return uuid7(now_ms, bits.randbytes(10))

        return memdb.open(path, embedder=None, clock=self.clock, ids=ids, durability="process")

    def clock(self) -> int:
        """Return the time here."""
        return self.world.now_ms + self.skew_ms

    def note(self) -> bool:
        """Note the device that the file is now; return whether it is one."""
        with self.db._services.db.read() as tx:
            found = device.load(tx)
        if found is not None:
            self.devices.add(found.id)
            self.world.key = self.world.key or found.key
        return found is not None

    def sync(self) -> None:
        """Sync with the replica, by the key of the world."""
        key = None if self.note() else self.world.key
        try:
            self.db.sync(self.folder, pairing_key=key)
            self.untold -= self.world.told  # nobody learns of what was forgotten before it was told
            self.world.told |= set(re.findall(r"w\d+w", str(lines_of(self.db))))
        finally:
            self.note()

    def save(self) -> None:
        """Make a backup."""
        self.backup = self.place / f"backup-{next(self.number)}.db"
        self.db.file.backup(self.backup)

    def restore(self) -> None:
        """Go on with the backup, which may be old."""
        if self.backup is not None:
            self.db.close()
            again = self.place / f"live-{next(self.number)}.db"
            shutil.copy(self.backup, again)
            self.db = self.open(str(again))


class Secrets:
    """The ids and keys of a seed."""

    def __init__(self, bits: random.Random) -> None:
        """Take them from *bits*."""
        self.bits = bits

    def token_hex(self, size: int) -> str:
        """Return an id."""
        return self.bits.randbytes(size).hex()

    def token_bytes(self, size: int) -> bytes:
        """Return a key."""
        return self.bits.randbytes(size)


class World:
    """Some computers, and what was said and removed in them so far."""

    def __init__(
        self, place: Path, seed: int, computers: int = 3, *, actions: dict[str, int] | None = None
    ) -> None:
        """Begin with empty files; *actions*: what people do, and how often."""
        self.actions = EVERY if actions is None else actions
        self.random = random.Random(seed)
        device.secrets = Secrets(self.random)  # type: ignore[attr-defined]  # of a seed
        self.now_ms = START_MS
        self.key: str | None = None
        self.words = count(1)
        self.said: set[str] = set()  # of messages that nobody removed
        self.removed: set[str] = set()
        self.forgotten: set[str] = set()
        self.told: set[str] = set()  # words that are in some folder
        self.repeated: set[str] = set()  # words of two facts: the other one stays
        self.writers: dict[str, set[Computer]] = {}  # of each fact
        self.deleted: dict[str, Computer] = {}  # facts that nobody else had changed
        self.computers = [
            Computer(self, place / f"c{number}", self.random.randint(-11, 11) * HOUR_MS)
            for number in range(computers)
        ]

    def word(self) -> str:
        """Return a word that nobody said before."""
        return f"w{next(self.words)}w"

    def close(self) -> None:
        """Close all files."""
        for one in self.computers:
            one.db.close()

    # What people do.

    def act(self) -> None:
        """Let somebody do something."""
        self.now_ms += self.random.randint(1, HOUR_MS)
        computer = self.random.choice(self.computers)
        name = self.random.choices(list(self.actions), list(self.actions.values()))[0]
        with suppress(memdb.NotFound, memdb.InvalidInput, memdb.AlreadyExists):
            getattr(self, name)(computer)

    def _session(self, computer: Computer) -> Any:
        session = computer.db.user("ann").session(self.random.choice(SESSIONS))
        branches = [one.name for one in session.branches()] if session.head() else []
        if branches and self.random.random() < 0.4:
            return session.branch(self.random.choice(branches), create=False)
        return session

    def append(self, computer: Computer) -> None:
        """Say something."""
        session = self._session(computer)
        for _ in range(self.random.randint(1, 3)):
            word = self.word()
            session.append("user", f"{word} is said")
            self.said.add(word)

    def branch(self, computer: Computer) -> None:
        """Make a branch and go on in it."""
        session = computer.db.user("ann").session(self.random.choice(SESSIONS))
        seq = self.random.randint(0, session.last_seq)
        word = self.word()
        session.branch(f"b{self.random.randint(1, 2)}", after_seq=seq).append("user", word)
        self.said.add(word)

    def empty_branch(self, computer: Computer) -> None:
        """Make a branch of the session or of a branch, and say nothing in it."""
        source = self._session(computer)
        seq = self.random.randint(0, source.last_seq)
        source.branch(f"e{self.random.randint(1, 3)}", after_seq=seq)

    def describe_branch(self, computer: Computer) -> None:
        """Give a branch other metadata, or a session."""
        session = self._session(computer)
        if session.head():
            session.update(metadata={"about": self.word()})

    def delete_branch(self, computer: Computer) -> None:
        """Delete a branch with what was said in it, and those that leave it."""
        session = self._session(computer)
        if session.branch_name is not None:
            before = words_of(computer.db)
            session.delete(force=True)
            self.removed |= before - words_of(computer.db)

    def remove_anywhere(self, computer: Computer) -> None:
        """Delete or forget some messages of a session or of a branch."""
        session = self._session(computer)
        found = list(session.messages()) if session.head() else []
        if found:
            chosen = self.random.sample(found, self.random.randint(1, min(4, len(found))))
            is_forgotten = self.random.random() < 0.5
            (session.forget if is_forgotten else session.delete)([one.seq for one in chosen])
            words = {one.text.split()[0] for one in chosen}
            self.removed |= words
            if is_forgotten:
                self.forgotten |= words
                computer.untold |= words

    def title(self, computer: Computer) -> None:
        """Give a session a title."""
        session = computer.db.user("ann").session(self.random.choice(SESSIONS))
        if session.head():
            session.title = self.word()

    def remember(self, computer: Computer) -> None:
        """Remember a fact, under a key at times."""
        key = self.random.choice([None, "k1", "k2"])
        owner = computer.db.user("ann")
        before = None if key is None else owner.entries.find(key)
        if before is not None:
            self._wrote(computer, before)
        self._wrote(computer, owner.remember(f"{self.word()} is true", key=key).entry)

    def _wrote(self, computer: Computer, entry: Any) -> None:
        self.writers.setdefault(entry.uid, set()).add(computer)
        if self.deleted.get(entry.uid, computer) is not computer:
            del self.deleted[entry.uid]

    def repeat(self, computer: Computer) -> None:
        """Say a fact again."""
        entry = self._entry(computer)
        if entry is not None and entry.active:
            done = computer.db.user("ann").remember(entry.text, key=entry.key)
            self._wrote(computer, entry)
            self._wrote(computer, done.entry)
            if done.entry.uid != entry.uid:
                self.repeated.add(entry.text.split()[0])

    def pin(self, computer: Computer) -> None:
        """Pin a fact, or let it go; what it says stays."""
        entry = self._entry(computer)
        if entry is not None:
            self._wrote(computer, entry)
            computer.db.user("ann").entries.update(entry.id, pinned=not entry.pinned)

    def retire(self, computer: Computer) -> None:
        """Let a fact hold no more, or again."""
        entry = self._entry(computer)
        if entry is not None:
            self._wrote(computer, entry)
            computer.db.user("ann").entries.update(entry.id, active=not entry.active)

    def _entry(self, computer: Computer) -> Any:
        found = list(computer.db.user("ann").entries.list(inactive=True, limit=100))
        return self.random.choice(found) if found else None

    def change_entry(self, computer: Computer) -> None:
        """Correct a fact."""
        entry = self._entry(computer)
        if entry is not None:
            self._wrote(computer, entry)
            computer.db.user("ann").entries.update(entry.id, text=f"{self.word()} is right")

    def delete_entry(self, computer: Computer) -> None:
        """Delete or forget a fact."""
        entry = self._entry(computer)
        if entry is not None and self.random.random() < 0.5:
            computer.db.user("ann").entries.delete(entry.id)
            if self.writers[entry.uid] == {computer}:
                self.deleted[entry.uid] = computer
        elif entry is not None:
            words = {entry.text.split()[0]}
            words |= {
                one.text.split()[0] for one in computer.db.user("ann").entries.history(entry.id)
            }
            computer.db.user("ann").forget(entry=entry.id)
            self.forgotten |= words
            computer.untold |= words

    def put_item(self, computer: Computer) -> None:
        """Put an item."""
        key = self.random.choice("ab")
        computer.db.user("ann").items.put(("n",), key, {"text": self.word()})

    def delete_item(self, computer: Computer) -> None:
        """Delete an item."""
        computer.db.user("ann").items.delete(("n",), self.random.choice("ab"))

    def put_state(self, computer: Computer) -> None:
        """Set a value of the state of the user or a session."""
        owner = computer.db.user("ann")
        place = self.random.choice([owner, owner.session("trip")])
        place.state[self.random.choice("xy")] = self.word()

    def delete_state(self, computer: Computer) -> None:
        """Delete a value."""
        computer.db.user("ann").state.delete(self.random.choice("xy"))

    def save(self, computer: Computer) -> None:
        """Save a version of an artifact."""
        owner = computer.db.user("ann")
        name = self.random.choice(["user:m.md", "n.md"])
        keeper = owner if name.startswith("user:") else owner.session("trip")
        keeper.artifacts.save(name, f"{self.word()} in a file")

    def rename_artifact(self, computer: Computer) -> None:
        """Rename an artifact to a name that is free."""
        name, new = self.random.choice([("m.md", "l.md"), ("l.md", "m.md")])
        computer.db.user("ann").artifacts.rename(f"user:{name}", f"user:{new}")

    def rename_in_session(self, computer: Computer) -> None:
        """Rename an artifact of a session."""
        name, new = self.random.choice([("n.md", "o.md"), ("o.md", "n.md")])
        computer.db.user("ann").session("trip").artifacts.rename(name, new)

    def forget_message(self, computer: Computer) -> None:
        """Forget a message of a session that has no branches."""
        session = computer.db.user("ann").session(self.random.choice(SESSIONS))
        if session.head() and not session.branches():
            found = list(session.messages())
            if found:
                message = self.random.choice(found)
                session.forget(message.seq)
                self.forgotten.add(message.text.split()[0])
                computer.untold.add(message.text.split()[0])
                self.removed.add(message.text.split()[0])

    def remove_session(self, computer: Computer) -> None:
        """Delete or forget a session."""
        name = self.random.choice(SESSIONS)
        owner = computer.db.user("ann")
        words = {
            line["text"].split()[0]
            for line in lines_of(computer.db)
            if line["kind"] == "message" and line["session"] == name
        }
        if self.random.random() < 0.5:
            owner.delete(session=name)
        else:
            owner.forget(session=name)
            self.forgotten |= words
            computer.untold |= words
        self.removed |= words

    # What happens to devices.

    def sync(self, computer: Computer) -> None:
        """Sync; the process may be killed at any step of it."""
        steps = self.random.choice([0, 0, 0, 1, 2, 3, 4, 5])
        with killed_after(steps), suppress(Killed):
            computer.sync()

    def carry_some(self, computer: Computer) -> None:
        """Carry files to another replica, some of them badly."""
        self.carry(computer, self.random.choice(self.computers), faults=True)

    def back_up(self, computer: Computer) -> None:
        """Make a backup, or go back to it."""
        if self.random.random() < 0.5:
            computer.save()
        elif computer.backup is not None:
            before = words_of(computer.db)
            computer.restore()
            self.forgotten -= computer.untold
            self.deleted = {uid: one for uid, one in self.deleted.items() if one is not computer}
            computer.untold.clear()
            others = [words_of(one.db) for one in self.computers if one is not computer]
            self.said -= (before - words_of(computer.db)).difference(*others)

    def wait(self, _computer: Computer) -> None:
        """Let a year pass."""
        self.now_ms += YEAR_MS

    def carry(  # noqa: C901, PLR0912 (one fault after the other)
        self, source: Computer, target: Computer, *, faults: bool
    ) -> None:
        """Let a replica have what another one has."""
        if source is target:
            return
        bits = self.random
        for path in sorted(source.folder.rglob("*")):
            there = target.folder / path.relative_to(source.folder)
            if path.is_dir() or path.name.endswith(".partial"):
                continue
            if path.parent.name in target.devices:
                continue
            data = path.read_bytes()
            if (
                path.parent == source.folder
                and there.exists()
                and there.stat().st_size >= len(data)
            ):
                continue
            if path.name == "status.json" and there.exists() and there.read_bytes() != data:
                mine = source.folder / path.relative_to(source.folder)
                if (
                    path.parent.name not in source.devices
                    and mine.stat().st_mtime < there.stat().st_mtime
                ):
                    continue
            if faults and bits.random() < 0.2:
                continue
            if faults and bits.random() < 0.1 and data:
                data = data[: bits.randrange(len(data))]
            there.parent.mkdir(parents=True, exist_ok=True)
            if not there.exists() or not faults or len(there.read_bytes()) < len(data):
                there.write_bytes(data)
        for name in source.devices:
            there = target.folder / name
            if not (source.folder / name).exists():
                shutil.rmtree(there, ignore_errors=True)
            for path in there.glob("*"):
                if not (source.folder / name / path.name).exists():
                    path.unlink()

    def settle(self) -> None:
        """Carry and sync until nobody has news."""
        for computer in self.computers:
            for name in computer.devices:
                for other in self.computers:
                    if other is not computer:
                        shutil.rmtree(other.folder / name, ignore_errors=True)
        for _ in range(8):
            for computer in self.computers:
                for other in self.computers:
                    self.carry(other, computer, faults=False)
                computer.sync()
            if len({json.dumps(canonical(one.db)) for one in self.computers}) == 1:
                break

    def check(self) -> list[str]:
        """Return what is wrong after all have settled."""
        found = [canonical(one.db) for one in self.computers]
        wrong = [
            f"c{number} differs: {sorted(set(one) ^ set(found[0]))[:6]}"
            for number, one in enumerate(found)
            if one != found[0]
        ]
        for number, (computer, lines) in enumerate(zip(self.computers, found, strict=True)):
            text = "\n".join(lines)
            wrong += [
                f"c{number} lost {word}" for word in self.said - self.removed if word not in text
            ]
            every = json.dumps(list(computer.db.export_lines()))
            wrong += [
                f"c{number} has {word}"
                for word in self.forgotten - self.repeated
                if f"{word} " in every
            ]
            wrong += [f"c{number} has {uid} again" for uid in self.deleted if f'"{uid}"' in text]
            wrong += [f"c{number}: {one}" for one in computer.db.file.check(deep=True)]
            ann, first = computer.db.user("ann"), self.computers[0].db.user("ann")
            wrong += [
                f"c{number} lists other branches of {name}"
                for name in SESSIONS
                if (ann.session(name).head() is not None)
                and [one.name for one in ann.session(name).branches()]
                != [one.name for one in first.session(name).branches()]
            ]
        return wrong


# By how often they happen.
ACTIONS = {
    "append": 30,
    "branch": 3,
    "title": 3,
    "remember": 8,
    "change_entry": 6,
    "delete_entry": 3,
    "put_item": 5,
    "delete_item": 2,
    "put_state": 4,
    "delete_state": 1,
    "save": 5,
    "forget_message": 2,
    "remove_session": 1,
    "sync": 25,
    "carry_some": 25,
    "back_up": 2,
    "wait": 1,
}


# Besides, in new histories: those above stay as they are, so that a seed gives what it gave.
EVERY = {**ACTIONS, "repeat": 3, "pin": 3, "retire": 3}

# What only happens to branches, which may be empty, are deleted, and lose messages.
OF_BRANCHES = {"empty_branch": 2, "describe_branch": 1, "delete_branch": 1, "remove_anywhere": 2}
ALL = {**EVERY, **OF_BRANCHES}
# What only happens to files, which are saved by two names and renamed.
FILES = {
    "rename_artifact": 6,
    "rename_in_session": 4,
    "append": 3,
    **{
        name: ACTIONS[name]
        for name in ("save", "remove_session", "sync", "carry_some", "back_up", "wait")
    },
}
BRANCHES = {
    **{name: 3 * often for name, often in OF_BRANCHES.items()},
    **{
        name: ACTIONS[name]
        for name in ("append", "branch", "remove_session", "sync", "carry_some", "back_up", "wait")
    },
}


def lines_of(db: memdb.MemDB) -> list[dict[str, Any]]:
    """Return the lines of an export."""
    return [json.loads(line) for line in db.export_lines()]


def words_of(db: memdb.MemDB) -> set[str]:
    """Return the first word of each message."""
    return {line["text"].split()[0] for line in lines_of(db) if line["kind"] == "message"}


def canonical(db: memdb.MemDB) -> list[str]:
    """Return what a memory says: content, order and history, without what is local."""
    found = []
    numbers: dict[Any, int] = {}
    lines = [line for line in lines_of(db) if line["kind"] not in LEFT_OUT]
    for line, after in pairwise([*lines, {"kind": "scope"}]):
        kind = line["kind"]
        if kind == after["kind"] == "scope":  # nothing is left of it
            continue
        kept = {name: value for name, value in line.items() if name not in LOCAL.get(kind, ())}
        if kind == "entry":
            kept["history"] = [
                {name: one[name] for name in one if name not in LOCAL["history"]}
                for one in line.get("history", ())
            ]
        if kind == "artifact":
            place = line.get("session"), line["name"]
            kept["order"] = numbers[place] = numbers.get(place, 0) + 1
        found.append(json.dumps(kept, sort_keys=True))
    return sorted(found)


class killed_after:  # noqa: N801 (a context)
    """Raise `Killed` at a step of a sync; 0: never."""

    def __init__(self, steps: int) -> None:
        """Count down *steps*."""
        self.steps = steps

    def _step(self) -> None:
        self.steps -= 1
        if self.steps == 0:
            raise Killed

    def __enter__(self) -> None:
        """Watch the steps."""
        self.publish, self.store = service.publish, service.store
        self.write_status, self.write_partial = service.write_status, service.write_partial
        if not self.steps:
            return

        def before(call: Any) -> Any:
            def made(*args: Any) -> Any:
                self._step()
                result = call(*args)
                self._step()
                return result

            return made

        for name in ("publish", "store", "write_partial", "write_status"):
            setattr(service, name, before(getattr(service, name)))

    def __exit__(self, *_: object) -> None:
        """Watch no longer."""
        service.publish, service.store = self.publish, self.store
        service.write_status, service.write_partial = self.write_status, self.write_partial


def run(
    place: Path, seed: int, steps: int = 40, actions: dict[str, int] | None = None
) -> list[str]:
    """Return what is wrong after a history."""
    world = World(place, seed, actions=actions)
    try:
        for _ in range(steps):
            world.act()
        world.settle()
        return world.check()
    except MemDBError as error:
        return [f"{type(error).__name__}: {error}"]
    finally:
        world.close()
        shutil.rmtree(place, ignore_errors=True)
