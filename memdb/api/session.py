"""A conversation, as `scope.session(name)` gives it. Delegates; no rules here."""

from __future__ import annotations

from memdb.api.session_extraction import Learning
from memdb.api.session_host import Hosted
from memdb.api.session_revision import Revising

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any

    from memdb.api.collections import Artifacts
    from memdb.api.tools import Tools
    from memdb.models.messages import ContextWindow, Hits, Message, NewMessage
    from memdb.models.receipts import Receipt
    from memdb.models.summaries import Archived, Compacted, Expansion, Summary, SummaryTree


class Session(Hosted, Learning, Revising):
    """An ordered run of messages in a scope; it is made at its first message."""

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
        writer = self._rooms.writer
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
        writer = self._rooms.writer
        drafts = writer.prepare(messages, secrets)
        return writer.append(self._owner, self.name, drafts, expected_seq, keep=keep)

    @property
    def last_seq(self) -> int:
        """The highest seq given out so far, 0 before the first message."""
        return self._rooms.conversations.last_seq(self._owner, self.name)

    def messages(self, after_seq: int = 0, limit: int | None = None) -> Iterator[Message]:
        """Iterate over the messages after *after_seq*, oldest first, *limit* at most."""
        return self._rooms.conversations.messages(self._owner, self.name, after_seq, limit)

    def last(self, n: int) -> list[Message]:
        """Return the newest *n* messages, oldest of them first. Cost: 0.1 ms for 50."""
        return self._rooms.conversations.last(self._owner, self.name, n)

    def get(self, seq: int) -> Message:
        """Return message *seq*; NotFound if the session has none."""
        return self._rooms.conversations.get(self._owner, self.name, seq)

    def find(self, external_id: str) -> Message | None:
        """Return the message that was added with *external_id*, None without one."""
        return self._rooms.conversations.find_external(self._owner, self.name, external_id)

    def search(self, query: str, limit: int = 10) -> Hits:
        """
        Return the messages of this session that share words with *query*, best first.

        By words alone; `scope.recall` also knows meaning, dates and context.
        """
        from memdb.search.request import search_request

        request = search_request(query, limit, kinds=("message",), session=self.name, by="words")
        return self._rooms.recaller.recall(self._owner, request)

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
        from memdb.api.session_window import window

        limits = {"last": last, "budget_tokens": budget_tokens, "keep_last": keep_last}
        return window(self._rooms, self._owner, self.name, strategy, **limits, progress=progress)

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
        return self._rooms.contexts.context(self._owner, self.name, budget_tokens, query)

    def tree(self) -> SummaryTree:
        """Return the summaries of this session, and what has none yet."""
        return self._rooms.trees.tree(self._owner, self.name)

    def expand(self, summary_id: str, *, after_seq: int = 0, limit: int = 50) -> Expansion:
        """
        Return a page of what a summary stands for: summaries one level down, or messages.

        Args:
            summary_id: A summary's `id`; or a span as "first-last", as contexts name
                it: the summary of that span, else its messages.
            after_seq: `next_seq` of the page before; 0: the first.
            limit: Most summaries or messages on a page, 1 to 1,000.

        Raises:
            NotFound: the session has no such summary, or no message in the span.
        """
        return self._rooms.trees.expand(self._owner, self.name, summary_id, after_seq, limit)

    def search_summaries(self, query: str, limit: int = 10) -> list[Summary]:
        """Return the summaries of this session that share words with *query*, best first."""
        from memdb.search.request import search_request

        request = search_request(query, limit, kinds=("summary",), session=self.name, by="words")
        hits = self._rooms.recaller.recall(self._owner, request)
        ids = [hit.source.summary_id or "" for hit in hits]
        return self._rooms.trees.get_many(self._owner, self.name, ids)

    def summary_index(self, budget_tokens: int = 400) -> str:
        """
        Return a list of the summaries that cover this session, for a system prompt.

        One line for each that no other stands for, oldest first, with the id
        that `memory_expand` takes. Where not all fit, the newest are listed and
        the rest is named. "" without summaries, or if not even one line fits.
        """
        return self._rooms.trees.index(self._owner, self.name, budget_tokens)

    def compact(
        self,
        *,
        keep_last: int | None = None,
        progress: Callable[[str, str], object] | None = None,
    ) -> Compacted:
        """
        Finish the summaries, drop what can be made again, and archive what is cold.

        Nothing that was said is lost, and no summary by a model is dropped.
        Summaries that another process is making now are left to it.

        Args:
            keep_last: Archive all but so many of the newest messages; None:
                archive nothing.
            progress: Called with status ("active", "done" or "error") and what
                is being done, also before each call of a model.

        Raises:
            PortError: the model failed on a summary: an extract takes its
                place, and it is tried again later. All else was done.
        """
        from memdb.summaries.builder import compact

        rooms = self._rooms
        return compact(
            rooms.db,
            rooms.summaries,
            lambda: rooms.archivist,
            self._owner,
            self.name,
            keep_last=keep_last,
            progress=progress,
        )

    def upgrade(self) -> int:
        """
        Make every summary that no model wrote due to be written by the model; how many.

        `run_pending` or a worker then does it, sources first.

        Raises:
            InvalidInput: the file was opened without a model.
        """
        return self._rooms.trees.upgrade(self._owner, self.name)

    def tools(self) -> Tools:
        """Return `memory_expand`, `memory_search` and `memory_compact` for this session."""
        from memdb.api.tools import Tools

        return Tools(self)

    @property
    def artifacts(self) -> Artifacts:
        """The artifacts of this session, and the `user:` ones of its scope."""
        from memdb.api.collections import Artifacts

        return Artifacts(self._rooms, self._owner, self.name)

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
        return self._rooms.archivist.archive(self._owner, self.name, keep_last, progress)

    def unarchive(self, progress: Callable[[int], object] | None = None) -> Archived:
        """
        Bring every archived message back, byte for byte, to where it was.

        Args:
            progress: As in `archive`.

        Raises:
            Corrupt: a part of the archive is damaged; what is before it is back.
        """
        return self._rooms.archivist.unarchive(self._owner, self.name, progress)

    def delete(self) -> bool:
        """
        Remove the session with its messages, artifacts and state; False if it is absent.

        Entries told in it and `user:` artifacts stay.
        """
        return self._rooms.writer.delete(self._owner, self.name)

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
        return self._rooms.deletion.forget(self._owner, selector, prove=prove, dry_run=dry_run)

    def __repr__(self) -> str:
        """Name the session and whose it is."""
        return f"<Session {self.name!r} of {self._owner.user!r}>"
