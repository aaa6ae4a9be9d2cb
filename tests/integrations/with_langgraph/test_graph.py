"""Graphs of LangGraph on a memdb file: killed and resumed, and with langmem's tools."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pages import blocks, run_block, run_doctests

EXAMPLE = Path(__file__).resolve().parents[3] / "examples" / "langgraph_agent.py"

# A graph with a loop, two branches side by side, an interrupt and a store. Each step prints, and
# the process kills itself at the step that it is told. It ends with its whole history.
GRAPH = """
import json, operator, os, signal, sys
from typing import Annotated, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

kind, path, kill_at = sys.argv[1:4]
steps = 0

def step(name):
    global steps
    steps += 1
    if str(steps) == kill_at:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"log": [name]}

class State(TypedDict):
    log: Annotated[list, operator.add]
    count: int

def left(state, *, store):
    before = store.get(("runs",), "left")
    store.put(("runs",), "left", {"n": (before.value["n"] if before else 0) + len(state["log"])})
    return step("left")

def right(state):
    return step("right")

def ask(state):
    answer = interrupt("go on?") if state.get("count", 0) == 1 else "yes"
    return step(f"ask {answer}") | {"count": state.get("count", 0) + 1}

builder = StateGraph(State)
for name, node in {"left": left, "right": right, "ask": ask}.items():
    builder.add_node(name, node)
builder.add_edge(START, "left")
builder.add_edge(START, "right")
builder.add_edge(["left", "right"], "ask")
builder.add_conditional_edges("ask", lambda state: "left" if state["count"] < 3 else END)

if kind == "memdb":
    from memdb.integrations.langgraph import MemdbSaver, MemdbStore
    saver, store = MemdbSaver(path), MemdbStore(path)
else:
    import sqlite3
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.store.sqlite import SqliteStore
    saver = SqliteSaver(sqlite3.connect(path, check_same_thread=False))
    saver.setup()
    store = SqliteStore(sqlite3.connect(path + ".store", check_same_thread=False, isolation_level=None))
    store.setup()
graph = builder.compile(checkpointer=saver, store=store)
config = {"configurable": {"thread_id": "t"}}
state = graph.get_state(config)
if not state.values and not state.next:
    given = {"log": [], "count": 0}
elif state.interrupts:
    given = Command(resume="yes")
else:
    given = None
if given is not None or state.next:
    graph.invoke(given, config, durability="sync")
history = [
    [one.values, one.next, one.metadata["source"], one.metadata["step"],
     [[task.name, [i.value for i in task.interrupts], task.result] for task in one.tasks]]
    for one in graph.get_state_history(config)
]
found = [[item.namespace, item.key, item.value] for item in store.search(())]
print(json.dumps([history, found], default=list))
"""


def run(kind: str, path: Path, kill_at: int) -> tuple[int, Any]:
    """Run the graph once; return how it ended and what it printed."""
    command = [sys.executable, "-c", GRAPH, kind, str(path), str(kill_at)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
    return ran.returncode, json.loads(ran.stdout) if ran.stdout else None


@pytest.mark.slow
@pytest.mark.parametrize("kill_at", range(1, 5))
def test_a_killed_graph_goes_on_as_with_langgraph_s_own_classes(
    tmp_path: Path, kill_at: int
) -> None:
    """Killed at a step, run again until it ends: history, tasks, interrupts and store agree."""
    results = []
    for kind in ("memdb", "sqlite"):
        path = tmp_path / f"{kind}.db"
        first = run(kind, path, kill_at)
        runs = [first, *(run(kind, path, 0) for _ in range(3))]
        results.append(runs)
    assert results[0] == results[1]
    assert results[0][-1][1][0][0][1] == []  # the end was reached


def test_langmem_s_tools_manage_and_search(tmp_path: Path) -> None:
    """A memory is created, changed, found and deleted by an agent's tools."""
    langmem = pytest.importorskip("langmem")
    from memdb.integrations.langgraph import MemdbStore

    with MemdbStore(tmp_path / "a.db") as store:
        space = ("memories", "{user}")
        manage = langmem.create_manage_memory_tool(namespace=space, store=store)
        search = langmem.create_search_memory_tool(namespace=space, store=store)
        config: Any = {"configurable": {"user": "ann"}}
        other: Any = {"configurable": {"user": "bob"}}
        for text in ("Ann likes the red lamp.", "The boat leaves at nine."):
            manage.invoke({"content": text, "action": "create"}, config)
        manage.invoke({"content": "Bob likes tea.", "action": "create"}, other)

        found = json.loads(search.invoke({"query": "Which lamp does Ann like?"}, config))

        assert found[0]["value"]["content"] == "Ann likes the red lamp."
        key = found[0]["key"]
        change = {"content": "Ann likes the blue lamp.", "action": "update", "id": key}
        manage.invoke(change, config)
        assert store.get(("memories", "ann"), key).value["content"] == "Ann likes the blue lamp."
        manage.invoke({"action": "delete", "id": key}, config)
        left = json.loads(search.invoke({"query": "lamp"}, config))
        assert [one["value"]["content"] for one in left] == ["The boat leaves at nine."]


def test_the_example_remembers(tmp_path: Path) -> None:
    """The second run goes on where the first ended."""
    command = [sys.executable, str(EXAMPLE), str(tmp_path / "agent.db")]
    printed = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        for _ in range(2)
    ]
    assert printed == [
        ["I see 1 messages, and know: nothing yet"],
        ["I see 3 messages, and know: Ann likes tea."],
    ]


def test_the_page_and_the_docstrings_are_true(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """What docs/langgraph.md shows runs as it is."""
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("langgraph.md", "python")
    run_block(code)
    assert capsys.readouterr().out == "Ann likes tea.\n"
    assert run_doctests("memdb.integrations.langgraph") > 0
