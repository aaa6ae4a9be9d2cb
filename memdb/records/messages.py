"""
Message records: a message with its words, vectors, archived copy, summaries and jobs.

Rows of the table `messages` are added and removed only through this module, except by `memdb copy`.
What is added was made a draft before, by `memdb.records.drafts`. Functions that take a `tx` join
the caller's transaction.
"""

from __future__ import annotations

from itertools import repeat
from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from memdb.engine.segments import spans_of
from memdb.errors import AlreadyExists, TooLarge
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    is_branch,
    scope_of,
    seq_of,
    session_of,
    without_content,
)
from memdb.models.settings import SUMMARIZE_EVERY
from memdb.records import archive, spaces
from memdb.records import dependents as dependent_records
from memdb.records import summaries as summary_records
from memdb.records.drafts import DRAFTED
from memdb.tables import (
    artifacts,
    checks,
    entries,
    entry_history,
    jobs,
    messages,
    sessions,
    tombstones,
)
from memdb.tables import spaces as space_rows
from memdb.tables.tombstones import Tombstone
from memdb.text.derived import bigrams_of, date_spans
from memdb.text.validate import json_list, json_object, parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.messages import Finding, Message
    from memdb.models.protocols import Ids
    from memdb.records.drafts import Draft
    from memdb.records.spaces import SpaceName


# Messages that move to another row together.
MOVED = 500

_external_id, _tokens = itemgetter("external_id"), itemgetter("tokens")

# Later than any lease or retry.
ANY_TIME = MAX_INT


def insert(
    tx: Tx,
    session: int,
    name: str,
    drafts: Sequence[Draft],
    ids: Ids,
    space: SpaceName | None,
    *,
    keep: bool = False,
    summarize_every: int = SUMMARIZE_EVERY,
) -> list[Message]:
    """
    Add messages to the end of a session and return them as stored.

    A draft whose external id the session has is not added again; the stored message is returned
    instead.

    Args:
        name: Name of the session.
        space: The space of the present embedder, which is created if it is new.
        keep: A stored message stays even if the one with its external id differs.
        summarize_every: Number of new messages after which the session is due for a summary.

    Raises:
        AlreadyExists: an external id belongs to a different message.
        TooLarge: the session has no room for so many messages.

    Cost: 25 µs per message in bulk.
    """
    name = str(name)
    if not any(map(_external_id, drafts)):  # as nearly always: 3 µs less
        rows = place(tx, session, drafts, ids, space, summarize_every=summarize_every)
        return [messages.added_message(row, name) for row in rows]
    stored: dict[str | None, Message] = {}
    for draft in drafts:
        found = find_same(tx, session, name, draft, keep=keep)
        if found is not None:
            stored[draft["external_id"]] = found
    unknown = [draft for draft in drafts if draft["external_id"] not in stored]
    fresh = _first_of_each(unknown, keep=keep)
    rows = place(tx, session, fresh, ids, space, summarize_every=summarize_every)
    added = [messages.added_message(row, name) for row in rows]
    stored |= {message.external_id: message for message in added}
    unnamed = iter([message for message in added if message.external_id is None])
    names = map(_external_id, drafts)
    return [next(unnamed) if one is None else stored[one] for one in names]


