"""What tells a span within a limit: each seq once, the oldest in the fewest words."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from memdb import MemDB, Session, Settings
from memdb.context.blocks import Block
from memdb.context.coverage import Coverage


def say(chat: Session, count: int) -> None:
    """Add messages of about 20 tokens, each of its own words."""
    start = chat.last_seq
    chat.extend(
        [
            {"role": "user", "text": f"Note {n}: {' '.join(f'w{n}x{k}' for k in range(10))}"}
            for n in range(start + 1, start + count + 1)
        ]
    )


@contextmanager
def coverage(db: MemDB, chat: Session) -> Iterator[Coverage]:
    """Give what covers a session, inside one read."""
    services = db._services
    with db._db.read() as tx:
        (row,) = tx.all("SELECT id FROM sessions WHERE name = :name", {"name": chat.name})
        yield Coverage(tx, services.summaries, services.counting, (row[0], chat.name))


def spans(made: Block | None) -> list[tuple[str, int | None, int | None]]:
    """Return kind and span of each piece but the frame."""
    assert made is not None
    return [
        (piece.kind, piece.first_seq, piece.last_seq)
        for piece in made.pieces
        if piece.kind != "frame"
    ]


def assert_whole(made: Block | None, first: int, last: int, limit: int) -> None:
    """Fail unless each seq is told once, in order, within the limit."""
    told = [seq for _, low, high in spans(made) for seq in range(low or 0, (high or 0) + 1)]
    assert told == list(range(first, last + 1))
    assert made is not None
    assert made.tokens <= limit
    assert made.tokens == sum(piece.tokens for piece in made.pieces)


@pytest.fixture
def chat(db: MemDB, fill: Callable[..., None]) -> Session:
    """Return a session of 305 messages and its summaries."""

    def make(db: MemDB) -> None:
        say(db.scope("ann").session("trip"), 305)
        db.jobs.run()

    fill(db, make)
    return db.scope("ann").session("trip")


@pytest.mark.parametrize("limit", [40, 200, 1_000, 20_000], ids=str)
def test_every_end_is_met(db: MemDB, chat: Session, limit: int) -> None:
    """In a leaf, at its end, below a deep node, behind the last leaf."""
    with coverage(db, chat) as covering:
        for end in (1, 5, 9, 10, 11, 29, 30, 31, 89, 135, 299, 300, 301, 305):
            assert_whole(covering.before(1, end, limit), 1, end, limit)


def test_nothing_needs_no_telling(db: MemDB, chat: Session) -> None:
    """A span that ends before it begins."""
    with coverage(db, chat) as covering:
        assert covering.before(1, 0, 1_000) is None


def test_a_node_across_the_end_is_opened(db: MemDB, chat: Session) -> None:
    """Into its sources, down to the leaf, of which the messages are condensed."""
    (top, *_) = [summary for summary in chat.summaries.tree().summaries if summary.depth == 2]

    with coverage(db, chat) as covering:
        made = covering.before(1, top.last_seq - 4, 20_000)

    last = top.last_seq
    assert spans(made)[-3:] == [
        ("summary", last - 29, last - 20),
        ("summary", last - 19, last - 10),
        ("digest", last - 9, last - 4),
    ]
    assert spans(made)[0][1:] == (1, 30)


def test_what_has_no_leaf_is_condensed(db: MemDB, chat: Session) -> None:
    """Ten by ten; nothing of it is stored."""
    before = chat.summaries.tree()
    say(chat, 20)

    with coverage(db, chat) as covering:
        made = covering.before(1, 323, 20_000)

    digests = [("digest", 301, 310), ("digest", 311, 320), ("digest", 321, 323)]
    assert spans(made)[-3:] == digests
    assert chat.summaries.tree().summaries == before.summaries


def test_the_oldest_are_told_in_fewer_words(db: MemDB, chat: Session) -> None:
    """Before anything is left out; the newest are whole."""
    with coverage(db, chat) as covering:
        reasons = [
            {
                piece.reason.split(":")[0]: piece.first_seq
                for piece in (made.pieces if made else ())
                if piece.kind != "frame"
            }
            for made in (covering.before(1, 300, limit) for limit in (450, 20_000))
        ]

    narrow, wide = reasons
    assert narrow["in few words"] < narrow["summary of the messages before the fresh tail"]
    assert list(wide) == ["summary of the messages before the fresh tail"]


def test_a_limit_of_nothing_names_the_span(db: MemDB, chat: Session) -> None:
    """One sentence, over the limit: the caller knows what it costs."""
    with coverage(db, chat) as covering:
        made = covering.before(1, 300, 1)

    assert spans(made) == [("omitted", 1, 300)]
    assert made is not None
    assert made.message.text == "[Messages 1-300 are not shown here.]"


@pytest.mark.parametrize(
    "policy",
    [
        Settings(summary_messages=2, summary_condense_at=3, summary_group=2, summary_max_depth=8),
        Settings(summary_messages=300),
        Settings(summary_max_depth=0),
        Settings(summary_messages=7, summary_condense_at=9, summary_group=8, summary_max_depth=1),
    ],
    ids=["deep", "huge leaves", "flat", "wide"],
)
def test_every_policy_is_covered(open_db: Callable[..., MemDB], policy: Any) -> None:
    """Whatever the shape of the DAG."""
    db = open_db(":memory:", settings=policy, embedder=None)
    chat = db.scope("ann").session("trip")
    say(chat, 650)
    db.jobs.run()

    with coverage(db, chat) as covering:
        for end in (7, 250, 299, 333, 641, 650):
            for limit in (60, 800, 30_000):
                assert_whole(covering.before(1, end, limit), 1, end, limit)
