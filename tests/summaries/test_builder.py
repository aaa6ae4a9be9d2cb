"""The summary DAG: which summaries there are, whoever makes them, and what failures cost."""

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.models.settings import Settings
from memdb.models.summaries import SourceItem, SummaryText
from memdb.summaries.tree import SummaryTree
from memdb.tables import jobs


class Writer:
    """A summariser that counts its calls and says what span it was asked for; may fail."""

    name = "writer"
    quality = "model"

    def __init__(self) -> None:
        """Answer everything."""
        self.asked: list[tuple[int, int, int, int]] = []
        self.answers: list[Any] = []
        self.fail: Exception | None = None

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short summary, or what the test put first in `answers`."""
        span = source[0].first_seq, source[-1].last_seq
        self.asked.append((depth, *span, limit_tokens))
        if self.fail is not None:
            raise self.fail
        if self.answers:
            return self.answers.pop(0)
        return SummaryText(f"w{depth} {span[0]} to {span[1]}")


@pytest.fixture
def writer() -> Writer:
    """Return a summariser that works."""
    return Writer()


def say(
    db: MemDB, count: int, session: str = "trip", text: str = "We talked about tea, no {n}."
) -> memdb.Session:
    """Return a session with so many messages in turns."""
    chat = db.scope("ann").session(session)
    start = chat.last_seq
    chat.extend(
        [
            {"role": "user" if n % 2 else "assistant", "text": text.format(n=n)}
            for n in range(start + 1, start + count + 1)
        ]
    )
    return chat


def shape(tree: SummaryTree) -> dict[int, int]:
    """Return how many summaries each depth has."""
    return dict(Counter(summary.depth for summary in tree.summaries))


def assert_covers(tree: SummaryTree) -> None:
    """Fail unless head, frontier and raw messages cover each seq once."""
    seqs: list[int] = list(range(1, tree.head_seq + 1))
    for summary in tree.frontier:
        seqs += range(summary.first_seq, summary.last_seq + 1)
    seqs += range(tree.first_raw_seq, tree.last_seq + 1)
    assert seqs == list(range(1, tree.last_seq + 1))


def test_ten_messages_make_a_leaf(db: MemDB) -> None:
    """Nine do not; the eleventh waits for the next leaf."""
    chat = say(db, 9)
    db.jobs.run()
    assert chat.summaries.tree().summaries == ()

    say(db, 2)
    db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries
    assert (leaf.depth, leaf.first_seq, leaf.last_seq, leaf.message_count) == (0, 1, 10, 10)
    assert chat.summaries.tree().first_raw_seq == 11


@pytest.mark.parametrize("steps", [1, 3, 7, 100], ids=str)
def test_the_tree_does_not_depend_on_how_messages_came(
    open_db: Callable[..., MemDB], steps: int
) -> None:
    """One append or many, summarised at each or at the end: the same summaries with the same ids."""
    whole, parts = open_db(":memory:"), open_db(":memory:")
    for db in (whole, parts):
        db.scope("ann").session("trip").append("user", "We talked about tea, no 1.")
    say(whole, 299)
    whole.jobs.run()
    while parts.scope("ann").session("trip").last_seq < 300:
        say(parts, min(steps, 300 - parts.scope("ann").session("trip").last_seq))
        parts.jobs.run()

    first, second = (db.scope("ann").session("trip").summaries.tree() for db in (whole, parts))

    assert [(n.depth, n.first_seq, n.last_seq, n.text, n.hint) for n in first.summaries] == [
        (n.depth, n.first_seq, n.last_seq, n.text, n.hint) for n in second.summaries
    ]
    assert_covers(second)


def test_nodes_are_condensed_at_six_in_threes(db: MemDB) -> None:
    """The oldest three of six; the newest stay as they are, so that detail does."""
    chat = say(db, 50)
    db.jobs.run()
    assert shape(chat.summaries.tree()) == {0: 5}

    say(db, 10)
    db.jobs.run()

    tree = chat.summaries.tree()
    assert shape(tree) == {0: 6, 1: 1}
    (above,) = [summary for summary in tree.summaries if summary.depth == 1]
    assert (above.first_seq, above.last_seq) == (1, 30)
    assert [summary.first_seq for summary in tree.frontier] == [1, 31, 41, 51]
    assert_covers(tree)


@pytest.mark.parametrize("count", [1_000, pytest.param(3_000, marks=pytest.mark.slow)])
def test_the_number_of_nodes_is_what_the_design_says(db: MemDB, writer: Writer, count: int) -> None:
    """n/10 + n/30 + n/90 + n/270 within a tenth, each made by one call; never a depth of 4."""
    chat = say(db, count)
    db.jobs.run()

    tree = chat.summaries.tree()
    expected = count / 10 + count / 30 + count / 90 + count / 270
    assert abs(len(tree.summaries) - expected) <= expected / 10
    assert max(shape(tree)) == 3
    assert_covers(tree)


def test_one_call_of_the_model_per_node(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """Appended one at a time with work in between, as an agent does."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    for number in range(600):
        chat.append("user", f"Message number {number} about tea.")
        db.jobs.run()

    summaries = chat.summaries.tree().summaries

    assert len(writer.asked) == len(summaries) == 60 + 19 + 5 + 0 + 0 or len(writer.asked) == len(
        summaries
    )
    assert {summary.quality for summary in summaries} == {"model"}
    assert len({(depth, first) for depth, first, _, _ in writer.asked}) == len(summaries)


