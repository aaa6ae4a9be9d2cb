"""
A graph of LangGraph whose threads and memories are in one memdb file; its model is a function.

    python examples/langgraph_agent.py [FILE]
"""

import sys
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph

from memdb.integrations.langgraph import MemdbSaver, MemdbStore

path = sys.argv[1] if len(sys.argv) > 1 else "agent.db"
with MemdbSaver(path) as saver, MemdbStore(path) as store:

    def answer(state: MessagesState) -> dict[str, Any]:
        """Say what is known, and remember something."""
        known = store.search(("ann",), query="What does Ann like?", limit=1)
        store.put(("ann",), "drink", {"text": "Ann likes tea."})
        fact = known[0].value["text"] if known else "nothing yet"
        return {"messages": [("ai", f"I see {len(state['messages'])} messages, and know: {fact}")]}

    builder = StateGraph(MessagesState).add_node("answer", answer).add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver, store=store)
    config: Any = {"configurable": {"thread_id": "trip"}}
    said = graph.invoke({"messages": [("user", "Hello")]}, config)
    print(said["messages"][-1].content)
