"""
Window strategies: buffer, token window, none; and how a session runs them.

Faults of hector 4 to 10 that cannot happen here, and the test that shows it
(the summary buffer's are in test_summary_buffer.py):

    4   a start behind the end is an error          test_a_window_goes_back_to_the_user
    5   sizes of no sense become a default          test_a_buffer_of_no_size_is_refused
    6   messages without text shift the window      test_messages_without_text_do_not_shift_the_window
    6   the last few begin inside a tool call       test_the_last_few_begin_with_a_whole_unit
    7   priming tokens make an exact fit too large  test_an_exact_fit_is_accepted
    10  an unknown strategy, options that do not    test_what_no_strategy_takes_is_refused
        apply
    H5  call and result are parted at the cut       test_windows_are_suffixes_of_whole_units
    H14 the whole session is read for each turn     test_no_more_rows_are_read_than_needed
"""

import pytest
from cases import each
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb import MemDB
from memdb.adapters.host import Host
from memdb.conversations import windows as strategies
from memdb.conversations.tool_calls import units
from memdb.conversations.windows import buffer_window, none, token_window, user_first
from memdb.models.messages import Message
from memdb.models.settings import Settings

FRAME = 4  # tokens a message costs besides its text


class Fixed:
    """A counter that every message below was counted with."""

    name = "fixed"
    settings = Settings()

    def extra_tokens(self, parts: object) -> int:
        """Nothing costs more than its words."""
        return 0


def message(seq: int, note: str, tokens: int = 6) -> Message:
    """Return a message from a note as in `run`; it costs *tokens* + 4."""
    kind, _, call_id = note.partition(":")
    role = {"u": "user", "s": "system", "a": "assistant", "t": "tool"}[kind]
    call = {"type": "tool_call", "id": call_id, "name": "f", "arguments": "{}"}
    answer = {"type": "tool_result", "tool_call_id": call_id, "content": "ok"}
    parts = [call if role == "assistant" else answer] if call_id else None
    return Message(
        seq, role, None, "x", parts, tokens, "fixed", None, 0, None, "trip", seq, f"{seq}"
    )


def run(notes: str) -> list[Message]:
    """Return a run of messages: `u`, `s`, `a`, `t`, `a:x` calls x, `t:x` answers it."""
    return [message(seq, note) for seq, note in enumerate(notes.split(), start=1)]


def seqs(messages: object) -> list[int]:
    """Return the seqs of messages."""
    return [one.seq for one in messages]


@pytest.mark.parametrize(
    ("count", "last", "expected"),
    [(10, 5, 5), (10, 10, 10), (10, 15, 10), (3, 10, 3), (0, 5, 0), (10, 3, 3)],
    ids=str,
)
def test_a_buffer_keeps_the_last_in_order(count: int, last: int, expected: int) -> None:
    """The newest so many, or all there are."""
    messages = run("u " * count)

    assert buffer_window(messages, last) == messages[count - expected :]


def test_a_buffer_keeps_20_by_default() -> None:
    """The seed's number."""
    assert len(buffer_window(run("u " * 30))) == 20


@pytest.mark.parametrize("last", [0, -1, True, "3", 1.5, 1 << 24], ids=str)
def test_a_buffer_of_no_size_is_refused(last: object) -> None:
    """Not replaced by a default."""
    with pytest.raises(memdb.InvalidInput, match="last"):
        buffer_window([], last)


@pytest.mark.parametrize(
    ("notes", "start", "expected"),
    [
        pytest.param("u a a a", 2, 0, id="back from the agent to the user"),
        pytest.param("u a u a", 2, 2, id="a user stays"),
        pytest.param("u a u a", 3, 2, id="never forward"),
        pytest.param("a a a", 2, 0, id="no user at all"),
        pytest.param("a a u", 1, 0, id="no user before"),
        pytest.param("u s a", 1, 0, id="a system message is no user"),
        pytest.param("u a:x u t:x a", 4, 0, id="a user inside a unit"),
        pytest.param("u a:x t:x u a", 4, 3, id="a user behind a unit"),
        pytest.param("u a", 9, 0, id="behind the end"),
        pytest.param("", 0, 0, id="nothing"),
    ],
)
def test_a_window_goes_back_to_the_user(notes: str, start: int, expected: int) -> None:
    """To the latest user message that begins a unit, 0 without any."""
    assert user_first(run(notes), start) == expected


def test_a_buffer_may_hold_more_than_its_size() -> None:
    """The user's message comes before the size."""
    assert seqs(buffer_window(run("u u a a a"), 2)) == [2, 3, 4, 5]


def test_a_buffer_never_begins_inside_a_tool_call() -> None:
    """Nor with a user's message between call and result."""
    assert seqs(buffer_window(run("u u a:x u t:x a"), 3)) == [2, 3, 4, 5, 6]


def test_up_to_keep_last_messages_are_untouched() -> None:
    """Whatever they cost and whoever begins."""
    messages = run("a u a u a")

    assert token_window(messages, Fixed(), 1, 5) == messages