def test_the_policy_decides(open_db: Callable[..., MemDB]) -> None:
    """Other chunks, groups and depths than the defaults."""
    policy = Settings(
        summary_messages=3, summary_condense_at=3, summary_group=2, summary_max_depth=1
    )
    db = open_db(":memory:", settings=policy)
    chat = say(db, 20)
    db.jobs.run()

    tree = chat.summaries.tree()

    assert [n.message_count for n in tree.summaries if n.depth == 0] == [3] * 6
    assert shape(tree) == {0: 6, 1: 2}
    assert_covers(tree)


def test_system_messages_at_the_start_have_no_node(db: MemDB) -> None:
    """They are the system text of every context; later ones are said like others."""
    chat = db.scope("ann").session("trip")
    chat.append("system", "Be brief.")
    chat.append("system", "Be kind.")
    say(db, 10)
    chat.append("system", "Now be slow.")
    say(db, 9)
    db.jobs.run()

    tree = chat.summaries.tree()

    assert (tree.head_seq, [n.first_seq for n in tree.summaries]) == (2, [3, 13])
    assert_covers(tree)


def tool_call(*ids: str) -> dict[str, Any]:
    """Return an assistant message that calls a tool per id."""
    parts = [
        {"type": "tool_call", "id": one, "name": "read", "arguments": '{"path": "a.txt"}'}
        for one in ids
    ]
    return {"role": "assistant", "parts": parts}


def tool_result(one: str) -> dict[str, Any]:
    """Return the tool message that answers a call."""
    return {
        "role": "tool",
        "parts": [{"type": "tool_result", "tool_call_id": one, "content": "ok"}],
    }


def test_a_leaf_never_parts_a_call_from_its_results(db: MemDB) -> None:
    """It is longer rather."""
    chat = say(db, 8)
    chat.extend(
        [tool_call("a", "b"), tool_result("a"), {"role": "user", "text": "And?"}, tool_result("b")]
    )
    say(db, 10)
    db.jobs.run()

    assert [(n.first_seq, n.last_seq) for n in chat.summaries.tree().summaries] == [
        (1, 12),
        (13, 22),
    ]


def test_a_call_without_result_is_waited_for(db: MemDB) -> None:
    """While it may still come; then it is taken as it is."""
    chat = say(db, 9)
    chat.extend([tool_call("a")])
    say(db, 20)
    db.jobs.run()
    assert chat.summaries.tree().summaries == ()

    say(db, 40)
    db.jobs.run()

    tree = chat.summaries.tree()
    assert tree.summaries[-1].message_count == 10 or len(tree.summaries) > 1
    assert_covers(tree)


