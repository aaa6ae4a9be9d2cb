"""
Model Context Protocol: one user's memory as a server.

`memdb mcp FILE --user NAME` runs it over stdio. `make_server` returns the object that the mcp
package serves over any transport (extra `mcp`, as for HTTP).

>>> import asyncio, memdb.aio
>>> from memdb.integrations.mcp import make_server
>>> async def talk():
...     from mcp import Client
...
...     async with memdb.aio.open(":memory:") as db:
...         async with Client(make_server(db, user="ann")) as client:
...             fact = {"text": "Ann is allergic to peanuts."}
...             await client.call_tool("remember", fact)
...             found = await client.call_tool("recall", {"query": "what must Ann not eat?"})
...             return found.structured_content["hits"][0]["text"]
>>> asyncio.run(talk())
'Ann is allergic to peanuts.'
"""

from memdb.integrations.mcp.server import make_server
from memdb.integrations.mcp.transports import serve

__all__ = ["make_server", "serve"]
