"""
Message records: a message with its words, vectors, archived copy, summaries and jobs.

Rows of the table `messages` are added and removed only through this module, except by `memdb copy`.
Every message of append, import, fork and hosts first becomes a draft. A draft is screened, checked
and counted, outside the transaction that stores it. Functions that take a `tx` join the caller's
transaction.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from memdb.engine.segments import spans_of
from memdb.errors import AlreadyExists, InvalidInput, TooLarge
from memdb.models.fields import SCREENED
from memdb.models.ids import (
    MAX_INT,
    MAX_SEQ,
    is_branch,
    scope_of,
    seq_of,
    session_of,
    without_content,
)
from memdb.models.messages import ROLES, Finding, Message, NewMessage
from memdb.models.record import Record
from memdb.models.settings import ACTIONS, ALLOW, SUMMARIZE_EVERY
from memdb.records import archive, spaces
from memdb.records import dependents as dependent_records
from memdb.records import summaries as summary_records
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
from memdb.text.parts import kind_of, payload_of, text_of
from memdb.text.times import when_ms
from memdb.text.validate import (
    choice_value,
    content_value,
    json_list,
    json_object,
    list_value,
    optional_name,
    parse_json,
    said_value,
    time_value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx
    from memdb.models.protocols import Ids
    from memdb.records.spaces import SpaceName
    from memdb.text.screening import SecretScreen
    from memdb.text.tokens import Counting


NEW_FIELDS = frozenset(NewMessage._fields)
SCREENED_FIELDS = tuple(name for name in SCREENED["message"] if name in NEW_FIELDS)

# Messages that move to another row together.
MOVED = 500


class Draft(Record):
    """
    A checked message without a place.

    Attributes:
        parts: The parts as JSON text; None if there is only the text.
        metadata: JSON text; None means none.
        created_ms: None means the time of the transaction that stores it.
        uid: None for a new one.
        writer: The program that stores it; None means unknown.
        bigrams: Derived from the text, for search in Chinese and Japanese.
        counted: The text whose tokens are counted.
        tokens: None before `count_drafts`.
        counter: The name of the counter of `tokens`.
    """

    role: str
    author: str | None
    text: str
    parts: str | None
    external_id: str | None
    metadata: str | None
    created_ms: int | None
    uid: str | None
    writer: str | None
    bigrams: str | None
    counted: str
    tokens: int | None = None
    counter: str = ""

    if not TYPE_CHECKING:  # each append makes one

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            """Take the fields; naming each takes a fifth of the time."""
            if kwargs or len(args) != len(self._fields):
                args = self._complete(args, kwargs)
            (
                self.role, self.author, self.text, self.parts, self.external_id, self.metadata,
                self.created_ms, self.uid, self.writer, self.bigrams, self.counted, self.tokens,
                self.counter,
            ) = args  # fmt: skip


def prepare_messages(
    new: Iterable[NewMessage | dict[str, Any]],
    counting: Counting,
    screen: SecretScreen,
    action: str | None,
    now_ms: int,
    writer: str | None = None,
) -> list[Draft]:
    """
    Return messages as drafts: screened, checked and counted.

    Args:
        new: `NewMessage`s, or dicts with the same fields by name.
        action: "refuse", "redact" or "allow" secrets; None means as the
            settings say for messages.
        now_ms: The present, for a time such as "2 weeks ago".
        writer: Writer of messages that name none.

    Raises:
        InvalidInput: a value is not a message, or a field cannot be stored.
        SecretFound: a message contains a secret, and those are refused.
    """
    if action is None:
        action = screen.settings.secrets_in_messages
    else:
        choice_value(action, "secrets", ACTIONS)
    given = list_value(new, "messages")
    every = [one for message in given for one in to_new(message, now_ms)]
    read = [_read(one, screen, action, writer) for one in every]
    counts, name = counting.count_or_estimate([values[-1] for values in read])
    return [Draft(*(*values, tokens, name)) for values, tokens in zip(read, counts, strict=True)]


def read_draft(
    new: NewMessage, screen: SecretScreen, action: str, tokens: int | None = None, counter: str = ""
) -> Draft:
    """
    Return a message as a draft; its tokens are counted later unless *tokens* are known.

    Raises:
        InvalidInput: a field cannot be stored.
        SecretFound: the message contains a secret, and *action* is "refuse".
    """
    return Draft(*(*_read(new, screen, action), tokens, counter))


def _read(
    new: NewMessage, screen: SecretScreen, action: str, writer: str | None = None
) -> tuple[Any, ...]:
    """Return the fields of a draft except its tokens; the last one is the text to count."""
    if action != ALLOW:
        new = _screened(new, screen, action)
    text = counted = content_value(new.text, "text")
    if new.parts:
        new, counted = _with_parts(new)
        text = new.text
    return (
        choice_value(new.role, "role", ROLES),
        optional_name(new.author, "author"),
        text,
        json_list(new.parts, "parts"),
        optional_name(new.external_id, "external_id"),
        json_object(new.metadata, "metadata"),
        time_value(new.created_ms, "created_ms"),
        optional_name(new.uid, "uid"),
        writer if new.writer is None else optional_name(new.writer, "writer"),
        bigrams_of(text),
        counted,
    )


def count_drafts(drafts: Sequence[Draft], counting: Counting) -> list[Draft]:
    """Return *drafts* with missing token counts added; PortError if the counter fails."""
    due = [draft.counted for draft in drafts if draft.tokens is None]
    if not due:
        return list(drafts)
    counts = iter(counting.count_many(due))
    name = counting.name
    return [
        draft.replace(tokens=next(counts), counter=name) if draft.tokens is None else draft
        for draft in drafts
    ]


def _screened(new: NewMessage, screen: SecretScreen, action: str) -> NewMessage:
    """Return a message after applying *action* to secrets; other values are refused later."""
    new = new.replace(text=content_value(new.text, "text"))
    given = {name: getattr(new, name) for name in SCREENED_FIELDS}
    return new.replace(**screen.pass_fields("message", given, action))


def _with_parts(new: NewMessage) -> tuple[NewMessage, str]:
    """Return a message with its parts in memdb's form, its text, and the text to count."""
    if not isinstance(new.parts, (list, tuple)):
        return new, new.text  # refused when it is made JSON
    from memdb.formats.provider_messages import read_parts  # noqa: PLC0415 (an optional package)

    role, parts = read_parts(new.role, new.parts)
    text = content_value(new.text, "text") or content_value(text_of(parts), "parts")
    extra = content_value(payload_of(parts), "parts")
    counted = text if extra in text else f"{text}\n{extra}"
    return new.replace(role=role, parts=parts, text=text), counted


