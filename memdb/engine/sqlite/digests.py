"""
Row digests: a CRC-32 over the columns of a row that are not derived, to find damage.

`digest` is a plain column, so that any program can copy, compact and dump the file. memdb's own
statements write it with the row (`memdb.engine.columns`), by functions that only memdb's
connections have. A digest finds accidental damage, not changes on purpose: a program that writes
to the file can compute it too. A CRC finds every single damaged run of up to 32 bits; of larger
damage it misses one in 4,000,000,000.
"""

from __future__ import annotations

from binascii import crc32
from functools import cache
from marshal import dumps
from typing import TYPE_CHECKING

from memdb.engine.columns import digest_columns
from memdb.errors import Corrupt
from memdb.models.ids import thing_hash

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import apsw

    from memdb.engine.base import Key, Tx

MAX_PER_TABLE = 20

# The only large table whose rows `check` reads elsewhere, if it is deep.
DEEP_ONLY = "blob_chunks"

# Columns of times that callers give. A row may hold one that no date has (text/validate.py).
TIMES = ("created_ms", "updated_ms", "valid_from_ms", "valid_to_ms")
NO_TIME = "NOT BETWEEN -62135596800000 AND 253402300799999"


def row_digest(*values: str | bytes | float | None) -> int:
    """
    Return the digest of a row's values, in the order of schema.sql. Cost: 0.5 µs.

    The digest covers the bytes of the tuple by `marshal`, version 2. These bytes contain the type
    and length of each value, so two different rows never have the same bytes.
    """
    return crc32(dumps(values, 2))


def changed_digest(*values: str | bytes | float | None) -> int:
    """
    Return the digest of a row that changes.

    Args:
        values: The digest, then all old values, then all new values.

    A damaged row keeps a digest that differs by the same bits. Cost: 1 µs.
    """
    digest, half = values[0], len(values) // 2 + 1
    if not isinstance(digest, int):
        return -1  # what no statement wrote: no row has this digest
    return digest ^ crc32(dumps(values[1:half], 2)) ^ crc32(dumps(values[half:], 2))


def register_functions(connection: apsw.Connection) -> None:
    """Add the functions to *connection* with which statements write digests and hashes."""
    connection.create_scalar_function("row_digest", row_digest, -1, deterministic=True)
    connection.create_scalar_function("thing_hash", thing_hash, -1, deterministic=True)
    connection.create_scalar_function("changed_digest", changed_digest, -1, deterministic=True)


@cache
def _verify_statement(table: str) -> str:
    """Return the statement that finds damaged rows by their keys; see `verify_rows`."""
    columns = digest_columns()[table]
    key, wanted = columns.key[0], "value"
    if len(columns.key) > 1:
        key = f"({', '.join(columns.key)})"
        wanted = ", ".join(f"value ->> {place}" for place in range(len(columns.key)))
    wrong = [f"digest <> {columns.digest_of({one: one for one in columns.covered})}"]
    wrong += [f"{one} {NO_TIME}" for one in TIMES if one in columns.covered]
    return (
        f"/* digests.{table} */\n"  # noqa: S608 (names of schema.sql)
        f"SELECT {columns.key[-1]} FROM {table}\n"
        f"WHERE {key} IN (SELECT {wanted} FROM json_each(:ids)) AND ({' OR '.join(wrong)})\n"
    )


def verify_rows(tx: Tx, table: str, ids: Iterable[Key]) -> None:
    """
    Raise Corrupt if a row of *ids* differs from its digest, or has a time of no date.

    Cost: 20 µs, and 2 µs per row.
    """
    for (row_id,) in tx.all(_verify_statement(table), {"ids": ids}):
        raise Corrupt(
            f"row {row_id} of {table} is damaged, because it differs from its digest: run `memdb "
            "check --deep`, then restore a backup (`memdb restore`) or save the rest (`memdb "
            "recover`)"
        )


def find_damaged(tx: Tx, *, deep: bool) -> Iterator[str]:
    """
    Yield base rows that differ from their digest, 20 at most per table.

    The schema must be that of schema.sql. Cost: 2 µs per row.

    Args:
        deep: Also read the bytes of artifacts.
    """
    for table, columns in sorted(digest_columns().items()):
        if table == DEEP_ONLY and not deep:
            continue
        found = columns.digest_of({one: one for one in columns.covered})
        statement = (
            f"/* digests.damaged */ SELECT {', '.join(columns.key)} FROM {table} "  # noqa: S608 (names of schema.sql)
            f"WHERE digest <> {found} LIMIT {MAX_PER_TABLE}"
        )
        try:
            for row in tx.all(statement):
                yield f"{table} row {', '.join(map(_shown, row))} differs from its digest"
        except Corrupt as error:
            yield f"{table}: {error}"


def renew(tx: Tx, tables: Iterable[str]) -> None:
    """Write the digest of each row of *tables*; all rows are known to be undamaged."""
    for table in tables:
        columns = digest_columns()[table]
        digest = columns.digest_of({one: one for one in columns.covered})
        tx.run(f"/* digests.renew */ UPDATE {table} SET digest = {digest}")  # noqa: S608 (names of schema.sql)


def _shown(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
