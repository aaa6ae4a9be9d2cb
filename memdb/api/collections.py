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
    from memdb.models.summaries import Compacted, Expansion, Summary, SummaryTree
    from memdb.models.types import ArtifactOrder, EntryFields, EntryOrder, When
    from memdb.records.scopes import ScopeRef
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
        Return the entry that states the fact *key* now, None if there is none.

        Args:
            session: The session that asks: an entry that only it recalls comes before
                that of the scope. None means only that of the scope.
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

        The version before goes into its history. Changes that leave the entry
        as it is make no version.

        Args:
            expected: Fail unless the entry is at this version (a number or an Entry). None means
                any.
            changes: New values by name, of *text*, *category*, *keywords* and those below; None
                removes an *expires*, *metadata* or *key*.
            importance: Importance of the fact, 1 to 10.
            pinned: Whether the entry is in every context; it is then never evicted.
            active: Whether recall may find it. True restores it, also if it expired, and retires
                the entry that replaced it or has its key.

        Raises:
            NotFound: this scope has no such entry.
            VersionConflict: the entry is at another version.
            AlreadyExists: another entry states the fact *key*.
            InvalidInput: a field cannot be stored; or the entry gave way to another one, and
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
            version: One of `history`; the present one changes nothing.
            expected: Fail unless the entry is at this version (a number or an Entry). None means
                any.

        Raises:
            NotFound: this scope has no such entry, or the entry no such version.
            VersionConflict: the entry is at another version.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     entries = db.scope("ann").entries
        ...     first = db.scope("ann").remember("The rent is 14,500.").entry
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
            NotFound: this scope lacks one of them.
            VersionConflict: the old one is at another version.
            InvalidInput: they are the same, the old one was superseded already,
                or the new one by the old one.
        """
        return self._entries.supersede(self._owner, old_id, new_id, expected)

    def history(self, entry_id: int) -> list[EntryVersion]:
        """Return the earlier versions of an entry, oldest first; [] if it never changed."""
        return self._entries.history(self._owner, entry_id)

    def replaced(self, entry_id: int) -> list[Entry]:
        """Return the entries that an entry replaced, newest first; [] if there is none."""
        return self._entries.replaced(self._owner, entry_id)

    def links(self, entry_id: int) -> list[Link]:
        """
        Return what an entry does to older ones, and newer ones to it, by the older entry.

        Guessed, confirmed and rejected links: see `Link.decided`. [] without any.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     ann = db.scope("ann")
        ...     old = ann.remember("The rent is 14,500.").entry
        ...     new = ann.remember("Correction: the rent is 15,400, not 14,500.").entry
        ...     [(one.kind, one.older_id == old.id) for one in ann.entries.links(new.id)]
        [('corrects', True)]
        """
        return self._entries.links(self._owner, entry_id)

    def unlink(self, newer_id: int, older_id: int) -> bool:
        """
        Reject the guessed link between two entries; it is not guessed again.

        Returns:
            False if there is no such link.

        Raises:
            InvalidInput: the newer one superseded the older one: make that active again.
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
        Return the entries, a page of them with *limit*.

        Args:
            category: Only entries of this category; None means of every category.
            pinned: Only pinned entries, or only the others; None means both.
            inactive: List inactive entries too: superseded, expired, evicted.
            current: Leave out entries that a newer entry outdates with a probability of at least
                0.8. Less likely ones stay, with `Entry.outdated_by` set.
            undecided: Only entries that wait for a decision: they are not trusted, or a newer entry
                seems to outdate them. `update(trust=)`, `supersede` and `unlink` decide.
            as_of: List the entries that were known and valid at this time. Entries that were
                deleted since are left out, and counts of use are 0.
            after: The last entry of the page before, or its `to_dict()`. None means the
                first page.
            limit: Most entries. None means all.
            order: "id" lists the oldest first, "updated" and "created" the newest first. The latter
                two cannot be combined with *as_of*.

        Raises:
            InvalidInput: an argument is not one of these.

        Cost: by id that of what it returns; by time 8 ms more per 10,000 entries.
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
            data: Bytes, a str (stored as UTF-8), or a file, read to its end in chunks: its
                `Path`, or opened in binary mode.
            mime: Media type of the version; None means guessed from the name.
            metadata: A JSON object for this version.
            message_seq: Number of the message of the session that made it.
            expected: Fail unless this is the newest version; 0 means that no version exists. None
                means any.
            keep_last: Number of versions to keep, including this one. None means all.

        Raises:
            VersionConflict: the newest version is not the one expected.
            InvalidInput: a name or field cannot be stored; nothing was written.
            NotFound: the session has no such message.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     files = db.scope("ann").session("trip").artifacts
        ...     files.save("menu.md", "soup").version, files.save("menu.md", "fish").version
        (1, 2)
        """
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

        Numbers stay, unless the new name had versions before: then they go on behind
        those. A number of the old name never comes back.

        Raises:
            NotFound: there is no version under *name*.
            AlreadyExists: there is one under *new_name*.
            VersionConflict: the newest version is not *expected*.
        """
        return self._artifacts.rename(self._owner, self._session, name, new_name, expected)

    def load(self, name: str, version: int | None = None) -> Artifact:
        """Return a version with its bytes, the newest for None; NotFound if there is none."""
        return self._artifacts.load(self._owner, self._session, name, version)

    def open(self, name: str, version: int | None = None) -> io.BufferedReader:
        """Return a version as a binary stream that can seek; it reads in chunks."""
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
        Write a version to the file at *path*, the newest for None; return its bytes.

        The file gets its name when it is whole. It takes no more memory than a
        chunk.

        Args:
            replace: Overwrite a file that is there.

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
            version: The newer version to compare, by default the newest.
            against: The older version to compare, by default the one before.

        Raises:
            NotFound: there is no such version.
            TooLarge: a version has more than 2 MB.
            InvalidInput: a version is no text in UTF-8, or there is none before.

        Cost: 0.1 s per 20,000 lines; lines that are repeated add seconds at most.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     files = db.scope("ann").artifacts
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
        Remove one version, all of them for None; False if there was none.

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
        Return the newest version of each name, shared ones first; a page with *limit*.

        In a session's collection its own and the `user:` names; in a scope's
        those of every session.

        Args:
            prefix: Only names that begin with this text; shared ones begin with `user:`.
            after: The last one of the page before, or its `to_dict()`. None means the
                first page.
            limit: Most names. None means all.
            order: "name" sorts by session and name, "updated" by the time of the newest version,
                newest first.

        Raises:
            InvalidInput: an argument is not one of these.

        Cost: by name that of what it returns; by time 4 ms more per 1,000 names.
        """
        find = partial(self._artifacts.list, self._owner, self._session, prefix=prefix)
        return page_of(lambda most: find(after=after, limit=most, order=order), limit)


@observed
class Summaries:
    """The tree of summaries that condenses a session; nothing that was said is lost by it."""

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
        Return summaries, deepest first, then by place; `tree` has what is not summarised too.

        Args:
            depth: Only these, 0 for those made from messages; None means of every depth.
            first_seq: Only those that cover this message or a later one.
            last_seq: Only those that cover this message or an earlier one.
            after: The last summary of the page before, or its `to_dict()`. None means the
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
        Replace the words of a summary, and return it.

        Summaries above it are rewritten without a model; if the file has one,
        it improves them later. What you wrote is never replaced by a model's words.

        Args:
            summary_id: The number of a summary, or its span as "first-last".
            text: The new words; None: rewritten from its sources, by the model if
                there is one.
            hint: What expanding it would show; None means not said.

        Raises:
            NotFound: the session has no such summary.
            InvalidInput: the text is blank or too long.
            PortError: the model failed; nothing was changed.
            Busy: its messages kept changing while it was made; nothing was changed.
        """
        given = None if text is None else SummaryText(text, hint)
        return self._services.summary_editor.rewrite(self._owner, self._session, summary_id, given)

    def delete(self, summary_id: int | str) -> int:
        """
        Remove a summary with those after it and above it; return how many.

        They are made again when they are due. Messages stay. 0 if there is no such summary.
        """
        return self._services.summary_editor.delete(self._owner, self._session, summary_id)

    def expand(self, summary_id: int | str, *, after_seq: int = 0, limit: int = 50) -> Expansion:
        """
        Return a page of the sources of a summary: summaries one level down, or messages.

        Args:
            summary_id: The number of a summary; or a span as "first-last", as contexts
                name it: the summary of that span, else its messages.
            after_seq: `next_seq` of the page before; 0: the first.
            limit: Most summaries or messages on a page, 1 to 1,000.

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
        Finish the summaries, drop texts that can be made again, and archive old messages.

        Nothing that was said is lost, and no summary by a model is dropped.
        Summaries that another process is making now are left to it.

        Args:
            keep_last: Archive all messages except this many of the newest. None archives nothing.
            prune: False keeps stored texts that memdb could compute again.
            progress: Called with status ("active", "done" or "error") and what
                is being done, also before each call of a model.

        Raises:
            InvalidInput: called inside a transaction.
            PortError: the model failed on a summary: an extract takes its
                place, and it is tried again later. All else was done.
        """
        return self._services.compact(
            self._owner, self._session, keep_last=keep_last, prune=prune, progress=progress
        )

    def upgrade(self) -> int:
        """
        Make every summary that no model wrote due to be written by the model; how many.

        `db.jobs.run()` or a worker then does it, sources first.

        Raises:
            InvalidInput: the file was opened without a model.
        """
        return self._services.trees.upgrade(self._owner, self._session)


