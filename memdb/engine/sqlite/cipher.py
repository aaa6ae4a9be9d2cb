"""
Encryption at rest (ADR-0063), with the package apsw-sqlite3mc in place of apsw.

Each page of the file and of its WAL is encrypted and authenticated by AEGIS; temporary databases
stay in memory. The header of the WAL and the checksums of its frames are SQLite's, computed over
the encrypted pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from memdb.engine.files import read_start
from memdb.errors import CipherMissing, FileError, KeyMissing, NotAMemDB, WrongKey
from memdb.text.validate import SQLITE_MAGIC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from memdb.models.keys import FileKey


# Bytes 21 to 23 of every SQLite file, which the cipher leaves readable.
# Source: https://www.sqlite.org/fileformat2.html (payload fractions)
FRACTIONS_AT, FRACTIONS = 21, b"\x40\x20\x20"

CIPHER = "aegis"
ALLOW_WRITES = """/* cipher.allow_writes */
PRAGMA query_only = OFF
"""

VACUUM_INTO = """/* cipher.copy */
VACUUM INTO :target
"""

# A stream that is no database is encrypted as one, of a table of parts.
CREATE_PARTS = """/* cipher.create_parts */
CREATE TABLE IF NOT EXISTS parts (number INTEGER PRIMARY KEY, data BLOB NOT NULL) STRICT
"""

INSERT_PART = """/* cipher.insert_part */
INSERT INTO parts (data) VALUES (:data)
"""

SELECT_PARTS = """/* cipher.parts */
SELECT data FROM parts ORDER BY number
"""


def has_cipher() -> bool:
    """Return whether the installed apsw can encrypt."""
    return any(name.startswith("multipleciphers") for name in apsw.vfs_names())


def require_cipher(path: str) -> None:
    """Raise CipherMissing unless the installed apsw can encrypt."""
    if not has_cipher():
        raise CipherMissing(path)


def unlock(connection: apsw.Connection, key: FileKey) -> None:
    """Set the key of *connection*, before its first statement."""
    connection.pragma("cipher", CIPHER)
    connection.pragma("key", key.secret())


def as_uri(path: str, options: str) -> str:
    """Return the URI with which SQLite opens *path* with *options*."""
    escaped = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return f"file:{escaped}?{options}"


def copy_into(connection: apsw.Connection, path: str, key: FileKey | None) -> None:
    """
    Write everything that *connection* sees into a new file, encrypted with *key* or plain.

    Call it with a separate connection, which may write afterwards.
    """
    connection.execute(ALLOW_WRITES)
    how = "key=" if key is None else f"cipher={CIPHER}&hexkey={key.secret().encode().hex()}"
    connection.execute(VACUUM_INTO, {"target": as_uri(path, how)}).fetchall()


def write_stream(path: str, key: FileKey, parts: Iterable[bytes]) -> None:
    """Write *parts* into a new file that only *key* opens; a cut file is not readable."""
    connection = apsw.Connection(path)
    try:
        unlock(connection, key)
        connection.pragma("journal_mode", "OFF")
        connection.execute(CREATE_PARTS)
        with connection:
            connection.executemany(INSERT_PART, ({"data": part} for part in parts))
    finally:
        connection.close()


def read_stream(path: str, key: FileKey) -> Iterator[bytes]:
    """Yield the parts of a file that `write_stream` wrote."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    connection = apsw.Connection(as_uri(path, "immutable=1"), flags)
    try:
        unlock(connection, key)
        for (part,) in connection.execute(SELECT_PARTS):
            yield part
    finally:
        connection.close()


def is_encrypted(path: str) -> bool:
    """Return whether a file looks like an encrypted SQLite file."""
    start = read_start(path)
    return not start.startswith(SQLITE_MAGIC) and start.startswith(FRACTIONS, FRACTIONS_AT)


def unreadable(path: str, key: FileKey | None) -> FileError:
    """Return the error for a file that SQLite does not accept as a database."""
    if is_encrypted(path):
        if not has_cipher():
            return CipherMissing(path)
        return KeyMissing(path) if key is None else WrongKey(path)
    if key is not None and read_start(path).startswith(SQLITE_MAGIC):
        return WrongKey(path, is_plain=True)
    return NotAMemDB(f"{path} is not a SQLite file: check the path", path)
