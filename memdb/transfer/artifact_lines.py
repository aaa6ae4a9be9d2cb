"""
Artifacts of an import: exported versions with their numbers, hand-written ones as the next.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.records import artifacts as records
from memdb.tables import artifacts, tombstones
from memdb.text.validate import json_object, name_value, optional_name, time_value
from memdb.transfer.items import (
    bytes_of,
    count_of,
    located,
    needed,
    needed_ms,
    refuse_unknown,
    utf8_of,
)

if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.tables.artifacts import Place
    from memdb.transfer.target import Target

SAVED_FIELDS = frozenset(
    ("session", "name", "mime", "metadata", "message", "created_ms", "text", "data")
)
EXPORTED_FIELDS = SAVED_FIELDS | {"version", "uid"}
NAME_FIELDS = frozenset(("session", "name", "last_version"))
MESSAGE_FIELDS = frozenset(("session", "seq"))

SHARED_PREFIX = "user:"
MAX_VERSION = 1 << 53  # what any JSON reader holds exactly; leaves room for the next ones


class ArtifactLine(Record):
    """
    A version as a line describes it.

    Attributes:
        version: Its number; None for a hand-written line, which is the next.
        made_by: Session and seq in the file of the message that made it.
        message: For a hand-written line the external id of that message.
    """

    place: str
    session: str | None
    name: str
    data: bytes
    version: int | None
    uid: str | None
    saved: dict[str, Any]
    made_by: tuple[str, int] | None
    message: str | None


class NameLine(Record):
    """A name whose last versions were deleted."""

    place: str
    session: str | None
    name: str
    last_version: int


def read_artifact(place: str, fields: dict[str, Any]) -> ArtifactLine:
    """Return an artifact line, checked."""
    exported = fields.get("version") is not None
    refuse_unknown("artifact", fields, EXPORTED_FIELDS if exported else SAVED_FIELDS)
    session, name = _read_name(fields)
    saved: dict[str, Any] = {
        "mime": optional_name(fields.get("mime"), "mime"),
        "metadata": fields.get("metadata"),
        "created_ms": time_value(fields.get("created_ms"), "created_ms"),
    }
    json_object(saved["metadata"], "metadata")
    data = _read_data(fields)
    if not exported:
        message = optional_name(fields.get("message"), "message")
        return ArtifactLine(place, session, name, data, None, None, saved, None, message)
    needed(fields, "mime")
    needed_ms(fields, "created_ms")
    return ArtifactLine(
        place,
        session,
        name,
        data,
        count_of(fields, "version", 1, MAX_VERSION),
        name_value(needed(fields, "uid"), "uid"),
        saved,
        _read_made_by(fields.get("message")),
        None,
    )


def read_name(place: str, fields: dict[str, Any]) -> NameLine:
    """Return a line about a name without its last versions, checked."""
    refuse_unknown("artifact_name", fields, NAME_FIELDS)
    session, name = _read_name(fields)
    return NameLine(place, session, name, count_of(fields, "last_version", 1, MAX_VERSION))


def _read_name(fields: dict[str, Any]) -> tuple[str | None, str]:
    """Return session and name; shared names have no session and begin with `user:`."""
    session = optional_name(fields.get("session"), "session")
    name = name_value(needed(fields, "name"), "name")
    if session is None and not name.startswith(SHARED_PREFIX):
        name = SHARED_PREFIX + name
    if name == SHARED_PREFIX:
        raise InvalidInput("name is 'user:' alone: say what to call it")
    return session, name


def _read_data(fields: dict[str, Any]) -> bytes:
    if ("text" in fields) == ("data" in fields):
        raise InvalidInput("an artifact needs text or data (base64): give one of them")
    if "data" in fields:
        return bytes_of(fields, "data")
    return utf8_of(fields, "text")


def _read_made_by(given: Any) -> tuple[str, int] | None:
    if given is None:
        return None
    if not isinstance(given, dict):
        raise InvalidInput("message is not an object with session and seq: export it again")
    refuse_unknown("message", given, MESSAGE_FIELDS)
    session = name_value(needed(given, "session"), "session")
    return session, count_of(given, "seq", 1, MAX_SEQ)


class ArtifactWriter:
    """Adds the versions of one scope, and remembers what later lines need."""

    def __init__(self, target: Target) -> None:
        """Add to *target*."""
        self._target = target
        # By name, the last version that a hand-written line was found to be.
        self._matched: dict[Place, int] = {}

    def write(self, tx: Tx, lines: list[ArtifactLine]) -> None:
        """
        Add the versions that are not here; those that are stay as they are.

        Raises:
            InvalidInput: a hand-written line names a message that is not here.
        """
        for line in lines:
            try:
                if line.version is None:
                    added = self._save_next(tx, line)
                else:
                    added = self._restore(tx, line, line.version)
            except MemDBError as error:
                raise located(line.place, error) from error
            self._target.added["artifacts_added" if added else "artifacts_known"] += 1

    def write_names(self, tx: Tx, lines: list[NameLine]) -> None:
        """Make sure that the numbers of deleted versions are not given out again."""
        for line in lines:
            place = self._target.place_of(tx, line.session, line.name)
            records.reserve(tx, place, line.last_version)

    def _restore(self, tx: Tx, line: ArtifactLine, version: int) -> bool:
        """
        Add an exported version; False where it is here.

        A number that is given out here stands for other bytes, so then it
        becomes the next one. One that was deleted here while newer ones stayed
        is not brought back: as the next one it would be the newest.
        """
        uid = line.uid or ""
        place = self._target.place_of(tx, line.session, line.name)
        if artifacts.find_uid(tx, place, uid) is not None:
            return False
        known = artifacts.find_name(tx, place)
        number: int | None = version
        if known is not None and version <= known[1]:
            newest = artifacts.find(tx, place)
            later = newest is not None and newest.info.version > version
            if later and tombstones.find(tx, uid):
                return False
            number = None
        number = self._save(line, uid=uid, version=number)
        if line.made_by is not None:
            session, seq = line.made_by
            maker = self._target.find_session(tx, session)
            if maker is not None:
                message_id = maker | self._target.seq_here(session, seq)
                artifacts.set_message(tx, place, number, message_id)
        return True

    def _save_next(self, tx: Tx, line: ArtifactLine) -> bool:
        """
        Save a hand-written line; False if it is a version already.

        Each line is looked for behind the one before it, so bytes that come
        back later in the file are saved again, and a second import adds nothing.
        """
        seq = None
        if line.message is not None:
            seq = self._target.named_message(tx, line.session, line.message).seq
        session = None if line.name.startswith(SHARED_PREFIX) else line.session
        place = self._target.place_of(tx, session, line.name)
        digest = sha256(line.data).digest()
        found = artifacts.next_same(tx, place, self._matched.get(place, 0), digest)
        if found is not None:
            self._matched[place] = found
            return False
        self._matched[place] = self._save(line, message_seq=seq)
        return True

    def _save(self, line: ArtifactLine, **more: Any) -> int:
        artifacts = self._target.services.artifacts
        owner = self._target.owner
        given = {**line.saved, **more}
        return artifacts.save(owner, line.session, line.name, line.data, **given).version
