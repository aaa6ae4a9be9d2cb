"""Roles survive every pair of writer and reader: a tool's or system's words are never the user's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from with_together.roles import APP, NAME, USER, WRITERS, check_readers, load_rows

import memdb

if TYPE_CHECKING:
    from pathlib import Path

MISSING = load_rows()


@pytest.mark.parametrize("writer", WRITERS)
def test_every_reader_has_the_roles_of_every_writer(writer: str, tmp_path: Path) -> None:
    """User, assistant with a call, a hostile result, system text, another author."""
    path = str(tmp_path / "talk.db")
    WRITERS[writer].write(path)

    check_readers(writer, path)
    with memdb.open(path) as db:
        assert db.file.check(deep=True) == []


@pytest.mark.parametrize("client", sorted(MISSING))
def test_a_client_that_is_not_installed(client: str) -> None:
    """Its rows are left out."""
    pytest.skip(f"no rows of {client}, {MISSING[client]} is not installed: run `make clients`")


def test_a_branch_is_no_session_of_its_own_elsewhere(tmp_path: Path) -> None:
    """ADK lists the session that the branch is of."""
    pytest.importorskip("agents")
    pytest.importorskip("google.adk")
    from memdb.integrations.adk import MemdbSessionService
    from memdb.integrations.openai_agents import MemDBSession

    path = str(tmp_path / "talk.db")

    async def list_names() -> list[str]:
        async with MemDBSession(NAME, path, user=USER, app=APP) as session:
            await session.add_items([{"role": "user", "content": one} for one in "ab"])
            await session.create_branch_from_turn(2, "other")
        async with MemdbSessionService(path) as service:
            listed = await service.list_sessions(app_name=APP, user_id=USER)
        return [one.id for one in listed.sessions]

    assert asyncio.run(list_names()) == [NAME]
