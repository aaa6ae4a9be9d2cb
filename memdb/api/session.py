"""A conversation, as `scope.session(name)` gives it. Delegates; no rules here."""

from __future__ import annotations

DEFAULT_KINDS = ("message", "entry", "artifact")

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any, Self

    from memdb.api._container import Services
    from memdb.api.collections import Artifacts, State
    from memdb.api.host import Host
    from memdb.api.summaries import Summaries
    from memdb.api.tools import Tools
    from memdb.models.extraction import Extracted
    from memdb.models.messages import ContextWindow, Hits, Message, NewMessage, ProfileBlock
    from memdb.models.receipts import Receipt
    from memdb.models.summaries import Archived
    from memdb.records.scopes import Owner


class Session:
    """
    An ordered run of messages in a scope; it is made at its first message.

    Attributes:
        name: Its name in the scope.
    """

    def __init__(self, services: Services, owner: Owner, name: str) -> None:
        """Use `scope.session(name)` instead."""
        self._services = services
        self._owner = owner
        self.name = name

    def append(
        self,
        role: str,
        text: str = "",
        *,
        author: str | None = None,
        parts: list[Any] | None = None,
        external_id: str | None = None,
        created_ms: int | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected_seq: int | None = None,
        secrets: str | None = None,
    ) -> Message:
        """
        Add a message and return it as stored, with its seq and tokens.

        Args:
            role: "system", "user", "assistant" or "tool".
            text: What was said; "" takes it from *parts*.
            author: Who said it, if the role alone does not tell.
            parts: The original message as JSON objects, kept as it is.
            external_id: Your id for it: adding it again changes nothing and
                returns the stored message.
            created_ms: When it was said; None: now.
            metadata: A JSON object that is kept beside it.
            expected_seq: `last_seq` as you know it: if somebody added a message
                since, nothing is written.
            secrets: "refuse", "redact" or "allow" keys and passwords in it;
                None: as the file was opened, which keeps them as they are said.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: it holds a secret, and those are refused.
            AlreadyExists: *external_id* belongs to a different message.
            VersionConflict: the session is not at *expected_seq*.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     db.scope("ann").session("tea").append("user", "Green, please.").tokens
        4
        """
        from memdb.models.messages import NewMessage

        new = NewMessage(role, text, author, parts, external_id, created_ms, metadata)
        writer = self._services.writer
        drafts = writer.prepare([new], secrets)
        (stored,) = writer.append(self._owner, self.name, drafts, expected_seq)
        return stored

    def extend(
        self,
        messages: Iterable[NewMessage | dict[str, Any]],
        *,
        expected_seq: int | None = None,
        secrets: str | None = None,
        keep: bool = False,
    ) -> list[Message]:
        """
        Add many messages in one transaction, all or none; see `append`.

        Args:
            messages: `NewMessage`s, or dicts with the same fields by name.
            keep: What is stored under the external id of one of them stays,
                also where it differs: the first to come wins.

        Cost: 25 µs per message with index and exact token count.
        """
        writer = self._services.writer
        drafts = writer.prepare(messages, secrets)
        return writer.append(self._owner, self.name, drafts, expected_seq, keep=keep)

    @property
    def last_seq(self) -> int:
        """The highest seq given out so far, 0 before the first message."""
        return self._services.conversations.last_seq(self._owner, self.name)

    def messages(self, after_seq: int = 0, limit: int | None = None) -> Iterator[Message]:
        """Iterate over the messages after *after_seq*, oldest first, *limit* at most."""
        return self._services.conversations.messages(self._owner, self.name, after_seq, limit)

    def last(self, n: int) -> list[Message]:
        """Return the newest *n* messages, oldest of them first. Cost: 0.1 ms for 50."""
        return self._services.conversations.last(self._owner, self.name, n)

    def get(self, seq: int) -> Message:
        """Return message *seq*; NotFound if the session has none."""
        return self._services.conversations.get(self._owner, self.name, seq)

    def find(self, external_id: str) -> Message | None:
        """Return the message that was added with *external_id*, None without one."""
        return self._services.conversations.find_external(self._owner, self.name, external_id)

    def recall(
        self,
        query: str,
        limit: int = 10,
        *,
        kinds: Sequence[str] = DEFAULT_KINDS,
        since: int | datetime | None = None,
        until: int | datetime | None = None,
        explain: bool = False,
        by: str = "meaning",
        rerank: bool = True,
        as_of: int | datetime | None = None,
    ) -> Hits:
        """Return what this session knows about *query*, best first; see `Scope.recall`."""
        from memdb.search.request import search_request

        request = search_request(
            query,
            limit,
            kinds=kinds,
            since=since,
            until=until,
            session=self.name,
            explain=explain,
            by=by,
            rerank=rerank,
            as_of=as_of,
        )
        return self._services.recaller.recall(self._owner, request)

    def context(self, budget_tokens: int, query: str | None = None) -> ContextWindow:
        """
        Return what to hand to a model: the whole conversation, in any budget.

        In this order: the system messages at its start; summaries of what is
        older than the fresh tail, oldest first; pinned entries, and entries and
        older messages that *query* is about; the newest messages word for word. What is not shown
        is named, and `expand` leads back to it.

        Args:
            budget_tokens: Most tokens by the file's counter, 4 per message for
                its frame included.
            query: What the model will be asked, usually the user's last words;
                None: nothing is looked up, and the beginning of the context
                stays the same for several turns (a prompt cache keeps hitting).

        Returns:
            The messages, their tokens, and `pieces`: what each token was spent
            on and why. A newest message that is over the budget is handed over
            as a view of its beginning and end. The first message that is not
            the system's is a user's.

        Raises:
            TooLarge: the budget cannot hold the system text and a view of the
                newest message with its tool calls.

        Cost: 5 ms for any number of messages, with a query the time of a
        recall besides. What is not yet summarised is condensed without a model.
        """
        return self._services.contexts.context(self._owner, self.name, budget_tokens, query)

    def extract(
        self,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> Extracted:
        """
        Learn entries from what was said here and not yet looked at; say what became of them.

        By the file's model, with two calls at most per twenty messages, or by
        rules of English. What is known already is merged, what is out of date
        superseded; nothing is extracted twice, and nothing skipped.

        Args:
            dry_run: Say what would be done, and store nothing; a model is asked.
            limit: Stop after about so many messages.
            progress: Called with status and message before a model is asked.

        Raises:
            NotFound: there is no such session.
            PortError: the model gave no answer that can be read. What came
                before is stored, the rest is read the next time.
        """
        return self._services.extractions.extract(
            self._owner, self.name, dry_run=dry_run, limit=limit, status=progress
        )

    def profile(self, budget_tokens: int, *, ids: bool = False) -> ProfileBlock:
        """Return `Scope.profile` for the last three messages of the user in this session."""
        said = self._services.conversations.last_said(self._owner, self.name)
        return self._services.profiles.block(
            self._owner, budget_tokens, said, session=self.name, ids=ids
        )

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
        self._services.writer.fork(self._owner, self.name, name, before_seq)
        return type(self)(self._services, self._owner, name)

    @property
    def summaries(self) -> Summaries:
        """The summaries that condense this session: read, search, make and drop them."""
        from memdb.api.summaries import Summaries

        return Summaries(self._services, self._owner, self.name)

    @property
    def host(self) -> Host:
        """What a framework with sessions of its own needs: create, commit, pop, window ..."""
        from memdb.api.host import Host

        return Host(self._services, self._owner, self.name)

    @property
    def state(self) -> State:
        """Values under keys that go with the session."""
        from memdb.api.collections import State

        place = (self._owner.app, self._owner.user, self.name)
        return State(self._services, place, self._owner)

    def tools(self) -> Tools:
        """Return `memory_expand`, `memory_search` and `memory_compact` for this session."""
        from memdb.api.tools import Tools

        return Tools(self)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this session, and the `user:` ones of its scope."""
        from memdb.api.collections import Artifacts

        return Artifacts(self._services, self._owner, self.name)

    def archive(
        self, keep_last: int = 1000, progress: Callable[[int], object] | None = None
    ) -> Archived:
        """
        Compress all but the newest *keep_last* messages, in the same file.

        Nothing else changes: they are read, found and exported as before. What
        is archived already stays. `MemDB.vacuum` then makes the file smaller.

        Args:
            keep_last: Messages that stay as they are, 0 for none.
            progress: Called with the number of messages after each step of
                about 2,000, which is whole or not at all.

        Raises:
            Corrupt: a message is damaged; those of earlier steps are archived.

        Cost: 0.1 ms per message; reading 50 archived ones takes 1 ms.
        """
        return self._services.archivist.archive(self._owner, self.name, keep_last, progress)

    def unarchive(self, progress: Callable[[int], object] | None = None) -> Archived:
        """
        Bring every archived message back, byte for byte, to where it was.

        Args:
            progress: As in `archive`.

        Raises:
            Corrupt: a part of the archive is damaged; what is before it is back.
        """
        return self._services.archivist.unarchive(self._owner, self.name, progress)

    def delete(self) -> bool:
        """
        Remove the session with its messages, artifacts and state; False if it is absent.

        Entries told in it and `user:` artifacts stay.
        """
        return self._services.writer.delete(self._owner, self.name)

    def forget(
        self,
        seqs: int | Iterable[int] | None = None,
        *,
        artifacts: bool = False,
        prove: bool = False,
        dry_run: bool = False,
    ) -> Receipt:
        """
        Remove messages for good, and the entries that they told; see `Scope.forget`.

        Their seqs stay gaps. Summaries over them are written anew.

        Args:
            seqs: Of the messages; None: the session as a whole.
            artifacts: Also the artifacts that these messages saved.
            prove: Take the bytes off the disk too, and prove it.
            dry_run: Remove nothing, say what would be.

        Raises:
            InvalidInput: a seq is none.
            Busy: others kept writing.
            Corrupt: an archived message cannot be taken out of a damaged part.
        """
        from memdb.deletion.selectors import select

        selector = select(session=self.name, seqs=seqs, artifacts=artifacts)
        return self._services.deletion.forget(self._owner, selector, prove=prove, dry_run=dry_run)

    def __repr__(self) -> str:
        """Name the session and whose it is."""
        return f"<Session {self.name!r} of {self._owner.user!r}>"
