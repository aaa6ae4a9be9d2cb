"""
Imports point one way (docs: architecture, section 2).

A room may import what stands in its line of `MAY_IMPORT`, besides itself.
Imports under TYPE_CHECKING cost nothing at run time but are arrows too.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

import memdb

ROOT = Path(memdb.__file__).parent

# Modules that belong to no folder, by the room that they are.
ROOM_OF_FILE = {
    "errors": "base",
    "models": "base",
    "ports": "base",
    "runtime": "base",
    "ids": "base",
    "record": "base",
    "host_models": "base",
    "summary_models": "base",
    "extract_models": "base",
    "file_models": "base",
    "forget_models": "base",
    "forgetting": "door",
    "secret_search": "door",
    "entry_models": "base",
    "shapes": "base",
    "packing": "base",
    "sketch": "base",
    "tools": "door",
    "worker": "door",
    "due": "door",
    "working": "door",
    "learning": "door",
    "retention": "door",
    "windowing": "door",
    "deadline": "base",
    "calling": "base",
    "claims": "base",
    "decay": "base",
    "text": "base",
    "models_local": "base",
    "owner": "owner",
    "past": "owner",
    "rooms": "door",
    "choosing": "door",
    "holdings": "door",
    "session": "door",
    "hosted": "door",
    "state": "door",
    "scope": "door",
    "memory": "door",
    "aio": "door",
    "aio_parts": "door",
    "lane": "door",
    "revising": "door",
    "__init__": "door",
    "__main__": "cli",
    "cli": "cli",
    "integrations": "cli",
}

MAY_IMPORT = {
    "base": set(),
    "db": {"base"},
    "stores": {"base", "db"},
    "owner": {"base", "db", "stores"},
    "shortterm": {"base", "db", "stores", "owner"},
    "longterm": {"base", "db", "stores", "owner"},
    "recall": {"base", "db", "stores", "owner"},
    "transfer": {"base", "db", "stores", "owner", "door", "shortterm", "longterm", "recall"},
    "door": {"base", "db", "stores", "owner", "shortterm", "longterm", "recall", "transfer"},
    "yardstick": {"base", "db", "door", "recall"},
    "cli": {"base", "door", "transfer", "yardstick"},
}

# Arrows against the direction, each with its reason.
ALLOWED = {
    # The truth and what is derived from it are compared by the room that knows both forms.
    ("db/check.py", "stores"),
    ("db/info.py", "stores"),
    ("db/rebuild.py", "stores"),
    # `memdb.open(embedder="fastembed:DIR")`: a name becomes its adapter where a file is opened.
    ("choosing.py", "cli"),
}


def room_of(module: str) -> str:
    """Return the room of a module below memdb, by its dotted name."""
    first = module.split(".")[1] if "." in module else "__init__"
    return ROOM_OF_FILE.get(first, first)


@cache
def imports_of(path: Path) -> set[str]:
    """Return the memdb modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= _targets(node)
    return {name for name in found if name.split(".")[0] == "memdb"}


def _targets(node: ast.ImportFrom) -> set[str]:
    assert node.level == 0, "imports are absolute"
    base = node.module or ""
    below = {f"{base}.{name.name}" for name in node.names}
    modules = {one for one in below if (ROOT.parent / f"{one.replace('.', '/')}.py").exists()}
    return modules or {base}


FILES = sorted(path for path in ROOT.rglob("*.py") if "data" not in path.parts)
NAMES = [str(path.relative_to(ROOT)) for path in FILES]


def room_of_file(name: str) -> str:
    """Return the room that a file belongs to."""
    first = name.split("/")[0].removesuffix(".py")
    return ROOM_OF_FILE.get(first, first)


@pytest.mark.parametrize("name", NAMES)
def test_imports_point_down(name: str) -> None:
    """No file imports a room that its own may not."""
    own = room_of_file(name)
    wrong = {
        target
        for target in imports_of(ROOT / name)
        if room_of(target) not in {own, *MAY_IMPORT[own]} and (name, room_of(target)) not in ALLOWED
    }

    assert wrong == set()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("stores/")])
def test_rooms_of_tables_do_not_know_each_other(name: str) -> None:
    """A store imports no other store."""
    own = "memdb." + name.removesuffix(".py").replace("/", ".")
    others = {one for one in imports_of(ROOT / name) if one.startswith("memdb.stores")} - {own}

    assert others == set()


def test_every_file_has_a_room() -> None:
    """A new folder has to say where it stands."""
    assert {room_of_file(name) for name in NAMES} <= set(MAY_IMPORT)


def test_every_exception_is_needed() -> None:
    """An arrow that is gone leaves the list too."""
    used = {
        (name, room_of(target))
        for name in NAMES
        for target in imports_of(ROOT / name)
        if (name, room_of(target)) in ALLOWED
    }

    assert used == ALLOWED


def test_modules_import_without_a_circle() -> None:
    """At import time each module's imports lead down to modules that import nothing of ours."""
    at_import = {name: _top_level(ROOT / name) for name in NAMES}
    done: set[str] = set()
    while True:
        ready = {name for name, targets in at_import.items() if targets <= done} - done
        if not ready:
            break
        done |= ready

    assert set(at_import) - done == set()


def _top_level(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memdb"):
            found |= _targets(node)
    files = {_file_of(target) for target in found}
    return {one for one in files if one is not None and one != str(path.relative_to(ROOT))}


def _file_of(module: str) -> str | None:
    parts = module.split(".")[1:]
    for name in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
        if name in NAMES:
            return name
    return None
