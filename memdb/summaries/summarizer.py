"""
From sources to one accepted summary: ask, ask for less, do without.

Whatever the summariser does (nothing, garbage, too much, too late, an error),
a summary comes out: the extractive one takes the place of a failed one, with
quality 'fallback', so that it is tried again later and nobody waits for it.
"""

from __future__ import annotations

from memdb.errors import InvalidInput, PortError
from memdb.models.model_client import port_error, run_within
from memdb.models.record import Record
from memdb.models.summaries import SourceItem
from memdb.text.validate import text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.models.messages import Message
    from memdb.models.protocols import Summarizer
    from memdb.models.summaries import Summary, SummaryText
    from memdb.text.counting import Counting

# A summary is accepted up to this share of its source's tokens.
# Source: docs/seeds/flowcraft.md (0.8). In per mille: no rounding of floats.
ACCEPTED_PER_MILLE = 800

# Shorter ones are accepted whatever the source: a summary of three short lines
# can hardly be shorter than they are.
ALWAYS_ACCEPTED_TOKENS = 16

# Longest summary at all: a chunk of 20,000-token messages must not make a
# summary that fits no window.
MAX_SUMMARY_TOKENS = 1_000

MAX_SUMMARY_CHARS = 50 * MAX_SUMMARY_TOKENS

# What is asked for: of a model half, then a third, with room for a sentence
# or two; an extract is a third at once, and no longer than a short paragraph.
MODEL_SHARES = (2, 3)
MODEL_LEAST_TOKENS = 48
EXTRACT_SHARE = 3
EXTRACT_MOST_TOKENS = 240
EXTRACT_LEAST_TOKENS = 24

# A summariser that hangs is given up after this time; two tries are shorter
# than the lease of the job (`memdb.summaries.builder.LEASE_MS`).
PORT_TIMEOUT_S = 60.0

# Longest hint: a line of topics, not a second summary.
MAX_HINT_CHARS = 500

# Stands for messages that say nothing: images, empty texts.
WORDLESS = "(no words)"


class Stopped(Exception):
    """The summary is no longer wanted: its maker was cancelled."""


class Made(Record):
    """An accepted summary, ready to be stored."""

    text: str
    hint: str | None
    quality: str
    summarizer: str
    tokens: int


