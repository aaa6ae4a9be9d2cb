"""What starting costs: a short program loads nothing large that it does not use."""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from source_tree import FILES, text_of

import memdb

PACKAGES = (
    "numpy tiktoken click sqlite3 sqlite_utils httpx asyncio dataclasses inspect subprocess "
    "logging mimetypes urllib lzma".split()
)

# A program, and the modules and data files that it must not load.
PROGRAMS = {
    "import memdb": ["apsw", "memdb.api.database", *PACKAGES],
    "db.scope('ann').session('trip').last(50)": [
        *PACKAGES,
        *("sqlite_vec", "memdb.search.service", "memdb.entries.remember", "memdb.formats"),
    ],
    "db.scope('ann').session('trip').append('user', 'We had tea.')": [
        *(package for package in PACKAGES if package != "numpy"),
        *("memdb.entries.remember", "memdb.facts.pairs", "memdb.formats"),
    ],
    "db.scope('ann').recall('Where did we have tea last May?')": [
        *(package for package in PACKAGES if package != "numpy"),
        *("pairs.json", "sentences.json", "markers.json"),
    ],
    "db.scope('ann').session('trip').context(4000)": [
        *("sqlite3", "asyncio", "click"),
        *("memdb.search.service", "memdb.search.order", "memdb.facts.pairs"),
    ],
}

# Most modules of memdb that a program loads.
MOST = {
    "db.scope('ann').session('trip').last(50)": 82,
    "db.scope('ann').session('trip').append('user', 'We had tea.')": 113,
    "db.scope('ann').recall('Where did we have tea last May?')": 134,
    "db.scope('ann').session('trip').context(4000)": 118,
}

NOTE_FILES = """
import sys
files = []
sys.addaudithook(lambda event, given: event == "open" and files.append(str(given[0]).split("/")[-1]))
"""
OPENED = "import memdb, sys\nwith memdb.open(sys.argv[1]) as db:\n    {call}\n"


def loaded(call: str, path: str) -> set[str]:
    """Run a program and return the modules that it loaded, and the names of the files it read."""
    program = call if call.startswith("import") else OPENED.format(call=call)
    environment = {**os.environ, "PYTHONPATH": str(Path(memdb.__file__).parent.parent)}
    whole = f"{NOTE_FILES}{program}\nprint(*sys.modules, *files)"
    command = [sys.executable, "-c", whole, path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_program_loads_nothing_large_that_it_does_not_use(tmp_path: Path) -> None:
    """Importing loads no driver, reading no writer, and no call a package that it can do without."""
    path = str(tmp_path / "agent.db")
    with memdb.open(path, settings={"extract": False}) as db:
        db.scope("ann").session("trip").append("user", "We had tea in May.")
        db.jobs.run()

    for call, heavy in PROGRAMS.items():
        modules = loaded(call, path)
        assert "memdb" in modules
        assert modules.intersection(heavy) == set(), call
        own = [name for name in modules if name.split(".")[0] == "memdb" and "/" not in name]
        assert len(own) <= MOST.get(call, 200), (call, len(own))


# Where a module of memdb may be imported inside a function: in commands, and in the one container.
LATE = ("cli/", "api/_container.py", "api/_resolve.py")

# Handles that few programs ask for; what only a foreign format, or who has an extra, needs.
RARE = {
    "api/database.py": "memdb.api.file",
    "api/session.py": "memdb.api.tools",
    "integrations/mcp/transports.py": "memdb.web",
}


def late_imports(source: str) -> Iterator[str]:
    """Yield the modules of memdb that a source imports inside a function, but for `__getattr__`."""
    functions = [
        one
        for one in ast.walk(ast.parse(source))
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    for function in functions:
        if function.name != "__getattr__":
            for one in ast.walk(function):
                if isinstance(one, ast.ImportFrom) and (one.module or "").startswith("memdb"):
                    yield one.module or ""
                elif isinstance(one, ast.Import):
                    yield from (name.name for name in one.names if name.name.startswith("memdb"))


def test_imports_stand_at_the_top() -> None:
    """Only commands and the container of services import a module of memdb when they need it."""
    found = [
        f"{file}: {module}"
        for file in FILES
        if not file.startswith(LATE)
        for module in late_imports(text_of(file))
        if not module.startswith(RARE.get(file, "none"))
    ]

    inside = "def f():\n    import memdb.api\n    from memdb.text import times\n    import re\n"
    assert [*late_imports(inside)] == ["memdb.api", "memdb.text"]
    assert found == []
