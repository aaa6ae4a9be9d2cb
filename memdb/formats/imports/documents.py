"""
Exports of memdb for people that come in again: its CSV, which `csv` claims, and its Markdown.

Both hold conversations and entries as they are now. What they show besides, and what does not
hold any more, is left out with the reason: JSON lines bring all of it back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

from memdb.errors import InvalidInput
from memdb.formats.documents import (
    APP,
    KEY,
    KEYWORD_MARK,
    KEYWORDS,
    OLD,
    SECTIONS,
    SEPARATOR,
    TITLE,
    TRUSTED,
    UNTIL,
    unmarked,
    unquoted,
)
from memdb.formats.imports.base import MISSHAPEN, Format, groups, read_text, refused
from memdb.models.record import Record
from memdb.transfer.entries import derived_uid
from memdb.transfer.lines import REFUSALS, Item, left_out, utc_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree
    from memdb.transfer.lines import Group

PATTERNS = ("*.md", "*.markdown")
WHY = "only JSON lines (memdb export FILE x.jsonl) bring them back"
HEAD_BYTES = 4096
TALKS = (SECTIONS["session"], SECTIONS["branch"])

_LABEL = re.compile(r"\*\*(.*)\*\*(?: <!-- (\S+)(?: (\S+))? -->)?")


class Said(Record):
    """
    A message of such an export.

    Attributes:
        seq, uid: Those that it had; None of either makes it a new one.
    """

    session: str
    title: str | None
    seq: int | None
    uid: str | None
    fields: dict[str, Any]


def conversations(
    found: Iterable[tuple[str, Any]], read: Callable[[str, Any], Said]
) -> Iterator[Group]:
    """
    Yield a group for each session, and one for each message.

    Args:
        found: Place and record of each message.
        read: Makes a message of a record; an error means that it is broken.
    """
    sessions: dict[str, list[tuple[str, Said]]] = {}
    for place, record in found:
        try:
            said = read(place, record)
        except (*REFUSALS, *MISSHAPEN) as error:
            yield refused(place, error)
        else:
            sessions.setdefault(said.session, []).append((place, said))
    for name, talk in sessions.items():
        yield from groups([(talk[0][0], (name, [said for _, said in talk]))], _session)
        yield from groups(talk, _message)


def _session(place: str, session: tuple[str, list[Said]]) -> Iterator[Item]:
    name, said = session
    title = next((one.title for one in said if one.title), None)
    fields: dict[str, Any] = {"name": name, "title": title}
    if all(one.seq and one.uid for one in said):
        times = [one.fields["created_ms"] for one in said]
        fields["last_seq"] = max(one.seq or 0 for one in said)
        fields |= {"created_ms": min(times), "updated_ms": max(times)}
        fields["uid"] = derived_uid({"name": name}, min(times))
    yield Item(place, "session", fields)


def _message(place: str, one: Said) -> Iterator[Item]:
    same = {"seq": one.seq, "uid": one.uid} if one.seq and one.uid else {}
    yield Item(place, "message", {"session": one.session, **one.fields, **same})


def entry(place: str, fields: dict[str, Any], state: str) -> Iterator[Item]:
    """Yield an entry that still holds; one that does not is left out."""
    if state == OLD:
        yield left_out(place, "entries", f"they hold no longer; {WHY}")
    else:
        yield Item(place, "entry", fields)


def _claim(tree: Tree) -> list[str]:
    """Claim a file that begins as such an export does."""
    if not tree.is_alone or not tree.named(*PATTERNS):
        return []
    name = tree.names[0]
    with tree.open(name) as source:
        head = source.read(HEAD_BYTES).decode("utf-8-sig", "replace").replace("\r\n", "\n")
    lines = head.split("\n")
    is_own = lines[0].startswith(TITLE) and any(one.startswith(APP) for one in lines[2:3])
    return [name] if is_own else []


def _read(request: Request) -> Read:
    name = request.names[0]
    lines = read_text(request.tree, name).replace("\r\n", "\n").split("\n")
    scopes = [number for number, line in enumerate(lines) if line.startswith(TITLE)]
    refuse_several(request.tree.shown(name), [unmarked(lines[one][len(TITLE) :]) for one in scopes])
    blocks = [*_blocks(lines)]
    placed = [(f"line {one.number}", one) for one in blocks]
    yield from conversations((one for one in placed if one[1].section in TALKS), _said)
    yield from groups((one for one in placed if one[1].section == SECTIONS["entry"]), _entry)
    others = [one.section for one in blocks if one.section not in (*TALKS, SECTIONS["entry"])]
    for section in dict.fromkeys(others):
        yield left_out(name, section.lower(), WHY, others.count(section))


def refuse_several(shown: str, users: list[str]) -> None:
    """Refuse an export that holds the memory of several users: they would become one."""
    if len(users) > 1:
        raise InvalidInput(
            f"{shown} holds the memory of {len(users)} users ({', '.join(users)}), which would be "
            "mixed: export each by itself with --user, or all of them as JSON lines"
        )


class _Block(Record):
    """A record of the file: where it is, what stands above it, and its lines."""

    number: int
    section: str
    title: str
    session: str
    label: str
    ids: tuple[str | None, str | None]
    text: str

    @property
    def parts(self) -> list[str]:
        """Return the parts of the label."""
        return [unmarked(part) for part in self.label.split(SEPARATOR)]


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """Yield the records of a file."""
    section = title = session = ""
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("## "):
            section = line.removeprefix("## ").strip()
        elif line.startswith("### "):
            title = unmarked(line.removeprefix("### ").strip())
            about = next((one for one in lines[number:] if one), "")
            session = _name(about)
        elif label := _LABEL.fullmatch(line.rstrip()):
            begun = number
            while number < len(lines) and not lines[number]:
                number += 1
            first = number
            while number < len(lines) and lines[number].startswith(">"):
                number += 1
            ids = label[2], label[3]
            text = unquoted(lines[first:number])
            yield _Block(begun, section, title, session, label[1], ids, text)


def _name(about: str) -> str:
    """Return the name of a session that the line below its heading has."""
    shown, mark, exact = about.removesuffix(" -->").partition(" <!-- ")
    return unquote(exact) if mark else unmarked(shown.rpartition(SEPARATOR)[0])


def _said(_place: str, one: _Block) -> Said:
    """Return the message of a record."""
    seq, role, *author, time = one.parts
    uid, external_id = (None if given is None else unquote(given) for given in one.ids)
    fields = {"role": role, "text": one.text, "created_ms": moment(time)}
    fields["author"] = SEPARATOR.join(author) or None
    if external_id or not uid:
        fields["external_id"] = external_id or seq
    return Said(
        one.session,
        None if one.title == one.session else one.title,
        int(seq.removeprefix("#")) if uid else None,
        uid,
        fields,
    )


def _entry(place: str, one: _Block) -> Iterator[Item]:
    category, *about, time = one.parts
    fields: dict[str, Any] = {
        "category": category,
        "text": one.text,
        "created_ms": moment(time),
        "keywords": [],
    }
    for part in about:
        if part.startswith(KEY):
            fields["key"] = part.removeprefix(KEY)
        elif part.startswith(KEYWORDS):
            fields["keywords"] = part.removeprefix(KEYWORDS).split(KEYWORD_MARK)
        elif part.startswith(TRUSTED):
            fields["trust"] = part.removeprefix(TRUSTED)
        elif part.startswith(UNTIL):
            fields["expires_ms"] = moment(part.removeprefix(UNTIL))
    yield from entry(place, fields, OLD if OLD in about else "")


def moment(text: str) -> int:
    """Return a time of such an export in milliseconds."""
    found = utc_time(text.replace(" ", "T"), "time")
    return 0 if found is None else found


FORMATS = {"memdb-markdown": Format("memdb-markdown", "a Markdown export of memdb", _claim, _read)}
