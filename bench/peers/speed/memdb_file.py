"""
memdb: messages of sessions, and items with vectors, in a file or at an address of a server.

`power` syncs each commit, `process` does not.
"""

import sys
import time

import driver

STARTED = time.perf_counter()
sys.path.insert(0, str(driver.Path(__file__).resolve().parents[3]))
import memdb

MESSAGES = sys.argv[3] == "messages"


class Peer:
    def __init__(self, folder: str) -> None:
        embedder = "static" if MESSAGES else None  # the vectors of items are given
        place = sys.argv[4] if len(sys.argv) > 4 else f"{folder}/agent.db"
        self.db = memdb.open(place, durability=sys.argv[2], embedder=embedder)

    def put(self, row: dict) -> None:
        scope = self.db.scope(row["user"])
        if MESSAGES:
            scope.session(row["session"]).append("user", row["text"])
        else:
            value = {"text": row["text"]}
            scope.items.put(("memory",), row["id"], value, index=False, vectors=[row["vector"]])

    def fill(self, rows: list[dict]) -> None:
        if not MESSAGES:
            with self.db.transaction():
                for row in rows:
                    self.put(row)
            return
        sessions: dict[tuple[str, str], list] = {}
        for row in rows:
            key = (row["user"], row["session"])
            sessions.setdefault(key, []).append(memdb.NewMessage("user", row["text"]))
        for (user, session), messages in sessions.items():
            self.db.scope(user).session(session).extend(messages)

    def rest(self) -> None:
        self.db.jobs.run(kinds=("embed",))

    def last(self, asked: dict) -> None:
        self.db.scope(asked["user"]).session(asked["session"]).last(50)

    def context(self, asked: dict) -> None:
        self.db.scope(asked["user"]).session(asked["session"]).context(4_000)

    def search(self, asked: dict) -> None:
        scope = self.db.scope(asked["user"])
        if MESSAGES:
            scope.recall(asked["text"], 10)
        else:
            scope.items.recall(vector=asked["vector"], prefix=("memory",), limit=10)

    def close(self) -> None:
        self.db.close()


driver.serve(Peer, "memdb-sqlite", STARTED)
