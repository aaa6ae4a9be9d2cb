"""
Claude Agent SDK: a memdb file as its `SessionStore` (extra `claude-agent`).

    store = MemdbSessionStore("agent.db", user="ann")
    options = ClaudeAgentOptions(session_store=store)

Each transcript is a session of memdb, each sub-agent one under its parent: lines come
back as they were, and `recall` finds what was said. `docs/claude-agent-sdk.md` has more.

A project is an app, and a transcript a session of its user. A line is one or several messages
(`memdb.formats.claude_code`), and the first of them keeps it. The SDK's own summary of a session
is in the session's metadata. The transaction that adds the lines updates it, so processes that
append at once cannot undo each other's.

>>> import asyncio, memdb
>>> from memdb.integrations.claude_agent import MemdbSessionStore
>>> async def mirror(db):
...     key = {"project_key": "-home-ann-trip", "session_id": "s1"}
...     line = {"type": "user", "message": {"role": "user", "content": "We fly on 3 May."}}
...     await MemdbSessionStore(db, user="ann").append(key, [line])
...     return db.scope("ann", "-home-ann-trip").recall("When do we fly?")[0].text
>>> with memdb.open(":memory:") as db:
...     asyncio.run(mirror(db))
'We fly on 3 May.'
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from memdb.adapters.adapter import Adapter, extra, place_of
from memdb.adapters.batches import key_list
from memdb.adapters.host import Host
from memdb.adapters.json_forms import json_of
from memdb.errors import InvalidInput
from memdb.formats.claude_code import entries_of, read_entry, title_of
from memdb.text.validate import name_value

with extra("claude-agent"):
    from claude_agent_sdk import SessionStore, fold_session_summary

if TYPE_CHECKING:
    from typing import Any

    from claude_agent_sdk import SessionKey
    from claude_agent_sdk.types import (
        SessionListSubkeysKey,
        SessionStoreEntry,
        SessionStoreListEntry,
        SessionSummaryEntry,
    )

    from memdb import Scope, Session
    from memdb.adapters.adapter import Source
    from memdb.models.messages import SessionInfo

# Between the name of a session and those of its sub-agents; escaped in ids.
SEPARATOR = "/"

METADATA_KEY = "claude_agent"

# Lists and objects of a line in each other: read back in threads, far below what Python can.
MAX_LINE_DEPTH = 300


class MemdbSessionStore(Adapter, SessionStore):
    """
    Transcripts of the Claude Agent SDK in a memdb file.

    All four optional methods are there. Lines with a `uuid` that is stored already are not
    added again. A wrong key or line raises `InvalidInput`, which is a ValueError, and nothing of
    the batch is written.
    """

    def __init__(self, source: Source, *, user: str | None = None, **options: Any) -> None:
        """
        Use a memdb file.

        Args:
            source: A path, or a file that is open; as for every adapter.
            user: The user of the transcripts. None means MEMDB_USER, or "default". The app
                is the project's key.
            options: For `memdb.open`, with a path.

        Raises:
            FileError: the file cannot be used.
            InvalidInput: an argument is wrong.
        """
        self._user = name_value(place_of(user, None)[0], "user")
        super().__init__(source, **options)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """
        Add lines to the end of a transcript, all or none.

        Raises:
            InvalidInput: the key names no session, or a line is not a JSON object.
            SecretFound: a line contains a secret, and the file refuses those.
        """
        chosen = self._session(key)
        # A line that the caller changes while this one waits is stored as it was.
        lines = [
            json.loads(_dumps(entry, place))
            for place, entry in enumerate(key_list(entries, "entries"))
        ]
        if lines:
            await self._run(partial(self._append, chosen, key, lines))

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return the lines of a transcript in order; None if it was never written."""
        chosen = self._find(key)
        if chosen is None:
            return None
        session_id = key["session_id"]
        return await self._read(lambda: entries_of(chosen.messages(), session_id) or None)

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        """Return the transcripts of a project and when each was written last; no sub-agents."""
        found = await self._list(project_key)
        return [{"session_id": _id_of(one), "mtime": one.updated_ms} for one in found]

    async def list_session_summaries(self, project_key: str) -> list[SessionSummaryEntry]:
        """Return the SDK's summaries of the transcripts of a project."""
        found = await self._list(project_key)
        return [_summary_of(one) for one in found]

    async def delete(self, key: SessionKey) -> None:
        """Remove a transcript with those of its sub-agents; with a subpath only that one."""
        chosen = self._find(key)
        if chosen is not None:
            await self._run(partial(self._delete, self._scope(key), chosen.name, key))

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        """Return the subpaths of a session's sub-agents, in order."""
        chosen = self._find(key)
        if chosen is None:
            return []
        scope, prefix = self._scope(key), chosen.name + SEPARATOR
        found = await self._read(lambda: scope.sessions(prefix))
        return [one.name.removeprefix(prefix) for one in found if one.message_count]

    def _scope(self, key: SessionKey | SessionListSubkeysKey) -> Scope:
        return self._db.scope(self._user, name_value(key.get("project_key"), "project_key"))

    def _session(self, key: SessionKey | SessionListSubkeysKey) -> Session:
        """
        Return the session of a key.

        InvalidInput for an impossible name, Closed after `close`.
        """
        self._refuse_closed()
        if not isinstance(key, dict):
            raise InvalidInput(f"key is {type(key).__name__}: give a SessionKey")
        name = _escaped(name_value(key.get("session_id"), "session_id"))
        subpath = key.get("subpath")
        if subpath is not None:
            name = f"{name}{SEPARATOR}{name_value(subpath, 'subpath')}"
        return self._scope(key).session(name_value(name, "session_id with subpath"))

    def _find(self, key: SessionKey | SessionListSubkeysKey) -> Session | None:
        """Return the session of a key, None if no session can have it."""
        try:
            return self._session(key)
        except InvalidInput:
            return None

    async def _list(self, project_key: str) -> list[SessionInfo]:
        self._refuse_closed()
        try:
            scope = self._scope({"project_key": project_key, "session_id": ""})
        except InvalidInput:
            return []
        found = await self._read(scope.sessions)
        return [one for one in found if SEPARATOR not in one.name and one.message_count]

    def _append(self, chosen: Session, key: SessionKey, lines: list[Any]) -> None:
        """Store *lines*, and update what depends on the new ones."""
        read = [read_entry(line, f"entries[{place}]") for place, line in enumerate(lines)]
        store = Host(chosen).prepare([message for one in read for message in one], keep=True)
        with self._db.transaction():
            before = chosen.last_seq
            fresh = {one.external_id for one in store() if one.seq > before}
            added = [
                line
                for line, messages in zip(lines, read, strict=True)
                if any(one.external_id in fresh for one in messages)
            ]
            if added:
                self._describe(chosen, key, added)

    def _describe(self, chosen: Session, key: SessionKey, added: list[Any]) -> None:
        """Update the summary and the title of a session with the lines *added*."""
        head = chosen.head()
        metadata = dict((head.metadata if head else None) or {})
        known = metadata.get(METADATA_KEY)
        kept = dict(known) if isinstance(known, dict) else {}
        known_rank = kept.get("title_rank")
        rank, title = title_of(added, (known_rank if type(known_rank) is int else -1, ""))
        if title:
            kept["title_rank"] = rank
        subpath = key.get("subpath")
        if subpath is not None:
            kept |= {"parent": key["session_id"], "subpath": subpath}
        else:
            data = _data_of(kept)
            before = {"session_id": key["session_id"], "mtime": 0, "data": data} if data else None
            # As JSON text: it may hold what no file can, such as NUL.
            kept["summary"] = json.dumps(_fold(before, key, added)["data"])
        if kept != known or title:
            chosen.update(title=title or None, metadata={**metadata, METADATA_KEY: kept})

    def _delete(self, scope: Scope, name: str, key: SessionKey) -> None:
        with self._db.transaction():
            doomed = [name]
            if key.get("subpath") is None:
                doomed += [one.name for one in scope.sessions(name + SEPARATOR)]
            for one in doomed:
                scope.delete(session=one)


