"""Stored JSON: what cannot be read is reported as damage."""

from __future__ import annotations

import re

import pytest

from memdb.errors import Corrupt, InvalidInput
from memdb.text.validate import LARGE, MANY, int_value, parse_json


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"a":' * 100_000, "\0", ""])
def test_damaged_json_is_corrupt(text: str) -> None:
    """Cut off, or nested deeper than Python's parser can go."""
    with pytest.raises(Corrupt, match="memdb check"):
        parse_json(text)


def test_seconds_are_no_time(db):
    """A time in seconds would be one of 1970 without a word; the error says what to give."""
    now_s = 1_756_000_000
    chat = db.scope("u").session("x")
    for call in (
        lambda: chat.append("user", "hi", created=now_s),
        lambda: chat.append({"role": "user", "text": "hi", "created": now_s}),
        lambda: db.scope("u").recall("hi", since=now_s),
        lambda: db.scope("u").remember("It is so.", expires=now_s),
    ):
        with pytest.raises(InvalidInput, match=r"is 1756000000: give milliseconds, 1756000000000"):
            call()
    assert chat.append("user", "hi", created=now_s * 1000).created_ms == now_s * 1000


@pytest.mark.parametrize("high", [10, LARGE, MANY, (1 << 63) - 1])
@pytest.mark.parametrize("beyond", [-1, 1])
def test_a_number_is_told_the_limit_that_it_breaks(high: int, beyond: int) -> None:
    """What is wanted is true of no number that is refused."""
    value = high + 1 if beyond > 0 else 0
    with pytest.raises(InvalidInput) as raised:
        int_value(value, "limit", 1, high)

    wanted = [
        int(found.replace(",", "")) for found in re.findall(r"[\d,]+\d|\d", str(raised.value))
    ]
    assert not wanted[1] <= value <= (wanted[2:] or [value])[0]
