"""
Commands made of one call of the Python API each, and what commands of several share.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memdb.cli.base import confirm, verb
from memdb.cli.options import ENTRIES, doc_of, session_argument, session_option
from memdb.cli.output import one_line, print_records, say
from memdb.cli.records import artifacts_of, entry_of, option_session, session_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import click

    from memdb.cli.base import Call
    from memdb.cli.output import Column

OWNERS = {"Entries": "entries", "Items": "items", "File": "file"}


@contextmanager
def asked(call: Call, of: str, given: dict[str, Any], *, create: bool = False) -> Iterator[Any]:
    """
    Open FILE for a `with` block, and return the object of the class *of*.

    Names that people use in *given* become those that the file has.
    """
    if of in ("MemDB", "File", "Jobs"):
        with call.open(create=create) as db:
            yield db if of == "MemDB" else getattr(db, of.lower())
        return
    with call.scope(create=create) as scope:
        for name in set(ENTRIES) & given.keys():
            given[name] = entry_of(scope, given[name]).id
        if of in ("Session", "Summaries"):
            session = session_of(scope, given.pop("session"))
            yield session if of == "Session" else session.summaries
            return
        if of == "Artifacts":
            yield artifacts_of(scope, option_session(scope, given.pop("session", None)))
            return
        if "session" in given:
            given["session"] = option_session(scope, given["session"])
        yield getattr(scope, OWNERS[of]) if of in OWNERS else scope


def plain(
    method: Callable[..., Any],
    *examples: str,
    of: click.Group | None = None,
    name: str | None = None,
    shows: Sequence[Column] | str | Callable[[Any], object],
    empty: str = "",
    create: bool = False,
    **options: Any,
) -> click.Command:
    """
    Return a command that makes one call of the API and prints what it returns.

    Args:
        shows: The columns of a table; a text with fields of the result in it; or what prints it,
            or returns the text.
        empty: The note for a table without a row.
        create: Whether FILE may be new.
        options: For `verb`.
    """
    kind = method.__qualname__.split(".")[0]

    def run(call: Call, **given: Any) -> None:
        with asked(call, kind, given, create=create) as owner:
            found = method(owner, **given)
        call.reply(found, lambda: _show(found, shows, empty))

    run.__doc__ = options.pop("help", None) or doc_of(method)
    if kind in ("Session", "Summaries"):
        session_argument(run)
    if kind == "Artifacts":
        session_option(run)
    is_of_scope = kind not in ("MemDB", "File", "Jobs")
    options = {"scope": is_of_scope, "name": name or method.__name__, **options}
    return verb(*examples, of=of, like=method, **options)(run)


def _show(found: Any, shows: Any, empty: str) -> None:
    if isinstance(shows, str):
        say(one_line(shows.format(found)))
    elif callable(shows):
        text = shows(found)
        if text is not None:
            say(text)
    else:
        print_records(shows, found, empty=empty)


def remove(
    call: Call, what: str, go: Callable[[], object], *, yes: bool, dry_run: bool, **data: Any
) -> None:
    """Remove *what* by *go* if the user agrees, and reply with *data*; --dry-run only says it."""
    if not dry_run:
        confirm(f"Delete {what}?", yes=yes)
    deleted = not dry_run and bool(go())
    verb = "Would delete" if dry_run else "Deleted"
    call.reply({"deleted": deleted, "dry_run": dry_run, **data}, f"{verb} {what}.")
