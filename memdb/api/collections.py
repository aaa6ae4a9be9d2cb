"""
Collections of a scope or session: entries, artifacts, summaries, state. They only delegate.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, Unpack

from memdb.api.calls import handle, observed
from memdb.engine.files import refuse_live
from memdb.models.entries import EntryChanges
from memdb.models.summaries import SummaryText
from memdb.text.validate import page_of, path_value, row_after

if TYPE_CHECKING:
    import io
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from memdb.api._container import Services
    from memdb.models.entries import Entry, EntryVersion, Link
    from memdb.models.messages import Artifact, ArtifactVersion
    from memdb.models.record import Page
    from memdb.models.reports import StateValue, TextDiff
    from memdb.models.summaries import Compacted, Expansion, Summary
    from memdb.models.types import ArtifactOrder, EntryFields, EntryOrder, When
    from memdb.records.scopes import ScopeRef
    from memdb.summaries.tree import SummaryTree
    from memdb.tables.state import Place


@observed
class Entries:
    """The long-term entries of a scope; `scope.remember` adds one."""

    __slots__ = ("_entries", "_owner", "_services")

    def __init__(self, services: Services, owner: ScopeRef) -> None:
        """Use `scope.entries` instead."""
        self._services = services
        self._entries = services.entries
        self._owner = owner

    def get(self, entry_id: int) -> Entry:
        """Return an entry; NotFound if this scope has none with this id."""
        return self._entries.get(self._owner, entry_id)

    def find(self, key: str, *, session: str | None = None) -> Entry | None:
        """
        Return the entry that now states the fact *key*; None if there is none.

        Args:
            session: The session that asks. An entry that only this session recalls comes before an
                entry of the scope. None means only entries of the scope.
        """
        return self._entries.find_key(self._owner, key, session)

    def update(
        self,
        entry_id: int,
        *,
        expected: int | Entry | None = None,
        **changes: Unpack[EntryFields],
    ) -> Entry:
        """
        Change the fields that are given, and keep the others.

        The earlier version goes into the entry's history. If nothing changes, no new version is
        made.

        Args:
            expected: Fail unless the entry is at this version. An Entry is taken too. None means
                any.
            changes: New values by name: *text*, *category*, *keywords*, and the fields below. None
                removes an *expires*, *metadata* or *key*.
            importance: Importance of the fact, 1 to 10.
            pinned: Whether the entry is in every context. A pinned entry is never evicted.
            active: Whether recall may find it. True restores the entry, even an expired one, and
                retires the entry that replaced it or has its key.

        Raises:
            NotFound: this scope has no such entry.
            VersionConflict: the entry is at another version.
            AlreadyExists: another entry states the fact *key*.
            InvalidInput: a field cannot be stored, or the entry was replaced by another one and
                *expires* is given without *active*.
        """
        given = EntryChanges(**changes)
        return self._entries.update(self._owner, entry_id, given, expected=expected)

    def revert(self, entry_id: int, version: int, *, expected: int | Entry | None = None) -> Entry:
        """
        Restore an earlier version of an entry, as a new version.

        Its text, category, keywords, importance, pin, trust, metadata and source are restored, and
        its expiry unless that has passed. Its key stays, and an inactive entry stays inactive.

        Args:
            version: A version of `history`; the current one changes nothing.
            expected: Fail unless the entry is at this version. An Entry is taken too. None means
                any.

        Raises:
            NotFound: this scope has no such entry, or the entry has no such version.
            VersionConflict: the entry is at another version.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     entries = db.user("ann").entries
        ...     first = db.user("ann").remember("The rent is 14,500.").entry
        ...     _ = entries.update(first.id, text="The rent is 15,400.")
        ...     back = entries.revert(first.id, 1)
        ...     back.text, back.version
        ('The rent is 14,500.', 3)
        """
        return self._entries.revert(self._owner, entry_id, version, expected)

    def supersede(self, old_id: int, new_id: int, *, expected: int | Entry | None = None) -> Entry:
        """
        Mark one entry as replaced by another, and return the replaced one.

        A guessed link between them becomes certain. `update(old_id, active=True)` undoes it.

        Args:
            expected: Fail unless the old entry is at this version. None means any.

        Raises:
            NotFound: this scope lacks one of the two entries.
            VersionConflict: the old entry is at another version.
            InvalidInput: both are the same entry, the old one was already superseded, or it
                superseded the new one.
        """
        return self._entries.supersede(self._owner, old_id, new_id, expected)

    def history(self, entry_id: int) -> list[EntryVersion]:
        """Return the earlier versions of an entry, oldest first; [] if the entry never changed."""
        return self._entries.history(self._owner, entry_id)

    def replaced(self, entry_id: int) -> list[Entry]:
        """Return the entries that an entry replaced, newest first; [] if there is none."""
        return self._entries.replaced(self._owner, entry_id)

    def links(self, entry_id: int) -> list[Link]:
        """
        Return the links of an entry to older entries, and of newer entries to it.

        Guessed, confirmed and rejected links: see `Link.decided`. [] without any.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     ann = db.user("ann")
        ...     old = ann.remember("The rent is 14,500.").entry
        ...     new = ann.remember("Correction: the rent is 15,400, not 14,500.").entry
        ...     [(one.kind, one.older_id == old.id) for one in ann.entries.links(new.id)]
        [('corrects', True)]
        """
        return self._entries.links(self._owner, entry_id)

    def unlink(self, newer_id: int, older_id: int) -> bool:
        """
        Reject the guessed link between two entries, so that it is not guessed again.

        Returns:
            False if there is no such link.

        Raises:
            InvalidInput: the newer entry superseded the older one; make the older one active again.
        """
        return self._entries.unlink(self._owner, newer_id, older_id)

    def delete(self, entry_id: int, *, expected: int | Entry | None = None) -> bool:
        """
        Remove an entry with its history; False if it is absent.

        Raises:
            VersionConflict: the entry is at another version than expected.
        """
        return self._entries.delete(self._owner, entry_id, expected)

    def list(
        self,
        *,
        category: str | None = None,
        pinned: bool | None = None,
        inactive: bool = False,
        current: bool = False,
        undecided: bool = False,
        as_of: When | None = None,
        after: Entry | dict[str, Any] | None = None,
        limit: int | None = None,
        order: EntryOrder = "id",
    ) -> Page[Entry]:
        """
        Return the entries, or a page of them if *limit* is given.

        Args:
            category: Only entries of this category; None means of every category.
            pinned: Only pinned entries, or only the others; None means both.
            inactive: List inactive entries too: superseded, expired, evicted.
            current: Leave out entries that a newer entry outdates with a probability of at least
                0.8. Less likely ones stay, with `Entry.outdated_by` set.
            undecided: Only entries that a person should judge, because they are not trusted or a
                newer entry seems to outdate them. `update(trust=)`, `supersede` and `unlink` do it.
            as_of: List the entries that were known and valid at this time. Entries that were
                deleted since are left out, and counts of use are 0.
            after: The last entry of the previous page, or its `to_dict()`. None means the
                first page.
            limit: Most entries. None means all.
            order: "id" lists the oldest first, "updated" and "created" the newest first. "updated"
                and "created" cannot be combined with *as_of*.

        Raises:
            InvalidInput: an argument has none of these values.

        Cost: by id, that of the returned entries; by time, 8 ms more per 10,000 entries.
        """
        find = partial(
            self._entries.list,
            self._owner,
            category=category,
            pinned=pinned,
            inactive=inactive,
            current=current,
            undecided=undecided,
            as_of=as_of,
            after=after,
            order=order,
        )
        return page_of(lambda most: find(limit=most), limit)


@observed
class Artifacts:
    """
    Named bytes in immutable versions, counted from 1 and never reused.

    `session.artifacts` are those of a session. A name that begins with `user:` belongs to all
    sessions of the scope; `scope.artifacts` adds the prefix, and lists those of every session.
    """

    __slots__ = ("_artifacts", "_db", "_owner", "_services", "_session")

    def __init__(self, services: Services, owner: ScopeRef, session: str | None) -> None:
        """Use `scope.artifacts` or `session.artifacts` instead."""
        self._db = services.db
        self._services = services
        self._artifacts = services.artifacts
        self._owner = owner
        self._session = session

    def save(
        self,
        name: str,
        data: bytes | str | BinaryIO | Path,
        *,
        mime: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        message_seq: int | None = None,
        created: When | None = None,
        expected: int | ArtifactVersion | None = None,
        keep_last: int | None = None,
    ) -> ArtifactVersion:
        """
        Save *data* as the next version of *name*.

        Args:
            data: Bytes, a str (stored as UTF-8), or a file: a `Path`, or a file
                opened in binary mode. A file is read to its end in chunks.
            mime: Media type of the version; None means that it is guessed from the name.
            metadata: A JSON object for this version.
            message_seq: Number of the message that made it, in its session.
            expected: Fail unless this is the newest version; 0 means that no version exists. None
                means any.
            keep_last: Number of versions to keep, including this one. None means all.

        Raises:
            VersionConflict: the newest version is not the one expected.
            InvalidInput: a name or field cannot be stored; nothing was written.
            NotFound: the session has no such message.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     files = db.user("ann").session("trip").artifacts
        ...     files.save("menu.md", "soup").version, files.save("menu.md", "fish").version
        (1, 2)
        """
        if isinstance(data, os.PathLike):
            refuse_live(data)
        opened: AbstractContextManager[bytes | str | BinaryIO] = (
            open(data, "rb") if isinstance(data, os.PathLike) else nullcontext(data)  # noqa: SIM115 (`with` closes it)
        )
        with opened as given:
            return self._artifacts.save(
                self._owner,
                self._session,
                name,
                given,
                mime=mime,
                metadata=metadata,
                message_seq=message_seq,
                created_ms=self._services.when_ms(created, "created"),
                expected=expected,
                keep_last=keep_last,
            )

    def rename(
        self,
        name: str,
        new_name: str,
        *,
        expected: int | ArtifactVersion | None = None,
    ) -> ArtifactVersion:
        """
        Rename an artifact with all its versions, and return the newest one.

        Version numbers stay the same. If the new name had versions before, they continue after
        those. Numbers of the old name are never reused.

        Raises:
            NotFound: there is no version under *name*.
            AlreadyExists: there is a version under *new_name*.
            VersionConflict: the newest version is not *expected*.
        """
        return self._artifacts.rename(self._owner, self._session, name, new_name, expected)

    def load(self, name: str, version: int | None = None) -> Artifact:
        """Return a version with its bytes; None means the newest. NotFound if there is none."""
        return self._artifacts.load(self._owner, self._session, name, version)

    def open(self, name: str, version: int | None = None) -> io.BufferedReader:
        """Return a version as a binary stream that can seek and reads in chunks."""
        return self._artifacts.open(self._owner, self._session, name, version)

    def export(
        self,
        name: str,
        path: str | os.PathLike[str],
        version: int | None = None,
        *,
        replace: bool = False,
    ) -> int:
        """
        Write a version to the file at *path*, and return its bytes; None means the newest version.

        The file gets its name only when it is complete. The call needs memory for one chunk only.

        Args:
            replace: Overwrite an existing file.

        Raises:
            NotFound: there is no such version.
            AlreadyExists: something is at *path*, and *replace* is False.
            FileError: *path* cannot be written, or is a database.
        """
        with self.open(name, version) as data:
            return self._services.write_bytes(data, path_value(path), replace=replace)

    def versions(self, name: str) -> list[ArtifactVersion]:
        """Return every version of *name*, newest first; [] if there is none."""
        return self._artifacts.versions(self._owner, self._session, name)

    def diff(
        self,
        name: str,
        version: int | None = None,
        against: int | None = None,
    ) -> TextDiff:
        """
        Return the lines that differ between two versions of a text.

        Args:
            version: The newer version to compare. None means the newest.
            against: The older version to compare. None means the one before *version*.

        Raises:
            NotFound: there is no such version.
            TooLarge: a version has more than 2 MB.
            InvalidInput: a version is not text in UTF-8, or there is none before.

        Cost: 0.1 s per 20,000 lines; repeated lines add some seconds at most.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     files = db.user("ann").artifacts
        ...     for text in ("soup", "fish"):
        ...         _ = files.save("menu", text)
        ...     files.diff("menu").hunks[0].lines[0]
        '-soup'
        """
        return self._artifacts.diff(self._owner, self._session, name, version, against)

    def delete(
        self,
        name: str,
        version: int | None = None,
        *,
        expected: int | ArtifactVersion | None = None,
    ) -> bool:
        """
        Remove one version, or all of them if *version* is None; False if there was none.

        Raises:
            VersionConflict: the newest version is not *expected*.
        """
        return self._artifacts.delete(self._owner, self._session, name, version, expected)

    def list(
        self,
        *,
        prefix: str = "",
        after: ArtifactVersion | dict[str, Any] | None = None,
        limit: int | None = None,
        order: ArtifactOrder = "name",
    ) -> Page[ArtifactVersion]:
        """
        Return the newest version of each name, shared names first; a page with *limit*.

        A session's collection lists its own names and the `user:` names; a scope's lists those of
        every session.

        Args:
            prefix: Only names that begin with this text. A scope's collection takes it with
                `user:` and without, as other calls take names.
            after: The last one of the previous page, or its `to_dict()`. None means the
                first page.
            limit: Most names. None means all.
            order: "name" sorts by session and name, "updated" by the time of the newest version,
                newest first.

        Raises:
            InvalidInput: an argument is not one of these.

        Cost: by name, that of the returned versions; by time, 4 ms more per 1,000 names.
        """
        find = partial(self._artifacts.list, self._owner, self._session, prefix=prefix)
        return page_of(lambda most: find(after=after, limit=most, order=order), limit)


@observed
class Summaries:
    """The tree of summaries of a session; the messages themselves are kept."""

    __slots__ = ("_owner", "_services", "_session")

    def __init__(self, services: Services, owner: ScopeRef, session: str) -> None:
        """Use `session.summaries` instead."""
        self._services = services
        self._owner = owner
        self._session = session

    def tree(self) -> SummaryTree:
        """Return the summaries of this session, and the messages without one."""
        return self._services.trees.tree(self._owner, self._session)

    def list(
        self,
        *,
        depth: int | None = None,
        first_seq: int = 1,
        last_seq: int | None = None,
        after: Summary | dict[str, Any] | None = None,
        limit: int | None = None,
    ) -> Page[Summary]:
        """
        Return summaries, deepest first, then by place.

        `tree` also shows the messages without a summary.

        Args:
            depth: Only summaries of this depth; 0 means summaries of messages. None means all.
            first_seq: Only summaries that cover this message or a later one.
            last_seq: Only summaries that cover this message or an earlier one.
            after: The last summary of the previous page, or its `to_dict()`. None means the
                first page.
            limit: Most summaries. None means all.
        """
        found = self._services.trees.select(
            self._owner, self._session, depth=depth, first_seq=first_seq, last_seq=last_seq
        )
        place = row_after(after, {"depth": int, "first_seq": int})
        if place is not None:
            found = [one for one in found if (-one.depth, one.first_seq) > (-place[0], place[1])]
        return page_of(lambda _: found, limit)

    def rewrite(
        self, summary_id: int | str, text: str | None = None, *, hint: str | None = None
    ) -> Summary:
        """
        Replace the text of a summary, and return the summary.

        Summaries above it are rewritten without a model. If the file has a model, it improves them
        later. A model never replaces the text that you wrote.

        Args:
            summary_id: The number of a summary, or its span as "first-last".
            text: The new text. None: memdb writes it again from the sources, with the model if
                there is one.
            hint: What the reader would see by expanding the summary; None means no hint.

        Raises:
            NotFound: the session has no such summary.
            InvalidInput: the text is blank or too long.
            PortError: the model failed; nothing was changed.
            Busy: its messages kept changing during the call; nothing was changed.
        """
        given = None if text is None else SummaryText(text, hint)
        return self._services.summary_editor.rewrite(self._owner, self._session, summary_id, given)

    def delete(self, summary_id: int | str) -> int:
        """
        Remove a summary, those after it and those above it; return how many were removed.

        They are made again later. Messages stay. 0 if there is no such summary.
        """
        return self._services.summary_editor.delete(self._owner, self._session, summary_id)

    def expand(self, summary_id: int | str, *, after_seq: int = 0, limit: int = 50) -> Expansion:
        """
        Return a page of the sources of a summary: summaries one level down, or messages.

        Args:
            summary_id: The number of a summary; or a span as "first-last", as contexts
                name it: the summary of that span, else its messages.
            after_seq: Continue after this message: `next_seq` of the previous page. 0 means the
                first page.
            limit: The largest number of summaries or messages on a page, 1 to 1,000.

        Raises:
            NotFound: the session has no such summary, or no message in the span.
        """
        return self._services.trees.expand(self._owner, self._session, summary_id, after_seq, limit)

    def compact(
        self,
        *,
        keep_last: int | None = None,
        prune: bool = True,
        progress: Callable[[str, str], object] | None = None,
    ) -> Compacted:
        """
        Finish the summaries, delete texts that memdb can compute again, and archive old messages.

        No message is lost, and no summary by a model is deleted.
        Summaries that another process is making are left to that process.

        Args:
            keep_last: Archive all messages except this many of the newest. None archives nothing.
            prune: False keeps stored texts that memdb could compute again.
            progress: Called with a status ("active", "done" or "error") and the current step, also
                before each call of a model.

        Raises:
            InvalidInput: called inside a transaction.
            PortError: the model failed on a summary. An extract replaces it, and the model is tried
                again later. All else was done.
        """
        return self._services.compact(
            self._owner, self._session, keep_last=keep_last, prune=prune, progress=progress
        )

    def upgrade(self) -> int:
        """
        Mark every summary that no model wrote to be written by the model; return how many.

        `db.jobs.run()` or a worker then writes them, sources first.

        Raises:
            InvalidInput: the file was opened without a model.
        """
        return self._services.trees.upgrade(self._owner, self._session)


@handle
class State(MutableMapping):  # type: ignore[type-arg]  # str to anything that JSON can hold
    """
    Values under keys, for an app, for a user of it, or for a session, used like a dict.

    A value is anything that JSON can contain, and comes back equal, integers and floats of any size
    included. None is a value too. Each call reads or writes the file. So after you change a list
    that you read, set it again. The state of a session is removed with the session.

    >>> import memdb
    >>> with memdb.open(":memory:") as db:
    ...     state = db.user("ann").session("trip").state
    ...     state.update(city="Oslo", nights=3)
    ...     state["nights"] += 1
    ...     state.all()
    {'city': 'Oslo', 'nights': 4}
    """

    __slots__ = ("_hosting", "_owner", "_place")

    def __init__(self, services: Services, place: Place, owner: ScopeRef | None = None) -> None:
        """Use `session.state` or `scope.state` instead."""
        self._hosting = services.hosting
        self._place = place
        self._owner = owner

    def all(self) -> dict[str, Any]:
        """Return all values by key, in the order of the keys, with one read."""
        return self._hosting.values(self._place)

    def find(self, key: str) -> StateValue | None:
        """Return a value with its version and time; None if there is none."""
        return self._hosting.find_value(self._place, key)

    def put(self, key: str, value: Any, *, expected: int | StateValue | None = None) -> StateValue:
        """
        Set a value, and return it with its version. Setting the same value again changes nothing.

        Args:
            expected: What `find` or `put` returned, or its version; 0 means that there is no value
                yet. None overwrites any version.

        Raises:
            VersionConflict: the key is at another version.
            InvalidInput: the key or value cannot be stored.
        """
        return self._hosting.put_value(self._owner, self._place, key, value, expected)

    def delete(self, key: str, *, expected: int | StateValue | None = None) -> bool:
        """
        Remove a key; False if there is none.

        Raises:
            VersionConflict: the key is at another version than expected.
        """
        return self._hosting.remove(self._place, key, expected)

    def __getitem__(self, key: str) -> Any:
        """Return a value; KeyError if there is none."""
        found = self._hosting.value(self._place, key)
        if found is None:
            raise KeyError(key)
        return found[0]

    def __setitem__(self, key: str, value: Any) -> None:
        """Set a value; InvalidInput if it has no JSON form."""
        self._hosting.put(self._owner, self._place, {key: value})

    def __delitem__(self, key: str) -> None:
        """Remove a key; KeyError if there is none."""
        if not self._hosting.remove(self._place, key):
            raise KeyError(key)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys, in order."""
        return iter(self.all())

    def __len__(self) -> int:
        """Return the number of keys."""
        return len(self.all())

    def update(self, *given: Any, **values: Any) -> None:
        """Set several values, all or none; the arguments are those of `dict.update`."""
        self._hosting.put(self._owner, self._place, dict(*given, **values))

    def clear(self) -> None:
        """Remove every key."""
        self._hosting.clear(self._place)

    def __repr__(self) -> str:
        """Show the values."""
        return f"<State {self.all()!r}>"
