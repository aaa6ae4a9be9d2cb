"""
Strands Agents: its sessions in a memdb file (extra `strands`).

    repository = MemdbSessionRepository("agent.db", user="ann")
    manager = RepositorySessionManager("trip", repository)
    agent = Agent(model=model, session_manager=manager)

The conversation of an agent is the session "<session id>/<agent id>" of a scope; the agent
itself is a value of its state. A message of Strands is one of memdb's, or two if it contains
results of tools beside a user's words.

`docs/strands.md` has the mapping.
"""

from __future__ import annotations

import json
from datetime import datetime
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from memdb.adapters.adapter import ScopedAdapter, extra
from memdb.adapters.host import Host
from memdb.adapters.json_forms import json_of, pack_value, unpack_value
from memdb.errors import AlreadyExists, InvalidInput, VersionConflict
from memdb.formats.originals import original_of
from memdb.formats.provider_messages import BEDROCK, read_bedrock
from memdb.formats.shapes import OPENER
from memdb.models.messages import ContextWindow
from memdb.text.parts import ORIGINAL, without_original
from memdb.text.validate import fit_value, iso_time, name_value

with extra("strands"):
    from strands.session.session_repository import SessionRepository
    from strands.types.exceptions import SessionException
    from strands.types.session import (
        Session,
        SessionAgent,
        SessionMessage,
        decode_bytes_values,
        encode_bytes_values,
    )

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from strands.multiagent import MultiAgentBase

    from memdb import MemDBError, Message, NewMessage
    from memdb.api.session import Session as Chat

T = TypeVar("T")

AGENT = SPACE = "strands"
SESSIONS = (SPACE, "sessions")
GROUPS = (SPACE, "multi_agents")
PREFIX = "strands/"


class Stored(NamedTuple):
    """A message in Strands' form, with its place in the conversation."""

    message_id: int
    after: int  # 0 for one that Strands stored, else its place behind that one
    message: SessionMessage


