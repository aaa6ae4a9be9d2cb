"""
Candidates of extraction: find facts in messages, compare them with entries, store them.

`CandidateFinder` asks a model, or keeps sentences as they were said (`facts/keeping.py`).
Secrets are hidden from the model, unless the file's settings allow them. Blocks that memdb put into
a prompt are cut out of messages that quote them. Facts that an assistant repeats from them are
dropped; otherwise each recall would add stored facts again.

`CandidateResolver` asks a model at most once for all candidates of a batch. The model sees the
similar entries of each candidate and can name no others. The rules of `remember` decide about
entries that changed meanwhile, and about everything that the model cannot decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memdb.entries.arbitration import Resolution, checked_verdict, claim_of
from memdb.entries.similarity import is_repeated
from memdb.errors import InvalidInput, NotFound, PortError, SecretFound, TooLarge
from memdb.extraction.evidence import LEAST_SUPPORT, share_subject, support
from memdb.extraction.prompts import (
    CONTEXT_SHARE,
    DECISION_SCHEMA,
    MAX_FACT_CHARS,
    MOST_KEYS,
    SHOWN_ROLES,
    STANDARD_KEYS,
    compare_messages,
    fact_schema,
    find_messages,
    read_candidates,
    read_verdicts,
    render,
)
from memdb.facts.keeping import NAME as LEARNT_BY
from memdb.facts.keeping import learn, without_blocks
from memdb.models.entries import Candidate, NewEntry, Outcome
from memdb.models.ids import scope_range
from memdb.models.model_client import call_within
from memdb.models.protocols import ADD, DELETE, UPDATE, Claim, Verdict
from memdb.models.record import Record
from memdb.tables import entries
from memdb.text.screening import screened
from memdb.text.terms import content_words, query_words, word_terms
from memdb.text.trust import least_trust, trust_of_role, trust_of_text
from memdb.text.validate import content_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from memdb.engine.base import Engine, Tx
    from memdb.entries.categories import Categories
    from memdb.entries.remember import PreparedStatement, RememberService
    from memdb.entries.similarity import SimilarEntries
    from memdb.models.entries import Entry, ExtractHooks
    from memdb.models.messages import Message
    from memdb.models.model_client import ModelCaller
    from memdb.records.link_maker import Near
    from memdb.records.scopes import ScopeRef
    from memdb.text.screening import SecretScreen

# Blocks that contexts, recall and the prompt block put into a prompt.
INJECTED = ("memory", "recalled", "profile")
_OPENING = rf"<({'|'.join(INJECTED)})>|\[Long-term memory\]"

# Share of a candidate's words in one entry that makes it an echo of that entry.
ECHO_PERCENT = 75
MIN_ECHO_WORDS = 2

MODEL_ANSWER_TOKENS = 4_000


class Batch(Record):
    """
    Messages in which facts are searched, and messages before them for reference.

    Attributes:
        next_seq: The watermark after this batch.
    """

    messages: tuple[Message, ...]
    context: tuple[Message, ...]
    next_seq: int


class FoundCandidates(Record):
    """
    The candidates of a batch.

    Attributes:
        by: Name of the model that found them, or "sentences-1" without one.
        calls: Number of requests to a model.
    """

    candidates: tuple[Candidate, ...]
    by: str
    calls: int


class CandidateFinder:
    """Finds the facts of a batch."""

    def __init__(
        self,
        categories: Categories,
        screen: SecretScreen,
        caller: ModelCaller | None,
        hooks: ExtractHooks,
    ) -> None:
        """Ask the model behind *caller* if there is one and the settings allow it."""
        self._settings = screen.settings
        self._categories = categories
        self._screen = screen
        self._hooks = hooks
        self.caller = caller if self._settings.extract_by_model else None

    def find(
        self,
        batch: Batch,
        cancelled: Callable[[], bool] | None = None,
        *,
        keys: Sequence[str] = (),
        offline: bool = False,
    ) -> FoundCandidates:
        """
        Return the facts of *batch*.

        Args:
            cancelled: Asked while the model answers.
            keys: Keys that the scope uses; a model may return only these and standard ones.
            offline: Do not ask a model, whatever the settings are.

        Raises:
            PortError: the model failed or its answer is unreadable, or the
                host's own function failed.
        """
        messages = [_strip_injected(message) for message in batch.messages]
        if offline or self.caller is None:
            found, by, calls = learnt_candidates(messages, batch.context), LEARNT_BY, 0
        else:
            found, calls = self._ask(self.caller, messages, batch, keys, cancelled)
            by = self.caller.name
        if self._hooks.edit is not None:
            found = _post_process(self._hooks.edit, found, messages)
        enabled = self._settings.extract_categories
        if enabled is not None:
            found = [candidate for candidate in found if candidate.category in enabled]
        return FoundCandidates(tuple(found), by, calls)

    def _ask(
        self,
        caller: ModelCaller,
        messages: list[Message],
        batch: Batch,
        keys: Sequence[str],
        cancelled: Callable[[], bool] | None,
    ) -> tuple[list[Candidate], int]:
        """Ask the model once, unless there is no text to show; return facts and requests."""
        material = self._render(messages)
        if not material.strip():
            return [], 0
        context = self._render([_strip_injected(message) for message in batch.context])
        names = {category.name: category.description for category in self._categories}
        if self._settings.extract_categories is not None:
            names = {name: names.get(name, "") for name in self._settings.extract_categories}
        keys = list(dict.fromkeys((*keys, *STANDARD_KEYS)))[:MOST_KEYS]
        answer = caller.complete(
            find_messages(
                material,
                context[-round(CONTEXT_SHARE * self._settings.extract_chars) :],
                names,
                most=self._settings.extract_max_facts,
                chars=MAX_FACT_CHARS,
                task=self._hooks.find_prompt,
                keys=keys,
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
            most=self._settings.extract_max_facts,
            keys=keys,
        )
        return found, 1

    def _render(self, messages: Iterable[Message]) -> str:
        """Return messages as text for the model, without secrets if the settings hide them."""
        kept = []
        for message in messages:
            action = self._settings.secrets_in_extraction
            try:
                text = screened(message.text, action, "message", self._screen)
            except SecretFound:
                continue
            kept.append(message.replace(text=text))
        own = self._hooks.render
        return render(kept) if own is None else _rendered(own, kept)


def learnt_candidates(messages: list[Message], context: Sequence[Message]) -> list[Candidate]:
    """
    Return the sentences of *messages* that are worth keeping, with their speakers.

    If the user writes without a name, a user message with a name is somebody else's. Then "I live
    in Graz" is not a fact about the user, and nothing is learnt from it.

    Args:
        context: The messages before them.
    """
    is_named = all(one.author for one in (*context, *messages) if one.role == "user")
    return [
        Candidate(
            one.category,
            one.text,
            keywords=(message.author,) if message.author else (),
            first_seq=message.seq,
            last_seq=message.seq,
        )
        for message in messages
        if is_named or message.role != "user" or not message.author
        for one in learn(message.text, role=message.role)
    ]


def cut_batch(messages: Sequence[Message], context: Sequence[Message], most_chars: int) -> Batch:
    """Return the first of *messages* as a batch of at most *most_chars*; at least one message."""
    size = 0
    kept: list[Message] = []
    for message in messages:
        size += len(message.text) if message.role in SHOWN_ROLES else 0
        if kept and size > most_chars:
            break
        kept.append(message)
    return Batch(tuple(kept), tuple(context), kept[-1].seq + 1)


def without_injected(text: str) -> str:
    r"""
    Return *text* without the blocks that memdb put into a prompt.

    >>> without_injected("<recalled>\n(profile) Ann is 34.\n</recalled>\nHow old am I?")
    'How old am I?'
    """
    if "<" not in text and "[" not in text:
        return text
    kept = without_blocks(
        text, _OPENING, lambda one: f"</{one[1]}>" if one[1] else "[End of long-term memory]"
    )
    return "".join(kept).strip()


def is_echo(text: str, known: Iterable[str]) -> bool:
    """
    Return whether *text* repeats one of *known*.

    A text does if the known text has 75 % of its content words and all its numbers.

    >>> is_echo("Ann lives in Oslo", ["Ann lives in Oslo since 2016."])
    True
    >>> is_echo("Ann is 35", ["Ann is 34"])
    False
    """
    words = set(content_words(query_words(text)))
    numbers = {word for word in query_words(text) if word.isdigit()}
    if len(words) < MIN_ECHO_WORDS:
        return False
    for other in known:
        common = set(query_words(other))
        if numbers <= common and 100 * len(words & common) >= ECHO_PERCENT * len(words):
            return True
    return False


def is_from_assistant(candidate: Candidate, messages: Sequence[Message]) -> bool:
    """Return whether a fact comes from messages of the assistant only."""
    low, high = candidate.first_seq or 0, candidate.last_seq or 0
    roles = [message.role for message in messages if low <= message.seq <= high]
    return bool(roles) and all(role == "assistant" for role in roles if role in SHOWN_ROLES)


def _trust_of(
    candidate: Candidate, messages: Sequence[Message], span: tuple[int, int], *, supported: bool
) -> str | None:
    """Return the trust of a fact: the least of its own and that of its messages."""
    sources = [one for one in messages if span[0] <= one.seq <= span[1] and one.role in SHOWN_ROLES]
    trusts = [trust_of_text(one.text, trust_of_role(one.role)) for one in sources]
    if not supported:
        trusts.append("untrusted")
    texts = (candidate.text, *candidate.keywords)
    return least_trust([*trusts, *map(trust_of_text, texts)])


def _is_supported(candidate: Candidate, messages: Sequence[Message]) -> bool:
    """Return whether at least half of a fact's words are in the messages that it was found in."""
    texts = [one.text for one in messages if one.role in SHOWN_ROLES]
    speakers = [one.author for one in messages if one.author]
    return support(candidate.text, texts, speakers) >= LEAST_SUPPORT


