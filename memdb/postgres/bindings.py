"""
Bindings: which scopes a transaction is about, and which of them the server was told (`policies`).

The setting outlives a transaction, so that the next one about the same scope sends nothing. What
the server knows is kept with its connection, and asked of nobody: after an undo it is not known,
and sent again.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

from memdb.models.ids import MAX_SCOPE_NO, SCOPE_SHIFT
from memdb.postgres.binary import copy_rows, number_in
from memdb.postgres.dialect import PARTITION_COLUMNS, statement_of, to_array
from memdb.postgres.policies import SCOPE_OF, SET_SCOPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Row
    from memdb.postgres.asked import Asked
    from memdb.postgres.dialect import Statement
    from memdb.postgres.wire import Wire

    Scopes = tuple[int, ...]


class Bindings:
    """
    The scopes of a transaction.

    Attributes:
        scopes: Numbers of those that the statements of now are about, with 0 for one that is not
            made yet; () lets every row through.
        holds_calls: Whether it is the caller's, around public calls, each about its own scopes.
        known: Those that the server was told; None: not known.
    """

    __slots__ = ("_first", "_in_call", "_used", "holds_calls", "known", "scopes")

    def __init__(self) -> None:
        """Be about all scopes."""
        self.begin(None)

    def begin(self, wire: Wire | None) -> None:
        """Begin a transaction on a connection, None for one that is not made yet."""
        self.scopes: Scopes = ()
        self.holds_calls = False
        self._in_call = False
        self.known = self._first = () if wire is None else wire.bound
        self._used: set[Scopes | None] = set()

    def add(self, scope_no: int) -> None:
        """Let statements see rows of a scope and of those bound before, and no others."""
        if scope_no not in self.scopes:
            self.scopes = (*self.scopes, scope_no)

    def begin_call(self) -> bool:
        """Return whether a block inside is the outermost of a call, which ends by `end_call`."""
        is_outermost = self.holds_calls and not self._in_call
        self._in_call |= is_outermost
        return is_outermost

    def end_call(self) -> None:
        """Let the next call be about other scopes."""
        self._in_call = False
        self.scopes = ()

    def needed_for(self, statement: Statement) -> Scopes | None:
        """Return the scopes to tell the server before a statement, None if it knows them."""
        if statement.is_control:  # the only one that a failed part takes
            return None
        scopes = () if statement.is_whole else self.scopes
        return None if scopes == self.known else scopes

    def forget(self, wire: Wire | None) -> None:
        """Note that it is not known which scopes the server was told."""
        self.known = None
        if wire is not None:
            wire.bound = None

    def tell(self, wire: Wire, statement: Statement, asked: Asked) -> None:
        """Tell the server which scopes a statement is about, if it does not know them."""
        scopes = self.needed_for(statement)
        if scopes is not None:
            told, values = statement_of(SET_SCOPES).sql, [setting_of(scopes)]
            is_first = asked.is_whole and not asked.statements
            self.forget(wire)  # until it is sent: an exception may come at any line
            wire.send(told, values)
            asked.add(told, values, None)
            self.note_sent(wire, scopes, is_first=is_first)

    def note_sent(self, wire: Wire, scopes: Scopes, *, is_first: bool) -> None:
        """Note what the server was told, before all other statements or not."""
        self._used |= {scopes} if is_first else {None, scopes}
        self.known = wire.bound = scopes

    def undo(self, wire: Wire | None) -> None:
        """Note that a part was undone: what the server knows is what it knew before that part."""
        if self._used:
            self.forget(wire)

    def begin_again(self, wire: Wire) -> None:
        """Tell the server what it knew when the transaction began."""
        if wire.bound != self._first:
            wire.send(statement_of(SET_SCOPES).sql, [setting_of(self._first or ())])
        wire.bound = None  # until all is repeated

    def show_all(self, wire: Wire) -> None:
        """Let what is compared before the commit see all rows, if it may be of several scopes."""
        if len(self._used) > 1:
            wire.send(statement_of(SET_SCOPES).sql, [""])
            wire.bound = ()


def scopes_per_partition(count: int) -> int:
    """Return how many scopes a partition has, of *count*."""
    return (MAX_SCOPE_NO + 1) // count


def partition_of(table: str, value: int, count: int) -> str:
    """Return the name of the partition, of *count*, whose rows have *value* in their column."""
    scope_no = value if PARTITION_COLUMNS[table] == "scope_no" else value >> SCOPE_SHIFT
    return f"{table}_p{min(scope_no // scopes_per_partition(count), count - 1)}"


def setting_of(scopes: Scopes) -> str:
    """Return what the setting of the policies is for some scopes, "" for all."""
    return to_array(scopes) if scopes else ""


def put_rows(
    tx: Any, table: str, columns: Sequence[str], rows: Sequence[Row] | Sequence[bytes]
) -> None:
    """
    Put rows into a table by COPY.

    COPY takes no table whose policies hold: then they go into its partitions, which have none, and
    are inserted where it has none of these.
    """

    def copy(place: str, rows: Sequence[Row] | Sequence[bytes]) -> None:
        tx.apart(lambda connection: copy_rows(connection, place, columns, rows))

    if not (tx.link.binds_scopes and table in SCOPE_OF):
        copy(table, rows)
    elif table in PARTITION_COLUMNS:
        number, count = columns.index(PARTITION_COLUMNS[table]), tx.link.partitions

        def part_of(row: Row | bytes) -> str:
            value = number_in(row, number) if isinstance(row, bytes) else row[number]
            return partition_of(table, value, count)

        for part, some in groupby(rows, part_of):
            copy(part, [*some])
    else:
        names, values = ", ".join(columns), ", ".join(f":{name}" for name in columns)
        sql = f"/* connection.load */\nINSERT INTO {table} ({names}) VALUES ({values})\n"
        tx.many(sql, (dict(zip(columns, row, strict=True)) for row in rows))
