"""
One way in, one way out: only `records/` writes what hangs on a thing, and queues jobs.

Read from the syntax trees: a function of a table counts as a writer if it runs
an INSERT or DELETE (of words, vectors and tombstones also an UPDATE), itself or
by another function of its module.
"""

import ast
from functools import cache

from cases import each
from source_tree import FILES, nodes_of, statements_of, tree_of

from memdb.engine import base, compose

TABLES = "memdb.tables"

# Tables where a change is as much as a row: they are derived, or say that something is gone.
DERIVED = {"spaces", "tombstones"}

# What the engine keeps beside the rows: the writers of `tx.words` and `tx.vectors`.
ENGINE = {
    "words": {
        "add",
        "drop",
        "add_messages",
        "add_archived",
        "drop_archived",
        "rebuild_archived",
    },
    "vectors": {"put", "drop", "drop_some", "rebuild"},
}

# Tables of things, and the queue.
THINGS = {
    "archive",
    "derived",
    "artifacts",
    "entries",
    "entry_history",
    "jobs",
    "links",
    "messages",
    "sessions",
    "state",
    "summaries",
}

# Finishing a job removes its row, and the first lease of upkeep makes its row: that is not
# queueing. A copy queues at its end
# the vectors that its new space lacks.
OTHERS = {
    ("jobs", "done"),
    ("jobs", "lease_upkeep"),
    ("jobs", "add_missing"),
}


def writes(sql: str, *, derived: bool) -> bool:
    """Return whether a statement adds or removes rows; with *derived* also whether it changes."""
    verb = compose.without_digest(sql).split("*/")[-1].split(maxsplit=1)
    return bool(verb) and verb[0] in {"INSERT", "DELETE", *(["UPDATE"] if derived else [])}


@cache
def writers(table: str) -> frozenset[str]:
    """Return the functions of a table's module that write, directly or by another of them."""
    module = tree_of(f"tables/{table}.py")
    sql = statements_of(f"tables/{table}.py")
    writing = {name for name, text in sql.items() if writes(text, derived=table in DERIVED)}
    names = {
        node.name: {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        for node in module.body
        if isinstance(node, ast.FunctionDef)
    }
    found: set[str] = set()
    while more := {name for name, used in names.items() if used & (writing | found)} - found:
        found |= more
    return frozenset(found - {name for of, name in OTHERS if of == table})


def calls(name: str) -> set[str]:
    """Return the writers, as `table.function`, that a file names."""
    aliases: dict[str, str] = {}
    functions: dict[str, tuple[str, str]] = {}
    for node in nodes_of(name):
        if isinstance(node, ast.ImportFrom) and node.module == TABLES:
            aliases |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{TABLES}."):
            table = (node.module or "").rpartition(".")[2]
            functions |= {one.asname or one.name: (table, one.name) for one in node.names}
    named = {
        (aliases[node.value.id], node.attr)
        for node in nodes_of(name)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id in aliases
    } | set(functions.values())
    by_engine = {
        f"tx.{node.value.attr}.{node.attr}"
        for node in nodes_of(name)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.attr in ENGINE.get(node.value.attr, ())
    }
    return by_engine | {
        f"{table}.{function}"
        for table, function in named
        if table in DERIVED | THINGS and function in writers(table)
    }


ABOVE = [
    name
    for name in FILES
    if not name.startswith(("engine/", "rescue/", "postgres/", "tables/", "records/"))
]


@each("name", ABOVE)
def test_only_records_write_what_hangs_on_a_thing(name: str) -> None:
    """No other file calls a function that adds or removes rows of these tables."""
    assert calls(name) == set()


def test_the_test_sees_the_writers() -> None:
    """Those that everything depends on are among them, and readers are not."""
    assert {"add_space", "complete", "delete"} <= writers("spaces")
    assert {"tx.words.add", "tx.words.drop", "tx.vectors.drop"} <= (
        calls("records/entries.py") | calls("records/entry_writer.py")
    )
    for name, protocol in (("words", base.Words), ("vectors", base.Vectors)):
        assert {method for method in ENGINE[name] if hasattr(protocol, method)} == ENGINE[name]
    assert {
        "add",
        "drop",
        "forget_entries",
        "hide_kind",
        "hide_named",
        "hide_ref",
        "hide_all_refs",
    } == writers("tombstones")
    assert {"add_session", "add_entry", "grew", "redo_node"} <= writers("jobs")
    assert not {"due", "lease", "fail", "advance"} & writers("jobs")
    assert {"add", "delete_range"} <= writers("messages")
    assert "postings" not in ENGINE["words"]
