"""
Ports: small protocols that a host can implement.

Each has an offline default in `models_local/` or `text/`. A port may be slow or fail. A port is
never called inside a write transaction, and its errors reach the caller as `PortError`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

from memdb.models.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from memdb.models.reports import Secret
    from memdb.models.summaries import SourceItem, SummaryText

# What a new fact does to the entries that it resembles; see `Verdict`.
ADD, UPDATE, DELETE, NOOP = "add", "update", "delete", "noop"
ACTIONS = (ADD, UPDATE, DELETE, NOOP)


class Claim(Record):
    """
    A fact, new or stored, in the form for an arbiter: without ids, and of one scope only.

    Attributes:
        said_ms: Time when it was stated.
        similarity: Cosine of a stored fact with the new one; None without vectors.
    """

    text: str
    category: str
    key: str | None
    said_ms: int
    similarity: float | None = None


class Verdict(Record):
    """
    Effect of a new fact on the claims with which it was compared.

    Attributes:
        action: "add": both are kept. "update": it says the same as the first of *targets*, which
            becomes *text*. "delete": it replaces the *targets*, which are no longer true. "noop":
            the first of *targets* already states it.
        targets: Places in the given list, from 0.
        text: Text of an "update"; None means the text of the new fact.
        reason: One line, for people.
        conflict: Why they disagree, one of `memdb.models.entries.CONFLICTS`; None means unknown.
    """

    action: str
    targets: tuple[int, ...] = ()
    text: str | None = None
    reason: str = ""
    conflict: str | None = None


class Clock(Protocol):
    """Gives the time, so that two runs can give equal files."""

    def __call__(self) -> int:
        """Return UTC milliseconds."""
        ...


class Ids(Protocol):
    """Gives identities, so that two runs can give equal files."""

    def __call__(self, now_ms: int, /) -> str:
        """Return a new uid for a time."""
        ...


@runtime_checkable
class TokenCounter(Protocol):
    """Counts tokens as a model would."""

    @property
    def name(self) -> str:
        """Identify the counting; stored beside each count."""
        ...

    def count(self, text: str) -> int:
        """Return the number of tokens in *text*, 0 for the empty text."""
        ...

    def count_many(self, texts: Sequence[str]) -> list[int]:
        """Return the count of each text, in order."""
        ...


@runtime_checkable
class Embedder(Protocol):
    """
    Turns texts into vectors of one space.

    An embedder may have a method `embed_query(text)`, which returns the vector of a question
    as `embed` returns that of a text. Models that were trained with a prefix for questions
    and another for texts need it. Without it `embed` takes questions too.
    """

    @property
    def name(self) -> str:
        """Identify the model; vectors of models with different names are never compared."""
        ...

    @property
    def dim(self) -> int:
        """Return the number of components, 1 to 65,536."""
        ...

    def embed(self, texts: Sequence[str]) -> Sequence[bytes | Sequence[float] | None]:
        """
        Return one vector per text, in order.

        A vector is `(dim,)` numbers or `4 * dim` bytes of little-endian float32,
        finite and not all zero; None for a text in which there is nothing to
        embed.
        """
        ...


class Reranker(Protocol):
    """Says how well each of the best texts answers a question: a cross-encoder, mostly."""

    def __call__(self, query: str, texts: Sequence[str], /) -> Iterable[float]:
        """Return one finite number per text, in order; higher is better."""
        ...


@runtime_checkable
class Model(Protocol):
    """Completes a chat: a language model."""

    @property
    def name(self) -> str:
        """Identify the model; the name is stored beside its results."""
        ...

    def complete(
        self,
        messages: Sequence[Mapping[str, str]],
        *,
        schema: Mapping[str, Any] | None = None,
        timeout_s: float = 30.0,
        max_tokens: int | None = None,
        cancelled: Callable[[], bool] | None = None,
    ) -> str:
        """
        Return the answer to *messages* as text.

        Args:
            messages: Oldest first, each with "role" ("system", "user" or
                "assistant") and "content".
            schema: A JSON schema that the answer should keep to; None: prose.
            timeout_s: Give up after this many seconds.
            max_tokens: Longest answer wanted; None means as the model likes.
            cancelled: Asked now and then; True: give up as soon as possible.

        Raises:
            PortError: no answer came: refused, unreachable, too late, cancelled.
                The text names no secret.
        """
        ...


class Detector(Protocol):
    """Finds secrets besides those that the rules of memdb find."""

    def __call__(self, text: str, /) -> Iterable[Secret]:
        """Return a `Secret` for each span of *text* that is one; fast, and without waiting."""
        ...


@runtime_checkable
class Arbiter(Protocol):
    """Decides what a new fact does to the stored facts that it resembles."""

    @property
    def name(self) -> str:
        """Identify it; stored beside each decision."""
        ...

    def decide(self, new: Claim, stored: Sequence[Claim], /) -> Verdict:
        """
        Return the relation of *new* to *stored*, one or more claims, most similar first.

        Raises:
            PortError: the decision failed; the new fact is added and linked.
        """
        ...


@runtime_checkable
class Summarizer(Protocol):
    """Makes a short text that replaces a longer one."""

    @property
    def name(self) -> str:
        """Identify it; stored beside each summary."""
        ...

    @property
    def quality(self) -> str:
        """Return "model" if a language model writes, "extractive" if none does."""
        ...

    def summarize(
        self, source: Sequence[SourceItem], *, depth: int, limit_tokens: int
    ) -> SummaryText:
        """
        Return a summary of *source*.

        Called in a thread of its own, by several at once where several
        sessions are summarised; given up after 60 seconds.

        Args:
            source: What was said, oldest first, never empty.
            depth: Depth of the summary to be made: 0 from messages, n from summaries of n - 1.
            limit_tokens: Most tokens of the summary's text, from 1.

        Raises:
            PortError: the model could not; the offline one takes its place.
        """
        ...
