"""
Tables as CSV: a message per row, by the names of its columns.

The separator is a comma, a semicolon or a tab, whichever the header has most of.
"""

from __future__ import annotations

import csv
import io
from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.documents import COLUMNS as OWN_COLUMNS
from memdb.formats.documents import KEYWORD_MARK, OLD, unguarded
from memdb.formats.imports.base import MISSHAPEN, Format, groups, read_bytes, refused
from memdb.formats.source import BOM, MAX_ELEMENT_BYTES
from memdb.models.messages import ROLES, role_of
from memdb.models.record import Record
from memdb.transfer.entries import derived_uid
from memdb.transfer.lines import REFUSALS, Item, any_time, left_out

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree
    from memdb.transfer.lines import Group

WHY = "only JSON lines (memdb export FILE x.jsonl) bring them back"
PATTERNS = ("*.csv", "*.tsv")
SEPARATORS = (",", ";", "\t")

# What columns are called, the usual name first; case, spaces and _ make no difference.
COLUMNS = {
    "text": ("text", "content", "message", "body", "prompt"),
    "role": ("role", "sender", "speaker", "from"),
    "author": ("author", "name", "user"),
    "created_ms": ("created", "createdat", "time", "timestamp", "date", "datetime", "createdms"),
    "session": ("session", "conversation", "conversationid", "thread", "chat", "channel"),
    "external_id": ("id", "messageid", "externalid", "uuid"),
}


def _claim(tree: Tree) -> list[str]:
    """Claim files that are called as tables are."""
    return tree.named(*PATTERNS)


def _read(request: Request) -> Read:
    for name in request.names:
        try:
            header, rows = _parse(request.tree, name)
            columns = _columns(request.tree.shown(name), header)
        except InvalidInput as error:
            if len(request.names) == 1:
                raise
            yield refused(name, error)
            continue
        session = request.session or name.rpartition("/")[2].rpartition(".")[0]
        found = (
            (request.tree.place(name, f"row {number} (line {line})"), (number, row))
            for number, (line, row) in enumerate(rows, start=1)
        )
        if tuple(header) == OWN_COLUMNS:
            yield from _own(name, request.tree.shown(name), found)
            continue
        yield from groups(found, partial(_item, header, columns, session))
        others = [one for one in header if one not in columns.values() and one.strip()]
        if others:
            why = f"they are no fields of a message: {', '.join(others)}"
            yield left_out(name, "columns", why, len(others))


