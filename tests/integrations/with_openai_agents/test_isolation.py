"""Users apart through sessions of the Agents SDK."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from apart import compare_services, coroutines
from tenants import OTHERS
from tenants import SECRETS as S

from memdb.integrations.openai_agents import MemDBSession

if TYPE_CHECKING:
    from tenants import Files

    from memdb import MemDB


def test_every_call_of_an_agents_session_keeps_users_apart(
    files: Files, loop: asyncio.AbstractEventLoop
) -> None:
    """Items and branches; others have sessions of the same name, and read theirs before."""
    item = {"role": "user", "content": "more tea"}

    def make(db: MemDB) -> Any:
        for user, app in OTHERS if db is files.beside else ():
            for name in ("trip", "due", S["session"]):
                others = MemDBSession(name, db, user=user, app=app)
                asyncio.run(others.get_items())
                others.close()
        return MemDBSession("due", db, user="ann")

    async def fit(session: Any) -> object:
        return await session.within(100)([item] * 40, [item])

    async def compact(session: Any) -> object:
        snapshot = await session._get_compaction_snapshot(5)
        return snapshot.candidate_items, await session._atomic_replace_items([item])

    async def read_theirs(session: Any) -> object:
        other = MemDBSession(S["session"], session._opened()._db.blocking, user="ann")
        found = await other.get_items(), await other.pop_item(), await other.list_branches()
        await other.clear_session()
        other.close()
        return found

    tried = compare_services(
        files,
        loop,
        make,
        [
            ("get_items", lambda session: session.get_items()),
            ("get_items", lambda session: session.get_items(2, S["session"])),
            ("add_items", lambda session: session.add_items([item])),
            ("search", lambda session: session.search("tea")),
            ("search", lambda session: session.search(S["text"])),
            ("recall", lambda session: session.recall("Oslo lamp")),
            ("context_items", lambda session: session.context_items(200, "lamp")),
            ("within", fit),
            ("find_turns_by_content", lambda session: session.find_turns_by_content("tea 3")),
            ("get_conversation_turns", lambda session: session.get_conversation_turns()),
            ("create_branch_from_turn", lambda session: session.create_branch_from_turn(3, "alt")),
            ("list_branches", lambda session: session.list_branches()),
            ("switch_to_branch", lambda session: session.switch_to_branch(S["session"])),
            ("switch_to_branch", lambda session: session.switch_to_branch("main")),
            ("delete_branch", lambda session: session.delete_branch("alt")),
            ("delete_branch", lambda session: session.delete_branch(S["forked_session"])),
            (
                "create_branch_from_content",
                lambda session: session.create_branch_from_content("tea 5", "more"),
            ),
            ("pop_item", lambda session: session.pop_item()),
            ("compaction", compact),
            ("another session", read_theirs),
            ("clear_session", lambda session: session.clear_session()),
            ("get_items", lambda session: session.get_items()),
        ],
    )
    assert coroutines(MemDBSession) - tried == {"aclose"}
