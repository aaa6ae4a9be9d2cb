"""
Read and write data sets of `memdb bench`: messages, sessions, documents, questions.

docs/evaluation.md describes the format, JSON lines. The whole data set is checked
before a database is created; a split that contains only evidence is refused.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from memdb.errors import FileError, InvalidInput, MemDBError
from memdb.models.record import Record
from memdb.text.validate import MAX_MS, MIN_MS, int_value, name_value, refuse_output, text_value

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator

TURN_MS = 60_000
# The category of a question that names none: there is evidence, or nothing answers it.
ALL, NOTHING = "all", "unanswerable"
ROLES = ("user", "assistant", "system", "tool")


class DatasetMessage(Record):
    """One message of a session; *id* is unique in its scope."""

    id: str
    role: str
    author: str | None
    text: str
    created_ms: int | None


class Document(Record):
    """One text that stands alone; it is measured as a long-term entry."""

    id: str
    text: str


class Question(Record):
    """
    One question with the ids that answer it.

    Attributes:
        id: Unique in the data set.
        evidence: Ids of the messages or documents that contain the answer.
        sessions: Names of the sessions that contain it.
        asked_ms: Time when it is asked, UTC milliseconds; None means after the last message of the
            scope.
    """

    id: str
    scope: str
    text: str
    category: str
    evidence: frozenset[str]
    sessions: frozenset[str]
    asked_ms: int | None


class Dataset(Record):
    """
    A checked data set.

    Attributes:
        digest: SHA-256 of the file's bytes.
        sessions: Messages by scope and session, as they are to be stored.
        documents: By scope.
        unanswerable: Questions that name no evidence: nothing answers them.
    """

    name: str
    digest: str
    sessions: dict[str, dict[str, list[DatasetMessage]]]
    documents: dict[str, list[Document]]
    questions: list[Question]
    unanswerable: list[Question]

    @property
    def counts(self) -> dict[str, int]:
        """The number of scopes, sessions, messages, documents and questions."""
        talks = [talk for scope in self.sessions.values() for talk in scope.values()]
        return {
            "scopes": len(self.sessions.keys() | self.documents.keys()),
            "sessions": len(talks),
            "messages": sum(map(len, talks)),
            "documents": sum(map(len, self.documents.values())),
            "questions": len(self.questions),
            "without evidence": len(self.unanswerable),
        }


class _Reader:
    """Collects the lines of one file."""

    def __init__(self) -> None:
        self.sessions: dict[str, dict[str, list[DatasetMessage]]] = {}
        self.documents: dict[str, list[Document]] = {}
        self.asked: list[tuple[int, dict[str, Any]]] = []
        self.starts: dict[tuple[str, str], int] = {}
        self.homes: dict[str, dict[str, str | None]] = {}

    def message(self, line: dict[str, Any]) -> None:
        scope, session = _name(line, "scope"), _name(line, "session")
        role = line.get("role", "user")
        if role not in ROLES:
            raise InvalidInput(f"role is {role!r}: use {', '.join(ROLES)}")
        author = line.get("author")
        message = DatasetMessage(
            self._new_id(scope, _name(line, "id"), session),
            role,
            None if author is None else name_value(author, "author"),
            text_value(line.get("text"), "text"),
            _moment(line, "created_ms"),
        )
        self.sessions.setdefault(scope, {}).setdefault(session, []).append(message)

    def session(self, line: dict[str, Any]) -> None:
        started = _moment(line, "created_ms")
        if started is None:
            raise InvalidInput("created_ms is missing: give the time when the session began")
        self.starts[_name(line, "scope"), _name(line, "session")] = started

    def document(self, line: dict[str, Any]) -> None:
        scope = _name(line, "scope")
        text = text_value(line.get("text"), "text")
        if not text.strip():
            raise InvalidInput("text is empty: leave the line out")
        found = Document(self._new_id(scope, _name(line, "id"), None), text)
        self.documents.setdefault(scope, []).append(found)

    def _new_id(self, scope: str, id_: str, home: str | None) -> str:
        known = self.homes.setdefault(scope, {})
        if id_ in known:
            raise InvalidInput(f"id {id_!r} occurs twice in scope {scope!r}: make it unique")
        known[id_] = home
        return id_

    def dated(self) -> dict[str, dict[str, list[DatasetMessage]]]:
        """Return the sessions, with times for messages if only the session has one."""
        return {
            scope: {
                name: [self._dated(one, scope, name, place) for place, one in enumerate(talk)]
                for name, talk in talks.items()
            }
            for scope, talks in self.sessions.items()
        }

    def _dated(self, message: DatasetMessage, scope: str, name: str, place: int) -> DatasetMessage:
        start = self.starts.get((scope, name))
        if message.created_ms is not None or start is None:
            return message
        return message.replace(created_ms=start + TURN_MS * place)

    def question(self, line: dict[str, Any], number: int) -> Question:
        """Return the question of *line*."""
        scope = _name(line, "scope")
        known = self.homes.get(scope)
        if known is None:
            raise InvalidInput(f"scope {scope!r} has no message and no document")
        evidence = _names(line, "evidence")
        for one in evidence:
            if one not in known:
                raise InvalidInput(f"evidence {one!r} is not an id in scope {scope!r}")
        sessions = _names(line, "sessions") or [
            home for home in (known[one] for one in evidence) if home is not None
        ]
        for name in sessions:
            if name not in self.sessions.get(scope, {}):
                raise InvalidInput(f"sessions contains {name!r}, which is not in scope {scope!r}")
        return Question(
            name_value(line.get("id", f"line {number}"), "id"),
            scope,
            text_value(line.get("text"), "text"),
            name_value(line.get("category", ALL if sessions else NOTHING), "category"),
            frozenset(evidence),
            frozenset(sessions),
            _moment(line, "asked_ms"),
        )


def read(path: str | os.PathLike[str]) -> Dataset:
    """
    Return the data set at *path*, checked.

    Raises:
        FileError: the file cannot be read.
        InvalidInput: a line is not as docs/evaluation.md says, no question has
            evidence, or it is an oracle split.
    """
    reader, digest = _Reader(), hashlib.sha256()
    kinds: dict[str, Callable[[dict[str, Any]], None]] = {
        "message": reader.message,
        "session": reader.session,
        "document": reader.document,
    }
    for number, line in read_lines(path, digest.update):
        _take(reader, kinds, line, number)
    questions, names = [], set()
    for number, line in reader.asked:
        with at_line(number):
            question = reader.question(line, number)
        if question.id in names:
            raise InvalidInput(f"line {number}: question id {question.id!r} occurs twice")
        names.add(question.id)
        questions.append(question)
    asked = [one for one in questions if one.evidence or one.sessions]
    if not asked:
        raise InvalidInput(f"{path} has no question with evidence, so there is nothing to measure")
    found = Dataset(
        str(path),
        digest.hexdigest(),
        reader.dated(),
        reader.documents,
        asked,
        [one for one in questions if one not in asked],
    )
    _refuse_oracle(found)
    return found


def read_lines(
    path: str | os.PathLike[str], seen: Callable[[bytes], object]
) -> Iterator[tuple[int, dict[str, Any]]]:
    """
    Yield the number and the object of each line of JSON that is not blank.

    Args:
        seen: Called with the bytes of every line.

    Raises:
        FileError: the file cannot be read.
        InvalidInput: a line is not a JSON object.
    """
    try:
        with open(path, "rb") as file:
            for number, raw in enumerate(file, start=1):
                seen(raw)
                if raw.strip():
                    yield number, _object(raw, number)
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error


def _object(raw: bytes, number: int) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"line {number} is not JSON: {error}") from error
    if not isinstance(line, dict):
        raise InvalidInput(f"line {number} is {type(line).__name__}: give a JSON object")
    return line


def _take(
    reader: _Reader,
    kinds: dict[str, Callable[[dict[str, Any]], None]],
    line: dict[str, Any],
    number: int,
) -> None:
    kind = line.get("type")
    if kind == "question":
        reader.asked.append((number, line))  # its evidence may stand further down
    elif kind in kinds:
        with at_line(number):
            kinds[kind](line)
    else:
        raise InvalidInput(
            f"line {number}: type is {kind!r}: use message, session, document or question"
        )


@contextmanager
def at_line(number: int, file: str = "") -> Iterator[None]:
    """Add the line number, and the name of the *file* if given, to an error raised inside."""
    try:
        yield
    except MemDBError as error:
        raise InvalidInput(f"{file} line {number}: {error}".lstrip()) from error


def _refuse_oracle(found: Dataset) -> None:
    """
    Refuse a split that contains only evidence.

    Raises:
        InvalidInput: for most questions every session, or document, of the
            scope is evidence, so that any answer is right.
    """
    oracle = 0
    for question in found.questions:
        if question.sessions:
            oracle += question.sessions >= found.sessions[question.scope].keys()
        else:
            oracle += question.evidence >= {one.id for one in found.documents[question.scope]}
    if 2 * oracle > len(found.questions):
        raise InvalidInput(
            f"{found.name} is an oracle split: for {oracle} of {len(found.questions)} questions "
            "every session is evidence, so any answer is right. Use the split with the whole "
            "history"
        )


def _name(line: dict[str, Any], field: str) -> str:
    return name_value(line.get(field), field)


def _names(line: dict[str, Any], field: str) -> list[str]:
    values = line.get(field, [])
    if not isinstance(values, list):
        raise InvalidInput(f"{field} is {type(values).__name__}: give a list of texts")
    return [name_value(value, field) for value in values]


def _moment(line: dict[str, Any], field: str) -> int | None:
    value = line.get(field)
    return None if value is None else int_value(value, field, MIN_MS, MAX_MS)


def write(lines: Iterable[dict[str, Any]], path: str | os.PathLike[str]) -> int:
    """
    Write *lines* as a data set to *path*; return how many.

    Raises:
        FileError: *path* exists, or cannot be written.
    """
    count = 0
    refuse_output(path)
    try:
        with open(path, "x", encoding="utf-8", newline="\n") as file:
            for line in lines:
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                count += 1
    except OSError as error:
        raise FileError(f"{path}: {error.strerror}", str(path)) from error
    return count
