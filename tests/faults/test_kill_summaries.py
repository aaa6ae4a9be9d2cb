"""
Processes killed while they append, summarise and archive the same sessions.

Nothing that was acknowledged is lost, nothing is done twice but what a killed
process had in its hands, and what is left to do gives the tree of a file on
which nobody was killed.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import summary_child
from counters import count

import memdb
from memdb import MemDB, NewMessage

PROGRAM = Path(summary_child.__file__)

# Past every lease and every wait of a failed job.
ROUND_MS = 4_000_000


class Shaken:
    """A file that two processes work on, round by round, each ending with SIGKILL."""

    def __init__(self, folder: Path, modes: tuple[str, str], seed: int) -> None:
        """Make it in *folder*; *modes* says which of the two has a model."""
        self.path = str(folder / "shaken.db")
        self.log = folder / "calls.log"
        self.log.touch()
        self._modes = modes
        self._moments = random.Random(seed)
        self.rounds = 0
        self.kills = 0
        self.told: dict[tuple[str, int], str] = {}

    @property
    def now_ms(self) -> int:
        """The time after this round, when all leases have ended."""
        return 1_700_000_000_000 + (self.rounds + 1) * ROUND_MS

    def open(self, path: str | None = None, **options: Any) -> MemDB:
        """Open the file with the model of the test, to look at it and to finish the work."""
        model = None
        if "model" in self._modes:
            model = summary_child.Logged(str(self.log), "last")
        return memdb.open(
            path or self.path,
            embedder=None,
            counter="estimate",
            durability="process",
            summarizer=model,
            settings=summary_child.POLICY,
            clock=lambda: self.now_ms,
            **options,
        )

    def shake(self, run: Callable[..., Any]) -> None:
        """Let two processes work, kill one after the other, keep what they acknowledged."""
        self.rounds += 1
        children = [
            run(
                self.path,
                f"r{self.rounds}p{number}",
                mode,
                str(self.log),
                str(self.rounds * ROUND_MS),
                str(self._moments.random()),
            )
            for number, mode in enumerate(self._modes)
        ]
        first = [child.stdout.readline() for child in children]
        assert first == [b"ready\n"] * len(children), [one.stderr.read() for one in children]
        said = []
        for child in children:  # after some messages, however slow the machine is
            said.append(
                b"".join(child.stdout.readline() for _ in range(self._moments.randint(1, 12)))
            )
            time.sleep(self._moments.uniform(0.005, 0.1))
            assert child.poll() is None, child.stderr.read()
            child.send_signal(signal.SIGKILL)
            self.kills += 1
            count("kills")
        for child, begin in zip(children, said, strict=True):
            for line in (begin + child.stdout.read()).split(b"\n")[:-1]:
                session, seq, text = line.decode().split(" ", 2)
                self.told[session, int(seq)] = text
            child.wait(60)

    def assert_sound(self) -> None:
        """Fail unless everything acknowledged is there, gapless, and the file is sound."""
        with self.open() as db:
            assert db.file.check(deep=True) == []
            for session in summary_child.SESSIONS:
                chat = db.scope("ann").session(session)
                said = list(chat.messages())
                assert [one.seq for one in said] == list(range(1, chat.last_seq + 1))
                texts = {(session, one.seq): one.text for one in said}
                told = {place: text for place, text in self.told.items() if place[0] == session}
                assert told.items() <= texts.items()
                assert_tree(chat)

    def finish(self) -> None:
        """Do what is left, as whoever comes last does."""
        with self.open() as db:
            if "model" in self._modes:
                [
                    db.scope("ann").session(name).summaries.upgrade()
                    for name in summary_child.SESSIONS
                ]
            while db.jobs.run():
                pass
            assert db.jobs.pending() == 0
            # A session is looked at at each tenth message; these chunks are smaller.
            [db.scope("ann").session(name).summaries.compact() for name in summary_child.SESSIONS]
            assert db.file.check(deep=True) == []

    def assert_undisturbed(self, folder: Path) -> None:
        """Fail unless the tree of each session is that of a file on which nobody was killed."""
        with self.open() as db:
            for session in summary_child.SESSIONS:
                chat = db.scope("ann").session(session)
                said = [as_new(message) for message in chat.messages()]
                with db._db.read() as tx:
                    found = tx.one("SELECT uid FROM sessions WHERE name = :n", {"n": session})
                if found is None:  # killed before its first message
                    continue
                uid = found[0]
                path = str(folder / f"calm {session}.db")
                with self.open(path, ids=lambda _now_ms, uid=uid: uid) as calm:
                    calm.scope("ann").session(session).extend(said)
                    calm.scope("ann").session(session).summaries.compact()
                    assert nodes_of(calm, session) == nodes_of(db, session)
                    assert list(calm.scope("ann").session(session).messages()) != []

    def calls(self) -> list[tuple[str, ...]]:
        """Return what the model was asked: (who, session, depth, span, hash)."""
        return [tuple(line.split()) for line in self.log.read_text().splitlines()]


def as_new(message: memdb.Message) -> NewMessage:
    """Return a message so that it is stored as it was."""
    return NewMessage(
        message.role,
        message.text,
        parts=message.parts,
        created_ms=message.created_ms,
        uid=message.uid,
    )


def nodes_of(db: MemDB, session: str) -> list[tuple[Any, ...]]:
    """Return the tree without what depends on when it was made: times, and numbers."""
    found = db.scope("ann").session(session).summaries.tree().summaries
    uids = {one.id: one.uid for one in found} | {None: None}
    return [
        (
            one.uid, one.depth, one.first_seq, one.last_seq, one.text, one.hint,
            uids[one.condensed_into],
        )
        for one in found
    ]  # fmt: skip


def assert_tree(chat: memdb.Session) -> None:
    """Fail unless the frontier and the raw messages cover each seq once, and places are unique."""
    tree = chat.summaries.tree()
    seqs: list[int] = []
    for summary in tree.frontier:
        seqs += range(summary.first_seq, summary.last_seq + 1)
    seqs += range(tree.first_raw_seq, tree.last_seq + 1)
    assert seqs == list(range(1, tree.last_seq + 1))
    places = Counter((summary.depth, summary.first_seq) for summary in tree.summaries)
    assert set(places.values()) <= {1}
    assert len({summary.id for summary in tree.summaries}) == len(tree.summaries)


@pytest.fixture
def run() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Return a function that starts the program."""
    started: list[subprocess.Popen[bytes]] = []
    root = str(Path(memdb.__file__).resolve().parent.parent)

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        started.append(
            subprocess.Popen(
                [sys.executable, str(PROGRAM), *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, "PYTHONPATH": root},
            )
        )
        return started[-1]

    yield start
    for child in started:
        if child.poll() is None:
            child.kill()
        child.communicate()