# What a provider's message may have in place of `content`.
PROVIDER_FIELDS = frozenset("content tool_calls function_call refusal audio".split())
# Fields that no provider's message has.
OWN_FIELDS = ("author", "external_id", "created", "created_ms", "metadata", "uid", "writer")


def to_new(value: NewMessage | dict[str, Any] | Any, now_ms: int) -> Sequence[NewMessage]:
    """
    Return *value* as messages: a dict with their fields by name, or a provider's message.

    A dict may have `created`, a time in any form, in place of `created_ms`. Fields of `OWN_FIELDS`
    in a provider's dict are memdb's, and count as in a dict of memdb.

    Raises:
        InvalidInput: the value is not a message, or has an unknown field.
    """
    if isinstance(value, NewMessage):
        return (value,)
    own: dict[str, Any] = {}
    if isinstance(value, dict) and value.get("role") in ROLES and not _is_geminis(value):
        own = {name: value[name] for name in OWN_FIELDS if name in value}
        value = {name: one for name, one in value.items() if name not in own}
        if "created" in own:
            own["created_ms"] = when_ms(own.pop("created"), "created", now_ms)
        if NEW_FIELDS.issuperset(value):
            said = said_value(value.get("text"), value.get("parts"))
            return (NewMessage(**{**value, **own, "text": said}),)
        if not value.keys() & PROVIDER_FIELDS:
            unknown = min(map(str, set(value) - NEW_FIELDS))
            fields = ", ".join(NewMessage._fields).replace("created_ms", "created")
            raise InvalidInput(f"message has no field {unknown!r}: use {fields}, or content")
    from memdb.formats.provider_messages import read_messages  # noqa: PLC0415 (an optional package)

    rest = {name: one for name, one in own.items() if name not in ("external_id", "uid")}
    found = enumerate(read_messages(value))
    return [one.replace(**(rest if number else own)) for number, one in found]


