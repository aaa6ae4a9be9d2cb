"""
The columns of each table, read from schema.sql: nothing else lists them.

The digest of a row covers every column that stands before `digest` in schema.sql; what stands after
it is derived.
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
    The columns that a row of a table is written with.

    Attributes:
        names: All but `digest`, in the order of schema.sql.
        covered: Those that the digest covers, in that order; none without a digest.
        key: Those of the primary key.
        defaults: The default of each, in SQL.
        reals: The reals that hold floating-point numbers.
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

        It differs from that of the new values as the old one did from that of the old values:
        a damaged row stays damaged.
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
    """Return schema.sql: from the installed package, else from the checkout."""
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
    """Return the columns of a CREATE TABLE, given from its name on; each begins a line."""
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
    """Return the columns that a row of *table* is written with, but its digest."""
    return read_columns()[table].names


def digest_columns() -> dict[str, Columns]:
    """Return the columns of each table whose rows have a digest."""
    return {name: columns for name, columns in read_columns().items() if columns.covered}


def names_without(table: str, *names: str) -> tuple[str, ...]:
    """Return the columns that a row of *table* is written with, but its digest and *names*."""
    return tuple(name for name in names_of(table) if name not in names)


def hashed_names(table: str, fields: Iterable[Field]) -> tuple[str, ...]:
    """Return the fields that the content hash covers, in the order of schema.sql."""
    named = {one.column: one.name for one in fields if HASHED in one.traits}
    return tuple(named[column] for column in names_of(table) if column in named)
