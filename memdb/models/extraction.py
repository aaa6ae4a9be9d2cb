"""
What extraction hands out and takes: frozen records, as in `memdb.models.messages`.

Apart from those, because a program that only reads and writes messages never
loads them.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from memdb.models.messages import Entry, Message

# How two statements that do not agree relate.
CONFLICTS = ("factual_correction", "preference_change", "context_dependent")

DECISIONS = ("create", "merge", "delete", "skip")


class Candidate(Record):
    """
    A fact that somebody said, before it is compared with what is known.

    Attributes:
        text: One fact, in a sentence that can stand alone.
        key: Names the fact where only one can hold at a time; else None.
        importance: 1 to 10; None: the category's usual.
        valid_from_ms: Since when it holds, or when it happened; None: not said.
        first_seq: With *last_seq* the messages that told it; None: not known.
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
    What became of a candidate, or would become of it.

    Attributes:
        action: "added", "merged", "superseded", "ignored", or "dropped" when
            it was not stored at all.
        reason: Why, in a short sentence.
        entry: The entry that holds it now; None when there is none.
        conflict: One of `CONFLICTS`, where the model named one.
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
    What extracting from a session did.

    Attributes:
        messages: Messages that were read.
        batches: In how many batches.
        outcomes: One for each candidate, in order.
        calls: How often a model was asked.
        next_seq: The first message not yet read: the watermark.
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
        use_model: Ask the file's model where there is one; False: by rules only.
        categories: Only facts of these; None: of every category.
        chunk: Most messages per batch, 1 to 200.
        context: Messages before a batch that a model sees for reference, 0 to 200.
        max_facts: Most facts per batch that a model may give, 1 to 64; the more
            important ones are kept.
        every: In the background, wait for so many new messages, 1 to 200 ...
        idle_ms: ... or until nothing was said for so long.
        render: Words the messages for a model, in place of memdb's way.
        post_process: May change, add and drop candidates before they are
            compared; gets them with the messages they come from.
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
    Return a policy under which extraction works.

    Raises:
        InvalidInput: it is something else, or a field is out of its range.
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
        given = getattr(policy, field)
        if given is not None and not callable(given):
            raise InvalidInput(f"extract.{field} cannot be called: give a function, or None")
    return policy
