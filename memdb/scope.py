"""Somebody's memory, as `db.scope(user)` gives it. Delegates; no rules here."""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.session import Session
from memdb.text.validate import name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from memdb.holdings import Artifacts, Entries
    from memdb.models import Hits, Remembered, SessionInfo, Why
    from memdb.owner import Owner
    from memdb.rooms import Rooms
    from memdb.state import State

KINDS = ("message", "entry", "artifact")


class Scope:
    """What one user of one app has said, made and wants remembered."""

    def __init__(self, rooms: Rooms, owner: Owner) -> None:
        """Use `db.scope(user)` instead."""
        self._rooms = rooms
        self._owner = owner

    @property
    def app(self) -> str:
        """The program it belongs to."""
        return self._owner.app

    @property
    def user(self) -> str:
        """Whose it is."""
        return self._owner.user

    def session(self, name: str) -> Session:
        """Return a conversation; it is made at its first message."""
        return Session(self._rooms, self._owner, name_value(name, "session"))

    def sessions(self) -> list[SessionInfo]:
        """Return what there is to say about each session, by name."""
        return self._rooms.conversations.sessions(self._owner)

    def remember(
        self,
        text: str,
        *,
        category: str | None = None,
        key: str | None = None,
        keywords: Sequence[str] = (),
        importance: int | None = None,
        session: str | None = None,
        seq: int | None = None,
        valid_from_ms: int | None = None,
        expires_ms: int | None = None,
        created_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Remembered:
        """
        Store a long-term entry and say what that did: "added", "merged" or "ignored".

        Without *key* it is always "added". An active entry with the same key is
        updated instead: "merged", or "ignored" when it says all of this
        already. It keeps what is not said (None, or no keywords), but not a
        time of expiry that has passed.

        Args:
            text: One fact, in a sentence that can stand alone.
            category: What kind of fact it is: "profile", "preferences",
                "entities", "events" (the default), "cases", "patterns" or yours.
            key: Names the fact it states; what it said before becomes history.
            keywords: Other words to find it by.
            importance: 1 to 10; 5 is neutral, and what a new entry gets.
            session: Where it was told, with *seq* the message.
            valid_from_ms: Since when it holds in the world.
            expires_ms: From when on it is not recalled any more.

        Raises:
            InvalidInput: a field cannot be stored.
            NotFound: there is no such session, or no message *seq* in it.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     ann = db.scope("ann")
        ...     ann.remember("Ann lives in Oslo.", key="home_city").action
        ...     ann.remember("Ann lives in Bergen.", key="home_city").action
        'added'
        'merged'
        """
        return self._rooms.notebook.add(
            self._owner,
            text,
            category=category,
            key=key,
            keywords=keywords,
            importance=importance,
            session=session,
            seq=seq,
            valid_from_ms=valid_from_ms,
            expires_ms=expires_ms,
            created_ms=created_ms,
            metadata=metadata,
        )

    def recall(
        self,
        query: str,
        limit: int = 10,
        *,
        kinds: Sequence[str] = KINDS,
        since: int | datetime | None = None,
        until: int | datetime | None = None,
        session: str | None = None,
        explain: bool = False,
        rerank: bool = True,
        group: str | None = None,
    ) -> Hits:
        """
        Return what this scope knows about *query*, best first.

        Messages and entries are found by words and by meaning, artifacts by the
        words of their newest version; each hit says where it comes from.

        Args:
            query: A question or some words, in any form. Words in quotes belong
                together, `-word` puts what holds it last, and a date, also one like
                "two weeks ago", prefers what was said then.
            limit: Most hits, 1 to 1,000.
            kinds: Which of "message", "entry" and "artifact" to search.
            since: Only what was said at or after this time, UTC milliseconds
                or an aware datetime.
            until: Only what was said before this time.
            session: Only messages and artifacts of this session.
            explain: Give each hit the terms of its score.
            rerank: Also compare the words of the best messages with those of the
                query by meaning; False saves 3 ms.
            group: "session" gives the sessions whose messages say most, each as
                one hit with its best messages in `hits`.

        Returns:
            Hits whose score falls; [] when the scope shares no word or meaning
            with the query, or is empty. Their `arms` and `missing` tell how
            they were found: where the embedder fails, by words alone.

        Raises:
            InvalidInput: an argument is out of its range, or does not go
                together with *group*.
            PortError: the embedder failed on the query, and no word of it was
                found either.

        Cost: 5 ms for 10,000 messages, whatever else the file holds.
        """
        recaller = self._rooms.recaller
        if group is not None:
            if group != "session" or session is not None or explain or "message" not in kinds:
                raise InvalidInput(
                    f"group is {group!r}: 'session' groups messages, without session and explain"
                )
            return recaller.sessions(
                self._owner, query, limit, since=since, until=until, rerank=rerank
            )
        return recaller.recall(
            self._owner,
            query,
            limit,
            kinds=kinds,
            since=since,
            until=until,
            session=session,
            explain=explain,
            rerank=rerank,
        )

    def why(
        self,
        query: str,
        session: str,
        seq: int,
        limit: int = 10,
        *,
        since: int | datetime | None = None,
        until: int | datetime | None = None,
        rerank: bool = True,
    ) -> Why:
        """
        Return why message *seq* of *session* is, or is not, among the first *limit* hits.

        Args:
            query, limit, since, until, rerank: As in `recall` of messages.

        Raises:
            NotFound: there is no such message.
            InvalidInput: an argument is out of its range.
        """
        return self._rooms.recaller.why(
            self._owner, query, (session, seq), limit, since=since, until=until, rerank=rerank
        )

    def search(self, query: str, limit: int = 10, *, kinds: Sequence[str] = KINDS) -> Hits:
        """
        Return what shares words with *query*, best first; arguments as for `recall`.

        By words alone: nothing is found by its meaning or its place in a talk.
        """
        return self._rooms.recaller.recall(self._owner, query, limit, kinds=kinds, vectors=False)

    @property
    def state(self) -> State:
        """Values under keys that belong to the user, whatever the session."""
        from memdb.state import State

        return State(self._rooms, (self._owner.app, self._owner.user, ""))

    @property
    def entries(self) -> Entries:
        """The long-term entries."""
        from memdb.holdings import Entries

        return Entries(self._rooms, self._owner)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of all sessions, and the `user:` ones they share."""
        from memdb.holdings import Artifacts

        return Artifacts(self._rooms, self._owner, None)

    def export(self, path: str | os.PathLike[str]) -> int:
        """
        Write everything of this scope to *path* as JSON lines; return how many.

        Importing the file elsewhere gives the same scope, and exporting that
        one the same file, byte for byte.
        """
        from memdb.transfer.export import export_file

        return export_file(self._rooms, [self._owner], path)

    def __repr__(self) -> str:
        """Name the app and the user."""
        return f"<Scope {self.user!r} of {self.app!r}>"
