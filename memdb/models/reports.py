"""
Reports: what memdb answers about the file, its sessions, removals, imports and jobs.

Few programs load them, apart from `memdb.models.messages`, which all do. Times
are UTC milliseconds, sizes bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.models.ids import MAX_SCOPE_NO
from memdb.models.record import Record, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from memdb.errors import InvalidInput, MemDBError
    from memdb.models.messages import Message, SpaceInfo
    from memdb.models.observation import CallStats


class Proof(Record):
    """
    Proof of forgetting: the result of a search in the bytes of a file.

    Attributes:
        pieces: Byte strings of the forgotten texts that were searched for. Of each text these are
            up to 16 of 32 bytes, evenly spread, and its longest words as the indexes contain them.
        short: Texts under 8 bytes, too short to tell from others.
        searched: What was searched: names of files, "archive" and "artifacts"
            (those unpacked).
        found_bytes: Bytes of those pieces that are still there; 0 is the proof.
        found_in: Place where they are.
        said_elsewhere: Pieces that other rows of the same scope say too. Of
            other scopes nothing is reported.
        said_in: Some places of them.
        still_said_in: Places of the scope that still say every word of the
            query; 10 at most.
        notices: What stands in the way of the proof, and what it does not cover.
    """

    pieces: int
    short: int
    searched: tuple[str, ...]
    found_bytes: int
    found_in: tuple[str, ...]
    said_elsewhere: int
    said_in: tuple[str, ...]
    still_said_in: tuple[str, ...]
    notices: tuple[str, ...]


class TableColumns(Record):
    """
    Table of a SQLite file that contains messages, and its columns.

    Attributes:
        table, text: The table, and the column with the text.
        role: None means that all are the user's.
        session: None means one session, called as the table.
        created: An ISO time or UTC milliseconds; None means the time of the import.
        id: Unique in the session, so that a second import adds nothing; None
            means the row id.
    """

    table: str
    text: str
    role: str | None = None
    session: str | None = None
    created: str | None = None
    id: str | None = None


class Rows(Record):
    """
    The rows of a query; iterating gives a dict per row.

    Attributes:
        columns: Names, as the query gives them.
        rows: A tuple of values per row.
        has_more: Whether there are more rows than the limit.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
    has_more: bool

    def __iter__(self) -> Iterator[dict[str, object]]:
        """Yield each row as a dict by column."""
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)


class RecoveredTable(Record):
    """
    Result of `memdb.recover` for one table.

    Attributes:
        name: The table.
        rows: In the new file.
        left_out: Rows that were read and are damaged, or useless without others
            that are lost. How many stood on pages that cannot be read is not known.
        made: Rows that stand in for lost ones: scopes, sessions, names.
    """

    name: str
    rows: int
    left_out: int
    made: int


class Recovery(Record):
    """
    Result of `memdb.recover`.

    Attributes:
        path: The new file.
        tables: By table, those that users hold.
        broken_trees: Tables and indexes of the damaged file with a page that
            cannot be read.
        notes: What else to know.
        findings: What `check` still finds in the new file; normally nothing.
    """

    path: str
    tables: tuple[RecoveredTable, ...]
    broken_trees: int
    notes: tuple[str, ...]
    findings: tuple[str, ...]


class Restored(Record):
    """
    Result of `memdb.restore`.

    Attributes:
        path: The file that now holds what the backup does.
        kept: Place where the file is that was there before, None if there was none.
        size_bytes: Size of the backup.
        dry_run: Nothing was changed.
    """

    path: str
    kept: str | None
    size_bytes: int
    dry_run: bool


class CopyReport(Record):
    """
    Result of a copy from one database into another, or of its dry run.

    Attributes:
        target: Place where the copy is, without a password.
        rows: Copied rows by table; "vectors" counts vectors, "state" values under keys.
        sha256: Hash of all rows, the same in source and target; None for a dry run.
        dry_run: Nothing was stored.
    """

    target: str
    rows: dict[str, int]
    sha256: str | None
    dry_run: bool


class SyncReport(Record):
    """
    Result of a sync.

    Attributes:
        device: The id of this device.
        key: The pairing key, if this sync made it: the other devices ask for it.
        sent: Things that were sent, by kind.
        received: Things that were merged, by kind and what was done.
        waiting: What could not be merged yet, and why.
        refused: What was left out for good, and why.
        unconfirmed: Devices that may not have forgotten yet what was forgotten here.
        dry_run: Nothing was done.
    """

    device: str
    key: str | None
    sent: dict[str, int]
    received: dict[str, int]
    waiting: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    unconfirmed: tuple[str, ...] = ()
    dry_run: bool = False


