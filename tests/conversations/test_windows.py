"""Windows: the newest messages within a number and a token budget."""

import pytest

import memdb
from memdb import MemDB
from memdb.adapters.host import Host

FRAME = 4  # tokens a message costs besides its text


class Letters:
    """Counts letters."""

    name = "letters"

    def count(self, text: str) -> int:
        """Return the length of *text*."""
        return len(text)

    def count_many(self, texts: list[str]) -> list[int]:
        """Return the length of each text."""
        return [len(text) for text in texts]


def say(db: MemDB, *roles: str, text: str = "abcd") -> memdb.Session:
    """Return a session with a message of one token per role."""
    chat = db.scope("ann").session("trip")
    chat.extend([{"role": role, "text": text} for role in roles])
    return chat


def seqs(window: memdb.ContextWindow) -> list[int]:
    """Return the seqs in the window."""
    return [message.seq for message in window.messages]


def test_a_window_without_limits_is_the_whole_session(db: MemDB) -> None:
    """Oldest first, with the sum of what the messages cost."""
    chat = say(db, "user", "assistant", "user")

    window = Host(chat).window()

    cost = sum(message.tokens + FRAME for message in chat.messages())
    assert (seqs(window), window.tokens, window.budget_tokens) == ([1, 2, 3], cost, None)


@pytest.mark.parametrize(
    ("last", "expected"), [(0, []), (1, [3]), (2, [2, 3]), (9, [1, 2, 3])], ids=str
)
def test_last_keeps_the_newest(db: MemDB, last: int, expected: list[int]) -> None:
    """At most so many messages."""
    chat = say(db, "user", "assistant", "user")

    assert seqs(Host(chat).window(last=last)) == expected


@pytest.mark.parametrize("messages", [1, 2, 3], ids=str)
def test_the_budget_holds_to_the_token(db: MemDB, messages: int) -> None:
    """A budget of exactly n messages gives n, one token less gives n - 1."""
    chat = say(db, *["user"] * 5)
    cost = messages * (chat.get(1).tokens + FRAME)

    exact, less = (
        Host(chat).window(budget_tokens=cost),
        Host(chat).window(budget_tokens=cost + FRAME),
    )

    assert (len(exact.messages), exact.tokens, exact.budget_tokens) == (messages, cost, cost)
    assert len(less.messages) == messages


def test_a_budget_below_the_newest_message_is_refused(db: MemDB) -> None:
    """The error tells what the message costs."""
    chat = say(db, "user", text="word " * 100)
    cost = chat.get(1).tokens + FRAME

    with pytest.raises(memdb.TooLarge) as caught:
        Host(chat).window(budget_tokens=cost - 1)

    assert (caught.value.limit, caught.value.got) == (cost - 1, cost)


def test_both_limits_hold_together(db: MemDB) -> None:
    """Whichever is reached first ends the window."""
    chat = say(db, *["user"] * 5)
    one = chat.get(1).tokens + FRAME

    assert seqs(Host(chat).window(last=2, budget_tokens=4 * one)) == [4, 5]
    assert seqs(Host(chat).window(last=4, budget_tokens=2 * one)) == [4, 5]


@pytest.mark.parametrize(
    ("roles", "last", "expected"),
    [
        pytest.param(["assistant", "tool", "user"], 2, [3], id="one"),
        pytest.param(["assistant", "tool", "tool", "assistant"], 3, [4], id="two"),
        pytest.param(["assistant", "tool", "assistant"], 3, [1, 2, 3], id="call inside"),
        pytest.param(["assistant", "tool", "tool"], 2, [], id="only results"),
    ],
)
def test_a_window_never_begins_with_a_tool_result(
    db: MemDB, roles: list[str], last: int, expected: list[int]
) -> None:
    """A result whose call is outside is left out, and its tokens too."""
    chat = say(db, *roles)

    window = Host(chat).window(last=last)

    assert seqs(window) == expected
    assert window.tokens == sum(message.tokens + FRAME for message in window.messages)


def test_a_long_window_has_no_hole(db: MemDB) -> None:
    """Over several pages the seqs stay in a row."""
    chat = say(db, *["user"] * 1_200)

    assert seqs(Host(chat).window(last=1_100)) == list(range(101, 1_201))


def test_a_window_of_an_unknown_session_is_empty(db: MemDB) -> None:
    """No messages, no tokens."""
    window = Host(db.scope("ann").session("never")).window(budget_tokens=5)

    assert (window.messages, window.tokens) == ((), 0)


def test_messages_counted_otherwise_are_counted_again(path: str, open_db: object) -> None:
    """A file opened with another counter keeps to that counter's budget."""
    first = open_db(path)
    first.scope("ann").session("trip").append("user", "x" * 40)
    first.close()

    chat = open_db(path, counter=Letters()).scope("ann").session("trip")

    assert Host(chat).window().tokens == 40 + FRAME


def test_counting_again_counts_what_tools_were_told(path: str, open_db: object) -> None:
    """Text and tool call cost the same whether counted when written or when read."""
    call = {"type": "tool_call", "name": "read", "arguments": '{"path": "a"}'}
    parts = [{"type": "text", "text": "I look."}, call]
    first = open_db(path)
    first.scope("ann").session("old").append("assistant", "I look.", parts=parts)
    first.scope("ann").session("alone").append("assistant", "", parts=[call])
    first.close()

    ann = open_db(path, counter=Letters()).scope("ann")
    ann.session("new").append("assistant", "I look.", parts=parts)

    assert Host(ann.session("old")).window().tokens == Host(ann.session("new")).window().tokens
    assert Host(ann.session("old")).window().tokens == len('I look.\nread({"path": "a"})') + FRAME
    assert Host(ann.session("alone")).window().tokens == len('read({"path": "a"})') + FRAME


@pytest.mark.parametrize(
    "limits",
    [
        pytest.param({"last": -1}, id="negative last"),
        pytest.param({"last": "3"}, id="last as text"),
        pytest.param({"budget_tokens": 0}, id="no budget"),
        pytest.param({"budget_tokens": 2**63}, id="budget over 64 bits"),
        pytest.param({"budget_tokens": 1.5}, id="fraction"),
    ],
)
def test_limits_out_of_range_are_refused(db: MemDB, limits: dict[str, object]) -> None:
    """The error names the limit."""
    chat = say(db, "user")

    with pytest.raises(memdb.InvalidInput, match=next(iter(limits))):
        Host(chat).window(**limits)
