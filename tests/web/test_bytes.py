"""Bytes of artifacts: which are images, what their names become, and that nothing runs."""

from __future__ import annotations

import asyncio
import contextlib
import struct
import tempfile
import time
import zlib
from typing import TYPE_CHECKING

import pytest
from cases import each
from starlette.requests import ClientDisconnect

import memdb
from memdb.api.pages import copy_file
from memdb.web.bytes import MAX_IMAGE_BYTES, clean_name, download_headers, image_type, visible
from memdb.web.routes import MAX_STREAMS, Api

if TYPE_CHECKING:
    from pathlib import Path

    from web_site import Site


def png(width: int, height: int) -> bytes:
    head = struct.pack(">IIBBBBB", width, height, 8, 6, 0, 0, 0)
    chunk = struct.pack(">I", len(head)) + b"IHDR" + head
    return b"\x89PNG\r\n\x1a\n" + chunk + struct.pack(">I", zlib.crc32(b"IHDR" + head))


def jpeg(width: int, height: int) -> bytes:
    table = b"\xff\xdb" + struct.pack(">H", 67) + b"\x00" * 65
    frame = b"\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + b"\x00" * 10
    return b"\xff\xd8" + b"\xff\xe0\x00\x10JFIF" + b"\x00" * 10 + table + frame


def webp(kind: bytes, data: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + struct.pack("<I", len(data)) + data


def avif(width: int, height: int) -> bytes:
    box = b"ispe\x00\x00\x00\x00" + struct.pack(">II", width, height)
    return b"\x00\x00\x00\x1cftypavif" + b"\x00" * 16 + box


@each(
    "head, kind",
    [
        (png(4000, 4000), "image/png"),
        (png(8000, 8000), None),
        (png(0, 10), None),
        (png(10, 10)[:20], None),
        (b"GIF89a" + struct.pack("<HH", 100, 50), "image/gif"),
        (b"GIF89a" + struct.pack("<HH", 65535, 65535), None),
        (b"GIF90a" + struct.pack("<HH", 100, 50), None),
        (jpeg(4000, 3000), "image/jpeg"),
        (jpeg(65535, 65535), None),
        (b"\xff\xd8\xff\xe0\x00\x10", None),
        (b"\xff\xd8\xff" + b"\xff" * 5000, None),
        (webp(b"VP8X", b"\x00" * 4 + b"\x63\x00\x00\x31\x00\x00"), "image/webp"),
        (webp(b"VP8X", b"\x00" * 4 + b"\xff" * 6), None),
        (webp(b"VP8L", b"\x2f" + struct.pack("<I", 99 | 49 << 14)), "image/webp"),
        (webp(b"VP8 ", b"\x00" * 6 + struct.pack("<HH", 100, 50)), "image/webp"),
        (webp(b"ALPH", b"\x00" * 10), None),
        (avif(4000, 3000), "image/avif"),
        (avif(40000, 30000), None),
        (b"\x00\x00\x00\x1cftypavif", None),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "image/svg+xml"),
        (b"<?xml version='1.0'?>\n<!-- a --><svg>", "image/svg+xml"),
        (b"<html><svg></svg></html>", None),
        (b"<svgx>", None),
        (b"<!DOCTYPE html><script>alert(1)</script>", None),
        (b"GIF89a/*<script>*/", None),
        (b"%PDF-1.7", None),
        (b"", None),
    ],
)
def test_only_images_that_can_be_drawn_are_images(head: bytes, kind: str | None) -> None:
    """By their first bytes and their pixels, whatever type they were saved with."""
    assert image_type(head, len(head)) == kind
    assert image_type(head, MAX_IMAGE_BYTES + 1) is None


@each(
    "name, cleaned",
    [
        ("plan.md", "plan.md"),
        ("user:map.svg", "user_map.svg"),
        ("../../etc/passwd", "passwd"),
        ("a\\b\\c.txt", "c.txt"),
        ("evil\u202egpj.exe", "evilgpj.exe"),
        ("a\r\nSet-Cookie: x=y", "aSet-Cookie_ x=y"),
        ("...", "artifact"),
        ("/", "artifact"),
        ("a" * 500, "a" * 120),
        ("Straße 東京.png", "Straße 東京.png"),
        ("a\u200bb\U000e0041.txt", "ab.txt"),
        ('say "hi".txt', "say _hi_.txt"),
    ],
)
def test_a_name_is_cleaned(name: str, cleaned: str) -> None:
    """No path, no control, bidi, zero-width or tag character; short."""
    assert clean_name(name) == cleaned
    header = download_headers(name)["Content-Disposition"]
    assert header.isascii()
    assert header.isprintable()
    assert header.startswith("attachment; ")


