"""Recall, context, append and the last messages: how many snapshots and statements each takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np  # noqa: F401 (a recall with it may run no more statements than one without)
import pytest

import memdb
from memdb import MemDB, Scope, Session
from memdb.engine.sqlite import pool
from memdb.engine.sqlite.connection import Tx

QUERY = "which tea does Ann drink?"
# Two read the links that put newer entries first and fold repetitions, one the entries that were
# learnt from messages; one counts the items, which saves the four that look for items.
MOST_STATEMENTS = 31


class Reads:
    """What a call did to the file: outermost snapshots, and statements with BEGIN and ROLLBACK."""

    def __init__(self) -> None:
        """Begin with none."""
        self.snapshots = self.statements = self.writes = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """
    Return a context that counts snapshots and statements of calls.

    The watch over the file has a snapshot of its own ten times a second: it rests meanwhile.
    """

    @contextmanager
    def count() -> Iterator[Reads]:
        reads = Reads()
        begin_read, begin = Tx.begin_read, Tx.begin

        def read(tx: Tx) -> None:
            reads.snapshots += 1
            begin_read(tx)

        def write(tx: Tx) -> None:
            reads.writes += 1
            begin(tx)

        def counting(run: Callable[..., Any]) -> Callable[..., Any]:
            def counted_run(tx: Tx, *values: Any) -> Any:
                reads.statements += 1
                return run(tx, *values)

            return counted_run

        with monkeypatch.context() as patched:
            patched.setattr(pool, "CHECK_S", float("inf"))
            for name in ("all", "one", "run", "many"):
                patched.setattr(Tx, name, counting(getattr(Tx, name)))
            patched.setattr(Tx, "begin_read", read)
            patched.setattr(Tx, "begin", write)
            yield reads

    return count


@pytest.fixture
def db(tmp_path: Any) -> Iterator[MemDB]:
    """Return a file with messages, entries, an artifact and shared entries, all embedded."""
    with memdb.open(tmp_path / "agent.db", counter="estimate") as opened:
        ann = opened.scope("ann")
        for name in ("home", "trip"):
            chat = ann.session(name)
            for number in range(30):
                chat.append("user", f"message {number} on flights to Oslo {name}", author="Ann")
            chat.append("user", "I drink green tea each morning.", author="Ann")
        ann.remember("Ann drinks green tea.")
        ann.remember("Ann lives in Oslo.")
        ann.artifacts.save("user:plan.md", "Buy tea, and book the flights.")
        opened.jobs.run()
        yield opened


@pytest.fixture
def ann(db: MemDB) -> Scope:
    """Return a scope that was read before: its number is known."""
    ann = db.scope("ann")
    ann.recall(QUERY)
    return ann


@pytest.fixture
def chat(ann: Scope) -> Session:
    """Return a session with summaries."""
    chat = ann.session("trip")
    chat.context(200)
    return chat


@pytest.mark.parametrize(
    ("options", "snapshots"),
    [
        pytest.param({}, 2, id="plain"),
        pytest.param({"session": "trip"}, 2, id="session"),
        pytest.param({"group": "session"}, 2, id="grouped"),
        pytest.param({"as_of": 2_000_000_000_000}, 2, id="as of a time"),
        pytest.param({"since": 1_000, "until": 2_000_000_000_000}, 2, id="timed"),
        pytest.param({"kinds": ("entry",)}, 2, id="entries"),
        pytest.param({"kinds": ("summary",)}, 2, id="summaries"),
        pytest.param({"explain": True, "rerank": False}, 2, id="explained"),
        pytest.param({"by": "words"}, 1, id="words"),
        pytest.param({"limit": 1000}, 2, id="many"),
    ],
)
def test_recall_reads_in_two_snapshots(
    ann: Scope, counted: Callable[[], Any], options: dict[str, Any], snapshots: int
) -> None:
    """Questions are embedded between the two; a search by words takes one."""
    with counted() as reads:
        hits = ann.recall(QUERY, min_score=0, **options)

    assert hits
    assert reads.snapshots == snapshots
    assert reads.statements <= MOST_STATEMENTS
    assert reads.writes == 0


def test_all_kinds_are_read_within_the_budget(ann: Scope, counted: Callable[[], Any]) -> None:
    """A recall whose answer holds every kind keeps to it."""
    with counted() as reads:
        hits = ann.recall("green tea flights plan", 100)

    told = [source.entry_id for hit in hits for source in (hit.source, *hit.also)]
    assert {hit.kind for hit in hits} >= {"message", "artifact"}
    assert any(told)  # an entry is one hit with the message of the same words
    assert reads.snapshots == 2
    assert reads.statements <= MOST_STATEMENTS


def test_why_reads_in_two_snapshots(ann: Scope, counted: Callable[[], Any]) -> None:
    """The explanation is another last stage, not another way."""
    with counted() as reads:
        assert ann.why(QUERY, "trip", 31).rank

    assert (reads.snapshots, reads.statements <= MOST_STATEMENTS) == (2, True)


def test_context_reads_in_one_snapshot(chat: Session, counted: Callable[[], Any]) -> None:
    """Nothing is embedded without a question."""
    with counted() as reads:
        assert chat.context(200).pieces

    assert (reads.snapshots, reads.writes) == (1, 0)


def test_context_with_a_question_reads_in_two(chat: Session, counted: Callable[[], Any]) -> None:
    """Recall, pinned entries, summaries and messages are of the same two."""
    with counted() as reads:
        window = chat.context(200, QUERY)

    assert {"recalled", "entry"} & {piece.kind for piece in window.pieces}
    assert (reads.snapshots, reads.writes) == (2, 0)
    assert reads.statements <= 2 * MOST_STATEMENTS


def test_pending_embeddings_are_seen_in_the_first_snapshot(
    ann: Scope, counted: Callable[[], Any]
) -> None:
    """What was just said is embedded first; then the two snapshots follow."""
    ann.session("trip").append("user", "Rooibos is the best of all teas.")

    with counted() as first:
        assert ann.recall("rooibos")[0].source.seq == 32
    with counted() as second:
        ann.recall("rooibos")

    assert first.writes > 0
    assert (second.writes, second.snapshots) == (0, 2)


def test_recall_in_a_transaction_joins_it(
    db: MemDB, ann: Scope, counted: Callable[[], Any]
) -> None:
    """Inside a write, everything is read from it."""
    with db._db.write(), counted() as reads:
        assert ann.recall(QUERY)

    assert reads.snapshots == 0


def test_append_takes_few_statements(chat: Session, counted: Callable[[], Any]) -> None:
    """BEGIN, session, space, its seq in two, row, words, jobs, COMMIT."""
    chat.append("user", "one more")
    with counted() as reads:
        chat.append("user", "and another one")

    assert (reads.snapshots, reads.writes) == (0, 1)
    assert reads.statements <= 9


def test_the_last_messages_take_one_statement(chat: Session, counted: Callable[[], Any]) -> None:
    """Beside BEGIN, the session by its name, and ROLLBACK."""
    with counted() as reads:
        assert len(chat.last(20)) == 20

    assert (reads.snapshots, reads.statements) == (1, 2)
