"""
Statements that write rows, composed from the columns of their table, and what they change.

Such a statement names each column once and writes the digest of its row, so no statement can forget
it. Its other form has no digest, for an engine whose rows have none.

Both engines count changes for `db.changes` by the kind of row, which the name of a statement gives.
A new message or session is not counted, because the length of its session shows it, and so counting
costs an append nothing. Jobs, vectors and counts of use are not counted: they are no content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.engine.columns import read_columns
from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memdb.engine.base import Row

NOTHING = "ON CONFLICT DO NOTHING"

# The next number of a table: none comes back, also after its row is gone, if the table is one
# with AUTOINCREMENT.
NEXT_NUMBER = """(
  SELECT 1 + max(
    coalesce((SELECT seq FROM sqlite_sequence WHERE name = '{table}'), 0),
    coalesce((SELECT max({key}) FROM {table}), 0)
  )
)"""

# By the text of a composed statement, the same statement without a digest.
_without_digest: dict[str, str] = {}

# By the text of a statement, what stands beside it.
_notes: dict[str, Notes] = {}


class Notes(Record):
    """
    Properties of a statement that its SQL does not show.

    Attributes:
        is_counted: Whether `db.changes` counts the rows that it changes.
        takes_seqs: Whether it locks the row of a session and returns the last of its next seqs, so
            an engine may guess the answer.
        sets_seqs: Whether it changes the last seq of sessions in another way.
        outdates_known: Whether it makes answers in `Tx.known` outdated, for other connections too.
        needs_known: Whether an empty result may mean that an answer in `Tx.known` was outdated.
        assumed: A row that an engine may assume as the answer, because the call then writes nothing
            if there is none; None if it must run the statement.
    """

    is_counted: bool = True
    takes_seqs: bool = False
    sets_seqs: bool = False
    outdates_known: bool = False
    needs_known: bool = False
    assumed: Row | None = None


PLAIN = Notes()
UNCOUNTED = Notes(is_counted=False)  # the reason stands beside its use


class Conflict(Record):
    """
    Changes by an INSERT whose row already exists.

    Attributes:
        keys: The columns of the unique index, separated by commas.
        assigned: The new value of each changed column, in SQL.
        where: Which rows are changed; "" means all.
    """

    keys: str
    assigned: dict[str, str]
    where: str


def annotate(sql: str, notes: Notes) -> None:
    """Put notes beside a statement."""
    _notes[sql] = notes


def notes_of(sql: str) -> Notes:
    """Return the notes of a statement."""
    return _notes.get(sql, PLAIN)


# The kind of thing that a statement on a table changes; other tables have no content.
KINDS = {
    "messages": "message",
    "archive": "message",
    "sessions": "session",
    "entries": "entry",
    "entry_history": "entry",
    "links": "entry",
    "summaries": "summary",
    "artifacts": "artifact",
    "items": "item",
    "state": "state",
    "settings": "settings",
}


def kind_of(sql: str) -> str | None:
    """Return the kind of row that a statement changes; None for one that is not counted."""
    name = sql[3 : sql.find(" */")] if sql.startswith("/* ") else ""
    return KINDS.get(name.partition(".")[0]) if notes_of(sql).is_counted else None


def kind_loaded(table: str) -> str | None:
    """Return the kind of rows loaded into a table; None if it is not counted."""
    return "scope" if table == "scopes" else KINDS.get(table)


def without_digest(sql: str) -> str:
    """Return a statement of the tables without the digest that it writes."""
    return _without_digest.get(sql, sql)


def select(
    tag: str,
    columns: str | Iterable[str],
    source: str,
    where: str = "",
    *,
    order: str = "",
    limit: str = "",
) -> str:
    """
    Return a SELECT.

    Args:
        tag: The name of the statement.
        columns: The result columns, in SQL or as names.
        source: The tables that it reads; "" means none.
        where: Which rows; "": all.
        limit: The largest number of rows.
    """
    listed = columns.strip("\n") if isinstance(columns, str) else ", ".join(columns)
    text = f"/* {tag} */\nSELECT\n  {listed.strip()}\n"
    text += f"FROM {source.strip()}\n" if source else ""
    text += _where(where)
    text += f"ORDER BY {order}\n" if order else ""
    return text + (f"LIMIT {limit}\n" if limit else "")


def select_counts(tag: str, tables: dict[str, str]) -> str:
    """Return the SELECT of (table, number of rows) for the given rows of each table."""
    counts = (
        f"SELECT '{table}', count(*)\nFROM {table}\n{_where(where)}"
        for table, where in tables.items()
    )
    return f"/* {tag} */\n" + "UNION ALL\n".join(counts)


def delete(tag: str, table: str, where: str) -> str:
    """Return the DELETE of some rows."""
    return f"/* {tag} */\nDELETE FROM {table}\n{_where(where)}"


def insert(
    tag: str,
    table: str,
    columns: str = "",
    /,
    *,
    otherwise: str | Conflict = "",
    returning: str = "",
    numbered: str = "",
    **given: str,
) -> str:
    """
    Return the INSERT of one row, which also writes its digest.

    Args:
        tag: The name of the statement.
        columns: Columns that get the bound value of their name; "" means all columns.
        otherwise: `NOTHING` or a `conflict`.
        returning: What RETURNING gives.
        numbered: The key column, if the engine numbers the rows. The digest needs the number before
            the row exists, so in a file the statement takes the next number. The form without a
            digest binds it as `next_` and the name of the column.
        given: The values of other columns, in SQL.
    """
    found = read_columns()[table]
    values = {one: f":{one}" for one in _split(columns) or found.names} | given

    def build(*, with_digest: bool) -> str:
        row = dict(values)
        if numbered:
            number = NEXT_NUMBER.format(table=table, key=numbered)
            row[numbered] = number if with_digest else f":next_{numbered}"
        if with_digest:
            row["digest"] = found.digest_of(found.defaults | row)
        return (
            f"INSERT INTO {table} ({', '.join(row)})\n"
            f"VALUES ({', '.join(row.values())})\n"
            f"{_conflict(table, otherwise, with_digest=with_digest)}{_returning(returning)}"
        )

    return _compose(tag, table, build)


def insert_select(
    tag: str, table: str, columns: str, select: str, otherwise: str | Conflict = ""
) -> str:
    """
    Return the INSERT of the rows of a SELECT, which also writes their digests.

    Args:
        tag: The name of the statement.
        columns: The columns of the SELECT, in its order; "" means all columns of the table.
        otherwise: `NOTHING` or a `conflict`.
    """
    found = read_columns()[table]
    listed = _split(columns) or found.names
    names, rows = ", ".join(listed), select.strip("\n")

    def build(*, with_digest: bool) -> str:
        end = _conflict(table, otherwise, with_digest=with_digest)
        if not with_digest:
            return f"INSERT INTO {table} ({names})\n{rows}\n{end}"
        digest = found.digest_of(found.defaults | {one: one for one in listed})
        return (
            f"WITH made ({names}) AS (\n{rows}\n)\n"
            f"INSERT INTO {table} ({names}, digest)\n"
            f"SELECT {names}, {digest} FROM made WHERE true\n{end}"
        )

    return _compose(tag, table, build)


def update(
    tag: str, table: str, where: str, columns: str = "", /, *, returning: str = "", **given: str
) -> str:
    """
    Return the UPDATE of some rows, which also writes their digests if it changes one.

    Args:
        tag: The name of the statement.
        where: Which rows; "": all.
        columns: Columns that get the bound value of their name.
        returning: What RETURNING gives.
        given: The new value of other columns, in SQL.
    """
    assigned = {one: f":{one}" for one in _split(columns)} | given

    def build(*, with_digest: bool) -> str:
        text = f"UPDATE {table}\nSET {_assignments(table, assigned, with_digest=with_digest)}\n"
        return text + _where(where) + _returning(returning)

    return _compose(tag, table, build)


def conflict(keys: str, columns: str = "", /, *, where: str = "", **given: str) -> Conflict:
    """
    Return the clause of an INSERT for a row that already exists.

    Args:
        keys: The columns of the unique index.
        columns: Columns that get the value of the new row.
        where: Which rows are changed; "" means all.
        given: The new value of other columns, in SQL.
    """
    return Conflict(keys, {one: f"excluded.{one}" for one in _split(columns)} | given, where)


def _split(columns: str) -> tuple[str, ...]:
    """Return the names in a list separated by commas."""
    return tuple(columns.replace(",", " ").split())


def _assignments(table: str, assigned: dict[str, str], *, with_digest: bool) -> str:
    """Return the assignments after SET."""
    found = read_columns()[table]
    assert assigned.keys() <= set(found.names), (table, assigned)
    lines = [f"{name} = {value}" for name, value in assigned.items()]
    if with_digest and not assigned.keys().isdisjoint(found.covered):
        lines.append(f"digest = {found.digest_after(table, assigned)}")
    return ", ".join(lines)


def _conflict(table: str, otherwise: str | Conflict, *, with_digest: bool) -> str:
    if isinstance(otherwise, str):
        return f"{otherwise}\n" if otherwise else ""
    changes = _assignments(table, otherwise.assigned, with_digest=with_digest)
    return f"ON CONFLICT ({otherwise.keys}) DO UPDATE SET {changes}\n{_where(otherwise.where)}"


def _where(where: str) -> str:
    return f"WHERE {where.strip()}\n" if where else ""


def _returning(returning: str) -> str:
    return f"RETURNING {returning}\n" if returning else ""


def _compose(tag: str, table: str, build: Callable[..., str]) -> str:
    """Register a statement under its name, and its text without a digest; return it."""
    head = f"/* {tag} */\n"
    text = head + build(with_digest=bool(read_columns()[table].covered))
    _without_digest[text] = head + build(with_digest=False)
    return text
