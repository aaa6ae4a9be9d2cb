"""
Import: reads a file of any known format and stores its lines in chunks.

A chunk is about two thousand lines in one transaction, so a stopped import keeps
whole chunks, and running it again adds the rest. Within a chunk sessions come
before messages, and messages before what refers to them.
"""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError, SecretFound
from memdb.models.record import Record
from memdb.models.reports import ImportReport
from memdb.models.settings import read_settings
from memdb.records.scopes import ScopeRef
from memdb.tables import scopes, settings
from memdb.text.validate import choice_value, optional_name, text_value
from memdb.transfer import artifacts, entries, files, items, messages, others, summaries
from memdb.transfer.formats import chatgpt, claude, jsonl, locomo
from memdb.transfer.lines import SCOPE, Item, Target, located

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.models.reports import TableColumns
    from memdb.transfer.files import Source
    from memdb.transfer.lines import TransferServices

LINE_FORMATS = ("memdb", "jsonl")

BEFORE = "The lines before it are stored"
REST = "What was stored before it stays"

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


def import_file(
    services: TransferServices,
    path: str | os.PathLike[str],
    *,
    owner: ScopeRef | None,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    progress: Callable[[int, int], object] | None = None,
    columns: TableColumns | None = None,
) -> ImportReport:
    """
    Add the content of the file at *path*; what is stored already stays as it is.

    Importing a file again adds nothing: messages are found by their external id
    or uid, entries and artifact versions by their uid or content. So an import
    that was stopped is finished by running it again.

    Args:
        owner: The scope to fill, whatever scope the file names; None means the
            scopes of a memdb export.
        session: For JSON lines that do not name theirs.
        format: One of `files.FORMATS`; None means by content.
        progress: Called with the bytes done and their total, after each chunk.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: a line or message cannot be stored; the error names it.
            What is before it is stored, and stays.
        SecretFound: one holds a secret, and the settings refuse it.

    Cost: 50 µs per message with index and exact token count, 35 µs from a memdb
    export; memory for a chunk of 2,000 lines, for a LoCoMo file the whole.

    Transaction: one per chunk.
    """
    services.db.refuse_read_only()
    if services.db.maintenance.is_own_file(os.fspath(path)):
        raise InvalidInput(f"{os.fspath(path)} is the open file itself: give another one")
    if format is None and is_foreign_database(path, columns):
        from memdb.transfer.sqlite_files import as_lines  # 0.4 s

        with as_lines(services.db, os.fspath(path), columns) as lines:
            report = import_file(
                services, lines, owner=owner, session=session, format="jsonl", progress=progress
            )
        return report.replace(format="llm" if columns is None else "sqlite")
    chosen = require_format(path, has_owner=owner is not None, session=session, format=format)
    sink = _Sink(services, owner)
    with files.opened(Path(path)) as source:
        try:
            for item in _items(source, chosen, session):
                sink.add(item)
                if sink.full:
                    sink.flush()
                    if progress is not None:
                        progress(source.done, source.total)
        except (_Explained, SecretFound):
            raise
        except InvalidInput as error:
            sink.flush()
            raise _Explained(f"{error}. {BEFORE}: mend it and import again") from error
        sink.finish()
        if progress is not None:
            progress(source.total, source.total)
    return ImportReport(chosen, **sink.added)


def require_format(
    path: str | os.PathLike[str],
    *,
    has_owner: bool,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    columns: TableColumns | None = None,
) -> str:
    """
    Return the format in which to read *path*, before anything is opened to store it.

    Raises:
        FileError: *path* cannot be read.
        InvalidInput: the format is unknown, or does not go with the other arguments.
    """
    file = Path(text_value(os.fspath(path), "path"))
    optional_name(session, "session")
    if format is None and is_foreign_database(file, columns):
        chosen = "llm" if columns is None else "sqlite"
    elif format is None:
        chosen = files.format_of(file)
    else:
        chosen = choice_value(format, "format", files.FORMATS)
        with files.opened(file):
            pass  # it can be read, and is no database
    if session is not None and chosen not in LINE_FORMATS:
        raise InvalidInput(f"session is given, but a {chosen} file names its own: leave it out")
    if not has_owner and chosen != "memdb":
        raise InvalidInput(
            f"a {chosen} file does not say whose memory it is: give a user (--user NAME)"
        )
    return chosen


