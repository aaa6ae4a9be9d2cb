"""
What every format of an import is: a name, the files that are its own, and their items.

A format is a module of this package with a `FORMAT`. It reads what it was given and yields
items in the words of the export; `memdb.transfer.importer` checks and stores them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import InvalidInput, MemDBError, SecretFound
from memdb.models.record import Record
from memdb.transfer.lines import Item, located
from memdb.transfer.source import MAX_ELEMENT_BYTES, json_problem, too_long

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from memdb.engine.base import Engine
    from memdb.models.reports import TableColumns
    from memdb.transfer.tree import Tree

# The kind of an item that says what an import leaves out.
LEFT_OUT = "left_out"


class Request(Record):
    """
    What a format is to read.

    Attributes:
        tree: All that was given.
        names: The files of it that the format claimed.
        session: Of messages that name none; None means that each has to.
        columns: Of a table in another program's SQLite file.
        engine: Of the file that is filled; it bounds what a stranger's file may cost.
    """

    tree: Tree
    names: list[str]
    session: str | None
    columns: TableColumns | None
    engine: Engine


class Format(Record):
    """
    A format that can be imported.

    Attributes:
        name: As `format=` takes it.
        label: What it is, for messages: "an export of ChatGPT".
        claim: Returns the files of a tree that are of this format; [] means it is another.
        read: Yields the items of a request.
        names_owner: Its lines say whose memory they are.
        takes_session: Its messages may lack a session.
    """

    name: str
    label: str
    claim: Callable[[Tree], list[str]]
    read: Callable[[Request], Iterator[Item]]
    names_owner: bool = False
    takes_session: bool = False


def left_out(place: str, what: str, why: str, count: int = 1) -> Item:
    """Return the item that says that *count* of *what* are not imported, and why."""
    return Item(place, LEFT_OUT, {"what": what, "why": why, "count": count})


def elements(request: Request, names: Iterable[str], noun: str) -> Iterator[tuple[str, Any]]:
    """
    Yield place and value of each element of the JSON arrays in some files.

    A file that is one JSON object is its only element.

    Raises:
        InvalidInput: a file is no JSON.
    """
    import json

    for name in names:
        head = request.tree.first_character(name)
        with request.tree.open(name) as source:
            if head != b"{":
                for number, value in source.elements():
                    yield request.tree.place(name, f"{noun} {number}"), value
                continue
            data = source.read(MAX_ELEMENT_BYTES + 1)
            if len(data) > MAX_ELEMENT_BYTES:
                raise too_long(source.name, MAX_ELEMENT_BYTES)
            try:
                yield request.tree.place(name, f"{noun} 1"), json.loads(data.decode("utf-8-sig"))
            except (ValueError, RecursionError) as error:
                raise InvalidInput(
                    f"{source.name} is no JSON ({json_problem(error)}): get the file again"
                ) from error


def read_text(tree: Tree, name: str) -> str:
    """
    Return a file as text.

    Raises:
        InvalidInput: it is not UTF-8, holds NUL, or has more than 64 MB.
    """
    with tree.open(name) as source:
        data = source.read(MAX_ELEMENT_BYTES + 1)
    if len(data) > MAX_ELEMENT_BYTES:
        raise too_long(tree.shown(name), MAX_ELEMENT_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"{tree.shown(name)} is not UTF-8 ({error.reason}): convert it"
        ) from error
    if "\0" in text:
        raise InvalidInput(f"{tree.shown(name)} is no text: it holds NUL")
    return text


def whole_or_left_out(
    found: Iterable[tuple[str, Any]], read: Callable[[str, Any], Iterator[Item]]
) -> Iterator[Item]:
    """
    Yield the items of each value; one that is broken is left out as a whole, with the reason.

    Args:
        found: Place and value of each.
        read: Yields the items of one; InvalidInput means that it is broken.
    """
    for place, value in found:
        try:
            items = list(read(place, value))
        except SecretFound:
            raise
        except MemDBError as error:
            reason = str(located(place, error)).removeprefix(f"{place}: ")
            yield left_out(place, place, reason)
            continue
        yield from items
