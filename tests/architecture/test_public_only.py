"""What stands beside the API uses its public names, as an adapter of somebody else would."""

from __future__ import annotations

import ast
from functools import cache

from cases import each
from source_tree import FILES, nodes_of

OUTSIDE = (
    *("adapters", "agents", "aio", "cli", "evaluation", "fixtures", "folder", "formats"),
    *("integrations", "providers", "sync", "testing", "web"),
)
# What these modules reach: the doors of hosts, which other adapters use instead, and what measures
# parts of a search or copies ports. `_fields` and its like are public names of tuples.
TUPLES = {"_asdict", "_fields", "_replace"}
REACHES = {
    "adapters/async_host.py": {"_sync", "_worker"},
    "adapters/host.py": {"_container", "_owner", "_ref", "_resolve", "_services"},
    "adapters/shared.py": {"_db", "_owner", "_services"},
    "evaluation/measuring.py": {"_db", "_owner", "_services"},
    "fixtures/packs.py": {"_resolve"},
    "fixtures/recipes.py": {"_resolve"},
    "formats/importing.py": {"_owner", "_services"},
}


@cache
def defined() -> frozenset[str]:
    """Return every private name that memdb defines: modules, functions, attributes of self."""
    names = {part for file in FILES for part in file.removesuffix(".py").split("/")}
    for file in FILES:
        for node in nodes_of(file):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and _is_own(node.value):
                names.add(node.attr)
    return frozenset(one for one in names if one.startswith("_") and not one.startswith("__"))


def private_names(name: str) -> set[str]:
    """Return the private attributes of other objects, and private modules, that a file uses."""
    found: set[str] = set()
    for node in nodes_of(name):
        if isinstance(node, ast.Attribute) and not _is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("memdb"):
            found |= {*(node.module or "").split("."), *(alias.name for alias in node.names)}
        elif isinstance(node, ast.Import):
            found |= {part for alias in node.names for part in alias.name.split(".")}
    return found & defined()


def _is_own(value: ast.expr) -> bool:
    """Return whether *value* is the object whose method this is, its class, or module os."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name):
        return value.func.id in ("type", "super")
    return isinstance(value, ast.Name) and value.id in ("self", "cls", "os")


@each("name", [one for one in FILES if one.startswith(OUTSIDE)])
def test_only_public_names_are_used(name: str) -> None:
    """No attribute of another object begins with an underscore, and no module imported."""
    assert private_names(name) - TUPLES == REACHES.get(name, set())


def test_a_private_reach_is_seen() -> None:
    """The test would find one."""
    assert private_names("evaluation/measuring.py") >= {"_services", "_db"}
