"""
Calls of a framework for a session of `memdb.aio`, which other programs do not load.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from memdb.adapters.host import Host
from memdb.aio.parts import Twin, later
from memdb.api.threads import waited

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memdb.aio import Session as AsyncSession
    from memdb.models.messages import Message, NewMessage


class AsyncHost(Twin[Host]):
    """Calls of a framework for a session of `memdb.aio`; see `Host`."""

    __slots__ = ()

    create = later(Host.create)
    commit = later(Host.commit)
    snapshot = later(Host.snapshot, "read")
    erase = later(Host.erase)
    window = later(Host.window, "read")

    def __init__(self, session: AsyncSession) -> None:
        """Work on *session*, in the threads of its file."""
        super().__init__(Host(session._sync), session._worker)

    async def add(
        self,
        messages: Iterable[NewMessage | dict[str, Any]],
        *,
        after: Callable[[list[Message]], object] | None = None,
    ) -> list[Message]:
        """
        Add messages as `Session.extend` does, and finish even if the caller is cancelled.

        Args:
            after: Called with the stored messages in the thread that writes,
                before any later write begins.
        """
        prepare = partial(self._sync.prepare, messages)
        add = partial(self._worker.add, self._sync.transaction, prepare, after)
        return await waited(self._worker, add, to_end=True)
