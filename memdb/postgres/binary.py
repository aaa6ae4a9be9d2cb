"""
PostgreSQL's binary formats: rows of COPY, arrays, and the half-precision floats of pgvector.

In text form, numbers and bytes would be formatted here and parsed by the server. Callers that know
their columns encode the values; this module adds the framing.
"""

from __future__ import annotations

from array import array
from codecs import charmap_build, charmap_decode, charmap_encode
from struct import Struct, pack
from typing import TYPE_CHECKING, Any

from memdb.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.engine.base import Row

# What a file of COPY begins and ends with: postgresql.org/docs/current/sql-copy.html
COPY_HEAD = b"PGCOPY\n\xff\r\n\0" + bytes(8)
COPY_TAIL = b"\xff\xff"

INT8, BYTEA, TEXT = 20, 17, 25  # the types of arrays, in pg_type.dat

# Before an array: dimensions, no NULLs, type; how many, the first number. Before each item: bytes.
ARRAY_HEAD = Struct("!iiIii")
SIZE = Struct("!i")

# What begins a vector in the binary format of pgvector: its dimension, and nothing.
VECTOR_HEAD = Struct("!HH")

# The most dimensions that pgvector stores.
MAX_DIM = 16_000

# Half-precision floats of -128 to 127 by that number, negative ones counted from the end: as the
# characters of a code page, which Python has the fastest loops for. -128 is a surrogate there.
HALVES = "".join(
    chr(int.from_bytes(pack("!e", number), "big")) for number in (*range(128), *range(-128, 0))
)
HALF_CODES = charmap_build(HALVES)
HALF_ENCODING = "utf-16-be", "surrogatepass"


def row_of(columns: int, *fields: bytes) -> bytes:
    """Return the beginning of a row of COPY: the number of its columns, and the first one."""
    return pack("!h", columns) + b"".join([SIZE.pack(len(one)) + one for one in fields])


def array_of(kind: int, items: Sequence[bytes]) -> bytes:
    """Return an array of a type, given its items in their binary format."""
    size = SIZE.pack
    parts = [ARRAY_HEAD.pack(1, 0, kind, len(items), 1)]
    for one in items:
        parts += (size(len(one)), one)
    return b"".join(parts)


def copy_rows(
    connection: Any, table: str, columns: Sequence[str], rows: Sequence[Row] | Sequence[bytes]
) -> None:
    """Insert rows into a table by COPY, as text or as bytes in the binary format."""
    is_binary = isinstance(rows[0], bytes)
    options = " (FORMAT binary)" if is_binary else ""
    with connection.cursor().copy(
        f"COPY {table} ({', '.join(columns)}) FROM STDIN{options}"
    ) as copy:
        if is_binary:
            copy.write(b"".join([COPY_HEAD, *rows, COPY_TAIL]))
        else:
            for row in rows:
                copy.write_row(row)


def to_pgvector(stored: bytes, *, is_halves: bool) -> bytes:
    """
    Return a vector of a file, signed bytes or float32, in the format of pgvector.

    Raises:
        Unsupported: the vector has more than 16,000 dimensions.
    """
    dim = len(stored) if is_halves else len(stored) // 4
    if dim > MAX_DIM:
        raise Unsupported(
            f"a server stores vectors of up to {MAX_DIM:,} dimensions, but these have {dim:,}: use "
            "another embedder, or a file"
        )
    return VECTOR_HEAD.pack(dim, 0) + (_to_halves if is_halves else _swapped)(stored)


def from_pgvector(vector: bytes, *, is_halves: bool = False) -> bytes:
    """Return a vector in the form of files."""
    return (_from_halves if is_halves else _swapped)(vector[VECTOR_HEAD.size :])


def _to_halves(numbers: bytes) -> bytes:
    return charmap_decode(numbers, "strict", HALVES)[0].encode(*HALF_ENCODING)


def _from_halves(halves: bytes) -> bytes:
    return charmap_encode(halves.decode(*HALF_ENCODING), "strict", HALF_CODES)[0]


def _swapped(vector: bytes) -> bytes:
    """Return float32 numbers with the opposite byte order."""
    floats = array("f", vector)
    floats.byteswap()  # of either machine: the result is not computed with
    return floats.tobytes()
