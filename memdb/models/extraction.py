"""
Records of extraction: its policy, the candidates it finds, and its results.

A program that only reads and writes messages never loads them.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.models.messages import Entry, Message

# Why two facts disagree.
CONFLICTS = ("factual_correction", "preference_change", "context_dependent")


class Candidate(Record):
    """
    A fact found in a conversation, before it is compared with stored entries.

    Attributes:
        text: One fact, in a sentence that can stand alone.
        key: Names the fact if only one value can hold at a time; else None.
        importance: 1 to 10; None means the default.
        valid_from_ms: Since when it holds, or when it happened; None means unknown.
        first_seq: With *last_seq* the messages that state it; None means unknown.
    """

    category: str
    text: str
    key: str | None = None
    keywords: tuple[str, ...] = ()
    importance: int | None = None
    valid_from_ms: int | None = None
    expires_ms: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None


class Outcome(Record):
    """
    Result of extraction for one candidate; in a dry run what the result would be.

    Attributes:
        action: "added", "merged", "superseded", "ignored", or "dropped" if it
            was not stored at all.
        reason: Why, in a short sentence.
        entry: The entry that states it now; None if it was dropped.
        conflict: One of `CONFLICTS`; None if the model named none.
        target: Id of the entry that it changed, replaced or repeats.
    """

    candidate: Candidate
    action: str
    reason: str
    entry: Entry | None = None
    conflict: str | None = None
    target: int | None = None


class Extracted(Record):
    """
    Result of extracting from a session.

    Attributes:
        messages: Number of messages that were read.
        batches: Number of batches that they were read in.
        outcomes: One for each candidate, in order.
        calls: Number of requests to a model.
        next_seq: First message that was not read yet: the watermark.
    """

    messages: int
    batches: int
    outcomes: tuple[Outcome, ...]
    calls: int
    next_seq: int


class ExtractPolicy(Record):
    """
    When and how facts are extracted.

    Attributes:
        use_model: Whether the file's model is asked, if there is one; else the rules.
        categories: Keep facts of these only; None means every category.
        chunk: Most messages per batch, 1 to 200.
        context: Messages before a batch that a model sees for reference, 0 to 200.
        max_facts: Most facts per batch that a model may give, 1 to 64; the more
            important ones are kept.
        every: New messages that background work waits for, 1 to 200 ...
        idle_ms: ... unless no message was added for this time.
        render: Turns messages into text for a model; None means memdb's format.
        post_process: Changes, adds and drops candidates before they are
            compared; gets them with the messages that they come from.
    """

    use_model: bool = True
    categories: tuple[str, ...] | None = None
    chunk: int = 20
    context: int = 6
    max_facts: int = 16
    every: int = 6
    idle_ms: int = 120_000
    render: Callable[[Sequence[Message]], str] | None = None
    post_process: Callable[[list[Candidate], Sequence[Message]], list[Candidate]] | None = None


def checked_policy(policy: object) -> ExtractPolicy:
    """
    Return *policy* if it is valid.

    Raises:
        InvalidInput: it is no ExtractPolicy, or a field is out of its range.
    """
    from memdb.text.validate import MAX_MS, int_value, name_value

    if not isinstance(policy, ExtractPolicy):
        raise InvalidInput(f"extract is {policy!r}: give True, False or an ExtractPolicy")
    int_value(policy.chunk, "extract.chunk", 1, 200)
    int_value(policy.context, "extract.context", 0, 200)
    int_value(policy.max_facts, "extract.max_facts", 1, 64)
    int_value(policy.every, "extract.every", 1, 200)
    int_value(policy.idle_ms, "extract.idle_ms", 0, MAX_MS)
    if policy.categories is not None:
        if not isinstance(policy.categories, (list, tuple)):
            raise InvalidInput("extract.categories is no tuple: give names, or None for all")
        for name in policy.categories:
            name_value(name, "extract.categories")
    for field in ("render", "post_process"):
        function = getattr(policy, field)
        if function is not None and not callable(function):
            raise InvalidInput(f"extract.{field} cannot be called: give a function, or None")
    return policy
