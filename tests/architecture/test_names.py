"""Names are words of the field: none of the words that the glossary retired is part of one."""

import ast
import re
from collections import Counter
from collections.abc import Iterator

from source_tree import FILES, tree_of

RETIRED = frozenset(
    "rooms shelf notebook lane holdings ledger standing told meant look seat yardstick hosted "
    "choosing claims working".split()
)
# How often each is left; only ever fewer.
LEFT: dict[str, int] = {}


def parts(name: str) -> list[str]:
    """Return the words of a name in snake_case or CamelCase."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def names(file: str) -> Iterator[tuple[int, str]]:
    """Yield line and name of each module, class, function, parameter and field of a file."""
    yield from ((1, part) for part in file.removesuffix(".py").split("/"))
    for node in ast.walk(tree_of(file)):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        if isinstance(node, ast.ClassDef):
            yield from fields(node)


def fields(node: ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield line and name of what a class body assigns or declares."""
    for one in node.body:
        targets = one.targets if isinstance(one, ast.Assign) else []
        targets = [one.target] if isinstance(one, ast.AnnAssign) else targets
        yield from ((one.lineno, t.id) for t in targets if isinstance(t, ast.Name))


def test_no_constant_is_assigned_twice() -> None:
    """Two constants that a renaming gives one name become one value, without any error."""
    assigned = Counter(
        f"{file}: {name.id}"
        for file in FILES
        for one in tree_of(file).body
        if isinstance(one, (ast.Assign, ast.AnnAssign))
        for name in (one.targets if isinstance(one, ast.Assign) else [one.target])
        if isinstance(name, ast.Name)
    )

    assert [name for name, count in assigned.items() if count > 1] == []


def test_no_name_has_a_retired_word() -> None:
    """The glossary has the field's word for each (docs/glossary.md)."""
    found = [
        (word, f"{file}:{line} {name}")
        for file in FILES
        for line, name in names(file)
        for word in RETIRED.intersection(parts(name))
    ]
    counts = Counter(word for word, _ in found)

    assert [one for one in found if counts[one[0]] > LEFT.get(one[0], 0)] == []


def test_a_module_has_one_name_in_a_file() -> None:
    """Of `tables` and `records`, which share names, an alias is `entry_rows`, `entry_records`."""
    found = [
        f"{file}: {one.name} as {alias}"
        for file in FILES
        for layer, suffix in (("memdb.tables", "_rows"), ("memdb.records", "_records"))
        for aliases in aliases_of(file, layer).values()
        for one, alias in aliases
        if len(aliases) > 1 or not fits(one.name, alias, suffix)
    ]

    assert found == []


def aliases_of(file: str, layer: str) -> dict[str, list[tuple[ast.alias, str]]]:
    """Return by module what a file calls each module of a layer."""
    found: dict[str, list[tuple[ast.alias, str]]] = {}
    for node in tree_of(file).body:
        if isinstance(node, ast.ImportFrom) and node.module == layer:
            for one in node.names:
                found.setdefault(one.name, []).append((one, one.asname or one.name))
    return found


def fits(module: str, alias: str, suffix: str) -> bool:
    """Return whether an alias is the name of the module, or that of one of its things."""
    thing = alias.removesuffix(suffix)
    plurals = (thing, f"{thing}s", f"{thing}es", f"{thing[:-1]}ies")
    return alias == module or (alias != thing and module in plurals)
