"""
Rows that `memdb copy` reads and writes: all base rows, table by table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.engine.columns import read_columns
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Row, Tx


class Table(Record):
    """
    How the rows of one table are copied.

    Attributes:
        key: The columns that order the pages.
        start: The key before the first row.
        select: Reads a page after a key.
        link: A column that refers to a row of the same table, maybe a later one; "" means none.
        set_link: Sets `link` of a row.
        words: The kind of its full-text index; "" means none.
        limit: Number of rows in a page.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]
    start: tuple[Any, ...]
    select: str
    link: str
    set_link: str
    words: str
    limit: int


# Jobs about the file itself, such as when it was last packed, are no part of the memory.
OWN_JOBS = "subject <> 'file'"


def _table(
    name: str,
    start: tuple[Any, ...] = (-1,),
    *,
    link: str = "",
    words: str = "",
    limit: int = 2000,
    where: str = "true",
) -> Table:
    """Return how a table is copied, by the columns and the key that schema.sql gives it."""
    found = read_columns()[name]
    after = ", ".join(f":after_{one}" for one in found.key)
    behind = f"{where} AND ({', '.join(found.key)}) > ({after})"
    order = {"order": ", ".join(found.key), "limit": ":limit"}
    return Table(
        name,
        found.names,
        found.key,
        start,
        compose.select(f"copies.{name}", found.names, name, behind, **order),
        link,
        compose.update(f"copies.link_{name}", name, "id = :id", **{link: ":other"}) if link else "",
        words,
        limit,
    )


# In the order that foreign keys ask for.
TABLES = (
    _table("settings", ("",)),
    _table("scopes"),
    _table("sessions", words="session"),
    _table("messages", words="message"),
    _table("archive_segments", (-1, -1), limit=64),
    _table("summaries", link="condensed_into", words="summary"),
    _table("entries", link="superseded_by", words="entry"),
    _table("entry_history", (-1, -1)),
    _table("entry_links", (-1, -1)),
    _table("item_namespaces"),
    _table("items", words="item", limit=500),
    _table("blobs"),
    _table("blob_chunks", (-1, -1), limit=16),
    _table("artifact_names", words="artifact", limit=200),
    _table("artifacts", (-1, -1, "", -1)),
    _table("state", ("", "", "", "")),
    _table("tombstones", (-1, "")),
    _table("embedding_spaces"),
    _table("jobs", ("", "", -1, -1), where=OWN_JOBS),
)

SELECT_COUNTS = compose.select_counts(
    "copies.counts", {one.name: OWN_JOBS if one.name == "jobs" else "" for one in TABLES}
)

SELECT_IDENTITY = compose.select("copies.identity", "value", "meta", "key = 'file_uid'")


def count_rows(tx: Tx) -> dict[str, int]:
    """Return the number of rows of each table. Cost: reads every key."""
    return dict(tx.all(SELECT_COUNTS))


def pages(tx: Tx, table: Table) -> Iterator[list[Row]]:
    """Yield the rows of a table by their key, `table.limit` at a time."""
    after = table.start
    places = [table.columns.index(name) for name in table.key]
    names = ("limit", *(f"after_{name}" for name in table.key))
    while rows := tx.all(table.select, dict(zip(names, (table.limit, *after), strict=True))):
        yield rows
        after = tuple(rows[-1][place] for place in places)


def load(tx: Tx, table: Table, rows: list[Row]) -> list[dict[str, int]]:
    """
    Store rows without their references to rows of the same table.

    Return those, for `set_links`.
    """
    if not table.link:
        tx.load(table.name, table.columns, rows)
        return []
    at = table.columns.index(table.link)
    tx.load(table.name, table.columns, [(*row[:at], None, *row[at + 1 :]) for row in rows])
    return [{"id": row[0], "other": row[at]} for row in rows if row[at] is not None]


def set_links(tx: Tx, table: Table, links: list[dict[str, int]]) -> None:
    """Set the references of rows to other rows of the same table, which all exist now."""
    tx.many(table.set_link, links)


def identity(tx: Tx) -> str:
    """Return the uid of the database; a backup has the uid of its original."""
    row = tx.one(SELECT_IDENTITY)
    return "" if row is None else str(row[0])
