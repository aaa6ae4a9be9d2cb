"""
OpenAI Agents SDK: a conversation of memdb as its `Session` (extra `openai-agents`).

    session = MemDBSession("trip", "agent.db", user="ann")
    await Runner.run(agent, "We fly to Oslo on 3 May.", session=session)

An item is stored as one message: its words are searched and recalled, the item
itself comes back as it was, key by key. What other clients said in the session
is given as items too. Calls run in the worker thread of the file (`memdb.aio`);
`docs/openai-agents.md` says what maps to what.

>>> import asyncio
>>> async def talk():
...     async with MemDBSession("trip", ":memory:", user="ann") as session:
...         await session.add_items([{"role": "user", "content": "We fly to Oslo on 3 May."}])
...         await session.add_items([{"role": "assistant", "content": "Noted."}])
...         hits = await session.search("When do we fly?")
...         return await session.get_items(limit=1), hits[0].text
>>> asyncio.run(talk())
([{'role': 'assistant', 'content': 'Noted.'}], 'We fly to Oslo on 3 May.')
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from memdb.errors import AlreadyExists, Closed, InvalidInput
from memdb.integrations.asking import missing
from memdb.integrations.openai_compaction import Compacting
from memdb.integrations.openai_items import (
    fitted,
    is_user,
    latest,
    merged,
    popped,
    preview,
    refuse_blank,
    to_message,
    turn,
    turns_of,
    words_of,
)
from memdb.integrations.sharing import file_of
from memdb.lane import waited
from memdb.text.times import iso_time
from memdb.text.validate import name_value

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any, Self, TypeVar

    from agents import SessionSettings

    from memdb import aio, memory
    from memdb.integrations.sharing import File, SharedFile
    from memdb.models import Hit, SessionInfo
    from memdb.scope import Scope
    from memdb.session import Session

    R = TypeVar("R")
    Item = dict[str, Any]

MAIN = "main"

# Between the id of a session and the name of a branch, in the name under which
# the branch is stored: OCR FORK, which no host puts into an id.
FORK = "\N{OCR FORK}"


class SessionClosed(Closed, RuntimeError):
    """The session was closed: the SDK's own sessions raise RuntimeError then."""


