"""
Lines of an export: their codec, their checks, and the scope that an import fills.

A `Codec` names the fields of a kind of line, for export and import. The modules of the kinds
(`messages`, `entries`, ...) contain the codecs and use `Target`.
"""

from __future__ import annotations

import binascii
import math
from base64 import b64decode
from copy import copy
from hashlib import blake2b
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING

from memdb.errors import Conflict, InvalidInput, NotFound, SecretFound
from memdb.models.fields import EXPORTED, FIELDS, names_with
from memdb.models.ids import MAX_INT, MAX_SEQ, BranchName, scope_of, scope_range, session_no_of
from memdb.models.record import Record
from memdb.records import dependents
from memdb.records import sessions as session_records
from memdb.records.scopes import ScopeRef, find_session
from memdb.tables import jobs, messages, sessions
from memdb.tables.artifacts import SHARED, Place
from memdb.text.times import iso_ms
from memdb.text.validate import (
    between,
    json_object,
    name_value,
    text_value,
    time_value,
)

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from memdb.artifacts.service import ArtifactService
    from memdb.engine.base import Engine, Tx
    from memdb.entries.service import EntryService
    from memdb.errors import MemDBError
    from memdb.items.service import ItemService
    from memdb.models.settings import Settings
    from memdb.records.spaces import SpaceName
    from memdb.tables.jobs import Job
    from memdb.text.screening import SecretScreen
    from memdb.text.tokens import Counting
    from memdb.text.validate import Check

# What a record is to blame for. Any other error is that of the file, the disk or a service.
REFUSALS = (InvalidInput, NotFound, Conflict)

# The kind of an item that says what an import leaves out.
LEFT_OUT = "left_out"

# The kind of an item whose text the report notes.
NOTE = "note"

# A number below this is a time in seconds (the year 5138), else in milliseconds.
MAX_SECONDS = 100_000_000_000

# Grows when a field changes its meaning; importers refuse a higher one.
EXPORT_VERSION = 1

SPOOL_BYTES = 8 << 20

# What of a `Target` a transaction changes that may be rolled back.
ROLLED_BACK = ("items", "matched", "repeated", "embedded", "open_links", "notes")

PAGE = 500  # rows that an export reads at a time


class Item(Record):
    """
    One thing to import.

    Attributes:
        place: Its place in the file, for error messages: "line 17".
        kind: "session", "message", "entry" ..., as in the export.
        fields: Its fields as in the file; after `Codec.from_line` in their stored form.
    """

    place: str
    kind: str
    fields: dict[str, Any]


class Group(Record):
    """
    Items that are stored together or left out together: a conversation, a row, a note.

    Attributes:
        place: Its place in the file: "conversation 3", or "a.json, conversation 3".
        items: What it holds.
        reason: Why it cannot be read; None means that it can.
    """

    place: str
    items: tuple[Item, ...]
    reason: str | None = None


def left_out(place: str, what: str, why: str, count: int = 1) -> Item:
    """Return the item with the message that *count* of *what* are not imported, and why."""
    return Item(place, LEFT_OUT, {"what": what, "why": why, "count": count})


def unchecked(value: Any, _field: str) -> Any:
    """Return *value*, which is checked later."""
    return value


# The check of a field by its name, or that of a codec. Else a time is checked by `time_value`,
# and anything else is a name.
CHECKED_LATER = ("role", "author", "text", "parts", "external_id", "message", "user", "history")
CHECKS: dict[str, Check] = {
    **dict.fromkeys(CHECKED_LATER, unchecked),
    "metadata": json_object,
    "seq": between(1, MAX_SEQ),
}


