"""
Export: all rows of some scopes as JSON lines.

One object per line, its fields in a fixed order, absent fields left out. No
line depends on row ids of this file or on the time of the export. So the export
of an import has the same bytes. An export file is complete or absent, and never replaces a
database.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile
from typing import IO, TYPE_CHECKING, BinaryIO

from memdb.engine.files import PARTIAL, is_sqlite, private_file, refuse_live
from memdb.engine.paging import refuse_undone
from memdb.errors import AlreadyExists, FileError
from memdb.records.scopes import SHARED
from memdb.tables import scopes, settings
from memdb.text.validate import path_value, refuse_output
from memdb.transfer import artifacts, entries, messages, others
from memdb.transfer.lines import EXPORT_VERSION, SCOPE, SPOOL_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from memdb.engine.base import Engine, Tx
    from memdb.records.scopes import ScopeRef


PROGRESS_LINES = 1000

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


def export_file(
    db: Engine,
    owners: Sequence[ScopeRef],
    path: str | os.PathLike[str],
    *,
    embeddings: bool = True,
    with_settings: bool = False,
    replace: bool = False,
    progress: Callable[[int], object] | None = None,
) -> int:
    """
    Write all rows of *owners* to *path* as JSON lines; return how many.

    The file gets its name when it is complete and on the disk.

    Args:
        embeddings: Also write vectors; without them they are made again.
        with_settings: Also write the settings of the file.
        replace: Overwrite a file that is there.
        progress: Called with the number of lines so far, every 1,000 lines.

    Raises:
        AlreadyExists: something is at *path*, and *replace* is False.
        FileError: *path* cannot be written, or is a database: this one, its WAL, or another one.
    """
    count = 0
    target = path_value(path)
    with whole_file(target, replace=replace) as file, db.read() as tx:
        for line in _lines(tx, owners, embeddings=embeddings, with_settings=with_settings):
            file.write(f"{line}\n".encode())
            count += 1
            if progress is not None and count % PROGRESS_LINES == 0:
                progress(count)
    return count


def export_lines(
    db: Engine,
    owners: Sequence[ScopeRef],
    *,
    embeddings: bool = True,
    with_settings: bool = False,
) -> Iterator[str]:
    """
    Yield all rows of *owners* as JSON lines, without line ends.

    The first line takes as long as the whole export. All lines are read in one transaction, so they
    show one moment. The lines are kept in a temporary file if they take more than 8 MB. If a caller
    stops between two lines, no snapshot of the file stays open.

    Raises:
        InvalidInput: the export began in a transaction that was rolled back before the last line.
        FileError: the temporary file cannot be written.
    """
    lines = _spooled(db, owners, embeddings=embeddings, with_settings=with_settings)
    return refuse_undone(db, lines, "export_lines")


def _spooled(
    db: Engine, owners: Sequence[ScopeRef], *, embeddings: bool, with_settings: bool
) -> Iterator[str]:
    with SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
        try:
            with db.read() as tx:
                lines = _lines(tx, owners, embeddings=embeddings, with_settings=with_settings)
                spool.writelines(f"{line}\n".encode() for line in lines)
            spool.seek(0)
        except OSError as error:
            raise FileError(
                f"the temporary file of the export cannot be written ({error.strerror}): "
                "free some space, or export to a file"
            ) from error
        for line in spool:
            yield line.decode().removesuffix("\n")


def _lines(
    tx: Tx, owners: Sequence[ScopeRef], *, embeddings: bool, with_settings: bool
) -> Iterator[str]:
    """Yield the lines of the export."""
    lines = list_lines(tx, owners, embeddings=embeddings, with_settings=with_settings)
    return map(_encode, lines)


def list_lines(
    tx: Tx, owners: Sequence[ScopeRef], *, embeddings: bool, with_settings: bool
) -> Iterator[dict[str, Any]]:
    """
    Yield the lines of the export as objects.

    A scope without any write yields no line. State of an app is written with its first scope, if
    *owners* has all its scopes.
    """
    whole = _whole_apps(tx, owners)
    yield {"kind": "memdb", "export": EXPORT_VERSION}
    kept = settings.get_all(tx) if with_settings else {}
    if kept:
        fields = {name: json.loads(text) for name, text in sorted(kept.items())}
        yield {"kind": "settings", **fields}
    for owner in owners:
        scope_no = owner.find(tx)
        if scope_no is not None:
            with_app = owner.app in whole
            whole.discard(owner.app)
            yield from _scope_lines(tx, owner, scope_no, embeddings=embeddings, with_app=with_app)


def _scope_lines(
    tx: Tx, owner: ScopeRef, scope_no: int, *, embeddings: bool, with_app: bool
) -> Iterator[dict[str, Any]]:
    """Yield a scope; *with_app*: with the state of its app."""
    uid, created_ms = scopes.identity(tx, scope_no)
    given = {"app": owner.app, "user": owner.user, "created_ms": created_ms, "uid": uid}
    yield SCOPE.to_line(None, given)
    yield from messages.export(tx, scope_no)
    yield from others.export_summaries(tx, scope_no)
    yield from entries.export(tx, scope_no)
    yield from artifacts.export(tx, scope_no)
    yield from others.export_items(tx, scope_no)
    if embeddings:
        yield from others.export_vectors(tx, scope_no)
    if with_app:
        yield from others.export_state(tx, owner.app, "")
    if owner.user != SHARED:
        yield from others.export_state(tx, owner.app, owner.user)
    yield from others.export_tombstones(tx, scope_no)


def _whole_apps(tx: Tx, owners: Sequence[ScopeRef]) -> set[str]:
    """Return the apps all of whose scopes are in *owners*."""
    named = {(owner.app, owner.user) for owner in owners}
    partly = {app for _, app, user in scopes.list_all(tx) if (app, user) not in named}
    return {owner.app for owner in owners} - partly


BLOCK_BYTES = 1 << 16


def refuse_database(target: str) -> None:
    """
    Return if *target*, and the `.partial` beside it, may be overwritten.

    Raises:
        FileError: one of them is open in this process, or is a SQLite database.
    """
    refuse_live(target, target + PARTIAL)
    for path in (target, target + PARTIAL):
        if is_sqlite(path):
            raise FileError(f"{path} is a SQLite database: choose another place", path)


def copy_to(data: BinaryIO, path: str | os.PathLike[str], *, replace: bool) -> int:
    """Write *data* to a file at *path*, as `whole_file` does; return its bytes."""
    size = 0
    with whole_file(os.fspath(path), replace=replace) as out:
        while chunk := data.read(BLOCK_BYTES):
            size += out.write(chunk)
    return size


@contextmanager
def whole_file(target: str, *, replace: bool) -> Iterator[IO[bytes]]:
    """
    Open a file as `private_file` does, at a path that is free and not a database.

    Args:
        replace: Overwrite a file that is there.

    Raises:
        AlreadyExists: something is at *target*, and *replace* is False.
        FileError: *target* cannot be written, or is a database.
    """
    if os.path.exists(target) and not replace:
        raise AlreadyExists("file", target)
    refuse_database(target)
    refuse_output(target)
    with private_file(target) as file:
        yield file
