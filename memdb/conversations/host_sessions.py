"""
HostSessionService: calls for frameworks with their own sessions and state.

A host creates sessions before their first message, stores values beside them, and stores an event
with all its changes in one transaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine.branches import runs_of
from memdb.errors import (
    AlreadyExists,
    InvalidInput,
    NotFound,
    VersionConflict,
    existing,
    require_version,
)
from memdb.models.ids import MAX_SEQ, branch_of, session_of
from memdb.models.messages import NewMessage
from memdb.models.reports import SessionHead, SessionSnapshot, StateValue
from memdb.records import messages as message_records
from memdb.records import sessions as session_records
from memdb.records import state as state_records
from memdb.tables import messages, sessions
from memdb.tables import state as state_rows
from memdb.text.validate import (
    MAX_MS,
    content_value,
    expected_value,
    int_value,
    json_object,
    json_value,
    name_value,
    parse_json,
    text_value,
    time_value,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from memdb.conversations.writer import MessageService
    from memdb.engine.base import Engine, Tx
    from memdb.models.messages import Message
    from memdb.records.drafts import Draft
    from memdb.records.scopes import ScopeRef
    from memdb.tables.state import Place, StateRow
    from memdb.text.screening import SecretScreen

    # What a write changes beside messages: values by key, by place.
    Changes = Mapping[Place, Mapping[str, Any] | None]

NULL = "null"


class HostSessionService:
    """The sessions of a file for their hosts, and state of any kind."""

    def __init__(self, db: Engine, message_service: MessageService) -> None:
        """Read and write *db*; *message_service* adds the messages."""
        self._db = db
        self._messages = message_service
        self._screen = message_service.screen

    def head(self, owner: ScopeRef, session: str) -> SessionHead | None:
        """Return the fields of the session's row, None if the session is absent."""
        name_value(session, "session")
        with self._db.read() as tx:
            found = _find(tx, owner, session)
        return None if found is None else found[1]

    def create(
        self,
        owner: ScopeRef,
        session: str,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created_ms: int | None = None,
        changes: Changes | None = None,
    ) -> SessionHead:
        """
        Create a session before its first message, with its state; see `Session.create`.

        Raises:
            AlreadyExists: the session was created before, or has messages.
            InvalidInput: something given cannot be stored; nothing was written.
        """
        name_value(session, "session")
        if branch_of(session):
            raise InvalidInput("create makes sessions only: use Session.branch for a branch")
        if title is not None:
            title = content_value(title, "title")
        fields = self._screen.pass_fields(
            "session", {"name": session, "title": title, "metadata": metadata or {}}
        )
        title, described = fields["title"], json_object(fields["metadata"], "metadata")
        made_ms = time_value(created_ms, "created_ms")
        given = _checked(changes or {}, self._screen)
        owner.admit()
        with self._db.write() as tx:
            target = session_records.ensure(tx, owner, session, self._db.ids)
            known = existing(_find(tx, owner, session), "sessions")
            if known[1].last_seq or known[1].metadata is not None:
                raise AlreadyExists("session", session)
            sessions.describe(tx, target, described)
            if title is not None:
                session_records.set_title(tx, target, title)
            if made_ms is not None:
                sessions.set_times(tx, target, made_ms, made_ms)
            self._put(tx, given)
            found = existing(_find(tx, owner, session), "sessions")
        return found[1]

    def date(
        self, owner: ScopeRef, session: str, created_ms: int | None, updated_ms: int | None
    ) -> None:
        """Set the times of creation and change of a session; see `Host.date`."""
        owner.admit()
        with self._db.write() as tx:
            target = session_records.ensure(tx, owner, session, self._db.ids)
            sessions.set_times(tx, target, created_ms, updated_ms)

    def snapshot(
        self, owner: ScopeRef, session: str, last: int | None, since_ms: int | None
    ) -> SessionSnapshot | None:
        """Return a session with its messages and every state at one moment, None without it."""
        name_value(session, "session")
        if last is not None:
            int_value(last, "last", 0, MAX_SEQ)
        time_value(since_ms, "since_ms")
        with self._db.read() as tx:
            found = _find(tx, owner, session)
            if found is None:
                return None
            said = _messages(tx, found[0], session, last, since_ms)
            places = state_records.places_of(owner, session)
            values = [_parsed(state_rows.values(tx, place)) for place in places]
        return SessionSnapshot(found[1], tuple(said), *values)

    def commit(
        self,
        owner: ScopeRef,
        session: str,
        new: NewMessage | dict[str, Any],
        expected: int | SessionHead | None = None,
        *,
        metadata: Mapping[str, Any] | None = None,
        changes: Changes,
    ) -> Message:
        """
        Add a message and everything that it changes; see `Host(session).commit`.

        Raises:
            NotFound: there is no such session.
            AlreadyExists: its external id belongs to a different message.
            VersionConflict: the session has changed since *expected*.
            InvalidInput: something given cannot be stored; nothing was written.
            SecretFound: the message contains a secret, and those are refused.

        Transaction: opens its own, after counting.
        """
        name_value(session, "session")
        head_seq = None if isinstance(expected, SessionHead) else expected_value(expected, "seq")
        fields = self._screen.pass_fields("session", {"metadata": metadata})
        described = json_object(fields["metadata"], "metadata")
        given = _checked(changes, self._screen)
        draft = self._draft(new)
        with self._db.write() as tx:
            found = _find(tx, owner, session)
            if found is None:
                raise NotFound("session", session)
            target, head = found
            twin = message_records.find_same(tx, target, session, draft)
            if twin is not None:
                return twin
            require_version("session", session, head_seq, head.last_seq)
            if isinstance(expected, SessionHead) and _moved(expected, head):
                raise VersionConflict("session", session, expected.newest_seq, head.newest_seq)
            (stored,) = self._messages.insert(tx, target, session, [draft])
            self._put(tx, given)
            if described is not None:
                sessions.describe(tx, target, described)
        return stored

    def erase(self, owner: ScopeRef, session: str, seq: int) -> bool:
        """Remove the text of a message, and its session's summaries; see `Host(session).erase`."""
        name_value(session, "session")
        int_value(seq, "seq", 1, MAX_SEQ)
        with self._db.write() as tx:
            found = _find(tx, owner, session)
            said = None if found is None else messages.find(tx, found[0], session, seq)
            if found is None or said is None or (not said.text and said.parts is None):
                return False
            message_records.erase(tx, session_of(said.row_id), said)
            return True

    def edit(
        self, owner: ScopeRef, session: str, seq: int, new: str | NewMessage | dict[str, Any]
    ) -> Message:
        """Change the text of a message, and return it as stored; see `Session.edit`."""
        name_value(session, "session")
        int_value(seq, "seq", 1, MAX_SEQ)
        if isinstance(new, str):
            with self._db.read() as tx:
                old = _message(tx, owner, session, seq)
            new = NewMessage(old.role, new, old.author, metadata=old.metadata)
        draft = self._draft(new)
        with self._db.write() as tx:
            said = _message(tx, owner, session, seq)
            if not message_records.says(said, draft):
                message_records.edit(tx, session_of(said.row_id), said, draft, self._db.ids)
                said = _message(tx, owner, session, seq)
        return said

    def update(
        self,
        owner: ScopeRef,
        session: str,
        title: str | None,
        metadata: Mapping[str, Any] | None,
        expected: SessionHead | None = None,
    ) -> SessionHead:
        """Change the title or metadata of a session; see `Session.update`."""
        name_value(session, "session")
        if title is not None:
            title = content_value(title, "title")
            if branch_of(session):
                raise InvalidInput(
                    "title is given for a branch, but only sessions have titles: leave it out"
                )
        fields = self._screen.pass_fields("session", {"title": title, "metadata": metadata})
        described = json_object(fields["metadata"], "metadata")
        owner.admit()
        with self._db.write() as tx:
            if expected is None and not branch_of(session):
                session_records.ensure(tx, owner, session, self._db.ids)
            found = _find(tx, owner, session)
            if found is None:
                raise NotFound("session", session)
            if expected is not None and (
                _moved(expected, found[1]) or expected.title != found[1].title
            ):
                raise VersionConflict("session", session, expected.newest_seq, found[1].newest_seq)
            if described is not None:
                sessions.describe(tx, found[0], described)
            if title is not None:
                session_records.set_title(tx, found[0], fields["title"])
            found = existing(_find(tx, owner, session), "sessions")
        return found[1]

    def _draft(self, new: NewMessage | dict[str, Any]) -> Draft:
        drafts = self._messages.draft([new])
        if len(drafts) != 1:
            raise InvalidInput("message has parts of several roles: give each of them by itself")
        return drafts[0]

    def values(self, place: Place) -> dict[str, Any]:
        """Return every value of a place, by key."""
        with self._db.read() as tx:
            return _parsed(state_rows.values(tx, place))

    def value(self, place: Place, key: str) -> tuple[Any] | None:
        """Return the value under *key* in a tuple, None where there is none."""
        text_value(key, "key")
        with self._db.read() as tx:
            found = state_rows.find(tx, place, key)
        return None if found is None else (parse_json(found.value),)

    def find_value(self, place: Place, key: str) -> StateValue | None:
        """Return the value under *key* with its version, None where there is none."""
        text_value(key, "key")
        with self._db.read() as tx:
            row = state_rows.find(tx, place, key)
        return None if row is None else _state_value(row)

    def put_value(
        self,
        owner: ScopeRef | None,
        place: Place,
        key: str,
        value: Any,
        expected: int | StateValue | None,
    ) -> StateValue:
        """
        Set one value of a place, and return it with its version; see `State.put`.

        Raises:
            VersionConflict: the key is at another version than expected.
        """
        version = expected_value(expected, "version")
        text_value(key, "key")
        store = self._prepare_put(owner, place, {key: value})
        with self._db.write() as tx:
            state_records.require_key(tx, place, key, version)
            store(tx)
            row = existing(state_rows.find(tx, place, key), "state")
        return _state_value(row)

    def put(self, owner: ScopeRef | None, place: Place, given: Mapping[str, Any]) -> None:
        """
        Set values of a place, all or none.

        Args:
            owner: Scope of the session in *place*, which is created if it is absent; None if
                *place* has no session.
        """
        store = self._prepare_put(owner, place, given)
        with self._db.write() as tx:
            store(tx)

    def _prepare_put(
        self, owner: ScopeRef | None, place: Place, given: Mapping[str, Any]
    ) -> Callable[[Tx], None]:
        checked = _checked({place: given}, self._screen)
        if owner is not None:
            self._screen.pass_fields("session", {"name": place[2]})
            owner.admit()

        def store(tx: Tx) -> None:
            if owner is not None:
                session_records.ensure(tx, owner, place[2], self._db.ids)
            self._put(tx, checked)

        return store

    def remove(self, place: Place, key: str, expected: int | StateValue | None = None) -> bool:
        """Remove a key of a place; False if there was none."""
        text_value(key, "key")
        version = expected_value(expected, "version")
        with self._db.write() as tx:
            state_records.require_key(tx, place, key, version)
            return state_records.remove(tx, place, key)

    def _put(self, tx: Tx, given: Mapping[Place, Mapping[str, str]]) -> None:
        for place, values in given.items():
            self._db.refuse_user(place[1])
            state_records.put(tx, None, place, values, self._db.ids)

    def clear(self, place: Place) -> None:
        """Remove every key of a place."""
        with self._db.write() as tx:
            state_records.remove(tx, place)


