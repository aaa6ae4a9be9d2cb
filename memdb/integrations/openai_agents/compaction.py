"""
What the Agents SDK's compaction asks of a session that can do more than its protocol.

`OpenAIResponsesCompactionSession` shortens a conversation. By the calls of the
protocol that is two steps, clearing and adding, between which a crash loses the
conversation, and all of it or nothing; here it is one, and the newest part will do.

The SDK looks for these methods by their names, which have its underscore. Where
a later SDK does not, they are never called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.errors import VersionConflict
from memdb.integrations.openai_agents.branches import Branching
from memdb.integrations.openai_agents.items import held, items_of, to_message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from memdb.api import database
    from memdb.api.session import Session

    Item = dict[str, Any]
    Test = Callable[[Item], bool]


class Compacting(Branching):
    """The part of `MemDBSession` that the SDK's compaction uses."""

    async def _atomic_replace_items(self, items: list[Item]) -> bool:
        """Put *items* in the place of all that the current branch holds."""
        if not self._is_plain():
            return False
        branch, new = self._branch, [to_message(item) for item in items]

        def replace(db: database.MemDB) -> bool:
            chat = self._chat(db, branch)
            while True:
                newest = _newest(chat)
                try:
                    chat.host.replace(range(1, newest + 1), new, expected_seq=newest)
                except VersionConflict:
                    continue  # somebody added one meanwhile
                return True

        return await self._run(replace, to_end=True)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Test | None = None
    ) -> Any | None:
        """
        Return the newest *limit* items with what replaces the last of them; None: it cannot.

        The SDK's `_CompactionSnapshot`. Replacing gives False, and changes
        nothing, where the conversation went on since. It also removes the
        oldest items as far as *prune_prefix* says.
        """
        try:
            from agents.memory.session import _CompactionSnapshot
        except ImportError:  # another version of the SDK
            return None
        if not self._is_plain():
            return None
        branch = self._branch

        rows, newest, complete = await self._run(lambda db: held(self._chat(db, branch), limit))

        async def replace_suffix(start: int, output: list[Item]) -> bool:
            gone = [seq for seq, _ in rows[start:]]
            if not gone or gone[0] in (seq for seq, _ in rows[:start]):
                return False  # a message is replaced as a whole
            new = [to_message(item) for item in output]

            def replace(db: database.MemDB) -> bool:
                chat = self._chat(db, branch)
                expired = [*_expired(chat, gone[0], prune_prefix)]
                try:
                    chat.host.replace(expired + gone, new, expected_seq=newest)
                except VersionConflict:
                    return False
                return True

            return await self._run(replace, to_end=True)

        return _CompactionSnapshot([item for _, item in rows], complete, replace_suffix)

    def _is_plain(self) -> bool:
        """Say whether no subclass gives or takes other items than are stored."""
        from memdb.integrations.openai_agents.session import MemDBSession  # it imports this module

        return all(
            getattr(type(self), name) is getattr(MemDBSession, name)
            for name in ("get_items", "add_items")
        )


def _newest(chat: Session) -> int:
    said = chat.last(1)
    return said[0].seq if said else 0


def _expired(chat: Session, before_seq: int, test: Test | None) -> Iterator[int]:
    """Yield the seqs of the oldest messages whose items all pass *test*."""
    if test is None:
        return
    for message in chat.messages():
        items = items_of(message)
        if message.seq >= before_seq or not items or not all(map(test, items)):
            return
        yield message.seq
