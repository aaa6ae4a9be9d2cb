"""
Tokens of `memdb serve`: the access of each program to users' memories.

A token file has a line of JSON per token, a `Grant`: its id, its SHA-256 and its rights. The token
itself is shown once, when it is made, and is stored nowhere. A token whose line was removed is
refused from the next request on.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from contextlib import suppress
from typing import Any

from memdb.engine.files import private_file
from memdb.errors import FileError, NotFound
from memdb.models.record import Record

TOKEN_BYTES = 32
ID_BYTES = 4
MAX_FILE_BYTES = 16 << 20


class Grant(Record):
    """
    Rights of a token.

    Attributes:
        id: Names the token in the file; it is not a secret.
        user: The user of the memory; None means everything.
        app: The program that the memory belongs to; None if *user* is None.
        shared: Whether it may also write the memory that all users of the app share.
        sha256: Hash of the token, in hexadecimal.
        created_ms: Time when it was made.
    """

    id: str
    user: str | None
    app: str | None
    shared: bool
    sha256: str
    created_ms: int


def new_token(
    user: str | None, app: str | None, now_ms: int, *, shared: bool = False
) -> tuple[str, Grant]:
    """Return a new token, and its record for the file."""
    token = secrets.token_urlsafe(TOKEN_BYTES)
    return token, Grant(secrets.token_hex(ID_BYTES), user, app, shared, hash_of(token), now_ms)


def hash_of(token: str) -> str:
    """Return the hash of a token. The hash needs no salt: a token has 256 random bits."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def read_grants(path: str) -> list[Grant]:
    """
    Return the tokens in a file, oldest first.

    Raises:
        FileError: the file cannot be read, others can read or write it, or a line is not a token.
    """
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            text = file.read(MAX_FILE_BYTES)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise FileError(
            f"{path} cannot be read ({reason}): `memdb token add` creates a token file", path
        ) from error
    # The owner of a mounted secret is another account, which gives it to our group.
    theirs = 0o077 if os.name == "posix" and found.st_uid == os.geteuid() else 0o027
    if os.name == "posix" and found.st_mode & theirs:
        raise FileError(f"{path} can be read or written by others: run `chmod 600 {path}`", path)
    return [_grant_of(line, path) for line in text.splitlines() if line.strip()]


def _grant_of(line: str, path: str) -> Grant:
    found: Any = None
    with suppress(ValueError, RecursionError):
        found = json.loads(line)
    if isinstance(found, dict) and found.keys() == set(Grant.__match_args__):
        grant = Grant(**found)
        texts = [grant.id, grant.sha256, grant.user or "", grant.app or ""]
        is_sound = isinstance(grant.shared, bool) and (grant.user is None) == (grant.app is None)
        if is_sound and all(isinstance(one, str) for one in texts):
            return grant
    raise FileError(
        f"{path} has a line that is not a token: make the file again with `memdb token`", path
    )


def write_grants(path: str, grants: list[Grant]) -> None:
    """
    Write a token file; the old one stays until the new one is complete.

    Raises:
        FileError: the file cannot be written.
    """
    lines = [json.dumps({name: getattr(one, name) for name in FIELDS}) for one in grants]
    with private_file(path) as file:
        file.writelines(f"{line}\n".encode() for line in lines)


FIELDS = ("id", "user", "app", "shared", "sha256", "created_ms")


def add_grant(
    path: str, user: str | None, app: str | None, now_ms: int, *, shared: bool = False
) -> tuple[str, Grant]:
    """Make a token and store its hash in a file, which may be new; return both."""
    grants = read_grants(path) if os.path.lexists(path) else []
    token, grant = new_token(user, app, now_ms, shared=shared)
    write_grants(path, [*grants, grant])
    return token, grant


def remove_grant(path: str, token_id: str) -> Grant:
    """
    Remove a token from a file, and return its grant.

    Raises:
        NotFound: the file has no such token.
    """
    grants = read_grants(path)
    found = next((one for one in grants if one.id == token_id), None)
    if found is None:
        raise NotFound("token", token_id, path)
    write_grants(path, [one for one in grants if one is not found])
    return found


class TokenFile:
    """The tokens of a file, read again when it changes."""

    def __init__(self, path: str) -> None:
        """Read *path*; FileError if it is not a token file."""
        self._path = path
        self._place: tuple[int, ...] = ()
        self._by_hash: dict[str, Grant] = {}
        self._read()

    def find(self, token: str) -> Grant | None:
        """Return the grant of a token, None for an unknown one. Cost: 5 µs."""
        with suppress(FileError):  # a file that is gone for a moment changes nothing
            self._read()
        return self._by_hash.get(hash_of(token))

    def _read(self) -> None:
        place: tuple[int, ...] = ()
        with suppress(OSError):
            found = os.stat(self._path)
            place = found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
        if place and place == self._place:
            return
        self._by_hash = {one.sha256: one for one in read_grants(self._path)}
        self._place = place