class DeviceStatus(Record):
    """
    Device of a sync folder.

    Attributes:
        is_own: It is this file.
        number: Number of the last segment that it wrote.
        read: How many of these this file has merged.
        seen_at: Time when it synced last, by its own clock; None means not known.
    """

    id: str
    name: str
    is_own: bool
    number: int
    read: int
    seen_at: str | None


class SyncStatus(Record):
    """Devices of a folder, what is to be sent, what waits and why, who has not forgotten yet."""

    devices: tuple[DeviceStatus, ...]
    pending: int
    waiting: tuple[str, ...]
    unconfirmed: tuple[str, ...]


class Receipt(Record):
    """
    Receipt of forgetting: counts, time and proof, but never the text.

    Attributes:
        what: "entry", "messages", "session", "query", "person", "everything", or "writer" of
            `Scope.undo`.
        subject_sha256: Hash of what was named: who knows the name can check the receipt.
        removed: How many of each; versions are of entries and artifacts that stay, titles
            (with their metadata) of sessions that stay.
        rewritten: How many of each stayed without it: summaries, archived segments. Of a writer
            the entries that went back to an earlier version.
        dry_run: Nothing was removed: it says what would be.
        proof: None where none was asked for.
        pending: What still contains bytes, and what takes them out.
        rows: Of a dry run, what would be removed or rewritten, 1,000 at most.
        more_rows: How many there are besides.
        digest: Of a dry run, of all its rows: what `forget` takes as *expected*.
        remaining: Of a person, where the same user's memory contains the words besides. Of a
            query, names and artifacts that contain them. Each with what removes it. Of a writer,
            what stays as it left it, and why.
    """

    what: str
    subject_sha256: str
    removed: dict[str, int]
    rewritten: dict[str, int]
    forgotten_ms: int
    dry_run: bool = False
    proof: Proof | None = None
    pending: tuple[str, ...] = ()
    rows: tuple[PreviewRow, ...] = ()
    more_rows: int = 0
    digest: str | None = None
    remaining: tuple[str, ...] = ()

    _numbered = ("rows",)

    @property
    def proven(self) -> bool:
        """
        Whether a proof was asked for, nothing is left, and nothing says the query's words.

        Names inside other words, and inflections that the index keeps apart, are other words.
        """
        proof = self.proof
        if proof is None or self.pending:
            return False
        return proof.found_bytes == 0 and not proof.still_said_in


class PreviewRow(Record):
    """
    One thing that a removal takes away or rewrites.

    Attributes:
        kind: "message", "session", "entry", "version" (one of an entry or artifact that
            stays), "artifact", "item", "state", "title" (with the metadata), or "summary",
            which is rewritten.
        text: What it says; of a session, artifact, item or state its name.
        new_text: What a summary, or an entry that goes back, will say. None: it goes.
        session: Place where it is; of an entry where it was learnt. None means nowhere.
        branch: The branch of that session. None means the session itself.
        seq: Seq of a message; of an entry or summary the first that it comes from.
        last_seq: Of a summary, the last that it covers.
        entry_id: Number of an entry or version.
        version: Number of an earlier version, also that to which an entry goes back; of an
            artifact the newest.
    """

    kind: str
    text: str
    new_text: str | None = None
    session: str | None = None
    branch: str | None = None
    seq: int | None = None
    last_seq: int | None = None
    entry_id: int | None = None
    version: int | None = None
    created_ms: int | None = None

    _numbered = ("entry_id",)


class Secret(Record):
    """
    A secret in a text, without the secret.

    Attributes:
        kind: One of `KINDS`, or what a detector of your own calls it.
        start: Its first character.
        end: The one behind its last.
    """

    kind: str
    start: int
    end: int


class SecretPlace(Record):
    """
    Where a secret stands.

    Attributes:
        kind: What it is; see `memdb.text.secrets`.
        where: "message trip#3", "entry 12", "artifact menu.md@2", with what part
            of it where that is not its text.
        start: Its first character there; of an artifact its first byte, about.
        shown: How it begins and how long it is.
    """

    kind: str
    where: str
    start: int
    shown: str


