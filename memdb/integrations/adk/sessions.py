"""Sessions, events and state of ADK in a memdb file."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from google.adk.errors import StaleSessionError
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import ListSessionsResponse
from pydantic_core import PydanticSerializationError, to_jsonable_python

from memdb.adapters.host import Host
from memdb.integrations.adk.events import reason, to_events, to_message, to_ms
from memdb.integrations.adk.service import Service, can_name, in_turns

if TYPE_CHECKING:
    from google.adk.events import Event
    from google.adk.sessions.base_session_service import GetSessionConfig

    import memdb
    from memdb.models.reports import SessionHead, SessionSnapshot

logger = logging.getLogger(__name__)

HOST = "adk"


class MemdbSessionService(Service, BaseSessionService):
    """
    ADK's sessions in a memdb file; see `Service` for how it is opened.

    A session is a conversation that every client of the file can read. A session of
    another client can be read and continued here. An event is stored in one transaction with all
    the state that it changes.

    If another program added or removed events since a session was read, the session is refused as
    stale. The number of its newest event decides; `last_update_time` decides for a session of
    another service. Erasing the words of an event does not make a session stale.

    An id that no session can have, such as a blank one, finds nothing; only `create_session`
    refuses it.
    """

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """
        Create a session; blanks around its id are removed, and a missing id is generated.

        Raises:
            AlreadyExistsError: a session has this id.
            SessionNotFoundError: another program deleted the session at once.
            InputValidationError: an id or a value cannot be stored.
        """
        now = platform_time.get_time()
        name = (session_id or "").strip() or platform_uuid.new_uuid()
        changes = _split(_json_safe(state or {}))

        def make() -> Session:
            chat = self._scope(app_name, user_id).session(name)
            Host(chat).create(metadata=_mark(now, 0), created=int(now * 1000), **changes)
            found = Host(chat).snapshot(last=0)
            if found is None:
                raise SessionNotFoundError(
                    f"Session {name!r} was deleted immediately after it was created."
                )
            return _to_session(app_name, user_id, found)

        return await self._run(make)

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """
        Return a session, None if it is absent; the limit by time is applied first.

        Raises:
            InputValidationError: a limit is not a number of events or not a time.
        """
        recent = config.num_recent_events if config else None
        after = config.after_timestamp if config else None

        def read() -> Session | None:
            since_ms = None if after is None else to_ms(after, "after_timestamp")
            chat = self._chat(app_name, user_id, session_id)
            # Milliseconds are too coarse to count by, so the last ones are cut below.
            found = Host(chat).snapshot(last=recent if after is None else None, since=since_ms)
            if found is None or not _counts(found.head):
                return None
            events = to_events(in_turns(found.messages))
            if after is not None:
                events = [event for event in events if event.timestamp >= after]
                events = events[max(len(events) - recent, 0) :] if recent is not None else events
            return _to_session(app_name, user_id, found, events)

        if not can_name(app_name, user_id, session_id):
            return None
        return await self._read(read)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all users, without events, oldest first."""

        def read() -> ListSessionsResponse:
            if user_id is not None:
                scopes = [self._scope(app_name, user_id)]
            else:
                users = [scope.user for scope in self._db.scopes() if scope.app == app_name]
                scopes = [self._scope(app_name, user) for user in users]
            found = []
            for scope in scopes:
                for info in scope.sessions():
                    one = Host(scope.session(info.name)).snapshot(last=0)
                    if one is not None and _counts(one.head):
                        found.append(_to_session(app_name, scope.user, one))
            found.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
            return ListSessionsResponse(sessions=found)

        if not can_name(app_name) or (user_id is not None and not can_name(user_id)):
            return ListSessionsResponse()
        return await self._read(read)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Remove a session with its events, state and artifacts; do nothing if it is absent."""

        def remove() -> None:
            self._chat(app_name, user_id, session_id).delete()

        if can_name(app_name, user_id, session_id):
            await self._run(remove)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the values of a user, keys without `user:`; {} if there is none."""
        if not can_name(app_name, user_id):
            return {}
        return await self._read(lambda: dict(self._scope(app_name, user_id).state.all()))

    async def append_event(self, session: Session, event: Event) -> Event:
        """
        Store *event* with the state it changes, and add it to *session*.

        A partial event is not stored. An event that is stored already changes
        nothing. `temp:` keys are set only in the session object.

        Raises:
            SessionNotFoundError: there is no such session.
            StaleSessionError: another program wrote to the session since it was read, or removed
                events.
            AlreadyExistsError: another event has its id.
            InputValidationError: the event cannot be stored.
        """
        if event.partial:
            return event
        kept = _without_temp(event)
        message = to_message(kept)
        changes = _split(_json_safe(kept.actions.state_delta))

        def write() -> bool:
            chat = self._scope(session.app_name, session.user_id).session(session.id)
            head = chat.head()
            if head is None or not _counts(head):
                raise SessionNotFoundError(f"Session {session.id!r} not found.")
            mark = {**(head.metadata or {}), **_mark(event.timestamp, head.last_seq + 1)}
            if _is_stale(session, head) and chat.find(event.id) is None:
                raise StaleSessionError(
                    f"Session {session.id!r} was changed after it was read: get it again."
                )
            stored = Host(chat).commit(message, expected=head, metadata=mark, **changes)
            if stored.seq <= head.last_seq:
                return False
            # Here, not in the event loop: the next call may be waiting already.
            session.last_update_time = event.timestamp
            session._storage_update_marker = _marker(head.uid, stored.seq)
            return True

        def follow(written: bool) -> None:  # noqa: FBT001 (what the worker gave)
            if written:
                self._apply_temp_state(session, event)
                self._commit_event_to_session(session, self._trim_temp_delta_state(event))

        await self._run(write, follow)
        return event

    def _chat(self, app_name: str, user_id: str, session_id: str) -> memdb.Session:
        """Return the session of that very name, else of the name without blanks around it."""
        scope = self._scope(app_name, user_id)
        chat = scope.session(session_id)
        stripped = session_id.strip()
        if stripped != session_id and chat.head() is None:
            return scope.session(stripped)
        return chat


