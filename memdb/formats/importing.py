"""
Import: detect the format of a source, and store the records that the format reads.

A folder of notes can be watched (`memdb import --watch`): its files are checked again and again.
The system's file notifications are not used, so it works everywhere, also on a network disk.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput
from memdb.formats.detect import FEW_FILES, NOTHING, choose_format, formats_for
from memdb.formats.imports.base import Request
from memdb.formats.source import Tree
from memdb.models.record import Record
from memdb.models.reports import FolderChange
from memdb.text.validate import flag_value, path_value
from memdb.transfer.importer import Importer
from memdb.transfer.lines import left_out

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Container, Iterator

    from memdb.api.database import MemDB
    from memdb.formats.imports.base import Read
    from memdb.models.reports import ImportReport, TableColumns
    from memdb.models.types import SecretAction
    from memdb.records.scopes import ScopeRef
    from memdb.transfer.lines import Item, TransferServices

    # When a file was changed, and its size.
    Stamps = dict[str, tuple[int, int]]


# Names of files that a report lists.
SHOWN = 5

ARCHIVES = "they are archives: import each by itself"


def import_file(
    services: TransferServices,
    path: str | os.PathLike[str],
    *,
    owner: ScopeRef | None,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    progress: Callable[[int, int], object] | None = None,
    columns: TableColumns | None = None,
    only: Container[str] | None = None,
    dry_run: bool = False,
    all_or_nothing: bool = False,
) -> ImportReport:
    """
    Import the source at *path*: a file, a folder, an archive or another program's database.

    Stored data stays unchanged. Importing something again adds nothing: messages are found by their
    external id or uid, entries and artifact versions by their uid or content. So an import that was
    stopped is finished by running it again.

    Args:
        owner: The scope to fill, whatever scope the file names; None means the
            scopes of a memdb export.
        session: Session for messages that name none.
        format: One of `detect.NAMES`; None detects it.
        progress: Called with the bytes done and their total, after each chunk.
        only: The files to read, by their names in *path*; None means all files of the format.
        dry_run: Read and check everything, and store nothing.
        all_or_nothing: Read everything before anything is stored, and refuse it if a record cannot
            be stored.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: nothing can be stored, a line of a memdb export cannot be stored, or the file
            is cut; the error names the place. Records before that place are stored, and stay. Any
            other record that cannot be stored is in the report.
        SecretFound: nothing can be stored, and the first record contains a secret that the settings
            refuse. If only one of several records contains a secret, it is left out, also from a
            memdb export.

    Cost: 50 µs per message with index and exact token count, 30 µs from a memdb export. Memory:
    that of 2,000 lines. Some formats read a file whole, such as CSV, notes and LoCoMo.

    Transaction: one per chunk.
    """
    if not flag_value(dry_run, "dry_run"):
        services.db.refuse_read_only()
    if flag_value(all_or_nothing, "all_or_nothing") and not dry_run:
        rehearsal = import_file(
            services,
            path,
            owner=owner,
            session=session,
            format=format,
            columns=columns,
            only=only,
            dry_run=True,
        )
        _refuse_broken(rehearsal)
    with Tree(path_value(path)) as tree:
        chosen, names = choose_format(
            tree, has_owner=owner is not None, session=session, format=format, columns=columns
        )
        if only is not None:
            names = [name for name in names if name in only]
        user = None if owner is None else owner.user
        importer = Importer(
            services,
            owner,
            tree.name,
            chosen.name,
            is_strict=chosen.is_strict,
            is_captured=chosen.is_captured,
            dry_run=dry_run,
        )
        request = Request(tree, names, session, columns, importer.refused, user)
        total = tree.size_of(names)
        with _noting_what_is_stored(importer):
            for item in _explained(chosen.read(request), importer):
                importer.add(item)
                if importer.full:
                    importer.flush()
                    if progress is not None:
                        progress(min(tree.done, total), total)
            importer.finish()
        for item in list_unread(tree, names) if only is None else ():
            importer.add(item)
        importer.refuse_folders(tree.unreadable)
        if progress is not None:
            progress(total, total)
    return importer.report()


def _refuse_broken(report: ImportReport) -> None:
    """Raise InvalidInput if a dry run names a record that cannot be stored."""
    broken = [f"{one.what}: {one.why}" for one in report.left_out if one.is_place]
    if broken:
        more = f" ({len(broken) - 1} more)" if broken[1:] else ""
        raise InvalidInput(
            f"all_or_nothing is given, and {broken[0]}{more}. {NOTHING}: correct the source, or "
            "leave all_or_nothing out"
        )


@contextmanager
def _noting_what_is_stored(importer: Importer) -> Iterator[None]:
    """Add a note about the stored records to the error that ends the program."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit) as end:
        end.add_note(importer.stored)
        raise


