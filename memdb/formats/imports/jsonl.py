"""
JSON lines: the export of memdb, and lines written by hand or by another program.

A line with a `kind` has the fields of the export; a hand-written one may leave out those that memdb
adds itself. A line without `kind` is an entry, if it has a category and no role (flowcraft's
long_term/*.jsonl), else a message: {"role": "user", "content": "Hello"}, or one of a provider, see
docs/parts.md.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memdb.errors import InvalidInput
from memdb.formats.imports.base import Format, groups
from memdb.formats.provider_messages import read_messages
from memdb.formats.source import parse_line
from memdb.models.ids import made_id
from memdb.models.messages import role_of
from memdb.text.validate import int_value
from memdb.transfer.lines import EXPORT_VERSION, Item, any_time, located

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.formats.imports.base import Read, Request
    from memdb.formats.source import Tree

# Other words for fields of a message, the usual one first.
SYNONYMS = {
    "text": ("content",),
    "author": ("name",),
    "created_ms": ("time", "timestamp", "created_at"),
    "external_id": ("id",),
}
# Of a line with one of these `memdb.formats.provider_messages` reads the message.
PROVIDER_FIELDS = frozenset(
    "type tool_calls tool_call_id function_call refusal audio reasoning_content lc data choices "
    "candidates output actions invocation_id kind".split()
)
PROVIDER_ROLES = ("developer", "function")
NUMBERED = frozenset(("role", "seq"))  # what a message of an export has, and no other line
OWN_FIELDS = ("session", "metadata", "external_id")
BARE_FIELDS = (
    "session",
    "role",
    "text",
    "author",
    "created_ms",
    "external_id",
    "parts",
    "metadata",
)


def _read(request: Request) -> Read:
    found = ((place, (number, line)) for place, number, line in _lines(request))
    yield from groups(found, partial(_items, request.session))


def _read_export(request: Request) -> Read:
    """Yield the items of each line alone; an unreadable line stops the import."""
    for place, number, line in _lines(request):
        try:
            given = parse_line(number, line)
            if type(given) is dict and given.get("kind") == "message" and given.keys() >= NUMBERED:
                del given["kind"]  # as nearly all lines
                items = [Item(place, "message", given)]
            else:
                found = read_line(given, request.session, number, line)
                items = [Item(place, kind, fields) for kind, fields in found]
        except InvalidInput as error:
            raise located(place, error) from error
        yield from items


def _lines(request: Request) -> Iterator[tuple[str, int, bytes]]:
    """Yield place, number and bytes of the lines of some files."""
    for name in request.names:
        with request.tree.open(name) as source:
            for number, line in source.lines():
                yield request.tree.place(name, f"line {number}"), number, line


def _items(session: str | None, place: str, numbered: tuple[int, bytes]) -> Iterator[Item]:
    """Yield the items of a line."""
    number, line = numbered
    for kind, fields in read_line(parse_line(number, line), session, number, line):
        yield Item(place, kind, fields)


def read_line(
    given: Any, session: str | None, number: int, line: bytes
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield kind and fields of a line's records: several messages if roles are mixed."""
    if not isinstance(given, dict):
        raise InvalidInput("the line is not a JSON object: write one object per line")
    kind = given.get("kind")
    if "category" in given and not ("role" in given or PROVIDER_FIELDS.intersection(given)):
        yield "entry", _bare_entry(given)
        return
    if kind is None or (kind in ("request", "response") and "parts" in given):
        said = {name: value for name, value in given.items() if name != "after"}
        messages = [_bare_message(said)] if _is_bare(said) else provider_messages(said)
        after = given.get("after")
        for place, fields in enumerate(messages, 1):
            _complete(fields, session, number, line, "" if place == 1 else f"#{place}")
            if "after" in given:  # the message before it: the lines are a tree
                fields["after"] = str(after) if isinstance(after, int) else after
                after = fields["external_id"]
            yield "message", fields
        return
    if not isinstance(kind, str):
        raise InvalidInput(f"kind is {kind!r}: give a word")
    fields = given.copy()
    del fields["kind"]
    if kind == "memdb":
        _refuse_newer(fields)
        return
    if kind == "message" and "seq" not in fields:
        _complete(fields, session, number, line)
    yield kind, fields


def _refuse_newer(fields: dict[str, Any]) -> None:
    version = int_value(fields.get("export"), "export", 1, 1 << 31)
    if version > EXPORT_VERSION:
        raise InvalidInput(
            f"export format {version} is newer than {EXPORT_VERSION}: "
            "upgrade with `pip install -U memdb-sqlite`"
        )


