"""
Branches of a session of the Agents SDK, as `AdvancedSQLiteSession` has them.

These branches are branches of the session in memdb: shared up to the turn that they begin at.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from memdb.errors import AlreadyExists, InvalidInput, NotFound
from memdb.integrations.openai_agents.items import preview, refuse_blank, turn, turns_of, words_of
from memdb.text.validate import flag_value, iso_time, text_value

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any, TypeVar

    from memdb.api import database
    from memdb.api.scope import Scope
    from memdb.api.session import Session
    from memdb.api.threads import Kind
    from memdb.models.messages import NewMessage

    R = TypeVar("R")
    Item = dict[str, Any]

MAIN = "main"


class Branching:
    """The part of `MemDBSession` that knows which branch it is in."""

    if TYPE_CHECKING:
        session_id: str

        def _run(
            self, work: Callable[[database.MemDB], R], kind: Kind = "write", *, to_end: bool = False
        ) -> Coroutine[Any, Any, R]: ...

    def __init__(self, user: str, app: str) -> None:
        """Begin in "main" of a session of *user* and *app*."""
        self._place = user, app
        self._branch = MAIN

    async def create_branch_from_turn(
        self, turn_number: int, branch_name: str | None = None
    ) -> str:
        """
        Make a branch of what was said before the user's message *turn_number*; continue there.

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
                if name == MAIN:
                    raise AlreadyExists("branch", MAIN)  # noqa: TRY301 (as one of the file)
                chat.branch(name, seqs[turn_number - 1] - 1, create=True)
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
        """Switch to a branch; ValueError if there is none of that name."""

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
            raise InvalidInput(
                "Cannot delete the 'main' branch: use clear_session to remove everything"
            )
        if branch_id == self._branch and not force:
            raise InvalidInput(f"Cannot delete current branch {branch_id!r}: give force=True")

        def delete(db: database.MemDB) -> None:
            self._require(db, branch_id)
            branch = self._session(db, branch_id)
            with db.transaction():
                branch.clear()  # others that begin in it keep what they shared
                branch.delete(force=True)
            if self._branch == branch_id:
                self._branch = MAIN

        await self._run(delete, to_end=True)

    async def list_branches(self) -> list[dict[str, Any]]:
        """Return branch_id, message_count, user_turns, is_current, created_at; oldest first."""

        def read(db: database.MemDB) -> list[dict[str, Any]]:
            main = self._scope(db).session(self.session_id)
            head = main.head()
            found: list[tuple[str, int, Session]] = []
            if head is not None and (count := sum(1 for _ in main.messages())):
                found.append((MAIN, count, main))
            times = {MAIN: 0 if head is None else head.created_ms}
            for info in main.branches():
                found.append((info.name, info.message_count, main.branch(info.name)))
                times[info.name] = info.created_ms
            return [
                {
                    "branch_id": name,
                    "message_count": count,
                    "user_turns": len(turns_of(chat)),
                    "is_current": name == self._branch,
                    "created_at": iso_time(times[name]),
                }
                for name, count, chat in found
            ]

        return await self._run(read, "read")

    async def get_conversation_turns(self, branch_id: str | None = None) -> list[dict[str, Any]]:
        """Return turn, content (100 characters), full_content, timestamp of each turn."""
        find = self._chat_of(branch_id)

        def read(db: database.MemDB) -> list[dict[str, Any]]:
            chat = find(db)
            turns = [] if chat is None else turns_of(chat)
            return [turn(*found) for found in enumerate(turns, 1)]

        return await self._run(read, "read")

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

    def _session(self, db: database.MemDB, branch: str) -> Session:
        """Return a branch; NotFound if it is gone."""
        main = self._scope(db).session(self.session_id)
        return main if branch == MAIN else main.branch(branch, create=False)

    def _chat(self, db: database.MemDB, branch: str) -> Session:
        return self._session(db, self._known(db, branch))

    def _chat_of(self, branch_id: str | None) -> Callable[[database.MemDB], Session | None]:
        """
        Return what finds a branch as it is called, None for the one that is current now.

        The function finds None where there is no such branch.
        """
        if branch_id is None:
            return partial(self._chat, branch=self._branch)

        def find(db: database.MemDB) -> Session | None:
            try:
                return self._session(db, branch_id)
            except NotFound:
                return None

        return find

    def _add(self, db: database.MemDB, branch: str, new: list[NewMessage]) -> None:
        """Add to *branch*, or to "main" if another process has removed the branch."""
        try:
            self._session(db, branch).extend(new)
        except NotFound:
            self._known(db, branch)
            self._session(db, MAIN).extend(new)

    def _known(self, db: database.MemDB, branch: str) -> str:
        """Return *branch*, or "main" where another process has cleared the session since."""
        if branch == MAIN or self._has(db, branch):
            return branch
        if branch == self._branch:
            self._branch = MAIN
        return MAIN

    def _has(self, db: database.MemDB, branch: str) -> bool:
        try:
            return self._session(db, branch).head() is not None
        except NotFound:
            return False

    def _require(self, db: database.MemDB, branch: str) -> None:
        if not self._has(db, branch):
            raise InvalidInput(f"Branch {branch!r} does not exist: list_branches shows the names")
