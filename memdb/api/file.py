"""
The file itself, as `db.file` gives it: checking, copying, spaces. Delegates; no rules here.
"""

from __future__ import annotations

import os

from memdb.text.validate import text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.api._container import Services
    from memdb.models.file import FileInfo
    from memdb.models.messages import Finding, SpaceInfo


class File:
    """What can be asked of and done to the file as a whole."""

    def __init__(self, services: Services) -> None:
        """Use `db.file` instead."""
        self._services = services
        self._db = services.db

    def info(self) -> FileInfo:
        """Return what is in the file: rows and bytes per store, spaces, times."""
        from memdb.records.integrity import describe

        return describe(self._db)

    def check(self, *, deep: bool = False) -> list[Finding]:
        """
        Return every inconsistency of the file; [] when all is well.

        The indexes are compared with the rows they come from, and each row with
        its hash. Cost: 0.1 s per 10,000 messages.

        Args:
            deep: Also read every page and the bytes of every artifact.
        """
        from memdb.records.integrity import check

        return check(self._db, deep=deep)

    def rebuild(self) -> None:
        """Make all that is derived anew from the rows: full text, sketches, counters."""
        from memdb.records.integrity import rebuild

        rebuild(self._db)

    def vacuum(self) -> int:
        """
        Give back what archiving and deleting left free; return how many bytes.

        Needs as much free disk as the file is large, and keeps writers waiting
        meanwhile. Cost: 1 s per 100 MB.

        Raises:
            Busy: others write or read. If it is reading, the file gets smaller
                when they have closed it, or at the next vacuum.
            InvalidInput: called inside a transaction.
        """
        return self._db.maintain("vacuum")

    def backup(self, path: str | os.PathLike[str], *, replace: bool = False) -> int:
        """
        Copy the file as it is now to *path*, while others use it; return its bytes.

        Raises:
            AlreadyExists: something is at *path*, and *replace* is False.
            FileError: *path* cannot be written.
        """
        return self._db.copy_to(text_value(os.fspath(path), "path"), replace=replace)

    def spaces(self) -> tuple[SpaceInfo, ...]:
        """Return the embedding spaces of the file, oldest first."""
        from memdb.tables import spaces

        with self._db.read() as tx:
            return spaces.list_spaces(tx)

    def drop_space(self, model: str, dim: int | None = None) -> SpaceInfo:
        """
        Remove the vectors of *model*; return what the space was. What was said stays.

        A process that has its embedder makes them anew. Goes in pieces, between
        which others write; `vacuum` then makes the file smaller.

        Raises:
            NotFound: the file has no such space.
            InvalidInput: *dim* has to be said, as the model has several.
        """
        return self._services.indexer.drop_space(model, dim)

    def warm(self) -> None:
        """
        Load now what counts and embeds, 0.2 s that the first calls would take.

        For programs that serve an event loop: loading keeps the interpreter
        busy, in whatever thread it happens.

        Raises:
            PortError: the counter or the embedder failed.
        """
        self._services.counting.count_many(["warm"])
        self._services.indexer.warm()