def _state_value(row: StateRow) -> StateValue:
    return StateValue(parse_json(row.value), row.version, row.updated_ms)


def _find(tx: Tx, owner: ScopeRef, session: str) -> tuple[int, SessionHead] | None:
    scope_no = owner.find(tx)
    return None if scope_no is None else sessions.head(tx, scope_no, session, branch_of(session))


def _message(tx: Tx, owner: ScopeRef, session: str, seq: int) -> Message:
    found = _find(tx, owner, session)
    said = None if found is None else messages.find(tx, found[0], session, seq)
    if said is None:
        raise NotFound("message", f"{session}#{seq}")
    return said


def _moved(known: SessionHead, head: SessionHead) -> bool:
    """Return whether messages were added or removed since, or the metadata changed."""
    if not isinstance(known, SessionHead):
        raise InvalidInput(
            f"expected is {type(known).__name__}: give the value that head() returned"
        )
    seen, now = ((one.last_seq, one.newest_seq, one.metadata) for one in (known, head))
    return seen != now


def _messages(
    tx: Tx, target: int, session: str, last: int | None, since_ms: int | None
) -> list[Message]:
    if since_ms is None:
        return messages.last(tx, target, session, MAX_SEQ if last is None else last)
    ids = [
        one
        for run in runs_of(tx, target)
        for one in sorted(messages.ids_between(tx, *run.span, since_ms, MAX_MS + 1))
    ]
    chosen = ids[len(ids) - min(len(ids), MAX_SEQ if last is None else last) :]
    found = messages.get_many(tx, chosen)
    return [found[one] for one in chosen]


def _checked(changes: Changes, screen: SecretScreen) -> dict[Place, dict[str, str]]:
    """Return the values to store, screened, as JSON texts by place and key."""
    found: dict[Place, dict[str, str]] = {}
    for place, given in changes.items():
        if given is None:
            continue
        if not hasattr(given, "items"):
            raise InvalidInput(f"state is {type(given).__name__}: give a dict")
        json_object(dict.fromkeys(given), "state")  # the keys
        app, user, session = place
        screen.pass_fields("state", {"app": app, "user": user, "session": session})
        for key in given:
            text_value(key, "a key of state")
            screen.pass_fields("state", {"key": key})
        passed = screen.pass_fields("state", {"value": dict(given)})["value"]
        found[place] = {
            key: json_value(value, f"state[{key!r}]") or NULL for key, value in passed.items()
        }
    return found


def _parsed(values: Mapping[str, str]) -> dict[str, Any]:
    return {key: parse_json(value) for key, value in values.items()}