def _strip_injected(message: Message) -> Message:
    text = without_injected(message.text)
    return message if text == message.text else message.replace(text=text)


def _post_process(
    hook: Callable[[list[Candidate], Sequence[Message]], list[Candidate]],
    found: list[Candidate],
    messages: list[Message],
) -> list[Candidate]:
    """Return the candidates as changed by the host's own function."""
    changed = call_within(
        lambda _: list(hook(found, messages)), name="edit_candidates", timeout_s=HOOK_TIMEOUT_S
    )
    if not all(isinstance(one, Candidate) for one in changed):
        raise InvalidInput(
            "edit_candidates returned something other than Candidates: return Candidates"
        )
    return changed


def _rendered(hook: Callable[[Sequence[Message]], str], messages: list[Message]) -> str:
    """Return messages in the form that the host's own function makes for a model."""
    text = call_within(lambda _: hook(messages), name="render_messages", timeout_s=HOOK_TIMEOUT_S)
    try:
        return content_value(text, "its text")
    except InvalidInput as error:
        raise PortError("render_messages", str(error)) from error


# For a host's own function.
HOOK_TIMEOUT_S = 30.0

MAX_ECHO_TERMS = 12
MAX_ECHOED = 20
DECIDE_TOKENS = 2_000

# What keeps a candidate from being stored, and does not stop the batch.
UNUSABLE = (InvalidInput, NotFound, SecretFound, TooLarge)


