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
        SecretFound,
        StorageError,
        TooLarge,
        VersionConflict,
        WrongProcess,
    )
    from memdb.forget_models import Proof, Receipt
    from memdb.longterm.categories import Categories, Category
    from memdb.memory import MemDB, open  # noqa: A004 (memdb.open, like gzip.open)
    from memdb.models import (
        Artifact,
        ArtifactVersion,
        ContextWindow,
        Decision,
        Entry,
        EntryVersion,
        FileInfo,
        Finding,
        Hit,
        Message,
        NewMessage,
        Remembered,
        SessionInfo,
        Source,
        SpaceInfo,
    )
    from memdb.scope import Scope
    from memdb.session import Session
    from memdb.text.secret_policy import SecretPolicy

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Artifact",
    "ArtifactVersion",
    "BadQuery",
    "Busy",
    "Categories",
    "Category",
    "Closed",
    "Conflict",
    "ContextWindow",
    "Corrupt",
    "Decision",
    "DimensionMismatch",
    "DiskFull",
    "Entry",
    "EntryVersion",
    "FileError",
    "FileInfo",
    "Finding",
    "Hit",
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
    "PortError",
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
    "Source",
    "SpaceInfo",
    "StorageError",
    "TooLarge",
    "VersionConflict",
    "WrongProcess",
    "open",
]

# Where a name comes from, if not from `memdb.errors` or `memdb.models`.
_HOMES = {
    "Categories": ("memdb.longterm.categories",),
    "Category": ("memdb.longterm.categories",),
    "MemDB": ("memdb.memory",),
    "open": ("memdb.memory",),
    "Scope": ("memdb.scope",),
    "Proof": ("memdb.forget_models",),
    "Receipt": ("memdb.forget_models",),
    "SecretPolicy": ("memdb.text.secret_policy",),
    "Session": ("memdb.session",),
}

if not TYPE_CHECKING:  # a checker would allow any name on a module that has this

    def __getattr__(name: str) -> object:
        """Load the public *name* from its module, and keep it."""
        homes = _HOMES.get(name, ("memdb.errors", "memdb.models")) if name in __all__ else ()
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
