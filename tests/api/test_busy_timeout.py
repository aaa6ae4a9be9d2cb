"""How long a call waits for another process is an argument of open."""

import asyncio

import pytest

import memdb
import memdb.aio


def test_a_call_waits_as_long_as_the_file_was_opened_to(path: str) -> None:
    """Then it raises Busy, and nothing was written."""
    with memdb.open(path) as first, memdb.open(path, busy_timeout_s=0.01) as second:
        with first.transaction():
            first.scope("ann").session("s").append("user", "one")
            with pytest.raises(memdb.Busy):
                second.scope("ann").session("s").append("user", "two")
        second.scope("ann").session("s").append("user", "three")

        said = [message.text for message in first.scope("ann").session("s").messages()]

    assert said == ["one", "three"]


@pytest.mark.parametrize("seconds", [-1, 3_601, "1", None, float("nan")])
def test_the_time_is_a_number_of_seconds(path: str, seconds: object) -> None:
    """Up to an hour, for `aio` too."""
    with pytest.raises(memdb.InvalidInput, match="busy_timeout_s"):
        memdb.open(path, busy_timeout_s=seconds)

    async def opened() -> None:
        await memdb.aio.open(path, busy_timeout_s=seconds)

    with pytest.raises(memdb.InvalidInput, match="busy_timeout_s"):
        asyncio.run(opened())