def _dumps(entry: Any, place: int) -> str:
    if not isinstance(entry, dict):
        raise InvalidInput(f"entries[{place}] is {type(entry).__name__}: give a dict")
    return json_of(entry, f"entries[{place}]", MAX_LINE_DEPTH)


def _fold(before: Any, key: SessionKey, added: list[Any]) -> SessionSummaryEntry:
    """Return the SDK's summary with lines added; another program's changes in it are dropped."""
    try:
        return fold_session_summary(before, key, added)
    except (LookupError, TypeError, ValueError, AttributeError):
        if before is None:
            raise
        return fold_session_summary(None, key, added)


def _escaped(session_id: str) -> str:
    """Return an id as the name of a session; `SEPARATOR` in it marks a sub-agent."""
    return session_id.replace("%", "%25").replace(SEPARATOR, "%2F")


def _id_of(info: SessionInfo) -> str:
    return info.name.replace("%2F", SEPARATOR).replace("%25", "%")


def _summary_of(info: SessionInfo) -> SessionSummaryEntry:
    data = _data_of((info.metadata or {}).get(METADATA_KEY))
    return {"session_id": _id_of(info), "mtime": info.updated_ms, "data": data}


def _data_of(kept: object) -> dict[str, Any]:
    """Return the SDK's summary in the metadata; {} if it is absent or cannot be read."""
    text = kept.get("summary") if isinstance(kept, dict) else None
    try:
        data = json.loads(text) if isinstance(text, str) else {}
    except (ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
