"""
Packed row ids, and the ports for time and identity.

A row's integer id contains its owner and its place:

    session   scope_no << 44 | session_no << 24
    message   scope_no << 44 | session_no << 24 | seq
    entry     scope_no << 44 | n       (summaries, artifact names and items alike)

with 19, 20 and 24 bits, so an id is never negative. The ids of a scope or a session are one range,
so `WHERE id BETWEEN` filters a tenant at no cost. Source: ADR-0005; measured 0.7 ms against 4 s for
a join.

Packed ids stay inside memdb. A caller sees the `n` of an entry, item or summary, its number in the
scope; `memdb.models.record.numbered` removes the other bits from the results of public calls.

The highest bit of a session's number marks a branch. Its messages are a run of its own after the
messages that it shares (ADR-0023).

Nothing else in memdb reads the clock or asks for randomness, so two runs with
the same clock and ids give equal files.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from hashlib import blake2b
from marshal import dumps
from typing import TYPE_CHECKING, Any, Self

from memdb.errors import TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

SCOPE_SHIFT = 44
SESSION_SHIFT = 24
MAX_SCOPE_NO = (1 << 19) - 1
SESSION_NO_MASK = (1 << 20) - 1
BRANCH_NO = 1 << 19  # in the number of a session: it is a branch
MAX_SESSION_NO = BRANCH_NO - 1
MAX_SEQ = (1 << 24) - 1
MAX_NUMBER = (1 << SCOPE_SHIFT) - 1
BRANCH_BIT = BRANCH_NO << SESSION_SHIFT

# The years 101 to 9899 in UTC milliseconds.
FIRST_CLOCK_MS = -58_979_923_200_000
LAST_CLOCK_MS = 250_246_627_199_999

# The largest integer that SQLite and PostgreSQL store.
MAX_INT = (1 << 63) - 1
ALL_IDS = 0, MAX_INT

# The values of the names that statements use for the two: `id & :seq_mask` is a
# message's seq, `:max_int - rev_version` an artifact's version.
MASKS = {"seq_mask": MAX_SEQ, "max_int": MAX_INT}


# Between the names of a session and of a branch of it in a tombstone.
BRANCH_MARK = "\x1f"


MADE_DIGITS = 12  # hexadecimal, of the content of a made id


def made_id(place: str, content: bytes) -> str:
    """Return an id for a record without one in its source, from its place and its content."""
    return f"{place}~{blake2b(content, digest_size=MADE_DIGITS // 2).hexdigest()}"


def without_content(external_id: str) -> str:
    """
    Return an id that does not reveal the content: a made id keeps 8 bits of its digest.

    >>> without_content("line-3~0123456789ab#2")
    'line-3~01#2'
    """
    place, mark, made = external_id.rpartition("~")
    digest, number_mark, number = made.partition("#")
    is_made = mark and len(digest) == MADE_DIGITS
    return f"{place}~{digest[:2]}{number_mark}{number}" if is_made else external_id


class BranchName(str):
    """
    The name of a session together with that of a branch of it.

    A `BranchName` is passed where services expect the name of a session. As text it is the
    session's name, because a branch shares everything but messages with its session. A
    `BranchName` is equal only to the name of the same branch.
    """

    __slots__ = ("branch",)

    branch: str

    def __new__(cls, session: str, branch: str) -> Self:
        """Name the branch *branch* of *session*; "" names the session itself."""
        self = super().__new__(cls, session)
        self.branch = branch
        return self

    def __eq__(self, other: object) -> bool:
        """Compare the names of both."""
        return isinstance(other, BranchName) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        """Compare the names of both."""
        return not self == other

    def __hash__(self) -> int:
        """Return the hash of both names, as the comparison needs."""
        return hash(self._key())

    def _key(self) -> tuple[str, str]:
        return str(self), self.branch

    def __repr__(self) -> str:
        """Show both names."""
        return f"{str(self)!r} (branch {self.branch!r})"


def branch_of(session: str) -> str:
    """Return the branch in the name of a session, "" for the session itself."""
    return session.branch if isinstance(session, BranchName) else ""


def session_id(scope_no: int, session_no: int, *, branch: bool = False) -> int:
    """
    Return the id of session *session_no*, from 1, in scope *scope_no*; or of a branch.

    Raises:
        TooLarge: a number is above its limit.
    """
    if scope_no > MAX_SCOPE_NO:
        raise TooLarge("number of scopes in one file", MAX_SCOPE_NO, scope_no)
    if session_no > MAX_SESSION_NO:
        raise TooLarge("number of sessions in one scope", MAX_SESSION_NO, session_no)
    number = session_no | BRANCH_NO if branch else session_no
    return scope_no << SCOPE_SHIFT | number << SESSION_SHIFT


def is_branch(session: int) -> bool:
    """Return whether the session with id *session* is a branch."""
    return session & BRANCH_BIT != 0


def message_id(session: int, seq: int) -> int:
    """
    Return the id of message *seq*, from 1, in the session with id *session*.

    Raises:
        TooLarge: *seq* is out of range.
    """
    if not 1 <= seq <= MAX_SEQ:
        raise TooLarge("number of messages in one session", MAX_SEQ, seq)
    return session | seq


def session_of(message: int) -> int:
    """Return the id of the session that contains the message with id *message*."""
    return message & ~MAX_SEQ


def seq_of(message: int) -> int:
    """Return a message's place in its session, from 1."""
    return message & MAX_SEQ


