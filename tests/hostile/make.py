"""
Make the hostile corpus: files as a stranger may send them, one of each kind.

    PYTHONPATH=tests python tests/hostile/make.py FOLDER [KIND...]

Each is refused or harmless: no foreign exception, no crash, under 5 s and 256 MB
(tests/hostile/test_hostile.py). Digests are right where a stranger would compute
them too, so that they do not do the work of the other bounds.
"""

from __future__ import annotations

import hashlib
import sys
import zlib
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
from row_digests import keep_digests

import memdb
from memdb import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

MAX = (1 << 63) - 1
ENDLESS = "WITH RECURSIVE n (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT"
DEEP = "[" * 200_000 + "]" * 200_000
WIDE = "[" * 900 + "]" * 900  # the parser reads it, what walks it may not


@cache
def bomb() -> bytes:
    """Return 1.3 MB that become 300 MB."""
    return zlib.compress(bytes(300 << 20), 1)


SCHEMA = {
    "trigger-copies": (
        "CREATE TABLE loot (x); CREATE TRIGGER evil AFTER INSERT ON messages "
        "BEGIN INSERT INTO loot SELECT text FROM messages; END"
    ),
    "trigger-deletes": (
        "CREATE TRIGGER evil AFTER UPDATE ON sessions BEGIN DELETE FROM entries; END"
    ),
    "trigger-endless": (
        "CREATE TABLE loot (x); CREATE TRIGGER evil AFTER INSERT ON messages "
        f"BEGIN INSERT INTO loot {ENDLESS} count(*) FROM n; END"
    ),
    "trigger-refuses": (
        "CREATE TRIGGER evil BEFORE INSERT ON messages BEGIN SELECT raise(ABORT, 'no'); END"
    ),
    "view-endless-state": (
        "DROP TABLE state; CREATE VIEW state AS "
        f"{ENDLESS} 'default' AS app, 'ann' AS user_name, '' AS session, x AS key, '1' AS value, "
        "1 AS version, 1 AS updated_ms FROM n"
    ),
    "view-messages": (
        "ALTER TABLE messages RENAME TO stolen; CREATE VIEW messages AS SELECT * FROM stolen"
    ),
    "view-entries": f"DROP TABLE entries; CREATE VIEW entries AS {ENDLESS} x AS id FROM n",
    "view-meta": (
        "ALTER TABLE meta RENAME TO stolen; CREATE VIEW meta AS SELECT key, value FROM stolen"
    ),
    "view-with-trigger": (
        "DROP TABLE tombstones; CREATE VIEW tombstones AS SELECT 1 AS uid; "
        "CREATE TRIGGER evil INSTEAD OF INSERT ON tombstones BEGIN DELETE FROM entries; END"
    ),
    "table-missing": "DROP TABLE jobs",
    "table-other-columns": "DROP TABLE state; CREATE TABLE state (x)",
    "table-more-columns": "ALTER TABLE messages ADD COLUMN more TEXT DEFAULT 'x'",
    "table-slow-check": (
        "DROP TABLE settings; CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT, "
        "updated_ms INTEGER, digest INTEGER DEFAULT 0, CHECK (length(hex(zeroblob(9e8))) > 0))"
    ),
    "table-slow-column": (
        "DROP TABLE state; CREATE TABLE state (app, user_name, session, key, value, version, "
        "updated_ms, digest AS (length(hex(zeroblob(400000000)))))"
    ),
    "index-slow": "CREATE INDEX slow ON messages (length(hex(zeroblob(1000000))))",
    "index-missing": "DROP INDEX entries_said; DROP INDEX messages_external",
    "index-partial-unique": "CREATE UNIQUE INDEX one ON messages (role) WHERE role = 'tool'",
    "words-no-index": "DROP TABLE messages_fts; CREATE TABLE messages_fts (text, author, bigrams)",
    "words-of-other-table": (
        "DROP TABLE messages_fts; CREATE VIRTUAL TABLE messages_fts USING fts5 "
        "(text, author, bigrams, content='meta')"
    ),
    "words-unknown-tokenizer": (
        "DROP TABLE entries_fts; CREATE TABLE entries_fts (text, keywords, bigrams)"
    ),
    "words-damaged": "UPDATE messages_fts_data SET block = x'ffffffffffffffffffff'",
    "words-empty": "DELETE FROM messages_fts_data; DELETE FROM messages_fts_idx",
    "other-tables": "CREATE TABLE notes (x); CREATE VIRTUAL TABLE more USING fts5 (y)",
    "format-negative": "PRAGMA user_version = -1",
    "format-none": "PRAGMA user_version = 0",
    "format-future": "PRAGMA user_version = 2147483647",
    "program-other": "PRAGMA application_id = 7",
    "fingerprint-missing": "DELETE FROM meta WHERE key = 'fingerprint'",
    "meta-empty": "DELETE FROM meta",
}