class ResolvedCandidate(Record):
    """
    A candidate, ready to be stored.

    Attributes:
        prepared: Checked and embedded; None means that the candidate is dropped.
        reason: Why it is dropped.
        verdict: Verdict of a model, about `offered`; None means that the rules decide.
        offered: Id and version of the entries that the model was shown.
    """

    candidate: Candidate
    prepared: PreparedStatement | None
    reason: str = ""
    verdict: Verdict | None = None
    offered: tuple[tuple[int, int], ...] = ()


class ResolvedBatch(Record):
    """The candidates of a batch, and the number of requests to a model."""

    candidates: tuple[ResolvedCandidate, ...]
    calls: int


class CandidateResolver:
    """Compares candidates with stored entries, and stores them."""

    def __init__(
        self,
        db: Engine,
        remember: RememberService,
        categories: Categories,
        caller: ModelCaller | None,
        task: str | None = None,
    ) -> None:
        """
        Store through *remember*; ask the model behind *caller*; None means no model.

        *task*: see `Settings.compare_prompt`.
        """
        self._db = db
        self._task = task
        self._remember = remember
        self._categories = categories
        self._caller = caller

    def resolve(
        self,
        owner: ScopeRef,
        session: str,
        batch: Batch,
        found: FoundCandidates,
        cancelled: Callable[[], bool] | None = None,
    ) -> ResolvedBatch:
        """
        Return the decision about each candidate.

        One request to a model, outside a transaction.
        """
        prepared = [self._prepare(owner, session, batch, found.by, one) for one in found.candidates]
        offered = self._find_offered(prepared) if self._caller and found.calls else []
        if self._caller is None or not any(offered):
            return ResolvedBatch(tuple(prepared), 0)
        try:
            said_ms = batch.messages[-1].created_ms
            asked = self._ask(self._caller, prepared, offered, said_ms, cancelled)
        except PortError:
            asked = prepared  # the rules decide: no candidate is lost
        return ResolvedBatch(tuple(asked), 1)

    def store(self, tx: Tx, batch: ResolvedBatch) -> tuple[Outcome, ...]:
        """Store candidates in order; each is compared with the result of the earlier ones."""
        return tuple(self._store(tx, one) for one in batch.candidates)

    def _prepare(
        self, owner: ScopeRef, session: str, batch: Batch, source: str, candidate: Candidate
    ) -> ResolvedCandidate:
        """Return a candidate checked and embedded, or the reason to drop it."""
        by_assistant = is_from_assistant(candidate, batch.messages)
        if by_assistant and is_echo(candidate.text, self._similar_texts(owner, candidate.text)):
            return ResolvedCandidate(candidate, None, "the assistant only repeats what is known")
        span = (batch.messages[0].seq, batch.messages[-1].seq)
        first = span[0] if candidate.first_seq is None else candidate.first_seq
        last = span[1] if candidate.last_seq is None else candidate.last_seq
        times = [one.created_ms for one in batch.messages if first <= one.seq <= last]
        shared = self._categories.get(candidate.category).shared  # an entry of no session
        supported = _is_supported(candidate, batch.messages)
        new = NewEntry(
            candidate.text,
            category=candidate.category,
            key=candidate.key if supported and not by_assistant else None,
            keywords=candidate.keywords,
            importance=candidate.importance,
            session=None if shared else session,
            seq=None if shared else (first, last),
            valid_from=candidate.valid_from_ms,
            expires=candidate.expires_ms,
            created_ms=max(times, default=None),
            writer=f"extracted:{source}",
            trust=_trust_of(candidate, batch.messages, (first, last), supported=supported),  # type: ignore[arg-type]  # a word of TRUSTS
        )
        try:
            prepared = self._remember.prepare(owner, new)
        except UNUSABLE as error:
            return ResolvedCandidate(candidate, None, str(error))
        # An entry that is stated again keeps the writer that stored it first.
        statement = prepared.statement
        statement = statement.replace(given=statement.given - {"writer"})
        return ResolvedCandidate(candidate, prepared.replace(statement=statement))

    def keys_in_use(self, owner: ScopeRef) -> list[str]:
        """Return the keys of the entries of a scope, in order."""
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            return [] if scope_no is None else entries.list_keys(tx, scope_no, MOST_KEYS)

    def _similar_texts(self, owner: ScopeRef, text: str) -> Iterable[str]:
        """Return the texts of entries of the scope, past ones too, that share words with *text*."""
        with self._db.read() as tx:
            scope_no = owner.find(tx)
            if scope_no is None:
                return []
            terms = word_terms(content_words(query_words(text)), MAX_ECHO_TERMS)
            counts: dict[int, int] = {}
            for ids in tx.words.postings("entry", terms, *scope_range(scope_no)).values():
                for entry_id in ids:
                    counts[entry_id] = counts.get(entry_id, 0) + 1
            best = sorted(counts, key=lambda entry_id: (-counts[entry_id], -entry_id))
            return [one.text for one in entries.get_many(tx, best[:MAX_ECHOED]).values()]

    def _find_offered(self, candidates: Sequence[ResolvedCandidate]) -> list[list[Entry]]:
        """Return the entries with which a model compares each candidate."""
        with self._db.write() as tx:
            return [[one.entry for one in self._find_neighbors(tx, each)] for each in candidates]

    def _find_neighbors(self, tx: Tx, candidate: ResolvedCandidate) -> Sequence[Near]:
        """Return the entries similar to a candidate; () if its session was deleted."""
        if candidate.prepared is None:
            return ()
        try:
            return self._remember.find_similar(tx, candidate.prepared).nearby
        except NotFound:
            return ()

    def _ask(
        self,
        caller: ModelCaller,
        candidates: list[ResolvedCandidate],
        offered: list[list[Entry]],
        said_ms: int,
        cancelled: Callable[[], bool] | None,
    ) -> list[ResolvedCandidate]:
        """Return the candidates with the model's verdicts about similar entries."""
        places = [place for place, shown in enumerate(offered) if shown]
        shown = [offered[place] for place in places]
        found = [candidates[place].candidate for place in places]
        verdicts = ask_verdicts(
            caller,
            [Claim(one.text, one.category, one.key, said_ms) for one in found],
            [[*map(claim_of, known)] for known in shown],
            self._task,
            cancelled,
        )
        asked = list(candidates)
        for place, verdict, known in zip(places, verdicts, shown, strict=True):
            versions = tuple((entry.id, entry.version) for entry in known)
            asked[place] = candidates[place].replace(verdict=verdict, offered=versions)
        return asked

    def _store(self, tx: Tx, resolved: ResolvedCandidate) -> Outcome:
        """Store one candidate through the stages of `remember`."""
        candidate, verdict = resolved.candidate, resolved.verdict
        if resolved.prepared is None:
            return Outcome(candidate, "dropped", resolved.reason)
        try:
            similar = self._remember.find_similar(tx, resolved.prepared)
            if _is_past(similar, self._categories):
                past = self._remember.add_past(tx, similar)
                return Outcome(candidate, "added", past.reason, past.entry)
            neighbors = similar.nearby if resolved.verdict is not None else ()
            done = self._remember.settle(tx, similar, self._answer(resolved, neighbors))
        except UNUSABLE as error:
            return Outcome(candidate, "dropped", str(error))
        is_stored = done.action != "refused"
        return Outcome(
            candidate,
            done.action if is_stored else "dropped",
            done.reason,
            done.entry if is_stored else None,
            None if verdict is None else verdict.conflict,
            None if done.other is None else done.other.id,
        )

    def _answer(self, resolved: ResolvedCandidate, neighbors: Sequence[Near]) -> Resolution | None:
        """Return the model's verdict about the present entries; None if they changed."""
        if resolved.verdict is None or self._caller is None:
            return None
        current = {(one.entry.id, one.entry.version): one for one in neighbors}
        shown = {entry_id for entry_id, _ in resolved.offered}
        has_new = any(one.related and one.entry.id not in shown for one in neighbors)
        targets = [resolved.offered[place] for place in resolved.verdict.targets]
        if has_new or any(version not in current for version in targets):
            return None  # changed, or an earlier candidate of the batch is similar
        verdict = resolved.verdict.replace(targets=tuple(range(len(targets))))
        return Resolution(verdict, tuple(current[version] for version in targets))