class Codec:
    """
    The fields of one kind of line, and both directions: row to line and line to row.

    Attributes:
        fields: Their names, in the order of an export.
    """

    def __init__(
        self,
        kind: str,
        fields: str | None = None,
        *,
        needs: str = "",
        exported_needs: str = "",
        exported_only: str = "",
        checks: Mapping[str, Check] | None = None,
    ) -> None:
        """
        Describe the lines of *kind*.

        Args:
            fields: Their names, in the order of an export. None means those of the record.
            needs: Fields that every line must have.
            exported_needs: Fields that an exported line must have besides.
            exported_only: Fields that a hand-written line may not have.
            checks: By field, if the check differs from that of `CHECKS`.
        """
        self.kind = kind
        names = names_with(FIELDS[kind], EXPORTED) if fields is None else fields.split()
        known = CHECKS | dict(checks or {})
        self._checks = {
            name: known.get(name) or (time_value if name.endswith("_ms") else name_value)
            for name in names
        }
        self.fields = tuple(self._checks)
        self._checked = [one for one in self._checks.items() if one[1] is not unchecked]
        self._names = {True: {*names}, False: {*names} - {*exported_only.split()}}
        self._needs = {True: f"{needs} {exported_needs}".split(), False: needs.split()}

    def to_line(self, row: object, given: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return *row* as a line without the fields that are None; *given* overrides its fields."""
        values = given or {}
        line: dict[str, Any] = {"kind": self.kind}
        for name in self._checks:
            value = values[name] if name in values else getattr(row, name)
            if value is not None:
                line[name] = value
        return line

    def from_line(self, fields: dict[str, Any], *, exported: bool = True) -> dict[str, Any]:
        """
        Return the value of every field in its stored form, None for an absent field.

        Raises:
            InvalidInput: a field is unknown or missing, or cannot be stored.
        """
        refuse_unknown(self.kind, fields, self._names[exported])
        values: dict[str, Any] = dict.fromkeys(self._checks)
        values.update(fields)
        for name, check in self._checked:
            if (value := values[name]) is not None:
                values[name] = check(value, name)
        for name in self._needs[exported]:
            if fields.get(name) is None:
                raise InvalidInput(f"{name} is missing: add it")
        return values


SCOPE = Codec(
    "scope",
    needs="app user",
    exported_needs="created_ms uid",
    checks={
        "user": text_value,  # "" for what all users of an app share
    },
)


def place_name(row: Mapping[str, Any]) -> str:
    """Return the name of the session, or of the branch of it, that a line names."""
    session: str = row["session"]
    return session if row.get("branch") is None else BranchName(session, row["branch"])


def refuse_unknown(kind: str, fields: dict[str, Any], names: Any) -> None:
    """Refuse a field that is not in *names*, which is a typing error or from a newer memdb."""
    if not fields.keys() <= names:
        unknown = min(fields.keys() - names)
        raise InvalidInput(f"{kind} has no field {unknown!r}: use {', '.join(sorted(names))}")


def located(place: str, error: MemDBError) -> InvalidInput:
    """Return *error* with the place in the file at its beginning."""
    reason = str(error)
    is_located = reason.startswith(place)
    if isinstance(error, SecretFound):
        return error if is_located else SecretFound(f"{place}: {error.field}", error.kinds)
    return InvalidInput(reason if is_located else f"{place}: {reason}")


def without_place(place: str, reason: str) -> str:
    """Return the text of an error without the place at its beginning."""
    for known in (place, place.rpartition(", ")[2]):
        if known and reason.startswith((f"{known}:", f"{known},")):
            return reason.removeprefix(known).lstrip(":, ")
    file, _, rest = reason.partition(": ")  # with the folder or archive that the place lacks
    return rest if file.endswith(f"/{place}") else reason


def flag_value(value: object, field: str) -> int:
    """Return True or False as the 1 or 0 that is stored."""
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {value!r}: give true or false")
    return int(value)


def bytes_value(value: object, field: str) -> bytes:
    """Return the bytes of base64 text."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} is {type(value).__name__}: give base64 text")
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InvalidInput(f"{field} is not base64 ({error}): encode the bytes again") from error


def any_time(value: object, field: str) -> int | None:
    """
    Return None for None, else a time as UTC milliseconds.

    Args:
        value: A number of seconds or milliseconds (from 100,000,000,000 on), or ISO 8601 text,
            which is UTC if it has no zone.
    """
    if value is None:
        return None
    if isinstance(value, str):
        found = iso_ms(value.strip())
        if found is None:
            raise InvalidInput(f"{field} is {value!r}: write it like 2025-03-01T09:30:00Z")
        return time_value(found, field)
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise InvalidInput(f"{field} is {value!r}: give milliseconds or ISO 8601 text")
    return time_value(round(value if abs(value) >= MAX_SECONDS else value * 1000), field)


