"""
Import: reads a file of any known format and stores its lines in chunks.

A chunk is about two thousand lines in one transaction, so a stopped import keeps
whole chunks, and running it again adds the rest. Within a chunk sessions come
before messages, and messages before what refers to them.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError, SecretFound
from memdb.models.record import Record
from memdb.models.reports import ImportReport, LeftOut
from memdb.models.settings import read_settings
from memdb.records.scopes import ScopeRef
from memdb.tables import scopes, settings
from memdb.text.validate import flag_value, optional_name, text_value
from memdb.transfer import artifacts, detect, entries, items, messages, others, summaries
from memdb.transfer.formats.base import LEFT_OUT, Request, left_out
from memdb.transfer.lines import SCOPE, Item, Target, located
from memdb.transfer.tree import Tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.models.reports import TableColumns
    from memdb.transfer.formats.base import Format
    from memdb.transfer.lines import TransferServices

BEFORE = "The lines before it are stored"
REST = "What was stored before it stays"
NOTHING = "Nothing is stored"

# Names of files that a report lists, and messages that a dry run shows, with their first words.
SHOWN = 5
SAMPLES = 3
SAMPLE_CHARS = 80

# Holds the write lock for 0.06 s; half as many cost a quarter more per line.
CHUNK_ITEMS = 2000
CHUNK_BYTES = 4 << 20


class _Kind(Record):
    """How the lines of a kind are read, which checks them, and written."""

    read: Callable[[Target, Item], Any]
    write: Callable[[Target, Any, list[Any]], None]


# In the order in which a chunk writes them.
_KINDS = {
    "session": _Kind(messages.read_session, messages.write_sessions),
    "branch": _Kind(messages.read_branch, messages.write_branches),
    "message": _Kind(messages.read_message, messages.write_messages),
    "summary": _Kind(summaries.read_summary, summaries.write_summaries),
    "entry": _Kind(entries.read_entry, entries.write_entries),
    "artifact": _Kind(artifacts.read_artifact, artifacts.write_artifacts),
    "artifact_name": _Kind(artifacts.read_name, artifacts.write_names),
    "item": _Kind(items.read_item, items.write_items),
    "embedding": _Kind(others.read_vector, others.write_vectors),
    "state": _Kind(others.read_state, others.write_state),
    "tombstone": _Kind(others.read_tombstone, others.write_tombstones),
}

# Which field of the report counts lines of a kind.
_COUNTERS = {
    "message": "messages_added",
    "summary": "summaries_added",
    "entry": "entries_added",
    "artifact": "artifacts_added",
    "item": "items_added",
    "embedding": "embeddings_added",
    "state": "state_added",
}


def import_file(
    services: TransferServices,
    path: str | os.PathLike[str],
    *,
    owner: ScopeRef | None,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    progress: Callable[[int, int], object] | None = None,
    columns: TableColumns | None = None,
    dry_run: bool = False,
) -> ImportReport:
    """
    Add what is at *path*: a file, a folder, an archive or another program's database.

    What is stored already stays as it is. Importing something again adds nothing:
    messages are found by their external id or uid, entries and artifact versions by
    their uid or content. So an import that was stopped is finished by running it again.

    Args:
        owner: The scope to fill, whatever scope the file names; None means the
            scopes of a memdb export.
        session: For messages that do not name theirs.
        format: One of `detect.NAMES`; None means by content.
        progress: Called with the bytes done and their total, after each chunk.
        dry_run: Read and check everything, and store nothing.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: a line or message cannot be stored; the error names it.
            What is before it is stored, and stays.
        SecretFound: one holds a secret, and the settings refuse it.

    Cost: 50 µs per message with index and exact token count, 35 µs from a memdb
    export; memory for a chunk of 2,000 lines, for a LoCoMo file the whole.

    Transaction: one per chunk.
    """
    if not flag_value(dry_run, "dry_run"):
        services.db.refuse_read_only()
    if services.db.maintenance.is_own_file(os.fspath(path)):
        raise InvalidInput(f"{os.fspath(path)} is the open file itself: give another one")
    with Tree(text_value(os.fspath(path), "path")) as tree:
        chosen, names = choose_format(
            tree, has_owner=owner is not None, session=session, format=format, columns=columns
        )
        request = Request(tree, names, session, columns, services.db)
        sink = _Sink(services, owner, dry_run=dry_run)
        total = tree.size_of(names)
        try:
            for item in chosen.read(request):
                sink.add(item)
                if sink.full:
                    sink.flush()
                    if progress is not None:
                        progress(min(tree.done, total), total)
        except (_Explained, SecretFound):
            raise
        except InvalidInput as error:
            sink.flush()
            raise _Explained(f"{error}. {sink.kept}: mend it and import again") from error
        sink.finish()
        for item in _unread(tree, names):
            sink.add(item)
        if progress is not None:
            progress(total, total)
    return sink.report(chosen.name)


def require_format(
    path: str | os.PathLike[str],
    *,
    has_owner: bool,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    columns: TableColumns | None = None,
) -> Format:
    """
    Return the format in which to read *path*, before anything is opened to store it.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: the format is unknown, or does not go with the other arguments.
    """
    with Tree(text_value(os.fspath(path), "path")) as tree:
        chosen, _ = choose_format(
            tree, has_owner=has_owner, session=session, format=format, columns=columns
        )
        return chosen


def choose_format(
    tree: Tree,
    *,
    has_owner: bool,
    session: str | None,
    format: str | None,  # noqa: A002 (the word that users of files use)
    columns: TableColumns | None,
) -> tuple[Format, list[str]]:
    """
    Return the format of a tree with its files of it, and refuse arguments that do not fit.

    Raises:
        InvalidInput: the format is unknown, or does not go with the other arguments.
    """
    optional_name(session, "session")
    if format is None and columns is not None:
        format = "sqlite"  # noqa: A001
    if format is None:
        chosen, names = detect.detect(tree)
    else:
        chosen = detect.load_format(format)
        names = chosen.claim(tree) or list(tree.names)
        if tree.is_database and chosen.name not in detect.DATABASES:
            raise InvalidInput(
                f"{tree.name}: this is a database: export it first with `memdb export`"
            )
        needs_database = columns is not None or chosen.name in detect.DATABASES
        if needs_database and not tree.is_database:
            raise InvalidInput(f"{tree.path} is no SQLite file of another program: no table")
    if session is not None and not chosen.takes_session:
        raise InvalidInput(
            f"session is given, but a {chosen.name} file names its own: leave it out"
        )
    if not has_owner and not chosen.names_owner:
        raise InvalidInput(
            f"a {chosen.name} file does not say whose memory it is: give a user (--user NAME)"
        )
    return chosen, names


def _unread(tree: Tree, names: list[str]) -> Iterator[Item]:
    """Yield an item for the files of a tree that its format does not read."""
    read = set(names)
    rest = [name for name in tree.names if name not in read]
    if rest:
        shown = ", ".join(rest[:SHOWN]) + (", ..." if len(rest) > SHOWN else "")
        yield left_out(tree.name, "files", f"they hold no conversations: {shown}", len(rest))


class _Sink:
    """Stores items in chunks; call `finish` after the last one."""

    def __init__(
        self, services: TransferServices, owner: ScopeRef | None, *, dry_run: bool
    ) -> None:
        """Store for *owner*, None means for the scopes that the items name; or only count."""
        self.added: Counter[str] = Counter()
        self._dry_run = dry_run
        self._left_out: dict[tuple[str, str], int] = {}
        self._samples: list[str] = []
        self._sessions: set[str | None] = set()  # of a dry run
        self._special: dict[str, Callable[[Item], None]] = {
            LEFT_OUT: self._leave_out,
            "settings": self._take_settings,
            "scope": self._enter,
            artifacts.PART.kind: self._read_part,
        }
        self._has_stored = False
        self._services = services
        self._owner = owner
        self._target = None if owner is None else Target(services, owner, owner.app, self.added)
        self._scope: dict[str, Any] | None = None
        self._lines: defaultdict[str, list[Any]] = defaultdict(list)
        self._waiting = 0
        self._waiting_bytes = 0

    def add(self, item: Item) -> None:
        """
        Check an item; it is stored with its chunk.

        Raises:
            InvalidInput: it cannot be stored; the items before it are.
        """
        self._begin(item.kind)
        try:
            special = self._special.get(item.kind)
            if special is not None:
                special(item)
                return
            target = self._require_target()
            kind = _KINDS.get(item.kind)
            if kind is None:
                raise InvalidInput(f"kind is {item.kind!r}: use one of {', '.join(_KINDS)}")
            line = kind.read(target, item)
        except MemDBError as error:
            self.flush()
            raise located(item.place, error) from error
        self._lines[item.kind].append(line)
        self._waiting += 1
        if self._dry_run:
            self._count(item)
        if item.kind == "artifact":
            data = line.fields["data"]
            self._waiting_bytes += len(data) if isinstance(data, bytes) else CHUNK_BYTES
        elif item.kind == "item":
            self._waiting_bytes += len(line.draft.value or line.draft.data or b"")

    def _begin(self, kind: str) -> None:
        """Store what has to be there before a line of *kind*."""
        if kind == "scope":
            self.finish()
        elif kind == "branch":
            self.flush()  # what it shares has its seqs by then

    @property
    def full(self) -> bool:
        """Whether a chunk is waiting."""
        return self._waiting >= CHUNK_ITEMS or self._waiting_bytes >= CHUNK_BYTES

    @property
    def kept(self) -> str:
        """What an error says of the lines before it."""
        return BEFORE if self._has_stored else NOTHING

    def report(self, format_name: str) -> ImportReport:
        """Return what was added, or would be, and what was left out."""
        left = [LeftOut(what, why, count) for (what, why), count in self._left_out.items()]
        return ImportReport(
            format_name,
            **self.added,
            left_out=tuple(left),
            dry_run=self._dry_run,
            samples=tuple(self._samples),
        )

    def _count(self, item: Item) -> None:
        """Count an item of a dry run, as if nothing of it were here; keep the first messages."""
        fields = item.fields
        name = fields.get("name") if item.kind == "session" else fields.get("session")
        if item.kind in ("session", "message") and name not in self._sessions:
            self._sessions.add(name)
            self.added["sessions"] += 1
        counter = _COUNTERS.get(item.kind)
        if counter is not None:
            self.added[counter] += 1
        if item.kind == "message" and len(self._samples) < SAMPLES and fields.get("text"):
            words = " ".join(str(fields["text"]).split())[:SAMPLE_CHARS]
            self._samples.append(f"{fields.get('role')}: {words}")

    def _require_target(self) -> Target:
        """Return the scope to fill; InvalidInput if the lines before named none."""
        if self._target is None:
            raise InvalidInput("nobody is named whose memory this is: give a user")
        return self._target

    def _leave_out(self, item: Item) -> None:
        """Count something that the format does not import."""
        reason = item.fields["what"], item.fields["why"]
        self._left_out[reason] = self._left_out.get(reason, 0) + item.fields["count"]

    def _read_part(self, item: Item) -> None:
        """Keep bytes of the artifact whose line follows."""
        artifacts.read_part(self._require_target(), item)

    def _take_settings(self, item: Item) -> None:
        """
        Keep the settings of an export in a file that holds nothing and has none of its own.

        Elsewhere they would change what a file does with what is others'.
        """
        changes = read_settings(item.fields)
        with self._services.db.read() as tx:
            is_new = not settings.get_all(tx) and not scopes.list_all(tx)
        if is_new and self._owner is None and not self._dry_run:
            self._services.change_settings(changes)
            self.added["settings_added"] += len(item.fields)

    def _enter(self, item: Item) -> None:
        """Go on with another scope of an export."""
        scope = SCOPE.from_line(item.fields)
        app, user = scope["app"], scope["user"]
        owner = self._owner or ScopeRef(self._services.db, app, user)
        self._target = Target(self._services, owner, app, self.added)
        self._scope = scope if (owner.app, owner.user) == (app, user) else None

    def flush(self) -> None:
        """
        Store the waiting lines in one transaction.

        Raises:
            InvalidInput: a line cannot be stored. The lines of its chunk that
                were stored before it stay.
        """
        target, lines, scope = self._target, self._lines, self._scope
        if target is None or not (lines or scope):
            return
        if self._dry_run:
            lines.clear()
            self._scope = None
            self._waiting = self._waiting_bytes = 0
            return
        if "message" in lines:
            lines["message"] = messages.count_messages(target, lines["message"])
        failure: InvalidInput | None = None
        with self._services.db.write() as tx:
            try:
                if scope is not None and target.owner.find(tx) is None:
                    scopes.ensure(
                        tx, scope["app"], scope["user"], scope["uid"], scope["created_ms"]
                    )
                for name, kind in _KINDS.items():
                    if name in lines:
                        kind.write(target, tx, lines[name])
            except InvalidInput as error:
                failure = error
        self._has_stored = True
        lines.clear()
        self._scope = None
        self._waiting = self._waiting_bytes = 0
        if isinstance(failure, SecretFound):
            raise failure
        if failure is not None:
            raise _Explained(f"{failure}. {REST}: mend it and import again") from failure

    def finish(self) -> None:
        """Store the waiting lines, and end the embedding jobs that the imported vectors did."""
        self.flush()
        if self._target is not None and self._target.embedded and not self._dry_run:
            with self._services.db.write() as tx:
                others.settle_sessions(self._target, tx)


class _Explained(InvalidInput):
    """An error whose message says what is stored."""
