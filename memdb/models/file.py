"""
What a file says about itself: frozen records, as in `memdb.models.messages`.
"""

from __future__ import annotations

from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from memdb.models.messages import SpaceInfo


class Upkeep(Record):
    """
    Work about the whole file that comes round again.

    Attributes:
        kind: "expire", "retain", "sessions", "optimize" or "checkpoint".
        done_ms: When it was last done, None if never.
        due_ms: From when on it is due again.
        lease_ms: Until when a process is at it; past if none is.
        attempts: How often it failed since.
        error: What stopped it last; None: nothing did.
    """

    kind: str
    done_ms: int | None
    due_ms: int
    lease_ms: int
    attempts: int
    error: str | None


class FileInfo(Record):
    """
    What is in a file.

    Attributes:
        counts: Rows per store, by name.
        bytes_per_store: Bytes on disk per store with its indexes, by name.
        oldest_ms: created_ms of the oldest message, None without messages.
        pending_jobs: Jobs that are due and not done.
        pending: The same by kind: "embed", "summarize".
        summaries: How many there are, by quality.
        archived_messages: Messages that are in compressed segments.
        upkeep: What was done to the whole file in the background, by kind.
    """

    path: str
    format: int
    size_bytes: int
    wal_bytes: int
    counts: dict[str, int]
    bytes_per_store: dict[str, int]
    spaces: tuple[SpaceInfo, ...]
    oldest_ms: int | None
    newest_ms: int | None
    pending_jobs: int
    pending: dict[str, int]
    summaries: dict[str, int]
    archived_messages: int
    meta: dict[str, str]
    upkeep: tuple[Upkeep, ...] = ()