VALUES = {
    "chunk-bomb": "UPDATE blob_chunks SET codec = 'zlib', data = :bomb",
    "chunk-bomb-with-size": (
        "UPDATE blob_chunks SET codec = 'zlib', data = :bomb, size_bytes = 314572800; "
        "UPDATE blobs SET size_bytes = 314572800; UPDATE artifacts SET size_bytes = 314572800"
    ),
    "chunk-raw-long": "UPDATE blob_chunks SET codec = 'raw', data = zeroblob(3000000)",
    "chunk-no-zlib": "UPDATE blob_chunks SET codec = 'zlib', data = x'0102'",
    "chunk-missing": "DELETE FROM blob_chunks",
    "blob-size-endless": f"UPDATE blobs SET size_bytes = {MAX}; UPDATE artifacts SET size_bytes = {MAX}",
    "segment-bomb": "UPDATE archive_segments SET data = :bomb",
    "segment-no-zlib": "UPDATE archive_segments SET data = x'00'",
    "segment-run-endless": (
        "UPDATE archive_segments SET data = :run, sha256 = :run_sha256, message_count = 999999999"
    ),
    "segment-run-backwards": "UPDATE archive_segments SET data = :back, sha256 = :back_sha256",
    "metadata-deep": "UPDATE messages SET metadata = :deep; UPDATE entries SET metadata = :deep",
    "metadata-nested": "UPDATE messages SET metadata = :wide; UPDATE entries SET metadata = :wide",
    "metadata-no-json": "UPDATE messages SET metadata = '{'; UPDATE sessions SET metadata = '{'",
    "metadata-long-number": (
        "UPDATE messages SET metadata = '{\"a\":' || replace(hex(zeroblob(5000)), '0', '9') || '}'"
    ),
    "parts-deep": "UPDATE messages SET parts = :deep",
    "parts-no-list": "UPDATE messages SET parts = '5'",
    "parts-of-numbers": "UPDATE messages SET parts = '[1, null, [2]]'",
    "time-largest": f"UPDATE messages SET created_ms = {MAX}",
    "time-smallest": "UPDATE messages SET created_ms = -9223372036854775807 - 1",
    "time-entries": f"UPDATE entries SET created_ms = {MAX}, valid_from_ms = {MAX}, valid_to_ms = {MAX}",
    "time-sessions": f"UPDATE sessions SET created_ms = {MAX}, updated_ms = {MAX}",
    "time-artifacts": f"UPDATE artifacts SET created_ms = {MAX}",
    "tokens-overflow": f"UPDATE messages SET tokens = {MAX}; UPDATE summaries SET tokens = {MAX}",
    "counters-largest": f"UPDATE scopes SET last_n = {MAX}; UPDATE entries SET use_count = {MAX}",
    "seq-largest": "UPDATE sessions SET last_seq = 16777215",
    "version-largest": f"UPDATE artifact_names SET last_version = {MAX}; UPDATE entries SET version = {MAX}",
    "vector-not-finite": "UPDATE vectors SET vector = CAST(x'0000c07f' || substr(vector, 5) AS BLOB)",
    "vector-long": "UPDATE vectors SET vector = zeroblob(400000)",
    "sketch-long": "UPDATE vector_groups SET slots = zeroblob(256), planes = zeroblob(2560)",
    "space-huge": "UPDATE embedding_spaces SET dim = 65536",
    "job-endless": f"UPDATE jobs SET next_seq = {MAX}, attempts = {MAX}, due_ms = -{MAX}",
    "state-no-json": "UPDATE state SET value = '{'",
    "state-deep": "UPDATE state SET value = :deep",
    "settings-unknown": "UPDATE settings SET name = 'no_such_field' WHERE name = 'summary_group'",
    "settings-deep": "UPDATE settings SET value = :deep",
    # Of one entry: a search for secrets takes 0.2 s per MB, whoever wrote it.
    "entry-keywords-long": (
        "UPDATE entries SET keywords = hex(zeroblob(4000000)) "
        "WHERE id = (SELECT min(id) FROM entries)"
    ),
    "entry-superseded-by-itself": "UPDATE entries SET superseded_by = id",
    "summary-of-itself": "UPDATE summaries SET condensed_into = id",
    "summary-span-endless": f"UPDATE summaries SET last_seq = {MAX}",
    "role-unknown": "UPDATE messages SET role = 'oracle'",
    "name-with-nul": "UPDATE sessions SET name = 'a' || char(0) || 'b' WHERE name = 'trip'",
    "text-with-nul": "UPDATE messages SET text = 'a' || char(0) || 'b' WHERE text IS NOT NULL",
}