def _parse(tree: Tree, name: str) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """Return the header and the other rows of a table, each with the line it begins in."""
    text = read_bytes(tree, name).removeprefix(BOM).decode(errors="surrogateescape")
    first = text.partition("\n")[0]
    separator = max(SEPARATORS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    found: list[tuple[int, list[str]]] = []
    before = csv.field_size_limit(MAX_ELEMENT_BYTES)
    begun = 1
    try:
        for row in rows:
            if row:
                found.append((begun, row))
            begun = rows.line_num + 1
    except csv.Error as error:
        place = f"{tree.shown(name)}: row {max(len(found), 0)} (line {begun})"
        if "end of data" in str(error):
            raise InvalidInput(
                f"{place}: a quote is not closed, so the rest of the file would be one cell"
            ) from error
        raise InvalidInput(
            f"{place} is not CSV ({error}): double each quote inside a cell"
        ) from error
    finally:
        csv.field_size_limit(before)
    if not found:
        raise InvalidInput(
            f"{tree.shown(name)} is empty: it needs a first row with the names of columns"
        )
    return found[0][1], found[1:]


def _columns(shown: str, header: list[str]) -> dict[str, str]:
    """Return the column for each field of a message that has one."""
    plain: dict[str, str] = {}
    for one in header:
        name = "".join(char for char in one.lower() if char.isalnum())
        if name in plain:
            raise InvalidInput(f"{shown} has two columns {one!r}: rename or remove one")
        if name:
            plain[name] = one
    chosen = {
        field: next((plain[name] for name in names if name in plain), None)
        for field, names in COLUMNS.items()
    }
    columns = {field: column for field, column in chosen.items() if column is not None}
    if "text" not in columns:
        raise InvalidInput(
            f"{shown} has no column with the text of messages: rename one to 'text'; "
            f"it has {', '.join(map(repr, filter(None, header))) or 'none'}"
        )
    return columns


def _item(
    header: list[str],
    columns: dict[str, str],
    session: str,
    place: str,
    numbered: tuple[int, list[str]],
) -> Iterator[Item]:
    """Yield the message of a row."""
    number, cells = numbered
    if len(cells) > len(header):
        raise InvalidInput(
            f"the row has {len(cells)} cells, but the header has {len(header)}: put quotes around "
            "a text that contains a separator"
        )
    if not all(_is_text(cell) for cell in cells):
        raise InvalidInput("the row is not UTF-8: convert the file")
    row = dict(zip(header, cells, strict=False))
    values = {field: row.get(column, "").strip() for field, column in columns.items()}
    if not values["text"]:
        yield left_out(place, "rows", "they have no text")
        return
    role = role_of(values.get("role", "user").lower() or "user")
    fields: dict[str, Any] = {
        "session": values.get("session") or session,
        "role": role if role in ROLES else "user",
        "text": values["text"],
        "external_id": values.get("external_id") or f"row-{number}",
    }
    author = values.get("author") or (values.get("role") if role not in ROLES else None)
    if author:
        fields["author"] = author
    if values.get("created_ms"):
        fields["created_ms"] = _time(values["created_ms"])
    yield Item(place, "message", fields)


def _own(name: str, shown: str, found: Iterator[tuple[str, tuple[int, list[str]]]]) -> Read:
    """Yield what the rows of `memdb export` bring back."""
    rows = [
        (place, dict(zip(OWN_COLUMNS, map(unguarded, cells), strict=False)))
        for place, (_, cells) in found
    ]
    owners = {(row.get("app"), row.get("user", "")) for _, row in rows}
    _refuse_several(shown, sorted(user for _, user in owners))
    yield from _conversations(one for one in rows if one[1]["kind"] == "message")
    yield from groups((one for one in rows if one[1]["kind"] == "entry"), _own_entry)
    others = [row["kind"] for _, row in rows if row["kind"] not in ("message", "entry")]
    for kind in dict.fromkeys(others):
        yield left_out(name, f"rows of kind {kind}", WHY, others.count(kind))


class _Said(Record):
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


def _conversations(found: Iterable[tuple[str, dict[str, str]]]) -> Iterator[Group]:
    """Yield a group for each session in rows of messages, and one for each message."""
    sessions: dict[str, list[tuple[str, _Said]]] = {}
    for place, row in found:
        try:
            said = _said(row)
        except (*REFUSALS, *MISSHAPEN) as error:
            yield refused(place, error)
        else:
            sessions.setdefault(said.session, []).append((place, said))
    for name, talk in sessions.items():
        yield from groups([(talk[0][0], (name, [said for _, said in talk]))], _session)
        yield from groups(talk, _message)


def _session(place: str, session: tuple[str, list[_Said]]) -> Iterator[Item]:
    name, said = session
    title = next((one.title for one in said if one.title), None)
    fields: dict[str, Any] = {"name": name, "title": title}
    if all(one.seq and one.uid for one in said):
        times = [one.fields["created_ms"] for one in said]
        fields["last_seq"] = max(one.seq or 0 for one in said)
        fields |= {"created_ms": min(times), "updated_ms": max(times)}
        fields["uid"] = derived_uid({"name": name}, min(times))
    yield Item(place, "session", fields)


def _message(place: str, one: _Said) -> Iterator[Item]:
    same = {"seq": one.seq, "uid": one.uid} if one.seq and one.uid else {}
    yield Item(place, "message", {"session": one.session, **one.fields, **same})


def _said(row: dict[str, str]) -> _Said:
    """Return the message of a row."""
    names = {"role": "role", "author": "author", "external_id": "id"}
    fields: dict[str, Any] = {field: row[name] for field, name in names.items() if row.get(name)}
    fields |= {"text": row["text"], "created_ms": _moment(row["time"])}
    seq = int(row["number"]) if row["number"].isdecimal() else None
    return _Said(row["session"], row["title"] or None, seq, row.get("uid") or None, fields)


def _own_entry(place: str, row: dict[str, str]) -> Iterator[Item]:
    """Yield the entry of a row; an inactive one is left out."""
    if row.get("state") == OLD:
        yield left_out(place, "entries", f"they hold no longer; {WHY}")
        return
    fields: dict[str, Any] = {"text": row["text"], "created_ms": _moment(row["time"])}
    fields |= {name: row[name] for name in ("category", "key", "trust") if row.get(name)}
    fields["keywords"] = row["keywords"].split(KEYWORD_MARK) if row.get("keywords") else []
    if row.get("expires"):
        fields["expires_ms"] = _moment(row["expires"])
    yield Item(place, "entry", fields)


def _refuse_several(shown: str, users: list[str]) -> None:
    """Refuse an export with the memory of several users, which would be mixed."""
    if len(users) > 1:
        raise InvalidInput(
            f"{shown} has the memory of {len(users)} users ({', '.join(users)}), and the import "
            "would mix them: export each user separately with --user, or all users as JSON lines"
        )


def _moment(text: str) -> int:
    """Return a time of such an export in milliseconds."""
    found = any_time(text.replace(" ", "T"), "time")
    return 0 if found is None else found


def _is_text(cell: str) -> bool:
    """Return whether the bytes of a cell were UTF-8."""
    try:
        cell.encode()
    except UnicodeEncodeError:
        return False
    return True


def _time(text: str) -> int | None:
    """Return seconds, milliseconds or an ISO time, without a zone in UTC, in milliseconds."""
    try:
        number = float(text)
    except ValueError:
        return any_time(text, "time")
    return any_time(number, "time")


FORMATS = {"csv": Format("csv", "a CSV table of messages", _claim, _read, takes_session=True)}
