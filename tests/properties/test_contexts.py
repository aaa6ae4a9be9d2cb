"""
Random conversations in random budgets: nothing over, nothing lost, nothing told twice.

The conversations have every role, tools called side by side and answered in any
order, results that answer nothing, empty and huge messages; between them the
summaries are made, compacted and archived. What a context costs is counted again
here, from the messages that come out of it.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from shape_checks import CHECKS

import memdb
from memdb import MemDB, Session
from memdb.conversations.tool_calls import units
from memdb.models.messages import ContextWindow, Message
from memdb.models.summaries import Summary
from memdb.text.parts import extra_tokens, without_media
from memdb.text.tokens import counter_by_name

FRAME = 4  # tokens that a message costs besides its words
LEAST = 12  # tokens of the smallest view of a message
LOOKED_BACK = 50  # messages after which a result without its call is nobody's any more
TOLD = {"system", "message", "summary", "digest", "omitted"}

WORDS = ["tea", "Oslo,", "we", "decided", "42", "report.pdf", "because", "北京", "</memory>", "no."]

SMALL = st.sampled_from([0, 1, 3, 8, 8, 20, 20, 60, 60, 200])
SIZES = st.one_of(SMALL, SMALL, SMALL, st.sampled_from([700, 3_000, 20_000]))
BUDGETS = st.one_of(st.integers(50, 400), st.integers(50, 4_000), st.integers(50, 100_000))
QUERIES = st.sampled_from([None, "", "the of", "tea in Oslo", "北京", "report 42 " * 200, 'OR * "'])


def words(tokens: int, number: int) -> str:
    """Return a text of about so many tokens, another one for another number."""
    said = (WORDS[(number * 7 + place * place) % len(WORDS)] for place in itertools.count())
    return f"{number}: {' '.join(itertools.islice(said, tokens))}" if tokens else ""


def talk(count: int, tokens: int, first: str) -> list[dict[str, Any]]:
    """Return user and assistant in turns."""
    roles = ["user", "assistant"] if first == "user" else ["assistant", "user"]
    return [{"role": roles[place % 2], "text": words(tokens, place)} for place in range(count)]


def tools(
    order: list[int], answered: int, tokens: int, heard: int, prefix: str
) -> list[dict[str, Any]]:
    """Return a call of several tools, some answers in *order*, and what is said in between."""
    calls = [
        {"type": "tool_call", "id": f"{prefix}{one}", "name": "read", "arguments": '{"n": 1}'}
        for one in range(len(order))
    ]
    said = [{"role": "assistant", "text": "", "parts": calls}]
    for place, one in enumerate(order[:answered]):
        content = words(tokens, one) or "ok"
        result = {"type": "tool_result", "tool_call_id": f"{prefix}{one}", "content": content}
        said.append({"role": "tool", "parts": [result]})
        if place < heard:
            said.append({"role": "user", "text": "And then?", "metadata": {"n": place}})
    return said


RUNS = st.one_of(
    st.builds(talk, st.integers(1, 25), SIZES, st.sampled_from(["user", "assistant"])),
    st.builds(talk, st.integers(5, 60), SMALL, st.just("user")),
    st.permutations(range(4)).flatmap(
        lambda order: st.builds(
            tools,
            st.just(list(order)),
            st.integers(0, 4),
            SIZES,
            st.integers(0, 2),
            st.sampled_from(["a", "b"]),
        )
    ),
    st.sampled_from(
        [
            [{"role": "system", "text": "Be brief and kind."}],
            [{"role": "tool", "text": "a result of nothing"}],
            [
                {
                    "role": "tool",
                    "parts": [{"type": "tool_result", "tool_call_id": "zz", "content": "lost"}],
                }
            ],
            [{"role": "user", "parts": [{"type": "image", "url": "https://example.org/a.png"}]}],
            [{"role": "assistant", "text": "", "metadata": {"empty": True}}],
        ]
    ),
)
WORK = st.sampled_from(["nothing", "nothing", "run_pending", "compact", "archive", "context"])


class Life:
    """A session, and what was said in it as it was given."""

    def __init__(self, db: MemDB) -> None:
        """Begin with nothing said."""
        self.db = db
        self.chat = db.scope("ann").session("trip")
        self.given: list[dict[str, Any]] = []

    def live(self, steps: list[tuple[list[dict[str, Any]], str]]) -> None:
        """Say each run, and work after it."""
        for run, work in steps:
            self.chat.extend([{**one, "created_ms": 1_700_000_000_000} for one in run])
            self.given += run
            if work == "run_pending":
                self.db.jobs.run(3)
            elif work == "compact":
                self.chat.summaries.compact(keep_last=7)
            elif work == "archive":
                self.chat.archive(keep_last=3)
            elif work == "context":
                with_room(self.chat, 900, "tea")


def with_room(chat: Session, budget: int, query: str | None) -> ContextWindow | None:
    """Return the context, None where the budget is too small for it."""
    try:
        return chat.context(budget, query)
    except memdb.TooLarge:
        return None


def cost(message: Message, counter: Any) -> int:
    """Return what a message costs: words, what tools were told and gave, media, and the frame."""
    told = []
    for part in message.parts or []:
        if part["type"] == "tool_call":
            told.append(f"{part['name']}({part['arguments']})")
        elif part["type"] == "tool_result":
            told.append(part["content"])
    extra = "\n".join(told)
    text = message.text if extra in ("", message.text) else f"{message.text}\n{extra}"
    media = extra_tokens(message.parts, memdb.Settings(), counter.name)
    return int(counter.count_many([text])[0]) + media + FRAME


def below(chat: Session, summary: Summary) -> Iterator[Message]:
    """Yield the messages that a node stands for, down through every depth, page by page."""
    after: int | None = 0
    while after is not None:
        page = chat.summaries.expand(summary.id, after_seq=after, limit=7)
        for one in page.summaries:
            yield from below(chat, one)
        yield from page.messages
        after = page.next_seq


def assert_fits(chat: Session, window: ContextWindow, budget: int, counter: Any) -> None:
    """Fail unless the context keeps to its budget and tells every seq once."""
    stored = {one.seq: one for one in chat.messages()}
    counted = sum(cost(one, counter) for one in window.messages)
    seqs = [one.seq for one in window.messages if one.seq]
    told = sorted(
        seq
        for piece in window.pieces
        if piece.kind in TOLD and piece.first_seq is not None and piece.last_seq is not None
        for seq in range(piece.first_seq, piece.last_seq + 1)
    )

    assert window.tokens == sum(piece.tokens for piece in window.pieces) == counted <= budget
    assert all(piece.tokens >= 0 and piece.reason for piece in window.pieces)
    assert told == list(range(1, chat.last_seq + 1))
    assert seqs == sorted(seqs)
    assert seqs[-1] == chat.last_seq
    shortened = {
        piece.first_seq for piece in window.pieces if piece.reason.endswith("over the budget")
    }
    for one in window.messages:
        if one.seq and one.seq not in shortened:
            whole = stored[one.seq]
            assert without_media(one.parts or ()) == without_media(whole.parts or ())
            assert one.replace(parts=whole.parts) == whole
    head = {piece.first_seq for piece in window.pieces if piece.kind == "system"}
    spoken = [one.role for one in window.messages if one.seq not in head]
    assert spoken[:1] in ([], ["user"])


def assert_pairs(given: list[dict[str, Any]], window: ContextWindow) -> None:
    """Fail if a tool result is shown without its call, or a call without its results."""
    shown = {one.seq for one in window.messages}
    latest: dict[str, int] = {}
    for seq, one in enumerate(given, start=1):
        for part in one.get("parts", ()):
            if part["type"] == "tool_call":
                latest[part["id"]] = seq
            elif part["type"] == "tool_result":
                called = latest.get(part["tool_call_id"])
                if called is not None and seq - called < LOOKED_BACK:
                    assert (called in shown) == (seq in shown)


def assert_lossless(chat: Session, given: list[dict[str, Any]]) -> None:
    """Fail unless the frontier, taken apart to the end, gives what was said, byte for byte."""
    tree, said = chat.summaries.tree(), list(chat.messages())
    found = said[: tree.head_seq]
    for summary in tree.frontier:
        found += below(chat, summary)
    found += said[tree.first_raw_seq - 1 :]

    assert [one.seq for one in found] == list(range(1, len(given) + 1))
    assert [one.role for one in found] == [one["role"] for one in given]
    assert [one.parts for one in found] == [one.get("parts") for one in given]
    assert [one.metadata for one in found] == [one.get("metadata") for one in given]
    for one, told in zip(found, given, strict=True):
        assert one.text == told.get("text") or not told.get("text")


def assert_too_small(chat: Session, budget: int, counter: Any) -> None:
    """Fail if a context would have fitted: system text, naming and views of the newest unit."""
    said = list(chat.messages())
    head = chat.summaries.tree().head_seq
    least = sum(cost(one, counter) for one in said[:head]) + 32
    if len(said) > head:
        least += sum(min(cost(one, counter), LEAST) for one in units(said[head:])[-1])
    assert budget < least


def check(
    steps: list[tuple[list[dict[str, Any]], str]],
    asked: list[tuple[int, str | None]],
    counter_name: str,
) -> None:
    """Live through *steps* and look at a context per budget and query."""
    counter = counter_by_name(counter_name)
    with memdb.open(":memory:", embedder=None, counter=counter_name) as db:
        life = Life(db)
        life.live(steps)
        for budget, query in asked:
            window = with_room(life.chat, budget, query)
            if window is None:
                assert_too_small(life.chat, budget, counter)
                continue
            assert_fits(life.chat, window, budget, counter)
            assert_pairs(life.given, window)
            assert life.chat.context(budget, query) == window
            for shape, accepted in CHECKS.items():
                accepted(window.to(shape))
        assert_lossless(life.chat, life.given)
        assert db.file.check(deep=True) == []


LIVES = st.lists(st.tuples(RUNS, WORK), min_size=1, max_size=9)
ASKED = st.lists(st.tuples(BUDGETS, QUERIES), min_size=1, max_size=3)
CALM = [HealthCheck.too_slow, HealthCheck.data_too_large]


@given(steps=LIVES, asked=ASKED)
@settings(max_examples=4, deadline=None, suppress_health_check=CALM)
def test_a_conversation_fits_any_budget(
    steps: list[tuple[list[dict[str, Any]], str]], asked: list[tuple[int, str | None]]
) -> None:
    """Never over, every seq told once, pairs whole, and all of it found again below."""
    check(steps, asked, "estimate")


@pytest.mark.slow
@given(
    steps=st.lists(st.tuples(RUNS, WORK), min_size=1, max_size=25),
    asked=ASKED,
    counter=st.sampled_from(["estimate", "cl100k_base", "o200k_base"]),
)
@settings(max_examples=300, deadline=None, suppress_health_check=CALM)
def test_many_conversations_fit_any_budget(
    steps: list[tuple[list[dict[str, Any]], str]],
    asked: list[tuple[int, str | None]],
    counter: str,
) -> None:
    """The same for longer ones, and for each counter."""
    check(steps, asked, counter)


@given(steps=LIVES, asked=ASKED)
@settings(max_examples=2, deadline=None, suppress_health_check=CALM)
def test_two_files_give_the_same(
    steps: list[tuple[list[dict[str, Any]], str]], asked: list[tuple[int, str | None]]
) -> None:
    """The same life lived twice leads to the same words in every context."""
    lived = []
    for _ in range(2):
        with memdb.open(":memory:", embedder=None, counter="estimate") as db:
            life = Life(db)
            life.live(steps)
            windows = [with_room(life.chat, *one) for one in asked]
            lived.append([one and [(m.role, m.text) for m in one.messages] for one in windows])

    assert lived[0] == lived[1]
