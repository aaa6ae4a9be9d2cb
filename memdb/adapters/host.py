"""
Bookkeeping for frameworks that have their own sessions or cache answers.

Frameworks with sessions of their own keep state beside a session, and store an event together
with its changes. The framework chooses the messages that a model sees. Adapters use
`Host(session)`, and for a session of `memdb.aio` `memdb.adapters.async_host.AsyncHost(session)`.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from memdb.adapters.shared import SharedFile
from memdb.api._resolve import STATIC, begin_file, embedder_by_name, model_by_name
from memdb.api.calls import observed
from memdb.api.session import Preparing
from memdb.conversations.windows import NewestMedia, newest_within
from memdb.errors import InvalidInput
from memdb.formats.provider_messages import read_messages
from memdb.models.entries import NewEntry
from memdb.models.ids import MAX_SEQ
from memdb.models.record import numbered
from memdb.models.reports import ChangeMark
from memdb.records.scopes import composed
from memdb.records.state import places_of
from memdb.text.validate import MANY, int_value, name_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from memdb.api._container import Transaction
    from memdb.api.database import MemDB
    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.conversations.host_sessions import Changes
    from memdb.models.entries import Remembered
    from memdb.models.keys import AnyKey
    from memdb.models.messages import ContextWindow, Message, NewMessage
    from memdb.models.reports import SessionHead, SessionSnapshot
    from memdb.models.summaries import ArchivedSpan
    from memdb.models.types import SecretAction, When


# The longest id of a host that is an external id as it is; of others their digest.
MAX_ID_CHARS = 1_000


@observed
class Host:
    """Calls of a framework for a session or a branch that it owns."""

    __slots__ = ("_name", "_owner", "_services", "_session")

    def __init__(self, session: Session) -> None:
        """Work on *session*."""
        self._session = session
        self._services = session._services
        self._owner = session._owner
        self._name = session._ref

    def create(
        self,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created: When | None = None,
        state: Mapping[str, Any] | None = None,
        user_state: Mapping[str, Any] | None = None,
        app_state: Mapping[str, Any] | None = None,
    ) -> SessionHead:
        """
        Create the session as `Session.create` does, and set state.

        Args:
            title, metadata, created: As in `Session.create`.
            state: Values of the session to set in the same transaction.
            user_state: Values of the user.
            app_state: Values of the app.

        Raises:
            AlreadyExists: the session was created before, or has messages. One that only
                contains artifacts or state so far can be created.
            InvalidInput: something given cannot be stored; nothing was written.
        """
        return self._services.hosting.create(
            self._owner,
            self._name,
            title=title,
            metadata=metadata,
            created_ms=self._services.when_ms(created, "created"),
            changes=self._changes(state, user_state, app_state),
        )

    def commit(
        self,
        message: NewMessage | dict[str, Any],
        *,
        expected: int | SessionHead | None = None,
        metadata: Mapping[str, Any] | None = None,
        state: Mapping[str, Any] | None = None,
        user_state: Mapping[str, Any] | None = None,
        app_state: Mapping[str, Any] | None = None,
    ) -> Message:
        """
        Add a message and the state that it changes, all or nothing.

        If the session already has the external id of the message, nothing changes, and the stored
        message is returned.

        Args:
            message: A `NewMessage`, or a dict with its fields by name.
            expected: `last_seq` or the session's head as you know it: if messages were
                added since, or its metadata differs from the head's, nothing is written.
            metadata: Replaces the session's metadata; None keeps it.
            state: Values of the session to set; other keys stay.
            user_state: Values of the user to set.
            app_state: Values of the app to set.

        Raises:
            NotFound: there is no such session: create it first.
            AlreadyExists: the external id belongs to a different message.
            VersionConflict: the session has changed since *expected*.
            InvalidInput: something given cannot be stored; nothing was written.
            SecretFound: the message contains a secret, and the settings refuse those.
        """
        return self._services.hosting.commit(
            self._owner,
            self._name,
            message,
            expected,
            metadata=metadata,
            changes=self._changes(state, user_state, app_state),
        )

    def prepare(
        self,
        messages: Iterable[NewMessage | dict[str, Any]],
        *,
        expected: int | Message | None = None,
        secrets: SecretAction | None = None,
        keep: bool = False,
    ) -> Callable[[], list[Message]]:
        """
        Check and count messages now; return a function that stores them.

        For callers that hold a transaction: only the function needs one. The function
        does what `Session.extend` does, and may be called again if its
        transaction was undone.

        Args:
            messages, expected, secrets, keep: As in `Session.extend`.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: a message contains a secret, and the settings refuse those.
        """
        writer, owner, name = self._services.writer, self._owner, self._name
        drafts = writer.prepare(owner, name, messages, secrets)
        return lambda: writer.append(owner, name, drafts, expected, keep=keep)

    def transaction(self, *, savepoints: bool = True) -> Transaction:
        """
        Return a context for writes that happen together or not at all; see `MemDB.transaction`.

        Args:
            savepoints: False undoes the whole transaction if one call inside
                it fails. Many small calls then take half the time.
        """
        return Preparing(self._session).transaction(savepoints=savepoints)

    def snapshot(
        self, last: int | None = None, since: When | None = None
    ) -> SessionSnapshot | None:
        """
        Return the session at one moment: its head, messages and every state that it sees.

        Args:
            last: Only this many of the newest messages, 0 for none; None means all.
            since: Only messages said at or after this time.

        Returns:
            None if there is no such session.
        """
        return self._services.hosting.snapshot(
            self._owner, self._name, last, self._services.when_ms(since, "since")
        )

    def date(self, *, created: When | None = None, updated: When | None = None) -> None:
        """Set the times when an imported session was created and changed; None keeps a time."""
        when_ms = self._services.when_ms
        times = when_ms(created, "created"), when_ms(updated, "updated")
        self._services.hosting.date(self._owner, self._name, *times)

    def erase(self, seq: int) -> bool:
        """
        Remove the content of message *seq*; its place, time and external id stay.

        Adding a message with the same external id later does not restore it. The summaries of the
        session are written again, because they may quote it.

        Returns:
            Return False if there is no such message, or its content was erased before.
        """
        return self._services.hosting.erase(self._owner, self._name, seq)

    def segments(self) -> tuple[ArchivedSpan, ...]:
        """Return which messages are archived, oldest first, and how many bytes they take."""
        return self._services.archivist.spans(self._owner, self._name)

    def context(self, budget_tokens: int | None = None, query: str | None = None) -> ContextWindow:
        """Return what `Session.context` does, without messages of other sessions."""
        return self._services.contexts.context(
            self._owner, self._name, budget_tokens, query, scope_messages=False
        )

    def window(self, *, last: int | None = None, budget_tokens: int | None = None) -> ContextWindow:
        """
        Return the newest messages within both limits, oldest of them first.

        A tool result whose call would be missing is left out. `context` also adds summaries of
        older messages.

        Args:
            last: Most messages. None means all that fit.
            budget_tokens: Most tokens by the file's counter, 4 per message for
                its frame included. None means no limit.

        Raises:
            TooLarge: the newest message alone is over the budget.
        """
        if last is not None:
            int_value(last, "last", 0, MAX_SEQ)
        counting = self._services.counting
        read = partial(self._services.conversations.last, self._owner, self._name)
        if budget_tokens is not None:
            int_value(budget_tokens, "budget_tokens", 1, MANY)
            media = NewestMedia(counting, budget_tokens)
            return newest_within(
                lambda count, before: media.views(read(count, before)),
                counting,
                last=last,
                budget_tokens=budget_tokens,
            )
        return newest_within(read, counting, last=last, budget_tokens=None)

    def _changes(self, *states: Mapping[str, Any] | None) -> Changes:
        return dict(zip(places_of(self._owner, self._name), states, strict=True))


def mirror(session: Session, said: Iterable[tuple[Any, str | None]]) -> Callable[[], None]:
    """
    Check messages of the framework's own store; return a function that adds them to *session*.

    A message whose id is known replaces its earlier version, unless that was erased. A message
    without an id is recognised by its words and by how often they came before. Anything that is not
    a message is left out, because the framework's own store has it.

    Args:
        said: Messages of a provider, each with the framework's id or None.

    Raises:
        SecretFound: a message contains a secret, and the settings refuse those.
    """
    new: list[NewMessage] = []
    seen: Counter[str] = Counter()
    for given, message_id in said:
        try:
            found = read_messages(given)
        except InvalidInput:
            continue
        for message in found:
            name = message_id or json.dumps([message.role, message.text, message.parts])
            if not message_id or len(name) > MAX_ID_CHARS:
                name = sha256(name.encode("utf-8", "replace")).hexdigest()
            seen[name] += 1
            number = f"#{seen[name]}" if seen[name] > 1 else ""
            new.append(message.replace(external_id=f"{name}{number}"))
    store = Host(session).prepare(new, keep=True)

    def add() -> None:
        said = {message.external_id: message for message in new}
        for stored in store():
            now = said[stored.external_id]
            is_erased = not stored.text and stored.parts is None
            before = (stored.role, stored.parts or stored.text)
            if not is_erased and before != (now.role, now.parts or now.text):
                session.edit(stored.seq, now)

    return add


class HostFile:
    """Calls for an open file by a program that caches answers or serves an event loop."""

    __slots__ = ("_db", "_opened", "_services")

    def __init__(self, db: MemDB) -> None:
        """Ask *db*."""
        self._opened = db
        self._services = db._services
        self._db = db._services.db

    @staticmethod
    def begin(path: str, key: AnyKey | None) -> None:
        """
        Make an empty file with small pages at *path*, unless there is a key.
        """
        begin_file(path, key)

    @property
    def commits(self) -> int:
        """The number of transactions that this handle committed."""
        return self._db.commits

    def keep_to(self, user: str) -> None:
        """Refuse from now on to store rows of other users, or of no user."""
        self._db.keep_to(user)

    def share(self, find: Callable[[], MemDB | None]) -> None:
        """
        Read the memory that all users of an app share from the file that *find* returns, if any.
        """
        self._services.shared = SharedFile(find, self._opened)

    def now_ms(self) -> int:
        """Return the time by the clock that the file was opened with, in UTC milliseconds."""
        return self._db.clock()

    def stamp(self) -> int | None:
        """
        Return a number that differs after any commit to the file, by any process.

        None means that it is unknown now, for instance in a transaction, or that `mark` was never
        called. The call never waits, so an event loop may call it. Cost: 5 µs.
        """
        return None if self._db.writing else self._db.stamp()

    def mark(self) -> ChangeMark | None:
        """
        Return a mark that shows later whether the file has changed, and whether others did it.

        Take the mark before reading what you cache. None means that changes cannot be seen now, for
        instance in ":memory:" or in a transaction. Cost: 15 µs.
        """
        if self._db.writing:
            return None
        commits, stamp, others = self._db.commits, self._db.stamp(start=True), self._db.others()
        if stamp is None:
            return None
        return ChangeMark(stamp, commits, others if self._db.commits == commits else None)

    def warm(self) -> None:
        """
        Load the token counter and the embedder now, which otherwise adds 0.2 s to the first calls.

        It is for programs with an event loop: loading keeps the interpreter busy, whichever thread
        does it.

        Raises:
            PortError: the counter or the embedder failed.
        """
        self._services.counting.count_many(["warm"])
        self._services.indexer.warm()


def user_name(user: str) -> str:
    """Return the name of a user as scopes have it; InvalidInput if it cannot be one."""
    return composed(name_value(user, "user"))


def pin_of(scope: Scope) -> object:
    """Return an object that lives as long as *scope*, or anything made from it, is in use."""
    return scope._owner


def loaded_ports(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options of `memdb.open` for many files: models that they name are loaded once."""
    loaded = dict(options)
    for field in ("embedder", "previous_embedder"):
        name = loaded.get(field)
        if isinstance(name, str) and name != STATIC:
            loaded[field] = embedder_by_name(name)
    if isinstance(loaded.get("model"), str):
        loaded["model"] = model_by_name(loaded["model"])
    return loaded


class HostEntries:
    """Calls for a scope by a program that stores several facts in one transaction."""

    __slots__ = ("_owner", "_services")

    def __init__(self, scope: Scope) -> None:
        """Remember in *scope*."""
        self._owner = scope._owner
        self._services = scope._services

    @property
    def has_arbiter(self) -> bool:
        """
        Whether remembering calls a model or an arbiter, which should not happen in a transaction.
        """
        return self._services.remember.has_arbiter

    def prepare(self, fact: NewEntry | dict[str, Any]) -> Callable[[], Remembered]:
        """
        Check and embed a fact now; return a function that remembers it.

        For callers that store several facts in one transaction: only the functions need one. Inside
        a transaction no arbiter is asked.

        Args:
            fact: A `NewEntry`, or a dict with its fields by name.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: the fact contains a secret, and the settings refuse those.
        """
        new = NewEntry(**fact) if isinstance(fact, dict) else fact
        remember = self._services.remember
        prepared = remember.prepare(self._owner, new)
        return lambda: numbered(remember.store(prepared))