class LeftOut(Record):
    """
    Something that an import did not take.

    Attributes:
        what: What it is: "hidden messages", or the place of one broken conversation.
        why: Why it is not imported.
        count: How many of them.
        is_place: Whether *what* is a place.
    """

    what: str
    why: str
    count: int = 1
    is_place: bool = False


class ImportReport(Record):
    """
    Result of an import, or of its dry run.

    Attributes:
        format: The format it was read as.
        sessions: How many sessions were made.
        branches: How many branches of sessions were made, for questions that were edited.
        messages_known: Messages that were here already and stayed as they are;
            so the other fields called `_known`.
        forgotten: What the file holds and was forgotten here: it stays away.
        left_out: What was not taken, and why.
        dry_run: Nothing was stored. Messages of other programs are counted as the import
            counts them, and all else as new.
        samples: The first messages of a dry run, shortened.
        notes: What is stored, but not as the source has it now: a title that changed
            there, an edited question that is a branch here.
    """

    format: str
    sessions: int = 0
    branches: int = 0
    messages_added: int = 0
    messages_known: int = 0
    summaries_added: int = 0
    entries_added: int = 0
    entries_known: int = 0
    artifacts_added: int = 0
    artifacts_known: int = 0
    items_added: int = 0
    items_known: int = 0
    embeddings_added: int = 0
    state_added: int = 0
    settings_added: int = 0
    forgotten: int = 0
    left_out: tuple[LeftOut, ...] = ()
    dry_run: bool = False
    samples: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> str:
        """Text for the added rows: "7 messages in 1 new session, 2 entries"."""
        parts = []
        if self.messages_added or self.sessions:
            sessions = counted(self.sessions, "new session")
            parts.append(f"{counted(self.messages_added, 'message')} in {sessions}")
        others = (
            (self.branches, "branch of a session", "branches of sessions"),
            (self.summaries_added, "summary", "summaries"),
            (self.entries_added, "entry", "entries"),
            (self.artifacts_added, "artifact version", ""),
            (self.items_added, "item", ""),
            (self.settings_added, "setting", ""),
        )
        parts += [counted(*one) for one in others if one[0]]
        return ", ".join(parts) or "nothing new"

    @property
    def is_complete(self) -> bool:
        """Whether all records that the format imports could be read and stored."""
        return not any(one.is_place for one in self.left_out)

    def __str__(self) -> str:
        """Return one line, and one more for each reason why something was left out."""
        known = self.messages_known + self.entries_known + self.artifacts_known + self.items_known
        verb = "Would import" if self.dry_run else "Imported"
        added = f"{verb} {self.added} ({self.format})"
        left = [counted(known, "was here already", "were here already")] if known else []
        away = counted(
            self.forgotten, "was forgotten here and stays away", "were forgotten here and stay away"
        )
        left += [away] if self.forgotten else []
        lines = ["; ".join([added, *left]) + "."]
        lines += [f"  {sample}" for sample in self.samples]
        lines += [f"Note: {note}." for note in self.notes]
        lines += [
            f"Left out: {one.what}{'' if one.is_place else f' ({one.count:,})'}: {one.why}."
            for one in self.left_out
        ]
        return "\n".join(lines)


class FolderChange(Record):
    """
    Changes in a folder since the last look.

    Attributes:
        report: Report of the notes that changed; None if none did, or none could be stored.
        removed: Notes that are gone. Their artifacts stay.
        error: Why none of the changed notes could be stored.
    """

    report: ImportReport | None
    removed: tuple[str, ...]
    error: InvalidInput | None = None


class Failure(Record):
    """
    The last failure of a kind of background work in this process; a success ends it.

    Attributes:
        error: What was raised.
        failed_ms: When, UTC milliseconds.
    """

    error: MemDBError
    failed_ms: int


class QueueState(Record):
    """
    Queue of one kind of background work.

    Attributes:
        kind: "embed" or "summarize", or a step of upkeep.
        model: The embedder that is to embed; None means no embedder.
        waiting: Jobs in all.
        due: Those whose time has come.
        oldest_due_ms: Time when the first of them was due; None means that none is.
        failing: Those that failed and are tried again.
        error: The newest error of them; None means that none failed.
        attempts: How often that one failed in a row.
        retry_ms: Time when it is tried again.
    """

    kind: str
    model: str | None
    waiting: int
    due: int
    oldest_due_ms: int | None
    failing: int = 0
    error: str | None = None
    attempts: int = 0
    retry_ms: int | None = None