class SummaryMaker:
    """Makes summaries by a port, or without one."""

    def __init__(self, counting: Counting, port: Summarizer | None) -> None:
        """Ask *port*; None: the extractive summariser does it alone."""
        from memdb.english.extractive import ExtractiveSummarizer

        self._counting = counting
        self._local = ExtractiveSummarizer(counting.count_many)
        self.port = port

    @property
    def local_name(self) -> str:
        """Name of the offline summariser."""
        return self._local.name

    def make(
        self,
        source: Sequence[SourceItem],
        depth: int,
        *,
        local: bool = False,
        cancelled: Callable[[], bool] | None = None,
    ) -> tuple[Made, PortError | None]:
        """
        Return a summary of *source*, and why the port failed if it did.

        Args:
            source: Oldest first, not empty.
            depth: Of the summary it is for.
            local: Do not ask the port.
            cancelled: Asked while the port works; True: give up.

        Raises:
            Stopped: *cancelled* said so.
        """
        source_tokens = sum(self._counting.count_many([item.text for item in source]))
        if not any(item.text.strip() for item in source):
            return self._made(WORDLESS, None, "extractive", self._local.name), None
        failure = None
        if self.port is not None and not local:
            made, failure = self._ask(self.port, source, depth, source_tokens, cancelled)
            if made is not None:
                return made, None
        quality = "extractive" if failure is None else "fallback"
        limit = min(
            accepted_tokens(source_tokens),
            max(EXTRACT_LEAST_TOKENS, min(source_tokens // EXTRACT_SHARE, EXTRACT_MOST_TOKENS)),
        )
        extract = self._local.summarize(source, depth=depth, limit_tokens=limit)
        text = extract.text or WORDLESS
        return self._made(text, extract.hint, quality, self._local.name), failure

    def _ask(
        self,
        port: Summarizer,
        source: Sequence[SourceItem],
        depth: int,
        source_tokens: int,
        cancelled: Callable[[], bool] | None,
    ) -> tuple[Made | None, PortError | None]:
        """Return what the port gave at the first or second try, else why it was refused."""
        name = f"summarizer {port.name!r}"
        failure = PortError(name, "gave nothing")
        for share in MODEL_SHARES:
            limit = max(MODEL_LEAST_TOKENS, source_tokens // share)
            try:
                summary = _asked(port, source, depth, limit, cancelled)
                return self._accept(port, summary, source_tokens), None
            except Exception as error:  # noqa: BLE001 (a port may raise anything)
                failure = port_error(error.name if isinstance(error, PortError) else name, error)
            if cancelled is not None and cancelled():
                raise Stopped
        return None, failure

    def _accept(self, port: Summarizer, summary: SummaryText, source_tokens: int) -> Made:
        """
        Return the port's summary if it can stand for its source.

        Raises:
            PortError: it is empty, too long, or cannot be stored.
        """
        name = f"summarizer {port.name!r}"
        try:
            text = text_value(summary.text, "text").strip()
            hint = None if summary.hint is None else text_value(summary.hint, "hint").strip()
        except InvalidInput as error:
            raise PortError(name, str(error)) from error
        if not text:
            raise PortError(name, "gave an empty summary")
        if len(text) > MAX_SUMMARY_CHARS:  # counting so much would take seconds
            raise PortError(name, f"gave {len(text):,} characters; give a summary")
        if hint and len(hint) > MAX_HINT_CHARS:
            hint = f"{hint[:MAX_HINT_CHARS].rstrip()} …"
        made = self._made(text, hint or None, port.quality, port.name)
        most = accepted_tokens(source_tokens)
        if made.tokens > most:
            raise PortError(
                name, f"gave {made.tokens} tokens for {source_tokens}; at most {most} are accepted"
            )
        return made

    def _made(self, text: str, hint: str | None, quality: str, name: str) -> Made:
        (tokens,) = self._counting.count_many([text])
        return Made(text, hint, quality, name, tokens)


def _asked(
    port: Summarizer,
    source: Sequence[SourceItem],
    depth: int,
    limit_tokens: int,
    cancelled: Callable[[], bool] | None,
) -> SummaryText:
    """Return what the port answers; a port that hangs, or is no longer wanted, is given up."""
    from memdb.summaries.prompts import ModelSummarizer

    def work(stopped: Callable[[], bool]) -> SummaryText:
        if isinstance(port, ModelSummarizer):  # it can hang up
            return port.summarize(source, depth=depth, limit_tokens=limit_tokens, cancelled=stopped)
        return port.summarize(source, depth=depth, limit_tokens=limit_tokens)

    return run_within(
        work,
        name=f"summarizer {port.name!r}",
        timeout_s=PORT_TIMEOUT_S,
        cancelled=cancelled,
    )


def accepted_tokens(source_tokens: int) -> int:
    """
    Return the most tokens that a summary of so many may have.

    >>> accepted_tokens(1_000), accepted_tokens(10), accepted_tokens(90_000)
    (800, 16, 1000)
    """
    share = source_tokens * ACCEPTED_PER_MILLE // 1000
    return min(max(share, ALWAYS_ACCEPTED_TOKENS), MAX_SUMMARY_TOKENS)


def items_of_messages(messages: Sequence[Message]) -> list[SourceItem]:
    """Return messages as a summariser reads them, with what their tools were told and gave."""
    from memdb.conversations.windows import said_by

    return [
        SourceItem(one.seq, one.seq, one.author or one.role, one.role, said_by(one), one.created_ms)
        for one in messages
    ]


def items_of_summaries(summaries: Sequence[Summary], texts: Sequence[str]) -> list[SourceItem]:
    """Return summaries, and the text of each, as a summariser reads them."""
    return [
        SourceItem(summary.first_seq, summary.last_seq, "summary", None, text)
        for summary, text in zip(summaries, texts, strict=True)
    ]