def place(
    tx: Tx,
    session: int,
    drafts: Sequence[Draft],
    ids: Ids,
    space: SpaceName | None,
    seqs: Sequence[int | None] = (),
    summarize_every: int = SUMMARIZE_EVERY,
) -> list[dict[str, Any]]:
    """
    Add messages that are new to the session, and return their rows in the same order.

    Args:
        seqs: The seq that each keeps, for imports; None puts it at the end, as () does for all.
        summarize_every: Number of new messages after which the session is due for a summary.

    Raises:
        TooLarge: the session has no room for so many messages.
    """
    if not drafts:
        return []
    known = tx.known()
    if space is not None and ("space", space.model, space.dim) not in known:
        spaces.ensure(tx, space)
        known["space", space.model, space.dim] = 1
    late = seqs.count(None) if seqs else len(drafts)
    seq, tokens = 0, sum(map(_tokens, drafts))
    if late:
        last = sessions.advance(
            tx,
            session,
            late,
            newest_ms=drafts[-1]["created_ms"],
            messages=len(drafts),
            tokens=tokens,
        )
        if last is None:
            raise TooLarge("number of messages in one session", MAX_SEQ, MAX_SEQ + late)
        seq = last - late
    else:
        sessions.count(tx, session, messages=len(drafts), tokens=tokens)
    rows = []
    for draft, kept in zip(drafts, seqs or repeat(None), strict=False):
        if kept is None:
            seq += 1
        rows.append(_to_row(session + (kept or seq), draft, ids, tx.now_ms))
    ordered = rows if late == len(rows) else sorted(rows, key=lambda row: int(row["id"]))
    messages.add(tx, ordered)
    tx.keep_known()
    tx.words.add_messages(ordered)
    first, last = ordered[0]["id"] - session, ordered[-1]["id"] - session
    if ("embeds", session) not in known:
        jobs.add_session(tx, session, first)
        known["embeds", session] = 1
    jobs.grew(tx, session, first, last, summarize_every)
    tx.keep_known()
    if late and is_branch(session):  # it was used, as its session was
        sessions.touch(tx, sessions.roots(tx, [session])[session], rows[-1]["created_ms"])
    if late < len(rows):
        dependent_records.clear(tx, scope_of(session), [row["uid"] for row in ordered])
        _embed_from(tx, session, first)
    return rows


def move(tx: Tx, session: int, to: int, spans: Sequence[tuple[int, int]]) -> None:
    """
    Move the messages of a row in *spans* to another row; seqs, uids, times and words stay.

    Entries that were learnt from them, and artifacts that they saved, then refer to the new place.

    Raises:
        Corrupt: one is archived, and its segment is damaged.
    """
    name = sessions.names(tx, [to])[to]
    for first, last in spans:
        after = first - 1
        while page := messages.list_own(tx, session, name, after, last, MOVED):
            seqs = [message.seq for message in page]
            _remove_rows(tx, {session: seqs})
            place(tx, to, [_to_draft(message) for message in page], _no_uid, None, seqs)
            after = seqs[-1]
        entries.move_source(tx, session, to, first, last)
        entry_history.move_source(tx, session, to, first, last)
        artifacts.move_messages(tx, session, to, first, last)


def _no_uid(_now_ms: int) -> str:
    raise AssertionError("a message that moves has a uid")


def _to_draft(message: Message) -> Draft:
    draft = {name: getattr(message, name) for name in DRAFTED}
    draft["parts"] = json_list(message.parts, "parts")
    draft["metadata"] = json_object(message.metadata, "metadata")
    draft |= {"bigrams": bigrams_of(message.text), "counted": ""}
    return cast("Draft", draft)


def find_same(
    tx: Tx, session: int, name: str, draft: Draft, *, keep: bool = False
) -> Message | None:
    """
    Return the stored message with the external id of a draft, None if there is none, or no id.

    Raises:
        AlreadyExists: the stored message has another role, text or parts than the draft, and
            *keep* is False.
    """
    if draft["external_id"] is None:
        return None
    found = messages.find_external(tx, session, name, draft["external_id"])
    if found is not None and not keep:
        _refuse_other((found.role, found.text, found.parts), draft)
    return found


def says(message: Message, draft: Draft) -> bool:
    """Return whether a stored message has all content of a draft, author and metadata too."""
    return (message.role, message.author, message.text, message.parts, message.metadata) == (
        draft["role"],
        draft["author"],
        draft["text"],
        parse_json(draft["parts"]),
        parse_json(draft["metadata"], dict),
    )


def _to_row(row_id: int, draft: Draft, ids: Ids, now_ms: int) -> dict[str, Any]:
    """Return the columns of a message, with their hash."""
    row: dict[str, Any] = {**draft, "id": row_id}
    row["uid"] = draft["uid"] or ids(now_ms)
    if row["created_ms"] is None:
        row["created_ms"] = now_ms
    row["spans"] = date_spans(row["text"], row["created_ms"])
    row["content_hash"] = messages.hash_of(row)
    return row


