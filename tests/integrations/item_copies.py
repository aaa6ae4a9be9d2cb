"""What a client keeps as items: read by memdb's own calls, and written by them to another file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from click.testing import CliRunner
from with_together.roles import APP, USER

import memdb
from memdb.cli import cli

if TYPE_CHECKING:
    from collections.abc import Callable

    Found = dict[tuple[tuple[str, ...], str], Any]  # by namespace and key
    Read = Callable[[str], Found]
    Copy = Callable[[str, str], None]

WHO = ["--user", USER, "--app", APP]


def run(*arguments: str, stdin: str | None = None) -> str:
    """Run a command; return what it prints."""
    done = CliRunner().invoke(cli, [*arguments, *WHO], input=stdin, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def read_by_api(path: str) -> Found:
    with memdb.open(path) as db:
        found = db.scope(USER, APP).items.list(())
        return {(one.namespace, one.key): one.value for one in found}


def read_by_command_line(path: str) -> Found:
    return by_place(json.loads(run("item", "list", path, "--json")))


def read_by_export(path: str) -> Found:
    lines = export(path).read_text().splitlines()
    return by_place(one for one in map(json.loads, lines) if one["kind"] == "item")


def export(path: str) -> Path:
    lines = Path(path).with_suffix(".out")
    with memdb.open(path) as db:
        db.export(str(lines), user=USER, app=APP)
    return lines


def by_place(found: Any) -> Found:
    return {(tuple(one["namespace"]), one["key"]): one["value"] for one in found}


def recall(path: str, words: str) -> str:
    """Return the texts of the items that a search finds."""
    with memdb.open(path) as db:
        hits = db.scope(USER, APP).recall(words, kinds=["item"], by="words", min_score=0).hits
    return "\n".join(hit.text for hit in hits)


def copy_by_api(path: str, to: str) -> None:
    with memdb.open(path) as db, memdb.open(to) as other:
        for one in db.scope(USER, APP).items.list(()):
            items = other.scope(USER, APP).items
            items.put(one.namespace, one.key, one.value, metadata=one.metadata)


def copy_by_command_line(path: str, to: str) -> None:
    for (namespace, key), value in read_by_command_line(path).items():
        run("item", "put", to, json.dumps(namespace), key, "-", stdin=json.dumps(value))


def copy_by_import(path: str, to: str) -> None:
    lines = export(path)
    with memdb.open(to) as db:
        db.import_file(str(lines))


READS: dict[str, Read] = {
    "api": read_by_api,
    "command line": read_by_command_line,
    "export": read_by_export,
}
COPIES: dict[str, Copy] = {
    "api": copy_by_api,
    "command line": copy_by_command_line,
    "import": copy_by_import,
}
