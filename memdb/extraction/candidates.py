"""
The first stage of extraction: from messages to candidates, by a model or by rules.

A secret is kept from the model as the file's policy says. What memdb itself
put into a prompt is cut out of messages that quote it, and what an assistant
repeats from it is no news: else each recall would teach the file what it knows.
"""

from __future__ import annotations

import re

from memdb.errors import InvalidInput, PortError, SecretFound
from memdb.extraction.parsing import MAX_FACT_CHARS, read_candidates
from memdb.extraction.prompts import (
    CONTEXT_SHARE,
    MAX_TEXT_CHARS,
    SHOWN_ROLES,
    fact_schema,
    find_messages,
    render,
)
from memdb.models.extraction import Candidate
from memdb.models.record import Record
from memdb.text.secret_policy import screened
from memdb.text.terms import content_words, query_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memdb.english.rule_extractor import RuleExtractor
    from memdb.entries.categories import Categories
    from memdb.models.extraction import ExtractPolicy
    from memdb.models.messages import Message
    from memdb.models.model_client import Caller
    from memdb.text.secret_policy import SecretPolicy

# Blocks that contexts, recall and the prompt block put into a prompt.
INJECTED = ("memory", "recalled", "profile")
_BLOCK = re.compile(
    r"<("
    + "|".join(INJECTED)
    + r")>.*?</\1>"
    + r"|\[Long-term memory\].*?\[End of long-term memory\]",
    re.DOTALL,
)

# Of the words of a statement, so many in one entry make it an echo of that entry.
ECHO_PERCENT = 75
MIN_ECHO_WORDS = 2

MODEL_ANSWER_TOKENS = 4_000


class Batch(Record):
    """
    Messages that facts are looked for in, and those before them, for reference.

    Attributes:
        next_seq: The watermark once they are done.
    """

    messages: tuple[Message, ...]
    context: tuple[Message, ...]
    next_seq: int


class Found(Record):
    """
    The candidates of a batch.

    Attributes:
        by: Name of what found them.
        calls: How often a model was asked.
    """

    candidates: tuple[Candidate, ...]
    by: str
    calls: int


class Finder:
    """Finds the facts of a batch."""

    def __init__(
        self,
        policy: ExtractPolicy,
        categories: Categories,
        secrets: SecretPolicy,
        rules: Callable[[], RuleExtractor],
        caller: Caller | None,
    ) -> None:
        """Ask the model behind *caller* where there is one and *policy* wants it, else *rules*."""
        self._policy = policy
        self._categories = categories
        self._secrets = secrets
        self._rules = rules
        self.caller = caller if policy.use_model else None

    def find(
        self,
        batch: Batch,
        cancelled: Callable[[], bool] | None = None,
        *,
        by_rules: bool = False,
    ) -> Found:
        """
        Return the facts of *batch*.

        Args:
            cancelled: Asked while the model answers.
            by_rules: Ask no model, whatever the policy says.

        Raises:
            PortError: the model gave no answer that can be read, or the host's
                own function failed.
        """
        messages = [_own_words(one) for one in batch.messages]
        if by_rules or self.caller is None:
            extractor = self._rules()
            found, by, calls = extractor.extract(messages), extractor.name, 0
        else:
            found, calls = self._ask(self.caller, messages, batch, cancelled)
            by = self.caller.name
        hook = self._policy.post_process
        if hook is not None:
            found = _hooked(hook, found, messages)
        enabled = self._policy.categories
        if enabled is not None:
            found = [one for one in found if one.category in enabled]
        return Found(tuple(found), by, calls)

    def _ask(
        self,
        caller: Caller,
        messages: list[Message],
        batch: Batch,
        cancelled: Callable[[], bool] | None,
    ) -> tuple[list[Candidate], int]:
        """Ask the model once, unless there is nothing to show it."""
        material = self._shown(messages)
        if not material.strip():
            return [], 0
        context = self._shown([_own_words(one) for one in batch.context])
        names = {one.name: one.description for one in self._categories}
        if self._policy.categories is not None:
            names = {name: names.get(name, "") for name in self._policy.categories}
        answer = caller.complete(
            find_messages(
                material,
                context[-round(CONTEXT_SHARE * MAX_TEXT_CHARS) :],
                names,
                most=self._policy.max_facts,
                chars=MAX_FACT_CHARS,
            ),
            schema=fact_schema([*names]),
            max_tokens=MODEL_ANSWER_TOKENS,
            cancelled=cancelled,
        )
        span = (messages[0].seq, messages[-1].seq)
        found = read_candidates(
            answer,
            caller.name,
            categories=[*names],
            span=span,
            said_ms=messages[-1].created_ms,
            most=self._policy.max_facts,
        )
        return found, 1

    def _shown(self, messages: Iterable[Message]) -> str:
        """Return messages as the model sees them: without secrets, as the policy says."""
        kept = []
        for one in messages:
            try:
                text = screened(one.text, self._secrets.extraction, "message", self._secrets)
            except SecretFound:
                continue
            kept.append(one.replace(text=text))
        try:
            text = (self._policy.render or render)(kept)
        except Exception as error:
            raise PortError("extract.render", str(error) or type(error).__name__) from error
        if not isinstance(text, str):
            raise PortError("extract.render", f"it gave {type(text).__name__}, not str")
        return text


