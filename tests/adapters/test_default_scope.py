"""One rule says whose memory an adapter keeps where its caller names nobody."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import memdb
from memdb.adapters.adapter import OpenFile, ScopedAdapter, place_of

INTEGRATIONS = Path(memdb.__file__).parent / "integrations"

# These are started for one user, who is named.
NAMED = ("mcp/server.py", "mcp/transports.py")


def defaults(tree: ast.AST) -> list[tuple[str, ast.expr | None]]:
    """Return (name, default) of each parameter and field of a module called user or app."""
    found: list[tuple[str, ast.expr | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.arguments):
            plain = [*node.posonlyargs, *node.args]
            given: list[ast.expr | None] = [*[None] * (len(plain) - len(node.defaults))]
            given += node.defaults
            every = [*zip(plain, given, strict=True)]
            every += zip(node.kwonlyargs, node.kw_defaults, strict=True)
            found += [(argument.arg, default) for argument, default in every]
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.append((node.target.id, node.value))
    return [one for one in found if one[0] in ("user", "app")]


def test_no_adapter_has_a_default_of_its_own() -> None:
    """Each parameter and field `user` and `app` is None unless it is given."""
    seen = set()
    for path in sorted(INTEGRATIONS.rglob("*.py")):
        name = str(path.relative_to(INTEGRATIONS))
        for parameter, default in defaults(ast.parse(path.read_text("utf-8"))):
            if name in NAMED:
                continue
            seen.add(path.relative_to(INTEGRATIONS).parts[0])
            is_none = default is None or ast.unparse(default) == "None"
            assert is_none, f"{name}: {parameter} is {default and ast.unparse(default)}"
    assert len(seen) >= 9, seen


@pytest.mark.parametrize("kind", [ScopedAdapter, OpenFile])
def test_names_come_from_the_call_then_the_environment(
    kind: type[ScopedAdapter], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Then they are "default"; an empty variable is none."""
    for user, app in (("", ""), ("ann", "desk")):
        monkeypatch.setenv("MEMDB_USER", user)
        monkeypatch.setenv("MEMDB_APP", app)
        with kind(":memory:") as plain, kind(":memory:", user="bo", app="trip") as named:
            assert (plain._scope.user, plain._scope.app) == (user or "default", app or "default")
            assert (named._scope.user, named._scope.app) == ("bo", "trip")
    monkeypatch.delenv("MEMDB_USER")
    assert place_of(None, "trip") == ("default", "trip")
