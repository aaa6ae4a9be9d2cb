"""Names that the shell completes: users, sessions, branches, entries, categories, artifacts."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from click.shell_completion import CompletionItem

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

    from memdb.api.database import MemDB
    from memdb.api.scope import Scope

    Name = tuple[str, str | None]

MOST_COMPLETED = 1000
SPECIAL = re.compile(r"([^\w@%+=:,./-])", re.ASCII)
PLAIN_NAME = re.compile(r"[\w@%+=:,./-]*")
HELP_CHARS = 60


def complete(kind: str, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """
    Return the names of a kind in FILE that begin as what was typed.

    Nothing is written. What goes wrong gives no name: the shell has nowhere to say it.
    """
    import memdb

    path = ctx.params.get("file")
    if not path:
        return []
    try:
        with memdb.open(path, mode="read", embedder=None) as db:
            found = dict(_names(kind, db, ctx, incomplete))
    except Exception:  # noqa: BLE001 (as said above)
        return []
    names = [
        (name, text)
        for name, text in found.items()
        if name.startswith(incomplete) and name.isprintable()
    ]
    if os.environ.get("_MEMDB_COMPLETE") == "bash_complete":
        names = [(quoted, text) for name, text in names if (quoted := _for_bash(name)) is not None]
    return [
        CompletionItem(name, help=text and " ".join(text.split())[:HELP_CHARS])
        for name, text in names[:MOST_COMPLETED]
    ]


def _for_bash(name: str) -> str | None:
    """
    Return a name as bash has to get it; None for one that cannot be put behind an open quote.

    bash puts what it gets into the command line as it is. Its `read` takes away one level
    of backslashes before that. zsh and fish quote names themselves.
    """
    typed = os.environ.get("COMP_WORDS", "")
    if PLAIN_NAME.fullmatch(name):
        return name
    if typed.count("'") % 2 or typed.count('"') % 2:
        return None
    return SPECIAL.sub(r"\\\1", name).replace("\\", "\\\\")


def _names(kind: str, db: MemDB, ctx: click.Context, incomplete: str) -> Iterator[Name]:
    """Yield the names of a kind, each with what the shell may show beside it."""
    user, app = ctx.params.get("user"), ctx.params.get("app")
    scopes = [one for one in db.scopes() if one.user]
    if kind == "user":
        yield from ((one.user, None) for one in scopes if app in (None, one.app))
        return
    if kind == "app":
        yield from ((one.app, None) for one in scopes if user in (None, one.user))
        return
    meant = [one for one in scopes if user in (None, one.user) and app in (None, one.app)]
    for scope in meant if user is None else meant[:1]:
        yield from _of_scope(kind, scope, ctx, incomplete)


def _of_scope(kind: str, scope: Scope, ctx: click.Context, incomplete: str) -> Iterator[Name]:
    from memdb.cli.output import LAST

    session = ctx.params.get("session")
    if kind == "session":
        yield LAST, "the one that changed last"
        for known in scope.sessions(incomplete, limit=MOST_COMPLETED, order="updated"):
            yield known.name, known.title
        for known in scope.sessions(limit=MOST_COMPLETED, order="updated") if incomplete else ():
            if known.title is not None:
                yield known.title, known.name
    elif kind == "branch" and session:
        yield from ((one.name, one.parent) for one in scope.session(session).branches())
    elif kind == "artifact":
        names = scope.artifacts.list(session=session, prefix=incomplete)
        yield from ((one.name, one.session) for one in names)
    elif kind in ("entry", "category"):
        for entry in scope.entries.list(limit=MOST_COMPLETED, order="updated"):
            if kind == "category":
                yield entry.category, None
            else:
                yield entry.key or str(entry.id), entry.text
