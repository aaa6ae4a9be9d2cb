"""
How far a copy is, and who makes it: what `memdb.transfer.copy` keeps in meta of the target.
"""

from __future__ import annotations

import os
from json import dumps, loads
from typing import TYPE_CHECKING

from memdb.errors import Busy
from memdb.records.scope_rows import new_hashes
from memdb.tables.copies import MARK

if TYPE_CHECKING:
    from typing import Any

    from memdb.records.scope_rows import Hashes, Key
    from memdb.tables.copies import ScopeRow

# How long a copy that says nothing keeps others away, if its process cannot be asked.
LEASE_MS = 120_000


class Part:
    """
    One scope that is copied, and how far it is.

    Attributes:
        row: Its row in the source.
        number: Its number in the target.
        counts: Its rows by step.
        step, after: Where the next page begins.
        done: Rows that were written.
        hashes: Of what was read; None if a part was copied before.
        is_there: The target has it already, proven equal.
    """

    __slots__ = ("after", "counts", "done", "hash", "hashes", "is_there", "number", "row", "step")

    def __init__(self, row: ScopeRow, counts: dict[str, int]) -> None:
        """Begin the copy of a scope."""
        self.row = row
        self.counts = counts
        self.number = row.scope_no
        self.step = self.done = 0
        self.after: Key | None = None
        self.hashes: Hashes | None = new_hashes()
        self.hash: str | None = None
        self.is_there = False

    @property
    def mark(self) -> str:
        """The key of meta that says how far it is."""
        return MARK + self.row.uid

    @property
    def rows(self) -> int:
        """How many rows it has."""
        return sum(self.counts.values())

    def restart(self) -> None:
        """Begin again."""
        self.step = self.done = 0
        self.after, self.hashes, self.hash = None, new_hashes(), None

    def read_mark(self, value: str) -> None:
        """Go on where a copy before this one stopped."""
        found = loads(value)
        self.number, self.step, self.done = found["scope_no"], found["step"], found["done"]
        after = found["after"]
        self.after = None if after is None else tuple(map(_from_json, after))
        if self.step or self.after:
            self.hashes = None

    def write_mark(self) -> str:
        """Return how far it is as JSON."""
        after = None if self.after is None else [_to_json(one) for one in self.after]
        place = {"step": self.step, "after": after, "done": self.done}
        return dumps({"scope_no": self.number, **place})


def _to_json(value: object) -> object:
    return {"hex": value.hex()} if isinstance(value, bytes) else value


def _from_json(value: Any) -> Any:
    return bytes.fromhex(value["hex"]) if isinstance(value, dict) else value


def lease_of(name: str, now_ms: int) -> str:
    """Return the lease of this process as JSON."""
    until_ms = now_ms + LEASE_MS
    return dumps({"lease": name, "host": host_name(), "pid": os.getpid(), "until_ms": until_ms})


def host_name() -> str:
    """Return the name of this computer, "" if it has none."""
    return os.uname().nodename if hasattr(os, "uname") else os.environ.get("COMPUTERNAME", "")


def refuse_leased(held: str | None, now_ms: int) -> None:
    """Raise Busy if another copy that goes on has the lease."""
    if held is None:
        return
    lease = loads(held)
    is_here = lease["host"] == host_name()
    if lease["until_ms"] <= now_ms or (is_here and not _is_running(lease["pid"])):
        return
    raise Busy(
        f"another copy into the target goes on (process {lease['pid']} on {lease['host']}): wait "
        "for its end"
    )


def _is_running(pid: int) -> bool:
    if os.name != "posix":
        return True  # not known: the lease ends by itself
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