def test_one_huge_message_leaves_the_last_few() -> None:
    """Fewer would be too few; the first need not be the user's."""
    messages = [*run("u u u a a a"), message(7, "u", 50_000)]

    assert seqs(token_window(messages, Fixed(), 100, 3)) == [5, 6, 7]


def test_the_last_few_begin_with_a_whole_unit() -> None:
    """The call of the first tool result is there too."""
    messages = [*run("u u a:x t:x a"), message(6, "u", 50_000)]

    assert seqs(token_window(messages, Fixed(), 100, 3)) == [3, 4, 5, 6]


@pytest.mark.parametrize(
    ("budget", "expected"), [(39, [8, 9, 10]), (40, [7, 8, 9, 10]), (41, [7, 8, 9, 10])], ids=str
)
def test_an_exact_fit_is_accepted(budget: int, expected: list[int]) -> None:
    """Ten tokens each: a fourth needs all of forty."""
    assert seqs(token_window(run("u " * 10), Fixed(), budget, 2)) == expected


def test_as_many_as_keep_last_begin_with_the_user() -> None:
    """Two fit and two are kept: that is not too few."""
    assert seqs(token_window(run("u a a a"), Fixed(), 20, 2)) == [1, 2, 3, 4]


def test_a_token_window_has_8000_tokens_and_5_messages_by_default() -> None:
    """The seed's numbers."""
    messages = [message(seq, "u", 996) for seq in range(1, 20)]
    huge = [message(seq, "u", 9_996) for seq in range(1, 20)]

    assert len(token_window(messages, Fixed())) == 8
    assert len(token_window(huge, Fixed())) == 5


def test_messages_without_text_do_not_shift_the_window() -> None:
    """They take their place and their frame, and nothing is cut for them twice."""
    silent = [message(seq, "u", 0).replace(text="") for seq in (2, 4, 6)]
    spoken = [message(seq, "u", 6) for seq in (1, 3, 5, 7)]
    messages = sorted([*silent, *spoken], key=lambda one: one.seq)

    assert seqs(token_window(messages, Fixed(), 10 + 4 + 10 + 4, 1)) == [4, 5, 6, 7]


def test_a_token_window_may_go_over_its_budget_for_the_user() -> None:
    """The user's message comes before the budget."""
    assert seqs(token_window(run("u u a a a a"), Fixed(), 20, 1)) == [2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("budget", "keep", "name"),
    [(0, 5, "budget_tokens"), (-1, 5, "budget_tokens"), (9, 0, "keep_last"), (9, -1, "keep_last")],
    ids=str,
)
def test_a_token_window_of_no_size_is_refused(budget: int, keep: int, name: str) -> None:
    """The error names the number."""
    with pytest.raises(memdb.InvalidInput, match=name):
        token_window([], Fixed(), budget, keep)


def test_none_keeps_everything() -> None:
    """Also what begins with a tool."""
    assert seqs(none(run("t a u"))) == [1, 2, 3]


NOTES = st.lists(
    st.sampled_from(["u", "s", "a", "t", "a:x", "t:x", "a:y", "t:y"]), min_size=1, max_size=14
).map(" ".join)


@given(NOTES, st.integers(1, 14), st.integers(1, 200), st.integers(1, 6))
def test_windows_are_suffixes_of_whole_units(notes: str, last: int, budget: int, keep: int) -> None:
    """Nothing is skipped, nothing parted, and the input stays as it was."""
    messages = run(notes)
    ends = [messages[seq - 1 :] for seq in [unit[0].seq for unit in units(messages)]]

    buffer, fitted = buffer_window(messages, last), token_window(messages, Fixed(), budget, keep)

    assert buffer in ends
    assert fitted in ends
    assert buffer[0].role == "user" or buffer == messages
    assert len(buffer) >= min(last, len(messages))
    assert len(fitted) >= min(keep, len(messages))
    assert messages == run(notes)


def fill(db: MemDB, notes: str) -> memdb.Session:
    """Return a session with a message per note."""
    chat = db.scope("ann").session("trip")
    chat.extend(
        [{"role": one.role, "text": f"word {one.seq}", "parts": one.parts} for one in run(notes)]
    )
    return chat


@pytest.mark.parametrize(
    ("strategy", "options", "expected"),
    [
        pytest.param("buffer_window", {"last": 3}, [8, 9, 10], id="buffer"),
        pytest.param("buffer_window", {}, list(range(1, 11)), id="buffer of 20"),
        pytest.param("token_window", {"budget_tokens": 1, "keep_last": 2}, [9, 10], id="tokens"),
        pytest.param("token_window", {"budget_tokens": 1}, [6, 7, 8, 9, 10], id="keeps 5"),
        pytest.param("token_window", {}, list(range(1, 11)), id="8,000 tokens"),
        pytest.param("none", {}, list(range(1, 11)), id="none"),
    ],
)
def test_a_session_runs_a_strategy(
    db: MemDB, strategy: str, options: dict[str, int], expected: list[int]
) -> None:
    """The window tells what its messages cost and which budget was given."""
    chat = fill(db, "u " * 10)

    window = Host(chat).window(strategy, **options)

    assert seqs(window.messages) == expected
    assert window.tokens == sum(one.tokens + FRAME for one in window.messages)
    assert window.budget_tokens == (
        options.get("budget_tokens", 8_000) if strategy == "token_window" else None
    )


