"""
memdb: everything an AI agent remembers, in one SQLite file.

`open()` gives the file, `db.user(name)` the memory of one user in it, and
`scope.session(name)` a conversation. `memdb.aio` has the same calls as coroutines.

Below are the calls that a program makes first. All names can be imported from
`memdb`; `help(memdb.Entries)` shows one, the module a group:

    namespaces          Artifacts Entries State Summaries (memdb.api.collections), Items File Jobs
                        StoredSettings Worker, Transaction, Tools
    settings            Settings Category (memdb.models.settings)
    conversations       Message NewMessage ContextWindow Piece ProfileBlock SessionInfo BranchInfo
                        SessionHead SessionSnapshot StateValue
    recall              Hit Hits Source Why
    lists               Page (of every list: `next` is where the page after it begins)
    entries             Entry NewEntry Remembered EntryVersion Link Extracted
                        Candidate Outcome (memdb.models.entries)
    summaries           Summary SummaryText Expansion Compacted Archived ArchivedSpan
                        SourceItem (memdb.models.summaries), SummaryTree
    artifacts           Artifact ArtifactVersion
    items               Item FoundItem, PutItem FindItem DeleteItem (for a batch), ItemOrder
    removal             Receipt Proof PreviewRow Secret SecretPlace, find_secrets
                        redact_secrets (in a text)
    the file            FileInfo Finding SpaceInfo ImportReport LeftOut ChangeMark Upkeep
                        Rows TableColumns, rekey
    overviews           ScopeCounts DayCount CategoryCount, TextDiff Hunk, Changes SessionPlace
    how it goes         Stats QueueState RefusedText Failure CallStats Event
    saving a file       recover Recovery RecoveredTable restore Restored CopyReport
    a file per user     open_folder Folder Lease FolderStats
    several devices     SyncReport SyncStatus DeviceStatus
    your own parts      Embedder Reranker Model Summarizer Arbiter TokenCounter Detector Clock Ids,
                        with Claim and Verdict (memdb.models.protocols)
    arguments           When (a time: milliseconds, datetime or text) Role Kind SearchBy Partition
                        RecallOptions SessionRecall EntryFields SettingsFields Selectors
                        MessageSelectors SecretAction Trust MergePolicy Retention OpenMode
                        Durability Work ToolFormat MessageFormat ExportFormat
    parts of messages   TextPart Thinking ToolCall ToolResult Image FilePart Other Original,
                        each of them a Part (memdb.models.types, docs/parts.md)
    errors              all of them, as a tree (memdb.errors)
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # "as" makes a name public for type checkers, also if __all__ lacks it
    from memdb import aio as aio
    from memdb.api._container import Transaction as Transaction
    from memdb.api.collections import Artifacts as Artifacts
    from memdb.api.collections import Entries as Entries
    from memdb.api.collections import State as State
    from memdb.api.collections import Summaries as Summaries
    from memdb.api.database import Jobs as Jobs
    from memdb.api.database import MemDB as MemDB
    from memdb.api.database import StoredSettings as StoredSettings
    from memdb.api.database import open as open  # noqa: A004 (memdb.open, like gzip.open)
    from memdb.api.file import File as File
    from memdb.api.items import Items as Items
    from memdb.api.scope import Scope as Scope
    from memdb.api.session import Session as Session
    from memdb.api.tools import Tools as Tools
    from memdb.api.worker import Worker as Worker
    from memdb.errors import AlreadyExists as AlreadyExists
    from memdb.errors import Busy as Busy
    from memdb.errors import CipherMissing as CipherMissing
    from memdb.errors import Closed as Closed
    from memdb.errors import Conflict as Conflict
    from memdb.errors import Corrupt as Corrupt
    from memdb.errors import DimensionMismatch as DimensionMismatch
    from memdb.errors import DiskFull as DiskFull
    from memdb.errors import FileError as FileError
    from memdb.errors import Interrupted as Interrupted
    from memdb.errors import InvalidInput as InvalidInput
    from memdb.errors import InvalidItem as InvalidItem
    from memdb.errors import IOFailed as IOFailed
    from memdb.errors import KeyMissing as KeyMissing
    from memdb.errors import MemDBError as MemDBError
    from memdb.errors import MigrationFailed as MigrationFailed
    from memdb.errors import NotAMemDB as NotAMemDB
    from memdb.errors import NotFound as NotFound
    from memdb.errors import PortError as PortError
    from memdb.errors import ReadOnly as ReadOnly
    from memdb.errors import SchemaTooNew as SchemaTooNew
    from memdb.errors import SecretFound as SecretFound
    from memdb.errors import SessionClosed as SessionClosed
    from memdb.errors import SettingsTooNew as SettingsTooNew
    from memdb.errors import StorageError as StorageError
    from memdb.errors import TooLarge as TooLarge
    from memdb.errors import Unavailable as Unavailable
    from memdb.errors import Unreadable as Unreadable
    from memdb.errors import Unsupported as Unsupported
    from memdb.errors import VersionConflict as VersionConflict
    from memdb.errors import WrongKey as WrongKey
    from memdb.errors import WrongProcess as WrongProcess
    from memdb.folder.folder import Folder as Folder
    from memdb.folder.folder import FolderStats as FolderStats
    from memdb.folder.folder import Lease as Lease
    from memdb.folder.folder import open_folder as open_folder
    from memdb.models.entries import Candidate as Candidate
    from memdb.models.entries import Entry as Entry
    from memdb.models.entries import EntryVersion as EntryVersion
    from memdb.models.entries import Extracted as Extracted
    from memdb.models.entries import Link as Link
    from memdb.models.entries import NewEntry as NewEntry
    from memdb.models.entries import Outcome as Outcome
    from memdb.models.entries import Remembered as Remembered
    from memdb.models.items import DeleteItem as DeleteItem
    from memdb.models.items import FindItem as FindItem
    from memdb.models.items import FoundItem as FoundItem
    from memdb.models.items import Item as Item
    from memdb.models.items import PutItem as PutItem
    from memdb.models.messages import Artifact as Artifact
    from memdb.models.messages import ArtifactVersion as ArtifactVersion
    from memdb.models.messages import BranchInfo as BranchInfo
    from memdb.models.messages import ContextWindow as ContextWindow
    from memdb.models.messages import Finding as Finding
    from memdb.models.messages import Hit as Hit
    from memdb.models.messages import Hits as Hits
    from memdb.models.messages import Message as Message
    from memdb.models.messages import NewMessage as NewMessage
    from memdb.models.messages import Piece as Piece
    from memdb.models.messages import ProfileBlock as ProfileBlock
    from memdb.models.messages import SessionInfo as SessionInfo
    from memdb.models.messages import Source as Source
    from memdb.models.messages import SpaceInfo as SpaceInfo
    from memdb.models.messages import Why as Why
    from memdb.models.observation import CallStats as CallStats
    from memdb.models.observation import Event as Event
    from memdb.models.protocols import Arbiter as Arbiter
    from memdb.models.protocols import Claim as Claim
    from memdb.models.protocols import Clock as Clock
    from memdb.models.protocols import Detector as Detector
    from memdb.models.protocols import Embedder as Embedder
    from memdb.models.protocols import Ids as Ids
    from memdb.models.protocols import Model as Model
    from memdb.models.protocols import Reranker as Reranker
    from memdb.models.protocols import Summarizer as Summarizer
    from memdb.models.protocols import TokenCounter as TokenCounter
    from memdb.models.protocols import Verdict as Verdict
    from memdb.models.record import Page as Page
    from memdb.models.reports import CategoryCount as CategoryCount
    from memdb.models.reports import ChangeMark as ChangeMark
    from memdb.models.reports import Changes as Changes
    from memdb.models.reports import CopyReport as CopyReport
    from memdb.models.reports import DayCount as DayCount
    from memdb.models.reports import DeviceStatus as DeviceStatus
    from memdb.models.reports import Failure as Failure
    from memdb.models.reports import FileInfo as FileInfo
    from memdb.models.reports import Hunk as Hunk
    from memdb.models.reports import ImportReport as ImportReport
    from memdb.models.reports import LeftOut as LeftOut
    from memdb.models.reports import PreviewRow as PreviewRow
    from memdb.models.reports import Proof as Proof
    from memdb.models.reports import QueueState as QueueState
    from memdb.models.reports import Receipt as Receipt
    from memdb.models.reports import RecoveredTable as RecoveredTable
    from memdb.models.reports import Recovery as Recovery
    from memdb.models.reports import RefusedText as RefusedText
    from memdb.models.reports import Restored as Restored
    from memdb.models.reports import Rows as Rows
    from memdb.models.reports import ScopeCounts as ScopeCounts
    from memdb.models.reports import Secret as Secret
    from memdb.models.reports import SecretPlace as SecretPlace
    from memdb.models.reports import SessionHead as SessionHead
    from memdb.models.reports import SessionPlace as SessionPlace
    from memdb.models.reports import SessionSnapshot as SessionSnapshot
    from memdb.models.reports import StateValue as StateValue
    from memdb.models.reports import Stats as Stats
    from memdb.models.reports import SyncReport as SyncReport
    from memdb.models.reports import SyncStatus as SyncStatus
    from memdb.models.reports import TableColumns as TableColumns
    from memdb.models.reports import TextDiff as TextDiff
    from memdb.models.reports import Upkeep as Upkeep
    from memdb.models.settings import Category as Category
    from memdb.models.settings import Settings as Settings
    from memdb.models.summaries import Archived as Archived
    from memdb.models.summaries import ArchivedSpan as ArchivedSpan
    from memdb.models.summaries import Compacted as Compacted
    from memdb.models.summaries import Expansion as Expansion
    from memdb.models.summaries import SourceItem as SourceItem
    from memdb.models.summaries import Summary as Summary
    from memdb.models.summaries import SummaryText as SummaryText
    from memdb.models.types import Durability as Durability
    from memdb.models.types import EntryFields as EntryFields
    from memdb.models.types import ExportFormat as ExportFormat
    from memdb.models.types import FilePart as FilePart
    from memdb.models.types import Image as Image
    from memdb.models.types import ItemOrder as ItemOrder
    from memdb.models.types import Kind as Kind
    from memdb.models.types import MergePolicy as MergePolicy
    from memdb.models.types import MessageFormat as MessageFormat
    from memdb.models.types import MessageSelectors as MessageSelectors
    from memdb.models.types import OpenMode as OpenMode
    from memdb.models.types import Original as Original
    from memdb.models.types import Other as Other
    from memdb.models.types import Part as Part
    from memdb.models.types import Partition as Partition
    from memdb.models.types import RecallOptions as RecallOptions
    from memdb.models.types import Retention as Retention
    from memdb.models.types import Role as Role
    from memdb.models.types import SearchBy as SearchBy
    from memdb.models.types import SecretAction as SecretAction
    from memdb.models.types import Selectors as Selectors
    from memdb.models.types import SessionRecall as SessionRecall
    from memdb.models.types import SettingsFields as SettingsFields
    from memdb.models.types import TextPart as TextPart
    from memdb.models.types import Thinking as Thinking
    from memdb.models.types import ToolCall as ToolCall
    from memdb.models.types import ToolFormat as ToolFormat
    from memdb.models.types import ToolResult as ToolResult
    from memdb.models.types import Trust as Trust
    from memdb.models.types import When as When
    from memdb.models.types import Work as Work
    from memdb.rescue.recovery import recover as recover
    from memdb.rescue.recovery import rekey as rekey
    from memdb.rescue.recovery import restore as restore
    from memdb.summaries.tree import SummaryTree as SummaryTree
    from memdb.text.secrets import find_secrets as find_secrets
    from memdb.text.secrets import redact_secrets as redact_secrets

__version__ = "0.1.0"

# What `help(memdb)` shows; __dir__ lists every public name. Each is loaded when it is first used:
# `memdb --help` and tab completion never load the database driver.
__all__ = ["MemDB", "Scope", "Session", "open"]

# The module of each public name.
_HOMES = {
    "memdb.api.collections": "Artifacts Entries State Summaries",
    "memdb.api.database": "Jobs MemDB StoredSettings open",
    "memdb.api.file": "File",
    "memdb.api.items": "Items",
    "memdb.api.scope": "Scope",
    "memdb.api._container": "Transaction",
    "memdb.api.session": "Session",
    "memdb.api.tools": "Tools",
    "memdb.api.worker": "Worker",
    "memdb.errors": (
        "AlreadyExists Busy CipherMissing Closed Conflict Corrupt DimensionMismatch "
        "DiskFull FileError IOFailed Interrupted InvalidInput InvalidItem KeyMissing MemDBError "
        "MigrationFailed NotAMemDB NotFound PortError ReadOnly SchemaTooNew SecretFound "
        "SessionClosed SettingsTooNew StorageError TooLarge Unavailable Unreadable "
        "Unsupported VersionConflict WrongKey WrongProcess"
    ),
    "memdb.folder.folder": "Folder FolderStats Lease open_folder",
    "memdb.models.entries": (
        "Candidate Entry EntryVersion Extracted Link NewEntry Outcome Remembered"
    ),
    "memdb.models.items": "DeleteItem FindItem FoundItem Item PutItem",
    "memdb.models.messages": (
        "Artifact ArtifactVersion ContextWindow Finding Hit Hits Message NewMessage Piece "
        "ProfileBlock SessionInfo Source SpaceInfo Why BranchInfo"
    ),
    "memdb.models.observation": "CallStats Event",
    "memdb.models.protocols": (
        "Arbiter Claim Clock Detector Embedder Ids Model Reranker Summarizer TokenCounter Verdict"
    ),
    "memdb.models.record": "Page",
    "memdb.models.reports": (
        "CategoryCount ChangeMark Changes CopyReport DayCount DeviceStatus Failure "
        "FileInfo Hunk ImportReport LeftOut PreviewRow Proof QueueState Receipt RecoveredTable "
        "Recovery RefusedText Restored Rows ScopeCounts Secret SecretPlace SessionHead "
        "SessionPlace SessionSnapshot StateValue Stats SyncReport SyncStatus TableColumns TextDiff "
        "Upkeep"
    ),
    "memdb.models.settings": "Category Settings",
    "memdb.models.summaries": (
        "Archived ArchivedSpan Compacted Expansion SourceItem Summary SummaryText"
    ),
    "memdb.rescue.recovery": "recover rekey restore",
    "memdb.summaries.tree": "SummaryTree",
    "memdb.text.secrets": "find_secrets redact_secrets",
    "memdb.models.types": (
        "Durability EntryFields ExportFormat FilePart Image ItemOrder Kind MergePolicy "
        "MessageFormat MessageSelectors OpenMode Original Other Part Partition RecallOptions "
        "Retention Role SearchBy SecretAction Selectors SessionRecall SettingsFields TextPart "
        "Thinking ToolCall ToolFormat ToolResult Trust When Work"
    ),
}

if not TYPE_CHECKING:  # a checker would allow any name on a module that has this

    def __getattr__(name: str) -> object:
        """Load the public *name* from its module and cache it, or load the module *name*."""
        for home, names in _HOMES.items():
            if name in names.split():
                return globals().setdefault(name, getattr(_load(home), name))
        try:
            if not name.startswith("_"):
                return _load(f"memdb.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"memdb.{name}":
                raise
        raise AttributeError(f"module 'memdb' has no attribute {name!r}")

    def _load(home: str) -> object:
        """
        Import the module *home* with the garbage collector off.

        Modules make thousands of objects that all stay. The collector would walk them again and
        again, which takes a tenth of the whole start (ADR-0007).
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            # Not importlib.import_module: loading importlib takes longer.
            return __import__(home, fromlist=("__name__",))
        finally:
            if collecting:
                gc.enable()

    def __dir__() -> list[str]:
        """List the names of the module, loaded or not."""
        return sorted({*globals(), "aio", "errors", *" ".join(_HOMES.values()).split()})
