"""
The summary buffer: one block of summaries, then the newest messages.

Faults of hector 1.40 that cannot happen here, and the test that shows it:

    H1      compaction destroys history               test_nothing_is_replaced
    H2      what is added meanwhile vanishes          test_what_is_added_meanwhile_stays
    H3      a summary has no span                     test_the_block_names_its_spans
    H4      the summary falls out of the window       test_the_summary_is_never_cut_off
            one turn of many tools never compacts     test_one_turn_of_200_tools_is_compacted
    H5      call and result are parted                test_tool_pairs_stay_whole
    H6      what tools say is not counted             test_what_tools_say_is_counted
    H7      ten huge messages are over any budget     test_huge_messages_are_shortened
    H8      an empty summary replaces history         test_a_bad_summary_is_replaced_by_an_extract
    H9      an index in memory, wrong after restart   test_another_process_sees_the_same
"""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memdb
from memdb import MemDB, Session
from memdb.adapters.host import Host
from memdb.context.summary_buffer import Limits
from memdb.models.messages import ContextWindow
from memdb.models.settings import DEFAULTS
from memdb.models.summaries import SourceItem, SummaryText

FRAME = 4
MESSAGE_TOKENS = 20  # of `say`, frame included


class Writer:
    """A summariser that notes what it was given, and keeps what it is told to."""

    name = "writer"
    quality = "model"

    def __init__(self) -> None:
        """Answer with the first words of each source."""
        self.given: list[str] = []
        self.answer: Any = None
        self.before: Callable[[], object] = lambda: None

    def summarize(self, source: list[SourceItem], *, depth: int, limit_tokens: int) -> SummaryText:
        """Return `answer`, raised if it is an error; else the words that begin with "fact"."""
        self.before()
        self.given.append("\n".join(item.text for item in source))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is not None:
            return SummaryText(self.answer)
        facts = [word for word in self.given[-1].split() if word.startswith("fact")]
        return SummaryText(" ".join(facts) or "Talk.")


@pytest.fixture
def writer() -> Writer:
    """Return a summariser that works."""
    return Writer()


@pytest.fixture
def chat(db: MemDB) -> Session:
    """Return an empty session."""
    return db.scope("ann").session("trip")


def say(chat: Session, count: int, fact: str = "", roles: tuple[str, str] = ("user",) * 2) -> None:
    """Add messages of 16 tokens each, so 20 with their frames."""
    start = chat.last_seq
    texts = [f"{fact} number {n} ".strip() for n in range(start + 1, start + count + 1)]
    chat.extend(
        [
            {"role": roles[n % 2], "text": f"{text} {'abc ' * 20}"[:64]}
            for n, text in enumerate(texts)
        ]
    )


def shown(window: ContextWindow) -> list[int]:
    """Return the seqs of the messages that are there as messages."""
    return [one.seq for one in window.messages if one.seq]


def told(window: ContextWindow) -> list[int]:
    """Return every seq that is told, sorted."""
    return sorted(
        seq
        for piece in window.pieces
        if piece.first_seq is not None and piece.last_seq is not None
        for seq in range(piece.first_seq, piece.last_seq + 1)
    )


@pytest.mark.parametrize(
    ("budget", "trigger", "recent", "summary", "keep"),
    [(8_000, 6_800, 4_480, 1_120, 10), (2_000, 1_700, 1_120, 280, 10), (500, 425, 280, 70, 5)],
    ids=str,
)
def test_the_limits_are_those_of_the_seed(
    budget: int, trigger: int, recent: int, summary: int, keep: int
) -> None:
    """0.85, then 0.7, of which 0.8; fewer messages are kept where 60 tokens each are too many."""
    limits = Limits(budget, DEFAULTS)

    assert (limits.trigger, limits.recent, limits.summary) == (trigger, recent, summary)
    assert limits.keep_last == keep


@pytest.mark.parametrize(("count", "whole"), [(85, True), (86, False)], ids=str)
def test_it_summarises_beyond_the_trigger(chat: Session, count: int, whole: bool) -> None:
    """1,700 of 2,000 tokens: exactly so many are told as they are, one message more is not."""
    say(chat, count)

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    assert (window.messages == tuple(chat.messages())) == whole
    assert told(window) == list(range(1, count + 1))


def test_too_few_messages_are_never_summarised(chat: Session) -> None:
    """Whatever they cost, as long as the budget can hold views of them."""
    chat.extend([{"role": "user", "text": "word " * 2_000} for _ in range(10)])

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    assert shown(window) == list(range(1, 11))
    assert {piece.kind for piece in window.pieces} == {"message"}


def test_recent_messages_are_verbatim_and_in_order(chat: Session) -> None:
    """Behind one block: roles kept, none skipped, up to the newest."""
    say(chat, 400, roles=("user", "assistant"))

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    recent = window.messages[1:]
    assert window.messages[0].seq == 0
    assert list(recent) == list(chat.messages())[-len(recent) :]
    assert {one.role for one in recent} == {"user", "assistant"}
    assert 1_120 - MESSAGE_TOKENS <= sum(one.tokens + FRAME for one in recent) <= 1_420