def ask_verdicts(
    caller: ModelCaller,
    new: Sequence[Claim],
    offered: Sequence[Sequence[Claim]],
    task: str | None,
    cancelled: Callable[[], bool] | None = None,
) -> list[Verdict]:
    """
    Return a model's decision about each new fact and the entries offered with it.

    Raises:
        PortError: the model failed, or its answer is unreadable.
    """
    labels = [
        [f"{number}{chr(ord('a') + at)}" for at in range(len(known))]
        for number, known in enumerate(offered, 1)
    ]
    answer = caller.complete(
        compare_messages(
            new, [dict(zip(*pair, strict=True)) for pair in zip(labels, offered, strict=True)], task
        ),
        schema=DECISION_SCHEMA,
        max_tokens=DECIDE_TOKENS,
        cancelled=cancelled,
    )
    return [
        _allowed(checked_verdict(verdict, len(known), caller.name), fact, known)
        for verdict, fact, known in zip(
            read_verdicts(answer, caller.name, labels), new, offered, strict=True
        )
    ]


def _allowed(verdict: Verdict, new: Claim, known: Sequence[Claim]) -> Verdict:
    """Return a verdict unchanged, or "add" if it retires a fact about something else."""
    if verdict.action not in (DELETE, UPDATE) or all(
        (new.key is not None and new.key == known[place].key)
        or share_subject(verdict.text or new.text, known[place].text)
        for place in verdict.targets
    ):
        return verdict
    return Verdict(ADD, reason="the model retires an entry about something else: added")


class ModelArbiter:
    """Arbiter that asks a language model once per statement, and checks its answer."""

    def __init__(self, caller: ModelCaller, task: str | None = None) -> None:
        """Ask the model behind *caller*. *task*: see `Settings.compare_prompt`."""
        self._caller, self._task = caller, task
        self.name = caller.name

    def decide(self, new: Claim, stored: Sequence[Claim]) -> Verdict:
        """
        Return the model's decision about *new* and *stored*.

        Raises:
            PortError: the model failed, or its answer is unreadable.
        """
        return ask_verdicts(self._caller, [new], [stored], self._task)[0]


def _is_past(similar: SimilarEntries, categories: Categories) -> bool:
    """Return whether the scope has a later statement of the same key, with other words."""
    statement, same = similar.statement, similar.same
    if same is None or statement.key is None or same.key != statement.key:
        return False
    if statement.created_ms is None or statement.created_ms >= same.updated_ms:
        return False
    return not is_repeated(statement, same.text, categories)
