"""
Context log: which rows a context gave to which turn. Off unless `Settings.context_log_days` is set.

A call only notes its window in memory. Background work, or closing the file, stores numbers of it
as an item in the part "given" of the app, under its session. So the log expires, and is exported,
copied, checked and forgotten, as items are. No text is in it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from memdb.engine.branches import row_of
from memdb.errors import MemDBError
from memdb.items.walk import list_request
from memdb.models.fields import SHARED_PREFIX
from memdb.models.ids import BranchName, branch_of, number_of, scope_range, session_no_of
from memdb.models.items import PutItem
from memdb.models.messages import Piece
from memdb.models.record import Record
from memdb.records.scopes import GIVEN, ScopeRef, find_session, name_part
from memdb.tables import artifacts, entries, messages, sessions, summaries
from memdb.tables.artifacts import SHARED, Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from memdb.engine.base import Engine, Tx
    from memdb.items.service import ItemService
    from memdb.models.messages import ContextWindow

# What a piece may be of; the log has its place here. Frames and gaps are of nothing.
KINDS = ("message", "recalled", "summary", "digest", "entry", "artifact", "system")
MOST_NOTED = 1_000


class Noted(Record):
    """A context that is not in the log yet."""

    owner: ScopeRef
    session: str
    at_ms: int
    window: ContextWindow
    days: int


class ContextLog:
    """Notes what contexts gave, and stores and reads it. Thread-safe."""

    def __init__(self, db: Engine, items: Callable[[], ItemService]) -> None:
        """Log in *db*, as items."""
        self._db = db
        self._items = items
        self._noted: deque[Noted] = deque(maxlen=MOST_NOTED)

    def note(self, owner: ScopeRef, session: str, window: ContextWindow, days: int) -> None:
        """Remember until `write` what a context gave, which is kept for *days*."""
        if window.pieces and not self._db.is_read_only:
            self._noted.append(Noted(owner, session, self._db.clock(), window, days))

    def write(self) -> None:
        """Store what was noted; it is lost if the file cannot be written."""
        if self._db.writing:
            return
        try:
            while self._noted:
                self._write(self._noted.popleft())
        except (IndexError, MemDBError):  # another thread took the last one
            return

    def _write(self, noted: Noted) -> None:
        window = noted.window
        seq = max((one.seq for one in window.messages), default=0)
        with self._db.write() as tx:
            scope_no = noted.owner.find(tx)
            if scope_no is None or find_session(tx, noted.owner, noted.session) is None:
                return
            rows = [_row_of(tx, noted.owner, scope_no, noted.session, one) for one in window.pieces]
            new = PutItem(
                _labels(noted.session),
                f"{seq:08}-{noted.at_ms}",
                {
                    "tokens": window.tokens,
                    "budget": window.budget_tokens,
                    "rows": [*filter(None, rows)],
                },
                ttl=f"{noted.days}d",
                index=False,
            )
            self._items().put(_log_of(self._db, noted.owner), new)

    def read(self, owner: ScopeRef, session: str, seq: int) -> list[Piece]:
        """Return what the last context before message *seq* gave, as it is now."""
        wanted = list_request(
            _labels(session), exact=True, between=("0", f"{seq:08}"), limit=1, descending=True
        )
        found = self._items().list(_log_of(self._db, owner), wanted)
        if not found:
            return []
        at_ms = int(found[0].key.partition("-")[2])
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            assert scope_no is not None
            return [_piece(tx, scope_no, row, at_ms) for row in found[0].value["rows"]]


def _log_of(db: Engine, owner: ScopeRef) -> ScopeRef:
    return ScopeRef(db, name_part(owner.app, GIVEN), owner.user)


def _labels(session: str) -> tuple[str, ...]:
    return tuple(one for one in (str(session), branch_of(session)) if one)


def _row_of(
    tx: Tx, owner: ScopeRef, scope_no: int, session: str, piece: Piece
) -> list[int | None] | None:
    """Return a piece as numbers: kind, session, seqs, number, tokens; None for one of nothing."""
    if piece.kind not in KINDS:
        return None
    named = session
    if piece.session is not None and piece.session != str(session):
        named = BranchName(piece.session, piece.branch or "")
    row = find_session(tx, owner, named) or 0
    ref = piece.ref or ""
    number = int(ref) if ref.isdecimal() else None
    if piece.kind == "artifact":
        session_no = SHARED if ref.startswith(SHARED_PREFIX) else session_no_of(row)
        known = artifacts.find_name(tx, Place(scope_no, session_no, ref))
        number = None if known is None else number_of(known[0])
    return [KINDS.index(piece.kind), row, piece.first_seq, piece.last_seq, number, piece.tokens]


def _piece(tx: Tx, scope_no: int, row: list[Any], at_ms: int) -> Piece:
    """Return a logged piece with the text that its row has now."""
    place, session, first, last, number, tokens = row
    kind = KINDS[place]
    low = scope_range(scope_no)[0]
    name = sessions.names(tx, [session]).get(session)
    text: str | None = None
    ref, is_changed = None if number is None else str(number), False
    if kind == "entry":
        entry = None if number is None else entries.find(tx, low + number)
        text = None if entry is None else entry.text
        is_changed = entry is not None and entry.stored_ms > at_ms
    elif kind in ("summary", "digest"):
        summary = None if number is None else summaries.find_by_id(tx, low + number)
        text = None if summary is None else summary.text or ""
    elif kind == "artifact":
        places = artifacts.places(tx, scope_no)
        ref = text = next((one.name for one, of, _ in places if number_of(of) == number), None)
    elif name is not None and first is not None:
        row_id = row_of(tx, session, first) | first
        said = messages.get_many(tx, [row_id]).get(row_id)
        text = None if said is None else said.text
    reason = "removed since" if text is None else "changed since" if is_changed else "as given"
    shown = None if name is None else str(name)
    return Piece(kind, first, last, tokens, reason, ref, text=text or "", session=shown)
