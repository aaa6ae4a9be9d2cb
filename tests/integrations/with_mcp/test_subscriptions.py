"""Who subscribed to a resource hears of every change, by whatever client of the file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from mcp import Client
from with_mcp.test_server import answer, stdio

import memdb
import memdb.aio
from memdb.integrations.mcp import make_server

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TALK = "memdb://sessions/trip"
PLAN = "memdb://artifacts/user%3Aplan.md"
TIMEOUT_S = 20

pytestmark = pytest.mark.filterwarnings("ignore:.*removed as of 2026-07-28")


class News:
    """The URIs that a client heard of, in order."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.uris: list[str] = []
        self._more = asyncio.Event()

    async def __call__(self, message: Any) -> None:
        """Take what the server sends."""
        params = getattr(getattr(message, "root", message), "params", None)
        if getattr(message, "method", "").endswith("resources/updated"):
            self.uris.append(str(params.uri))
            self._more.set()

    async def wait_for(self, count: int) -> list[str]:
        """Return the URIs once there are so many."""
        async with asyncio.timeout(TIMEOUT_S):
            while len(self.uris) < count:
                self._more.clear()
                await self._more.wait()
        return self.uris


def with_news(path: str, work: Callable[[Client, News, memdb.MemDB], Awaitable[Any]]) -> Any:
    """Run *work* with a client of the protocol with a handshake, and another open file."""

    async def talk() -> Any:
        news = News()
        async with await memdb.aio.open(path, durability="process") as db:
            server = make_server(db, user="ann")
            with memdb.open(path, durability="process") as other:
                async with Client(server, mode="legacy", message_handler=news) as client:
                    return await work(client, news, other)

    return asyncio.run(talk())


def test_a_change_by_a_tool_is_heard_before_its_answer(path: str) -> None:
    """After each that changed it, and no other."""

    async def work(client: Client, news: News, _other: memdb.MemDB) -> list[list[str]]:
        heard = []
        await client.subscribe_resource(PLAN)
        for name, given in (
            ("artifact_save", {"name": "user:plan.md", "text": "Oslo"}),
            ("artifact_save", {"name": "user:plan.md", "text": "Rome"}),
            ("artifact_load", {"name": "user:plan.md"}),
            ("artifact_save", {"name": "user:plan.md", "base64": "no"}),
            ("remember", {"text": "Ann drinks tea."}),
        ):
            await client.call_tool(name, given)
            heard.append([*news.uris])
        await client.unsubscribe_resource(PLAN)
        await client.unsubscribe_resource("memory://nothing")
        await answer(client, "artifact_save", name="user:plan.md", text="Bergen")
        return [*heard, news.uris]

    once, twice = [PLAN], [PLAN, PLAN]
    assert with_news(path, work) == [once, twice, twice, twice, twice, twice]


@pytest.mark.parametrize(
    ("uri", "change"),
    [
        (PLAN, lambda scope: scope.artifacts.save("user:plan.md", "Oslo")),
        (PLAN, lambda scope: scope.artifacts.delete("user:plan.md")),
        (TALK, lambda scope: scope.session("trip").append("user", "We fly.")),
        (TALK, lambda scope: scope.session("trip").delete()),
    ],
    ids=["saved", "deleted", "said", "gone"],
)
def test_a_change_by_another_client_is_heard(path: str, uri: str, change: Any) -> None:
    """Once; what others do elsewhere in the file is not."""
    with memdb.open(path) as db:
        db.scope("ann").session("trip").append("user", "Hello.")
        db.scope("ann").artifacts.save("user:plan.md", "Rome")

    async def work(client: Client, news: News, other: memdb.MemDB) -> list[str]:
        await client.subscribe_resource(uri)
        other.scope("ann").session("elsewhere").append("user", "Something else.")
        other.scope("bob").artifacts.save("user:plan.md", "his")
        await asyncio.sleep(0.6)
        assert news.uris == []
        change(other.scope("ann"))
        await news.wait_for(1)
        await asyncio.sleep(0.6)
        return news.uris

    assert with_news(path, work) == [uri]


def test_any_uri_can_be_subscribed_to(path: str) -> None:
    """Nothing is heard of what there is not."""

    async def work(client: Client, news: News, other: memdb.MemDB) -> list[str]:
        for uri in ("memory://other", "memdb://sessions/none", "memdb://x/y/z", PLAN, PLAN):
            await client.subscribe_resource(uri)
        other.scope("ann").artifacts.save("user:plan.md", "Oslo")
        return await news.wait_for(1)

    assert with_news(path, work) == [PLAN]


def test_a_client_without_a_handshake_listens(path: str) -> None:
    """To resources and to the list of them."""

    async def talk() -> list[str]:
        async with await memdb.aio.open(path, durability="process") as db:
            server = make_server(db, user="ann")
            heard = []
            async with Client(server) as client:
                await answer(client, "artifact_save", name="user:plan.md", text="Oslo")
                async with client.listen(
                    resource_subscriptions=[PLAN], resources_list_changed=True
                ) as stream:
                    await answer(client, "artifact_save", name="user:plan.md", text="Rome")
                    await answer(client, "artifact_save", name="user:a.txt", text="a")
                    async with asyncio.timeout(TIMEOUT_S):
                        async for event in stream:
                            heard.append(type(event).__name__)
                            if len(heard) == 2:
                                break
            return heard

    assert asyncio.run(talk()) == ["ResourceUpdated", "ResourcesListChanged"]


@pytest.mark.slow
def test_servers_of_two_processes_tell_each_other_s_clients(path: str) -> None:
    """A client of one hears what the tools of the other change."""

    async def talk() -> list[str]:
        news = News()
        async with (
            Client(stdio(path), mode="legacy", message_handler=news) as one,
            Client(stdio(path), mode="legacy") as other,
        ):
            await one.subscribe_resource(PLAN)
            for text in ("tea", "milk"):
                count = len(news.uris)
                await answer(other, "artifact_save", name="user:plan.md", text=text)
                await news.wait_for(count + 1)
        return news.uris

    assert asyncio.run(talk()) == [PLAN, PLAN]
