"""
OpenAI Agents SDK: a conversation of memdb as its `Session` (extra `openai-agents`).

    session = MemDBSession("trip", "agent.db", user="ann")
    await Runner.run(agent, "We fly to Oslo on 3 May.", session=session)

An item is stored as one message: its words are searched and recalled, the item
itself comes back as it was, key by key. What other clients said in the session
is given as items too. Calls run in threads that memdb keeps for the open file
(`memdb.aio`); `docs/openai-agents.md` has the mapping.

>>> import asyncio
>>> async def talk():
...     async with MemDBSession("trip", ":memory:", user="ann") as session:
...         await session.add_items([{"role": "user", "content": "We fly to Oslo on 3 May."}])
...         await session.add_items([{"role": "assistant", "content": "Noted."}])
...         hits = await session.search("When do we fly?")
...         return await session.get_items(limit=1), hits[0].text
>>> asyncio.run(talk())
([{'role': 'assistant', 'content': 'Noted.'}], 'We fly to Oslo on 3 May.')
"""

from memdb.errors import InvalidItem, SessionClosed
from memdb.integrations.openai_agents.session import MemDBSession

__all__ = ["InvalidItem", "MemDBSession", "SessionClosed"]
