"""
Every error memdb raises, and the one table from SQLite's codes to them.

MemDBError                      "internal"   exit 1   base; itself a fault of memdb
  InvalidInput (ValueError)     "invalid"    exit 5   the caller can fix it
    DimensionMismatch           "dimension"           expected, got
    TooLarge                    "too_large"           limit, got
    SecretFound                 "secret"              field, kinds
    InvalidItem (TypeError)     "invalid_item"        of a framework's session
  NotFound (LookupError)        "not_found"  exit 3   kind, ref
  Conflict                      "conflict"   exit 4
    AlreadyExists               "exists"              kind, ref
    VersionConflict             "version"             kind, ref, expected, got
  FileError                     "file"       exit 6   path
    NotAMemDB                   "not_memdb"
    KeyMissing                  "key_missing"         of an encrypted file
    WrongKey                    "wrong_key"
    CipherMissing               "cipher_missing"      the package that is installed cannot encrypt
    SchemaTooNew                "schema_new"          file_version, code_version
    SettingsTooNew              "settings_new"        what this memdb cannot use
    MigrationFailed             "migration"           from_version, to_version
    ReadOnly                    "read_only"
  StorageError                  "storage"    exit 7   sqlite_code
    Busy                        "busy"                retryable
    DiskFull                    "full"
    Corrupt                     "corrupt"
    Interrupted                 "interrupted"
    IOFailed                    "io"
    Closed                      "closed"
      SessionClosed (RuntimeError)                    of a framework
    WrongProcess                "wrong_process"
    Unsupported                 "unsupported"         the engine cannot do this
  PortError                     "port"       exit 8   name; a model, embedder or counter failed
    Unavailable                 "unavailable"         retryable
    Unreadable                  "unreadable"          the answer cannot be used
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

T = TypeVar("T")


class _ErrorType(type):
    """Keeps what every exception has out of `help` and tab completion."""

    def __dir__(cls) -> list[str]:
        """List the public attributes and methods that no other exception has."""
        names = {*type.__dir__(cls)}.difference(dir(BaseException))
        return [name for name in names if not name.startswith("_")]


class MemDBError(Exception, metaclass=_ErrorType):
    """Base of all memdb errors: `except memdb.MemDBError` catches every one."""

    code: ClassVar[str] = "internal"
    exit_code: ClassVar[int] = 1
    retryable: ClassVar[bool] = False

    # Whether the engine undid the transaction for a reason that passes: it can be done again.
    _is_undone: bool = False

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the sentence and the facts: pools carry errors between processes."""
        return _restore, (type(self), self.args, vars(self))

    def facts(self) -> dict[str, Any]:
        """Return what the error knows besides its sentence, as JSON values."""
        return {name: value for name, value in sorted(vars(self).items()) if name[0] != "_"}


def _restore(kind: type[MemDBError], args: tuple[Any, ...], facts: dict[str, Any]) -> MemDBError:
    """Return a pickled error as it was, whatever its `__init__` asks for."""
    error = kind.__new__(kind, *args)
    error.args = args
    vars(error).update(facts)
    return error


class InvalidInput(MemDBError, ValueError):
    """A value the caller gave cannot be used; nothing was written."""

    code = "invalid"
    exit_code = 5


class DimensionMismatch(InvalidInput):
    """A vector does not have its space's dimension."""

    code = "dimension"

    def __init__(self, expected: int, got: int) -> None:
        """Report that a vector of *expected* components was due and *got* came."""
        super().__init__(
            f"vector has {got} dimensions, its space has {expected}: "
            "use the embedder that made the space, or another space name"
        )
        self.expected = expected
        self.got = got


class TooLarge(InvalidInput):
    """A value is over a limit of the file format."""

    code = "too_large"

    def __init__(
        self, what: str, limit: int, got: int, fix: str = "split it or shorten it"
    ) -> None:
        """Report that *what* may be *limit* at most and was *got*, in the unit *what* names."""
        super().__init__(f"{what} is {got:,}, the limit is {limit:,}: {fix}")
        self.limit = limit
        self.got = got


