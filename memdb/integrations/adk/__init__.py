"""
Google's Agent Development Kit on one memdb file (extra `adk`).

`MemdbSessionService`, `MemdbMemoryService` and `MemdbArtifactService` are its
three services. Each opens the file at its path, or shares one that is open.

>>> import asyncio, memdb
>>> from google.adk.events import Event
>>> from memdb.integrations.adk import MemdbSessionService
>>> async def talk(db):
...     service = MemdbSessionService(db)
...     who = {"app_name": "desk", "user_id": "ann"}
...     session = await service.create_session(**who, state={"user:city": "Oslo"})
...     await service.append_event(session, Event(author="user", message="We fly on 3 May."))
...     again = await service.get_session(**who, session_id=session.id)
...     return again.state, [event.content.parts[0].text for event in again.events]
>>> with memdb.open(":memory:") as db:
...     asyncio.run(talk(db))
({'user:city': 'Oslo'}, ['We fly on 3 May.'])
"""

from memdb.adapters.adapter import extra

with extra("adk"):
    from memdb.integrations.adk.artifacts import MemdbArtifactService
    from memdb.integrations.adk.memory import MemdbMemoryService
    from memdb.integrations.adk.sessions import MemdbSessionService

__all__ = ["MemdbArtifactService", "MemdbMemoryService", "MemdbSessionService"]