def scope_of(row_id: int) -> int:
    """Return the number of the scope that contains the session, message or entry with this id."""
    return row_id >> SCOPE_SHIFT


def number_of(row_id: int) -> int:
    """Return the number of an entry, item or summary in its scope, from 1, as callers see it."""
    return row_id & MAX_NUMBER


def session_no_of(session: int) -> int:
    """Return a session's number in its scope, from 1."""
    return session >> SESSION_SHIFT & SESSION_NO_MASK


def scope_range(scope_no: int) -> tuple[int, int]:
    """Return the first and last id, both inclusive, that scope *scope_no* can hold."""
    low = scope_no << SCOPE_SHIFT
    return low, low | (1 << SCOPE_SHIFT) - 1


def session_range(session: int) -> tuple[int, int]:
    """Return the first and last message id, both inclusive, of a session."""
    return session | 1, session | MAX_SEQ


def in_rows(sessions: Collection[int]) -> dict[str, Any]:
    """Return rows of a scope with the range of its ids, as statements bind them."""
    low, high = scope_range(scope_of(max(sessions, default=0)))
    return {"sessions": sorted(sessions), "low": low, "high": high}


def span_holds_any(first: int | None, last: int | None, seqs: Sequence[int]) -> bool:
    """
    Return whether the span *first* to *last* contains one of the rising *seqs*.

    None: no span.
    """
    if first is None or last is None:
        return False
    place = bisect_left(seqs, first)
    return place < len(seqs) and seqs[place] <= last


def system_clock() -> int:
    """Return the wall clock in UTC milliseconds."""
    return time.time_ns() // 1_000_000


def bounded_clock(clock: Callable[[], int]) -> Callable[[], int]:
    """
    Return *clock*, limited to the years 101 to 9899.

    Python has no dates outside the years 1 to 9999, so a row with such a time could not be read.
    The century on both sides leaves room for times that are computed from now. The wall clock
    stays within them, because its nanoseconds end in 2262.
    """
    if clock is system_clock:
        return clock

    def read() -> int:
        now_ms = clock()
        if FIRST_CLOCK_MS <= now_ms <= LAST_CLOCK_MS:
            return now_ms
        return FIRST_CLOCK_MS if now_ms < 0 else LAST_CLOCK_MS

    return read


def uuid7(now_ms: int, random: bytes | None = None) -> str:
    """
    Return a new UUIDv7: 36 characters that sort by time.

    48 bits of *now_ms*, version, 12 random bits, variant, 62 random bits.
    Source: RFC 9562, section 5.7.

    Args:
        now_ms: UTC milliseconds.
        random: 10 random bytes; None means the system's.

    >>> uuid7(1_700_000_000_000)[:15]
    '018bcfe5-6800-7'
    """
    bits = int.from_bytes(random or os.urandom(10), "big")
    high = (now_ms & 0xFFFFFFFFFFFF) << 16 | 0x7000 | bits >> 68
    low = 0x8000000000000000 | bits & 0x3FFFFFFFFFFFFFFF
    text = "%032x" % (high << 64 | low)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def stored_ms(uid: str, created_ms: int) -> int:
    """
    Return when the row with *uid* was made: the time in a UUIDv7, else *created_ms*.

    >>> stored_ms("018bcfe5-6800-7000-8000-000000000000", 5)
    1700000000000
    """
    is_uuid7 = len(uid) == 36 and uid[14] == "7"  # noqa: PLR2004 (with its dashes)
    return int(uid[:8] + uid[9:13], 16) if is_uuid7 else created_ms


def thing_hash(*values: str | bytes | float | None) -> int:
    """
    Return 64 bits computed from *values*, which are the same in each copy of a row.

    Cost: 1 µs.
    """
    return int.from_bytes(blake2b(dumps(values, 2), digest_size=8).digest(), "big", signed=True)