# How a secret passes; an interface that has another way puts that in its place.
LET_THROUGH = (
    ", or give secrets='redact' or 'allow' (remember, append, import_file; for every call the "
    "settings secrets_in_entries and secrets_in_messages)"
)


class SecretFound(InvalidInput):
    """A text that is to be stored contains a key, token or password."""

    code = "secret"

    def __init__(self, field: str, kinds: list[str], note: str = "") -> None:
        """Report which *kinds* of secrets *field* holds, never the secrets; then *note*."""
        self.field = field
        self.kinds = sorted(set(kinds))
        super().__init__(
            f"{field} holds a secret ({', '.join(self.kinds)}): take it out{LET_THROUGH}{note}"
        )


class InvalidItem(InvalidInput, TypeError):
    """A framework's item cannot be stored; the Agents SDK expects a TypeError then."""

    code = "invalid_item"


class NotFound(MemDBError, LookupError):
    """The thing asked for is not in this scope; another scope's things never are."""

    code = "not_found"
    exit_code = 3

    def __init__(self, kind: str, ref: str | int, where: str = "this scope") -> None:
        """Report that there is no *kind* under *ref*."""
        word = "number" if isinstance(ref, int) else "name"
        super().__init__(f"no {kind} {ref!r} in {where}: list what there is, and check the {word}")
        self.kind = kind
        self.ref = ref


class Conflict(MemDBError):
    """Somebody else's write stands in the way; read again and decide."""

    code = "conflict"
    exit_code = 4


class AlreadyExists(Conflict):
    """The name or id is taken by something different."""

    code = "exists"

    def __init__(self, kind: str, ref: str | int, place: str = "") -> None:
        """Report that *ref* already names another *kind*, and *place* where."""
        where = place and f" {place}"
        super().__init__(
            f"{kind} {ref!r} already exists{where}: choose another name or remove it first"
        )
        self.kind = kind
        self.ref = ref


class VersionConflict(Conflict):
    """A compare-and-swap found another value than the caller expected."""

    code = "version"

    def __init__(self, kind: str, ref: str | int, expected: int, got: int) -> None:
        """Report that *expected* was wanted and the *kind* under *ref* is at *got*."""
        unit = "seq" if kind == "session" else "version"
        super().__init__(
            f"{kind} {ref!r} is at {unit} {got}, not at {expected}: "
            "read what was changed and try again"
        )
        self.kind = kind
        self.ref = ref
        self.expected = expected
        self.got = got


def require_version(kind: str, ref: str | int, expected: int | None, got: int) -> None:
    """
    Refuse to change a *kind* that is not at the version, or seq, that is expected.

    Args:
        expected: 0 means that there is none yet. None means any.
        got: The version that the file has, 0 if there is none.

    Raises:
        VersionConflict: the versions differ.
    """
    if expected not in (None, got):
        raise VersionConflict(kind, ref, expected, got)


class FileError(MemDBError):
    """The file as a whole cannot be used; it was left unchanged."""

    code = "file"
    exit_code = 6

    def __init__(self, message: str, path: str = "") -> None:
        """Report *message* about the file at *path*."""
        super().__init__(message)
        self.path = path


class NotAMemDB(FileError):
    """The file is not a SQLite database, or another program's."""

    code = "not_memdb"


class KeyMissing(FileError):
    """The file is encrypted, and no key was given."""

    code = "key_missing"

    def __init__(self, path: str) -> None:
        """Report that the file at *path* needs its key."""
        super().__init__(
            f"{path} is encrypted: give its key, memdb.open(path, key=...), or --key-file FILE",
            path,
        )


class WrongKey(FileError):
    """The key does not open the file; neither was changed."""

    code = "wrong_key"

    def __init__(self, path: str, *, is_plain: bool = False) -> None:
        """Report that the key is not that of the file at *path*, or that it has none."""
        reason = (
            "is not encrypted: open it without a key, or make a copy with `memdb encrypt`"
            if is_plain
            else "does not open with this key, or is another program's: give the key of the file"
        )
        super().__init__(f"{path} {reason}", path)