def _embed_from(tx: Tx, session: int, first_seq: int) -> None:
    """Move embedding jobs beyond *first_seq* back to it."""
    for space_no, _, _ in space_rows.list_numbers(tx):
        for job in jobs.due(tx, space_no, session, session, ANY_TIME, 2):
            if job.subject == "session" and job.next_seq > first_seq:
                jobs.advance(tx, job, first_seq)


def _first_of_each(drafts: Iterable[Draft], *, keep: bool) -> list[Draft]:
    """Return the drafts, without repetitions of an external id."""
    seen: dict[object, Draft] = {}
    for draft in drafts:
        first = seen.setdefault(draft["external_id"] or id(draft), draft)
        if first is not draft and not keep:
            _refuse_other((first["role"], first["text"], parse_json(first["parts"])), draft)
    return [*seen.values()]


def is_same(stored: tuple[Any, ...], draft: Draft) -> bool:
    """
    Return whether a draft is the message that has its external id.

    Author and metadata do not count. Another export of a chat may have other parts, so an import
    leaves them out (ADR-0073).

    Args:
        stored: Role, text and parts of that message, or role and text.
    """
    return stored == (draft["role"], draft["text"], parse_json(draft["parts"]))[: len(stored)]


def _refuse_other(stored: tuple[str, str, Any], draft: Draft) -> None:
    if not is_same(stored, draft):
        assert draft["external_id"] is not None
        raise AlreadyExists("message with external_id", draft["external_id"])


def remove(tx: Tx, parts: Mapping[int, Sequence[int]]) -> None:
    """
    Remove messages by their rising seqs of each row, with everything that is derived from them.

    The summaries from the first of them on go too, and the rows are queued: other messages that
    they covered are summarised again. All rows are of one scope.

    Raises:
        Corrupt: one is archived, and its segment is damaged.
    """
    _remove_rows(tx, parts)
    summary_records.remove(tx, {row: seqs[0] for row, seqs in parts.items() if seqs})


def ids_of(parts: Mapping[int, Sequence[int]]) -> list[int]:
    """Return the ids of messages, given as the rising seqs of each row; they rise too."""
    return [row | seq for row in sorted(parts) for seq in parts[row]]


def _remove_rows(tx: Tx, parts: Mapping[int, Sequence[int]]) -> None:
    """Remove messages by their rising seqs, with words, vectors and copies, not the summaries."""
    ids = ids_of(parts)
    if not ids:
        return
    archive.remove(tx, parts)
    tx.words.drop_each("message", ids)
    for session, tokens, count in sessions.totals(tx, ids):
        sessions.count(tx, session, messages=-count, tokens=-tokens)
    for span in spans_of(ids):
        tx.vectors.drop("message", *span)
        jobs.drop_messages(tx, *span)
        messages.delete_range(tx, *span)


def remove_all(tx: Tx, low: int, high: int) -> None:
    """Remove all messages of the rows in an id range, which go too, with all derived from them."""
    tx.words.drop("message", low, high)
    tx.vectors.drop("message", low, high)
    jobs.drop_messages(tx, low, high)
    messages.delete_range(tx, low, high)
    archive.remove_sessions(tx, low, high)
    summary_records.remove_all(tx, low, high)


def clear(tx: Tx, session: int) -> None:
    """Remove all messages of a row that stays, with all derived data."""
    remove_all(tx, session, session | MAX_SEQ)
    sessions.set_empty(tx, session)


def forget(tx: Tx, parts: Mapping[int, Sequence[int]]) -> None:
    """
    Remove messages by their rising seqs as `remove` does, but keep the summaries.

    Each leaves a tombstone, with a digest in place of the session's name. The caller rewrites the
    summaries that cover them; a branch's own ones are removed.

    Raises:
        Corrupt: one is archived, and its segment is damaged.
    """
    ids = ids_of(parts)
    if not ids:
        return
    names = sessions.names(tx, parts)
    digests = {row: dependent_records.digest_of(name) for row, name in names.items()}
    given, stones = [], []
    for row_id, uid, external_id in messages.sources(tx, ids):
        ref = f"sha256:{digests[session_of(row_id)]}#{seq_of(row_id)}"
        stones.append(Tombstone(uid, "message", ref, tx.now_ms, forgotten=True))
        if external_id is not None:
            given.append((row_id, external_id))
    tombstones.add(tx, scope_of(ids[0]), *stones)
    _keep_away(tx, given, names)
    _remove_rows(tx, parts)
    summary_records.remove_shared(tx, parts)
    for row in parts:
        jobs.clear_errors(tx, row)


