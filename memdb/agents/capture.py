"""
Capture transcripts: read their new lines and store the messages.

Each line is read once. An item stores how far a transcript was read, and changes in the transaction
that stores the messages. The id of a message is computed from its line, so two hooks at once store
it once. Keys and passwords are redacted.
"""

from __future__ import annotations

import hashlib
import io
import os
import time
from collections import Counter
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from memdb.adapters.host import Host
from memdb.errors import FileError
from memdb.formats.transcripts import (
    MAX_LINE_BYTES,
    SUBAGENTS,
    Head,
    Prompts,
    document_lines,
    line_reader,
    parse_object,
    read_head,
    repeats,
    session_of,
    spoken,
    with_ids,
)
from memdb.models.record import Record
from memdb.text.secrets import redact_secrets
from memdb.text.validate import MAX_NAME_CHARS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb import MemDB, Scope
    from memdb.api.items import Items
    from memdb.api.session import Session
    from memdb.formats.transcripts import Line
    from memdb.models.messages import Message, NewMessage
    from memdb.models.reports import SessionHead

# The scope whose items say how far each transcript is read.
POSITIONS_APP = "memdb agents"
POSITIONS = ("transcripts",)

BATCH_LINES = 500
BATCH_BYTES = 1 << 20
HEAD_BYTES = 256
RECENT = 40  # messages in which an echo of an earlier batch is looked up


class Captured(Record):
    """
    Result of the capture of one transcript.

    Attributes:
        app, session: Where it is stored; "" if the transcript has no session.
        added: Messages that were stored.
        left_out: Number of lines that were not stored, by reason.
        is_done: Whether the whole transcript was read.
    """

    path: str
    app: str
    session: str
    added: int
    left_out: dict[str, int]
    is_done: bool


class Position(Record):
    """
    Position up to which a transcript was read.

    Attributes:
        offset: Number of bytes that were read.
        head: Digest of the first line, which shows if another file takes the path.
        title_rank: How strong the title of its session is.
        id: As `Head.id`.
        sources: Sessions that have its first line too: lines copied from them stay there.
        prompts: The newest of `Prompts`.
    """

    offset: int
    head: str
    format: str
    session: str
    app: str
    title_rank: int
    id: str | None = None
    sources: tuple[str, ...] = ()
    prompts: tuple[tuple[str, str], ...] = ()


def capture(
    db: MemDB,
    path: str | os.PathLike[str],
    *,
    user: str,
    app: str | None = None,
    session: str | None = None,
    deadline: float | None = None,
    is_whole: bool = False,
) -> Captured:
    """
    Store the new lines of a transcript.

    Args:
        user: The user that it belongs to.
        app: The project; None means that of the working directory in the transcript.
        session: Its name; None means the id in the transcript.
        deadline: Time to stop, by `time.monotonic`. The rest is read the next time.
        is_whole: No program writes to it any more, so its last line is complete.

    Raises:
        FileError: the transcript cannot be read.
        InvalidInput: the file is a transcript of no program that is known.
    """
    place = Path(path)
    positions = db.scope(user, POSITIONS_APP).items
    key = _key_of(place)
    try:
        with place.open("rb") as opened:
            # Gemini CLI before 2026 rewrites a document as a whole.
            file = _as_lines(opened) if place.suffix == ".json" else opened
            head = hashlib.sha256(file.readline(HEAD_BYTES)).hexdigest()[:16]
            size = file.seek(0, os.SEEK_END)
            kept = positions.find(POSITIONS, key)
            position = _opened(kept.value if kept else None, head, size)
            if position is None:
                found = _begin(file, place, app, session, head)
                if found is None:
                    return Captured(str(path), "", "", 0, {"no session in it": 1}, is_done=True)
                position = found
            worker = _Capture(db, db.scope(user, position.app), positions, key, position)
            return worker.run(file, str(path), deadline, is_whole=is_whole)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror or error}", str(path)) from error


def forget_position(db: MemDB, user: str, path: Path) -> None:
    """Forget how far a transcript is read, so that all of it is read again."""
    db.scope(user, POSITIONS_APP).items.delete(POSITIONS, _key_of(path))