def test_the_block_names_its_spans(chat: Session) -> None:
    """Each summary says which messages it stands for; a span is all that `expand` needs."""
    say(chat, 400)

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    summaries = [piece for piece in window.pieces if piece.kind == "summary"]
    assert len(summaries) > 1
    for piece in summaries:
        span = f"{piece.first_seq}-{piece.last_seq}"
        assert f"[{span}] " in window.messages[0].text
        summary = chat.summaries.expand(span).summary
        assert summary is not None
        assert str(summary.id) == piece.ref


def test_the_summary_is_never_cut_off(chat: Session) -> None:
    """Its tokens are reserved before the newest messages take theirs."""
    for _ in range(60):
        say(chat, 7)
        window = Host(chat).window("summary_buffer", budget_tokens=1_000)
        assert window.tokens <= 1_000
        assert told(window) == list(range(1, chat.last_seq + 1))
        assert chat.last_seq < 50 or {"summary", "digest"} & {p.kind for p in window.pieces}


def test_nothing_is_replaced(chat: Session) -> None:
    """Every message is there as before, and the window can be had again."""
    say(chat, 200)
    before = list(chat.messages())

    windows = [Host(chat).window("summary_buffer", budget_tokens=1_000) for _ in range(2)]

    assert windows[0] == windows[1]
    assert list(chat.messages()) == before


