"""Serve the same memory over the mcp package's own transport: what the tests compare with."""

import asyncio
import sys

from mcp.server.stdio import stdio_server

import memdb.aio
from memdb.integrations.mcp import make_server


async def main(path: str) -> None:
    """Serve until the client goes."""
    async with await memdb.aio.open(path) as db, stdio_server() as (reading, writing):
        server = make_server(db, user="ann")
        await server.run(reading, writing, server.create_initialization_options())


asyncio.run(main(sys.argv[1]))
