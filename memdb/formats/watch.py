"""
Watching a folder of notes and importing what changes, for `memdb import --watch`.

The files are looked at again and again; nothing of the system's own notices is used, so it is
the same everywhere, also on a network disk.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.detect import choose_format
from memdb.formats.importing import import_file
from memdb.formats.source import Tree
from memdb.models.record import Record
from memdb.models.reports import FolderChange

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from memdb.api.database import MemDB
    from memdb.models.reports import ImportReport
    from memdb.models.types import SecretAction

    # When a file was changed, and its size.
    Stamps = dict[str, tuple[int, int]]


INTERVAL_S = 2.0


class Difference(Record):
    """
    What is different in a folder from what was imported.

    Attributes:
        changed: Files that are new or changed, and were left alone since the last look.
        removed: Files that are gone.
    """

    changed: tuple[str, ...]
    removed: tuple[str, ...]


class FolderWatch:
    """Compares the notes of a folder with those of the last look."""

    def __init__(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002
        """
        Look for the first time; make it before the notes are imported.

        Raises:
            FileError: *path* cannot be read.
            InvalidInput: it holds no notes, or is an archive.
        """
        self._path = path
        with Tree(path) as tree:
            chosen, _ = choose_format(
                tree, has_owner=True, session=None, format=format, columns=None
            )
            if not chosen.is_watched or tree.is_archive:
                raise InvalidInput(
                    f"{tree.name} is {chosen.label}: only a folder of Markdown or text is watched"
                )
            self._claim = chosen.claim
            self._imported = self._before = self._stamps(tree)

    def compare(self) -> Difference:
        """
        Return what is different; a file that is being written is told by the next look.

        Raises:
            FileError: the folder cannot be read.
        """
        with Tree(self._path) as tree:
            now = self._stamps(tree)
        changed = [
            name
            for name, stamp in now.items()
            if stamp == self._before.get(name) and stamp != self._imported.get(name)
        ]
        removed = [name for name in self._imported if name not in now]
        kept = {name: stamp for name, stamp in self._imported.items() if name in now}
        self._imported = {**kept, **{name: now[name] for name in changed}}
        self._before = now
        return Difference(tuple(changed), tuple(removed))

    def _stamps(self, tree: Tree) -> Stamps:
        stamps = {name: tree.stamp(name) for name in self._claim(tree)}
        return {name: stamp for name, stamp in stamps.items() if stamp is not None}


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