def test_what_is_drawn_as_a_box() -> None:
    """Controls, bidi, zero-width, tags; line ends and tabs stay."""
    assert visible("a\u202eb\u200bc\U000e0041d\x00e\tf\ng") == "a\u25a1b\u25a1c\u25a1d\u25a1e\tf\ng"
    assert visible("Straße 東京 🎉") == "Straße 東京 🎉"


@pytest.mark.parametrize(
    ("name", "data", "kind"),
    [
        ("page.html", b"<script>alert(1)</script>", "application/octet-stream"),
        ("map.svg", b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>", "image/svg+xml"),
        ("photo.png", png(10, 10), "image/png"),
        ("lie.png", b"<html>", "application/octet-stream"),
        ("empty", b"", "application/octet-stream"),
        ("large.bin", b"0123456789abcdef" * 50_000, "application/octet-stream"),
    ],
)
def test_bytes_come_as_they_are_and_do_nothing(
    reading_site: Site, name: str, data: bytes, kind: str
) -> None:
    """As a download, in a sandbox, whatever the host said about their type."""
    artifacts = reading_site.app.db.scope("ann").session("trip").artifacts
    artifacts.save(name, data, mime="text/html")
    query = {"user": "ann", "session": "trip", "name": name}
    answer = reading_site.ask("GET", "artifact/bytes", query)

    assert answer.status == 200
    assert answer.body == data
    assert answer.headers["content-type"] == kind
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"
    assert answer.headers["content-disposition"].startswith("attachment")
    assert int(answer.headers["content-length"]) == len(data)


def test_a_version_that_is_not_there(reading_site: Site) -> None:
    """404 before anything is sent."""
    query = {"user": "ann", "session": "trip", "name": "plan.md", "version": 99}

    assert reading_site.ask("GET", "artifact/bytes", query).status == 404
    assert reading_site.ask("GET", "artifact", query).status == 404


def test_a_backup_is_a_whole_file_and_leaves_nothing(
    reading_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the client goes half-way; its temporary folder is gone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    answer = reading_site.ask("GET", "backup")
    copy = tmp_path / "copy.db"
    copy.write_bytes(answer.body)
    assert 'filename="backup of trip.db"' in answer.headers["content-disposition"]
    with memdb.open(copy) as db:
        assert db.file.check(deep=True) == []
        assert db.scope("ann").session("trip").get(1).text == "We fly to Oslo on 3 May."
    with reading_site.begin("GET", "/api/v1/backup") as connection:
        assert connection.recv(100)
    for _ in range(600):
        if not any(folder.iterdir()):
            return
        time.sleep(0.05)

    assert list(folder.iterdir()) == []


def test_downloads_whose_clients_have_gone_leave_nothing(
    reading_site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gone before the first byte: no copy of the file stays, and the next client is served."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    api = Api(reading_site.app.db, read_only=True)
    route = api.routes["backup"]["GET"]

    async def receive() -> dict[str, str]:
        return {"type": "http.disconnect"}

    async def send(_message: object) -> None:
        raise OSError

    async def ask() -> None:
        answer = api._streamed(route, copy_file(reading_site.app.db))
        assert answer is not None
        with contextlib.suppress(OSError, ClientDisconnect):
            await answer({"type": "http", "asgi": {"spec_version": "2.4"}}, receive, send)

    for _ in range(MAX_STREAMS + 1):
        asyncio.run(ask())
    api.close()
    for _ in range(1200):
        if not any(folder.iterdir()):
            return
        time.sleep(0.05)

    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(("seq", "part"), [(1, 0), (13, 1), (13, 999), (99, 0)])
def test_a_part_without_bytes(reading_site: Site, seq: int, part: int) -> None:
    """A message without parts, a part that is not there, a message that is not there."""
    query = {"user": "ann", "session": "trip", "seq": seq, "part": part}

    assert reading_site.ask("GET", "message/bytes", query).status == 404


def test_a_list_for_a_screen_holds_no_long_texts(site: Site) -> None:
    """How much is left out is said, and how to get it."""
    trip = site.app.db.scope("ann").session("trip")
    long = trip.append("user", "word " * 100_000).seq
    query = {"user": "ann", "session": "trip", "max_chars": 40, "first_seq": 13}
    answer = site.ask("GET", "messages", query)
    image, text = answer.json["items"]

    assert len(answer.body) < 2000
    part = {"type": "image", "media_type": "image/gif", "width": 1, "height": 1}
    assert image["parts"] == [{**part, "base64_bytes": 15}]
    assert text["text"] == "word " * 8
    assert text["text_chars"] == 500_000
    whole = site.ask("GET", "message", {"user": "ann", "session": "trip", "seq": long}).json
    assert len(whole["text"]) == text["text_chars"]
    assert site.ask("GET", "messages", {**query, "max_chars": 0}).status == 422
    page = site.ask("GET", "messages", {**query, "limit": 1}).json
    rest = site.ask("GET", "messages", {**query, "after": page["next"]}).json
    assert [one["seq"] for one in rest["items"]] == [long]