class MemdbSessionRepository(ScopedAdapter, SessionRepository):
    """
    The sessions of Strands in one memdb file, for `RepositorySessionManager`.

    Its errors are `SessionException`, and ValueError for an id that no session can have.
    """

    def _translate(self, error: MemDBError) -> Exception:
        translated: Exception = SessionException(str(error))
        return translated

    def create_session(self, session: Session, **_: Any) -> Session:
        """Store a new session; SessionException if a session has its id."""
        session_id = _checked(session.session_id, "session_id")

        def create() -> Session:
            value = pack_value(session.to_dict(), "session")
            try:
                self._scope.items.put(SESSIONS, session_id, value, expected=0, index=False)
            except VersionConflict as error:
                raise SessionException(f"Session {session_id} already exists") from error
            return session

        return self._call(create)

    def read_session(self, session_id: str, **_: Any) -> Session | None:
        """Return a session, None if there is none."""
        _checked(session_id, "session_id")
        found = self._call(lambda: self._scope.items.find(SESSIONS, session_id))
        return None if found is None else _restored(Session.from_dict, found.value)

    def delete_session(self, session_id: str, **_: Any) -> None:
        """Remove a session with its agents and messages; SessionException if it is absent."""
        _checked(session_id, "session_id")

        def delete() -> None:
            with self._db.transaction():
                if not self._scope.items.delete(SESSIONS, session_id):
                    raise SessionException(f"Session {session_id} does not exist")
                for info in self._scope.sessions(f"{session_id}/"):
                    self._scope.session(info.name).delete()
                for item in self._scope.items.list((*GROUPS, session_id), limit=10_000):
                    self._scope.items.delete(item.namespace, item.key)

        self._call(delete)

    def create_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Store a new agent; SessionException if the session is absent or has such an agent."""
        chat = self._chat(session_id, session_agent.agent_id)

        def create() -> None:
            value = pack_value(session_agent.to_dict(), "agent")
            with self._db.transaction():
                self._require_session(session_id)
                if chat.head() is None:
                    chat.create()
                try:
                    chat.state.put(AGENT, value, expected=0)
                except VersionConflict as error:
                    raise SessionException(
                        f"Agent {session_agent.agent_id} already exists in session {session_id}"
                    ) from error

        self._call(create)

    def read_agent(self, session_id: str, agent_id: str, **_: Any) -> SessionAgent | None:
        """Return an agent, None if there is none."""
        chat = self._chat(session_id, agent_id)
        found = self._call(lambda: chat.state.find(AGENT))
        return None if found is None else _restored(SessionAgent.from_dict, found.value)

    def update_agent(self, session_id: str, session_agent: SessionAgent, **_: Any) -> None:
        """Replace an agent; SessionException if there is none."""
        chat = self._chat(session_id, session_agent.agent_id)

        def update() -> None:
            with self._db.transaction():
                before = chat.state.find(AGENT)
                if before is None:
                    raise SessionException(
                        f"Agent {session_agent.agent_id} in session {session_id} does not exist"
                    )
                session_agent.created_at = _restored(
                    SessionAgent.from_dict, before.value
                ).created_at
                chat.state.put(AGENT, pack_value(session_agent.to_dict(), "agent"))

        self._call(update)

    def create_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        """
        Add a message to an agent's conversation.

        Raises:
            SessionException: the agent is absent, the conversation has another message with this
                id, or it cannot be stored; nothing was written.
        """
        chat = self._chat(session_id, agent_id)
        message_id = _checked_number(session_message.message_id)

        def create() -> None:
            new = _to_messages(session_message)
            store = Host(chat).prepare(new)
            with self._db.transaction():
                if chat.state.find(AGENT) is None:
                    raise SessionException(
                        f"Agent {agent_id} does not exist in session {session_id}"
                    )
                try:
                    store()
                except AlreadyExists as error:
                    raise SessionException(
                        f"Message {message_id} already exists in agent {agent_id} in session "
                        f"{session_id}"
                    ) from error

        self._call(create)

    def read_message(
        self, session_id: str, agent_id: str, message_id: int, **_: Any
    ) -> SessionMessage | None:
        """Return a message, None if there is none."""
        chat = self._chat(session_id, agent_id)
        _checked_number(message_id)
        found = self._call(lambda: [*_stored_under(chat, message_id)])
        return _to_strands(message_id, found) if found else None

    def update_message(
        self, session_id: str, agent_id: str, session_message: SessionMessage, **_: Any
    ) -> None:
        """
        Replace a message, for instance by its redacted form; SessionException if it is absent.

        After that a search finds only its new content.
        """
        chat = self._chat(session_id, agent_id)
        message_id = _checked_number(session_message.message_id)

        def update() -> None:
            with self._db.transaction():
                before = [*_stored_under(chat, message_id)]
                if not before:
                    raise SessionException(f"Message {message_id} does not exist")
                session_message.created_at = _facts_of(before[0])["created_at"]
                new = _to_messages(session_message)
                if len(new) != len(before):
                    new = [_joined(session_message, new)]
                for old, instead in zip(before, new, strict=False):
                    chat.edit(old.seq, instead)
                for old in before[len(new) :]:
                    Host(chat).erase(old.seq)

        self._call(update)

    def list_messages(
        self, session_id: str, agent_id: str, limit: int | None = None, offset: int = 0, **_: Any
    ) -> list[SessionMessage]:
        """
        Return the messages of an agent by their id, *limit* of them from *offset* on.

        Messages of other clients of the file are included, except system messages.

        Raises:
            SessionException: the agent has no conversation.
        """
        chat = self._chat(session_id, agent_id)

        def read() -> list[SessionMessage]:
            if chat.head() is None:
                raise SessionException(f"Agent {agent_id} in session {session_id} has no messages")
            found = sorted(_listed(chat.messages()), key=lambda one: one[:2])
            end = None if limit is None else offset + limit
            return [one.message for one in found[offset:end]]

        return self._call(read)

    def create_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Store the state of several agents; SessionException if the session is absent."""
        key = _checked(multi_agent.id, "multi_agent_id")
        _checked(session_id, "session_id")

        def create() -> None:
            value = pack_value(encode_bytes_values(multi_agent.serialize_state()), "state")
            with self._db.transaction():
                self._require_session(session_id)
                self._scope.items.put((*GROUPS, session_id), key, value, index=False)

        self._call(create)

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **_: Any
    ) -> dict[str, Any] | None:
        """Return the state of several agents, None if there is none."""
        key = _checked(multi_agent_id, "multi_agent_id")
        place = (*GROUPS, _checked(session_id, "session_id"))
        found = self._call(lambda: self._scope.items.find(place, key))
        return None if found is None else _restored(decode_bytes_values, found.value)

    def update_multi_agent(self, session_id: str, multi_agent: MultiAgentBase, **_: Any) -> None:
        """Replace the state of several agents; SessionException if it is absent."""
        key = _checked(multi_agent.id, "multi_agent_id")
        place = (*GROUPS, _checked(session_id, "session_id"))

        def update() -> None:
            value = pack_value(encode_bytes_values(multi_agent.serialize_state()), "state")
            with self._db.transaction():
                if self._scope.items.find(place, key) is None:
                    raise SessionException(
                        f"MultiAgent state {key} in session {session_id} does not exist"
                    )
                self._scope.items.put(place, key, value, index=False)

        self._call(update)

    def _require_session(self, session_id: str) -> None:
        if self._scope.items.find(SESSIONS, session_id) is None:
            raise SessionException(f"Session {session_id} does not exist")

    def _chat(self, session_id: str, agent_id: str) -> Chat:
        session = _checked(session_id, "session_id")
        return self._scope.session(f"{session}/{_checked(agent_id, 'agent_id')}")