def _complete(
    fields: dict[str, Any], session: str | None, number: int, line: bytes, suffix: str = ""
) -> None:
    """Add the session and external id that a hand-written message leaves out."""
    if fields.get("session") is None:
        if session is None:
            raise InvalidInput(
                'the message has no session: add "session", or name one session for all messages'
            )
        fields["session"] = session
    if fields.get("external_id") is None:
        # So that importing the file again, or going on with it, adds nothing twice.
        fields["external_id"] = made_id(f"line-{number}", line) + suffix


def _is_bare(given: dict[str, Any]) -> bool:
    """Return whether a line is a role and a text, with memdb's own fields or a program's."""
    if given.get("role") in PROVIDER_ROLES or PROVIDER_FIELDS.intersection(given):
        return False
    said = given.get("content", "")
    return "role" in given and (said is None or isinstance(said, str))


def provider_messages(given: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the messages in a line of a provider; see `Session.append`."""
    own = {name: given[name] for name in OWN_FIELDS if given.get(name) is not None}
    names = [name for name in ("created_ms", *SYNONYMS["created_ms"]) if name in given]
    created_ms = any_time(given[names[0]], names[0]) if names else None
    id_given = given.get("external_id", given.get("id"))
    if not PROVIDER_FIELDS.intersection(given) and "role" not in given:
        raise InvalidInput(
            'the line has neither kind nor role: write {"role": "user", "text": "..."}'
        )
    read = read_messages({key: given[key] for key in given if key not in own}, "message")
    found = []
    for place, new in enumerate(read, 1):
        fields = {
            "role": new.role,
            "text": new.text,
            "author": new.author,
            "parts": new.parts,
            "created_ms": new.created_ms or created_ms,
            **own,
        }
        if isinstance(id_given, (str, int)) and id_given != "":
            fields["external_id"] = f"{id_given}" if place == 1 else f"{id_given}#{place}"
        found.append({name: value for name, value in fields.items() if value is not None})
    return found


def _bare_entry(given: dict[str, Any]) -> dict[str, Any]:
    """Return a line of flowcraft's long-term memory as an entry of the scope of the import."""
    names = [name for name in ("created_ms", *SYNONYMS["created_ms"]) if name in given]
    fields = {
        "text": given.get("text", given.get("content")),
        "category": given["category"],
        "keywords": given.get("keywords") or (),
        "importance": given.get("importance"),
        "created_ms": any_time(given[names[0]], names[0]) if names else None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def _bare_message(given: dict[str, Any]) -> dict[str, Any]:
    """Return a line without kind as a message; unknown fields become metadata."""
    rest = dict(given)
    fields: dict[str, Any] = {name: rest.pop(name) for name in BARE_FIELDS if name in rest}
    renamed = {}
    for name, others in SYNONYMS.items():
        for other in others:
            if fields.get(name) is None and rest.get(other) is not None:
                fields[name] = rest.pop(other)
                renamed[name] = other
    fields["role"] = role_of(fields["role"])
    if fields.get("text") is None:
        fields["text"] = ""
    if isinstance(fields.get("external_id"), int):
        fields["external_id"] = str(fields["external_id"])
    time_name = renamed.get("created_ms", "created_ms")
    fields["created_ms"] = any_time(fields.get("created_ms"), time_name)
    kept = {name: value for name, value in rest.items() if value is not None}
    if kept:
        fields["metadata"] = {**kept, **(fields.get("metadata") or {})}
    return fields


def _claim_export(tree: Tree) -> list[str]:
    """Claim a file that begins like an export of memdb."""
    return [name for name in tree.candidates("*.jsonl") if _kind(tree, name) == "memdb"]


def _claim_lines(tree: Tree) -> list[str]:
    """Claim the files whose first line is a message, an entry, or has a kind of the export."""
    return [
        name
        for name in tree.candidates("*.jsonl")
        for fields in [tree.peek(name)]
        if "kind" in fields or "role" in fields or {"category", "content"} <= fields.keys()
    ]


def _kind(tree: Tree, name: str) -> object:
    return tree.peek(name).get("kind")


FORMATS = {
    "memdb": Format(
        "memdb",
        "a memdb export",
        _claim_export,
        _read_export,
        names_owner=lambda _tree, _names: True,
        takes_session=True,
        is_strict=True,
    ),
    "jsonl": Format("jsonl", "JSON lines", _claim_lines, _read, takes_session=True),
}
