"""
Branches of a session of the Agents SDK, as `AdvancedSQLiteSession` has them.

A branch is a session of memdb of its own, a copy up to the turn it begins at.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from memdb.errors import AlreadyExists, InvalidInput
from memdb.integrations.openai_agents.items import preview, refuse_blank, turn, turns_of, words_of
from memdb.models.ids import FORK
from memdb.text.validate import flag_value, iso_time, text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeVar

    from memdb.aio.batching import Kind
    from memdb.api import database
    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.models.messages import NewMessage, SessionInfo

    R = TypeVar("R")
    Item = dict[str, Any]

MAIN = "main"


class Branching:
    """The part of `MemDBSession` that knows which branch it is in."""

    if TYPE_CHECKING:
        session_id: str

        def _run(
            self,
            work: Callable[[database.MemDB], R],
            kind: Kind = "write",
            *,
            to_end: bool = False,
        ) -> Coroutine[Any, Any, R]: ...

    def __init__(self, user: str, app: str) -> None:
        """Begin in "main" of a session of *user* and *app*."""
        self._place = user, app
        self._branch = MAIN

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

        def create(db: database.MemDB) -> str:
            chat = self._chat(db, branch)
            seqs = [seq for seq, _, _ in turns_of(chat)]
            if type(turn_number) is not int or not 1 <= turn_number <= len(seqs):
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

        def switch(db: database.MemDB) -> None:
            self._require(db, branch_id)
            self._branch = branch_id

        await self._run(switch, to_end=True)

    async def delete_branch(self, branch_id: str, *, force: bool = False) -> None:
        """
        Remove a branch with its items; ValueError if there is none, or for "main".

        Args:
            force: Also the current one; "main" becomes that.
        """
        flag_value(force, "force")
        refuse_blank(branch_id, "Branch ID")
        if branch_id == MAIN:
            raise InvalidInput("Cannot delete the 'main' branch: clear_session removes all")
        if branch_id == self._branch and not force:
            raise InvalidInput(f"Cannot delete current branch {branch_id!r}: give force=True")

        def delete(db: database.MemDB) -> None:
            self._require(db, branch_id)
            self._scope(db).session(self._name(branch_id)).delete()
            if self._branch == branch_id:
                self._branch = MAIN

        await self._run(delete, to_end=True)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return branch_id, message_count, user_turns, is_current, created_at; oldest first."""

        def read(db: database.MemDB) -> list[dict[str, Any]]:
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

        return await self._run(read, "read")

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return turn, content (100 characters), full_content, timestamp of each turn."""
        chat = self._chat_of(branch_id)
        return await self._run(
            lambda db: [turn(*found) for found in enumerate(turns_of(chat(db)), 1)], "read"
        )

    async def find_turns_by_content(
        self, search_term: str, branch_id: str | None = None
    ) -> list[dict[str, Any]]:
        """Return the turns of the user whose words hold *search_term*, in any case."""
        wanted = text_value(search_term, "search_term").casefold()
        turns = await self.get_conversation_turns(branch_id)
        held = [
            one for one in turns if wanted in words_of({"content": one["full_content"]}).casefold()
        ]
        return [{**one, "content": preview(one["full_content"], None)} for one in held]

    def _scope(self, db: database.MemDB) -> Scope:
        user, app = self._place
        return db.scope(user, app)

    def _name(self, branch: str) -> str:
        return self.session_id if branch == MAIN else f"{self.session_id}{FORK}{branch}"

    def _chat(self, db: database.MemDB, branch: str) -> Session:
        return self._scope(db).session(self._name(self._known(db, branch)))

    def _chat_of(self, branch_id: str | None) -> Callable[[database.MemDB], Session]:
        """Return what finds a branch as it is called, None for the one that is current now."""
        if branch_id is None:
            return partial(self._chat, branch=self._branch)
        return lambda db: self._scope(db).session(self._name(branch_id))

    def _add(self, db: database.MemDB, branch: str, new: list[NewMessage]) -> None:
        """Add to *branch*, or to "main" if another process has removed the branch."""
        store = self._scope(db).session(self._name(branch)).host.prepare(new)
        with db.transaction():
            if self._known(db, branch) == branch:
                store()
                return
        self._scope(db).session(self.session_id).extend(new)

    def _known(self, db: database.MemDB, branch: str) -> str:
        """Return *branch*, or "main" where another process has cleared the session since."""
        if branch == MAIN or self._has(db, branch):
            return branch
        if branch == self._branch:
            self._branch = MAIN
        return MAIN

    def _has(self, db: database.MemDB, branch: str) -> bool:
        name = self._name(branch)
        return any(info.name == name for info in self._scope(db).sessions(name))

    def _branches(self, db: database.MemDB) -> list[SessionInfo]:
        """Return the sessions of all branches, "main" only with items in it."""
        scope, name = self._scope(db), self.session_id
        main = [info for info in scope.sessions(name) if info.name == name and info.message_count]
        return main + scope.sessions(name + FORK)

    def _require(self, db: database.MemDB, branch: str) -> None:
        if not self._has(db, branch):
            raise InvalidInput(f"Branch {branch!r} does not exist: list_branches shows what does")
