"""
The stack by hand: apsw with a row and its words per commit, a scan with numpy, fdatasync alone.

`rows` writes the columns that a message needs and an FTS5 index, one transaction a call, with the
same syncs as memdb's default. `numpy` keeps vectors in one array and compares all of a user's.
`fdatasync` only writes 4 KiB and waits for the disk: nothing durable can be faster.
"""

import os
import sys
import time

import driver

STARTED = time.perf_counter()
import apsw
import numpy as np


class Rows:
    def __init__(self, folder: str) -> None:
        self.db = apsw.Connection(f"{folder}/raw.db")
        self.db.execute("PRAGMA journal_mode = WAL").fetchall()
        self.db.execute("PRAGMA synchronous = FULL")
        self.db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, user TEXT, session TEXT, role TEXT, "
            "text TEXT, tokens INTEGER, created_ms INTEGER)"
        )
        self.db.execute("CREATE INDEX by_session ON messages (user, session, id)")
        self.db.execute(
            'CREATE VIRTUAL TABLE words USING fts5 (text, content="messages", '
            "content_rowid='id', tokenize='porter unicode61')"
        )
        self.n = 0

    def put(self, row: dict) -> None:
        with self.db:
            self._insert(row)

    def fill(self, rows: list[dict]) -> None:
        with self.db:
            for row in rows:
                self._insert(row)

    def _insert(self, row: dict) -> None:
        self.n += 1
        text = row["text"]
        values = (self.n, row["user"], row["session"], "user", text, len(text) // 4, self.n)
        self.db.execute("INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        self.db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (self.n, text))

    def last(self, asked: dict) -> None:
        self.db.execute(
            "SELECT * FROM messages WHERE user = ? AND session = ? ORDER BY id DESC LIMIT 50",
            (asked["user"], asked["session"]),
        ).fetchall()

    def search(self, asked: dict) -> None:
        words = " OR ".join(f'"{word}"' for word in asked["text"].rstrip("?").split())
        self.db.execute(
            "SELECT m.* FROM words w JOIN messages m ON m.id = w.rowid "
            "WHERE words MATCH ? AND m.user = ? ORDER BY bm25(words) LIMIT 10",
            (words, asked["user"]),
        ).fetchall()


class Scan:
    def __init__(self, _: str) -> None:
        self.vectors: dict[str, list] = {}
        self.arrays: dict[str, np.ndarray] = {}

    def put(self, row: dict) -> None:
        self.vectors.setdefault(row["user"], []).append(np.array(row["vector"], np.float32))
        self.arrays.pop(row["user"], None)

    def search(self, asked: dict) -> None:
        if asked["user"] not in self.arrays:
            self.arrays[asked["user"]] = np.stack(self.vectors[asked["user"]])
        scores = self.arrays[asked["user"]] @ np.array(asked["vector"], np.float32)
        np.argpartition(-scores, min(10, len(scores) - 1))[:10]


class Sync:
    def __init__(self, folder: str) -> None:
        self.file = os.open(f"{folder}/sync", os.O_CREAT | os.O_WRONLY)

    def put(self, row: dict) -> None:
        os.write(self.file, row["text"].encode().ljust(4096, b"\0")[:4096])
        os.fdatasync(self.file)


KINDS = {"rows": Rows, "numpy": Scan, "fdatasync": Sync}
driver.serve(KINDS[sys.argv[2]], "numpy" if sys.argv[2] == "numpy" else "apsw", STARTED)