def keep_away(tx: Tx, low: int, high: int) -> None:
    """Keep imports from restoring the forgotten messages in an id range of a scope."""
    given = messages.external_ids(tx, low, high)
    names = sessions.names(tx, {session_of(row_id) for row_id, _ in given}) if given else {}
    _keep_away(tx, given, names)


def _keep_away(tx: Tx, given: Sequence[tuple[int, str]], names: Mapping[int, str]) -> None:
    """Keep imports from restoring messages of a scope, given by id and external id."""
    if given:
        away = (_source_names(names[session_of(row_id)], external) for row_id, external in given)
        dependent_records.keep_away(tx, scope_of(given[0][0]), "message", away)


def find_kept_away(tx: Tx, scope_no: int, session: str, ids: Iterable[str | None]) -> set[str]:
    """Return the external ids of a session, its branches included, that were forgotten."""
    names = {one: _source_names(str(session), one) for one in ids if one is not None}
    gone = dependent_records.are_kept_away(tx, scope_no, "message", [*names.values()])
    return {one for one, each in names.items() if each in gone}


def _source_names(session: str, external_id: str) -> tuple[str, str]:
    return session, without_content(external_id)


def queue_refused(tx: Tx, space_no: int, errors: Mapping[int, str]) -> None:
    """Queue messages that an embedder refused, for later; *errors* by id."""
    for row_id, error in errors.items():
        jobs.add_refused(tx, space_no, row_id, error)


def erase(tx: Tx, session: int, message: Message) -> None:
    """
    Remove the content of a message, as `edit` does.

    Its row keeps its place, time and external id.
    """
    row = {column: getattr(message, column) for column in ("counter", "writer", *messages.HASHED)}
    row["id"] = message.row_id
    _rewrite(tx, session, row | messages.ERASED | {"tokens": 0, "bigrams": None, "spans": None})


def edit(tx: Tx, session: int, message: Message, draft: Draft, ids: Ids) -> None:
    """
    Replace a message by *draft*; its row keeps its place, uid, time, external id and writer.

    Every summary of the session is removed, because each may quote it, directly or through another
    one. An archived message leaves the archive, with the others of its segment.
    """
    kept: Draft = {
        **draft,
        "uid": message.uid,
        "external_id": message.external_id,
        "created_ms": message.created_ms,
        "writer": message.writer,
    }
    _rewrite(tx, session, _to_row(message.row_id, kept, ids, tx.now_ms))
    jobs.add_session(tx, session, message.seq)
    _embed_from(tx, session, message.seq)


def _rewrite(tx: Tx, session: int, row: dict[str, Any]) -> None:
    """Change the row of a message, with all data derived from its content."""
    archive.restore_one(tx, row["id"])
    row["content_hash"] = messages.hash_of(row)
    tx.words.drop("message", row["id"])
    for row_session, was, _ in sessions.totals(tx, [row["id"]]):
        sessions.count(tx, row_session, tokens=row["tokens"] - was)
    messages.rewrite(tx, row)
    tx.words.add("message", row["id"])
    tx.vectors.drop("message", row["id"], row["id"])
    summary_records.remove(tx, {session: 0})
    summary_records.queue_session(tx, session)


def derive(tx: Tx) -> None:
    """Rebuild bigrams, spans and counters of messages."""
    checks.derive(tx, "message")
    checks.raise_last_seqs(tx)
    checks.set_counts(tx)


def check(tx: Tx, *, deep: bool = False) -> Iterator[Finding]:
    """
    Yield the messages that do not match their hash.

    Args:
        deep: Also messages whose spans differ from those of their text.
    """
    yield from checks.by_hash("message_hash", "message", messages.damaged(tx))
    if deep:
        yield from checks.by_spans(tx, "message")
