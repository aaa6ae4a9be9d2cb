"""Dead bytes of a file, and the search of many byte strings at once, against plain searches."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import apsw
import pytest

from memdb.rescue.byte_search import ByteSearch
from memdb.rescue.dead_bytes import DeadBytes

LETTERS = b"abcdefghijklmnopqrstuvwxyz"


def word(source: random.Random) -> bytes:
    """Return letters that stand nowhere else."""
    return bytes(source.choices(LETTERS, k=20))


def fill(
    path: Path, page_bytes: int, source: random.Random, *, moves: bool = False
) -> tuple[set[bytes], set[bytes]]:
    """
    Make a file of every kind of page and delete half of it; return what stays and what went.

    *moves*: of a kind whose pages can be moved.
    """
    connection = apsw.Connection(str(path))
    connection.execute(f"PRAGMA auto_vacuum = {'INCREMENTAL' if moves else 'NONE'}").fetchall()
    connection.execute(f"PRAGMA page_size = {page_bytes}; PRAGMA secure_delete = OFF")
    connection.execute("PRAGMA synchronous = OFF").fetchall()
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, text)")
    connection.execute("CREATE TABLE keyed (text PRIMARY KEY) WITHOUT ROWID")
    connection.execute("CREATE INDEX plain_text ON plain (text)")
    words = {word(source): source.choice(("plain", "keyed")) for _ in range(600)}
    for text, table in words.items():
        repeated = text * source.choice((1, 1, 1, 5, 400))
        connection.execute(f"INSERT INTO {table} (text) VALUES (?)", (repeated,))
    connection.execute("COMMIT; BEGIN")
    gone = source.sample(sorted(words), 300)
    for text in gone:
        connection.execute(f"DELETE FROM {words[text]} WHERE substr(text, 1, 20) = ?", (text,))
    connection.execute("COMMIT")
    connection.close()
    return set(words) - {*gone}, {*gone}


@pytest.mark.parametrize("page_bytes", [512, 4096, 65_536])
@pytest.mark.parametrize("is_plain", [False, True])
@pytest.mark.parametrize("moves", [False, True])
def test_what_was_deleted_is_dead(
    tmp_path: Path, page_bytes: int, is_plain: bool, moves: bool
) -> None:
    """Each deleted text that the file still has is dead; what stays is in pages to be searched."""
    source = random.Random(page_bytes)
    kept, gone = fill(tmp_path / "f.db", page_bytes, source, moves=moves)
    data = (tmp_path / "f.db").read_bytes()
    connection = apsw.Connection(str(tmp_path / "f.db"))
    sql = "SELECT rootpage FROM sqlite_schema WHERE name = 'plain'"
    roots = [row[0] for row in connection.execute(sql)] if is_plain else []
    connection.close()

    dead = DeadBytes(lambda start, length: data[start : start + length], len(data), roots)
    found, pages = dead.sort(data, 1)

    all_dead, rest = b"\0".join(found), b"".join(pages)
    left = {one for one in gone if one in data}
    assert left
    assert {one for one in gone if one in all_dead} == left
    if is_plain:
        assert len(rest) < len(data)
    else:
        assert {one for one in kept if one in rest} == kept


def test_a_free_block_whose_size_is_the_byte_it_was_written_over(tmp_path: Path) -> None:
    """A deleted text of which the header of the block took one byte, by the same one."""
    connection = apsw.Connection(str(tmp_path / "f.db"))
    connection.execute("PRAGMA page_size = 512; CREATE TABLE t (text)")
    connection.execute("INSERT INTO t (text) VALUES ('first'), (?), ('last')", ("p" * 108,))
    connection.close()
    data = bytearray((tmp_path / "f.db").read_bytes())
    at = data.index(b"p" * 108)
    start = at - 3  # a block of 112 bytes, whose header ends in the first letter
    struct.pack_into(">H", data, 512 + 1, start - 512)
    struct.pack_into(">HH", data, start, 0, ord("p"))
    assert data[at : at + 108] == b"p" * 108

    dead = DeadBytes(lambda first, length: bytes(data[first : first + length]), len(data))
    found, _ = dead.sort(bytes(data), 1)

    assert any(b"p" * 108 in one for one in found)


@pytest.mark.parametrize("damage", ["header", "free list", "trunk", "root", "short", "cut"])
def test_what_the_format_does_not_explain(tmp_path: Path, damage: str) -> None:
    """It raises, so that all bytes are searched."""
    fill(tmp_path / "f.db", 1024, random.Random(1))
    data = bytearray((tmp_path / "f.db").read_bytes())
    roots = [1 << 30] if damage == "root" else []
    if damage == "header":
        data[0] = 0
    elif damage == "free list":
        data[32:36] = (1 << 30).to_bytes(4, "big")
    elif damage == "trunk":
        at = (int.from_bytes(data[32:36], "big") - 1) * 1024
        data[at : at + 4] = data[32:36]
    elif damage == "short":
        del data[50:]
    elif damage == "cut":
        del data[-100:]

    with pytest.raises(ValueError, match=r"\w"):
        DeadBytes(lambda start, length: bytes(data[start : start + length]), len(data), roots).sort(
            bytes(data), 1
        )


def test_a_page_with_wrong_numbers_is_dead(tmp_path: Path) -> None:
    """Free blocks that turn back, cells beyond the page: its bytes are all searched."""
    fill(tmp_path / "f.db", 1024, random.Random(2))
    data = (tmp_path / "f.db").read_bytes()
    blocks = b"\x0d\x01\x00\x00\x01\x03\x00\x00" + bytes(248) + b"\x00\xf0\x00\x08" + b"x" * 764
    cells = b"\x0d\x00\x00\xff\xff\x03\x00\x00" + b"y" * 1016
    unknown = b"\x07" + b"z" * 1023
    dead = DeadBytes(lambda start, length: data[start : start + length], len(data))

    found, _ = dead.sort(blocks + cells + unknown, 3_000_000)

    assert all(one in b"".join(found) for one in (b"x" * 700, b"y" * 1000, b"z" * 1000))


def test_many_strings_are_found_as_each_alone() -> None:
    """At any place of the data, at its ends, repeated, overlapping, and of any length."""
    source = random.Random(4)
    for _ in range(200):
        letters = source.choice((b"ab", LETTERS))
        data = bytes(source.choices(letters, k=source.choice((0, 30, 100, 5000))))
        wanted = [bytes(source.choices(letters, k=source.randint(1, 70))) for _ in range(10)]
        for _ in range(10):
            start, size = source.randrange(len(data) + 1), source.randint(8, 90)
            wanted.append(data[start : start + size])
        wanted = [one for one in (*wanted, data[:32], data[-33:]) if one]
        assert ByteSearch(wanted).find(data) == {one for one in wanted if one in data}