@handle
class State(MutableMapping):  # type: ignore[type-arg]  # str to anything that JSON can hold
    """
    Values under keys, of an app, of a user of it, or of a session: a dict in the file.

    Values are what JSON can hold and come back equal, integers and floats of
    any size included; None is a value. Each call reads or writes the file, so
    changing a list that was read changes nothing: set it again. A session's
    state goes with the session.

    >>> import memdb
    >>> with memdb.open(":memory:") as db:
    ...     state = db.scope("ann").session("trip").state
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
        """Return every value by key, in the order of the keys: one read."""
        return self._hosting.values(self._place)

    def find(self, key: str) -> StateValue | None:
        """Return a value with its version and time, None if there is none."""
        return self._hosting.find_value(self._place, key)

    def put(self, key: str, value: Any, *, expected: int | StateValue | None = None) -> StateValue:
        """
        Set a value, and return it with its version. The same value again changes nothing.

        Args:
            expected: What `find` or `put` returned, or its version; 0 means that there is
                no value. None means whatever there is.

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
        """Return how many keys there are."""
        return len(self.all())

    def update(self, *given: Any, **values: Any) -> None:
        """Set several values, all or none; arguments as for a dict's `update`."""
        self._hosting.put(self._owner, self._place, dict(*given, **values))

    def clear(self) -> None:
        """Remove every key."""
        self._hosting.clear(self._place)

    def __repr__(self) -> str:
        """Show the values."""
        return f"<State {self.all()!r}>"
