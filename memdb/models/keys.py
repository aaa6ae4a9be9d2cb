"""
The key of an encrypted file: its forms, and the places it is read from.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from memdb.errors import FileError, InvalidInput

# Bytes that are the key of the cipher themselves; a text of any length goes through its KDF.
KEY_BYTES = 32

# How the cipher marks a key that is given in hexadecimal.
# Source: https://utelle.github.io/SQLite3MultipleCiphers/docs/configuration/config_sql_pragmas/
RAW = "raw:"

MAX_KEY_FILE_BYTES = 4_096

KEY_FILE_VARIABLE, KEYRING_VARIABLE = "MEMDB_KEY_FILE", "MEMDB_KEYRING"


class FileKey:
    """A key that is shown in no repr, log line or pickle."""

    __slots__ = ("_secret",)

    def __init__(self, value: str | bytes) -> None:
        """
        Take a passphrase, or 32 bytes that are the key.

        Raises:
            InvalidInput: *value* is empty, has another length, or cannot be passed to the cipher.
        """
        if isinstance(value, bytes):
            if len(value) != KEY_BYTES:
                raise InvalidInput(
                    f"key has {len(value)} bytes: give {KEY_BYTES} bytes "
                    "(`secrets.token_bytes(32)`), or a text"
                )
            self._secret = f"{RAW}{value.hex()}"
            return
        if not isinstance(value, str):
            raise InvalidInput(f"key is a {type(value).__name__}: give bytes, text or a function")
        if not value or value.isspace() or "\0" in value or value.lower().startswith(RAW):
            raise InvalidInput(
                f"key is empty, begins with {RAW!r} or contains a zero byte: give another text"
            )
        self._secret = value

    def secret(self) -> str:
        """Return the value of `PRAGMA key` for the cipher."""
        return self._secret

    def __repr__(self) -> str:
        """Return text without the key."""
        return "FileKey(...)"

    def __reduce__(self) -> Any:
        """Refuse to be pickled."""
        raise TypeError("a key cannot be pickled: give it again in the other process")


# What callers may give as the key of a file.
AnyKey = FileKey | str | bytes | Callable[[], str | bytes]


def key_value(value: AnyKey | None) -> FileKey | None:
    """
    Return the key from the caller or the environment; None for a plain file.

    Args:
        value: A passphrase, 32 bytes, or a function that returns one of them. "" means no key,
            whatever the environment says. None means the key in the file MEMDB_KEY_FILE, or in the
            keyring under the name MEMDB_KEYRING.

    Raises:
        InvalidInput: *value* is not a key.
        FileError: the file of the key cannot be used.
    """
    if isinstance(value, FileKey):
        return value
    if value is None:
        if path := os.environ.get(KEY_FILE_VARIABLE):
            return read_key_file(path)
        name = os.environ.get(KEYRING_VARIABLE)
        return read_keyring(name) if name else None
    given = value() if callable(value) else value
    return FileKey(given) if given else None


def read_key_file(path: str | os.PathLike[str]) -> FileKey:
    """
    Return the key in a file: 32 bytes, or a line of text.

    Raises:
        FileError: the file cannot be read, or others may read it.
        InvalidInput: the file contains no key.
    """
    name = os.fspath(path)
    try:
        with open(name, "rb") as file:
            is_shared = os.name == "posix" and bool(os.fstat(file.fileno()).st_mode & 0o077)
            data = file.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise FileError(f"key file {name} cannot be read ({error.strerror})", name) from error
    if is_shared:
        raise FileError(f"key file {name} can be read by others: run `chmod 600 {name}`", name)
    if len(data) > MAX_KEY_FILE_BYTES:
        raise InvalidInput(f"key file {name} is larger than {MAX_KEY_FILE_BYTES:,} bytes")
    if not data.strip():
        raise InvalidInput(f"key file {name} is empty: write the key into it")
    if len(data) == KEY_BYTES:
        return FileKey(data)
    try:
        return FileKey(data.decode().rstrip("\r\n"))
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"key file {name} has {len(data)} bytes that are not text: a binary key has {KEY_BYTES}"
        ) from error


def read_keyring(name: str) -> FileKey:
    """
    Return the key for the service "memdb" under *name* in the system's keyring.

    Raises:
        InvalidInput: the package keyring is not installed, or has no such key.
    """
    try:
        import keyring  # noqa: PLC0415 (an optional package)
    except ImportError as error:
        raise InvalidInput(
            "to read a key from a keyring, install the package: `pip install keyring`"
        ) from error
    secret = keyring.get_password("memdb", name)
    if secret is None:
        raise InvalidInput(
            f"the keyring has no key {name} of the service 'memdb': run `keyring set memdb {name}`"
        )
    return FileKey(secret)
