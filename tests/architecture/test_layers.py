"""
Imports point down the layers that the folders show (CONTRIBUTING, "Where it lives").

Imports inside functions and under TYPE_CHECKING are arrows too.
"""

import ast
from functools import cache

from source_tree import FILES, nodes_of

# Each package with what it may import besides itself. `errors` is free to all.
PURE = {"models", "text", "facts", "observe"}
SERVICES = (  # calls go down these rows only, and packages of one row do not know each other
    {"embeddings"},
    {"search", "conversations", "artifacts", "items"},
    {"summaries", "entries"},
    {"context", "extraction", "deletion", "transfer"},
    {"jobs"},
)
PUBLIC = {"aio", "integrations", "fixtures", "testing", "evaluation", "web", "cli", "agents"}


def may_import() -> dict[str, set[str]]:
    """Return for each package the packages below it."""
    below: dict[str, set[str]] = {
        **dict.fromkeys(PURE, PURE),
        "engine": PURE,
        "tables": PURE | {"engine"},
        "records": PURE | {"engine", "tables"},
        "providers": {"models", "text"},
    }
    lower = PURE | {"engine", "tables", "records"}
    for row in SERVICES:
        below |= {package: set(lower) for package in row}
        lower |= row
    below["api"] = lower | {"providers"}
    public = {"models", "text", "api", "providers", "__init__"}
    below |= {package: public | {"aio"} for package in PUBLIC}
    below["aio"] = public
    below["integrations"] = public | {"aio", "web"}  # servers share their limits
    below["cli"] = public | {"aio", "integrations", "evaluation", "fixtures", "agents", "web"}
    below["testing"] = public | {"fixtures"}
    below["evaluation"] = public | lower  # it measures single stages too
    below["__init__"] = {"api", "models", "text", "aio"}
    below["__main__"] = {"cli"}
    return below


MAY_IMPORT = may_import()


def package_of(module: str) -> str:
    """Return the package of a module below memdb, by its dotted name."""
    return module.split(".")[1] if "." in module else "__init__"


@cache
def imports_of(name: str) -> frozenset[str]:
    """Return the memdb modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in nodes_of(name):
        if isinstance(node, ast.Import):
            found |= {one.name for one in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= targets(node)
    return frozenset(one for one in found if one.split(".")[0] == "memdb")


def targets(node: ast.ImportFrom) -> set[str]:
    """Return the modules that an import statement names."""
    assert node.level == 0, "imports are absolute"
    base = node.module or ""
    below = {f"{base}.{name.name}" for name in node.names}
    modules = {one for one in below if file_of(one) is not None}
    return modules or {base}


def file_of(module: str) -> str | None:
    """Return the file of a module below memdb, None for what is no module."""
    parts = module.split(".")[1:]
    for name in ("/".join(parts) + ".py", "/".join([*parts, "__init__.py"])):
        if name in FILES:
            return name
    return None


def test_imports_point_down() -> None:
    """No file imports a package that its own may not."""
    wrong: dict[str, set[str]] = {}
    for name in FILES:
        own = package_of(f"memdb.{name.removesuffix('.py').replace('/', '.')}")
        allowed = {own, "errors", *MAY_IMPORT.get(own, set())}
        for target in imports_of(name):
            if package_of(target) not in allowed:
                wrong.setdefault(name, set()).add(target.removeprefix("memdb."))

    assert wrong == {}


def test_tables_do_not_know_each_other() -> None:
    """A module of a table imports that of no other."""
    wrong = [
        (name, target)
        for name in FILES
        for target in imports_of(name)
        if name.startswith("tables/")
        and target.startswith("memdb.tables.")
        and file_of(target) != name
    ]

    assert wrong == []


def test_integrations_do_not_know_each_other() -> None:
    """An adapter imports no other adapter, but what is for all."""
    wrong = [
        (name, target)
        for name in FILES
        for target in imports_of(name)
        if name.startswith("integrations/")
        and target.startswith("memdb.integrations.")
        and target.split(".")[2] not in ("adapter", "batches", name.split("/")[1])
    ]

    assert wrong == []


def test_every_package_has_its_place() -> None:
    """A new folder has to say where it stands."""
    packages = {name.split("/")[0].removesuffix(".py") for name in FILES}

    assert packages - {"errors"} <= set(MAY_IMPORT)


def test_nothing_lies_flat() -> None:
    """Beside the packages stand the public names, the errors and the entry point."""
    assert {name for name in FILES if "/" not in name} == {
        "__init__.py",
        "__main__.py",
        "errors.py",
    }


def test_modules_import_without_a_circle() -> None:
    """Each module's imports, those for types too, lead down to modules that import none of ours."""
    graph = {
        name: {file_of(target) for target in imports_of(name)} - {None, name}
        for name in FILES
        if name != "__init__.py"
    }
    assert in_circles(graph) == set()


def in_circles(graph: dict[str, set[str | None]]) -> set[str]:
    """Return the modules that import themselves by way of others."""

    def reachable(start: str) -> set[str | None]:
        reached: set[str | None] = set()
        todo: set[str | None] = {start}
        while todo:
            below = graph.get(todo.pop() or "", set())
            todo |= below - reached
            reached |= below
        return reached

    return {name for name in graph if name in reachable(name)}
