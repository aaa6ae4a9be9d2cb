"""
Taking messages back: the newest of a session, or all of them.

What is derived from a message goes in the same transaction: its words, its
vector, the summaries that stand for it, and jobs about them. Its seq is never
given out again, so what points to it (an entry, an artifact) points to nothing
then, not to another message.
"""

from __future__ import annotations

from memdb.errors import VersionConflict
from memdb.ids import MAX_SEQ, session_range
from memdb.stores import embeddings, fulltext, jobs, messages, nodes, sessions
from memdb.text.validate import int_value, name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.db.database import Database
    from memdb.db.transaction import Tx
    from memdb.models import Message, NewMessage
    from memdb.owner import Owner
    from memdb.shortterm.writing import Writer


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
    if expected_seq is not None:
        int_value(expected_seq, "expected_seq", 0, MAX_SEQ)
    rows = writer.ready_rows(instead)
    with db.write() as tx:
        scope_no = owner.find(tx)
        target = None if scope_no is None else sessions.find(tx, scope_no, session)
        newest = [] if target is None else messages.last(tx, target, session, 1)
        found = newest[0].seq if newest else 0
        if expected_seq is not None and found != expected_seq:
            raise VersionConflict(expected_seq, found)
        if target is None or not newest:
            return None
        _remove_newest(tx, target, newest[0].id)
        if rows:
            writer.before_write(tx)
            writer.add_rows(tx, target, session, rows)
        return newest[0]


def clear(db: Database, owner: Owner, session: str) -> bool:
    """Remove every message of a session, which stays; False if there was none."""
    name_value(session, "session")
    with db.write() as tx:
        scope_no = owner.find(tx)
        target = None if scope_no is None else sessions.find(tx, scope_no, session)
        if target is None or not messages.last(tx, target, session, 1):
            return False
        remove_all(tx, target)
        sessions.touch(tx, target)
        return True


def remove_all(tx: Tx, target: int) -> None:
    """Remove the messages of a session and all that is derived from them."""
    low, high = session_range(target)
    fulltext.drop_messages(tx, low, high)
    embeddings.delete_range(tx, "message", low, high)
    messages.delete_range(tx, low, high)
    if fulltext.has_archived(tx, low, high):
        from memdb.shortterm.archive import forget  # only where something is archived

        forget(tx, target)
    jobs.drop_nodes(tx, target)
    nodes.delete_session(tx, target)


def _remove_newest(tx: Tx, target: int, row_id: int) -> None:
    """
    Remove the newest message of a session and all that is derived from it.

    What else the summaries stood for is summarised again when it is due.
    """
    seq = row_id - target
    if fulltext.has_archived(tx, row_id, row_id):
        from memdb.shortterm.archive import drop_one  # only where something is archived

        drop_one(tx, target, seq)
    fulltext.drop_messages(tx, row_id, row_id)
    embeddings.delete_range(tx, "message", row_id, row_id)
    messages.delete_range(tx, row_id, row_id)
    jobs.drop_nodes(tx, target, seq)
    nodes.delete_session(tx, target, seq)
    sessions.touch(tx, target)