class CipherMissing(FileError):
    """The file is encrypted or shall be, and the apsw that is installed cannot do that."""

    code = "cipher_missing"

    def __init__(self, path: str) -> None:
        """Report how to get the cipher for the file at *path*."""
        super().__init__(
            f"{path} needs encryption, which the package apsw does not have: run `pip uninstall "
            "apsw` and `pip install --force-reinstall apsw-sqlite3mc`",
            path,
        )


class SchemaTooNew(FileError):
    """The file was written by a newer memdb."""

    code = "schema_new"

    def __init__(self, path: str, file_version: int, code_version: int) -> None:
        """Report that the file at *path* has format *file_version*, newer than *code_version*."""
        super().__init__(
            f"{path} has file format {file_version}, this memdb reads up to {code_version}: "
            "upgrade with `pip install -U memdb-sqlite`",
            path,
        )
        self.file_version = file_version
        self.code_version = code_version


class SettingsTooNew(FileError):
    """The settings that the file keeps cannot be used; a newer memdb wrote them."""

    code = "settings_new"

    def __init__(self, path: str, reason: str) -> None:
        """Report that the settings in the file at *path* are unusable, and why."""
        super().__init__(
            f"{path} has settings of a newer memdb ({reason}): "
            "upgrade with `pip install -U memdb-sqlite`",
            path,
        )


class MigrationFailed(FileError):
    """An old file could not be brought to the current format; it is unchanged."""

    code = "migration"

    def __init__(self, path: str, from_version: int, to_version: int, reason: str) -> None:
        """Report that the step *from_version* to *to_version* failed for *path*, and why."""
        super().__init__(
            f"{path} could not be migrated from format {from_version} to {to_version} ({reason}); "
            "it is unchanged: check it with the memdb that wrote it, and report this error",
            path,
        )
        self.from_version = from_version
        self.to_version = to_version


class ReadOnly(FileError):
    """The file or its folder cannot be written."""

    code = "read_only"


class StorageError(MemDBError):
    """SQLite refused; what was being written is not in the file."""

    code = "storage"
    exit_code = 7

    def __init__(self, message: str, sqlite_code: int = 0) -> None:
        """Report *message*; *sqlite_code* is the extended result code, 0 if none."""
        super().__init__(message)
        self.sqlite_code = sqlite_code


class Busy(StorageError):
    """Another process held the write lock for longer than the timeout."""

    code = "busy"
    retryable = True


class DiskFull(StorageError):
    """No room is left for the write."""

    code = "full"


class Corrupt(StorageError):
    """The file is damaged."""

    code = "corrupt"


def existing(found: T | None, table: str) -> T:
    """
    Return what is read from a row that must be there.

    Raises:
        Corrupt: the row is lost from *table*, though an index or another row names it.
    """
    if found is None:
        raise Corrupt(
            f"a row of the table {table} is lost: restore a backup (`memdb restore`) or save what "
            "can be read (`memdb recover`)"
        )
    return found


class Interrupted(StorageError):
    """The statement was interrupted."""

    code = "interrupted"
    retryable = True


class IOFailed(StorageError):
    """The operating system failed to read or write the file."""

    code = "io"


class Closed(StorageError):
    """The file was closed in this process."""

    code = "closed"


class SessionClosed(Closed, RuntimeError):
    """A framework's session was closed; the Agents SDK expects a RuntimeError then."""

    code = "session_closed"


class Unsupported(StorageError):
    """The engine of this file cannot do what was asked."""

    code = "unsupported"


class WrongProcess(StorageError):
    """The file was opened before a fork and is used after it."""

    code = "wrong_process"

    def __init__(self, message: str = "") -> None:
        """Report *message*, by default that the file must be opened again."""
        super().__init__(
            message or "the file was opened before this process was forked: open it again here"
        )


