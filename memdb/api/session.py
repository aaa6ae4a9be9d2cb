"""A conversation, as `scope.session(name)` gives it. Services do what its calls ask."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from memdb.api._container import Transaction
from memdb.api.calls import observed
from memdb.api.collections import Artifacts, State, Summaries
from memdb.errors import InvalidInput
from memdb.models.ids import MAX_SEQ, BranchName, branch_of
from memdb.models.messages import NewMessage
from memdb.text.validate import int_value, page_of, row_after, said_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from memdb.api._container import Services
    from memdb.api.tools import Tools
    from memdb.deletion.selectors import Selector
    from memdb.models.entries import Extracted
    from memdb.models.messages import BranchInfo, ContextWindow, Hits, Message, Piece
    from memdb.models.record import Page
    from memdb.models.reports import Receipt, SessionHead
    from memdb.models.summaries import Archived
    from memdb.models.types import (
        Kind,
        MessageSelectors,
        ProviderMessage,
        Role,
        SecretAction,
        SessionRecall,
        When,
    )
    from memdb.records.scopes import ScopeRef

R = TypeVar("R")


DEFAULT_KINDS: tuple[Kind, ...] = ("message", "entry", "artifact")


@observed
class Session:
    """
    An ordered run of messages in a scope; it is made at its first message.

    Or a branch of one, from `Session.branch`: messages that it shares with what it leaves,
    then its own. State, artifacts and the title belong to the session.
    """

    __slots__ = ("_owner", "_ref", "_services")

    def __init__(self, services: Services, owner: ScopeRef, name: str) -> None:
        """Use `scope.session(name)` instead."""
        self._services = services
        self._owner = owner
        self._ref = name  # with the branch

    def append(
        self,
        role: Role | ProviderMessage,
        text: str | None = None,
        *,
        author: str | None = None,
        parts: list[Any] | None = None,
        external_id: str | None = None,
        created: When | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected: int | Message | None = None,
        secrets: SecretAction | None = None,
    ) -> Message:
        """
        Add a message and return it as stored, with its seq and tokens.

        In place of a role and a text it takes a message or response of a provider, as an
        object or as the same dict: OpenAI (chat, Responses, Agents SDK, LiteLLM), Anthropic,
        Gemini, ADK, LangChain, Pydantic AI. Tool calls, results, images, files, thinking and
        refusals become parts (docs/parts.md). `to` returns the message to its provider as it
        was, except for fields that are None. A message with a tool's results beside words of
        somebody is stored as several messages, and the last one is returned. The stored
        message has `warnings` about parts that were not understood.

        Args:
            role: "system", "user", "assistant" or "tool"; or a message of a provider.
            text: The text. None takes it from *parts*.
            author: Name of the speaker, if the role alone is not enough.
            parts: Its parts as JSON objects, memdb's (docs/parts.md) or a provider's: text, calls
                and results of tools, images, files ...
            external_id: Your own id for the message. Adding the same message again changes nothing
                and returns the stored one.
            created: Time of the message; None means now. Times are UTC milliseconds, dates,
                aware datetimes, or text: "2026-05-01", "2 weeks ago", "30d".
            metadata: A JSON object to store with the message.
            expected: Fail unless the last message has this seq. 0 means that there is none. A
                Message is taken too. A call that fails writes nothing.
            secrets: "refuse", "redact" or "allow" keys and passwords in the text. None means as the
                file was opened, which stores them unchanged.

        Raises:
            InvalidInput: a field cannot be stored.
            SecretFound: the message contains a secret, and those are refused.
            AlreadyExists: *external_id* belongs to a different message.
            VersionConflict: the session is not at *expected*.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     chat = db.user("ann").session("tea")
        ...     tokens = chat.append("user", "Green, please.").tokens
        ...     stored = chat.append({"role": "model", "parts": [{"text": "Green?"}]})
        ...     tokens, stored.role, stored.text
        (4, 'assistant', 'Green?')
        """
        given: list[Any]
        if isinstance(role, str):
            created_ms = self._services.when_ms(created, "created")
            said = said_value(text, parts)
            new = (role, said, author, parts, external_id, created_ms, metadata, None, None)
            given = [NewMessage(*new)]
        elif any(one is not None for one in (text, author, parts, external_id, created, metadata)):
            raise InvalidInput(
                "role is a message: leave out the fields that it contains, such as text"
            )
        else:
            given = [role]
        writer = self._services.writer
        drafts = writer.prepare(self._owner, self._ref, given, secrets)
        if not drafts:
            raise InvalidInput("role contains no message: give a role and a text, or a message")
        return self._store(lambda: writer.append(self._owner, self._ref, drafts, expected)[-1])

    def extend(
        self,
        messages: Iterable[NewMessage | dict[str, Any] | Any],
        *,
        expected: int | Message | None = None,
        secrets: SecretAction | None = None,
        keep: bool = False,
    ) -> list[Message]:
        """
        Add many messages in one transaction, all or none; see `append`.

        Args:
            messages: `NewMessage`s, dicts with the same fields by name, or messages and
                responses of a provider, as `append` takes them.
            keep: The messages are copies from another store. What is stored under the external id
                of one of them stays, also where it differs, and what was forgotten stays away.

        Cost: 25 µs per message with index and exact token count.
        """
        if isinstance(messages, Mapping):
            raise InvalidInput("messages is one message: give a list, or add it with append")
        writer = self._services.writer
        drafts = writer.prepare(self._owner, self._ref, messages, secrets)
        return self._store(
            lambda: writer.append(self._owner, self._ref, drafts, expected, keep=keep)
        )

    def _store(self, store: Callable[[], R]) -> R:
        """Store what was checked; `memdb.aio` does so in a transaction with other calls."""
        return store()

    @property
    def name(self) -> str:
        """Name in the scope; a branch has the name of its session."""
        return str(self._ref)

    def head(self) -> SessionHead | None:
        """Return the session's title, metadata, times and last seq; None if there is none."""
        return self._services.hosting.head(self._owner, self._ref)

    def create(
        self,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        created: When | None = None,
    ) -> SessionHead:
        """
        Make the session before its first message.

        Args:
            title: What to call it in lists.
            metadata: A JSON object that is kept with it.
            created: Time when it began. None means now.

        Raises:
            AlreadyExists: it was created or has messages; artifacts and state do not count.
            InvalidInput: something given cannot be stored; nothing was written.
        """
        return self._services.hosting.create(
            self._owner,
            self._ref,
            title=title,
            metadata=metadata,
            created_ms=self._services.when_ms(created, "created"),
        )

    @property
    def title(self) -> str | None:
        """Title of the session in lists, None if there is none. Assigning a title stores it."""
        return getattr(self.head(), "title", None)

    @title.setter
    def title(self, title: str) -> None:
        self.update(title=title)

    @property
    def metadata(self) -> dict[str, Any]:
        """The JSON object that is kept with the session. Assigning one takes its place."""
        return getattr(self.head(), "metadata", None) or {}

    @metadata.setter
    def metadata(self, metadata: Mapping[str, Any]) -> None:
        self.update(metadata=metadata)

    @property
    def last_seq(self) -> int:
        """The highest seq given out so far, 0 before the first message."""
        return self._services.conversations.last_seq(self._owner, self._ref)

    def messages(
        self, after: int | Message | dict[str, Any] | None = None, limit: int | None = None
    ) -> Page[Message]:
        """
        Return the messages, oldest first, a page of them with *limit*.

        Args:
            after: The last message of the previous page, its `to_dict()`, or its seq. None means
                the first page.
            limit: Most messages. None means all.
        """
        place = (after,) if isinstance(after, int) else row_after(after, {"seq": int}) or (0,)
        find = partial(self._services.conversations.messages, self._owner, self._ref, *place)
        return page_of(find, limit)

    def last(self, n: int) -> list[Message]:
        """Return the newest *n* messages, oldest of them first. Cost: 0.1 ms for 50."""
        return self._services.conversations.last(self._owner, self._ref, n)

    def get(self, seq: int) -> Message:
        """Return message *seq*; NotFound if the session has none."""
        return self._services.conversations.get(self._owner, self._ref, seq)

    def find(self, external_id: str) -> Message | None:
        """Return the message that was added with *external_id*, None if there is none."""
        return self._services.conversations.find_external(self._owner, self._ref, external_id)

    def edit(self, seq: int, message: str | NewMessage | dict[str, Any]) -> Message:
        """
        Change the text of message *seq* in place, and return it as stored.

        Its seq, time and external id stay. What was derived from the old words
        goes: their index, their vector, and the summaries of the session, which
        are made again. Entries told by it stay.

        Args:
            message: The new text: role, author and metadata stay, and it takes the place of
                all parts. Or a `NewMessage` or a dict with its fields by name: all that the
                message says from now on.

        Raises:
            NotFound: there is no such message.
            InvalidInput: a field cannot be stored; nothing was written.
            SecretFound: the message contains a secret, and those are refused.
        """
        return self._services.hosting.edit(self._owner, self._ref, seq, message)

    def pop(self, *, expected: int | Message | None = None) -> Message | None:
        """
        Remove the newest message, with summaries that cover it, and return it.

        None without any; `delete(last=2)` removes two. Other branches that share it keep it.

        Args:
            expected: The seq of the message that you expect, 0 for none: if another one is the
                newest now, nothing is removed.

        Raises:
            VersionConflict: the newest message is not *expected*.
        """
        return self._services.writer.pop(self._owner, self._ref, expected)

    def replace(
        self,
        seqs: Iterable[int],
        instead: Iterable[NewMessage | dict[str, Any]] = (),
        *,
        expected: int | Message | None = None,
    ) -> list[Message]:
        """
        Remove messages and add others at the end, in one transaction; return the added ones.

        For hosts that shorten a conversation themselves. The messages go with
        their words, vectors and the summaries from the first of them on. Entries that
        were learnt from them stay, which `forget` would remove too. Other branches
        that share them keep them, with what was remembered.

        Args:
            seqs: Of what goes; those without a message are skipped.
            instead: `NewMessage`s, or dicts with the same fields by name.
            expected: As of `pop`: if the newest message is another by now, nothing is changed.

        Raises:
            VersionConflict: the newest message is not *expected*.
            InvalidInput: a seq or a field of *instead* cannot be.
        """
        return self._services.writer.replace(self._owner, self._ref, seqs, instead, expected)

    def clear(self) -> bool:
        """Remove every message; artifacts and entries stay. False without any message."""
        return self._services.writer.clear(self._owner, self._ref)

    def update(
        self,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expected: SessionHead | None = None,
    ) -> SessionHead:
        """
        Change the title or metadata of the session, which is made if it is new.

        Args:
            title: Takes the place of the title, "" too; None means that it stays.
            metadata: Takes the place of the metadata; None means that it stays.
            expected: The session's head as you know it: if messages were added or
                removed since, or the metadata changed, nothing is changed.

        Raises:
            NotFound: there is no such branch.
            VersionConflict: the session is not as *expected*.
            InvalidInput: something given cannot be stored; nothing was written.
        """
        return self._services.hosting.update(self._owner, self._ref, title, metadata, expected)

    def recall(self, query: str, limit: int = 10, **options: Unpack[SessionRecall]) -> Hits:
        """
        Search this session for *query*, best hits first; see `Scope.recall`.

        Its messages, artifacts and summaries, and the entries of the scope that it
        may recall; with *scope_entries* False only the entries that come from it.
        """
        given = {"kinds": DEFAULT_KINDS, **options, "session": self._ref}
        request = self._services.recall_request(query, limit, given)
        return self._services.recaller.recall(self._owner, request)

    def context(
        self,
        budget_tokens: int | None = None,
        query: str | None = None,
        *,
        count_use: bool = True,
    ) -> ContextWindow:
        """
        Return the messages for a model: the whole conversation, in any budget.

        The system messages at its start come first. Then come summaries of what is older
        than the fresh tail, oldest first, then entries, messages of the scope's other sessions,
        and older messages. The newest messages come last, unchanged. A user message names
        the spans that are not shown, and `summaries.expand` returns them.

        All active entries are there if they fit into what the session leaves, half of it if other
        sessions may answer and fill the rest. Otherwise they have a fifth of the budget, at most
        `Settings.context_known_tokens`: pinned ones come first, then those nearest to *query*, then
        the newest. Older messages are there if one of them may answer *query*, a very long one by
        its best passage. So is what users and assistants said in other sessions, each named by its
        title and day. At most five artifacts that may answer *query* add their best passage.
        Extracts, which no model wrote, have a share only if messages are long; of short ones
        `summaries.compact()` and then `summaries.tree().text(...)` make a text.

        Args:
            budget_tokens: Most tokens by the file's counter, 4 per message for
                its frame included. None means `Settings.window_tokens`.
            query: The question for the model, usually the user's last words. With None nothing is
                recalled, and the beginning of the context stays the same for several turns, which
                helps prompt caches.
            count_use: False leaves the file unchanged: no entry counts as used, and pending
                summaries and embeddings are left to others.

        Returns:
            The messages, their tokens, and `pieces`: what each token was spent on and why. A newest
            message that is over the budget is handed over as a view of its beginning and end. The
            first message that is not the system's is a user's.

        Raises:
            TooLarge: the budget cannot contain the system text and a view of the
                newest message with its tool calls.

        Cost: 5 ms for any number of messages, with a query the time of a recall besides. Messages
        without a summary are condensed without a model: those of a turn at once, after an import
        two summaries per call. `db.jobs.run()` makes the others; until then they are left out.
        """
        window = self._services.contexts.context(
            self._owner, self._ref, budget_tokens, query, count_use=count_use
        )
        days = self._services.settings.context_log_days
        if days and count_use:
            self._services.context_log.note(self._owner, self._ref, window, days)
        return window

    def given(self, seq: int | None = None) -> list[Piece]:
        """
        Return what the last context before message *seq* gave, piece by piece; [] if unknown.

        Without *seq* it is the newest context. Known are the contexts of the last
        `Settings.context_log_days`, stored by background work or when the file was closed.
        `Piece.reason` is "as given", "changed since" or "removed since". The texts are those of
        now. A client of MCP has a log too: its name replaces the session's, as in
        `user.session("mcp:claude-code").given()`, and its answers are counted from 1.
        """
        if seq is not None:
            int_value(seq, "seq", 1, MAX_SEQ)
        return self._services.context_log.read(self._owner, self._ref, seq)

    def extract(
        self,
        *,
        dry_run: bool = False,
        limit: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> Extracted:
        """
        Learn entries from the messages that were not yet read, and return the results.

        The file's model picks them, with two calls at most per twenty messages. Without
        one, two small models in memdb do, offline and in fifteen languages. What is known
        already is not stored again. What resembles other entries is linked to them.
        No message is read twice or skipped.

        Args:
            dry_run: Say what would be done, and store nothing; a model is asked.
            limit: Stop after about this many messages were read.
            progress: Called with status and message before a model is asked.

        Raises:
            NotFound: there is no such session.
            PortError: the model gave no answer that can be read. What came
                before is stored, the rest is read the next time.
        """
        return self._services.extractions.extract(
            self._owner, self._ref, dry_run=dry_run, limit=limit, status=progress
        )

    def branch(
        self, name: str, after_seq: int | None = None, *, create: bool | None = None
    ) -> Self:
        """
        Return the branch called *name*; it is made if it is new.

        A branch shares the messages up to *after_seq* with this session (or branch), and continues
        with its own. Reading, context, recall, summaries and export of a branch cover exactly
        those. A shared message is stored and found once; deleting, forgetting or editing it changes
        every branch that shares it. `pop`, `replace` and `clear` take what they name from this one
        alone; all else stays shared.

        Args:
            name: Unique in the session. 1 to 1,024 characters.
            after_seq: The last seq that it shares, 0 for none; None means all there is.
            create: True: it must be new; False: it must be there. None means either.

        Raises:
            AlreadyExists: there is one of that name, and *create* is True, or it leaves
                elsewhere than *after_seq*.
            NotFound: there is none, and *create* is False; or there is no such session.
            InvalidInput: a name cannot be used, or *after_seq* was not given out yet.

        Cost: 0.1 ms; nothing is copied. Reading one takes some µs more per branch on the way.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     tea = db.user("ann").session("tea")
        ...     _ = tea.extend([{"role": "user", "text": text} for text in ("Green?", "Black!")])
        ...     other = tea.branch("other", after_seq=1)
        ...     _ = other.append("user", "White!")
        ...     [one.text for one in other.messages()], [one.name for one in tea.branches()]
        (['Green?', 'White!'], ['other'])
        """
        if not isinstance(name, str):
            raise InvalidInput(f"branch is {type(name).__name__}: give a name")
        ref = BranchName(self.name, name)
        source = branch_of(self._ref)
        self._services.writer.branch(self._owner, ref, source, after_seq, create=create)
        return type(self)(self._services, self._owner, ref)

    def branches(self) -> list[BranchInfo]:
        """
        Return every branch of the session, oldest first. A branch returns those of its session.
        """
        return self._services.conversations.branches(self._owner, self.name)

    @property
    def branch_name(self) -> str | None:
        """The name of this branch; None for a session itself."""
        return branch_of(self._ref) or None

    @property
    def parent(self) -> Self | None:
        """
        Parent of this branch: the session or another branch. None for a session.

        Raises:
            NotFound: the branch was deleted.
        """
        if not isinstance(self._ref, BranchName):
            return None
        name = self._services.conversations.parent(self._owner, self._ref)
        ref = self.name if name is None else BranchName(self.name, name)
        return type(self)(self._services, self._owner, ref)

    def fork(self, name: str, *, before_seq: int | None = None) -> Self:
        """
        Copy this session or branch to a new session called *name* and return that.

        The copy is a session of its own and shares nothing: for a second head of the same
        conversation use `branch`. Messages keep their order, times and external ids, and get seqs
        from 1 on. The title and the metadata are copied; summaries are made again, and no fact is
        learnt twice. State, artifacts and session-only entries stay with this session.

        Args:
            before_seq: Copy only what was said before this seq; None means all.

        Raises:
            AlreadyExists: the scope has a session of that name.
            NotFound: this session has no messages yet.
            Busy: its messages kept changing.

        Cost: 30 µs per message, in one transaction.
        """
        self._services.writer.fork(self._owner, self._ref, name, before_seq)
        return type(self)(self._services, self._owner, name)

    @property
    def summaries(self) -> Summaries:
        """The summaries that condense this session: read, search, make and drop them."""
        return Summaries(self._services, self._owner, self._ref)

    @property
    def state(self) -> State:
        """Values under keys that go with the session."""
        place = (self._owner.app, self._owner.user, self.name)
        return State(self._services, place, self._owner)

    def tools(self) -> Tools:
        """Return `memory_expand`, `memory_search` and `memory_compact` for this session."""
        from memdb.api.tools import Tools

        return Tools(self._services, self._owner, self._ref)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this session, and the `user:` ones of its scope."""
        return Artifacts(self._services, self._owner, self._ref)

    def archive(
        self, keep_last: int = 1000, progress: Callable[[int], object] | None = None
    ) -> Archived:
        """
        Compress all but the newest *keep_last* messages, in the same file.

        Archived messages are read, found and exported as before. `db.file.vacuum(whole=True)` makes
        the file smaller.

        Args:
            keep_last: Number of the newest messages to leave uncompressed; 0 leaves none.
            progress: Called with the number of messages after each step of
                about 2,000, which is whole or not at all.

        Raises:
            Corrupt: a message is damaged; those of earlier steps are archived.

        Cost: 0.1 ms per message; reading 50 archived ones takes 1 ms.
        """
        return self._services.archivist.archive(self._owner, self._ref, keep_last, progress)

    def unarchive(self, progress: Callable[[int], object] | None = None) -> Archived:
        """Move every archived message back, byte for byte."""
        return self._services.archivist.unarchive(self._owner, self._ref, progress)

    def delete(
        self,
        seqs: int | Iterable[int] | None = None,
        *,
        dry_run: bool = False,
        **selectors: Unpack[MessageSelectors],
    ) -> Receipt:
        """
        Remove the session, or some of its messages, from the memory; see `Scope.delete`.

        Takes the selectors of `forget`, such as `last=2`. Entries that were learnt from the
        messages and `user:` artifacts stay; entries that only this session recalls go with it. A
        session goes with its branches, a branch with its own messages alone. A message that
        branches share is removed from all of them.

        Args:
            force: Remove the branches that start from this one too.

        Raises:
            InvalidInput: two selectors contradict each other, or one is invalid; or other
                branches leave from this one.
        """
        selector = self._select(seqs, **selectors)
        return self._services.deletion.delete(self._owner, selector, dry_run=dry_run)

    def forget(
        self,
        seqs: int | Iterable[int] | None = None,
        *,
        prove: bool = False,
        dry_run: bool = False,
        expected: str | Receipt | None = None,
        **selectors: Unpack[MessageSelectors],
    ) -> Receipt:
        """
        Remove the session, or some of its messages, for good; see `Scope.forget`.

        Entries that were learnt from the messages are removed too; with *query* only those that
        contain its words themselves. Seqs stay gaps. Summaries of the messages are rewritten. Give
        at most one selector; without one the whole session is removed, with its artifacts and
        state.

        Args:
            seqs: Seqs of messages.
            selectors: What to remove, by name, in place of *seqs*; and *artifacts*, *force*.
            last: Number of the newest messages to remove, 1 or more.
            before: Remove messages from before this time.
            query: Remove messages that contain all of its words, as `Scope.forget` does.
            artifacts: Remove also the artifacts that these messages saved, and those of this
                session that contain the words of *query*.
            prove: Prove that the bytes are gone from the disk too.
            dry_run: Remove nothing, and list in `Receipt.rows` what would be removed.
            force: Remove the branches that start from this one too.
            expected: Fail unless exactly the rows of the dry run with this digest would be removed.
                Its receipt is taken too. None removes what there is now.

        Raises:
            InvalidInput: two selectors contradict each other, or one is invalid; or other
                branches leave from this one.
        """
        selector = self._select(seqs, **selectors)
        return self._services.deletion.forget(
            self._owner, selector, prove=prove, dry_run=dry_run, expected=expected
        )

    def _select(self, seqs: int | Iterable[int] | None, **given: Any) -> Selector:
        before_ms = self._services.when_ms(given.pop("before", None), "before")
        return self._services.deletion.select_in(self._ref, seqs=seqs, before_ms=before_ms, **given)

    def __repr__(self) -> str:
        """Return the names of the session and of its user."""
        return f"<Session {self._ref!r} of {self._owner.user!r}>"


class Preparing(Session):
    """A session whose calls only check messages: they return the function that stores them."""

    __slots__ = ()

    def __init__(self, session: Session) -> None:
        """Prepare for *session*."""
        super().__init__(session._services, session._owner, session._ref)

    def _store(self, store: Callable[[], R]) -> Any:
        return store

    def transaction(self, *, savepoints: bool = True) -> Transaction:
        """Return a context for writes; without savepoints one that fails undoes all of them."""
        return Transaction(self._services.db, savepoints=savepoints)
