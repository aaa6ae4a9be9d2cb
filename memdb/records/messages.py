"""
Message records: a message with its words, vectors, archived copy, summaries and jobs.

The one way in and out of the tables `messages` and `archive_segments`. Every
function joins the caller's transaction.
"""

from __future__ import annotations

from memdb.errors import Corrupt
from memdb.models.ids import session_range
from memdb.tables import archive, erased, jobs, messages, sessions, summaries, vectors, words
from memdb.text.segment_codec import block_of, spans_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from memdb.engine.sqlite.transaction import Tx
    from memdb.models.messages import Message
    from memdb.text.segment_codec import Content

# Segments that are read together while a session is removed.
SEGMENT_PAGE = 16


def remove(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """
    Remove messages by their rising seqs, with everything that is derived from them.

    The summaries from the first of them on go too; what else they stood for is
    summarised again when it is due.

    Raises:
        Corrupt: one is archived, and its segment is damaged.
    """
    remove_rows(tx, session, seqs)
    jobs.drop_nodes(tx, session, seqs[0])
    summaries.delete_session(tx, session, seqs[0])
    sessions.touch(tx, session)


def remove_rows(tx: Tx, session: int, seqs: Sequence[int]) -> None:
    """Remove messages by their rising seqs, with words, vectors and copies, not the summaries."""
    _drop_archived(tx, session, seqs)
    for low, high in spans_of(seqs):
        span = session | low, session | high
        words.drop_messages(tx, *span)
        vectors.delete_range(tx, "message", *span)
        messages.delete_range(tx, *span)


def remove_all(tx: Tx, session: int) -> None:
    """Remove every message of a session, with everything that is derived from them."""
    low, high = session_range(session)
    words.drop_messages(tx, low, high)
    vectors.delete_range(tx, "message", low, high)
    messages.delete_range(tx, low, high)
    if words.has_archived(tx, low, high):
        _drop_all_archived(tx, session)
    jobs.drop_nodes(tx, session)
    summaries.delete_session(tx, session)


def erase(tx: Tx, session: int, message: Message) -> None:
    """
    Remove what a message says; its row keeps its place, time and external id.

    Every summary of the session goes: each may quote it, directly or through
    another one. The message is not archived: the caller brings it back before.
    """
    words.drop_messages(tx, message.id, message.id)
    erased.erase(tx, message.id, _hash_without_text(message))
    words.index_range(tx, message.id, message.id)
    vectors.delete_range(tx, "message", message.id, message.id)
    jobs.drop_nodes(tx, session)
    summaries.delete_session(tx, session)
    jobs.add_summarize(tx, "session", session)


def archived_blocks(tx: Tx, session: int, seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Return the blocks, by first and last seq, in which some of the rising *seqs* are archived."""
    found: set[tuple[int, int]] = set()
    for low, high in spans_of(seqs):
        found |= {
            block_of(row_id - session)
            for row_id in archive.archived(tx, session | low, session | high)
        }
    return sorted(found)


def _drop_archived(tx: Tx, session: int, seqs: Collection[int]) -> None:
    """
    Take archived messages out of their segments and their index, before their rows go.

    Raises:
        Corrupt: a segment is damaged.
    """
    gone = {*seqs}
    for block in archived_blocks(tx, session, seqs):
        old = archive.touched(tx, session, *block)
        contents = archive.opened(session, old)
        words.drop_archived(tx, _texts(session, [one for one in contents if one[0] in gone]))
        kept = [one for one in contents if one[0] not in gone]
        archive.replace(tx, session, old, archive.to_segments(kept))


def _drop_all_archived(tx: Tx, session: int) -> None:
    """Take the archived messages of a session out of segments and index, after their rows went."""
    after = 0
    while page := archive.after(tx, session, after, SEGMENT_PAGE):
        for segment in page:
            try:
                words.drop_archived(tx, _texts(session, archive.opened(session, [segment])))
            except Corrupt:
                continue  # its words cannot be read, so the index is made anew below
        after = page[-1].first_seq
    archive.delete_session(tx, session)
    if words.has_archived(tx, *session_range(session)):
        from memdb.engine.sqlite.rebuild import rebuild_archived  # only for a damaged file

        rebuild_archived(tx)


def _texts(session: int, contents: list[Content]) -> list[tuple[int, str]]:
    return [(session + content[0], content[1]) for content in contents]


def _hash_without_text(message: Message) -> bytes:
    kept = ("uid", "role", "external_id", "created_ms")
    row = {"author": None, "text": "", "body": None, "metadata": None}
    return messages.hash_of(row | {field: getattr(message, field) for field in kept})
