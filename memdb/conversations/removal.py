"""
Taking messages back: the newest of a session, some, or all of them.

What is derived from a message goes in the same transaction: its words, its
vector, the summaries that stand for it, and jobs about them. Its seq is never
given out again, so what points to it (an entry, an artifact) points to nothing
then, not to another message.
"""

from __future__ import annotations

from memdb.errors import VersionConflict
from memdb.models.ids import MAX_SEQ
from memdb.records import messages as records
from memdb.tables import messages, sessions
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from memdb.conversations.writer import Writer
    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Message, NewMessage
    from memdb.records.scopes import Owner


def pop(
    db: Database,
    writer: Writer,
    owner: Owner,
    session: str,
    expected_seq: int | None = None,
    instead: Sequence[NewMessage] = (),
) -> Message | None:
    """
    Remove the newest message of a session and return it; None where there is none.

    Args:
        expected_seq: Its seq as the caller knows it, 0 for none: of two
            that know the same, one succeeds.
        instead: What to add in its place; nothing if there is none.

    Raises:
        InvalidInput: a field of *instead*; nothing was written.
        VersionConflict: the newest message is not *expected_seq*.
        Corrupt: it is archived, and its segment is damaged.

    Transaction: opens its own, after counting.
    """
    name_value(session, "session")
    rows = writer.ready_rows(instead)
    with db.write() as tx:
        target, newest = _newest(tx, owner, session, expected_seq)
        if target is None or newest is None:
            return None
        records.remove(tx, target, [newest.seq])
        if rows:
            writer.before_write(tx)
            writer.add_rows(tx, target, session, rows)
        return newest


def replace(
    db: Database,
    writer: Writer,
    owner: Owner,
    session: str,
    seqs: Iterable[int],
    instead: Sequence[NewMessage] = (),
    expected_seq: int | None = None,
) -> list[Message]:
    """
    Remove messages of a session and add others at its end; see `Session.replace`.

    Raises:
        InvalidInput: a seq, or a field of *instead*; nothing was written.
        VersionConflict: the newest message is not *expected_seq*.
        Corrupt: one is archived, and its segment is damaged.

    Transaction: opens its own, after counting.
    """
    name_value(session, "session")
    gone = sorted({int_value(seq, "seq", 1, MAX_SEQ) for seq in seqs})
    rows = writer.ready_rows(instead)
    with db.write() as tx:
        target, _ = _newest(tx, owner, session, expected_seq)
        if target is not None and gone:
            records.remove(tx, target, gone)
        if not rows:
            return []
        writer.before_write(tx)
        target = writer.ensure_session(tx, owner, session)
        return writer.add_rows(tx, target, session, rows)


def _newest(
    tx: Tx, owner: Owner, session: str, expected_seq: int | None
) -> tuple[int | None, Message | None]:
    """Return a session's id and newest message, which *expected_seq* must be if it is given."""
    scope_no = owner.find(tx)
    target = None if scope_no is None else sessions.find(tx, scope_no, session)
    newest = [] if target is None else messages.last(tx, target, session, 1)
    found = newest[0].seq if newest else 0
    if expected_seq is not None and found != int_value(expected_seq, "expected_seq", 0, MAX_SEQ):
        raise VersionConflict(expected_seq, found)
    return target, newest[0] if newest else None


def clear(db: Database, owner: Owner, session: str) -> bool:
    """Remove every message of a session, which stays; False if there was none."""
    name_value(session, "session")
    with db.write() as tx:
        scope_no = owner.find(tx)
        target = None if scope_no is None else sessions.find(tx, scope_no, session)
        if target is None or not messages.last(tx, target, session, 1):
            return False
        records.remove_all(tx, target)
        sessions.touch(tx, target)
        return True
