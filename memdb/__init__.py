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
    from memdb.api.database import MemDB, open  # noqa: A004 (memdb.open, like gzip.open)
    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.api.tools import Tools
    from memdb.entries.categories import Categories, Category
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
        SecretFound,
        StorageError,
        TooLarge,
        Unavailable,
        Unreadable,
        VersionConflict,
        WrongProcess,
    )
    from memdb.jobs.worker import Worker
    from memdb.models.extraction import Candidate, Extracted, ExtractPolicy, Outcome
    from memdb.models.file import FileInfo, Upkeep
    from memdb.models.jobs import SessionPolicy, UpkeepPolicy
    from memdb.models.messages import (
        Artifact,
        ArtifactVersion,
        ContextWindow,
        Decision,
        Entry,
        EntryVersion,
        Finding,
        Hit,
        Hits,
        Message,
        NewMessage,
        Piece,
        ProfileBlock,
        Remembered,
        SessionInfo,
        Source,
        SpaceInfo,
        Why,
    )
    from memdb.models.receipts import Proof, Receipt
    from memdb.models.summaries import (
        Archived,
        Compacted,
        Expansion,
        SourceItem,
        Summary,
        SummaryPolicy,
        SummaryText,
        SummaryTree,
    )
    from memdb.text.secret_policy import SecretPolicy

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Archived",
    "Artifact",
    "ArtifactVersion",
    "BadQuery",
    "Busy",
    "Candidate",
    "Categories",
    "Category",
    "Closed",
    "Compacted",
    "Conflict",
    "ContextWindow",
    "Corrupt",
    "Decision",
    "DimensionMismatch",
    "DiskFull",
    "Entry",
    "EntryVersion",
    "Expansion",
    "ExtractPolicy",
    "Extracted",
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
    "NotAMemDB",
    "NotFound",
    "Outcome",
    "Piece",
    "PortError",
    "ProfileBlock",
    "Proof",
    "ReadOnly",
    "Receipt",
    "Remembered",
    "SchemaTooNew",
    "Scope",
    "SecretFound",
    "SecretPolicy",
    "Session",
    "SessionInfo",
    "SessionPolicy",
    "Source",
    "SourceItem",
    "SpaceInfo",
    "StorageError",
    "Summary",
    "SummaryPolicy",
    "SummaryText",
    "SummaryTree",
    "TooLarge",
    "Tools",
    "Unavailable",
    "Unreadable",
    "Upkeep",
    "UpkeepPolicy",
    "VersionConflict",
    "Why",
    "Worker",
    "WrongProcess",
    "open",
]

# Where a name comes from, if not from one of these, in order.
_RECORDS = (
    "memdb.errors",
    "memdb.models.messages",
    "memdb.models.summaries",
    "memdb.models.extraction",
    "memdb.models.file",
)
_HOMES = {
    "Categories": ("memdb.entries.categories",),
    "Category": ("memdb.entries.categories",),
    "MemDB": ("memdb.api.database",),
    "open": ("memdb.api.database",),
    "Scope": ("memdb.api.scope",),
    "Proof": ("memdb.models.receipts",),
    "Receipt": ("memdb.models.receipts",),
    "SecretPolicy": ("memdb.text.secret_policy",),
    "Session": ("memdb.api.session",),
    "SessionPolicy": ("memdb.models.jobs",),
    "Tools": ("memdb.api.tools",),
    "UpkeepPolicy": ("memdb.models.jobs",),
    "Worker": ("memdb.jobs.worker",),
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
