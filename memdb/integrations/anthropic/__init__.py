"""
Anthropic's memory tool on a memdb file (extra `anthropic`).

    with MemdbMemoryTool("agent.db", user="ann") as memory:
        runner = client.beta.messages.tool_runner(tools=[memory], ...)

What the model writes below /memories is items of memdb: found by `recall`, exported and
forgotten with everything else. `docs/anthropic-memory-tool.md` has the mapping.

>>> import memdb
>>> from memdb.integrations.anthropic import MemdbMemoryTool
>>> with memdb.open(":memory:") as db:
...     memory = MemdbMemoryTool(db, user="ann")
...     note = {"command": "create", "path": "/memories/tea.md", "file_text": "Ann drinks tea."}
...     memory.call(note)
...     db.scope("ann").items.recall("what does Ann drink?")[0].item.value
'File created successfully at: /memories/tea.md'
'Ann drinks tea.'
"""

from memdb.adapters.adapter import extra

with extra("anthropic"):
    from memdb.integrations.anthropic.memory import MemdbAsyncMemoryTool, MemdbMemoryTool

__all__ = ["MemdbAsyncMemoryTool", "MemdbMemoryTool"]
