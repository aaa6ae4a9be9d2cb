"""
Functions of the verbs in `memdb.api.verbs` for values that JSON cannot express.

`owner_of` finds the object on which a verb is called.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import tempfile
from base64 import b64decode
from typing import TYPE_CHECKING, Any, BinaryIO

from memdb.errors import InvalidInput, NotFound, TooLarge
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.models.settings import WORK
from memdb.text.validate import int_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memdb.api.collections import Artifacts
    from memdb.api.database import Jobs, MemDB, StoredSettings
    from memdb.api.session import Session
    from memdb.models.messages import ArtifactVersion, BranchInfo, Message
    from memdb.models.reports import ImportReport, SessionHead
    from memdb.models.settings import Settings
    from memdb.models.types import MessageFormat, Work


MAX_VIEW_CHARS = 1_000_000
JOBS_AT_ONCE = 200
MOST_UPLOADS = 8
MAX_UPLOAD_BYTES = 1 << 30
MAX_FILE_NAME_CHARS = 60
PART = "part"


class OpenBytes(Record):
    """
    Bytes of the file, as a stream that can seek.

    Attributes:
        name: The file name of the download.
        tag: A text that identifies exactly these bytes.
    """

    name: str
    size_bytes: int
    tag: str
    data: BinaryIO


class BackupCopy(Record):
    """
    A copy of the file in a folder of its own, and its bytes as a stream.

    Attributes:
        name: The file name of the download.
        folder: The folder of the copy, which the caller removes.
    """

    name: str
    size_bytes: int
    data: BinaryIO
    folder: str


def copy_file(db: MemDB) -> BackupCopy:
    """Return a copy of the file as it is now, to download; others continue meanwhile."""
    folder = tempfile.mkdtemp(prefix="memdb-")
    try:
        path = os.path.join(folder, "copy.db")
        size_bytes = db.file.backup(path)
        name = os.path.basename(db.path)
        return BackupCopy(f"backup of {name}", size_bytes, open(path, "rb"), folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


# The folders of files that are being sent, by database, app, user and name; the oldest first.
_uploads: dict[tuple[str, str, str, str], tempfile.TemporaryDirectory[str]] = {}


def add_part(
    db: MemDB, *, user: str, app: str = "default", upload: str, data: bytes, at: int = 0
) -> int:
    """
    Keep a part of a file that `POST import` reads, and return how many bytes of it are here.

    If there are more than eight files, the oldest is dropped.

    Args:
        user: Whose it becomes.
        upload: A name for the file that you choose.
        at: The number of bytes that were sent before; 0 starts again.

    Raises:
        NotFound: no part was sent before, or the file was imported or dropped.
        InvalidInput: *at* is not the number of bytes that were sent.
        TooLarge: the file has more than 1 GiB.
    """
    key = db.path, app, user, upload
    if at == 0:
        while key in _uploads or len(_uploads) >= MOST_UPLOADS:
            _uploads.pop(key if key in _uploads else next(iter(_uploads))).cleanup()
        _uploads[key] = tempfile.TemporaryDirectory(prefix="memdb-")
    elif key not in _uploads:
        raise NotFound("upload", upload)
    with open(os.path.join(_uploads[key].name, PART), "ab") as file:
        if file.tell() != at:
            raise InvalidInput(
                f"at is {at}, but the file has {file.tell()} bytes so far: send the file again "
                "from 0"
            )
        if at + len(data) > MAX_UPLOAD_BYTES:
            raise TooLarge("file", MAX_UPLOAD_BYTES, at + len(data))
        return at + file.write(data)


def import_upload(
    db: MemDB,
    *,
    user: str,
    app: str = "default",
    name: str,
    data: bytes = b"",
    upload: str | None = None,
    session: str | None = None,
    format: str | None = None,  # noqa: A002 (the word that users of files use)
    dry_run: bool = False,
) -> ImportReport:
    """
    Import a file into the memory of *user*; see `MemDB.import_file`.

    Args:
        name: The name of the file; its ending helps to recognise the format.
        data: The file, or its last part, in base64.
        upload: The name given to `POST upload`, for a file that does not fit into a request.
        session: Session for messages that name none.
        format: How to read the file, by a name of docs/import.md. Default: find out.
        dry_run: Read and check everything, and store nothing; send the file again to import it.
    """
    called = "".join(filter(str.isprintable, re.split(r"[/\\]", name)[-1]))[-MAX_FILE_NAME_CHARS:]
    sent = None if upload is None else _uploads.pop((db.path, app, user, upload), None)
    if upload is not None and sent is None:
        raise NotFound("upload", upload)
    with sent or tempfile.TemporaryDirectory(prefix="memdb-") as folder:
        path = os.path.join(folder, called.strip(". ") or PART)
        if sent is not None:
            os.replace(os.path.join(folder, PART), path)
        with open(path, "ab") as file:
            file.write(data)
        return db.import_file(
            path, user=user, app=app, session=session, format=format, dry_run=dry_run
        )


def list_scopes(db: MemDB) -> list[dict[str, str]]:
    """
    Return every app and user with data; the user "" means data that all users of an app share.
    """
    return [{"app": scope.app, "user": scope.user} for scope in db.scopes()]


def export_lines(
    db: MemDB, *, user: str | None = None, app: str = "default", embeddings: bool = True
) -> Iterator[str]:
    """
    Return the memory of *user* as JSON lines, as `memdb import` takes them.

    Args:
        user: None means everybody, of every app, with the settings of the file.
        embeddings: Also write vectors; without them they are made again.
    """
    return db.export_lines(user=user, app=app, embeddings=embeddings)


def change_settings(settings: StoredSettings, *, changes: Mapping[str, Any]) -> Settings:
    """
    Change settings, store them in the file, and return all of them.

    Args:
        changes: New values by the name of the setting.
    """
    return settings.update(**changes)


def run_jobs(jobs: Jobs, *, limit: int = JOBS_AT_ONCE, kinds: Sequence[Work] = WORK) -> int:
    """
    Do some of the due work: embed, summarise and extract; return how much was done.

    Call it again while it returns more than 0. Short requests let the server end soon.

    Args:
        limit: Stop after about this many, 1 to 1,000.
        kinds: Which work: "embed", "summarize", "extract".
    """
    return jobs.run(int_value(limit, "limit", 1, 5 * JOBS_AT_ONCE), kinds=kinds)


class MessageView(Record):
    """
    A message with its long texts cut, for a screen; `GET message` has all of it.

    Attributes:
        text: At most the requested number of characters.
        text_chars: Length of the whole text.
        parts: Parts without their long texts; `base64_bytes` is the size that `message/bytes`
            returns.
    """

    seq: int
    role: str
    author: str | None
    text: str
    text_chars: int
    parts: list[Any] | None
    tokens: int
    external_id: str | None
    created_ms: int
    metadata: dict[str, Any] | None
    session: str
    uid: str
    writer: str | None


def list_messages(
    session: Session,
    *,
    first_seq: int = 1,
    max_chars: int | None = None,
    after: Mapping[str, Any] | None = None,
    limit: int | None = None,
) -> list[Message | MessageView]:
    """
    Return the messages of a session, oldest first.

    Args:
        first_seq: Begin with this message.
        max_chars: Cut texts behind this many characters, and leave bytes out: *text_chars* says how
            long a text is, and `base64_bytes` how large a part. None means all.
        after: The last message of the previous page. None means the first page.
        limit: Most messages. None means all.
    """
    int_value(first_seq, "first_seq", 1, MAX_SEQ)
    found = session.messages(first_seq - 1 if after is None else dict(after), limit)
    if max_chars is None:
        return [*found]
    int_value(max_chars, "max_chars", 1, MAX_VIEW_CHARS)
    return [_view(message, max_chars) for message in found]


def _view(message: Message, max_chars: int) -> MessageView:
    fields: dict[str, Any] = {name: getattr(message, name, None) for name in MessageView._fields}
    parts = None if message.parts is None else [_cut(one, max_chars) for one in message.parts]
    text = message.text[:max_chars]
    return MessageView(**{**fields, "text": text, "text_chars": len(message.text), "parts": parts})


def _cut(value: Any, max_chars: int) -> Any:
    """Return a part without bytes, and with its long texts cut."""
    if isinstance(value, dict):
        data = value.get("base64")
        kept = {name: _cut(one, max_chars) for name, one in value.items() if name != "base64"}
        if isinstance(data, str):
            return {**kept, "base64_bytes": len(data) * 3 // 4}
        return kept if data is None else {**kept, "base64": data}
    if isinstance(value, list):
        return [_cut(one, max_chars) for one in value]
    return f"{value[:max_chars]}…" if isinstance(value, str) and len(value) > max_chars else value


def open_part(session: Session, seq: int, part: int = 0) -> OpenBytes:
    """
    Return the bytes of an image or file that a message holds, as `artifact/bytes` does.

    Args:
        part: The place of the part in `parts`, from 0.
    """
    message = session.get(seq)
    parts = message.parts or []
    int_value(part, "part", 0, MAX_SEQ)
    data = parts[part].get("base64") if part < len(parts) else None
    if not isinstance(data, str):
        raise NotFound("part with bytes", part, f"message {seq}")
    try:
        content = b64decode(data)
    except ValueError as error:
        raise NotFound("part with bytes", part, f"message {seq}") from error
    name = parts[part].get("name")
    title = name if isinstance(name, str) else f"{session.name}-{seq}-{part}"
    return OpenBytes(title, len(content), f"{message.uid}-{part}", io.BytesIO(content))


def send_context(
    session: Session,
    budget_tokens: int | None = None,
    query: str | None = None,
    shape: MessageFormat = "openai",
) -> dict[str, Any]:
    """
    Return a context as the keyword arguments of a model's client.

    Args:
        budget_tokens: The largest number of tokens, by the file's counter. None means
            `Settings.window_tokens`.
        query: The question for the model. With None, no older messages are recalled.
        shape: The client.
    """
    return session.context(budget_tokens, query, count_use=False).to(shape)


def make_branch(session: Session, name: str, after_seq: int | None = None) -> BranchInfo:
    """
    Create a branch of the session, and return it.

    Args:
        name: Unique in the session.
        after_seq: The last seq that it shares, 0 if there is none; None means all there is.
    """
    session.branch(name, after_seq, create=True)
    return next(one for one in session.branches() if one.name == name)


def fork_session(
    session: Session, name: str, *, before_seq: int | None = None
) -> SessionHead | None:
    """
    Copy the session to a new one called *name*, and return that.

    Args:
        before_seq: Copy only messages before this seq; None means all.
    """
    return session.fork(name, before_seq=before_seq).head()


def find_artifact(
    artifacts: Artifacts, name: str, version: int | None = None
) -> ArtifactVersion | None:
    """
    Return the description of a version, without its bytes.

    Args:
        version: The number of a version. None means the newest.
    """
    found = artifacts.versions(name)
    return next((one for one in found if version in (None, one.version)), None)


def open_artifact(artifacts: Artifacts, name: str, version: int | None = None) -> OpenBytes:
    """
    Return the bytes of a version: as an image if it is one, else as octets to download.

    Args:
        version: The number of a version; None: the newest.
    """
    info = find_artifact(artifacts, name, version)
    if info is None:
        raise NotFound("artifact", name)
    data = artifacts.open(name, info.version)
    return OpenBytes(name, info.size_bytes, f"{info.uid}-{info.version}", data)


def save_artifact(
    artifacts: Artifacts,
    name: str,
    *,
    text: str | None = None,
    data: bytes | None = None,
    mime: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    message_seq: int | None = None,
    expected: int | ArtifactVersion | None = None,
    keep_last: int | None = None,
) -> ArtifactVersion:
    """
    Save the next version of *name*.

    Args:
        text: The content, stored as UTF-8; or give *data*.
        data: The bytes, in base64.
        mime: Media type; None means that it is guessed from the name.
        metadata: A JSON object for this version.
        message_seq: Number of the message that made this version, in its session.
        keep_last: Number of versions to keep, including this one. None means all.
    """
    content = text if data is None else data
    if content is None or (text is not None and data is not None):
        raise InvalidInput("give either text or data")
    return artifacts.save(
        name,
        content,
        mime=mime,
        metadata=metadata,
        message_seq=message_seq,
        expected=expected,
        keep_last=keep_last,
    )


def owner_of(db: MemDB, kind: str, given: dict[str, Any]) -> Any:
    """
    Return the object on which a row's function is called, by the name of its class.

    Takes *user*, *app*, *session* and *branch* out of *given*.

    Raises:
        InvalidInput: a name cannot be one.
        NotFound: there is no such branch.
    """
    if kind in ("MemDB", "File", "Jobs", "StoredSettings", "Folder"):
        whole = {"File": "file", "Jobs": "jobs", "StoredSettings": "settings"}
        return getattr(db, whole[kind]) if kind in whole else db
    user, app = given.pop("user"), given.pop("app", "default")
    scope = db.shared(app) if user == "" else db.scope(user, app)
    if kind in ("Scope", "Entries", "Items"):
        return scope if kind == "Scope" else getattr(scope, kind.lower())
    name, branch = given.pop("session", None), given.pop("branch", None)
    if kind in ("Artifacts", "State") and name is None:
        return getattr(scope, kind.lower())
    session = scope.session(name)
    if branch is not None:
        session = session.branch(branch, create=False)
    return session if kind == "Session" else getattr(session, kind.lower())