@pytest.mark.parametrize("strategy", ["buffer_window", "token_window", "none"])
def test_a_strategy_finds_nothing_in_an_unknown_session(db: MemDB, strategy: str) -> None:
    """No messages, no tokens."""
    window = Host(db.scope("ann").session("never")).window(strategy)

    assert (window.messages, window.tokens) == ((), 0)


@each(
    "strategy, options, said",
    [
        pytest.param("buffer", {}, "none, buffer_window, token_window", id="unknown"),
        pytest.param("", {}, "none, buffer_window, token_window", id="empty"),
        pytest.param(7, {}, "none, buffer_window, token_window", id="a number"),
        pytest.param("none", {"last": 5}, "last does not apply.*no options", id="none"),
        pytest.param(
            "buffer_window", {"budget_tokens": 5}, "budget_tokens does not.*use last", id="buffer"
        ),
        pytest.param(
            "token_window", {"last": 5}, "last does not.*budget_tokens or keep_last", id="token"
        ),
        pytest.param("token_window", {"progress": print}, "progress does not", id="progress"),
        pytest.param(None, {"keep_last": 5}, "keep_last does not.*last or budget", id="keep"),
        pytest.param(None, {"progress": print}, "progress does not", id="progress alone"),
        pytest.param("buffer_window", {"last": 0}, "last is 0", id="buffer of 0"),
        pytest.param("token_window", {"budget_tokens": 0}, "budget_tokens is 0", id="budget 0"),
        pytest.param("token_window", {"keep_last": 0}, "keep_last is 0", id="keep 0"),
    ],
)
def test_what_no_strategy_takes_is_refused(
    db: MemDB, strategy: object, options: dict[str, object], said: str
) -> None:
    """The error names what can be used."""
    chat = fill(db, "u")

    with pytest.raises(memdb.InvalidInput, match=said):
        Host(chat).window(strategy, **options)


class Rows:
    """Messages to be read from the end; notes how many were."""

    def __init__(self, messages: list[Message]) -> None:
        """Hold *messages*."""
        self.messages = messages
        self.read = 0

    def __call__(self, count: int, before: int | None) -> list[Message]:
        """Return the newest *count* before a seq."""
        older = [one for one in self.messages if before is None or one.seq < before]
        page = older[max(0, len(older) - count) :]
        self.read += len(page)
        return page


@pytest.mark.parametrize(
    ("notes", "strategy", "options", "most"),
    [
        pytest.param("u " * 5_000, "buffer_window", {"last": 20}, 32, id="buffer"),
        pytest.param("u " * 5_000, "buffer_window", {"last": 100}, 128, id="larger buffer"),
        pytest.param("u " * 5_000, "token_window", {"budget_tokens": 500}, 64, id="tokens"),
        pytest.param("u " * 4_900 + "a " * 100, "buffer_window", {}, 128, id="to the user"),
        pytest.param(
            "u " * 4_900 + "a:x " + "u " * 98 + "t:x", "buffer_window", {}, 128, id="unit"
        ),
        pytest.param("u " * 5_000, "none", {}, 5_000, id="none"),
    ],
)
def test_no_more_rows_are_read_than_needed(
    notes: str, strategy: str, options: dict[str, int], most: int
) -> None:
    """At most twice the window, from a page of 32 on."""
    rows = Rows(run(notes))

    window = strategies.window_by(strategy, strategies.Source(rows, Fixed()), options)

    assert len(window.messages) <= rows.read <= most


@given(
    st.lists(
        st.sampled_from(["u", "a", "a", "t", "a:x", "t:x", "a:y", "t:y"]), min_size=30, max_size=160
    ).map(" ".join),
    st.integers(1, 70),
    st.integers(1, 900),
    st.integers(1, 8),
)
def test_reading_pages_gives_what_reading_all_gives(
    notes: str, last: int, budget: int, keep: int
) -> None:
    """The rows before a window never change it."""
    messages = run(notes)
    source = strategies.Source(Rows(messages), Fixed())

    buffer = strategies.window_by("buffer_window", source, {"last": last})
    tokens = strategies.window_by(
        "token_window", source, {"budget_tokens": budget, "keep_last": keep}
    )

    assert list(buffer.messages) == buffer_window(messages, last)
    assert list(tokens.messages) == token_window(messages, Fixed(), budget, keep)


def test_a_window_changes_nothing(db: MemDB) -> None:
    """Two rounds read the same four messages."""
    chat = fill(db, "u a u a")

    windows = [Host(chat).window("buffer_window", last=9) for _ in range(2)]

    assert windows[0] == windows[1]
    assert seqs(windows[0].messages) == seqs(chat.messages()) == [1, 2, 3, 4]
