"""The memory of one user, as `db.user(name)` returns it. Services do what its calls ask."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from memdb.api.calls import observed
from memdb.api.collections import Artifacts, Entries, State
from memdb.api.items import Items
from memdb.api.session import Session
from memdb.models.entries import NewEntry
from memdb.models.fields import DEFAULT_KINDS
from memdb.text.validate import name_value, page_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from memdb.api._container import Services
    from memdb.models.entries import Remembered
    from memdb.models.messages import Hits, ProfileBlock, SessionInfo, Why
    from memdb.models.record import Page
    from memdb.models.reports import Receipt, ScopeCounts, SecretPlace
    from memdb.models.types import (
        Kind,
        RecallOptions,
        SearchBy,
        SecretAction,
        Selectors,
        SessionOrder,
        Trust,
        When,
    )
    from memdb.records.scopes import ScopeRef


@observed
class Scope:
    """Memory of one user of one app."""

    __slots__ = ("_owner", "_services")

    def __init__(self, services: Services, owner: ScopeRef) -> None:
        """Use `db.user(name)` instead."""
        self._services = services
        self._owner = owner

    @property
    def app(self) -> str:
        """The program that the memory belongs to."""
        return self._owner.app

    @property
    def user(self) -> str:
        """Owner of the memory."""
        return self._owner.user

    def session(self, name: str) -> Session:
        """Return a conversation, which its first message creates."""
        return Session(self._services, self._owner, name_value(name, "session"))

    def sessions(
        self,
        prefix: str = "",
        *,
        after: SessionInfo | dict[str, Any] | None = None,
        limit: int | None = None,
        order: SessionOrder = "name",
    ) -> Page[SessionInfo]:
        """
        Return the sessions with titles, times and counts; a page of them with *limit*.

        Args:
            prefix: Only sessions whose name begins with this text.
            after: The last session of the previous page, or its `to_dict()`; the page begins after
                the place that it had then. None means the first page.
            limit: Most sessions. None means all.
            order: Sort by "name", "updated" (time of the newest message) or "created"; the last
                two put the newest first.

        Cost: 0.2 ms per 1,000 messages of the returned sessions. For an order by time, add 8 ms per
        20,000 sessions of the scope.
        """
        find = partial(self._services.conversations.sessions, self._owner, prefix)
        return page_of(lambda most: find(after=after, limit=most, order=order), limit)

    def counts(
        self, *, since: When | None = None, until: When | None = None, offset_minutes: int = 0
    ) -> ScopeCounts:
        """
        Return the messages and entries of each day, and the entries of each category by state.

        Args:
            since: Only days from this time on: a date, a time, or a span such as "30d".
            until: Only days before this time. Categories are counted whole.
            offset_minutes: Local time minus UTC, in minutes, -1,440 to 1,440; days begin at local
                midnight.

        Raises:
            InvalidInput: *until* is before *since*, or an argument is out of range.

        Cost: 40 ms per 100,000 messages of the scope, up to a million.
        """
        return self._services.count_scope(self._owner, since, until, offset_minutes)

    def remember(
        self,
        text: str,
        *,
        category: str | None = None,
        key: str | None = None,
        keywords: Sequence[str] = (),
        importance: int | None = None,
        pinned: bool | None = None,
        expires: When | None = None,
        valid_from: When | None = None,
        session: str | None = None,
        seq: int | tuple[int, int] | None = None,
        session_only: bool | None = None,
        shared: bool | None = None,
        writer: str | None = None,
        trust: Trust | None = None,
        created: When | None = None,
        metadata: Mapping[str, Any] | None = None,
        secrets: SecretAction | None = None,
    ) -> Remembered:
        """
        Store a fact as an entry, and return what was changed.

        A statement in words that are already known is not stored again ("repeated"). The known
        entry takes over new fields, and its history records where the statement was repeated. An
        entry with the same *key* is replaced and becomes history ("updated"). Everything else is
        "added"; memdb replaces nothing because of a guess. Links connect the statement with similar
        entries (`done.links`), and reads put the newer one first. A statement that orders to forget
        one entry is stored as an inactive entry, which retracts that entry ("retracted"). If a
        field is None, the known entry keeps its value.

        Args:
            text: One fact, in a sentence that can be understood alone, of up to 500,000 characters.
            category: The kind of fact; one of `db.settings.categories()`. None means a new entry
                gets the one that its words suggest; an allergy is "profile".
            key: A name for the fact. The entry replaces an entry with the same key.
            keywords: Other words to find it by.
            importance: How important the fact is, 1 to 10; a new entry gets 5, which is neutral.
            pinned: Whether the entry is in every context; it is then never evicted.
            expires: Time from which the entry is no longer recalled, written as in `recall`, or
                "never". A span such as "30d", "12h" or "45m" counts from now on. None means as its
                category says.
            valid_from: Time from which the fact is true. A future time takes effect then. A fact
                that was true before the time of a known statement of the same fact counts as past.
            session: Session that the fact comes from; *seq* names its message, or the first and
                last.
            session_only: Whether only that session recalls it. Such an entry goes with it.
            shared: Whether all users of the app recall it. None means as its category demands; by
                default no category is shared.
            writer: What puts it here, for example "mail". None means as `memdb.open` names it.
            trust: "trusted", "untrusted" or "flagged". An entry never changes one that is trusted
                more. None means "flagged" if the text reads like an order to a model, else
                "trusted".
            secrets: "refuse", "redact" or "allow" keys and passwords in the text. None means as the
                file's settings say.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: the text contains a key or password, and those are refused.
            NotFound: there is no such session, or no message *seq* in it.

        Cost: 2 ms with 1,000 entries, without the time of an arbiter.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     ann = db.user("ann")
        ...     ann.remember("Ann lives in Oslo.").action
        ...     ann.remember("ann lives in oslo").action
        ...     ann.remember("Bergen", key="home").action
        ...     ann.remember("Turku", key="home").action
        'added'
        'repeated'
        'added'
        'updated'
        """
        new = NewEntry(
            text,
            category=category,
            key=key,
            keywords=keywords,
            importance=importance,
            pinned=pinned,
            expires=expires,
            valid_from=valid_from,
            session=session,
            seq=seq,
            session_only=session_only,
            shared=shared,
            writer=writer,
            trust=trust,
            created_ms=self._services.when_ms(created, "created"),
            metadata=metadata,
        )
        return self._services.remember.remember(self._owner, new, secrets)

    def recall(
        self,
        query: str,
        limit: int = 10,
        *,
        kinds: Sequence[Kind] = DEFAULT_KINDS,
        since: When | None = None,
        until: When | None = None,
        session: str | None = None,
        by: SearchBy = "meaning",
        min_score: float | None = None,
        **options: Unpack[RecallOptions],
    ) -> Hits:
        """
        Search this scope for *query*, and return the hits, best first.

        Messages, entries and items are found by words and by meaning; so are the beginnings of new
        artifacts. Others are found by the words of their newest version, sessions by those of their
        title. Summaries are searched only if *kinds* names them. Each hit has its source.

        Args:
            query: A question or some words, in any form. "" with *since* or *until*, and a question
                such as "what did we talk about yesterday?", return the texts of that time, newest
                first. Words in quotes belong together. A date, also one like "two weeks ago",
                prefers texts of that time.
            limit: Most hits, 0 to 1,000.
            kinds: Which of "message", "entry", "artifact", "session" (titles),
                "summary" and "item" to search.
            since: Only texts from this time on: UTC milliseconds, an aware datetime, or text such
                as "2026-05-01", "30d" for 30 days ago, or "2 weeks ago".
            until: Only texts before this time; a day, week, month or year is included to its end.
            session: Search messages, artifacts and summaries of this session alone, and entries
                except those limited to other sessions. Without it, entries that only one session
                recalls are left out.
            by: "meaning" searches by words and vectors, "words" by words alone, "vector" by vectors
                alone. With "words", neighbours do not count and no embedder is called. With
                "vector", messages and entries are scored by their cosine.
            min_score: Least score of a hit, 0 to 1. With 0, every match is returned: repeated texts
                too, and even if the answer is "none". None leaves these out. A match, or the
                message beside it, has a word of the query, or is nearer in meaning than by chance.
            options: The options below, by name.
            explain: Return the terms that make up each hit's score.
            rerank: Also compare single words of the best messages and of the query by their
                meaning. False saves 3 ms.
            group: "session" returns the best sessions by title and messages, each as one hit with
                its best messages in `hits`.
            as_of: Answer from the messages and valid entries of this earlier time. What was deleted
                since stays unknown; artifacts and uses do not count. 10 ms per 100 entries.
            categories: Only entries of these categories.
            roles: Only messages of these roles.
            authors: Only messages of these authors, spelled as they were stored.
            where: Only messages and entries whose metadata has each of these values under its
                top-level key, as in {"source": "mail"}. Archived messages are unpacked for it.
            partition: "own" leaves out entries that all users of the app share. "shared" searches
                only those.
            scope_entries: False, with *session*: only entries that come from it.
            vector: The vector of the query, where the host has it already: as many numbers as the
                embedder gives, or their bytes as float32. None means that the embedder is asked.
            only_sure: Return only hits that answer the query for sure.
            cut: "auto" leaves out hits that score far less than the best one.
            count_use: Count a use of each entry found, and embed pending texts; False leaves the
                file unchanged, for programs that show a memory.
            prefix: Let the last word match longer words that begin with it, for search while
                typing. Two letters are needed ("Bi" finds Birger); a space or mark ends it.
            exclude: Leave out hits that contain a word of these texts.

        A filter leaves out the kinds that it cannot apply to: *roles* finds
        messages only. An empty list lets nothing through.

        Returns:
            Hits whose score falls, see `Hit.score`. `certainty` says whether they answer the query:
            "sure", "unsure" (the closest are returned), or "none", which gives [] unless
            *min_score* is given. `missing["hits"]` says how many matches were left out and how to
            see them. `arms` and `missing` tell how they were found.

        Raises:
            InvalidInput: an argument is out of its range or does not go together with *group*.
                No kind is left that all filters apply to. Or vectors need an embedder.
            DimensionMismatch: *vector* has another number of components.
            PortError: the embedder failed on the query, and no word of it was found either.

        Cost: 5 ms for 10,000 messages, whatever else the file holds.
        """
        given = {**options, "kinds": kinds, "since": since, "until": until, "session": session}
        given |= {"by": by, "min_score": min_score}
        request = self._services.recall_request(query, limit, given)
        return self._services.recaller.recall(self._owner, request)

    def why(
        self,
        query: str,
        session: str,
        seq: int,
        limit: int = 10,
        *,
        since: When | None = None,
        until: When | None = None,
        rerank: bool = True,
    ) -> Why:
        """
        Return why message *seq* of *session* is, or is not, among the first *limit* hits.

        Args:
            query, limit, since, until, rerank: As in `recall` of messages.

        Raises:
            NotFound: there is no such message.
        """
        given = {"kinds": ("message",), "since": since, "until": until, "rerank": rerank}
        request = self._services.recall_request(query, limit, given)
        return self._services.recaller.why(self._owner, request, session, seq)

    def profile(
        self,
        budget_tokens: int,
        said: Sequence[str] = (),
        *,
        session: str | None = None,
        entries: Sequence[int] | None = None,
        ids: bool = False,
        count_use: bool = True,
    ) -> ProfileBlock:
        """
        Return the most important facts about this user as a text for a prompt.

        A line per entry, by category. Entries that are pinned or of a pinned category come first,
        then those that the last words of the user are about. Without such words the newest others
        come. No tag, fence or line break of an entry can end the block.

        Args:
            budget_tokens: Most tokens of the whole text, by the file's counter.
            said: The user's messages, oldest first; the last three count.
            session: Add entries that only this session recalls, and take its last messages of the
                user in place of *said*.
            entries: Numbers of the entries to show, in this order, in place of those above; entries
                that are not valid now are left out.
            ids: Begin each line with the entry's number, but for entries that all users share.
            count_use: False leaves the file unchanged, as in `recall`.

        Returns:
            The text, its tokens and the entries; "" where not one line fits.
        """
        profiles = self._services.profiles
        if entries is not None:
            return profiles.given(self._owner, budget_tokens, entries, ids=ids)
        if session is not None and not said:
            said = self._services.conversations.last_said(self._owner, session)
        return profiles.block(
            self._owner, budget_tokens, said, session=session, ids=ids, count_use=count_use
        )

    @property
    def state(self) -> State:
        """Values under keys that belong to the user, whatever the session."""
        return State(self._services, (self._owner.app, self._owner.user, ""))

    @property
    def entries(self) -> Entries:
        """The long-term entries."""
        return Entries(self._services, self._owner)

    @property
    def items(self) -> Items:
        """Values under namespaces and keys, as frameworks store them."""
        return Items(self._services, self._owner)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of all sessions, and the `user:` ones they share."""
        return Artifacts(self._services, self._owner, None)

    def delete(
        self,
        *,
        dry_run: bool = False,
        **selectors: Unpack[Selectors],
    ) -> Receipt:
        """
        Remove something from the memory, in one transaction, and return a receipt.

        Takes the selectors of `forget`. Entries that were learnt from deleted messages stay. Bytes
        may stay in the file until they are overwritten.
        """
        deletion = self._services.deletion
        return deletion.delete(self._owner, deletion.select(**selectors), dry_run=dry_run)

    def undo(self, *, writer: str, since: When | None = None, dry_run: bool = False) -> Receipt:
        """
        Take back what a writer stored, in one transaction, and return a receipt.

        Its messages, items and versions of artifacts are deleted, its entries and those learnt
        from these messages too. An entry of others goes back to their last version. What others
        changed since stays. Bytes may stay in the file: `forget` removes them.

        Args:
            writer: Name given to `memdb.open`, as rows have it: "cli", "mcp:claude-code".
            since: Only what was stored from this time on: as in `recall`. None means all.
            dry_run: Change nothing, and list in `Receipt.rows` what would change.

        Returns:
            The receipt. `rewritten` counts the entries that went back, and `remaining` names what
            stays as the writer left it, and why.
        """
        deletion = self._services.deletion
        selector = deletion.select_written(writer, self._services.when_ms(since, "since"))
        return deletion.delete(self._owner, selector, dry_run=dry_run)

    def forget(
        self,
        *,
        prove: bool = False,
        dry_run: bool = False,
        expected: str | Receipt | None = None,
        **selectors: Unpack[Selectors],
    ) -> Receipt:
        """
        Remove something for good, in one transaction, and return a receipt.

        A message is removed with its words, its vector and its archived copy. The summaries that
        cover it are rewritten without it, and its seq stays a gap. An entry is removed with all
        its versions. A tombstone is left, with the kind of thing and the time, never its text.
        Backups and exports are not changed; importing such an export here does not restore it.

        Args:
            selectors: What to remove, by name: *entry*, *session* with or without *seqs*, *query*,
                *person*, *everything*, and *artifacts* besides.
            entry: Remove the entry with this number.
            session: Remove a session as a whole, with its artifacts, its state and the entries that
                were learnt from it.
            seqs: Remove only these messages of *session*, by their numbers.
            query: Remove each message, entry, version of an entry, item, value of state and title
                with all words of this text. Words in quotes belong together; of a number of 7
                digits or more, each way to write it is found. Entries learnt from it in other
                words stay. `Receipt.remaining` lists names that stay.
            person: Remove every row that contains all words of this name, in any field and version.
                Fields are authors, titles, metadata, keys, state, summaries and artifacts too. A
                session is removed if its name contains them. `Receipt.remaining` lists the other
                apps of the user.
            everything: Remove the whole memory of the user in this app. The name stays, so that its
                numbers are never reused.
            artifacts: Also remove artifacts that contain the words of *query*, or that messages of
                *session* saved under shared names.
            prove: Prove that the bytes are gone: rebuild indexes, pack the file, cut the WAL.
                `receipt.proof` is the result of a search for them in the file, its WAL and the
                copies beside it.
            dry_run: Remove nothing, and list in `Receipt.rows` what would be removed.
            expected: Fail unless exactly the rows of the dry run with this digest would be removed.
                Its receipt is taken too. None removes what there is now.

        Returns:
            The receipt. Removing something that is gone already is not an error.

        Raises:
            InvalidInput: not exactly one of *entry*, *session*, *query*, *person* and
                *everything* is given.
            Conflict: a row was added, changed or removed since the dry run.
            Busy: others kept writing.
            Corrupt: an archived message cannot be taken out of a damaged part.

        Cost: 0.1 ms per message; *prove* besides 1 s per 20,000 messages of the file.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     ann = db.user("ann")
        ...     _ = ann.session("trip").append("user", "My sister Zoe lives in Bergen.")
        ...     receipt = ann.forget(query="Zoe", prove=True)
        ...     receipt.removed["messages"], receipt.proven
        (1, True)
        """
        deletion = self._services.deletion
        selector = deletion.select(**selectors)
        return deletion.forget(
            self._owner, selector, prove=prove, dry_run=dry_run, expected=expected
        )

    def find_secrets(self, *, entropy: bool = False) -> Iterator[SecretPlace]:
        """
        Iterate over the keys, tokens and passwords in everything that the scope holds.

        Messages, summaries, titles, state, entries and their earlier versions, items,
        artifacts; names and metadata too. By the file's settings and the host's detector; none
        is given in full. The copies that migrations left beside the file are read too: a place
        in one begins with its name, and deleting the copy removes it.

        Args:
            entropy: Also runs of characters that look drawn, hashes among them.

        Cost: 50 µs per message.
        """
        return self._services.find_secrets(self._owner, entropy=entropy)

    def __repr__(self) -> str:
        """Name the app and the user."""
        return f"<Scope {self.user!r} of {self.app!r}>"
