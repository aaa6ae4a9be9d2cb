"""
memdb: everything an AI agent remembers, in one SQLite file.

`open()` gives the file, `db.scope(user)` somebody's memory in it, and
`scope.session(name)` a conversation. Everything that is API is named here.

A name is loaded when it is first used (PEP 562): `memdb --help` and tab
completion never load the database driver.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.errors import (
        AlreadyExists,
        BadQuery,
        Busy,
        Closed,
        Conflict,
        Corrupt,
        DimensionMismatch,
        DiskFull,
        FileError,
        Interrupted,
        InvalidInput,
        IOFailed,
        MemDBError,
        MigrationFailed,
        MissingExtension,
        NotAMemDB,
        NotFound,
        PortError,
        ReadOnly,
        SchemaTooNew,
        StorageError,
        TooLarge,
        VersionConflict,
        WrongProcess,
    )
    from memdb.memory import MemDB, open  # noqa: A004 (memdb.open, like gzip.open)
    from memdb.models import (
        Artifact,
        ArtifactVersion,
        ContextWindow,
        Entry,
        EntryVersion,
        FileInfo,
        Finding,
        Hit,
        Hits,
        Message,
        NewMessage,
        Remembered,
        SessionInfo,
        Source,
        SpaceInfo,
        Why,
    )
    from memdb.scope import Scope
    from memdb.session import Session
    from memdb.summary_models import (
        Archived,
        Compacted,
        Expansion,
        Node,
        Piece,
        SourceItem,
        Summary,
        SummaryPolicy,
        SummaryTree,
    )
    from memdb.tools import Tools
    from memdb.worker import Worker

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Archived",
    "Artifact",
    "ArtifactVersion",
    "BadQuery",
    "Busy",
    "Closed",
    "Compacted",
    "Conflict",
    "ContextWindow",
    "Corrupt",
    "DimensionMismatch",
    "DiskFull",
    "Entry",
    "EntryVersion",
    "Expansion",
    "FileError",
    "FileInfo",
    "Finding",
    "Hit",
    "Hits",
    "IOFailed",
    "Interrupted",
    "InvalidInput",
    "MemDB",
    "MemDBError",
    "Message",
    "MigrationFailed",
    "MissingExtension",
    "NewMessage",
    "Node",
    "NotAMemDB",
    "NotFound",
    "Piece",
    "PortError",
    "ReadOnly",
    "Remembered",
    "SchemaTooNew",
    "Scope",
    "Session",
    "SessionInfo",
    "Source",
    "SourceItem",
    "SpaceInfo",
    "StorageError",
    "Summary",
    "SummaryPolicy",
    "SummaryTree",
    "TooLarge",
    "Tools",
    "VersionConflict",
    "Why",
    "Worker",
    "WrongProcess",
    "open",
]

# Where a name comes from, if not from one of these, in order.
_RECORDS = ("memdb.errors", "memdb.models", "memdb.summary_models")
_HOMES = {
    "MemDB": ("memdb.memory",),
    "open": ("memdb.memory",),
    "Scope": ("memdb.scope",),
    "Session": ("memdb.session",),
    "Tools": ("memdb.tools",),
    "Worker": ("memdb.worker",),
}

if not TYPE_CHECKING:  # a checker would allow any name on a module that has this

    def __getattr__(name: str) -> object:
        """Load the public *name* from its module, and keep it."""
        homes = _HOMES.get(name, _RECORDS) if name in __all__ else ()
        for home in homes:
            module = _load(home, name)
            if hasattr(module, name):
                return globals().setdefault(name, getattr(module, name))
        raise AttributeError(f"module 'memdb' has no attribute {name!r}")

    def _load(home: str, name: str) -> object:
        """
        Import the module *home* without collecting garbage meanwhile.

        Modules make thousands of objects that all stay; looking through them
        takes a tenth of the whole start (ADR-0007).
        """
        import gc

        collecting = gc.isenabled()
        gc.disable()
        try:
            # Not importlib.import_module: loading importlib takes longer.
            return __import__(home, fromlist=(name,))
        finally:
            if collecting:
                gc.enable()

    def __dir__() -> list[str]:
        """List what the module has, loaded or not."""
        return sorted({*globals(), *__all__})
