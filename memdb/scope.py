"""Somebody's memory, as `db.scope(user)` gives it. Delegates; no rules here."""

from __future__ import annotations

from memdb.session import Session
from memdb.text.validate import name_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from memdb.holdings import Artifacts, Entries
    from memdb.models import Hit, Remembered, SessionInfo
    from memdb.owner import Owner
    from memdb.rooms import Rooms

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

    def sessions(self, prefix: str = "") -> list[SessionInfo]:
        """Return what there is to say about each session whose name begins so, by name."""
        return self._rooms.conversations.sessions(self._owner, prefix)

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
    ) -> list[Hit]:
        """
        Return what this scope knows about *query*, best first.

        Messages and entries are found by words and by meaning, artifacts by the
        words of their newest version; each hit says where it comes from.

        Args:
            query: A question or some words, in any form.
            limit: Most hits, 1 to 1,000.
            kinds: Which of "message", "entry" and "artifact" to search.
            since: Only what was said at or after this time, UTC milliseconds
                or an aware datetime.
            until: Only what was said before this time.
            session: Only messages and artifacts of this session.
            explain: Give each hit the terms of its score.

        Returns:
            Hits whose score falls; [] when the scope shares no word or meaning
            with the query, or is empty.

        Raises:
            InvalidInput: an argument is out of its range.
            PortError: the embedder failed on the query.

        Cost: 5 ms for 10,000 messages, whatever else the file holds.
        """
        return self._rooms.recaller.recall(
            self._owner,
            query,
            limit,
            kinds=kinds,
            since=since,
            until=until,
            session=session,
            explain=explain,
        )

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