def is_foreign_database(path: str | os.PathLike[str], columns: TableColumns | None) -> bool:
    """
    Return whether there is a SQLite file at *path* that is not memdb's.

    Raises:
        InvalidInput: *columns* are given for a file that is none.
    """
    if files.is_database(os.fspath(path)) and not files.is_memdb(os.fspath(path)):
        return True
    if columns is not None:
        raise InvalidInput(f"{os.fspath(path)} is no SQLite file of another program: no table")
    return False


class _Sink:
    """Stores items in chunks; call `finish` after the last one."""

    def __init__(self, services: TransferServices, owner: ScopeRef | None) -> None:
        """Store for *owner*; None means for the scopes that the items name."""
        self.added: Counter[str] = Counter()
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
        if item.kind == "scope":
            self.finish()
        try:
            if item.kind == "settings":
                self._take_settings(item.fields)
                return
            if item.kind == "scope":
                self._enter(SCOPE.from_line(item.fields))
                return
            if self._target is None:
                raise InvalidInput("nobody is named whose memory this is: give a user")
            if item.kind == artifacts.PART.kind:
                artifacts.read_part(self._target, item)
                return
            kind = _KINDS.get(item.kind)
            if kind is None:
                raise InvalidInput(f"kind is {item.kind!r}: use one of {', '.join(_KINDS)}")
            line = kind.read(self._target, item)
        except MemDBError as error:
            self.flush()
            raise located(item.place, error) from error
        self._lines[item.kind].append(line)
        self._waiting += 1
        if item.kind == "artifact":
            data = line.fields["data"]
            self._waiting_bytes += len(data) if isinstance(data, bytes) else CHUNK_BYTES
        elif item.kind == "item":
            self._waiting_bytes += len(line.draft.value or line.draft.data or b"")

    @property
    def full(self) -> bool:
        """Whether a chunk is waiting."""
        return self._waiting >= CHUNK_ITEMS or self._waiting_bytes >= CHUNK_BYTES

    def _take_settings(self, fields: dict[str, Any]) -> None:
        """
        Keep the settings of an export in a file that holds nothing and has none of its own.

        Elsewhere they would change what a file does with what is others'.
        """
        changes = read_settings(fields)
        with self._services.db.read() as tx:
            is_new = not settings.get_all(tx) and not scopes.list_all(tx)
        if is_new and self._owner is None:
            self._services.change_settings(changes)
            self.added["settings_added"] += len(fields)

    def _enter(self, scope: dict[str, Any]) -> None:
        """Go on with another scope of an export."""
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
        if self._target is not None and self._target.embedded:
            with self._services.db.write() as tx:
                others.settle_sessions(self._target, tx)


class _Explained(InvalidInput):
    """An error whose message says what is stored."""


def _items(source: Source, format_: str, session: str | None) -> Iterator[Item]:
    if format_ in LINE_FORMATS:
        return jsonl.read(source, session)
    if format_ == "locomo":
        return locomo.read(_object(source))
    numbered = ((f"conversation {number}", value) for number, value in source.elements())
    return chatgpt.read(numbered) if format_ == "chatgpt" else claude.read(numbered)


def _object(source: Source) -> dict[str, Any]:
    try:
        data = source.read(files.MAX_OBJECT_BYTES + 1)
        if len(data) > files.MAX_OBJECT_BYTES:
            raise files.too_long(source.name, files.MAX_OBJECT_BYTES)
        value = json.loads(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{source.name} is not UTF-8 ({error.reason}): convert it") from error
    except (ValueError, RecursionError) as error:
        problem = files.json_problem(error)
        raise InvalidInput(f"{source.name} is no JSON ({problem}): get the file again") from error
    if not isinstance(value, dict):
        raise InvalidInput(f"{source.name} is no JSON object: import one conversation at a time")
    return value
