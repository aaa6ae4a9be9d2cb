"""
Artifact lines: their codecs, export and import.

Exported versions keep their numbers; a hand-written line becomes the next version. Bytes that are
too long for a line are in separate lines before that of the version.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.models.fields import MAX_TEXT_BYTES, SHARED_PREFIX
from memdb.models.ids import session_id
from memdb.records import artifacts as artifact_records
from memdb.tables import artifacts, blobs, sessions, tombstones
from memdb.text.validate import between, fit_value, json_object, name_value
from memdb.transfer.lines import (
    REFUSALS,
    Codec,
    Item,
    PartFile,
    bytes_value,
    located,
    place_name,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.tables.artifacts import Place, Stored
    from memdb.text.screening import SecretScreen
    from memdb.transfer.lines import Target

PART_BYTES = 8 << 20  # of an artifact, in one line
MAX_VERSION = 1 << 53  # what any JSON reader holds exactly; leaves room for the next ones


def _utf8(value: object, field: str) -> bytes:
    """Return a text as UTF-8; it may be longer than the text of a row."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} is {type(value).__name__}: give a str")
    return str(fit_value(value)).encode()


def _artifact_name(value: object, field: str) -> str:
    """Return the name of an artifact."""
    name = name_value(value, field)
    if name == SHARED_PREFIX:
        raise InvalidInput("name is 'user:' alone: give a name after it")
    return name


def _object(value: Any, field: str) -> Any:
    """Return a JSON object unchanged, for `ArtifactService.save`."""
    json_object(value, field)
    return value


ARTIFACT = Codec(  # its message: session and seq if exported, else an external id
    "artifact",
    needs="name",
    exported_needs="mime created_ms uid",
    exported_only="version uid parts",
    checks={
        "name": _artifact_name,
        "version": between(1, MAX_VERSION),
        "metadata": _object,
        "data": bytes_value,
        "text": _utf8,
        "parts": between(1, MAX_VERSION),
    },
)
PART = Codec("artifact_part", "data", needs="data", checks={"data": bytes_value})
NAME = Codec(  # a name whose last versions were deleted
    "artifact_name",
    "session name last_version",
    needs="name last_version",
    checks={
        "name": _artifact_name,
        "last_version": between(1, MAX_VERSION),
    },
)
MESSAGE = Codec("message", "session branch seq", needs="session seq")


def export(
    tx: Tx, scope_no: int, wanted: Callable[[str], bool] = lambda _uid: True
) -> Iterator[dict[str, Any]]:
    """Yield the *wanted* versions of a scope, and the names whose last versions were deleted."""
    for place, _, last in artifacts.places(tx, scope_no):
        session = None
        if place.session_no != artifacts.SHARED:
            target = session_id(place.scope_no, place.session_no)
            session = sessions.names(tx, [target]).get(target)
            if session is None:
                continue  # its session was deleted: the name cannot be used again
        newest = 0
        for stored in reversed(artifacts.versions(tx, place)):
            newest = stored.info.version
            if wanted(stored.info.uid):
                yield from _version_lines(tx, stored, session)
        if newest < last:
            yield NAME.to_line(None, {"session": session, "name": place.name, "last_version": last})


def _version_lines(tx: Tx, stored: Stored, session: str | None) -> Iterator[dict[str, Any]]:
    """Yield a version; many bytes come first, in parts."""
    info, message = stored.info, None
    if info.message_session is not None:
        message = {"session": info.message_session, "seq": info.message_seq}
        if info.message_branch is not None:
            message["branch"] = info.message_branch
    if info.size_bytes > PART_BYTES:
        count = 0
        for part in blobs.read_parts(tx, stored.blob_no, PART_BYTES):
            yield PART.to_line(None, {"data": b64encode(part).decode()})
            count += 1
        data: dict[str, Any] = {"data": None, "text": None, "parts": count}
    else:
        data = _data_fields(blobs.read(tx, stored.blob_no))
    yield ARTIFACT.to_line(info, {**data, "session": session, "message": message})


