"""
Bytes and plain texts: artifacts as downloads or images, a session as a page of text.

Bytes in a file may come from anybody. Such bytes are sent as a download with a cleaned name, under
a policy that lets nothing run. Only an image that browsers can show gets the type of an image, by
its first bytes, up to 20 MB and 40 megapixels. The page shows it in `<img>`, where a script in an
SVG does not run. All else is octets.
"""

from __future__ import annotations

import re
import shutil
import struct
import unicodedata
from datetime import datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

from memdb.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from memdb.api.pages import OpenBytes
    from memdb.api.session import Session
    from memdb.models.messages import Message

MAX_IMAGE_BYTES = 20_000_000
MAX_PIXELS = 40_000_000
MAX_NAME_CHARS = 120
HEAD_BYTES = 1 << 18
CHUNK_BYTES = 1 << 16
OCTETS = "application/octet-stream"
SANDBOX = "default-src 'none'; sandbox"
SVG_START = re.compile(rb"\s*(<\?xml[^>]{0,200}\?>\s*)?(<!--.{0,2000}?-->\s*)*<svg[\s>]", re.DOTALL)
PNG, JPEG = b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"
# Markers of JPEG that begin a frame: all from C0 to CF but the tables.
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
VP8X_BYTES = 30


def image_type(head: bytes, size_bytes: int) -> str | None:
    """
    Return the type of an image that browsers can show and that is not too large, else None.

    Args:
        head: Its first `HEAD_BYTES`, or all of it.
        size_bytes: Size of the whole.
    """
    if size_bytes > MAX_IMAGE_BYTES:
        return None
    if SVG_START.match(head[:4096]):
        return "image/svg+xml"
    kind, size = _measured(head)
    if size is None or not 0 < size[0] * size[1] <= MAX_PIXELS:
        return None
    return kind


def _measured(head: bytes) -> tuple[str, tuple[int, int] | None]:
    """Return type and size in pixels; no size if it cannot be read."""
    try:
        if head.startswith(PNG):
            return "image/png", struct.unpack(">II", head[16:24])
        if head[:6] in (b"GIF87a", b"GIF89a"):
            return "image/gif", struct.unpack("<HH", head[6:10])
        if head.startswith(JPEG):
            return "image/jpeg", _jpeg_size(head)
        if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
            return "image/webp", _webp_size(head)
        if head[4:12] in (b"ftypavif", b"ftypavis"):
            at = head.index(b"ispe") + 8
            return "image/avif", struct.unpack(">II", head[at : at + 8])
    except (struct.error, ValueError, IndexError):
        pass
    return OCTETS, None


def _jpeg_size(head: bytes) -> tuple[int, int] | None:
    at = 2
    while at + 9 < len(head) and head[at] == 0xFF:  # noqa: PLR2004 (what begins each marker)
        marker, length = head[at + 1], int.from_bytes(head[at + 2 : at + 4], "big")
        if marker in FRAMES:
            height, width = struct.unpack(">HH", head[at + 5 : at + 9])
            return width, height
        at += 2 + length
    return None


def _webp_size(head: bytes) -> tuple[int, int] | None:
    kind, data = head[12:16], head[20:VP8X_BYTES]
    if kind == b"VP8X":
        width = int.from_bytes(data[4:7], "little") + 1
        return width, int.from_bytes(data[7:10], "little") + 1
    if kind == b"VP8L":
        bits = int.from_bytes(data[1:5], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[6:10])
        return width & 0x3FFF, height & 0x3FFF
    return None


def clean_name(name: str) -> str:
    r"""
    Return a name for a downloaded file: no path, no control or bidi characters.

    >>> clean_name("user:../../etc/pass\u202ewd\r\nX: y")
    'passwdX_ y'
    """
    kept = "".join(
        one for one in name if unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    )
    last = re.split(r"[/\\]", kept)[-1]
    cleaned = re.sub(r'[<>:"|?*]', "_", last).strip(" .")[:MAX_NAME_CHARS]
    return cleaned or "artifact"


def download_headers(name: str) -> dict[str, str]:
    """Return the headers for bytes of the file."""
    cleaned = clean_name(name)
    plain = re.sub(r"[^A-Za-z0-9 ._-]", "_", cleaned)
    return {
        "Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''"
        + quote(cleaned, safe=""),
        "Content-Security-Policy": SANDBOX,
    }


class Download:
    """Bytes of the file, as an answer."""

    def __init__(self, content: OpenBytes) -> None:
        """Answer *content*."""
        head = content.data.read(HEAD_BYTES)
        content.data.seek(0)
        self.chunks = Chunks(content.data)
        self.kind = image_type(head, content.size_bytes) or OCTETS
        self.headers = {
            **download_headers(content.name),
            "Content-Length": str(content.size_bytes),
            "ETag": f'"{content.tag}"',
        }


class Chunks:
    """
    The bytes of an open file, a chunk at a time.

    The object is not a generator, so that `close` also ends one that never began.
    """

    def __init__(self, data: BinaryIO, folder: str | None = None) -> None:
        """Read *data*, and remove *folder* at the end."""
        self._data = data
        self._folder = folder

    def __iter__(self) -> Iterator[bytes]:
        """Return itself."""
        return self

    def __next__(self) -> bytes:
        """Return the next chunk."""
        chunk = b"" if self._data.closed else self._data.read(CHUNK_BYTES)
        if not chunk:
            self.close()
            raise StopIteration
        return chunk

    def close(self) -> None:
        """Close the file and remove its folder."""
        self._data.close()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def read_session(session: Session) -> Iterator[str]:
    """
    Return the messages of a session as plain text, to read, search and print.

    Raises:
        NotFound: there is no such session.
    """
    head = session.head()
    if head is None:
        raise NotFound("session", session.name)
    return _read(session, head.title or session.name)


def _read(session: Session, title: str) -> Iterator[str]:
    yield f"{one_line(title)}\n"
    for message in session.messages():
        yield f"\n{_heading(message)}\n{visible(message.text)}\n"


def _heading(message: Message) -> str:
    at = datetime(1970, 1, 1) + timedelta(milliseconds=message.created_ms)  # noqa: DTZ001 (UTC)
    who = f"{message.role} {message.author}" if message.author else message.role
    return one_line(f"#{message.seq}  {at.isoformat(' ', 'minutes')}  {who}")


def visible(text: str) -> str:
    """Return *text* with characters that hide or turn others drawn as boxes."""
    if text.isprintable():
        return text
    return "".join(
        one if one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs") else "\u25a1"
        for one in text
    )


def one_line(text: str) -> str:
    """Return *text* as one line."""
    return " ".join(visible(text).split())
