"""Changing a conversation after the fact, as `memdb.Session` offers it. Delegates."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self

    from memdb.api._container import Rooms
    from memdb.models.messages import Message, NewMessage
    from memdb.records.scopes import Owner


class Revising:
    """Taking messages back, and going on in two ways: a part of `memdb.Session`."""

    def __init__(self, rooms: Rooms, owner: Owner, name: str) -> None:
        """Use `scope.session(name)` instead."""
        self._rooms = rooms
        self._owner = owner
        self.name = name

    def pop(
        self,
        *,
        expected_seq: int | None = None,
        instead: Iterable[NewMessage | dict[str, Any]] = (),
    ) -> Message | None:
        """
        Remove the newest message, with summaries that stand for it, and return it.

        None without any. Its seq is not given out again.

        Args:
            expected_seq: Its seq as you know it, 0 for none: if it is another
                by now, nothing is removed.
            instead: Messages to add in its place, in the same transaction.

        Raises:
            VersionConflict: the newest message is not *expected_seq*.
            InvalidInput: a field of *instead* cannot be stored.
        """
        return self._rooms.writer.pop(self._owner, self.name, expected_seq, instead)

    def replace(
        self,
        seqs: Iterable[int],
        instead: Iterable[NewMessage | dict[str, Any]] = (),
        *,
        expected_seq: int | None = None,
    ) -> list[Message]:
        """
        Remove messages and add others at the end, in one transaction; what was added.

        For hosts that shorten a conversation themselves. The messages go with
        their words, vectors and the summaries from the first of them on; what
        was remembered from them stays, which `forget` would remove too.

        Args:
            seqs: Of what goes; those without a message are passed over.
            instead: `NewMessage`s, or dicts with the same fields by name.
            expected_seq: The seq of the newest message as you know it, 0 for
                none: if it is another by now, nothing is changed.

        Raises:
            VersionConflict: the newest message is not *expected_seq*.
            InvalidInput: a seq or a field of *instead* cannot be.
        """
        return self._rooms.writer.replace(self._owner, self.name, seqs, instead, expected_seq)

    def fork(self, name: str, *, before_seq: int | None = None) -> Self:
        """
        Copy this session to a new one called *name* and return that.

        The copies keep their order, times and external ids, and get seqs from
        1 on. Summaries are made anew; artifacts stay with this session.

        Args:
            before_seq: Copy only what was said before this seq; None: all.

        Raises:
            AlreadyExists: the scope has a session of that name.
            NotFound: this session has no messages yet.

        Cost: 30 µs per message, in one transaction.
        """
        self._rooms.writer.fork(self._owner, self.name, name, before_seq)
        return type(self)(self._rooms, self._owner, name)

    def clear(self) -> bool:
        """Remove every message; what was saved and remembered stays. False without any."""
        return self._rooms.writer.clear(self._owner, self.name)
