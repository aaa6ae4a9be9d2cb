"""
Context log: which rows a context gave to which turn, and which rows an answer gave to a client.

The log is off unless `Settings.context_log_days` is set. A call only notes its rows in memory.
Background work, or closing the file, stores their numbers as an item in the part "given" of the
app, under the session. An answer of a tool of MCP belongs to no turn. Such an answer is stored
under the name of the client ("mcp:claude-code"), as if that were a session whose messages are the
answers.

So the log expires, and is exported, copied, checked and forgotten, as items are. No text is in it.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from memdb.engine.branches import row_of
from memdb.errors import MemDBError
from memdb.items.walk import list_request
from memdb.models.fields import SHARED_PREFIX
from memdb.models.ids import BranchName, branch_of, number_of, scope_range, session_no_of
from memdb.models.items import SEPARATOR, PutItem
from memdb.models.messages import Piece
from memdb.records.scopes import GIVEN, ScopeRef, find_session, name_part
from memdb.tables import artifacts, entries, items, messages, sessions, summaries
from memdb.tables.artifacts import SHARED, Place
from memdb.text.validate import iso_time

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.items.service import ItemService
    from memdb.models.items import Item
    from memdb.models.messages import ContextWindow

# What a piece may be of; the log has its place here. Frames and gaps are of nothing.
KINDS = (
    *("message", "recalled", "summary", "digest", "entry", "artifact", "system"),
    *("item", "session"),
)
MOST_NOTED = 1_000
SERVER = "mcp"  # of a client without a name


class Noted(NamedTuple):
    """
    A context or an answer that is not yet stored in the log.

    Attributes:
        session: The session; for an answer the name of the client.
        seq: The last message of the context. None means an answer; the answers to a client are
            numbered.
        about: Tokens and budget of the context, or the tool that answered.
    """

    owner: ScopeRef
    session: str
    seq: int | None
    at_ms: int
    pieces: Sequence[Piece]
    about: dict[str, Any]
    days: int


class ContextLog:
    """Notes what contexts gave, and stores and reads it. Thread-safe."""

    def __init__(self, db: Engine, items: Callable[[], ItemService]) -> None:
        """Log in *db*, as items."""
        self._db = db
        self._items = items
        self._noted: deque[Noted] = deque(maxlen=MOST_NOTED)

    def note(self, owner: ScopeRef, session: str, window: ContextWindow, days: int) -> None:
        """Keep in memory until `write` what a context gave; it is stored for *days*."""
        seq = max((one.seq for one in window.messages), default=0)
        about = {"tokens": window.tokens, "budget": window.budget_tokens}
        self._note(owner, session, seq, window.pieces, about, days)

    def note_answer(self, owner: ScopeRef, tool: str, pieces: Sequence[Piece], days: int) -> None:
        """Keep in memory until `write` what a tool gave to the client of this call."""
        self._note(owner, self._db.written_by or SERVER, None, pieces, {"tool": tool}, days)

    def _note(
        self,
        owner: ScopeRef,
        session: str,
        seq: int | None,
        pieces: Sequence[Piece],
        about: dict[str, Any],
        days: int,
    ) -> None:
        if pieces and not self._db.is_read_only:
            at_ms = self._db.clock()
            self._noted.append(Noted(owner, session, seq, at_ms, pieces, about, days))

    def write(self) -> None:
        """Store the noted contexts and answers; they are lost if the file cannot be written."""
        if self._db.writing:
            return
        try:
            while self._noted:
                self._write(self._noted.popleft())
        except (IndexError, MemDBError):  # another thread took the last one
            return

    def _write(self, noted: Noted) -> None:
        log, seq = _log_of(self._db, noted.owner), noted.seq
        with self._db.write() as tx:
            scope_no = noted.owner.find(tx)
            if scope_no is None:
                return
            if seq is None:
                last = self._last(log, noted.session)
                seq = 1 + (0 if last is None else int(last.key.partition("-")[0]))
            elif find_session(tx, noted.owner, noted.session) is None:
                return
            rows = [_row_of(tx, noted.owner, scope_no, noted.session, one) for one in noted.pieces]
            new = PutItem(
                _labels(noted.session),
                f"{seq:08}-{noted.at_ms}",
                {**noted.about, "rows": [*filter(None, rows)]},
                ttl=f"{noted.days}d",
                index=False,
            )
            self._items().put(log, new)

    def read(self, owner: ScopeRef, session: str, seq: int | None) -> list[Piece]:
        """
        Return the rows of the last context before message *seq*, as they are now.

        None for *seq* means the last one. [] if none is logged.
        """
        found = self._last(_log_of(self._db, owner), session, seq)
        if found is None:
            return []
        at_ms = int(found.key.partition("-")[2])
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            assert scope_no is not None
            given = [_piece(tx, scope_no, row, at_ms) for row in found.value["rows"]]
        if tool := found.value.get("tool"):
            by = f"by {tool} at {iso_time(at_ms)}"
            given = [one.replace(reason=f"{one.reason}, {by}") for one in given]
        return given

    def _last(self, log: ScopeRef, session: str, before: int | None = None) -> Item | None:
        """Return the log's item of a session for the last message before *before*."""
        end = ":" if before is None else f"{before:08}"  # ":" is behind all digits
        wanted = list_request(
            _labels(session), exact=True, between=("0", end), limit=1, descending=True
        )
        return next(iter(self._items().list(log, wanted)), None)


def _log_of(db: Engine, owner: ScopeRef) -> ScopeRef:
    return ScopeRef(db, name_part(owner.app, GIVEN), owner.user)


def _labels(session: str) -> tuple[str, ...]:
    return tuple(one for one in (str(session), branch_of(session)) if one)


def _row_of(
    tx: Tx, owner: ScopeRef, scope_no: int, session: str, piece: Piece
) -> list[int | None] | None:
    """
    Return a piece as numbers: kind, session, seqs, number, tokens.

    None for a piece without a row.
    """
    if piece.kind not in KINDS:
        return None
    named = session
    if piece.session is not None and piece.session != str(session):
        named = BranchName(piece.session, piece.branch or "")
    row = find_session(tx, owner, named) or 0
    ref = piece.ref or ""
    number = int(ref) if ref.isdecimal() else None
    if piece.kind == "item":
        path, separator, key = ref.rpartition(SEPARATOR)
        item = items.find(tx, scope_no, path + separator, key)
        number = None if item is None else number_of(item.item.id)
    elif piece.kind == "artifact":
        session_no = SHARED if ref.startswith(SHARED_PREFIX) else session_no_of(row)
        known = artifacts.find_name(tx, Place(scope_no, session_no, ref))
        number = None if known is None else number_of(known[0])
    return [KINDS.index(piece.kind), row, piece.first_seq, piece.last_seq, number, piece.tokens]


def _piece(tx: Tx, scope_no: int, row: list[Any], at_ms: int) -> Piece:
    """Return a logged piece with the present text of its row."""
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
    elif kind == "item":
        stored = None if number is None else items.get_many(tx, [low + number]).get(low + number)
        text = None if stored is None else stored.text or ""
        is_changed = stored is not None and stored.item.updated_ms > at_ms
    elif kind == "session":
        text = None if name is None else sessions.titles(tx, [session]).get(session, "")
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
