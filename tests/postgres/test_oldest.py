"""The oldest server that memdb takes: everything as on the newest, and no older one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.importorskip("psycopg", reason="psycopg is not installed")

import psycopg

import memdb
from memdb.postgres.driver import MIN_VERSION
from tests.postgres_server import OLDEST, CannotStart, server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def oldest() -> Iterator[str]:
    """Return the address of a server of the oldest version, with an empty database."""
    try:
        with server(OLDEST) as address:
            yield address
    except CannotStart as error:
        pytest.skip(str(error))


def test_the_oldest_server_has_everything(oldest: str, tmp_path: Path) -> None:
    """Tables are made; what is written is found, searched, computed, forgotten and copied."""
    with psycopg.connect(oldest) as connection:
        assert connection.info.server_version // 10_000 == MIN_VERSION // 10_000 == OLDEST
    with memdb.open(oldest, counter="estimate") as db:
        ann, chat = db.scope("ann"), db.scope("ann").session("trip")
        chat.extend([{"role": "user", "text": f"Day {n} in Oslo."} for n in range(40)])
        first = ann.remember("Ann lives in Oslo.", key="home").entry
        ann.remember("Ann lives in Bergen.", key="home")
        chat.artifacts.save("menu.md", "soup")
        chat.summaries.compact(keep_last=5)
        db.jobs.run()
        db.file.vacuum()

        assert {one.role for one in chat.messages()} == {"user"}
        assert [one.text for one in ann.entries.list() if one.key] == ["Ann lives in Bergen."]
        assert ann.entries.get(first.id).valid_to_ms is not None
        assert chat.recall("What was on day 7?", 3).hits
        assert db.query("SELECT role, seq FROM messages_view ORDER BY seq LIMIT 1").rows == (
            ("user", 1),
        )
        assert chat.forget([7], prove=True).proven
        assert db.file.check(deep=True) == []
        db.file.copy(tmp_path / "back.db")
    with memdb.open(tmp_path / "back.db") as back:
        assert back.file.check(deep=True) == []
        assert back.scope("ann").session("trip").last_seq == 40