def test_empty_messages_make_a_leaf_too(db: MemDB) -> None:
    """Nothing was said, and the leaf says so."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": ""} for _ in range(10)])
    db.jobs.run()

    assert [summary.text for summary in chat.summaries.tree().summaries] == ["(no words)"]


# -- a summariser that fails


@pytest.mark.parametrize(
    "answer",
    [
        SummaryText(""),
        SummaryText("  \n "),
        SummaryText("word " * 500),
        SummaryText(None),
        None,
        "text alone",
        b"bytes",
    ],
    ids=repr,
)
def test_a_bad_answer_is_asked_for_again_then_replaced(
    open_db: Callable[..., MemDB], writer: Writer, answer: Any
) -> None:
    """Nothing, garbage or too much: the second try counts, else an extract stands in."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 10)
    writer.answers = [answer]
    db.jobs.run()
    (leaf,) = chat.summaries.tree().summaries
    assert (leaf.quality, leaf.text) == ("model", "w0 1 to 10")

    say(db, 10)
    writer.answers = [answer, answer]
    with pytest.raises(memdb.PortError, match="writer"):
        db.jobs.run()

    second = chat.summaries.tree().summaries[1]
    assert (second.quality, second.summarizer) == ("fallback", "extractive-2")
    assert "tea" in second.text
    assert_covers(chat.summaries.tree())


