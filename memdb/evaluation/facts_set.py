"""
Read data sets of `memdb bench facts`: pairs, sequences, chats and traps.

docs/facts.md describes the format, JSON lines. What a line is can be seen by its fields.
The whole data set is checked before a database is created.
"""

from __future__ import annotations

import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdb.errors import InvalidInput
from memdb.evaluation.dataset import at_line, read_lines
from memdb.models.record import Record
from memdb.text.validate import (
    DAY_MS,
    choice_value,
    flag_value,
    int_value,
    list_value,
    name_value,
    text_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

REPEATS, NONE = "repeats", "none"
CHANGES = ("updates", "corrects", "retracts")
PAIR_KINDS = (REPEATS, *CHANGES, NONE)
MAX_DAYS = 10_000
MONTH = 30
_LANGUAGE = re.compile(r"[-.]([a-z]{2,3})\.\w+$")


class Case(Record):
    """
    Two statements of one person, and a question about them.

    Attributes:
        statements: As they are remembered, the older one first.
        said: The same in the middle of messages; () of a pair.
        days: Between the two.
        effect: What the second one does to the first one: "repeats", "changes" or "none".
        current: Words that only the right answer has, and *stale* those of the other
            one; "" means that the place of a statement decides.
    """

    id: str
    lang: str
    kind: str
    statements: tuple[str, str]
    said: tuple[str, ...]
    days: int
    question: str
    effect: str
    current: str = ""
    stale: str = ""


class Said(Record):
    """A message of a chat; *author* is None for the user and the assistant."""

    role: str
    text: str
    author: str | None
    created_ms: int


class Listed(Record):
    """A fact of a chat, or a text that is none, with the numbers of its messages from 1."""

    kind: str
    text: str
    seqs: frozenset[int]


class Chat(Record):
    """A conversation, with the facts that should be learnt and what must not be."""

    id: str
    lang: str
    messages: tuple[Said, ...]
    facts: tuple[Listed, ...]
    never: tuple[Listed, ...]


class Trap(Record):
    """A message that tells nothing about the user; *kind* says why."""

    id: str
    lang: str
    kind: str
    text: str


class FactSet(Record):
    """A checked data set; *digest* is the SHA-256 of its files."""

    name: str
    digest: str
    cases: tuple[Case, ...]
    chats: tuple[Chat, ...]
    traps: tuple[Trap, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many there are of each."""
        sequences = sum(bool(case.said) for case in self.cases)
        return {
            "pairs": len(self.cases) - sequences,
            "sequences": sequences,
            "chats": len(self.chats),
            "facts": sum(len(chat.facts) for chat in self.chats),
            "traps": len(self.traps),
        }


def read(paths: Sequence[str]) -> FactSet:
    """
    Return the data set in *paths*, files of JSON lines or folders of them, checked.

    Raises:
        FileError: one cannot be read.
        InvalidInput: a line is not as docs/facts.md says, or there is none.
    """
    digest = hashlib.sha256()
    cases: list[Case] = []
    chats: list[Chat] = []
    traps: list[Trap] = []
    files = [file for path in paths for file in _files(Path(path))]
    for file in files:
        known = _LANGUAGE.search(file.name)
        default = known[1] if known else "-"
        for number, line in read_lines(file, digest.update):
            id_ = f"{file.name}:{number}"
            with at_line(number, file.name):
                lang = name_value(line.get("lang", default), "lang")
                if "older" in line:
                    cases.append(_pair(line, id_, lang))
                elif "told" in line:
                    cases.append(_sequence(line, id_, lang))
                elif "messages" in line:
                    chats.append(_chat(line, id_, lang))
                elif "text" in line:
                    why = name_value(line.get("why"), "why")
                    traps.append(Trap(id_, lang, why, _text(line, "text")))
                else:
                    raise InvalidInput("older, told, messages or text is missing: give one of them")
    if not (cases or chats or traps):
        raise InvalidInput(f"{', '.join(paths)} has no lines, so there is nothing to measure")
    name = ", ".join(paths)
    return FactSet(name, digest.hexdigest(), tuple(cases), tuple(chats), tuple(traps))


def _files(path: Path) -> list[Path]:
    return sorted(path.glob("*.jsonl")) if path.is_dir() else [path]


def _pair(line: dict[str, Any], id_: str, lang: str) -> Case:
    kind = choice_value(line.get("kind"), "kind", PAIR_KINDS)
    return Case(
        id_,
        lang,
        kind,
        (_text(line, "older"), _text(line, "newer")),
        (),
        int_value(line.get("days", MONTH), "days", 0, MAX_DAYS),
        _text(line, "question_older"),
        "changes" if kind in CHANGES else kind,
    )


def _sequence(line: dict[str, Any], id_: str, lang: str) -> Case:
    lasting = flag_value(line.get("lasting", True), "lasting")
    statements, said = (_two(line, name) for name in ("told", "chat"))
    return Case(
        id_,
        lang,
        name_value(line.get("kind"), "kind"),
        statements,
        said,
        int_value(line.get("days", MONTH), "days", 0, MAX_DAYS),
        _text(line, "question"),
        "changes" if lasting else NONE,
        _text(line, "current").casefold(),
        _text(line, "stale").casefold(),
    )


def _chat(line: dict[str, Any], id_: str, lang: str) -> Chat:
    messages = []
    day_ms = 0
    for place, one in enumerate(_objects(line, "messages")):
        role = name_value(one.get("role"), "role")
        day_ms = _day_ms(one["day"]) if "day" in one else day_ms
        is_known = role in ("user", "assistant")
        messages.append(
            Said(
                role if is_known else "user",
                _text(one, "text"),
                None if is_known else role,
                day_ms + 60_000 * place,
            )
        )
    facts = [_listed(one, "fact", "category", messages) for one in _objects(line, "facts")]
    never = [_listed(one, "text", "why", messages) for one in _objects(line, "must_not")]
    return Chat(id_, lang, tuple(messages), tuple(facts), tuple(never))


def _listed(line: dict[str, Any], text: str, kind: str, messages: Sequence[Said]) -> Listed:
    seqs = [int_value(one, "seq", 1, len(messages)) for one in list_value(line.get("seq"), "seq")]
    return Listed(name_value(line.get(kind), kind), _text(line, text), frozenset(seqs))


def _day_ms(value: object) -> int:
    try:
        day = datetime.fromisoformat(str(value)).replace(tzinfo=UTC)
    except ValueError as error:
        raise InvalidInput(f"day is {value!r}: give one like 2026-03-02") from error
    return int(day.timestamp()) // (DAY_MS // 1000) * DAY_MS


def _text(line: dict[str, Any], field: str) -> str:
    text = text_value(line.get(field), field)
    if not text.strip():
        raise InvalidInput(f"{field} is empty: give a text")
    return text


def _two(line: dict[str, Any], field: str) -> tuple[str, str]:
    values = list_value(line.get(field), field)
    if len(values) != 2:  # noqa: PLR2004 (the older and the newer one)
        raise InvalidInput(f"{field} has {len(values)} texts: give two")
    first, second = (text_value(value, field) for value in values)
    return first, second


def _objects(line: dict[str, Any], field: str) -> list[dict[str, Any]]:
    values = list_value(line.get(field, []), field)
    if not all(isinstance(value, dict) for value in values):
        raise InvalidInput(f"{field} contains something other than objects: give objects")
    return values
