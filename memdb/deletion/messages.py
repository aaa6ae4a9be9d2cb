"""
Forgetting messages: out of the log, the archive, the indexes and the summaries.

A forgotten message leaves its seq as a gap: nothing is numbered anew. The
summaries that stand for it keep their place and span, and are written again
from what is left of it, before the transaction that forgets; in it everything
is looked at again, so both happen or neither.
"""

from __future__ import annotations

from memdb.models.ids import MAX_INT, session_range
from memdb.models.record import Record
from memdb.records import archive as archive_records
from memdb.records import messages as records
from memdb.records import summaries as summary_records
from memdb.records.tombstones import digest_of
from memdb.summaries.summarizer import Made, items_of_messages, items_of_summaries
from memdb.tables import archive, messages, removal, sessions
from memdb.tables import summaries as summary_rows

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from memdb.engine.base import Tx
    from memdb.models.messages import Message
    from memdb.models.summaries import Summary
    from memdb.summaries.builder import Summaries

# What a summary says whose messages are all forgotten.
FORGOTTEN = "(forgotten)"

PAGE = 500


class Target(Record):
    """A session by its id and name, and the seqs of it that are to be forgotten."""

    session: int
    name: str
    seqs: tuple[int, ...]

    @property
    def ids(self) -> list[int]:
        """The ids of the messages."""
        return [self.session | seq for seq in self.seqs]


class Rewriting(Record):
    """
    What the summaries over some seqs will say.

    Attributes:
        seqs: Those that it is without.
        summaries: As they are, each with its new text; None: pruned, and stays so.
        left: The seqs of the messages that the leaves among them keep.
    """

    seqs: tuple[int, ...]
    summaries: tuple[tuple[Summary, Made | None], ...]
    left: tuple[int, ...]


def present(tx: Tx, target: Target) -> Target:
    """Return *target* with those of its seqs that have a message."""
    found = sorted(messages.uids(tx, target.ids))
    return target.replace(seqs=tuple(one - target.session for one in found))


def rewriting(tx: Tx, target: Target, summaries: Summaries) -> Rewriting:
    """
    Return what the summaries over *target* are to say without it.

    They are extracts, also where a model wrote them: nothing is asked for in
    the time that somebody waits for his words to be gone.
    """
    gone = set(target.seqs)
    fresh: dict[int, Made] = {}
    planned: list[tuple[Summary, Made | None]] = []
    left: list[int] = []
    for row_id in removal.nodes_over(tx, target.session, target.seqs):
        summary = summary_rows.get(tx, row_id)
        assert summary is not None
        if summary.depth:
            items = _sources(tx, summary, fresh, summaries)
        else:
            run = [one for one in _messages(tx, target, summary) if one.seq not in gone]
            left += [one.seq for one in run]
            items = items_of_messages(run)
        fresh[row_id] = _made(items, summary.depth, summaries)
        planned.append((summary, None if summary.text is None else fresh[row_id]))
    return Rewriting(target.seqs, tuple(planned), tuple(left))


def _messages(tx: Tx, target: Target, summary: Summary) -> list[Any]:
    count = summary.last_seq - summary.first_seq + 1
    run = messages.list_after(tx, target.session, target.name, summary.first_seq - 1, count)
    return [one for one in run if one.seq <= summary.last_seq]


def _sources(tx: Tx, summary: Summary, fresh: dict[int, Made], summaries: Summaries) -> list[Any]:
    below = summary_rows.sources(tx, summary)
    texts = [
        fresh[one.row_id].text if one.row_id in fresh else summaries.with_text(tx, one).text
        for one in below
    ]
    said = [(one, text) for one, text in zip(below, texts, strict=True) if text != FORGOTTEN]
    return items_of_summaries([one for one, _ in said], [text for _, text in said])


def _made(items: list[Any], depth: int, summaries: Summaries) -> Made:
    if items:
        made, _ = summaries.maker.make(items, depth, local=True)
        return made
    tokens = summaries.count(FORGOTTEN)
    return Made(FORGOTTEN, None, "extractive", summaries.maker.local_name, tokens)


def same(tx: Tx, target: Target, planned: Rewriting) -> bool:
    """Say whether the summaries over *target*, and what they keep, are as they were planned."""
    if planned.seqs != target.seqs:
        return False
    found = removal.nodes_over(tx, target.session, target.seqs)
    if [summary_rows.get(tx, row_id) for row_id in found] != [
        summary for summary, _ in planned.summaries
    ]:
        return False
    ids = [target.session | seq for seq in planned.left]
    return len(messages.uids(tx, ids)) == len(planned.left)


def values(tx: Tx, target: Target) -> Iterator[str | bytes | None]:
    """Yield what the messages of *target* say, as it is stored."""
    for block in archive_records.find_blocks(tx, target.session, target.seqs):
        yield from (one.data for one in archive.touched(tx, target.session, *block))
    for one in messages.get_many(tx, target.ids).values():
        yield from _said(one)


def summary_values(planned: Rewriting) -> Iterator[str | None]:
    """Yield what the summaries say that are going to be rewritten."""
    for summary, made in planned.summaries:
        if made is not None:
            yield from (summary.text, summary.hint)


def whole_values(tx: Tx, session: int, name: str) -> Iterator[str | bytes | None]:
    """Yield what a whole session says: its name, title and messages."""
    from memdb.text.validate import json_value

    ((_, info),) = sessions.list_by_id(tx, session - 1, session, limit=1)
    yield from (name, info.title, json_value(info.metadata, "metadata"))
    after = 0
    while page := messages.list_after(tx, session, name, after, PAGE):
        for one in page:
            yield from _said(one)
        after = page[-1].seq
    yield from (one.data for one in archive.after(tx, session, 0, MAX_INT))


def whole_summaries(tx: Tx, session: int) -> Iterator[str | None]:
    """Yield what the summaries of a whole session say."""
    for _, text, hint in removal.node_texts(tx, session):
        yield from (text, hint)


def _said(message: Message) -> Iterator[str | None]:
    from memdb.text.validate import json_value

    yield message.text
    yield json_value(message.body, "body")
    yield json_value(message.metadata, "metadata")
    yield message.external_id


def counts(tx: Tx, session: int) -> tuple[int, int]:
    """Return how many messages and summaries a session has."""
    return messages.count(tx, *session_range(session)), len(removal.node_texts(tx, session))


def segments_of(tx: Tx, target: Target) -> int:
    """Return how many archive segments hold messages of *target*, or lie beside one that does."""
    return sum(
        len(archive.touched(tx, target.session, *block))
        for block in archive_records.find_blocks(tx, target.session, target.seqs)
    )


def remove(tx: Tx, target: Target, planned: Rewriting, summaries: Summaries) -> None:
    """
    Remove the messages of *target* and write the summaries over them anew.

    Transaction: joins the caller's, which made sure of `present` and `same`.
    """
    records.forget(tx, target.session, target.seqs, digest_of(target.name))
    for summary, made in planned.summaries:
        columns = None if made is None else summaries.columns(made)
        improvable = made is not None and summaries.may_improve(made) and made.text != FORGOTTEN
        summary_records.rewrite(tx, summary, columns, improvable=improvable)