class PortError(MemDBError):
    """A plugged-in embedder, counter or model failed or broke its contract."""

    code = "port"
    exit_code = 8

    def __init__(self, name: str, message: str) -> None:
        """Report that the port called *name* failed with *message*."""
        super().__init__(f"{name} failed: {message}")
        self.name = name


class Unavailable(PortError):
    """A port gave no answer, and a retry may help: overloaded, unreachable, cut off."""

    code = "unavailable"
    retryable = True


class Unreadable(PortError):
    """A model answered in a form that cannot be parsed."""

    code = "unreadable"


# SQLite's primary result codes (sqlite.org/rescode.html), except those that
# only say success (0, 27, 28, 100, 101). An extended code maps by its low byte.
SQLITE_ERRORS: dict[int, tuple[type[StorageError], str]] = {
    1: (  # each statement is prepared against schema.sql
        Corrupt,
        "a statement of memdb does not fit the file, as if another program had changed its tables: "
        "`memdb check` names what differs; please report it if that finds nothing",
    ),
    2: (StorageError, "SQLite reports a bug of its own; please report it"),
    3: (IOFailed, "the file may not be accessed: check its permissions"),
    4: (Interrupted, "the operation was stopped by a callback: try again"),
    5: (Busy, "another process has been writing for long: try again"),
    6: (Busy, "another connection of this process is writing: try again"),
    7: (StorageError, "SQLite ran out of memory: use smaller batches"),
    8: (IOFailed, "the file is read-only: check its permissions and its folder's"),
    9: (Interrupted, "the operation was interrupted: try again"),
    10: (IOFailed, "the disk failed to read or write: check it, then run `memdb check`"),
    11: (
        Corrupt,
        "the file is damaged, or the disk cannot read it: copy it, then restore a backup "
        "(`memdb restore BACKUP FILE`), or take what is left (`memdb recover FILE NEW`); "
        "`memdb check` shows where",
    ),
    12: (StorageError, "SQLite met an unknown operation; please report it"),
    13: (
        DiskFull,
        "the disk is full, or its quota: free some space and try again; this step wrote nothing. "
        "Deleting and forgetting need some too: else move FILE, with its -wal, to a larger disk",
    ),
    14: (IOFailed, "the file cannot be opened: check that its folder exists and is writable"),
    15: (Busy, "the file is locked in an unusual way: try again"),
    16: (StorageError, "SQLite reports an internal state; please report it"),
    17: (Busy, "the schema changed while reading: try again"),
    18: (StorageError, "the value is larger than SQLite stores: split it"),
    19: (
        Corrupt,
        "a rule of the schema was broken, as if another program had deleted or changed a row: "
        "run `memdb check`, and please report it if that finds nothing",
    ),
    20: (StorageError, "a value has the wrong type; please report it"),
    21: (StorageError, "the connection was used wrongly; please report it"),
    22: (IOFailed, "the file is too large for its file system"),
    23: (StorageError, "the statement is not allowed; please report it"),
    24: (Corrupt, "the file's format is damaged: run `memdb recover FILE NEW`"),
    25: (StorageError, "a parameter is out of range; please report it"),
    26: (
        Corrupt,
        "the file is not a database: check the path, restore a backup "
        "(`memdb restore BACKUP FILE`), or take what is left (`memdb recover FILE NEW`)",
    ),
}


def from_sqlite(extended_code: int, detail: str) -> StorageError:
    """
    Return the error for an extended SQLite result code.

    Args:
        extended_code: As SQLite gave it; its low byte is the primary code.
        detail: SQLite's own sentence, kept for reports of the error.
    """
    kind, advice = SQLITE_ERRORS.get(
        extended_code & 0xFF, (StorageError, "SQLite gave an unknown code; please report it")
    )
    said = "" if detail in ("", "not an error") else f": {detail}"
    return kind(f"{advice} (SQLite {extended_code}{said})", extended_code)
