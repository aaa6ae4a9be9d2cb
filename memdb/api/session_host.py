"""
What a conversation offers to frameworks with sessions of their own. Delegates.

A host creates a session before anything is said, keeps state beside it, and
stores what happened together with what it changed.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memdb.api._container import Rooms
    from memdb.api.state import State
    from memdb.conversations.host_sessions import Changes
    from memdb.models.messages import Message, NewMessage
    from memdb.models.sessions import SessionHead, SessionSnapshot
    from memdb.records.scopes import Owner

    Values = Mapping[str, Any] | None


class Hosted:
    """The part of `memdb.Session` that hosts use."""

    name: str
    _rooms: Rooms
    _owner: Owner

    def head(self) -> SessionHead | None:
        """Return the session's title, metadata, times and last seq; None if there is none."""
        return self._rooms.hosting.head(self._owner, self.name)

    def create(
        self,
        *,
        title: str | None = None,
        metadata: Values = None,
        created_ms: int | None = None,
        state: Values = None,
        user_state: Values = None,
        app_state: Values = None,
    ) -> SessionHead:
        """
        Make the session before anything is said in it.

        Args:
            title: What to call it in lists.
            metadata: A JSON object that is kept with it.
            created_ms: When it began; None: now.
            state: Values of the session to set in the same transaction.
            user_state: Values of the user.
            app_state: Values of the app.

        Raises:
            AlreadyExists: it was created before, or has messages. One that only
                holds artifacts or state so far can be created.
            InvalidInput: something given cannot be stored; nothing was written.
        """
        return self._rooms.hosting.create(
            self._owner,
            self.name,
            title=title,
            metadata=metadata,
            created_ms=created_ms,
            changes=self._changes(state, user_state, app_state),
        )

    def commit(
        self,
        message: NewMessage | dict[str, Any],
        *,
        expected_seq: int | None = None,
        expected: SessionHead | None = None,
        metadata: Values = None,
        state: Values = None,
        user_state: Values = None,
        app_state: Values = None,
    ) -> Message:
        """
        Add a message together with what it changes, all or nothing.

        A message whose external id the session has changes nothing at all; the
        stored one is returned.

        Args:
            message: A `NewMessage`, or a dict with its fields by name.
            expected_seq: `last_seq` as you know it: if somebody added a message
                since, nothing is written.
            expected: The session's head as you know it: if messages were added
                or taken back since, or its metadata changed, nothing is written.
            metadata: Takes the place of the session's metadata; None: it stays.
            state: Values of the session to set; other keys stay.
            user_state: Values of the user to set.
            app_state: Values of the app to set.

        Raises:
            NotFound: there is no such session: create it first.
            AlreadyExists: the external id belongs to a different message.
            VersionConflict: the session is not at *expected_seq*, or not as *expected*.
            InvalidInput: something given cannot be stored; nothing was written.
            SecretFound: the message holds a secret, and those are refused.
        """
        return self._rooms.hosting.commit(
            self._owner,
            self.name,
            message,
            expected_seq,
            expected=expected,
            metadata=metadata,
            changes=self._changes(state, user_state, app_state),
        )

    def snapshot(
        self, last: int | None = None, since_ms: int | None = None
    ) -> SessionSnapshot | None:
        """
        Return the session at one moment: head, messages and every state it sees.

        Args:
            last: Only the newest so many messages, 0 for none; None: all.
            since_ms: Only messages said at or after this time.

        Returns:
            None if there is no such session.
        """
        return self._rooms.hosting.snapshot(self._owner, self.name, last, since_ms)

    def erase(self, seq: int) -> bool:
        """
        Remove what message *seq* says; its place, time and external id stay.

        Adding a message with the same external id then brings nothing back. The
        summaries of the session are made anew, because they may quote it.

        Returns:
            False if there is no such message, or it says nothing any more.
        """
        hosting = self._rooms.hosting
        if hosting.is_archived(self._owner, self.name, seq):
            self._rooms.archivist.unarchive(self._owner, self.name, None)
        return hosting.erase(self._owner, self.name, seq)

    @property
    def state(self) -> State:
        """Values under keys that go with the session."""
        from memdb.api.state import State

        place = (self._owner.app, self._owner.user, self.name)
        return State(self._rooms, place, self._owner)

    def _changes(self, state: Values, user_state: Values, app_state: Values) -> Changes:
        from memdb.records.state import places_of

        places = places_of(self._owner, self.name)
        return dict(zip(places, (state, user_state, app_state), strict=True))