def _explained(found: Read, importer: Importer) -> Read:
    """Yield the records of a format; an error says which are stored by then."""
    try:
        yield from found
    except InvalidInput as error:
        importer.flush()
        raise InvalidInput(f"{error}. {importer.kept}: {importer.advice}") from error
    except FileError as error:
        importer.flush()
        raise FileError(f"{error}. {importer.kept}", error.path) from error


def require_format(
    path: str | os.PathLike[str],
    *,
    has_owner: bool,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    columns: TableColumns | None = None,
) -> bool:
    """
    Return whether *path* names the user of its memory, before a file is opened for storing.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: the format is unknown, or does not go with the other arguments.
    """
    with Tree(path_value(path)) as tree:
        chosen, names = choose_format(
            tree, has_owner=has_owner, session=session, format=format, columns=columns
        )
        return chosen.names_owner(tree, names)


def list_unread(tree: Tree, names: list[str]) -> Iterator[Item]:
    """Yield an item for the files of a tree that the format does not read."""
    rest = [name for name in tree.names if name not in {*names}]
    reasons = dict.fromkeys(rest, "they hold no conversations")
    if 0 < len(rest) <= FEW_FILES:
        for label, claimed in formats_for(tree):
            reasons |= {
                one: f"they are of another kind ({label}): import each by itself"
                for one in claimed
                if reasons.get(one, "").startswith("they hold")
            }
    reasons |= {one: ARCHIVES for one in rest if one.lower().endswith(".zip")}
    reasons |= {
        one: f"they cannot be read ({why})" for one, why in tree.problems.items() if one in reasons
    }
    by_reason: defaultdict[str, list[str]] = defaultdict(list)
    for name, why in {**reasons, **tree.refused}.items():
        by_reason[why].append(name)
    for why, files in by_reason.items():
        shown = ", ".join(files[:SHOWN]) + (", ..." if len(files) > SHOWN else "")
        yield left_out(tree.name, "files", f"{why}: {shown}", len(files))


INTERVAL_S = 2.0


class Difference(Record):
    """
    The difference between a folder and its last import.

    Attributes:
        changed: New or changed files that were not written since the last check.
        removed: Files that were removed.
    """

    changed: tuple[str, ...]
    removed: tuple[str, ...]


class FolderWatch:
    """Compares the notes of a folder with those of the last check."""

    def __init__(self, path: str | os.PathLike[str], format: str | None = None) -> None:  # noqa: A002 (public name)
        """
        Check for the first time; create it before the notes are imported.

        Raises:
            FileError: *path* cannot be read.
            InvalidInput: the folder contains no notes, or is an archive.
        """
        self._path = path
        with Tree(path) as tree:
            chosen, _ = choose_format(
                tree, has_owner=True, session=None, format=format, columns=None
            )
            if not chosen.is_watched or tree.is_archive:
                raise InvalidInput(
                    f"{tree.name} is {chosen.label}, but only a folder of Markdown or text can be "
                    "watched"
                )
            self._claim = chosen.claim
            self._imported = self._before = self._stamps(tree)

    def compare(self) -> Difference:
        """
        Return the differences; a file that is being written is reported by the next check.

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
    Import a folder of notes, then its changes, until the caller stops.

    A changed note becomes the next version of its artifact after two seconds without a write. The
    first change is the import of all notes.

    Args:
        sleep: Waits this many seconds between two checks.

    Raises:
        FileError: the folder cannot be read.
        InvalidInput: it contains no notes.
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