def _is_geminis(value: dict[str, Any]) -> bool:
    """Return whether a message has Gemini's form: its parts have no type."""
    parts = value.get("parts") if value.keys() == {"role", "parts"} else None
    return bool(parts) and isinstance(parts, list) and not any(map(kind_of, parts))


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
    if all(draft.external_id is None for draft in drafts):  # as nearly always: 3 µs less
        rows = place(tx, session, drafts, ids, space, summarize_every=summarize_every)
        return [messages.added_message(row, name) for row in rows]
    stored: dict[str | None, Message | None] = {
        draft.external_id: find_same(tx, session, name, draft, keep=keep)
        for draft in drafts
        if draft.external_id is not None
    }
    unknown = [draft for draft in drafts if stored.get(draft.external_id) is None]
    fresh = _first_of_each(unknown, keep=keep)
    rows = place(tx, session, fresh, ids, space, summarize_every=summarize_every)
    added = {
        id(draft): messages.added_message(row, name) for draft, row in zip(fresh, rows, strict=True)
    }
    by_external: dict[str | None, Message] = {
        draft.external_id: added[id(draft)] for draft in fresh
    }
    return [
        stored.get(draft.external_id) or added.get(id(draft)) or by_external[draft.external_id]
        for draft in drafts
    ]


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
    seq, tokens = 0, sum(draft.tokens or 0 for draft in drafts)
    if late:
        last = sessions.advance(
            tx,
            session,
            late,
            newest_ms=drafts[-1].created_ms,
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
    same = {name: getattr(message, name) for name in Draft._fields if name in Message._fields}
    same["parts"] = json_list(message.parts, "parts")
    same["metadata"] = json_object(message.metadata, "metadata")
    return Draft(**same, bigrams=bigrams_of(message.text), counted="")


def find_same(
    tx: Tx, session: int, name: str, draft: Draft, *, keep: bool = False
) -> Message | None:
    """
    Return the stored message with the external id of a draft, None if there is none.

    Raises:
        AlreadyExists: the stored message has another role, text or parts than the draft, and
            *keep* is False.
    """
    assert draft.external_id is not None
    found = messages.find_external(tx, session, name, draft.external_id)
    if found is not None and not keep:
        _refuse_other((found.role, found.text, found.parts), draft)
    return found


def says(message: Message, draft: Draft) -> bool:
    """Return whether a stored message has all content of a draft, author and metadata too."""
    return (message.role, message.author, message.text, message.parts, message.metadata) == (
        draft.role,
        draft.author,
        draft.text,
        parse_json(draft.parts),
        parse_json(draft.metadata, dict),
    )


def _to_row(row_id: int, draft: Draft, ids: Ids, now_ms: int) -> dict[str, Any]:
    """Return the columns of a message, with their hash."""
    created_ms = now_ms if draft.created_ms is None else draft.created_ms
    row = draft._asdict()
    row["id"] = row_id
    row["uid"] = draft.uid or ids(now_ms)
    row["created_ms"] = created_ms
    row["spans"] = date_spans(draft.text, created_ms)
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
    seen: dict[str, Draft] = {}
    kept = []
    for draft in drafts:
        if draft.external_id is None:
            kept.append(draft)
        elif draft.external_id not in seen:
            seen[draft.external_id] = draft
            kept.append(draft)
        elif not keep:
            first = seen[draft.external_id]
            _refuse_other((first.role, first.text, parse_json(first.parts)), draft)
    return kept


def is_same(stored: tuple[Any, ...], draft: Draft) -> bool:
    """
    Return whether a draft is the message that has its external id.

    Author and metadata do not count. Another export of a chat may have other parts, so an import
    leaves them out (ADR-0073).

    Args:
        stored: Role, text and parts of that message, or role and text.
    """
    return stored == (draft.role, draft.text, parse_json(draft.parts))[: len(stored)]


def _refuse_other(stored: tuple[str, str, Any], draft: Draft) -> None:
    if not is_same(stored, draft):
        assert draft.external_id is not None
        raise AlreadyExists("message with external_id", draft.external_id)


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
    kept = draft.replace(
        uid=message.uid,
        external_id=message.external_id,
        created_ms=message.created_ms,
        writer=message.writer,
    )
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