def test_the_second_try_asks_for_less(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """Half of the source, then a third."""
    db = open_db(":memory:", summarizer=writer)
    say(
        db,
        10,
        text="We talked about tea and cake, about cups and pots and about number {n} for long.",
    )
    writer.answers = [SummaryText("")]
    db.jobs.run()

    first, second = (limit for _, _, _, limit in writer.asked)

    assert first > second


def test_a_failed_summary_is_tried_again(
    open_db: Callable[..., MemDB], writer: Writer, clock: Any
) -> None:
    """Also what was made from the stand-in is made again; the ids stay."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 60)
    writer.fail = RuntimeError("no answer")
    with pytest.raises(memdb.PortError, match="no answer"):
        db.jobs.run()
    before = chat.summaries.tree()
    assert {summary.quality for summary in before.summaries} == {"fallback"}
    assert_covers(before)

    writer.fail = None
    db.jobs.run()

    after = chat.summaries.tree()
    assert {summary.quality for summary in after.summaries} == {"model"}
    assert [summary.id for summary in after.summaries] == [
        summary.id for summary in before.summaries
    ]
    assert db.jobs.pending() == 0


def test_a_model_that_is_gone_is_not_asked_for_ever(
    open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """After three failures in a row the rest of the run does without it."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 200)
    writer.fail = TimeoutError("too late")

    with pytest.raises(memdb.PortError):
        db.jobs.run()

    assert len(writer.asked) == 6  # two tries each
    assert (
        len(chat.summaries.tree().summaries) == 20 + 5 + 0
        or len(chat.summaries.tree().summaries) > 20
    )
    assert_covers(chat.summaries.tree())


def test_one_failing_session_blocks_no_other(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """And no embedding either."""
    db = open_db(":memory:", summarizer=writer)
    say(db, 10, session="one")
    other = say(db, 10, session="two")
    writer.answers = [SummaryText(""), SummaryText("")]

    with pytest.raises(memdb.PortError):
        db.jobs.run()

    assert [summary.quality for summary in other.summaries.tree().summaries] == ["model"]


def test_improving_that_fails_leaves_the_stand_in(
    open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """And waits longer and longer, unless it is asked for."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 10)
    writer.fail = RuntimeError("down")
    for _ in range(2):
        with pytest.raises(memdb.PortError):
            db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries

    assert (leaf.quality, db.jobs.pending()) == ("fallback", 1)


# -- upgrade


def test_upgrade_lets_a_model_write_what_was_extracted(
    path: str, open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """Leaves first, so that what stands above is made of the better texts."""
    with memdb.open(path, embedder=None) as plain:
        say(plain, 60)
        plain.jobs.run()
        extracted = plain.scope("ann").session("trip").summaries.tree()
    db = open_db(path, summarizer=writer)
    chat = db.scope("ann").session("trip")

    assert chat.summaries.upgrade() == 7
    db.jobs.run()

    assert {summary.quality for summary in chat.summaries.tree().summaries} == {"model"}
    assert [n.id for n in chat.summaries.tree().summaries] == [n.id for n in extracted.summaries]
    depths = [depth for depth, *_ in writer.asked]
    assert depths == sorted(depths)
    assert chat.summaries.upgrade() == 0


def test_upgrade_without_a_model_says_what_is_missing(db: MemDB) -> None:
    """Instead of queueing what nobody can do."""
    with pytest.raises(memdb.InvalidInput, match="model="):
        say(db, 10).summaries.upgrade()


# -- several at once


def test_two_threads_make_each_node_once(
    open_db: Callable[..., MemDB], writer: Writer, path: str
) -> None:
    """Two openers of one file run what is due at the same time."""
    writers = [Writer(), Writer()]
    first = open_db(path, summarizer=writers[0])
    second = open_db(path, summarizer=writers[1])
    chat = say(first, 300)
    threads = [threading.Thread(target=db.jobs.run) for db in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first.jobs.run()

    asked = Counter((depth, begin) for one in writers for depth, begin, *_ in one.asked)

    assert max(asked.values()) == 1
    assert len(asked) == len(chat.summaries.tree().summaries)
    assert_covers(chat.summaries.tree())


@pytest.mark.parametrize("depth", [0, 1])
def test_a_model_is_asked_once_though_a_context_was_faster(
    depth: int, open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """A context stores an extract of what the model has in hand; the model's text replaces it."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 12 if depth == 0 else 90)
    summarize = writer.summarize

    def overtaken(source: list[SourceItem], **wanted: Any) -> SummaryText:
        for _ in range(9 if wanted["depth"] == depth else 0):  # all that is due
            chat.context(400)
        return summarize(source, **wanted)

    writer.summarize = overtaken
    chat.summaries.compact()
    while db.jobs.run():
        pass

    asked = Counter(span[:3] for span in writer.asked)
    assert max(asked.values()) == 1
    assert {one.quality for one in chat.summaries.tree().summaries} == {"model"}
    assert db.jobs.pending() == 0


def test_a_model_is_asked_once_though_the_leaf_was_condensed(
    open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """What was put above a leaf while the model improved it leaves its sources as they were."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 30)
    chat.context(400)
    summarize = writer.summarize

    def condensing(source: list[SourceItem], **wanted: Any) -> SummaryText:
        if chat.last_seq < 90:
            say(db, 60)
            for _ in range(9):  # all that is due
                chat.context(400)
        return summarize(source, **wanted)

    writer.summarize = condensing
    while db.jobs.run():
        pass

    assert max(Counter(span[:3] for span in writer.asked).values()) == 1
    assert {one.quality for one in chat.summaries.tree().summaries} == {"model"}


def test_a_lease_ends_with_the_process_that_held_it(
    open_db: Callable[..., MemDB], path: str, clock: Any
) -> None:
    """Nobody else takes the job before two and a half minutes are over; then somebody does."""
    killed = open_db(path, summarizer=Writer())
    chat = say(killed, 20)
    with killed._db.write() as tx:
        (job,) = [one for one in jobs.due(tx, 0, 0, 1 << 62, clock(), 9) if one.kind != "embed"]
        assert jobs.lease(tx, job, jobs.MODEL_LEASE_MS) is not None
    other = open_db(path, summarizer=Writer())

    other.jobs.run()
    assert (chat.summaries.tree().summaries, chat.summaries.compact()) == (
        (),
        memdb.Compacted(0, 0, 0, 0),
    )
    clock.advance(jobs.MODEL_LEASE_MS)
    other.jobs.run()

    assert len(chat.summaries.tree().summaries) == 2


def test_a_session_deleted_while_it_is_summarised(
    open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """The late summary is dropped; nothing comes back."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 10)
    summarize = writer.summarize

    def deleting(source: list[SourceItem], **options: Any) -> SummaryText:
        chat.delete()
        return summarize(source, **options)

    writer.summarize = deleting
    db.jobs.run(kinds=("summarize",))

    assert chat.summaries.tree().summaries == ()
    assert say(db, 10).last_seq == 10


def test_deleting_a_session_removes_its_nodes_and_their_words(db: MemDB) -> None:
    """Another session keeps its own."""
    gone, kept = say(db, 60, session="gone"), say(db, 60, session="kept")
    db.jobs.run()

    gone.delete()

    assert gone.summaries.tree().summaries == ()
    assert list(gone.recall("tea", kinds=("summary",), by="words")) == []
    assert len(kept.summaries.tree().summaries) == 7
    assert len(kept.recall("tea", kinds=("summary",), by="words")) > 0


# -- pruning


def test_compact_prunes_what_can_be_made_again(db: MemDB) -> None:
    """Texts that another summary stands for: their rows, ids and what they expand to stay."""
    chat = say(db, 100)
    db.jobs.run()
    before = chat.summaries.tree()

    done = chat.summaries.compact()

    consumed = [summary for summary in before.summaries if summary.condensed_into is not None]
    assert (done.summarized, done.pruned, done.archived) == (0, len(consumed), 0)
    assert len(consumed) > 0
    assert chat.summaries.tree() == before
    assert chat.summaries.compact().pruned == 0


def test_compact_never_prunes_what_a_model_wrote(
    open_db: Callable[..., MemDB], writer: Writer
) -> None:
    """It could not be had again for nothing."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 100)

    done = chat.summaries.compact()

    assert (done.summarized, done.pruned) == (len(chat.summaries.tree().summaries), 0)


def test_compact_tells_what_it_does(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """A status and a message before each call of the model, and at the end."""
    db = open_db(":memory:", summarizer=writer)
    chat = say(db, 20)
    heard: list[tuple[str, str]] = []

    chat.summaries.compact(progress=lambda status, message: heard.append((status, message)))

    assert ("active", "Summarising trip 1-10") in heard
    assert heard[-1][0] == "done"


def test_compact_of_nothing_does_nothing(db: MemDB) -> None:
    """An unknown session is no error."""
    assert db.scope("ann").session("none").summaries.compact() == memdb.Compacted(0, 0, 0, 0)


@pytest.fixture
def spans() -> Iterator[None]:
    """Nothing to prepare."""
    return iter([None])


REMOVALS: dict[str, Callable[[memdb.Session, memdb.Scope], object]] = {
    "delete seqs": lambda chat, _: chat.delete(range(3, 6)),
    "delete in the scope": lambda _, ann: ann.delete(session="trip", seqs=[3]),
    "delete what was found": lambda chat, _: chat.delete(query="no 3"),
    "pop": lambda chat, _: [chat.pop() for _ in range(15)],
    "replace": lambda chat, _: chat.replace([3, 4], []),
    "erase": lambda chat, _: Host(chat).erase(3),
    "edit": lambda chat, _: chat.edit(3, {"role": "user", "text": "Of coffee."}),
    "forget": lambda _, ann: ann.forget(session="trip", seqs=3),
    "drop": lambda chat, _: chat.summaries.delete("1-10"),
}


@pytest.mark.parametrize("how", REMOVALS)
def test_what_stays_is_summarised_again(how: str, db: MemDB) -> None:
    """By the worker, without another message."""
    chat = say(db, 60)
    db.jobs.run()
    assert shape(chat.summaries.tree())[0] == 6
    REMOVALS[how](chat, db.scope("ann"))
    db.jobs.run(kinds=["summarize"])

    tree = chat.summaries.tree()
    assert sum(message.seq >= tree.first_raw_seq for message in chat.messages()) < 10
    assert shape(tree)[0] >= 4
    assert db.jobs.run(kinds=["summarize"]) == 0