def subagents_of(path: Path) -> list[Path]:
    """Return the transcripts of the sub-agents of a session of Claude Code."""
    folder = path.with_suffix("") / SUBAGENTS
    return sorted(one for one in folder.rglob("agent-*.jsonl") if one.is_file())


class _Capture:
    """Reads one transcript from where its position says, and stores it in batches."""

    def __init__(
        self, db: MemDB, scope: Scope, positions: Items, key: str, position: Position
    ) -> None:
        self._db = db
        self._scope = scope
        self._chat = scope.session(position.session)
        self._positions = positions
        self._key = key
        self._position = position
        self._read = line_reader(position.format)
        self._left_out: Counter[str] = Counter()
        self._added = 0
        self._has_looked = False  # for the sessions that this one copies
        self._prompts = Prompts(position.prompts)

    def run(
        self, file: IO[bytes], path: str, deadline: float | None, *, is_whole: bool
    ) -> Captured:
        """Store one batch after the other until the end of the transcript, or the deadline."""
        is_done = False
        while not is_done and (deadline is None or time.monotonic() < deadline):
            file.seek(self._position.offset)
            taken_back = None
            found: list[tuple[int, Line, list[NewMessage]]] = []
            begun = offset = self._position.offset
            title = (self._position.title_rank, "")
            is_done = True
            for at, end, raw in _lines(file):
                line = self._line(raw)
                if line is not None and (again := self._prompts.taken_back(line)):
                    if found:  # what is taken back is stored first
                        is_done = False
                        break
                    taken_back = again
                offset = end
                if line is not None:
                    self._prompts.note(line)
                    found.append((at, line, with_ids(line.messages, at, raw)))
                    title = max(title, line.title, key=lambda one: one[0])
                is_full = len(found) >= BATCH_LINES or offset - begun >= BATCH_BYTES
                if is_full and not (line and line.is_echo):
                    is_done = False
                    break
            if is_done and found and found[-1][1].is_echo and found[-1][2] and not is_whole:
                offset, *_ = found.pop()  # the line that says it for certain may follow
            if offset > self._position.offset:
                self._store(self._sorted(found), title, offset, taken_back)
        left_out = dict(self._left_out)
        app, session = self._position.app, self._chat.name
        return Captured(path, app, session, self._added, left_out, is_done=is_done)

    def _line(self, raw: bytes) -> Line | None:
        """Return a line; count it if nothing of it is stored."""
        value = parse_object(raw)
        if value is None:
            reason = "not a JSON object" if raw else f"over {MAX_LINE_BYTES >> 20} MiB"
            self._left_out[reason] += bool(raw.strip()) or not raw
            return None
        line = self._read(value)
        if not line.messages:
            self._left_out[f"without words: {line.kind}"] += 1
        return line

    def _sorted(
        self, found: list[tuple[int, Line, list[NewMessage]]]
    ) -> list[tuple[Session, list[NewMessage]]]:
        """Return the messages of lines by session, without echoes and copies."""
        said = ""
        if any(line.is_echo for _, line, _ in found):
            before = [one.text for one in self._chat.last(RECENT) if one.role != "tool"]
            said = "\n".join([*before, spoken(line for _, line, _ in found)])
        head = Head(self._position.format, self._chat.name, "", self._position.id)
        chats: dict[str, tuple[Session, list[NewMessage]]] = {}
        for _, line, messages in found:
            if repeats(line, said):
                self._left_out[f"said by others: {line.kind}"] += bool(messages)
            elif not self._is_copy(messages):
                name = session_of(head, line)
                chats.setdefault(name, (self._scope.session(name), []))[1].extend(messages)
        return [*chats.values()]

    def _is_copy(self, messages: list[NewMessage]) -> bool:
        """
        Return whether a session already has a line, because it was copied from there.
        """
        id_ = messages[0].external_id if messages else None
        if self._position.id is None or id_ is None:
            return False
        names = self._position.sources
        if not self._position.offset and not self._has_looked:
            self._has_looked = True
            others = (one.name for one in self._scope.sessions() if one.name != self._chat.name)
            names = tuple(one for one in others if self._scope.session(one).find(id_) is not None)
        elif names:
            names = tuple(one for one in names if self._scope.session(one).find(id_) is not None)
        self._position = self._position.replace(sources=names)
        return bool(names)

    def _store(
        self,
        chats: list[tuple[Session, list[NewMessage]]],
        title: tuple[int, str],
        offset: int,
        taken_back: str | None,
    ) -> None:
        """Store a batch, and that it is read, after a branch got what was *taken_back*."""
        stores = [
            (chat, Host(chat).prepare(messages, secrets="redact", keep=True))
            for chat, messages in chats
        ]
        position = self._position.replace(offset=offset, prompts=self._prompts.newest())
        with self._db.transaction():
            heads = {chat: chat.head() for chat, _ in stores}
            self._branch_off(taken_back)
            stored = {chat: store() for chat, store in stores}
            fresh = {chat: _new(stored[chat], heads[chat]) for chat in heads}
            if title[1] and self._chat.last_seq:
                position = position.replace(title_rank=title[0])
                self._chat.update(title=redact_secrets(title[1]))
            for chat, head in heads.items():
                if (times := fresh[chat]) or (taken_back and head):  # it may be of another year
                    known = [head.updated_ms] if head else []
                    created = None if head else min(times)
                    Host(chat).date(created=created, updated=max(known + times))
            self._positions.put(POSITIONS, self._key, position.to_dict(), index=False)
        self._position = position
        self._added += sum(map(len, fresh.values()))
        away = sum(len(said) - len(stored[chat]) for chat, said in chats)
        if away:
            self._left_out["forgotten before"] += away

    def _branch_off(self, prompt: str | None) -> None:
        """Leave what was said from a prompt on to a branch alone, which is called as it."""
        first = self._chat.find(prompt) if prompt else None
        if prompt and first is not None:
            self._chat.branch(prompt)
            self._chat.replace([one.seq for one in self._chat.messages(after=first.seq - 1)])


