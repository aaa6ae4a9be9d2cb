"""
`db.file`: operations on the file as a whole. No SQL and no rules here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.api._resolve import open_target
from memdb.api.calls import observed
from memdb.engine.sqlite.connection import MEMORY
from memdb.errors import InvalidInput
from memdb.models.keys import key_value
from memdb.records import integrity
from memdb.text.validate import flag_value, is_address, path_value, shown_address

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable

    from memdb.api._container import Services
    from memdb.models.keys import AnyKey
    from memdb.models.messages import Finding, SpaceInfo
    from memdb.models.reports import CopyReport, FileInfo
    from memdb.models.types import Progress, ProviderMessage


@observed
class File:
    """Calls for the file as a whole."""

    __slots__ = ("_db", "_services")

    def __init__(self, services: Services) -> None:
        """Use `db.file` instead."""
        self._services = services
        self._db = services.db

    def info(self) -> FileInfo:
        """Return the contents of the file: rows and bytes per store, spaces, times."""
        found = integrity.describe(self._db)
        unqueued = self._services.indexer.count_unqueued()
        if not unqueued:
            return found
        pending = {**found.pending, "embed": found.pending.get("embed", 0) + unqueued}
        return found.replace(pending=pending, pending_jobs=found.pending_jobs + unqueued)

    def check(self, *, deep: bool = False, accept: bool = False) -> list[Finding]:
        """
        Return every inconsistency of the file; [] when all is well.

        The indexes are compared with the rows they come from, and each row with
        its hash. Cost: 0.1 s per 10,000 messages.

        Args:
            deep: Also read every page and the bytes of every artifact.
            accept: Stop reporting that a WAL or messages are missing ("wal_missing" and
                "message_lost").
        """
        if accept:
            integrity.accept_loss(self._db)
        return integrity.check(self._db, deep=deep)

    def rebuild(self, *, links: bool = False) -> None:
        """
        Rebuild all derived data from the rows: full text, sketches, counters.

        Args:
            links: Guess every link between entries again. Default: only links that are broken or
                that another version of memdb guessed. What was confirmed or rejected stays. Cost: 2
                s per 1,000 entries.
        """
        integrity.rebuild(self._db, links=flag_value(links, "links"))

    def vacuum(self, *, whole: bool = False, progress: Progress | None = None) -> int:
        """
        Return free pages to the disk after archiving and deleting; return the number of bytes.

        The call works in steps of some milliseconds, and other processes can write between them. A
        file of an older memdb is rewritten as a whole the first time. Cost: 2 s per 100 MB of free
        pages, and as much for the words of deleted texts.

        Args:
            whole: Rewrite the file, so that half-full pages shrink too, such as those that
                archiving leaves. Rewriting needs as much free disk space as the file, and keeps
                writers
                waiting meanwhile: 1 s per 100 MB.
            progress: Called with (done, total) pages after each step, or with (0, total) while the
                file is rewritten. An exception that it raises ends the vacuum, and so does Ctrl-C.
                Pages that were returned by then stay returned.

        Raises:
            Busy: other processes write or read. If they only read, the file gets smaller when they
                have closed it, or at the next vacuum.
            InvalidInput: called inside a transaction.
        """
        flag_value(whole, "whole")
        return self._db.maintenance.vacuum(whole=whole, progress=progress)

    def backup(
        self,
        path: str | os.PathLike[str],
        *,
        replace: bool = False,
        progress: Progress | None = None,
        key: AnyKey | None = None,
    ) -> int:
        """
        Copy the file as it is now to *path*, while others write; return its bytes.

        Args:
            path: The path of the copy. The copy gets this name only when it is complete and on the
                disk.
            replace: Overwrite an existing file.
            progress: Called with (done, total) pages after each 4 MB. An exception that it raises
                ends the backup, and removes the partial copy.
            key: Another key for the copy, as in `memdb.open`, "" for a plain one. None means that
                of the file.

        Raises:
            CipherMissing: the copy cannot be encrypted here.
            AlreadyExists: something is at *path*, and *replace* is False.
            FileError: *path* cannot be written.
            InvalidInput: called inside a transaction, whose writes would be missing in the copy.
        """
        self._db.refuse_inside("backup")
        wanted = self._db.key if key is None else key_value(key)
        return self._db.maintenance.copy_to(
            path_value(path), wanted, replace=replace, progress=progress
        )

    def copy(
        self,
        target: str | os.PathLike[str],
        *,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> CopyReport:
        """
        Copy everything into an empty database, and prove that the copy is equal.

        Each row keeps its ids, uid, seq and version; vectors are copied, so nothing is embedded
        again. The copy appears at the target all at once, after it was read again there. A copy
        that was stopped leaves the target empty. Others may use the source meanwhile: the copy has
        the rows of the time when it began. To copy the memory of one user, use `export` and
        `import_file`.

        Args:
            target: A file, which is created if it is absent, with the key of this file; or a
                server.
            dry_run: Count, and store nothing.
            progress: Called with (done, total) rows now and then.

        Raises:
            AlreadyExists: the target is not empty.
            InvalidInput: the target is this database or its backup; or called inside a
                transaction.
            Corrupt: a row to be copied is damaged.
            FileError: the target cannot be opened.

        Cost: 1 s per 40,000 rows.
        """
        flag_value(dry_run, "dry_run")
        path = path_value(target, "target", is_database=True)
        self._db.refuse_inside("copy")
        if path == MEMORY:
            raise InvalidInput(
                f"{path} cannot be the target of a copy: give the path of another file"
            )
        key = None if is_address(path) else self._db.key
        there = open_target(path, dry_run=dry_run, clock=self._db.clock, ids=self._db.ids, key=key)
        try:
            report = self._services.copy_to(there, dry_run=dry_run, progress=progress)
        finally:
            there.close()
        return report.replace(target=shown_address(path) if is_address(path) else path)

    def delete_space(self, model: str, dim: int | None = None) -> SpaceInfo | None:
        """
        Remove the vectors of *model*; return a description of the space, or None if it is absent.

        What was said stays.

        A process with this embedder makes the vectors again. The call works in pieces, and others
        can write between them; `vacuum` then makes the file smaller.

        Raises:
            InvalidInput: *dim* is missing, but the model has several spaces.
        """
        return self._services.indexer.delete_space(model, dim)

    def count_tokens(self, texts: Iterable[str | ProviderMessage]) -> list[int]:
        """
        Return the number of tokens of each text or message, by the file's counter.

        A message may have any form that `Session.extend` takes, and is counted as it would be
        stored. Contexts and windows add 4 tokens for each. The first call of a process loads the
        counter, in 0.15 s.

        Raises:
            InvalidInput: something is neither a text nor a message.
            PortError: the counter failed.
        """
        given: list[Any] = [*texts]
        if all(isinstance(one, str) for one in given):
            return self._services.counting.count_many(given)
        return self._services.writer.count(given)
