"""
Faults of systems that summarise by replacing, each shown not to be possible here.

Others are shown where the part is tested: `test_dag` (chunks, groups, failures),
`test_worker` (models), `test_deleted_sessions`, `test_archive`, `test_tools`,
`faults/test_kill_summaries` and `faults/test_nth_failure`.
"""

import threading
from collections.abc import Callable
from typing import Any

import pytest

import memdb
from memdb import MemDB
from memdb.models.summaries import SourceItem, SummaryText


class Asked:
    """A language model that keeps what it is asked, and answers in turn."""

    name = "asked"

    def __init__(self, *answers: str) -> None:
        """Answer with these, the last one for ever."""
        self.prompts: list[str] = []
        self._answers = answers or ("They spoke.",)

    def complete(self, messages: Any, **_options: Any) -> str:
        """Answer."""
        self.prompts.append("\n".join(one["content"] for one in messages))
        return self._answers[min(len(self.prompts), len(self._answers)) - 1]


class Own:
    """A summariser that a test may interrupt."""

    name = "own"
    quality = "model"

    def __init__(self) -> None:
        """Do nothing else."""
        self.meanwhile: Callable[[], object] = lambda: None

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return a short text."""
        self.meanwhile()
        return SummaryText(f"own {depth} {source[0].first_seq}-{source[-1].last_seq}")


def say(db: MemDB, count: int, text: str = "Tea number {n} was good.") -> memdb.Session:
    """Return a session with so many messages more."""
    chat = db.scope("ann").session("trip")
    start = chat.last_seq
    chat.extend(
        [{"role": "user", "text": text.format(n=n)} for n in range(start + 1, start + count + 1)]
    )
    return chat


def assert_covers(chat: memdb.Session) -> None:
    """Fail unless frontier and raw messages cover each seq once."""
    tree = chat.summaries.tree()
    seqs: list[int] = list(range(1, tree.head_seq + 1))
    for summary in tree.frontier:
        seqs += range(summary.first_seq, summary.last_seq + 1)
    seqs += range(tree.first_raw_seq, tree.last_seq + 1)
    assert seqs == list(range(1, tree.last_seq + 1))


# -- flowcraft 7.1: what a summariser sees


@pytest.mark.parametrize("arguments", ['{"path": "menu.md"}', {"path": "menu.md"}], ids=repr)
def test_tool_calls_and_results_are_seen_by_the_model(
    open_db: Callable[..., MemDB], arguments: Any
) -> None:
    """Also of a leaf in which nothing else was said."""
    model = Asked()
    db = open_db(":memory:", model=model)
    chat = db.scope("ann").session("trip")
    for n in range(5):
        call = {"type": "tool_call", "id": f"c{n}", "name": "read", "arguments": arguments}
        chat.append("assistant", "", parts=[call])
        result = {"type": "tool_result", "tool_call_id": f"c{n}", "content": f"soup {n}"}
        chat.append("tool", "", parts=[result])
    db.jobs.run()

    (prompt,) = model.prompts

    assert prompt.count("read(") == prompt.count("menu.md") == 5
    assert [f"soup {n}" in prompt for n in range(5)] == [True] * 5


def test_tool_calls_and_results_are_told_without_a_model(db: MemDB) -> None:
    """A leaf of calls alone does not say that there were no words."""
    chat = db.scope("ann").session("trip")
    for n in range(5):
        call = {"type": "tool_call", "id": f"c{n}", "name": "deploy", "arguments": {"env": "prod"}}
        chat.append("assistant", "", parts=[call])
        result = {"type": "tool_result", "tool_call_id": f"c{n}", "content": {"error": "refused"}}
        chat.append("tool", "", parts=[result])
    db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries

    assert "deploy" in leaf.text or "refused" in leaf.text


def test_a_huge_message_leaves_room_for_the_others(open_db: Callable[..., MemDB]) -> None:
    """A model is asked what it can read: the ends of long messages, and all of the short."""
    model = Asked()
    db = open_db(":memory:", model=model)
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": "user", "text": f"Short remark {n}."} for n in range(8)])
    for name in ("first", "second"):
        chat.append("user", f"{name} begins {'tea and cake ' * 30_000} {name} ends")
    db.jobs.run()

    (prompt,) = model.prompts

    assert len(prompt) < 110_000
    assert [f"Short remark {n}." in prompt for n in range(8)] == [True] * 8
    for name in ("first", "second"):
        assert f"{name} begins" in prompt
        assert f"{name} ends" in prompt


# -- 7.2: what is accepted


def test_a_tiny_source_costs_one_call(open_db: Callable[..., MemDB]) -> None:
    """A summary of "ok" and "ok" may be longer than they are."""
    model = Asked("Both said that it was fine with them.")
    db = open_db(":memory:", model=model)
    chat = say(db, 10, "ok")
    db.jobs.run()

    assert [summary.quality for summary in chat.summaries.tree().summaries] == ["model"]
    assert len(model.prompts) == 1


@pytest.mark.parametrize("long", ["word " * 5_000, "x" * 3_000_000], ids=["words", "one word"])
def test_the_second_answer_is_measured_too(open_db: Callable[..., MemDB], long: str) -> None:
    """No summary is longer than it may be, at whichever try, nor longer than its source."""
    db = open_db(":memory:", model=Asked(long, long))
    chat = say(db, 10)
    with pytest.raises(memdb.PortError):
        db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries

    assert leaf.quality == "fallback"
    assert leaf.tokens <= sum(message.tokens for message in chat.messages())


def test_a_model_whose_budget_is_used_up_blocks_nothing(open_db: Callable[..., MemDB]) -> None:
    """The rest are extracts, due to be improved by a model that may be asked."""
    from memdb.models.model_client import ModelCaller

    model = Asked()
    db = open_db(":memory:", model=ModelCaller(model, max_calls=2))
    chat = say(db, 60)
    with pytest.raises(memdb.PortError, match="budget of 2 calls"):
        db.jobs.run()

    qualities = [summary.quality for summary in chat.summaries.tree().summaries]

    assert len(model.prompts) == qualities.count("model") == 2
    assert qualities.count("fallback") == len(qualities) - 2
    assert db.jobs.pending() == len(qualities) - 2


# -- 7.4: compaction


def test_compacting_makes_nothing_come_back(db: MemDB) -> None:
    """What was deleted stays so, however often the rest is compacted."""
    gone = say(db, 60)
    gone.summaries.compact()
    ids = [summary.id for summary in gone.summaries.tree().summaries]
    gone.delete()
    other = db.scope("ann").session("other")
    other.extend([{"role": "user", "text": f"cake {n}"} for n in range(60)])

    for _ in range(2):
        other.summaries.compact(keep_last=5)
        gone.summaries.compact(keep_last=5)

    assert gone.summaries.tree().summaries == ()
    assert gone.last_seq == 0
    for one in ids:
        with pytest.raises(memdb.NotFound):
            gone.summaries.expand(one)


def test_what_was_pruned_is_the_same_text_with_the_same_tokens(db: MemDB) -> None:
    """No placeholder is ever shown, searched or handed to a model."""
    chat = say(db, 200)
    db.jobs.run()
    before = {
        summary.id: (summary.text, summary.tokens, summary.hint)
        for summary in chat.summaries.tree().summaries
    }
    top = max(chat.summaries.tree().summaries, key=lambda summary: summary.depth)

    assert chat.summaries.compact().pruned > 0

    assert {
        summary.id: (summary.text, summary.tokens, summary.hint)
        for summary in chat.summaries.tree().summaries
    } == before
    below = chat.summaries.expand(top.id).summaries
    assert [(summary.text, summary.tokens, summary.hint) for summary in below] == [
        before[summary.id] for summary in below
    ]


def test_nodes_made_while_a_compaction_runs_are_kept(
    path: str, open_db: Callable[..., MemDB]
) -> None:
    """What others append and summarise between its steps is there afterwards."""
    own = Own()
    db, other = open_db(path, summarizer=own), open_db(path)
    chat = say(db, 60)
    steps: list[str] = []

    def meanwhile(_status: str, message: str) -> None:
        steps.append(message)
        say(other, 10)
        other.jobs.run()

    chat.summaries.compact(keep_last=5, progress=meanwhile)

    assert len(steps) >= 4
    assert [message.seq for message in chat.messages()] == list(range(1, chat.last_seq + 1))
    db.jobs.run()
    assert_covers(chat)
    assert db.file.check(deep=True) == []


def test_two_compactions_at_once(path: str, open_db: Callable[..., MemDB]) -> None:
    """Together they do the work once, and both come to an end."""
    owns = [Own(), Own()]
    calls: list[int] = []
    for own in owns:
        own.meanwhile = lambda: calls.append(1)
    opened = [open_db(path, summarizer=own) for own in owns]
    chat = say(opened[0], 120)
    before = [message.text for message in chat.messages()]
    threads = [
        threading.Thread(
            target=db.scope("ann").session("trip").summaries.compact, kwargs={"keep_last": 20}
        )
        for db in opened
    ]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]

    assert len(calls) == len(chat.summaries.tree().summaries)
    assert [message.text for message in chat.messages()] == before
    assert_covers(chat)
    assert opened[0].file.check(deep=True) == []


# -- 9: the archive


def test_archived_and_hot_messages_have_one_numbering(db: MemDB) -> None:
    """With a system message at the start, summaries expand to the same messages before and after."""
    chat = db.scope("ann").session("trip")
    chat.append("system", "Be brief.")
    say(db, 300)
    db.jobs.run()
    summaries = [summary for summary in chat.summaries.tree().summaries if summary.depth == 0]
    before = {
        summary.id: [(one.seq, one.text) for one in chat.summaries.expand(summary.id).messages]
        for summary in summaries
    }

    chat.archive(keep_last=7)
    say(db, 100)
    chat.archive(keep_last=7)
    db.jobs.run()

    for summary_id, messages in before.items():
        assert [
            (one.seq, one.text) for one in chat.summaries.expand(summary_id).messages
        ] == messages
    assert_covers(chat)
    window = chat.context(600)
    assert window.tokens <= 600


def test_archiving_again_and_again_takes_each_message_once(db: MemDB) -> None:
    """There is no trim to repeat: what was moved is not moved again, and nothing is lost."""
    chat = say(db, 502)
    before = [(one.seq, one.text) for one in chat.messages()]

    moved = [chat.archive(keep_last=2).messages for _ in range(3)]

    assert moved == [500, 0, 0]
    assert [(one.seq, one.text) for one in chat.messages()] == before


def test_a_damaged_segment_is_no_empty_answer(
    path: str, open_db: Callable[..., MemDB], run_sql: Any
) -> None:
    """Expanding says what is wrong; it does not show less than there was."""
    db = open_db(path)
    chat = say(db, 60)
    db.jobs.run()
    chat.archive(keep_last=5)
    leaf = min(
        chat.summaries.tree().summaries, key=lambda summary: (summary.depth, summary.first_seq)
    )
    db.close()
    run_sql(path, "UPDATE archive_segments SET data = ?", bytes(9))
    again = open_db(path).scope("ann").session("trip")

    with pytest.raises(memdb.Corrupt, match="restore a backup"):
        again.summaries.expand(leaf.id)
    with pytest.raises(memdb.Corrupt, match="restore a backup"):
        again.tools().call("memory_expand", {"id": leaf.id})


# -- 19, hector H1 to H3 and H8


def test_what_is_said_while_it_is_summarised_is_kept(open_db: Callable[..., MemDB]) -> None:
    """Nothing is replaced, so nothing can be overwritten."""
    own = Own()
    db = open_db(":memory:", summarizer=own)
    chat = say(db, 10)

    def once() -> None:
        own.meanwhile = lambda: None
        say(db, 25)

    own.meanwhile = once
    db.jobs.run()

    assert [one.text for one in chat.messages()] == [
        f"Tea number {n} was good." for n in range(1, 36)
    ]
    assert len(chat.summaries.tree().summaries) == 3
    assert_covers(chat)


def test_summarising_changes_no_message(
    path: str, open_db: Callable[..., MemDB], run_sql: Any
) -> None:
    """Not a byte of any row that was said."""
    db = open_db(path)
    chat = say(db, 200)
    rows = run_sql(path, "SELECT * FROM messages ORDER BY id")

    db.jobs.run()
    chat.summaries.compact()

    assert run_sql(path, "SELECT * FROM messages ORDER BY id") == rows


def test_a_node_says_what_it_covers_and_when_it_was_made(db: MemDB, clock: Any) -> None:
    """First and last seq, depth, who wrote it, how well, and when."""
    chat = say(db, 10)
    clock.advance(5_000)
    db.jobs.run()

    (leaf,) = chat.summaries.tree().summaries

    assert (leaf.first_seq, leaf.last_seq, leaf.message_count, leaf.depth) == (1, 10, 10, 0)
    assert (leaf.quality, leaf.summarizer, leaf.created_ms) == (
        "extractive",
        "extractive-2",
        1_700_000_005_000,
    )


def test_equal_questions_get_equal_answers(db: MemDB) -> None:
    """Trees, searches and indexes come in one order, however often they are asked for."""
    chat = say(db, 300)
    db.jobs.run()

    for ask in (
        chat.summaries.tree,
        lambda: chat.recall("tea good", 20, kinds=("summary",), by="words"),
        lambda: chat.tools().call("memory_search", {"query": "tea good"}),
        lambda: chat.context(500).messages,
    ):
        assert ask() == ask()
