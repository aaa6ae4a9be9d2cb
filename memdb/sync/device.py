"""
The device of a file: its id, its key, and how far it has written and read.

The device is stored in the file, so a copy or an older backup contains it too. The folder then has
more of the device than the file, and the file becomes a new device (`memdb.sync.service`).
"""

from __future__ import annotations

import json
import secrets
from base64 import b32decode, b32encode
from binascii import Error as Base32Error
from hashlib import sha256
from typing import TYPE_CHECKING

from memdb.errors import Busy, InvalidInput
from memdb.models.keys import FileKey
from memdb.models.record import Record
from memdb.sync.clock import mark_of
from memdb.tables import synced

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.engine.base import Tx

KEY_BYTES = 20
GROUP = 4


class Device(Record):
    """
    The device that a file is.

    Attributes:
        id: 16 hexadecimal digits.
        name: A name for people; nothing in the memory refers to it.
        key: The pairing key of all devices of the memory, as text.
        number: Number of its last segment; 0 before the first one.
        hash: The SHA-256 of that segment.
        stamp: The highest stamp that it made or read.
        seen: By other device, the number and the hash of the last segment that was merged.
        void: Ids that this file or another had while its clock was wrong; their segments are
            ignored.
        former: Ids that this file had before a backup was restored or the file was copied.
        forgot: By scope, how many things were forgotten at the last full segment.
        confirms: Number of the last segment that contains something forgotten.
        is_encrypted: Whether the segments of the memory are encrypted.
    """

    id: str
    name: str
    key: str
    number: int = 0
    hash: str = ""
    stamp: int = 0
    seen: dict[str, tuple[int, str]] = {}  # noqa: RUF012 (a Record is never changed)
    void: tuple[str, ...] = ()
    former: tuple[str, ...] = ()
    forgot: dict[str, int] = {}  # noqa: RUF012 (a Record is never changed)
    confirms: int = 0
    is_encrypted: bool = False

    @property
    def secret(self) -> bytes:
        """The SHA-256 of the key, with which segments are sealed."""
        return sha256(self.key.encode()).digest()

    @property
    def cipher_key(self) -> FileKey:
        """The key of encrypted segments."""
        return FileKey(sha256(b"memdb sync segment" + self.secret).digest())

    @property
    def memory(self) -> str:
        """The name of the memory, which does not reveal the key."""
        return sha256(b"memdb sync" + self.secret).hexdigest()[:16]


def new_id(taken: Iterable[str]) -> str:
    """Return the id of a new device, whose stamps differ from those of the devices *taken*."""
    marks = {mark_of(one) for one in taken}
    while mark_of(found := secrets.token_hex(8)) in marks:
        pass
    return found


def new_key() -> str:
    """Return a new pairing key: eight groups of four letters and digits."""
    text = b32encode(secrets.token_bytes(KEY_BYTES)).decode().lower()
    return "-".join(text[place : place + GROUP] for place in range(0, len(text), GROUP))


def read_key(value: object) -> str:
    """
    Return a pairing key in the form of `new_key`.

    Raises:
        InvalidInput: *value* is none.
    """
    text = "".join(str(value).split()).replace("-", "").lower()
    try:
        is_key = len(b32decode(text.upper())) == KEY_BYTES
    except (Base32Error, ValueError):
        is_key = False
    if not isinstance(value, str) or not is_key:
        raise InvalidInput(
            "pairing_key is not eight groups of four letters and digits: give the key that the "
            "first sync printed"
        )
    return "-".join(text[place : place + GROUP] for place in range(0, len(text), GROUP))


def load(tx: Tx) -> Device | None:
    """Return the device of the file, None before its first sync."""
    found = synced.device(tx)
    if not found:
        return None
    fields = {**json.loads(found[0]), "key": found[1]}
    seen = {name: (number, digest) for name, (number, digest) in fields["seen"].items()}
    lists = {name: tuple(fields[name]) for name in ("void", "former")}
    return Device(**{**fields, **lists, "seen": seen})


def store(tx: Tx, before: Device | None, device: Device) -> Device:
    """
    Store *device* in place of *before*, and return it.

    Raises:
        Busy: another sync of the file changed it meanwhile.
    """
    if load(tx) != before:
        raise Busy("another sync of this file is running: try again when it has ended")
    fields = device._asdict()
    key = fields.pop("key")
    synced.set_device(tx, json.dumps(fields), key)
    return device