def _new(stored: list[Message], head: SessionHead | None) -> list[int]:
    """Return the times of the messages that were added behind *head*."""
    last = head.last_seq if head else 0
    return [*{one.seq: one.created_ms for one in stored if one.seq > last}.values()]


def _key_of(path: Path) -> str:
    """Return the key of a transcript's position: its path, or a digest of a longer one."""
    name = os.fsencode(os.path.realpath(path)).decode("utf-8", "replace")
    return name if len(name) <= MAX_NAME_CHARS else hashlib.sha256(name.encode()).hexdigest()


def _opened(value: Any, head: str, size: int) -> Position | None:
    """Return the position of a transcript; None if it is new, or another file."""
    try:
        position = Position(**value)
    except TypeError:
        return None
    return position if position.head == head and position.offset <= size else None


def _begin(
    file: IO[bytes], path: Path, app: str | None, session: str | None, head: str
) -> Position | None:
    """Return the position of an unread transcript; None if it names no session."""
    file.seek(0)
    found = read_head((raw for _, _, raw in _lines(file)), path, session, app)
    if found is None:
        return None
    return Position(0, head, found.format, found.session, found.app, -1, found.id)


def _lines(file: IO[bytes]) -> Iterator[tuple[int, int, bytes]]:
    """
    Yield the whole lines from here on: where each begins and ends, and its bytes.

    The last one is left for the next time if it still grows. A line that is too long is b"".
    """
    at = file.tell()
    while raw := file.readline(MAX_LINE_BYTES):
        end, is_long = at + len(raw), False
        while not raw.endswith(b"\n"):
            raw, is_long = file.readline(MAX_LINE_BYTES), True
            if not raw:
                return
            end += len(raw)
        yield at, end, b"" if is_long else raw
        at = end


def _as_lines(file: IO[bytes]) -> IO[bytes]:
    """Return a chat that is one JSON document as lines."""
    return io.BytesIO(document_lines(file.read(MAX_LINE_BYTES)))