class TransferServices(Record):
    """
    Context of an import.

    Attributes:
        counting: Counts the tokens of messages that come without a count.
        screen: Finds secrets in a line where it is read.
        space: The embedding space for which new texts are queued; None means only the spaces of the
            file.
        summarize_every: Number of new messages after which a session is due for a summary.
        entries: Stores hand-written facts.
        artifacts: Stores versions.
        items: Checks items.
        change_settings: Stores checked changes of the settings in the file.
    """

    db: Engine
    counting: Counting
    screen: SecretScreen
    space: SpaceName | None
    summarize_every: int
    entries: EntryService
    artifacts: ArtifactService
    items: ItemService
    change_settings: Callable[[Settings | dict[str, Any]], Settings]

    def scope(self, app: str, user: str) -> ScopeRef:
        """Return a scope by its names, which are screened if it is new."""
        return ScopeRef(self.db, app, user, lambda: self.screen)


class TargetSession:
    """
    A session that messages are imported into.

    Attributes:
        own: Whether it is the session that was exported, so that its seqs are those of the file.
        fresh: Whether this import created it, so that it contains nothing else.
        has_created_ms: Whether the file has its time of creation, or it existed before.
        has_updated_ms: Whether the file has the time of its last change.
        dated: Whether its `updated_ms` is known, and not only the time of this import.
    """

    __slots__ = ("dated", "fresh", "has_created_ms", "has_updated_ms", "id", "own")

    def __init__(
        self,
        session: int,
        *,
        own: bool = False,
        fresh: bool,
        created: bool = False,
        updated: bool = False,
    ) -> None:
        """
        Fill the session with id *session*.

        *created* and *updated*: whether the file has these times.
        """
        self.id = session
        self.own = own
        self.fresh = fresh
        self.has_created_ms = created or not fresh
        self.has_updated_ms = updated
        self.dated = updated or not fresh


class PartFile:
    """
    The bytes of an artifact from several lines, in a temporary file above 8 MB.

    Attributes:
        count: Number of lines that they are from.
    """

    __slots__ = ("_file", "count")

    def __init__(self) -> None:
        """Start without bytes."""
        self._file: SpooledTemporaryFile[bytes] | None = None
        self.count = 0

    def write(self, data: bytes) -> None:
        """Add the bytes of a line."""
        if self._file is None:
            self._file = SpooledTemporaryFile(max_size=SPOOL_BYTES)  # noqa: SIM115 (see __del__)
        self._file.write(data)
        self.count += 1

    def rewind(self) -> None:
        """Move to the first byte."""
        if self._file is not None:
            self._file.seek(0)

    def read(self, size: int) -> bytes:
        """Return the next *size* bytes, fewer at the end."""
        return b"" if self._file is None else self._file.read(size)

    def __del__(self) -> None:
        """Remove the temporary file."""
        if self._file is not None:
            self._file.close()


