"""
The driver: psycopg, imported when needed, and memdb's errors for psycopg's.

An address may contain a password, so no message repeats it. `shown` names the database without it.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from memdb.errors import (
    Busy,
    Closed,
    Corrupt,
    DiskFull,
    FileError,
    Interrupted,
    InvalidInput,
    IOFailed,
    MemDBError,
    NotAMemDB,
    ReadOnly,
    StorageError,
    Unsupported,
)

# What the oldest server says of itself on which memdb is tested: version 16.
MIN_VERSION = 160_000


def load() -> Any:
    """Return the module psycopg; InvalidInput if the extra is not installed."""
    try:
        import psycopg  # noqa: PLC0415 (only for servers)
    except ImportError as error:
        raise InvalidInput(
            f"the extra postgres is not installed ({error}): run `pip install "
            "'memdb-sqlite[postgres]'`"
        ) from error
    return psycopg


def read_address(address: str) -> dict[str, Any]:
    """
    Return the parameters of an address; libpq's environment adds missing ones.

    Raises:
        InvalidInput: libpq cannot read it. The message does not repeat the address, which may
            contain a password.
    """
    psycopg = load()
    try:
        return dict(psycopg.conninfo.conninfo_to_dict(address))
    except psycopg.Error:
        raise InvalidInput(
            "the address of the server cannot be read: use "
            "postgresql://USER@HOST:PORT/DATABASE, with %-codes for special characters"
        ) from None  # its text repeats the address, which may hold a password


def shown(parameters: dict[str, Any]) -> str:
    """Return an address without password and options, for messages."""
    user = quote(str(parameters["user"]), safe="") + "@" if parameters.get("user") else ""
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").split(",")
    ports = str(parameters.get("port") or "").split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    places = ",".join(
        quote(host, safe="") + (f":{port}" if port else "")
        for host, port in zip(hosts, ports, strict=False)
    )
    return f"postgresql://{user}{places}/{quote(str(parameters.get('dbname') or ''), safe='')}"


# What a server says when a connection to it is over, or cannot be made just now: classes and
# codes of postgresql.org/docs/current/errcodes-appendix.html
LOST = ("08", "57P01", "57P02", "57P03", "57P05")
READ_ONLY = "25006"
LOCKED = "55P03"

# A refused connection has no code.
NO_CONNECTION_LEFT = (
    "too many clients",
    "too many connections",
    "remaining connection slots are reserved",
)

# A prepared statement is there already, or not any more: it was another connection's process.
ANOTHERS_STATEMENTS = ("42P05", "26000")

# A division by zero: what a statement compares at the commit has changed.
COMPARED = "22012"

# The logarithm of zero: a session gave out another seq than was guessed.
GUESSED = "2201E"

# Errors that a transaction does not have when it is run once more.
RACES = ("40001", "40P01", "23505", "23503")

# By SQLSTATE, or by its first two characters: the class, and what to do.
ERRORS: dict[str, tuple[type[StorageError], str]] = {
    "08": (IOFailed, "the connection to the server was lost: check the server and try again"),
    "0A": (Unsupported, "the server cannot do this: please report it"),
    "22012": (Busy, "another process changed what this call relied on: try again"),
    "2201E": (Busy, "another process wrote to the session at the same time: try again"),
    "22": (StorageError, "the server refuses a value: please report it"),
    "23": (StorageError, "a rule of the schema was broken; please report it"),
    "23505": (Busy, "another process stored the same at the same time: try again"),
    "23503": (Busy, "another process removed what this refers to: try again"),
    "3F": (
        IOFailed,
        "no schema of the search_path is there: create it (CREATE SCHEMA), or correct its name",
    ),
    "40": (Busy, "another transaction was in the way: try again"),
    "42": (Corrupt, "the tables are not those of memdb: run `memdb check` on the database"),
    "42501": (
        IOFailed,
        "the user may not do this: grant it the rights on the schema; if a policy of the rows "
        "refused a row of another scope, please report it",
    ),
    "53": (IOFailed, "the server is out of a resource: try again later"),
    "53100": (DiskFull, "the disk of the server is full: free some space there and try again"),
    "53200": (StorageError, "the server ran out of memory: use smaller batches"),
    "53300": (Busy, "the server has no connection left: close some, or raise max_connections"),
    "54": (StorageError, "the value is larger than the server stores: split it"),
    "55P03": (Busy, "another process has been writing to this scope for long: try again"),
    "57": (IOFailed, "the server is starting or stopping: try again"),
    "57014": (
        Interrupted,
        "the server stopped the statement, it took longer than its statement_timeout: "
        "try again, or raise the limit for this user",
    ),
    "58": (IOFailed, "the disk of the server failed to read or write: check it"),
    "XX": (Corrupt, "the server says that its data is damaged: restore a backup of it"),
}


def translate(error: Any, where: str) -> MemDBError:
    """Return the memdb error for an error of psycopg; *where* is the result of `shown`."""
    code = error.sqlstate or ""
    if code == "0A000" and 'extension "vector"' in str(error):
        return Unsupported(
            f"{where} has no pgvector: install it on the server (Debian: postgresql-NN-pgvector), "
            "and try again"
        )
    if code == "42501" and 'extension "vector"' in str(error):
        return Unsupported(
            f"{where} lacks pgvector, and its user may not put it in: let a superuser run "
            "CREATE EXTENSION vector in this database, and try again"
        )
    if is_read_only(error):
        return ReadOnly(
            f"{where} is a replica that cannot be written, or its user may only read: connect to "
            'the primary, or open it with mode="read"',
            where,
        )
    found = ERRORS.get(code) or ERRORS.get(code[:2])
    if found is None:
        is_lost = is_connection_lost(error)
        found = ERRORS["08"] if is_lost else (StorageError, "the server refused; please report it")
    kind, advice = found
    detail = str(error).strip().partition("\n")[0][:300]
    return kind(f"{advice} (PostgreSQL {code or '-'}: {detail})")


def is_read_only(error: Any) -> bool:
    """Return whether the server, or this connection, accepts no writes. A standby has two codes."""
    code = error.sqlstate
    return code == READ_ONLY or (code == "0A000" and "during recovery" in str(error))


def is_rule_broken(error: Any) -> bool:
    """Return whether a key or another rule of the schema was broken."""
    return str(getattr(error, "sqlstate", None) or "").startswith("23")


def is_connection_lost(error: Any) -> bool:
    """Return whether the connection is lost, so that another may be opened."""
    code = error.sqlstate
    if code is not None:
        return bool(code.startswith(LOST))
    return isinstance(error, (load().OperationalError, load().InterfaceError))


def open_error(error: Any, where: str) -> MemDBError:
    """Return the error for a failed connection, with the next thing to do."""
    code, text = error.sqlstate or "", str(error)
    if code.startswith("28") or "authentication failed" in text or "no password" in text:
        return FileError(
            f"{where} refuses the user or the password: check both, PGPASSWORD and "
            "~/.pgpass, and pg_hba.conf of the server",
            where,
        )
    if code == "3D000" or ("database" in text and "does not exist" in text):
        return FileError(
            f"{where}: there is no such database: create it (`createdb`), or check the name", where
        )
    if code in ANOTHERS_STATEMENTS:
        return shared(where)
    if code == "53300" or any(part in text for part in NO_CONNECTION_LEFT):
        return Busy("the server has no connection left: close some, or raise max_connections")
    if "read-only" in text or "not read-only" in text or "session is read-only" in text:
        return read_only_error(where)
    detail = text.strip().partition("\n")[0][:300]
    return IOFailed(f"{where} cannot be reached: check host, port and TLS settings ({detail})")


def is_starting(error: Any, *, has_others: bool) -> bool:
    """Return whether a refusing server, or one of others, may soon accept connections."""
    text = str(error)
    if any(
        part in text
        for part in (
            "is starting up",
            "is shutting down",
            "accepting connections",
            "in recovery mode",
        )
    ):
        return True
    is_away = "Connection refused" in text or "timeout" in text or "read-only" in text
    return has_others and is_away


def read_only_error(where: str) -> ReadOnly:
    """Return the error for a server on which nothing can be written."""
    return ReadOnly(
        f"{where} is a replica that cannot be written: connect to the primary, or open it with "
        'mode="read"',
        where,
    )


def unknown_commit(where: str) -> IOFailed:
    """Return the error for a commit whose outcome no server can tell any more."""
    return IOFailed(
        f"the connection to {where} was lost during a commit, which may have been done: "
        "look for it before you try again"
    )


def too_old(where: str, version: int) -> NotAMemDB:
    """Return the error for a server that is too old for memdb."""
    return NotAMemDB(
        f"{where} is PostgreSQL {version // 10_000}: memdb needs {MIN_VERSION // 10_000} or newer",
        where,
    )


def not_utf8(where: str, encoding: str) -> NotAMemDB:
    """Return the error for a database that cannot store every text."""
    return NotAMemDB(
        f"{where} has the encoding {encoding}: make a database with ENCODING 'UTF8'", where
    )


def shared(where: str) -> Unsupported:
    """Return the error for a pooler that does not keep settings and statements of a connection."""
    return Unsupported(
        f"{where} is a pooler that changes its connections after each transaction: connect to the "
        "server itself, or set pool_mode = session"
    )


def closed(where: str) -> Closed:
    """Return the error for a database that was closed."""
    return Closed(f"{where} was closed: open it again with memdb.open()")