def cut(messages: Sequence[Message], context: Sequence[Message]) -> Batch:
    """Return as many of *messages* as a model can be shown at once, one at least."""
    size = 0
    kept: list[Message] = []
    for one in messages:
        size += len(one.text) if one.role in SHOWN_ROLES else 0
        if kept and size > MAX_TEXT_CHARS:
            break
        kept.append(one)
    return Batch(tuple(kept), tuple(context), kept[-1].seq + 1)


def without_injected(text: str) -> str:
    r"""
    Return *text* without the blocks that memdb put into a prompt.

    >>> without_injected("<recalled>\n(profile) Ann is 34.\n</recalled>\nHow old am I?")
    'How old am I?'
    """
    return _BLOCK.sub("", text).strip() if "<" in text or "[" in text else text


def echoes(text: str, known: Iterable[str]) -> bool:
    """
    Say whether *text* repeats one of *known*: most of its words are there, and all its numbers.

    >>> (
    ...     echoes("Ann lives in Oslo", ["Ann lives in Oslo since 2016."]),
    ...     echoes("Ann is 35", ["Ann is 34"]),
    ... )
    (True, False)
    """
    words = set(content_words(query_words(text)))
    numbers = {word for word in query_words(text) if word.isdigit()}
    if len(words) < MIN_ECHO_WORDS:
        return False
    for one in known:
        there = set(query_words(one))
        if numbers <= there and 100 * len(words & there) >= ECHO_PERCENT * len(words):
            return True
    return False


def from_assistant(candidate: Candidate, messages: Sequence[Message]) -> bool:
    """Say whether only an assistant told a fact, none of the users."""
    told = [
        one
        for one in messages
        if (candidate.first_seq or 0) <= one.seq <= (candidate.last_seq or 0)
    ]
    return bool(told) and all(one.role == "assistant" for one in told if one.role in SHOWN_ROLES)


def _own_words(message: Message) -> Message:
    text = without_injected(message.text)
    return message if text == message.text else message.replace(text=text)


def _hooked(
    hook: Callable[[list[Candidate], Sequence[Message]], list[Candidate]],
    found: list[Candidate],
    messages: list[Message],
) -> list[Candidate]:
    """Return what the host's own function makes of the candidates."""
    try:
        changed = list(hook(found, messages))
    except Exception as error:
        raise PortError("extract.post_process", str(error) or type(error).__name__) from error
    if not all(isinstance(one, Candidate) for one in changed):
        raise InvalidInput("extract.post_process gave something else than Candidates: give those")
    return changed