class Target:
    """
    The scope that an import fills, and the places of the file's records in it.

    A message keeps its seq if that is free and the session is the one it was
    exported from. Otherwise it is added at the end, and references to it are changed.

    Attributes:
        file_app: The app in the file.
        added: What the import did so far, by the names of `ImportReport`.
        sessions: Sessions of the file that were stored, by name.
        last_seqs: Last seq of each exported session, by name.
        gone: Names of the exported sessions and branches that were forgotten here; nothing of them
            is stored.
        moved: By session and seq in the file, the seq that a message got here.
        embedded: The (space, session) pairs that got vectors.
        texts: By uid, the `digest_of` the text of an entry in the file.
        items: By uid, the refs of the vectors of an item that the import added.
        open_links: Entries whose successor, or whose other end of a rejected link, has not
            come yet: (id, its uid, the link).
        repeated: By key, and by the only session that recalls it, how many versions of its entry
            the file repeated so far.
        matched: By artifact name, the version of the last hand-written line.
        parts: The bytes of the artifact in the next line.
        notes: Notes of the report about records that are stored with changes.
        refused: By the name of an exported branch with a secret, the error, because its messages
            then have no place.
        is_captured: Whether messages are redacted, and one with a stored id stays unchanged.
    """

    def __init__(
        self,
        services: TransferServices,
        owner: ScopeRef,
        file_app: str,
        added: Counter[str],
        *,
        is_captured: bool = False,
    ) -> None:
        """Fill the scope of *owner*."""
        self.is_captured = is_captured
        self.services = services
        self.owner = owner
        self.file_app = file_app
        self.added = added
        self.sessions: dict[str, TargetSession] = {}
        self.last_seqs: dict[str, int] = {}
        self.gone: set[str] = set()
        self.moved: dict[tuple[str, int], int] = {}
        self.embedded: set[tuple[int, int]] = set()
        self.texts: dict[str, bytes] = {}
        self.items: dict[str, range] = {}
        self.open_links: list[tuple[int, str, dict[str, Any] | None]] = []
        self.repeated: dict[tuple[str, int | None], int] = {}
        self.matched: dict[Place, int] = {}
        self.parts = PartFile()
        self.notes: list[str] = []
        self.refused: dict[str, SecretFound] = {}

    def save_state(self, names: Iterable[str]) -> dict[str, Any]:
        """
        Return the state that a transaction changes here, for `restore_state` after a rollback.

        Args:
            names: Names of the sessions that it writes to.
        """
        saved: dict[str, Any] = {name: copy(getattr(self, name)) for name in ROLLED_BACK}
        saved["added"] = copy(self.added)
        saved["sessions"] = {name: copy(self.sessions.get(name)) for name in names}
        return saved

    def restore_state(self, saved: dict[str, Any]) -> None:
        """Restore the state that `save_state` returned."""
        for name in ROLLED_BACK:
            setattr(self, name, saved[name])
        self.added.clear()
        self.added.update(saved["added"])
        for name, session in saved["sessions"].items():
            if session is None:
                self.sessions.pop(name, None)
            else:
                self.sessions[name] = session

    def span(self, tx: Tx) -> tuple[int, int]:
        """Return the first and last possible id of the scope; create the scope if it is new."""
        return scope_range(self.owner.ensure(tx))

    def session(self, tx: Tx, name: str) -> TargetSession:
        """Return a session; create it if it is absent."""
        session = find_session(tx, self.owner, name)
        target = self.sessions.get(name)
        if target is None or target.id != session:  # new, or deleted since the last chunk
            fresh = session is None
            if session is None:
                session = session_records.ensure(tx, self.owner, name, self.services.db.ids)
                self.added["sessions"] += 1
            target = self.sessions[name] = TargetSession(session, fresh=fresh)
        return target

    def find_session(self, tx: Tx, name: str) -> int | None:
        """Return the id of a session, None if it is absent or was forgotten here."""
        return None if self.is_gone(name) else find_session(tx, self.owner, name)

    def require_session(self, tx: Tx, name: str) -> None:
        """Return if a session exists here; InvalidInput if it is absent."""
        if self.find_session(tx, name) is None:
            raise InvalidInput(f"there is no session {name!r}: put a line of it first")

    def is_gone(self, name: str) -> bool:
        """Return whether a session of the file, or a branch of one, was forgotten here."""
        return name in self.gone or str(name) in self.gone

    def are_forgotten(self, tx: Tx, uids: Iterable[str]) -> set[str]:
        """Return the *uids* that were forgotten in this scope."""
        return dependents.are_forgotten(tx, self.owner.ensure(tx), uids)

    def seq_here(self, session: str, seq: int) -> int:
        """Return the seq here of a message in the file."""
        return self.moved.get((session, seq), seq)

    def named_message(self, tx: Tx, session: str | None, external_id: str) -> tuple[str, int]:
        """
        Return session or branch, and seq, of the message that a hand-written line names.

        Raises:
            InvalidInput: the message is absent.
        """
        if session is None:
            raise InvalidInput("message is given without session: give the session too")
        for name, row in self._heads(tx, session):
            message = messages.find_external(tx, row, session, external_id)
            if message is not None:
                return name, message.seq
        raise InvalidInput(
            f"session {session!r} has no message with external_id {external_id!r}: "
            "put that line first"
        )

    def _heads(self, tx: Tx, session: str) -> Iterator[tuple[str, int]]:
        """Yield name and id of a session and then of its branches; nothing if it is absent."""
        row = self.find_session(tx, session)
        if row is not None:
            yield session, row
            for branch, info in sessions.list_branches(tx, scope_of(row), session):
                yield BranchName(session, info.name), branch

    def place_of(self, tx: Tx, session: str | None, name: str) -> Place:
        """Return the place of an artifact name; *session* None means shared by all sessions."""
        session_no = SHARED if session is None else session_no_of(self.session(tx, session).id)
        return Place(self.owner.ensure(tx), session_no, name)


def embedding_jobs(tx: Tx, space_no: int, subject: str, ref: int) -> list[Job]:
    """Return the embedding jobs of a session or entry, leased and failed ones too."""
    due = jobs.due(tx, space_no, ref, ref, MAX_INT, 2)
    return [job for job in due if job.subject == subject]


def digest_of(text: str) -> bytes:
    """Return a digest by which texts of an entry are compared."""
    return blake2b(text.encode(), digest_size=16).digest()