def kill_often(tmp_path: Path, run: Any, modes: tuple[str, str], rounds: int, seed: int) -> Shaken:
    """Kill two processes in each of so many rounds; check after each and at the end."""
    shaken = Shaken(tmp_path, modes, seed)
    for _ in range(rounds):
        shaken.shake(run)
        shaken.assert_sound()
    shaken.finish()
    shaken.assert_sound()
    shaken.assert_undisturbed(tmp_path)
    return shaken


def assert_done_once(shaken: Shaken) -> None:
    """
    Fail if a model was asked twice for the same, beyond what a killed process had in hand.

    The same is a node made of the same texts. A process is in one call at a time.
    """
    made = [call for call in shaken.calls() if call[0] != "last"]
    asked = Counter(call[1:] for call in made)
    again = sum(asked.values()) - len(asked)
    assert again <= shaken.kills
    # Without a kill in between, never: who asks again is of a later round.
    rounds = Counter((call[0].partition("p")[0], *call[1:]) for call in made)
    assert sum(rounds.values()) - len(rounds) == 0


MODES = [("model", "none"), ("model", "model"), ("none", "none")]
FIRST = [MODES[0], *(pytest.param(one, marks=pytest.mark.slow) for one in MODES[1:])]


@pytest.mark.parametrize("modes", FIRST, ids="+".join)
def test_killed_while_summarising_and_archiving(
    tmp_path: Path, run: Any, modes: tuple[str, str]
) -> None:
    """Three rounds of two kills, with models, without any, and with one."""
    shaken = kill_often(tmp_path, run, modes, 3, seed=3)

    assert len(shaken.told) > 0
    if modes == ("model", "model"):
        assert_done_once(shaken)


@pytest.mark.slow
@pytest.mark.parametrize("modes", MODES, ids="+".join)
def test_a_hundred_kills_while_summarising_and_archiving(
    tmp_path: Path, run: Any, modes: tuple[str, str]
) -> None:
    """The same at a hundred random moments on files that grow."""
    shaken = kill_often(tmp_path, run, modes, 50, seed=4)

    assert shaken.kills == 100
    assert len(shaken.told) > 500
    if modes == ("model", "model"):
        assert_done_once(shaken)
