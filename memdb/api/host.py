"""
What frameworks with sessions of their own need, as `session.host` gives it. Delegates.

A framework creates a session before anything is said, keeps state beside it,
stores what happened together with what it changed, takes messages back, and
chooses the window that a model sees.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from memdb.api._container import Services
    from memdb.conversations.host_sessions import Changes
    from memdb.models.file import SessionHead, SessionSnapshot
    from memdb.models.messages import ContextWindow, Message, NewMessage
    from memdb.records.scopes import Owner

    Values = Mapping[str, Any] | None


class Host:
    """Bookkeeping of a session for the framework that owns it."""

    def __init__(self, services: Services, owner: Owner, name: str) -> None:
        """Use `session.host` instead."""
        self._services = services
        self._owner = owner
        self._name = name

    def head(self) -> SessionHead | None:
        """Return the session's title, metadata, times and last seq; None if there is none."""
        return self._services.hosting.head(self._owner, self._name)

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
        return self._services.hosting.create(
            self._owner,
            self._name,
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
        return self._services.hosting.commit(
            self._owner,
            self._name,
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
        return self._services.hosting.snapshot(self._owner, self._name, last, since_ms)

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
        return self._services.writer.pop(self._owner, self._name, expected_seq, instead)

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
        return self._services.writer.replace(self._owner, self._name, seqs, instead, expected_seq)

    def clear(self) -> bool:
        """Remove every message; what was saved and remembered stays. False without any."""
        return self._services.writer.clear(self._owner, self._name)

    def erase(self, seq: int) -> bool:
        """
        Remove what message *seq* says; its place, time and external id stay.

        Adding a message with the same external id then brings nothing back. The
        summaries of the session are made anew, because they may quote it.

        Returns:
            False if there is no such message, or it says nothing any more.
        """
        hosting = self._services.hosting
        if hosting.is_archived(self._owner, self._name, seq):
            self._services.archivist.unarchive(self._owner, self._name, None)
        return hosting.erase(self._owner, self._name, seq)

    def window(
        self,
        strategy: str | None = None,
        *,
        last: int | None = None,
        budget_tokens: int | None = None,
        keep_last: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> ContextWindow:
        """
        Return the newest messages that *strategy* chooses, oldest of them first.

        Args:
            strategy: None keeps to both limits and skips tool results whose
                call would be missing. The others never begin inside a tool
                call and its results, and go back to a user's message for the
                first, also where that is over a limit: "buffer_window" for the
                newest *last* (20), "token_window" for those within
                *budget_tokens* (8,000), but the newest *keep_last* (5) at
                least, "none" for all. "summary_buffer" never is over
                *budget_tokens* (8,000): from 85 % of it on, summaries stand
                for all but the newest 56 to 71 %.
            last: Most messages; None: all that fit, or the strategy's number.
            budget_tokens: Most tokens by the file's counter, 4 per message for
                its frame included; None: no limit, or the strategy's number.
            keep_last: See "token_window".
            progress: Called with status and message before a model is asked
                for summaries, which only "summary_buffer" does.

        Raises:
            InvalidInput: no such strategy, or an argument does not apply to it.
            TooLarge: without a strategy, the newest message alone is over the
                budget.
        """
        from memdb.conversations.windows import Source, window_by

        options = {
            "last": last,
            "budget_tokens": budget_tokens,
            "keep_last": keep_last,
            "progress": progress,
        }
        services, owner, name = self._services, self._owner, self._name
        source = Source(
            lambda count, before: services.conversations.last(owner, name, count, before),
            services.counting,
            lambda budget, tell: services.contexts.summary_buffer(owner, name, budget, tell),
        )
        given = {option: value for option, value in options.items() if value is not None}
        return window_by(strategy, source, given)

    def _changes(self, state: Values, user_state: Values, app_state: Values) -> Changes:
        from memdb.records.state import places_of

        places = places_of(self._owner, self._name)
        return dict(zip(places, (state, user_state, app_state), strict=True))