def _checked(value: str, field: str) -> str:
    """Return an id; InvalidInput, a ValueError, if it has the form of a path."""
    name = name_value(value, field)
    if "/" in name or "\\" in name:
        raise InvalidInput(f"{field} is {name!r}: an id cannot contain path separators")
    return name


def _checked_number(message_id: int) -> int:
    if not isinstance(message_id, int) or isinstance(message_id, bool):
        raise InvalidInput(f"message_id=<{message_id}> | message id must be an integer")
    return message_id


def _restored(build: Callable[[Any], T], value: object) -> T:
    """Return the object of a stored value; SessionException if another program changed it."""
    try:
        return build(unpack_value(value))
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise SessionException(f"a stored value is not a Strands value: {error!r}") from error


def _to_messages(new: SessionMessage) -> list[NewMessage]:
    """
    Return a message of Strands as messages with the roles of its speakers.

    Raises:
        InvalidInput: the message has no JSON form, or no role.
    """
    data = new.to_dict()
    json_of(data, "message")
    shown, kept = data["redact_message"] or data["message"], data["message"]
    _require_blocks(kept)
    _require_blocks(shown)
    plain = fit_value(shown)
    runs = read_bedrock(plain)
    facts = {"created_at": new.created_at, "updated_at": new.updated_at, "runs": len(runs)}
    if data["redact_message"] is not None:
        facts["before"] = json.dumps(kept)
    if plain != shown:
        facts["whole"] = json.dumps(shown)
    return [
        run.replace(
            external_id=_external_id(new.message_id, place),
            created_ms=_created_ms(new),
            metadata={SPACE: facts} if place == 0 else None,
        )
        for place, run in enumerate(runs)
    ]


def _require_blocks(message: object) -> None:
    """Refuse a value that Strands could not read again."""
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise InvalidInput("content of the message is not a list of blocks: give a list of dicts")


def _created_ms(new: SessionMessage) -> int | None:
    """Return the time of a message; None means now."""
    try:
        return int(datetime.fromisoformat(new.created_at).timestamp() * 1000)
    except (TypeError, ValueError, OverflowError):
        return None


def _joined(new: SessionMessage, runs: list[NewMessage]) -> NewMessage:
    """Return several stored messages as one, with the role of the tool if a tool speaks in it."""
    role = "tool" if any(run.role == "tool" for run in runs) else runs[0].role
    parts = [part for run in runs for part in without_original(run.parts or ())]
    shown = fit_value(new.to_dict()["redact_message"] or new.to_dict()["message"])
    parts.append({"type": ORIGINAL, "provider": BEDROCK, "whole": shown})
    facts = {**(runs[0].metadata or {})[SPACE], "runs": 1}
    return runs[0].replace(role=role, parts=parts, metadata={SPACE: facts})


