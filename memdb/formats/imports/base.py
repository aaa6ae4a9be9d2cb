"""
The form of every import format: a name, the files that it claims, and their items.

A format is a module of this package with its `FORMATS`. A row of `memdb.formats.detect` has the
fields or file names by which it is known. Such a module reads its input and yields items in the
form of the export. Items come alone or in groups that belong together: a conversation, a row, a
note. `memdb.transfer.importer` checks and stores them. A group that cannot be read or stored is
left out as a whole, with its place and the reason, and the others are imported.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from memdb.errors import FileError, InvalidInput
from memdb.formats.source import MAX_ELEMENT_BYTES, json_problem, too_long, value_or_error
from memdb.models.record import Record
from memdb.transfer.lines import REFUSALS, Group, Item, without_place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from memdb.errors import MemDBError
    from memdb.formats.source import Tree
    from memdb.models.reports import TableColumns

    Read = Iterator[Item | Group]

# What formats say of the same things.
EMPTY = ("conversations", "they have no messages")
CIRCULAR = ("messages", "they are their own ancestors")
FILES_BESIDE = ("attached files", "of each its name is imported, and not what it holds")

# What reading a value of another shape than the format's raises.
MISSHAPEN = (TypeError, AttributeError, KeyError, IndexError, ValueError, OverflowError)


class Request(Record):
    """
    The input of a format.

    Attributes:
        tree: The whole source.
        names: The files of it that the format claimed.
        session: Session for messages that name none; None means that each must name one.
        columns: Columns of a table in another program's SQLite file.
        refused: The places of the groups that the import left out so far.
        user: The user of the import; None means the users in the lines.
    """

    tree: Tree
    names: list[str]
    session: str | None
    columns: TableColumns | None
    refused: set[str]
    user: str | None


class Format(Record):
    """
    A format that can be imported.

    Attributes:
        name: As `format=` takes it.
        label: Its description in messages: "an export of ChatGPT".
        claim: Returns the files of a tree in this format; [] means that it has another format.
        read: Yields the items and groups of a request.
        names_owner: Returns whether files of a tree name the user of their memory.
        takes_session: Whether its messages may lack a session.
        is_strict: Whether an unusable record stops the import, because later lines refer to earlier
            ones.
        is_captured: Whether hooks store the same data: keys are redacted, and a message with a
            stored id stays unchanged.
        is_watched: Whether its files are notes, which change.
        signs: Names by which it is recognised: fields of a record, or tables of a database.
    """

    name: str
    label: str
    claim: Callable[[Tree], list[str]]
    read: Callable[[Request], Read]
    names_owner: Callable[[Tree, list[str]], bool] = lambda _tree, _names: False
    takes_session: bool = False
    is_strict: bool = False
    is_captured: bool = False
    is_watched: bool = False
    signs: frozenset[str] = frozenset()


def refused(place: str, error: Exception) -> Group:
    """Return the group of a record that cannot be read, with the reason."""
    if isinstance(error, REFUSALS):
        return Group(place, (), without_place(place, str(error)))
    if isinstance(error, FileError):
        return Group(place, (), str(error))
    return Group(place, (), "it has not the shape of this format: export it again")


def elements(
    request: Request, names: Iterable[str], noun: str, *, is_whole: bool | None = None
) -> Iterator[tuple[str, Any | MemDBError]]:
    """
    Yield place and value of each element of the JSON arrays in some files.

    A file that is one JSON object counts as its only element. If one of several files is cut, its
    last value is the error, and the next file follows.

    Args:
        is_whole: Raise an error if a file is cut; None means only if the request has one file.

    Raises:
        FileError, InvalidInput: the only file is cut, or is not JSON.
    """
    for name in names:
        number = 0
        try:
            for number, value in _values(request.tree, name):
                yield request.tree.place(name, f"{noun} {number}"), value
        except (InvalidInput, FileError) as error:
            shown = request.tree.shown(name)
            reason = str(error)
            whole = reason if reason.startswith(shown) else f"{shown}: {reason}"
            if len(request.names) == 1 if is_whole is None else is_whole:
                raise InvalidInput(whole) if isinstance(error, InvalidInput) else error from error
            place = request.tree.place(name, f"{noun} {number + 1} and what follows it")
            yield place, InvalidInput(without_place(place, whole))


def line_values(request: Request, names: Iterable[str]) -> Iterator[tuple[str, Any | MemDBError]]:
    """
    Yield place and value of each line of some files.

    The value of an invalid line is the error.
    """
    for name in names:
        with request.tree.open(name) as source:
            for number, line in source.lines():
                yield request.tree.place(name, f"line {number}"), value_or_error(number, line)


def _values(tree: Tree, name: str) -> Iterator[tuple[int, Any]]:
    """Yield number and value of the elements of a file, or the object that it is."""
    head = tree.first_character(name)
    with tree.open(name) as source:
        if head != b"{":
            yield from source.elements()
            return
        data = source.read(MAX_ELEMENT_BYTES + 1)
        if len(data) > MAX_ELEMENT_BYTES:
            raise too_long(source.name, MAX_ELEMENT_BYTES)
        try:
            value = json.loads(data.decode("utf-8-sig"))
        except (ValueError, RecursionError) as error:
            raise InvalidInput(
                f"the record is not JSON ({json_problem(error)}): get the file again"
            ) from error
    yield 1, value


def nested(
    found: Iterable[tuple[str, Any]], noun: str, list_of: Callable[[Any], list[Any] | None]
) -> Iterator[tuple[str, Any]]:
    """
    Yield the elements of lists in place of the values that contain them.

    Args:
        list_of: Returns the list in a value; None means that the value is an element.
    """
    for place, value in found:
        inner = None if isinstance(value, Exception) else list_of(value)
        if inner is None:
            yield place, value
            continue
        before = place.rpartition(", ")[0]
        for number, one in enumerate(inner, start=1):
            yield f"{before}, {noun} {number}" if before else f"{noun} {number}", one


def read_bytes(tree: Tree, name: str) -> bytes:
    """Return a file as bytes; InvalidInput if it has more than 64 MB."""
    with tree.open(name) as source:
        data = source.read(MAX_ELEMENT_BYTES + 1)
    if len(data) > MAX_ELEMENT_BYTES:
        raise too_long(tree.shown(name), MAX_ELEMENT_BYTES)
    return data


def read_text(tree: Tree, name: str) -> str:
    """
    Return a file as text.

    Raises:
        InvalidInput: the file is not UTF-8, over a quarter of it is NUL, or it has more than 64 MB.
    """
    data = read_bytes(tree, name)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(
            f"{tree.shown(name)}: it is not UTF-8 ({error.reason} in line {line}): convert it"
        ) from error
    if text.count("\0") * 4 > len(text):  # a NUL that a tool wrote is U+FFFD, as everywhere
        raise InvalidInput(
            f"{tree.shown(name)}: it is not UTF-8, because a quarter of it is NUL: convert it"
        )
    return text


def groups(
    found: Iterable[tuple[str, Any | MemDBError]], read: Callable[[str, Any], Iterable[Item]]
) -> Iterator[Group]:
    """
    Yield a group for each value; a broken one has the reason and no items.

    Args:
        found: Place and value of each; a value may be an error.
        read: Yields the items of a value; an error means that the value is broken.
    """
    for place, value in found:
        try:
            if isinstance(value, Exception):
                raise value
            yield Group(place, tuple(read(place, value)))
        except (*REFUSALS, FileError, *MISSHAPEN, RecursionError) as error:
            yield refused(place, error)
