"""
The columns of each table, read from schema.sql, their only list.

The digest of a row covers every column before `digest` in schema.sql; the columns after it are
derived.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from memdb.models.fields import HASHED
from memdb.models.record import Record
from memdb.text.resources import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.models.fields import Field


class Columns(Record):
    """
    The columns that a statement writes for a row of a table.

    Attributes:
        names: All columns but `digest`, in the order of schema.sql.
        covered: The columns that the digest covers, in that order; () without a digest.
        key: The columns of the primary key.
        defaults: The default of each column, in SQL.
        reals: The columns with floating-point numbers.
    """

    names: tuple[str, ...]
    covered: tuple[str, ...]
    key: tuple[str, ...]
    defaults: dict[str, str]
    reals: frozenset[str]

    def digest_of(self, values: dict[str, str]) -> str:
        """Return the SQL of a digest, given an expression for each covered column."""
        return f"row_digest({self._arguments(values)})"

    def digest_after(self, table: str, assigned: dict[str, str]) -> str:
        """
        Return the SQL of the digest of a row that is changed.

        It differs from the digest of the new values exactly as the old one differed from the old
        values, so a damaged row stays damaged.
        """
        old = {one: f"{table}.{one}" for one in self.covered}
        values = f"{self._arguments(old)}, {self._arguments(old | assigned)}"
        return f"changed_digest({table}.digest, {values})"

    def _arguments(self, values: dict[str, str]) -> str:
        # SQLite converts a value to the type of its column only when it stores it.
        return ", ".join(
            f"CAST({values[one]} AS REAL)" if one in self.reals else values[one]
            for one in self.covered
        )


def read_schema() -> str:
    """Return schema.sql from the installed package, or else from the checkout."""
    try:
        return read_text(__file__, "../schema.sql")
    except FileNotFoundError:
        return read_text(__file__, "../../schema.sql")


@cache
def read_columns() -> dict[str, Columns]:
    """Return the columns of each ordinary table, as schema.sql lists them. Cost: 1 ms."""
    script = read_schema().split("\nCREATE TABLE ")[1:]
    return {table.partition(" ")[0]: _columns_of(table.partition("\n)")[0]) for table in script}


def _columns_of(table: str) -> Columns:
    """Return the columns of a CREATE TABLE, given from its name on, one column per line."""
    names: list[str] = []
    covered: list[str] = []
    key: list[str] = []
    defaults: dict[str, str] = {}
    reals: set[str] = set()
    for line in table.split("\n")[1:]:
        words = line.partition("--")[0].replace(",", " ").split()
        if line.startswith("  PRIMARY KEY ("):
            key = " ".join(words[2:]).strip("()").split()
        # Two spaces and a name: a line of a longer expression has more, a constraint a keyword.
        if line[:2] != "  " or not line[2:3].islower():
            continue
        name, kind = words[:2]
        if name == "digest":
            covered = list(names)
            continue
        names.append(name)
        defaults[name] = words[words.index("DEFAULT") + 1] if "DEFAULT" in words else "NULL"
        if kind == "REAL":
            reals.add(name)
        if "PRIMARY" in words:
            key = [name]
    return Columns(tuple(names), tuple(covered), tuple(key), defaults, frozenset(reals))


def names_of(table: str) -> tuple[str, ...]:
    """Return the columns that are written for a row of *table*, without its digest."""
    return read_columns()[table].names


def digest_columns() -> dict[str, Columns]:
    """Return the columns of each table whose rows have a digest."""
    return {name: columns for name, columns in read_columns().items() if columns.covered}


def names_without(table: str, *names: str) -> tuple[str, ...]:
    """Return the columns that are written for a row of *table*, without digest and *names*."""
    return tuple(name for name in names_of(table) if name not in names)


def hashed_names(table: str, fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the fields that the content hash covers, in the order of schema.sql."""
    named = {one.column: one.name for one in fields if HASHED in one.traits}
    return tuple(named[column] for column in names_of(table) if column in named)
