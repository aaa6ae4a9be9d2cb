"""
memdb: everything an AI agent remembers, in one SQLite file.

`open()` gives the file, `db.scope(user)` somebody's memory in it, and
`scope.session(name)` a conversation. Everything that is API is named here.
"""

from __future__ import annotations

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
    Message,
    NewMessage,
    Remembered,
    SessionInfo,
    Source,
    SpaceInfo,
)
from memdb.scope import Scope
from memdb.session import Session

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "Artifact",
    "ArtifactVersion",
    "BadQuery",
    "Busy",
    "Closed",
    "Conflict",
    "ContextWindow",
    "Corrupt",
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
    "ReadOnly",
    "Remembered",
    "SchemaTooNew",
    "Scope",
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