class MemDBSession(Compacting):
    """A conversation as the Agents SDK keeps it: `agents.Session`, with more."""

    session_settings: SessionSettings | None

    def __init__(
        self,
        session_id: str,
        file: File,
        *,
        user: str = "default",
        app: str = "default",
        session_settings: SessionSettings | dict[str, Any] | None = None,
        **options: Any,
    ) -> None:
        """
        Name a session; the file is opened at the first call.

        The first of a process loads what counts tokens, in 0.15 s: make it
        before the event loop serves.

        Args:
            session_id: The session's name in the scope of *user* and *app*.
            file: A path, or a file that is open already (`memdb.open` or
                `memdb.aio.open`) and stays so. Sessions of one path share it.
            session_settings: As in the SDK's sessions.
            options: For `memdb.open`, with a path.

        Raises:
            InvalidInput: the SDK is not installed, or a name cannot be used.
        """
        try:
            from agents.memory.session_settings import SessionSettings, coerce_session_settings
        except ImportError as error:
            raise missing("openai-agents", error) from error
        self.session_id = name_value(session_id, "session_id")
        if FORK in session_id:
            raise InvalidInput(f"session_id holds {FORK!r}, which parts branches from it")
        self.session_settings = coerce_session_settings(session_settings or SessionSettings())
        self._place = name_value(user, "user"), name_value(app, "app")
        self._file: SharedFile | None = file_of(file, options)
        self._branch = MAIN
        self._writes: tuple[str, aio.Session] | None = None

    async def get_items(self, limit: int | None = None, branch_id: str | None = None) -> list[Item]:
        """
        Return the latest *limit* items of a branch, oldest of them first.

        None: the limit of the settings, or all; the current branch.
        """
        from agents.memory.session_settings import resolve_session_limit

        most = resolve_session_limit(limit, self.session_settings)
        if most is not None and (not isinstance(most, int) or isinstance(most, bool)):
            raise InvalidInput(f"limit is {type(most).__name__}: give an int or None")
        chat = self._chat_of(branch_id)
        key = (self._place, self.session_id, branch_id or self._branch, branch_id is None, most)
        return await self._opened().read(key, lambda db: latest(chat(db), most))

    async def add_items(self, items: list[Item]) -> None:
        """
        Add items, all or none. Cancelling the caller stores them too, or nothing.

        Raises:
            InvalidItem: one is no dict, or has no JSON form; nothing was written.
            SessionClosed: after `close`.
        """
        branch, file = self._branch, self._opened()
        if new := list(items):
            chat = await self._writing(file, branch)
            adding = partial(chat._adding, map(to_message, new))
            await waited(chat._worker, adding, to_end=True)

    async def _writing(self, file: SharedFile, branch: str) -> aio.Session:
        db = await file.db()
        if branch != MAIN:
            branch = await db.run(lambda sync: self._known(sync, branch))
        if self._writes is None or self._writes[0] != branch:  # it knows its scope by now
            user, app = self._place
            self._writes = branch, db.scope(user, app).session(self._name(branch))
        return self._writes[1]

    async def pop_item(self) -> Item | None:
        """
        Remove the newest item and return it, None without one.

        Rows behind it that are no items go too.
        """
        branch = self._branch
        return await self._run(lambda db: popped(self._chat(db, branch)), to_end=True)

    async def clear_session(self) -> None:
        """Remove every item, and all branches. Artifacts and entries stay."""

        def clear(db: memory.MemDB) -> None:
            with db._db.write():
                self._scope(db).session(self.session_id).clear()
                for info in self._scope(db).sessions(self.session_id + FORK):
                    self._scope(db).session(info.name).delete()
            self._branch = MAIN

        await self._run(clear, to_end=True)

    async def search(self, query: str, limit: int = 10) -> list[Hit]:
        """Return what was said in the current branch with words of *query*, best first."""
        branch = self._branch
        return await self._run(lambda db: self._chat(db, branch).search(query, limit))

    async def recall(self, query: str, limit: int = 10) -> list[Hit]:
        """Return what the user's memory knows: all sessions, entries and artifacts."""
        return await self._run(lambda db: self._scope(db).recall(query, limit))

    async def context_items(self, budget_tokens: int, query: str | None = None) -> list[Item]:
        """
        Return the whole conversation as items in any budget; see `memdb.Session.context`.

        Summaries of what is older and excerpts for *query* are messages; the
        newest items are as they were. Where some before them are left out,
        reasoning and ids are too: the API refuses one without the other.

        Raises:
            TooLarge: the budget cannot hold the newest item.
        """
        branch = self._branch

        def read(db: memory.MemDB) -> list[Item]:
            return fitted(self._chat(db, branch).context(budget_tokens, query))

        return await self._run(read)

    def within(self, budget_tokens: int) -> Callable[[list[Item], list[Item]], Awaitable[Any]]:
        """
        Return a `RunConfig(session_input_callback=...)` that keeps history to a budget.

        A longer history is handed to the model as `context_items` gives it for
        the new input. The session keeps every item.
        """

        async def fit(history: list[Item], new: list[Item]) -> list[Item]:
            asked = " ".join(words_of(item) for item in new if is_user(item)).strip()
            context = await self.context_items(budget_tokens, asked or None)
            return merged(history, context) + new

        return fit

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """
        Copy what was said before the user's message *turn_number* to a branch; go on there.

        Returns its name. ValueError: there is no such turn, or the name is taken.
        """
        if branch_name is not None:
            refuse_blank(branch_name, "Branch name")
        branch = self._branch

        def create(db: memory.MemDB) -> str:
            chat = self._chat(db, branch)
            seqs = [seq for seq, _, _ in turns_of(chat)]
            if not isinstance(turn_number, int) or not 1 <= turn_number <= len(seqs):
                raise InvalidInput(
                    f"Turn {turn_number} does not contain a user message: "
                    f"branch {branch!r} has {len(seqs)} turns"
                )
            name = branch_name or f"branch_from_turn_{turn_number}_{uuid4().hex[:8]}"
            try:
                chat.fork(self._name(name), before_seq=seqs[turn_number - 1])
            except AlreadyExists as error:
                raise InvalidInput(
                    f"Branch ID {name!r} has already been used: choose another name"
                ) from error
            self._branch = name
            return name

        return await self._run(create, to_end=True)

    async def create_branch_from_content(
        self, search_term: str, branch_name: str | None = None
    ) -> str:
        """Branch from the first turn of the user that holds *search_term*; see above."""
        found = await self.find_turns_by_content(search_term)
        if not found:
            raise InvalidInput(f"No user turns found containing {search_term!r}")
        return await self.create_branch_from_turn(found[0]["turn"], branch_name)

    async def switch_to_branch(self, branch_id: str) -> None:
        """Go on in a branch; ValueError if there is none of that name."""

        def switch(db: memory.MemDB) -> None:
            self._require(db, branch_id)
            self._branch = branch_id

        await self._run(switch)

    async def delete_branch(self, branch_id: str, *, force: bool = False) -> None:
        """
        Remove a branch with its items; ValueError if there is none, or for "main".

        Args:
            force: Also the current one; "main" becomes that.
        """
        refuse_blank(branch_id, "Branch ID")
        if branch_id == MAIN:
            raise InvalidInput("Cannot delete the 'main' branch: clear_session removes all")
        if branch_id == self._branch and not force:
            raise InvalidInput(f"Cannot delete current branch {branch_id!r}: give force=True")

        def delete(db: memory.MemDB) -> None:
            self._require(db, branch_id)
            self._scope(db).session(self._name(branch_id)).delete()
            if self._branch == branch_id:
                self._branch = MAIN

        await self._run(delete, to_end=True)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return branch_id, message_count, user_turns, is_current, created_at; oldest first."""

        def read(db: memory.MemDB) -> list[dict[str, Any]]:
            found = sorted(self._branches(db), key=lambda info: (info.created_ms, info.uid))
            return [
                {
                    "branch_id": name,
                    "message_count": info.message_count,
                    "user_turns": len(turns_of(self._scope(db).session(info.name))),
                    "is_current": name == self._branch,
                    "created_at": iso_time(info.created_ms),
                }
                for info in found
                for name in [info.name.partition(FORK)[2] or MAIN]
            ]

        return await self._run(read)

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return turn, content (100 characters), full_content, timestamp of each turn."""
        chat = self._chat_of(branch_id)
        return await self._run(
            lambda db: [turn(*found) for found in enumerate(turns_of(chat(db)), 1)]
        )

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the turns of the user whose words hold *search_term*, in any case."""
        wanted = search_term.casefold()
        turns = await self.get_conversation_turns(branch_id)
        held = [
            one for one in turns if wanted in words_of({"content": one["full_content"]}).casefold()
        ]
        return [{**one, "content": preview(one["full_content"], None)} for one in held]

    def close(self) -> None:
        """Let go of the file; the last session of a path closes it. Again does nothing."""
        file, self._file = self._file, None
        if file is not None:
            file.release()

    async def aclose(self) -> None:
        """Close in a thread: the end of a file may wait for the disk."""
        await asyncio.to_thread(self.close)

    async def __aenter__(self) -> Self:
        """Return the session itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close it."""
        await self.aclose()

    def __repr__(self) -> str:
        """Name it and its user."""
        return f"<MemDBSession {self.session_id!r} of {self._place[0]!r}>"

    def _opened(self) -> SharedFile:
        if self._file is None:
            raise SessionClosed(f"session {self.session_id!r} is closed: make another one")
        return self._file

    def _run(
        self, work: Callable[[memory.MemDB], R], *, to_end: bool = False
    ) -> Coroutine[Any, Any, R]:
        """Do *work* in the thread of the file; *to_end* also for a caller that is cancelled."""
        return self._opened().run(work, to_end=to_end)

    def _scope(self, db: memory.MemDB) -> Scope:
        user, app = self._place
        return db.scope(user, app)

    def _name(self, branch: str) -> str:
        return self.session_id if branch == MAIN else f"{self.session_id}{FORK}{branch}"

    def _chat(self, db: memory.MemDB, branch: str) -> Session:
        return self._scope(db).session(self._name(self._known(db, branch)))

    def _chat_of(self, branch_id: str | None) -> Callable[[memory.MemDB], Session]:
        """Return what finds a branch as it is called, None for the one that is current now."""
        if branch_id is None:
            return partial(self._chat, branch=self._branch)
        return lambda db: self._scope(db).session(self._name(branch_id))

    def _known(self, db: memory.MemDB, branch: str) -> str:
        """Return *branch*, or "main" where another process has cleared the session since."""
        if branch == MAIN or self._has(db, branch):
            return branch
        if branch == self._branch:
            self._branch = MAIN
        return MAIN

    def _has(self, db: memory.MemDB, branch: str) -> bool:
        name = self._name(branch)
        return any(info.name == name for info in self._scope(db).sessions(name))

    def _branches(self, db: memory.MemDB) -> list[SessionInfo]:
        """Return the sessions of all branches, "main" only with items in it."""
        scope, name = self._scope(db), self.session_id
        main = [info for info in scope.sessions(name) if info.name == name and info.message_count]
        return main + scope.sessions(name + FORK)

    def _require(self, db: memory.MemDB, branch: str) -> None:
        if not self._has(db, branch):
            raise InvalidInput(f"Branch {branch!r} does not exist: list_branches shows what does")