def inserted(text: str) -> dict[str, bytes]:
    """Return a segment of the uncompressed *text* with its hash."""
    return {"data": zlib.compress(text.encode()), "sha256": hashlib.sha256(text.encode()).digest()}


RUN, BACK = inserted("1-999999999\0a\0\0"), inserted("9-1\0a\0\0")
BINDINGS = {
    "deep": f'{{"a":{DEEP}}}',
    "wide": f'{{"a":{WIDE}}}',
    "run": RUN["data"],
    "run_sha256": RUN["sha256"],
    "back": BACK["data"],
    "back_sha256": BACK["sha256"],
}


def _cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def _page_size(data: bytes) -> bytes:
    return data[:16] + b"\x02\x00" + data[18:]


def _freelist(data: bytes) -> bytes:
    return data[:32] + b"\x00\x00\x00\x02\xff\xff\xff\xff" + data[40:]


BYTES: dict[str, Callable[[bytes], bytes]] = {
    "bytes-cut": _cut,
    "bytes-head-only": lambda data: data[:100],
    "bytes-page-size": _page_size,
    "bytes-free-list": _freelist,
    "bytes-no-database": lambda _: b"hello " * 10_000,
    "bytes-zeros": lambda data: data[:4096] + bytes(len(data) - 4096),
    "bytes-wal-mode-old": lambda data: data[:18] + b"\x09\x09" + data[20:],
    "bytes-no-utf8": lambda data: data.replace(b"We drank tea", b"\xe1\xe2 drank tea"),
}

KINDS = (*SCHEMA, *VALUES, *BYTES)


class Embedder:
    """Points each text somewhere."""

    name = "hostile"
    dim = 8

    def embed(self, texts: list[str]) -> list[list[float]]:
        """Return a vector per text by its letters."""
        return [[1.0 + text.count(letter) for letter in "aeioutns"] for text in texts]


def make_sound(path: str) -> None:
    """Make a file with rows in every table that the kinds change."""
    settings = Settings(summary_messages=2, summary_condense_at=3, summary_group=2)
    with memdb.open(path, embedder=Embedder(), counter="estimate", settings=settings) as db:
        ann = db.scope("ann")
        trip = ann.session("trip")
        trip.extend(
            [
                {"role": "user", "text": f"We drank tea {n}.", "metadata": {"n": n}}
                for n in range(12)
            ]
        )
        trip.append("assistant", parts=[{"type": "text", "text": "More tea?"}])
        ann.remember("Ann likes tea.", key="drink", metadata={"a": 1})
        ann.remember("Ann likes green tea.", key="drink")
        ann.artifacts.save("soup.txt", "soup " * 200)
        ann.state["mood"] = "good"
        old = ann.session("old")
        old.extend([{"role": "user", "text": f"Old tea {n}."} for n in range(4)])
        old.archive(keep_last=0)
        db.jobs.run()
        trip.summaries.compact()


def make(kind: str, sound: str, target: str) -> None:
    """Write the hostile file of a kind to *target*, from the sound one."""
    data = Path(sound).read_bytes()
    if kind in BYTES:
        Path(target).write_bytes(BYTES[kind](data))
        return
    Path(target).write_bytes(data)
    connection = apsw.Connection(target)
    keep_digests(connection)
    connection.execute("PRAGMA ignore_check_constraints = ON; PRAGMA foreign_keys = OFF").fetchall()
    sql = SCHEMA.get(kind) or VALUES[kind]
    names = {name: value for name, value in BINDINGS.items() if f":{name}" in sql}
    if ":bomb" in sql:
        names["bomb"] = bomb()
    connection.execute(sql, names or None).fetchall()
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    connection.close()


def main() -> None:
    """Write a sound file and those of the kinds that are named, or all, into a folder."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    make_sound(str(folder / "sound.db"))
    for kind in sys.argv[2:] or KINDS:
        make(kind, str(folder / "sound.db"), str(folder / f"{kind}.db"))


if __name__ == "__main__":
    main()