def _external_id(message_id: int, place: int) -> str:
    return f"{PREFIX}{message_id}" if place == 0 else f"{PREFIX}{message_id}#{place + 1}"


def _facts_of(message: Message) -> dict[str, Any]:
    """Return Strands' data about a message; {} for another client's message."""
    found = (message.metadata or {}).get(SPACE)
    return found if isinstance(found, dict) else {}


def _stored_under(chat: Chat, message_id: int) -> Iterator[Message]:
    """Yield the stored messages of one message of Strands."""
    first = chat.find(_external_id(message_id, 0))
    if first is None or not _facts_of(first):
        return
    yield first
    for place in range(1, _facts_of(first).get("runs", 1)):
        more = chat.find(_external_id(message_id, place))
        if more is not None:
            yield more


def _number_of(message: Message) -> int | None:
    """Return the number that Strands gave a message; None for another client's."""
    external = message.external_id or ""
    number = external.removeprefix(PREFIX).partition("#")[0]
    if not external.startswith(PREFIX) or not number.lstrip("-").isdecimal():
        return None
    return int(number)


def _listed(messages: Iterable[Message]) -> Iterator[Stored]:
    """
    Yield the messages of a conversation.

    Another client's message follows the one that it came after.
    """
    newest, after = -1, 0
    for number, run in groupby(messages, _number_of):
        found = [*run]
        if number is not None and any(map(_facts_of, found)):
            newest, after = number, 0
            yield Stored(number, 0, _to_strands(number, found))
            continue
        for message in _foreign(found, is_first=newest < 0):
            after += 1
            created = found[0].created_ms
            yield Stored(newest, after, _foreign_message(message, newest + after, created))


def _to_strands(number: int, found: list[Message]) -> SessionMessage:
    facts = _facts_of(found[0])
    shown: Any = json.loads(facts["whole"]) if "whole" in facts else None
    if shown is None:
        runs = [original_of(message.parts, BEDROCK) or {"content": []} for message in found]
        shown = {**runs[0], "content": [block for run in runs for block in run["content"]]}
    shown.setdefault("role", "user")
    message = json.loads(facts["before"]) if "before" in facts else shown
    return SessionMessage.from_dict(
        {
            "message": message,
            "message_id": number,
            "redact_message": shown if "before" in facts else None,
            "created_at": facts["created_at"],
            "updated_at": facts["updated_at"],
        }
    )


def _foreign(found: list[Message], *, is_first: bool) -> list[dict[str, Any]]:
    """Return messages of other clients as messages of Strands."""
    told = tuple(message for message in found if message.role != "system")
    made = ContextWindow(told, 0, None).to("anthropic")["messages"] if told else []
    if made and not is_first and made[0]["content"] == [{"type": "text", "text": OPENER}]:
        del made[0]  # the conversation has begun before
    return [
        {"role": one["role"], "content": [_block(block) for block in one["content"]]}
        for one in made
    ]


def _foreign_message(message: dict[str, Any], number: int, created_ms: int) -> SessionMessage:
    when = iso_time(created_ms)
    return SessionMessage.from_dict(
        {"message": message, "message_id": number, "created_at": when, "updated_at": when}
    )


def _block(block: Any) -> dict[str, Any]:
    """Return a block in Anthropic's form as one in Bedrock's."""
    if isinstance(block, str):
        return {"text": block}
    kind = block.get("type")
    if kind == "tool_use":
        call = {"toolUseId": block["id"], "name": block["name"], "input": block["input"]}
        return {"toolUse": call}
    if kind == "tool_result":
        content = block.get("content") or ""
        given = [content] if isinstance(content, str) else content
        status = "error" if block.get("is_error") else "success"
        shown = [_block(one) for one in given]
        return {
            "toolResult": {"toolUseId": block["tool_use_id"], "status": status, "content": shown}
        }
    source = block.get("source") or {}
    if kind == "image" and source.get("type") == "base64":
        data = {"__bytes_encoded__": True, "data": source["data"]}
        name = source["media_type"].removeprefix("image/")
        return {"image": {"format": name, "source": {"bytes": data}}}
    return {"text": str(block.get("text") or json.dumps(block, ensure_ascii=False))}