def _data_fields(data: bytes) -> dict[str, Any]:
    """Return bytes as `text` if they are UTF-8 without NUL, else as base64 `data`."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        return {"data": b64encode(data).decode(), "text": None, "parts": None}
    return {"data": None, "text": text, "parts": None}


def read_part(target: Target, item: Item) -> None:
    """Keep bytes of the artifact in the next line, in a temporary file if they are many."""
    target.parts.write(PART.from_line(item.fields)["data"])


def read_artifact(target: Target, item: Item) -> Item:
    """Return an artifact line, checked; `data` has its bytes, or the file that contains them."""
    exported = item.fields.get("version") is not None
    row = ARTIFACT.from_line(item.fields, exported=exported)
    given = [field for field in ("text", "data", "parts") if field in item.fields]
    if len(given) != 1:
        raise InvalidInput("an artifact needs text or data (base64): give one of them")
    if row[given[0]] is None:
        raise InvalidInput(f"{given[0]} is NoneType: give a str")
    parts, target.parts = target.parts, PartFile()
    if parts.count != (row["parts"] or 0):
        raise InvalidInput(
            f"the line needs {row['parts'] or 0} lines with parts before it, but there are "
            f"{parts.count}: export it again"
        )
    data = parts if row["parts"] else row[given[0]]
    if not target.services.screen.is_allowing("artifact"):
        row = target.services.screen.pass_line("artifact", row)
        data = _screened(target.services.screen, data)
    message = row["message"]
    if not exported:
        row["message"] = None if message is None else name_value(message, "message")
    elif message is not None:
        if not isinstance(message, dict):
            raise InvalidInput("message is not an object with session and seq: export it again")
        row["message"] = MESSAGE.from_line(message)
    return Item(item.place, item.kind, {**row, "name": _full_name(row), "data": data})


def _screened(screen: SecretScreen, data: bytes | PartFile) -> bytes | PartFile:
    """Return the bytes of a version as *screen* lets them pass; those of a long one unchanged."""
    if isinstance(data, PartFile):
        data.rewind()
    head = data.read(MAX_TEXT_BYTES + 1) if isinstance(data, PartFile) else data
    return data if len(head) > MAX_TEXT_BYTES else screen.pass_bytes("artifact", "data", head)


def named_message(line: Item) -> tuple[str, str | None] | None:
    """Return the session and message that a hand-written line names; None if there is none."""
    row = line.fields
    is_named = row["version"] is None and row["message"] is not None
    return (row["session"], row["message"]) if is_named else None


def read_name(_target: Target, item: Item) -> dict[str, Any]:
    """Return the fields of a line about a name without its last versions, checked."""
    row = NAME.from_line(item.fields)
    return {**row, "name": _full_name(row)}


def _full_name(row: dict[str, Any]) -> str:
    """Return the name; one of no session is shared and begins with `user:`."""
    name: str = row["name"]
    is_full = row["session"] is not None or name.startswith(SHARED_PREFIX)
    return name if is_full else SHARED_PREFIX + name


def write_artifacts(target: Target, tx: Tx, lines: list[Item]) -> None:
    """
    Add the new versions; stored ones stay unchanged, and forgotten ones are left out.

    Raises:
        InvalidInput: a hand-written line names a message that is absent.
    """
    exported = [line.fields["uid"] for line in lines if line.fields["version"] is not None]
    forgotten = target.are_forgotten(tx, exported) if exported else set()
    for line in lines:
        row = line.fields
        if row["session"] in target.gone or row["uid"] in forgotten or _is_away(target, tx, row):
            target.added["forgotten"] += 1
            continue
        write = _save_next if line.fields["version"] is None else _restore
        try:
            added = write(target, tx, line.fields)
        except REFUSALS as error:
            raise located(line.place, error) from error
        target.added["artifacts_added" if added else "artifacts_known"] += 1


def _is_away(target: Target, tx: Tx, row: dict[str, Any]) -> bool:
    """Return whether a hand-written version was forgotten here."""
    if row["version"] is not None:
        return False
    session = None if row["name"].startswith(SHARED_PREFIX) else row["session"]
    place = target.owner.ensure(tx), session, row["name"], row["created_ms"]
    return artifact_records.is_kept_away(tx, *place)


def write_names(target: Target, tx: Tx, rows: list[dict[str, Any]]) -> None:
    """Reserve the numbers of deleted versions, so that they are not used again."""
    for row in rows:
        if row["session"] in target.gone:
            continue
        place = target.place_of(tx, row["session"], row["name"])
        artifact_records.reserve(tx, place, row["last_version"])


def _restore(target: Target, tx: Tx, row: dict[str, Any]) -> bool:
    """
    Add an exported version; False if it is already stored.

    If its number is used here, the version becomes the next one. A version that was deleted here
    while newer ones stayed is not added, because it would become the newest.
    """
    version = row["version"]
    place = target.place_of(tx, row["session"], row["name"])
    if artifacts.find_uid(tx, place, row["uid"]) is not None:
        return False
    known = artifacts.find_name(tx, place)
    if known is not None and version <= known[1]:
        newest = artifacts.find(tx, place)
        later = newest is not None and newest.info.version > version
        if later and tombstones.find(tx, place.scope_no, row["uid"]):
            return False
        version = None
    number = _save(target, row, version=version)
    if row["message"] is not None:
        session, seq = place_name(row["message"]), row["message"]["seq"]
        maker = target.find_session(tx, session)
        if maker is not None:
            artifacts.set_message(tx, place, number, maker | target.seq_here(session, seq))
    return True


def _save_next(target: Target, tx: Tx, row: dict[str, Any]) -> bool:
    """
    Save a hand-written line; False if it is already a version.

    Each line is searched after the version of the line before it. So bytes that are repeated later
    in the file are saved again, and a second import adds nothing.
    """
    seq, said_in = None, row["session"]
    if row["message"] is not None:
        said_in, seq = target.named_message(tx, row["session"], row["message"])
    session = None if row["name"].startswith(SHARED_PREFIX) else row["session"]
    place: Place = target.place_of(tx, session, row["name"])
    after = target.matched.get(place, 0)
    found = artifacts.next_same(tx, place, after, sha256(row["data"]).digest())
    if found is None:
        target.matched[place] = _save(target, {**row, "session": said_in}, message_seq=seq)
    else:
        target.matched[place] = found
    return found is None


def _save(
    target: Target,
    row: dict[str, Any],
    *,
    version: int | None = None,
    message_seq: int | None = None,
) -> int:
    """Save the bytes of a line, and return the number of the version."""
    columns = {name: row[name] for name in ("mime", "metadata", "created_ms", "uid", "writer")}
    if version is None:  # of no export
        columns["writer"] = row["writer"] or target.services.db.written_by
    if isinstance(row["data"], PartFile):
        row["data"].rewind()
    saved = target.services.artifacts.save(
        target.owner,
        row["session"],
        row["name"],
        row["data"],
        **columns,
        version=version,
        message_seq=message_seq,
    )
    return saved.version