class StateValue(Record):
    """
    A value of `State` with its version.

    Attributes:
        version: 1 when the key is new; each change adds 1.
        updated_ms: Time when it was changed last.
    """

    value: Any
    version: int
    updated_ms: int


class RefusedText(Record):
    """
    A text that an embedder refuses, so that it is found by its words alone.

    `db.jobs.run()` tries it again at once.

    Attributes:
        kind: "message", "entry" or "item".
        model: The embedder.
        session: Session of the message; None for others.
        seq: Seq of the message; None for others.
        entry_id: Number of the entry; None for others.
        attempts: How often it was refused.
        error: What the embedder said last.
        retry_ms: Time when it is tried again.
    """

    kind: str
    model: str
    session: str | None
    seq: int | None
    entry_id: int | None
    attempts: int
    error: str
    retry_ms: int

    _numbered = ("entry_id",)


class Stats(Record):
    """
    How the background work of a file goes, and the calls of this process.

    Attributes:
        queue: By kind and embedder; kinds without a job are left out.
        refused: Single texts that an embedder refused three times or more, 100 at most.
        failures: The last failure of each kind in this process, by kind;
            "extract" too. A success of the kind ends it.
        calls: Public calls, ports and kinds of work of this process, by name.
    """

    queue: tuple[QueueState, ...]
    refused: tuple[RefusedText, ...]
    failures: dict[str, Failure]
    calls: tuple[CallStats, ...]

    _numbered = ("refused",)

    @property
    def is_healthy(self) -> bool:
        """Whether nothing fails."""
        return not (self.failures or self.refused or any(one.failing for one in self.queue))


class Upkeep(Record):
    """
    Work about the whole file that comes round again.

    Attributes:
        kind: "expire", "retain", "sessions", "optimize" or "checkpoint".
        done_ms: Time when it was last done, None if never.
        due_ms: From when on it is due again.
        lease_ms: Until when a process is at it; past if none is.
        attempts: How often it failed since.
        error: What stopped it last; None means that nothing did.
    """

    kind: str
    done_ms: int | None
    due_ms: int
    lease_ms: int
    attempts: int
    error: str | None