def _counts(head: SessionHead) -> bool:
    """Return whether it is a session; with artifacts alone it is not one yet."""
    return head.last_seq > 0 or head.metadata is not None


def _mark(timestamp: float, seq: int) -> dict[str, Any]:
    """
    Return the metadata of a session: the exact time of its last event, and the seq of that event.
    """
    return {HOST: {"time": timestamp, "seq": seq}}


def _mark_of(head: SessionHead) -> dict[str, Any]:
    """Return what `_mark` stored; {} if another client wrote the session."""
    mark = (head.metadata or {}).get(HOST)
    return mark if isinstance(mark, dict) else {}


def _time_of(head: SessionHead) -> float:
    """Return the time of the last write; another client stores no event's time."""
    mark = _mark_of(head)
    if mark.get("seq") == head.newest_seq:
        return float(mark["time"])
    return head.updated_ms / 1000


def _marker(uid: str, seq: int) -> str:
    return f"{uid}:{seq}"


def _is_stale(session: Session, head: SessionHead) -> bool:
    marker = session._storage_update_marker
    if marker is not None and marker != _marker(head.uid, head.newest_seq):
        return True
    mark = _mark_of(head)
    if marker is None and mark.get("seq", 0) > head.newest_seq:
        return float(session.last_update_time) >= float(mark["time"])  # it has what was taken back
    return _time_of(head) > float(session.last_update_time)


def _to_session(
    app_name: str, user_id: str, found: SessionSnapshot, events: list[Event] | None = None
) -> Session:
    state = dict(found.state)
    state.update({State.APP_PREFIX + key: value for key, value in found.app_state.items()})
    state.update({State.USER_PREFIX + key: value for key, value in found.user_state.items()})
    session = Session(
        id=found.head.name,
        app_name=app_name,
        user_id=user_id,
        state=state,
        events=events or [],
        last_update_time=_time_of(found.head),
    )
    session._storage_update_marker = _marker(found.head.uid, found.head.newest_seq)
    return session


def _split(state: dict[str, Any]) -> dict[str, Any]:
    """Return what a delta sets in the session, its user and its app; `temp:` keys nowhere."""
    found: dict[str, dict[str, Any]] = {"state": {}, "user_state": {}, "app_state": {}}
    for key, value in state.items():
        if key.startswith(State.APP_PREFIX):
            found["app_state"][key.removeprefix(State.APP_PREFIX)] = value
        elif key.startswith(State.USER_PREFIX):
            found["user_state"][key.removeprefix(State.USER_PREFIX)] = value
        elif not key.startswith(State.TEMP_PREFIX):
            found["state"][key] = value
    return found


def _json_safe(state: dict[str, Any]) -> dict[str, Any]:
    """Return *state* as JSON values, as ADK's stores do: what has no JSON form becomes its repr."""
    if not isinstance(state, Mapping):
        raise InputValidationError(f"state is {type(state).__name__}: give a dict")
    try:
        return dict(to_jsonable_python(state))
    except (PydanticSerializationError, ValueError, TypeError):
        logger.warning(
            "a value of the state has no JSON form: its repr is stored instead", exc_info=True
        )
    try:
        return dict(to_jsonable_python(state, serialize_unknown=True))
    except ValueError as error:
        raise InputValidationError(
            f"state cannot be stored: {reason(state, error, 'state')}"
        ) from error


def _without_temp(event: Event) -> Event:
    """Return *event*, or a copy whose delta has no `temp:` keys."""
    delta = event.actions.state_delta
    kept = {key: value for key, value in delta.items() if not key.startswith(State.TEMP_PREFIX)}
    if len(kept) == len(delta):
        return event
    actions = event.actions.model_copy(update={"state_delta": kept})
    return event.model_copy(update={"actions": actions})
