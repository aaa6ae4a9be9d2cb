"""
Artifact service: saves named bytes in versions, and gets them back.

A name belongs to a session, or, when it begins with `user:`, to all sessions of
its scope. Large data is written chunk by chunk in transactions of its own, and
becomes a version in the last one. So nobody waits for it, and a crash leaves no
half version.
"""

from __future__ import annotations

import io
from itertools import islice
from mimetypes import MimeTypes
from typing import TYPE_CHECKING, Any, BinaryIO

from memdb.artifacts.streams import BlobStream, Joined, Upload
from memdb.errors import InvalidInput, NotFound, TooLarge, existing, require_version
from memdb.models.fields import SHARED_PREFIX
from memdb.models.ids import MAX_INT, MAX_SEQ, SESSION_NO_MASK, branch_of, session_no_of
from memdb.models.messages import Artifact, ArtifactVersion
from memdb.records import artifacts as artifact_records
from memdb.records import sessions as session_records
from memdb.records.artifacts import NewVersion
from memdb.tables import artifacts, blobs, messages, sessions
from memdb.tables.artifacts import SHARED, NameSpan, Place
from memdb.text.differences import compare_lines, split_lines
from memdb.text.screening import SecretScreen
from memdb.text.validate import (
    MAX_NAME_CHARS,
    MAX_TEXT_BYTES,
    choice_value,
    content_value,
    expected_value,
    int_value,
    json_object,
    name_value,
    optional_name,
    row_after,
    text_value,
    time_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from types import EllipsisType

    from memdb.engine.base import Engine, Tx
    from memdb.models.reports import TextDiff
    from memdb.models.types import ArtifactOrder
    from memdb.records.scopes import ScopeRef
    from memdb.tables.artifacts import Stored

# Names read per statement, and what is behind every name that begins with a prefix.
NAME_PAGE = 256
MAX_DIFF_BYTES = 2_000_000
LAST_NAME = chr(0x10FFFF) * (MAX_NAME_CHARS + 1)


# Endings that Python's table lacks in 3.11.
_MORE_MIMES = {
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".sql": "application/sql",
    ".jsonl": "application/json",
}


class ArtifactService:
    """The artifacts of a file."""

    def __init__(self, db: Engine, screen: SecretScreen | None = None) -> None:
        """Keep artifacts in *db*; *screen*: finds secrets, None means by the default settings."""
        self._db = db
        self._screen = SecretScreen() if screen is None else screen

    def save(
        self,
        owner: ScopeRef,
        session: str | None,
        name: str,
        data: bytes | str | BinaryIO,
        *,
        mime: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        message_seq: int | None = None,
        created_ms: int | None = None,
        uid: str | None = None,
        writer: str | EllipsisType | None = ...,
        version: int | None = None,
        expected: int | ArtifactVersion | None = None,
        keep_last: int | None = None,
    ) -> ArtifactVersion:
        """
        Save *data* as the next version of *name*.

        Args:
            session: The session the name belongs to, made if it is new; None
                means all sessions, and puts `user:` before the name.
            data: Bytes, a str (stored as UTF-8), or a binary file to read to
                its end. A file needs the memory of a chunk, and up to 64 MB
                if the settings do not allow secrets. A text of more is not searched.
            mime: None means guessed from the name and the data, see `guess_mime`.
            message_seq: The message of *session* that made it.
            writer: Only for imports: what saved it; `...` means what has the file open.
            version: Only for imports: the number it had; over all others.
            expected: Only if this is the newest version; 0 means none.
            keep_last: How many versions stay, this one included. None means all.

        Raises:
            VersionConflict: the newest version is not the one expected.
            InvalidInput: a name or field cannot be stored; nothing was written.
            NotFound: the session has no message *message_seq*.
            SecretFound: a field or the text contains a secret, and those are refused.
        """
        name = full_name(session, name)
        known = expected_value(expected, "version")
        if keep_last is not None:
            int_value(keep_last, "keep_last", 1, MAX_INT)
        fields = {"name": name, "session": session, "mime": mime, "metadata": metadata, "uid": uid}
        saved_by = self._db.written_by if writer is ... else writer
        fields["writer"] = saved_by
        metadata = self._screen.pass_fields("artifact", fields)["metadata"]
        owner.admit()
        row: dict[str, Any] = {
            "mime": optional_name(mime, "mime"),
            "metadata": json_object(metadata, "metadata"),
            "created_ms": time_value(created_ms, "created_ms"),
            "uid": optional_name(uid, "uid"),
            "writer": optional_name(saved_by, "writer"),
        }
        upload = self._upload(data)
        try:
            row["mime"] = row["mime"] or guess_mime(name, upload.head)
            searched = artifact_records.indexed_text(row["mime"], upload.head)
            with self._db.write() as tx:
                place, row["message_id"] = self._target(tx, owner, session, name, message_seq)
                _require_newest(tx, place, name, known)
                new = NewVersion(blob_no=upload.finish(tx), size_bytes=upload.size_bytes, **row)
                number = artifact_records.insert(tx, place, new, searched, self._db.ids, version)
                stored = artifacts.find(tx, place, number)
                if keep_last is not None:
                    artifact_records.keep_newest(tx, place, keep_last)
        except BaseException:
            upload.abandon()
            raise
        return existing(stored, "artifacts").info

    def _upload(self, data: bytes | str | BinaryIO) -> Upload:
        if isinstance(data, str):
            data = content_value(data, "data").encode()
        if isinstance(data, (bytes, bytearray, memoryview)):
            data = io.BytesIO(data)
        if not hasattr(data, "read"):
            raise InvalidInput(f"data is {type(data).__name__}: give bytes, str or a binary file")
        if not self._screen.is_allowing("artifact"):
            data = self._screened(data)
        return Upload(self._db, data)

    def _screened(self, data: BinaryIO) -> BinaryIO:
        """Return *data* as the settings let it pass."""
        head = data.read(MAX_TEXT_BYTES + 1)
        if not isinstance(head, bytes):
            return data  # a text file, which is refused
        if len(head) > MAX_TEXT_BYTES:
            return io.BufferedReader(Joined(head, data))
        return io.BytesIO(self._screen.pass_bytes("artifact", "data", head))

    def _target(
        self, tx: Tx, owner: ScopeRef, session: str | None, name: str, message_seq: int | None
    ) -> tuple[Place, int | None]:
        """Return where *name* stands and the id of the message that made it."""
        scope_no = owner.ensure(tx)
        if session is None:
            if message_seq is not None:
                raise InvalidInput("message_seq is given without session: give the session too")
            return Place(scope_no, SHARED, name), None
        found = sessions.find(tx, scope_no, session)
        message_id = None
        if message_seq is not None:
            int_value(message_seq, "message_seq", 1, MAX_SEQ)
            place = sessions.find(tx, scope_no, session, branch_of(session))
            said = None if place is None else messages.find(tx, place, session, message_seq)
            if said is None:
                raise NotFound("message", f"{session}#{message_seq}")
            message_id = said.row_id
        if name.startswith(SHARED_PREFIX):
            return Place(scope_no, SHARED, name), message_id
        if found is None:
            found = session_records.ensure(tx, owner, str(session), self._db.ids)
        return Place(scope_no, session_no_of(found), name), message_id

    def _place(self, tx: Tx, owner: ScopeRef, session: str | None, name: str) -> Place | None:
        """Return where *name* would stand, None if its scope or session is unknown."""
        name = full_name(session, name)
        scope_no = owner.find(tx)
        if scope_no is None:
            return None
        if session is None or name.startswith(SHARED_PREFIX):
            return Place(scope_no, SHARED, name)
        found = sessions.find(tx, scope_no, session)
        return None if found is None else Place(scope_no, session_no_of(found), name)

    def _get(
        self, tx: Tx, owner: ScopeRef, session: str | None, name: str, version: int | None
    ) -> Stored:
        if version is not None:
            int_value(version, "version", 1, MAX_INT)
        place = self._place(tx, owner, session, name)
        found = None if place is None else artifacts.find(tx, place, version)
        if found is None:
            raise NotFound("artifact", name if version is None else f"{name}@{version}")
        return found

    def load(
        self, owner: ScopeRef, session: str | None, name: str, version: int | None = None
    ) -> Artifact:
        """Return a version with its bytes, the newest for None; NotFound if there is none."""
        with self._db.read() as tx:
            found = self._get(tx, owner, session, name, version)
            return Artifact(found.info, blobs.read(tx, found.blob_no))

    def open(
        self, owner: ScopeRef, session: str | None, name: str, version: int | None = None
    ) -> io.BufferedReader:
        """Return a version as a binary stream that can seek; it reads chunk by chunk."""
        with self._db.read() as tx:
            found = self._get(tx, owner, session, name, version)
        return io.BufferedReader(BlobStream(self._db, found), blobs.CHUNK_BYTES)

    def versions(self, owner: ScopeRef, session: str | None, name: str) -> list[ArtifactVersion]:
        """Return every version of *name*, newest first; [] if there is none."""
        with self._db.read() as tx:
            place = self._place(tx, owner, session, name)
            found = [] if place is None else artifacts.versions(tx, place)
        return [stored.info for stored in found]

    def diff(
        self,
        owner: ScopeRef,
        session: str | None,
        name: str,
        version: int | None,
        against: int | None,
    ) -> TextDiff:
        """Return what two versions differ in, as `Artifacts.diff` describes it."""
        with self._db.read() as tx:
            new = self._get(tx, owner, session, name, version)
            if against is None:
                place = self._place(tx, owner, session, name)
                known = [] if place is None else artifacts.versions(tx, place)
                earlier = [one for one in known if one.info.version < new.info.version]
                if not earlier:
                    raise InvalidInput(
                        f"{name} has no version before {new.info.version}, so there is nothing to "
                        "compare"
                    )
                old = earlier[0]
            else:
                old = self._get(tx, owner, session, name, against)
            before, after = (split_lines(_text_of(tx, one)) for one in (old, new))
        return compare_lines(before, after, (old.info.version, new.info.version))

    def delete(
        self,
        owner: ScopeRef,
        session: str | None,
        name: str,
        version: int | None = None,
        expected: int | ArtifactVersion | None = None,
    ) -> bool:
        """
        Remove one version, all of them for None; False if there was none.

        Bytes that no other version shares go too. The numbers never come back.

        Raises:
            VersionConflict: the newest version is not the one expected.
        """
        if version is not None:
            int_value(version, "version", 1, MAX_INT)
        known = expected_value(expected, "version")
        with self._db.write() as tx:
            place = self._place(tx, owner, session, name)
            _require_newest(tx, place, name, known)
            return place is not None and bool(artifact_records.remove(tx, (place, version)))

    def rename(
        self,
        owner: ScopeRef,
        session: str | None,
        name: str,
        new_name: str,
        expected: int | ArtifactVersion | None = None,
    ) -> ArtifactVersion:
        """
        Rename an artifact with all its versions, and return the newest one.

        Raises:
            NotFound: there is no version under *name*.
            AlreadyExists: there is one under *new_name*.
            VersionConflict: the newest version is not the one expected.
        """
        new_name = full_name(session, new_name)
        known = expected_value(expected, "version")
        self._screen.pass_fields("artifact", {"name": new_name})
        with self._db.write() as tx:
            self._get(tx, owner, session, name, None)
            place = self._place(tx, owner, session, name)
            target = self._place(tx, owner, session, new_name)
            assert place is not None
            assert target is not None
            _require_newest(tx, place, name, known)
            if target != place:
                artifact_records.rename(tx, place, target)
            return self._get(tx, owner, session, new_name, None).info

    def list(
        self,
        owner: ScopeRef,
        session: str | None,
        *,
        prefix: str = "",
        after: ArtifactVersion | dict[str, Any] | None = None,
        limit: int | None = None,
        order: ArtifactOrder = "name",
    ) -> list[ArtifactVersion]:
        """
        Return the newest version of each name, as `Artifacts.list` describes it.

        With a session its names and the shared ones; for None those of the whole scope.
        """
        text_value(prefix, "prefix")
        first = 1
        if session is None and not prefix.startswith(SHARED_PREFIX):
            first += len(SHARED_PREFIX)  # as a scope takes names
        names = NameSpan(prefix, prefix + LAST_NAME, first)
        most = MAX_INT if limit is None else limit
        choice_value(order, "order", ("name", "updated"))
        by_name = order == "name"
        fields = {"session": object, "name": str} if by_name else {"created_ms": int, "uid": str}
        last = row_after(after, fields)
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            only = None
            if session is not None:
                found = sessions.find(tx, scope_no, name_value(session, "session"))
                only = SHARED if found is None else session_no_of(found)
            if not by_name:
                before = (*last,) if last else (MAX_INT, "")
                places = artifacts.names_by_updated(tx, scope_no, only, names, before, most)
                return [one.info for one in artifacts.newest(tx, places).values()]
            begin = Place(scope_no, SHARED, "")
            if last is not None:
                begin = self._place(tx, owner, *last) or begin
            return [*islice(_walk_names(tx, begin, names, only, min(most, NAME_PAGE)), most)]


def _walk_names(
    tx: Tx, begin: Place, names: NameSpan, only: int | None, page_size: int
) -> Iterator[ArtifactVersion]:
    """Yield the newest version of each name behind *begin*, of one session and the shared."""
    spans = (
        [(SHARED, SESSION_NO_MASK)] if only is None else sorted({(SHARED, SHARED), (only, only)})
    )
    for first, last in spans:
        place: Place | None = (
            begin if begin.session_no >= first else begin.replace(session_no=first, name="")
        )
        while place is not None:
            page = artifacts.names_between(tx, place, last, names, page_size)
            yield from (one.info for one in artifacts.newest(tx, page).values())
            place = page[-1] if len(page) == page_size else None


def _require_newest(tx: Tx, place: Place | None, name: str, expected: int | None) -> None:
    """Raise VersionConflict unless a version is the newest one; 0 means none."""
    if expected is not None:
        newest = None if place is None else artifacts.find(tx, place)
        require_version("artifact", name, expected, 0 if newest is None else newest.info.version)


def _text_of(tx: Tx, stored: Stored) -> str:
    """Return the text of a version that is short enough to compare."""
    name = f"{stored.info.name}@{stored.info.version}"
    if stored.info.size_bytes > MAX_DIFF_BYTES:
        what = f"bytes of {name} to compare"
        raise TooLarge(what, MAX_DIFF_BYTES, stored.info.size_bytes, "load both versions")
    try:
        return blobs.read(tx, stored.blob_no).decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{name} is not text: load it to get its bytes") from error


def full_name(session: str | None, name: str) -> str:
    """Return *name* as it is stored: with `user:` before it where no session is given."""
    name = name_value(name, "name")
    optional_name(session, "session")
    if name == SHARED_PREFIX:
        raise InvalidInput("name is 'user:' alone: give a name after it")
    if session is None and not name.startswith(SHARED_PREFIX):
        return SHARED_PREFIX + name
    return name


def guess_mime(name: str, head: bytes) -> str:
    """Return the type of *name*'s ending, else text/plain for UTF-8, else octet-stream."""
    ending = name[name.rfind(".") :].lower()
    # Python's own table: the system's would make files differ between machines.
    guessed = _MORE_MIMES.get(ending) or MimeTypes().guess_type(f"name{ending}")[0]
    return guessed or ("text/plain" if _is_text(head) else "application/octet-stream")


def _is_text(head: bytes) -> bool:
    """Return whether *head* is UTF-8 without NUL; its last character may be cut."""
    try:
        return "\0" not in head[:4096].decode()
    except UnicodeDecodeError as error:
        return len(head) >= 4096 and error.start > 4092  # noqa: PLR2004 (a cut character)
