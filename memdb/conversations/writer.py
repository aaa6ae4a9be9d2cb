"""
Writing conversations: what a message must be, and how it enters the file.

A message is written with its index row and its embedding job in one
transaction; its tokens are counted before.
"""

from __future__ import annotations

from functools import partial

from memdb.errors import AlreadyExists, InvalidInput, TooLarge, VersionConflict
from memdb.models.ids import MAX_SEQ
from memdb.models.messages import ROLES, Message, NewMessage
from memdb.records import sessions as session_records
from memdb.tables import jobs, messages, sessions, words
from memdb.text.grams import bigrams_of
from memdb.text.secret_policy import ALLOW, SecretPolicy, action_value, screened_value
from memdb.text.validate import (
    choice_value,
    int_value,
    json_list,
    json_object,
    name_value,
    optional_name,
    parse_json,
    text_value,
    time_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from memdb.engine.sqlite.database import Database
    from memdb.engine.sqlite.transaction import Tx
    from memdb.records.scopes import Owner
    from memdb.text.counting import Counting

    Prepare = Callable[[Tx], object]


class Writer:
    """Adds messages to a file, and removes sessions."""

    def __init__(
        self,
        db: Database,
        counting: Counting,
        before_write: Prepare,
        secrets: SecretPolicy | None = None,
    ) -> None:
        """
        Keep messages in *db*, their tokens counted by *counting*, by the policy *secrets*.

        *before_write* is called in each transaction that adds some, before
        their embedding jobs are noted.
        """
        self._db = db
        self.before_write = before_write
        self._counting = counting
        self._secrets = SecretPolicy() if secrets is None else secrets

    def append(
        self,
        owner: Owner,
        session: str,
        new: Sequence[NewMessage],
        expected_seq: int | None = None,
        secrets: str | None = None,
        *,
        keep: bool = False,
    ) -> list[Message]:
        """
        Add messages to a session, all or none, and return them as stored.

        Args:
            owner: The scope.
            session: The session's name; made at its first message.
            new: In the order they were said.
            expected_seq: The session's last seq as the caller knows it, 0 for
                none: of two writers that know the same, one succeeds.
            secrets: "refuse", "redact" or "allow"; None: as the policy says.
            keep: A stored message with the external id of a new one stays also
                where the two differ.

        A message whose external id the session has is not added again; the
        stored one is returned in its place.

        Raises:
            InvalidInput: a field of a message; nothing was written.
            SecretFound: a message holds a secret, and those are refused.
            AlreadyExists: its external id belongs to a different message.
            VersionConflict: *expected_seq* is not the session's last seq.

        Transaction: opens its own, after counting.
        """
        return self.ready(owner, session, new, expected_seq, secrets, keep=keep)()

    def ready(
        self,
        owner: Owner,
        session: str,
        new: Sequence[NewMessage],
        expected_seq: int | None = None,
        secrets: str | None = None,
        *,
        keep: bool = False,
    ) -> Callable[[], list[Message]]:
        """
        Check and count messages, and return what then adds them; see `append`.

        For those who add for several callers in one transaction: counting does
        not belong into it.
        """
        name_value(session, "session")
        rows = self.ready_rows(new, secrets)
        return partial(self.store, owner, session, rows, expected_seq, keep=keep)

    def store(
        self,
        owner: Owner,
        session: str,
        rows: list[dict[str, Any]],
        expected_seq: int | None = None,
        *,
        keep: bool = False,
    ) -> list[Message]:
        """
        Add rows that `ready_rows` made; see `append`.

        Transaction: opens its own, or joins that of a caller who has to look
        at something else in it.
        """
        if not rows:
            return []
        with self._db.write() as tx:
            self.before_write(tx)
            target = self.ensure_session(tx, owner, session)
            if expected_seq is not None:
                found = sessions.last_seq(tx, target)
                if found != int_value(expected_seq, "expected_seq", 0, MAX_SEQ):
                    raise VersionConflict(expected_seq, found)
            return self.add_rows(tx, target, session, rows, keep=keep)

    def begin(self, owner: Owner, session: str, new: Sequence[NewMessage]) -> None:
        """
        Make a new session of *new*, which may be none.

        Raises:
            AlreadyExists: the scope has a session of that name.
            InvalidInput: a field of a message; nothing was written.

        Transaction: opens its own, after counting.
        """
        name_value(session, "session")
        rows = self.ready_rows(new, ALLOW)  # what is copied was let in before
        with self._db.write() as tx:
            scope_no = owner.ensure(tx)
            if sessions.find(tx, scope_no, session) is not None:
                raise AlreadyExists("session", session)
            self.before_write(tx)
            target = self.ensure_session(tx, owner, session)
            self.add_rows(tx, target, session, rows)

    def ready_rows(
        self, new: Iterable[NewMessage], secrets: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the columns of messages, screened and counted; outside of transactions."""
        action = self._secrets.messages if secrets is None else action_value(secrets, "secrets")
        rows = [self.to_row(self._screened(message, action)) for message in new]
        self.count(rows)
        return rows

    def _screened(self, new: NewMessage, action: str) -> NewMessage:
        """Return a message as *action* lets it pass; what is no message is refused later."""
        if action == ALLOW:
            return new
        texts = {"text": text_value(new.text, "text"), "parts": new.parts, "metadata": new.metadata}
        return new.replace(
            **{
                field: screened_value(value, action, field, self._secrets)
                for field, value in texts.items()
            }
        )

    def ensure_session(self, tx: Tx, owner: Owner, session: str) -> int:
        """Return the id of a session, making it where it is new."""
        scope_no = owner.ensure(tx)
        found = sessions.find(tx, scope_no, session)
        if found is None:
            found = sessions.add(tx, scope_no, session, self._db.ids(tx.now_ms))
        return found

    def add_rows(
        self,
        tx: Tx,
        target: int,
        session: str,
        rows: list[dict[str, Any]],
        *,
        keep: bool = False,
    ) -> list[Message]:
        """Add counted rows to the session *target*, as `append` does."""
        stored = {
            row["external_id"]: self.stored_twin(tx, target, session, row, keep=keep)
            for row in rows
            if row["external_id"] is not None
        }
        unknown = [row for row in rows if stored.get(row["external_id"]) is None]
        fresh = _first_of_each(unknown, keep=keep)
        if fresh:
            last = sessions.advance(tx, target, len(fresh))
            if last is None:
                raise TooLarge("number of messages in one session", MAX_SEQ, MAX_SEQ + len(fresh))
            self._place(tx, target, last - len(fresh), fresh)
            messages.add(tx, fresh)
            words.index_messages(tx, fresh)
            jobs.add_session(tx, target, fresh[0]["id"] - target)
            jobs.grew(tx, target, last - len(fresh) + 1, last)
        added = {id(row): _as_message(row, session) for row in fresh}
        by_external = {row["external_id"]: added[id(row)] for row in fresh}
        return [
            stored.get(row["external_id"]) or added.get(id(row)) or by_external[row["external_id"]]
            for row in rows
        ]

    def _place(self, tx: Tx, target: int, last_seq: int, rows: list[dict[str, Any]]) -> None:
        """Give each row its id, uid and time, and the hash over all of it."""
        for seq, row in enumerate(rows, start=last_seq + 1):
            row["id"] = target + seq
            row["uid"] = row["uid"] or self._db.ids(tx.now_ms)
            if row["created_ms"] is None:
                row["created_ms"] = tx.now_ms
            row["content_hash"] = messages.hash_of(row)

    def stored_twin(
        self, tx: Tx, target: int, session: str, row: dict[str, Any], *, keep: bool = False
    ) -> Message | None:
        """Return the stored message with the row's external id, if it says the same or *keep*."""
        found = messages.find_external(tx, target, session, row["external_id"])
        if found is not None and not keep:
            _refuse_other((found.role, found.text, found.body), row)
        return found

    def to_row(self, new: NewMessage) -> dict[str, Any]:
        """
        Return the columns of a message that is not yet placed or counted.

        Beside them "counted" holds the text whose tokens count; `count` takes
        it away again.

        Raises:
            InvalidInput: a field cannot be stored.
        """
        text = text_value(new.text, "text")
        counted = text
        if new.parts:
            text, counted = _said(text, new.parts)
        return {
            "role": choice_value(new.role, "role", ROLES),
            "author": optional_name(new.author, "author"),
            "text": text,
            "body": json_list(new.parts, "parts"),
            "external_id": optional_name(new.external_id, "external_id"),
            "metadata": json_object(new.metadata, "metadata"),
            "created_ms": time_value(new.created_ms, "created_ms"),
            "uid": optional_name(new.uid, "uid"),
            "bigrams": bigrams_of(text),
            "counted": counted,
        }

    def count(self, rows: list[dict[str, Any]]) -> None:
        """Fill in the tokens of rows that `to_row` made; outside of transactions."""
        counts = self._counting.count_many([row.pop("counted") for row in rows])
        for row, tokens in zip(rows, counts, strict=True):
            row["tokens"] = tokens
            row["counter"] = self._counting.name

    def delete(self, owner: Owner, session: str) -> bool:
        """
        Remove a session with everything that hangs on it; False if it is absent.

        Entries that were told in it stay, without the link.
        """
        with self._db.write() as tx:
            return session_records.remove(tx, owner, session)


def _said(text: str, parts: list[Any]) -> tuple[str, str]:
    """Return the text of a message with *parts*, and what its tokens are counted of."""
    from memdb.text.parts import payload_of, text_of  # only for such messages

    if not isinstance(parts, (list, tuple)):
        return text, text  # refused when it is made JSON
    if not text:
        text = text_value(text_of(parts), "parts")
        return text, text
    extra = text_value(payload_of(parts), "parts")
    return text, text if extra in ("", text) else f"{text}\n{extra}"


def _first_of_each(rows: Iterable[dict[str, Any]], *, keep: bool) -> list[dict[str, Any]]:
    """Return the rows without later ones that repeat an external id."""
    seen: dict[str, dict[str, Any]] = {}
    kept = []
    for row in rows:
        external_id = row["external_id"]
        if external_id is None:
            kept.append(row)
        elif external_id not in seen:
            seen[external_id] = row
            kept.append(row)
        elif not keep:
            first = seen[external_id]
            _refuse_other((first["role"], first["text"], parse_json(first["body"])), row)
    return kept


def _refuse_other(known: tuple[str, str, Any], row: dict[str, Any]) -> None:
    if known != (row["role"], row["text"], parse_json(row["body"])):
        raise AlreadyExists("message with external_id", row["external_id"])


def _as_message(row: dict[str, Any], session: str) -> Message:
    return Message(
        row["id"] & MAX_SEQ,
        row["role"],
        row["author"],
        row["text"],
        parse_json(row["body"]),
        row["tokens"],
        row["counter"],
        row["external_id"],
        row["created_ms"],
        parse_json(row["metadata"]),
        session,
        row["id"],
        row["uid"],
    )


def to_new(value: NewMessage | dict[str, Any]) -> NewMessage:
    """
    Return *value* as a NewMessage; a dict has the same fields by name.

    Raises:
        InvalidInput: it is neither, or has an unknown field.
    """
    if isinstance(value, NewMessage):
        return value
    if not isinstance(value, dict):
        raise InvalidInput(f"message is {type(value).__name__}: give a NewMessage or a dict")
    unknown = sorted(set(value) - set(NewMessage._fields))
    if unknown or "role" not in value:
        problem = f"has no field {unknown[0]!r}" if unknown else "needs a role"
        raise InvalidInput(f"message {problem}: use {', '.join(NewMessage._fields)}")
    return NewMessage(**value)
