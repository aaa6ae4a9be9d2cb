"""SQL stands in `tables/`, `engine/`, `rescue/` and `postgres/`, in named constants, with values bound by name."""

import ast
import re
from functools import cache
from pathlib import Path

from source_tree import FILES, nodes_of, statements_of

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|UPDATE\s+\w+\s+SET|DELETE\s+FROM|CREATE\s+(TABLE|INDEX)|PRAGMA\s+\w+|BEGIN\s+IMMEDIATE|SAVEPOINT\s+\w+)\b",
    re.DOTALL,
)
PLACES = ("tables/", "engine/", "rescue/", "postgres/")


@cache
def literals(name: str) -> list[tuple[int, str]]:
    """Return line and text of each string in a file that is no docstring."""
    docs = {
        id(node.body[0].value)
        for node in nodes_of(name)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        (node.lineno, node.value)
        for node in nodes_of(name)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


STATEMENTS = [
    (name, sql) for name in FILES if name.startswith(PLACES) for sql in statements_of(name).values()
]
OUTSIDE = [
    name
    for name in FILES
    if not name.startswith(PLACES) and name not in ("evaluation/baselines.py", "folder/due.py")
]


def test_no_sql_outside_its_places() -> None:
    """No string of any other module is a statement."""
    assert [
        (name, line, text)
        for name in OUTSIDE
        for line, text in literals(name)
        if SQL.search(text) and not text.startswith("memdb query")  # an example in a help
    ] == []


def test_statements_of_tables_are_constants() -> None:
    """Nothing in a function body is SQL, so nothing there is put together."""
    inside = {
        (name, text.lineno, text.value)
        for name in FILES
        if name.startswith("tables/")
        for function in nodes_of(name)
        if isinstance(function, ast.FunctionDef)
        for text in ast.walk(function)
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    }

    assert [one for one in sorted(inside) if SQL.search(one[2])] == []


def test_each_statement_says_its_name() -> None:
    """Traces and plans show `/* module.verb */` in the first line."""
    assert [
        (name, sql)
        for name, sql in STATEMENTS
        if not re.match(rf"/\* {Path(name).stem}\.\w+ \*/\n", sql)
    ] == []


def test_names_of_statements_are_unique() -> None:
    """A name in a trace leads to one place."""
    tags = [sql.splitlines()[0] for _, sql in STATEMENTS]

    assert sorted(tags) == sorted(set(tags))


def test_statements_list_their_columns_and_bind_by_name() -> None:
    """No `*` for columns, no `?`, no OFFSET, no trailing semicolon."""
    bodies = [re.sub(r"/\*.*?\*/|'[^']*'", "", sql) for _, sql in STATEMENTS]

    assert [body for body in bodies if re.search(r"SELECT\s+\*|\?|\bOFFSET\b|;\s*$", body)] == []


def test_pages_have_an_order() -> None:
    """A LIMIT above one without ORDER BY would give any rows."""
    assert [
        (name, sql)
        for name, sql in STATEMENTS
        if "LIMIT" in sql and "ORDER BY" not in sql and "LIMIT 1" not in sql
    ] == []


# What only SQLite understands: FTS5, its own tables and settings, and sqlite-vec.
SQLITE_ALONE = re.compile(
    r"\bMATCH\b|\w_fts\b|\bfts5|\bbm25\b|\bsnippet\(|\browid\b|\bPRAGMA\b|\bpragma_|\bVACUUM\b|"
    r"\bANALYZE\b|sqlite_schema|sqlite_master|\bdbstat\b|\bvec_\w+\(|\bsqlite_vec\b|"
    r"\bSAVEPOINT\b|BEGIN IMMEDIATE"
)

# Codes of findings are names of indexes; users know them.
NAMES_ALONE = {
    f"{kind}_fts"
    for kind in ("messages", "archived", "entries", "summaries", "artifacts", "items", "sessions")
}

ABOVE = [name for name in FILES if not name.startswith(("engine/", "rescue/", "postgres/"))]


def test_only_the_engine_speaks_sqlite() -> None:
    """No statement or string above the engine holds what another engine would not take."""
    assert [
        (name, line, text)
        for name in ABOVE
        if not name.startswith("cli/") and name not in ("evaluation/baselines.py", "folder/due.py")
        for line, text in literals(name)
        if SQLITE_ALONE.search(text) and text not in NAMES_ALONE
    ] == []


# Whoever else imports a driver. A second SQLite library opens files in the first one alone, which
# has the guard of `memdb.engine.files`; the second one opens none, and the last names a type.
DRIVERS = {
    "formats/sqlite_files.py": {"sqlite3", "sqlite_utils"},
    "cli/sqlite_utils_plugin.py": {"sqlite_utils"},
    "folder/due.py": {"apsw"},  # its own small file, which no memdb reads
    "evaluation/baselines.py": {"apsw"},  # plain FTS5 is what memdb is measured against
    "engine/sqlite/query.py": {"sqlite3"},
}


def test_only_the_engine_imports_a_driver() -> None:
    """Whoever needs a database gets it through the seam, and the engine has one library."""
    found: dict[str, set[str]] = {}
    for name in FILES:
        for node in nodes_of(name):
            modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            modules += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            used = {"apsw", "sqlite3", "sqlite_vec", "sqlite_utils"} & {*modules}
            used -= set() if name in ABOVE else {"apsw", "sqlite_vec"}
            if used:
                found.setdefault(name, set()).update(used)

    assert found == DRIVERS


def test_services_know_no_engine_but_its_seam() -> None:
    """Only `api/` chooses an engine; everything else is written against `memdb.engine.base`."""
    wrong = []
    for name in ABOVE:
        # aio is a client of api; segments are files, encrypted as the engine encrypts its own; a
        # file of another program is SQLite's in every engine.
        if name.startswith(("api/", "aio/", "sync/", "formats/sqlite_files.py")):
            continue
        for node in nodes_of(name):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            if module is not None and module.startswith("memdb.engine.sqlite"):
                wrong.append((name, module))

    assert wrong == []