class FileInfo(Record):
    """
    Contents of a file.

    Attributes:
        counts: Rows per store, by name.
        bytes_per_store: Bytes on disk per store with its indexes, by name.
        oldest_ms: created_ms of the oldest message, None without messages.
        pending_jobs: Jobs that are due and not done, those of a space included that the
            embedder of this process has still to make, new or dropped.
        pending: The same by kind: "embed", "summarize".
        summaries: How many there are, by quality.
        archived_messages: Messages that are in compressed segments.
        upkeep: What was done to the whole file in the background, by kind.
        other_tables: Tables and views of other programs, which memdb leaves alone.
        wal_readers: Numbers of the processes that read an old moment of the file, so that a
            WAL of more than 64 MB cannot be moved into it; () if there are none, or if the
            system does not tell.
        migration_copies: Names of the copies that migrations left beside the file: each holds
            what was in it then, also what was forgotten since.
        is_encrypted: Whether it was opened with a key.
        scopes_left: How many more scopes it takes; the numbers of those that were forgotten are
            not given again.
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
    other_tables: tuple[str, ...] = ()
    wal_readers: tuple[int, ...] = ()
    migration_copies: tuple[str, ...] = ()
    is_encrypted: bool = False
    scopes_left: int = MAX_SCOPE_NO


class ChangeMark(Record):
    """
    A moment of the file, to tell later whether it has changed.

    Attributes:
        stamp: Differs after any commit, by any process.
        commits: How many commits this open file has made so far.
        others: Differs after a commit by another connection; None means unknown.
    """

    stamp: int
    commits: int
    others: int | None


class SessionHead(Record):
    """
    Row of a session.

    Attributes:
        last_seq: The highest seq given out, 0 before the first message.
        newest_seq: Seq of the newest message that still exists; 0 if there is none. The number
            falls when messages are removed; `last_seq` never does.
        metadata: As given to `session.create`; None for a session that was
            made by its first message, artifact or state.
        uid: Differs from that of a session of the same name that was deleted.
    """

    name: str
    title: str | None
    last_seq: int
    newest_seq: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    uid: str


class SessionSnapshot(Record):
    """
    A session at one moment, with every state that it sees.

    Attributes:
        messages: Those asked for, oldest first.
        state: State of the session itself.
        user_state: State of its scope.
        app_state: State of its app.
    """

    head: SessionHead
    messages: tuple[Message, ...]
    state: dict[str, Any]
    user_state: dict[str, Any]
    app_state: dict[str, Any]


class WorkRequest(Record):
    """
    How much work to do, and who is called meanwhile.

    Attributes:
        limit: Stop after about this many pieces; None means all of them.
        progress: Called after each batch with its number of pieces.
        status: Called with ("active", what is done) before a model is asked.
        early: Also what failed and waits to be tried again, and sessions that
            still get messages.
        cancelled: Called between pieces, and while a model answers.
        offline: Extract without a model.
    """

    limit: int | None = None
    progress: Callable[[int], object] | None = None
    status: Callable[[str, str], object] | None = None
    early: bool = True
    cancelled: Callable[[], bool] | None = None
    offline: bool = False

    @property
    def stopped(self) -> bool:
        """Whether the caller has cancelled."""
        return self.cancelled is not None and self.cancelled()


class DayCount(Record):
    """
    Additions to a scope within one bucket of days.

    Attributes:
        start_ms: Time when the bucket begins: midnight by the offset that was asked for.
        messages: Said then; each branch counts its own.
        sessions: Begun then.
        entries: Told then, those that hold no more among them.
    """

    start_ms: int
    messages: int
    sessions: int
    entries: int


class CategoryCount(Record):
    """Entries of a category by their state, as `Entry.status` says it, now."""

    category: str
    active: int
    superseded: int
    expired: int
    inactive: int
    future: int


class ScopeCounts(Record):
    """
    Counts of a scope, by day and by category.

    Attributes:
        days: The buckets that hold something, oldest first; 600 at most.
        bucket_days: How many days a bucket has: 1, or more where 600 days are too few.
        categories: By name.
        is_complete: False if only the newest million of the messages were counted.
    """

    days: tuple[DayCount, ...]
    bucket_days: int
    categories: tuple[CategoryCount, ...]
    is_complete: bool


class SessionPlace(Record):
    """
    Where a session is.

    Attributes:
        branch: The branch of it; None means the session itself.
    """

    app: str
    user: str
    session: str
    branch: str | None


class Changes(Record):
    """
    Changes of a file since a mark, by any process.

    Attributes:
        mark: Give it as `since` for what changes from here on.
        sessions: The sessions that got messages, or are new.
        kinds: What else changed: "message" (edited, archived or removed), "session" (renamed or
            removed), "entry", "summary", "artifact", "item", "state", "settings" or "scope" (copied
            from another database). "other" is a row without words, such as a job or a vector.
        is_complete: False if more changed than is named here, or the mark is not known: read
            again whatever is kept.
    """

    mark: str
    sessions: tuple[SessionPlace, ...] = ()
    kinds: tuple[str, ...] = ()
    is_complete: bool = True

    @property
    def is_empty(self) -> bool:
        """Whether nothing changed."""
        return self.is_complete and not self.sessions and not self.kinds


class Hunk(Record):
    """
    Lines that differ, with some equal ones around them, as in `diff -u`.

    Attributes:
        old_start: Number of the first old line, from 1; with *old_count* 0, of the line before.
        new_start: Of the first new line, alike.
        lines: Each begins with " " (equal), "-" (old) or "+" (new).
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]


class TextDiff(Record):
    """
    Difference of two versions of a text.

    Attributes:
        old: The number of the older one, or of what was compared against.
        new: The number of the newer one.
        hunks: () if they are equal.
        added: How many lines are only in the new one.
        removed: How many lines are only in the old one.
        is_exact: False if the texts repeat so much that a part was not compared: all its
            lines are given as removed and added.
    """

    old: int
    new: int
    hunks: tuple[Hunk, ...]
    added: int
    removed: int
    is_exact: bool

    def lines(self) -> list[str]:
        """Return the lines that `diff -u` prints, without line ends; [] if they are equal."""
        if not self.hunks:
            return []
        found = [f"--- {self.old}", f"+++ {self.new}"]
        for hunk in self.hunks:
            old = _span(hunk.old_start, hunk.old_count)
            found.append(f"@@ -{old} +{_span(hunk.new_start, hunk.new_count)} @@")
            found += hunk.lines
        return found


def _span(start: int, count: int) -> str:
    """Return the lines of a hunk as its head names them."""
    return str(start) if count == 1 else f"{start},{count}"