def test_facts_outlive_three_compactions(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """A later summary is made from the earlier ones: what the first kept is still told."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    say(chat, 10, "fact-oslo")
    for _ in range(3):
        say(chat, 120)
        window = Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert "fact-oslo" in window.messages[0].text
    assert any("fact-oslo" in given and "number" not in given for given in writer.given)


def test_without_a_summariser_it_is_an_extract(chat: Session) -> None:
    """No model is needed; the nodes say that none took part."""
    say(chat, 200)

    Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert {summary.quality for summary in chat.summaries.tree().summaries} == {"extractive"}


@pytest.mark.parametrize(
    "answer", ["", "  ", "word " * 900, RuntimeError("no answer"), TimeoutError("late")], ids=repr
)
def test_a_bad_summary_is_replaced_by_an_extract(
    open_db: Callable[..., MemDB], writer: Writer, answer: Any
) -> None:
    """Nothing, too much, or an error: the window is there, the session unchanged, to be improved."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    say(chat, 200)
    before = list(chat.messages())
    writer.answer = answer

    window = Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert told(window) == list(range(1, 201))
    assert "number" in window.messages[0].text
    assert {summary.quality for summary in chat.summaries.tree().summaries} == {"fallback"}
    assert list(chat.messages()) == before
    assert db.jobs.pending() > 0


def test_what_is_added_meanwhile_stays(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """A message that comes while the model thinks is in the window that follows."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    say(chat, 100)
    writer.before = lambda: say(chat, 1)

    window = Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert chat.last_seq > 100
    assert shown(window)[-1] == chat.last_seq
    assert told(window) == list(range(1, chat.last_seq + 1))


def test_one_turn_of_200_tools_is_compacted(chat: Session) -> None:
    """One user's message and then nothing but tools: the cut moves on like anywhere."""
    chat.append("user", "Do it all.")
    for number in range(200):
        call = {"type": "tool_call", "id": f"c{number}", "name": "run", "arguments": "{}"}
        result = {"type": "tool_result", "tool_call_id": f"c{number}", "content": f"row {number}"}
        chat.extend([{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}])

    window = Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert window.tokens <= 1_000
    assert "summary" in {piece.kind for piece in window.pieces}
    assert shown(window)[-1] == 401
    assert told(window) == list(range(1, 402))


def test_tool_pairs_stay_whole(chat: Session) -> None:
    """At any cut: a result is there exactly if its call is."""
    for number in range(60):
        call = {"type": "tool_call", "id": f"c{number}", "name": "run", "arguments": "{}"}
        result = {"type": "tool_result", "tool_call_id": f"c{number}", "content": "row " * 9}
        chat.extend([{"role": "assistant", "parts": [call]}, {"role": "user", "text": "Well?"}])
        chat.extend([{"role": "tool", "parts": [result]}])

    for budget in range(200, 1_200, 41):
        seqs = set(shown(Host(chat).window("summary_buffer", budget_tokens=budget)))
        for start in range(1, 180, 3):
            assert (start in seqs) == (start + 2 in seqs)


def test_what_tools_say_is_counted(chat: Session) -> None:
    """Results of which the text is empty fill the budget like words."""
    for number in range(40):
        call = {"type": "tool_call", "id": f"c{number}", "name": "run", "arguments": "{}"}
        result = {"type": "tool_result", "tool_call_id": f"c{number}", "content": "row " * 100}
        chat.extend([{"role": "assistant", "parts": [call]}, {"role": "tool", "parts": [result]}])

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    assert window.tokens <= 2_000
    assert len(shown(window)) < 40


def test_huge_messages_are_shortened(chat: Session) -> None:
    """The newest ten are kept as views; the stored ones stay whole."""
    say(chat, 50)
    chat.extend([{"role": "user", "text": f"{n} {'word ' * 20_000}"} for n in range(10)])

    window = Host(chat).window("summary_buffer", budget_tokens=2_000)

    assert window.tokens <= 2_000
    assert shown(window) == list(range(51, 61))
    assert window.pieces[-1].reason == "newest messages, shortened to the budget"
    assert chat.get(60).tokens > 20_000


def test_system_text_stays_in_front(chat: Session) -> None:
    """It counts, and is never summarised."""
    chat.append("system", "Be kind.")
    say(chat, 200)

    window = Host(chat).window("summary_buffer", budget_tokens=1_000)

    assert [one.role for one in window.messages[:2]] == ["system", "user"]
    assert window.pieces[0].kind == "system"
    assert told(window) == list(range(1, 202))


def test_the_cut_stays_while_the_conversation_grows(chat: Session) -> None:
    """And then moves once: most windows begin as the one before."""
    say(chat, 300)
    cuts = []
    for _ in range(30):
        say(chat, 1)
        cuts.append(shown(Host(chat).window("summary_buffer", budget_tokens=4_000))[0])

    assert cuts == sorted(cuts)
    assert len(set(cuts)) <= 5


def test_another_process_sees_the_same(open_db: Callable[..., MemDB], path: str) -> None:
    """The window follows from the file alone."""
    with open_db(path) as first:
        chat = first.scope("ann").session("trip")
        say(chat, 300)
        before = Host(chat).window("summary_buffer", budget_tokens=1_000)

    again = open_db(path).scope("ann").session("trip")
    after = Host(again).window("summary_buffer", budget_tokens=1_000)

    assert after == before


def test_progress_is_told(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """Once per summary that the model is asked for, and not where nothing is due."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    say(chat, 60)
    heard: list[tuple[str, str]] = []

    for _ in range(2):
        Host(chat).window(
            "summary_buffer",
            budget_tokens=1_000,
            progress=lambda status, message: heard.append((status, message)),
        )

    assert heard[0] == ("active", "Summarising trip 1-10")
    assert len(heard) == len(chat.summaries.tree().summaries) == len(set(heard))


def test_progress_may_be_left_out(open_db: Callable[..., MemDB], writer: Writer) -> None:
    """Nobody needs to listen."""
    db = open_db(":memory:", summarizer=writer)
    chat = db.scope("ann").session("trip")
    say(chat, 60)

    assert Host(chat).window("summary_buffer", budget_tokens=1_000).tokens <= 1_000


def test_the_default_budget_is_8000(chat: Session) -> None:
    """The seed's number."""
    say(chat, 1)

    assert Host(chat).window("summary_buffer").budget_tokens == 8_000


@pytest.mark.parametrize("budget", [0, -1, True, "8000", 1.5], ids=repr)
def test_a_budget_that_is_none_is_refused(chat: Session, budget: Any) -> None:
    """Not replaced by a default."""
    with pytest.raises(memdb.InvalidInput, match="budget_tokens"):
        Host(chat).window("summary_buffer", budget_tokens=budget)


def test_a_budget_that_holds_no_message_is_refused(chat: Session) -> None:
    """Where not even views of the newest fit."""
    say(chat, 30)

    with pytest.raises(memdb.TooLarge, match="newest message"):
        Host(chat).window("summary_buffer", budget_tokens=20)


def test_an_unknown_session_has_nothing(db: MemDB) -> None:
    """No messages, no tokens."""
    window = Host(db.scope("ann").session("never")).window("summary_buffer")

    assert (window.messages, window.tokens) == ((), 0)


@given(
    sizes=st.lists(st.sampled_from([0, 1, 5, 5, 20, 60, 300, 5_000]), min_size=1, max_size=120),
    budget=st.one_of(st.integers(1, 400), st.integers(50, 20_000)),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_window_is_over_its_budget(sizes: list[int], budget: int) -> None:
    """Or else there is a clear error, where views of the newest messages cost more."""
    with memdb.open(":memory:", embedder=None, counter="estimate") as db:
        chat = db.scope("ann").session("trip")
        chat.extend([{"role": "user", "text": "abc " * size} for size in sizes])

        try:
            window = Host(chat).window("summary_buffer", budget_tokens=budget)
        except memdb.TooLarge:
            assert budget < 10 * 12 + 40
            return

        assert window.tokens <= budget
        assert window.tokens == sum(one.tokens + FRAME for one in window.messages)
        assert window.tokens == sum(piece.tokens for piece in window.pieces)
        assert told(window) == list(range(1, len(sizes) + 1))


def test_system_text_over_the_budget_is_refused(db: MemDB) -> None:
    """It is never cut, so the window would be over the budget."""
    chat = db.scope("ann").session("trip")
    chat.append("system", "You are a helpful assistant. " * 20)

    with pytest.raises(memdb.TooLarge, match="tokens of the system text"):
        Host(chat).window("summary_buffer", budget_tokens=30)
