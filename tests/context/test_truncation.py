"""Views of messages that are too large: what is cut, what stays, and what they cost."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import memdb
from memdb.context.truncation import LEAST_TOKENS, shorten
from memdb.conversations.windows import cost_tokens
from memdb.models.messages import Message
from memdb.models.settings import DEFAULTS
from memdb.text.tokens import Counting

COUNTING = Counting("estimate", DEFAULTS)


def said(text: str, body: list[Any] | None = None, seq: int = 7, role: str = "user") -> Message:
    """Return a message with its tokens counted."""
    raw = Message(seq, role, None, text, body, 0, "none", None, 0, None, "trip", seq, "u")
    return raw.replace(tokens=cost_tokens(raw, COUNTING) - 4, counter="estimate")


def costs(views: list[Message]) -> int:
    """Return what *views* cost, counted again."""
    return sum(cost_tokens(view.replace(counter="none"), COUNTING) for view in views)


def test_beginning_and_end_are_kept() -> None:
    """Two thirds and one third, and between them where the rest is."""
    (view,) = shorten([said(f"Begin {'word ' * 500}end.")], 100, COUNTING, 100)

    assert view.text.startswith("Begin word")
    assert view.text.endswith("word end.")
    assert "[… expand 7 to read all …]" in view.text
    assert 90 <= costs([view]) <= 100


def test_a_small_view_names_nothing() -> None:
    """The words are worth more then."""
    (view,) = shorten([said(f"Begin {'word ' * 500}end.")], 30, COUNTING, 30)

    assert "[…]" in view.text
    assert "expand" not in view.text


def test_what_fits_stays_as_it_is() -> None:
    """The largest are cut first, down to a common size."""
    unit = [said("short"), said("word " * 400), said("word " * 900)]

    views = shorten(unit, 200, COUNTING, 200)

    assert views[0] == unit[0]
    assert abs(costs([views[1]]) - costs([views[2]])) <= 2
    assert 190 <= costs(views) <= 200


def test_a_call_stays_a_call() -> None:
    """Id and name are whole, the arguments JSON; the result keeps its id."""
    call = {
        "type": "tool_call",
        "id": "a",
        "name": "write",
        "arguments": json.dumps({"t": "x" * 9_000}),
    }
    result = {"type": "tool_result", "tool_call_id": "a", "content": "row " * 3_000}
    unit = [said("", [call], role="assistant"), said("", [result], role="tool")]

    views = shorten(unit, 120, COUNTING, 120)

    made, told = views[0].parts or [], views[1].parts or []
    assert (made[0]["id"], made[0]["name"]) == ("a", "write")
    assert json.loads(made[0]["arguments"])["shortened"].startswith('{"t": "xx')
    assert (told[0]["tool_call_id"], told[0]["content"][:4]) == ("a", "row ")
    assert costs(views) <= 120


def test_no_room_for_views_is_an_error() -> None:
    """It tells what would do."""
    unit = [said("word " * 90) for _ in range(5)]

    with pytest.raises(memdb.TooLarge, match="newest message") as caught:
        shorten(unit, 5 * LEAST_TOKENS - 1, COUNTING, 5 * LEAST_TOKENS - 1)

    assert caught.value.got == 5 * LEAST_TOKENS
    assert costs(shorten(unit, caught.value.got, COUNTING, caught.value.got)) <= caught.value.got


@given(
    texts=st.lists(st.text(max_size=300) | st.sampled_from(["word " * 400, "京" * 300, "🙂" * 99])),
    spare=st.integers(0, 400),
)
def test_views_never_cost_more_than_their_room(texts: list[str], spare: int) -> None:
    """Whatever the script; the stored messages are not touched."""
    unit = [said(text) for text in texts]
    room = sum(min(cost_tokens(one, COUNTING), LEAST_TOKENS) for one in unit) + spare

    views = shorten(unit, room, COUNTING, room)

    assert costs(views) <= room
    assert [view.seq for view in views] == [one.seq for one in unit]
    assert [one.text for one in unit] == texts
