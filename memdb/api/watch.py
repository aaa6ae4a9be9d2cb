"""
Watching a folder of notes and importing what changes, for `memdb import --watch`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.reports import FolderChange

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from memdb.api.database import MemDB
    from memdb.models.reports import ImportReport
    from memdb.models.types import SecretAction

INTERVAL_S = 2.0


def watch_folder(
    db: MemDB,
    path: str | os.PathLike[str],
    *,
    user: str,
    app: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    secrets: SecretAction | None = None,
    progress: Callable[[int, int], object] | None = None,
    sleep: Callable[[float], object] = time.sleep,
) -> Iterator[FolderChange]:
    """
    Import a folder of notes, then what changes in it, until the caller stops.

    A changed note becomes the next version of its artifact once it was left alone for two
    seconds. The first change is the import of all.

    Args:
        sleep: Waits so many seconds between two looks.

    Raises:
        FileError: the folder cannot be read.
        InvalidInput: it holds no notes.
    """
    from memdb.transfer.importer import import_file
    from memdb.transfer.watch import FolderWatch

    def read(names: tuple[str, ...] | None) -> ImportReport:
        return import_file(
            db._services.transfer(secrets),
            path,
            owner=db._owner(user, app or "default"),
            format=format,
            progress=progress,
            only=names,
        )

    watch = FolderWatch(path, format)
    yield FolderChange(read(None), ())
    while True:
        sleep(INTERVAL_S)
        difference = watch.compare()
        report, failure = None, None
        try:
            report = read(difference.changed) if difference.changed else None
        except InvalidInput as error:
            failure = error
        if report is not None or failure is not None or difference.removed:
            yield FolderChange(report, difference.removed, failure)
