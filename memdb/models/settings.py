"""
Settings: what a file does with secrets, summaries, facts and old data, as one record.

The settings are kept in the file, so that every program that opens it agrees. Functions
(embedder, model, detector) are no settings: they are given to `memdb.open`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from memdb.errors import Corrupt, InvalidInput
from memdb.models.ids import MAX_INT, MAX_SEQ
from memdb.models.record import Record
from memdb.text.tokens import counter_by_name
from memdb.text.validate import between, flag_value, name_value, one_of, text_value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from memdb.models.types import MergePolicy, Retention, SecretAction, Work
    from memdb.text.validate import Check

# Kinds of work, in the order in which they are done. Here, because a reader loads this module.
WORK: tuple[Work, ...] = ("embed", "summarize", "extract")


REFUSE, REDACT, ALLOW = ACTIONS = ("refuse", "redact", "allow")
RETENTIONS = ("archive", "delete", "forget")
# The word for None where a text file or a command gives a number.
NEVER = "never"

# What a statement is compared with before it is stored; the first is the default.
BY_MEANING, BY_WORDS, NO_MERGE = MERGE_POLICIES = ("meaning", "words", "never")


# New messages after which background work looks for summaries that are due; with smaller
# summaries it looks after each.
SUMMARIZE_EVERY = 10

MAX_DAYS = 36_500
MAX_QUOTA = 1_000_000

# Half-life of a category that is not registered, as in flowcraft.
UNKNOWN_HALF_LIFE_DAYS = 90


# How the names of the fields in each group begin.
GROUPS = {
    "entries": ("categories", "entry_", "secrets_"),
    "summaries": ("summary_",),
    "extraction": ("extract", "compare_"),
    "sessions": ("session_",),
    "contexts": ("context_", "image_", "page_", "sound_", "window_", "buffer_", "counter"),
}


class Category(Record):
    """
    A kind of entry.

    Attributes:
        description: What belongs here, in words that a model understands.
        half_life_days: Days after which the share of an entry's score that decays
            (`Settings.entry_decay_percent`) is half; None means no decay.
        ttl_days: Days after which an entry without *expires* expires; None
            means never.
        pinned: Whether its entries belong into every prompt, not only into
            those that they match.
        shared: Whether its entries are for all users of the app.
        quota_percent: Share of a scope's entries that may be of this category.
        merge: Which entry a new statement of the category repeats, so that it makes
            none of its own: "meaning", one of the same words, spelling apart; "words",
            one of the same text, as in a log that only grows; "never", none. A key
            decides in each of them.
    """

    name: str
    description: str = ""
    half_life_days: int | None = UNKNOWN_HALF_LIFE_DAYS
    ttl_days: int | None = None
    pinned: bool = False
    shared: bool = False
    quota_percent: int = 100
    merge: MergePolicy = "meaning"

    @property
    def ttl_ms(self) -> int | None:
        """Value of `ttl_days` in milliseconds, None for never."""
        return None if self.ttl_days is None else self.ttl_days * 86_400_000


class Settings(Record):
    """
    Settings of a file. The defaults remove nothing, and ask no model to learn.

    Secrets are keys, tokens and passwords. An action is "refuse" (a
    `SecretFound` error, nothing is written), "redact" (`[REDACTED kind]` takes
    their place) or "allow".

    Attributes:
        categories: Kinds of entries besides the built-in ones; one with the
            name of a built-in category takes its place.
        entry_quota: Most active entries of a user, 1 to 1,000,000; the entry
            of the least worth is evicted.
        entry_decay_percent: Share of an entry's score in a recall that decays with the half-life of
            its category, 0 to 100. An entry of that age counts half at 100, nine tenths at 20, and
            as on the first day at 0.
        secrets_in_entries: The action for entries, in `remember` and updates, for settings, and
            for the names of users and apps, which are refused and never redacted.
        secrets_in_extraction: The action for messages that a model gets to
            extract facts from; "refuse" leaves out those that contain a secret.
        secrets_in_messages: The action for messages whose append names none. It is also the action
            for title, metadata, state and the texts of artifacts of a session. Names are refused,
            not redacted.
        secrets_by_entropy: Whether random-looking runs of characters count.
        summary_messages: Messages per summary of depth 0, 2 to 1,000; more if
            a tool call waits for its results.
        summary_condense_at: Summaries of one depth that are not condensed, from
            which on the oldest are; more than *summary_group*, up to 100.
        summary_group: Summaries per deeper summary, 2 to 50.
        summary_max_depth: Depth of the deepest summary, 0 to 31.
        summary_prompt: Instruction for a model, in place of memdb's own
            words; `{limit}` is replaced by the most tokens. None means memdb's own,
            as for the other prompts. The rules that keep the material apart and set the
            form of the answer are always added.
        extract: Whether background work (`db.jobs`) learns entries from messages. None means that
            it does so without a model where `memdb.open` opened the file, or a folder of files did.
            Commands such as `memdb work FILE` and servers of one file then learn nothing.
            `Session.extract` works in any case. Cost: 2 ms of CPU per message.
        extract_by_model: Whether the model is asked, if there is one; else the rules.
        extract_categories: Keep facts of these only; None means every category.
        extract_messages: Most messages per batch, 1 to 200.
        extract_chars: Most characters of messages per batch, 500 to 1,000,000; a
            longer message is a batch for itself, cut for a model.
        extract_context: Messages before a batch that a model sees for reference, 0 to 200.
        extract_max_facts: Most facts per batch that a model may give, 1 to 64;
            the more important ones are kept.
        extract_every: New messages of a session that extraction waits for, 1 to 200.
        extract_idle_ms: After this time without a new message it waits for no more of them.
        extract_prompt: Instruction for a model on the facts to note; `{chars}` and `{most}` are
            replaced by the limits of a fact and of their number.
        compare_prompt: Instruction for a model about repeats and contradictions.
        entry_inactive_ms: Entries that have been inactive for longer are removed
            with their history; None means never. A year is usual.
        session_max_age_ms: Age from which a session is retired; None means none.
        session_max_idle_ms: Time since the newest message was written, from
            which a session is retired; None means none.
        session_max_count: Sessions per scope; those longest without a message
            are retired first. None means no limit.
        session_retention: What background work does to a session that exceeds
            a limit: "archive" keeps every word, compressed; "delete" does what
            `Session.delete` does, and "forget" what `Scope.forget` does.
        session_archive_at: Messages outside the archive from which on background
            work archives the oldest of a session, 2 to 16,777,215; None means
            never. 1,000 is usual.
        session_archive_keep: Newest messages that it leaves outside, 0 or more
            and less than *session_archive_at*.
        context_messages: Most newest messages unchanged, from 1; a tool call and its results are
            not parted. None means as many as fit.
        context_images: Newest images that a context, or a window with a budget, keeps, 0 to
            10,000; others read `[image: name]`.
        context_media_bytes: Most bytes of images, sound and files besides those of the
            newest message; the older ones are labels too. 0 to 1,000,000,000.
        image_tokens: Tokens of an image; None means by its size, 1,600 if that is unknown.
        page_tokens: Tokens of a page of a PDF.
        sound_tokens: Tokens of a second of sound.
        context_tail_percent: Share of a context's budget for the newest messages unchanged, 1 to
            99. The budget is what the system text and recalled texts leave. The messages also get
            what summaries do not need. Extracts, which no model wrote, get only what the newest
            messages leave.
        context_recall_percent: Share of what the system text and the entries leave, for the
            messages that match the question, 0 to 90. The rest is for the newest messages.
        context_known_tokens: Most tokens for entries, and never more than a fifth of the
            budget unless all entries fit into what the session leaves, 0 to 1,000,000.
        context_entries: Most entries that match the question, 0 to 1,000.
        context_categories: Categories of entries that contexts and profiles
            show; None means every category.
        context_log_days: Days for which the file keeps which rows each context gave, 0 to 36,500
            (`Session.given`). 0 keeps nothing.
        context_flagged: Whether contexts show what is recalled and reads like an order to a
            model, under a line of its own behind all else. False leaves it out.
        window_tokens: Budget of a context for which none is given, from 1.
        counter: Name of what counts tokens, if `memdb.open` is given none: a
            model ("gpt-4o", "claude-sonnet-4-5"), an encoding ("o200k_base") or "estimate".
    """

    categories: tuple[Category, ...] = ()
    entry_quota: int = 1_000
    entry_decay_percent: int = 20
    secrets_in_entries: SecretAction = "refuse"
    secrets_in_extraction: SecretAction = "redact"
    secrets_in_messages: SecretAction = "allow"
    secrets_by_entropy: bool = False
    summary_messages: int = 10
    summary_condense_at: int = 6
    summary_group: int = 3
    summary_max_depth: int = 3
    summary_prompt: str | None = None
    extract: bool | None = None
    extract_by_model: bool = True
    extract_categories: tuple[str, ...] | None = None
    extract_messages: int = 20
    extract_chars: int = 8_000
    extract_context: int = 6
    extract_max_facts: int = 16
    extract_every: int = 6
    extract_idle_ms: int = 120_000
    extract_prompt: str | None = None
    compare_prompt: str | None = None
    entry_inactive_ms: int | None = None
    session_max_age_ms: int | None = None
    session_max_idle_ms: int | None = None
    session_max_count: int | None = None
    session_retention: Retention = "archive"
    session_archive_at: int | None = None
    session_archive_keep: int = 500
    context_messages: int | None = None
    context_images: int = 20
    context_media_bytes: int = 4_000_000
    image_tokens: int | None = None
    page_tokens: int = 2_000
    sound_tokens: int = 32
    context_tail_percent: int = 60
    context_recall_percent: int = 85
    context_known_tokens: int = 800
    context_entries: int = 20
    context_categories: tuple[str, ...] | None = None
    context_flagged: bool = True
    context_log_days: int = 0
    window_tokens: int = 8_000
    counter: str | None = None

    def groups(self) -> dict[str, dict[str, Any]]:
        """Return the fields in five groups, in the order in which `memdb settings` lists them."""
        return {
            group: {name: getattr(self, name) for name in self._fields if name.startswith(begun)}
            for group, begun in GROUPS.items()
        }

    @property
    def summarize_every(self) -> int:
        """New messages of a session after which it is looked at for summaries that are due."""
        return SUMMARIZE_EVERY if self.summary_messages >= SUMMARIZE_EVERY else 1


DEFAULTS = Settings()

_RANGES = {
    "entry_quota": (1, MAX_QUOTA),
    "summary_messages": (2, 1_000),
    "summary_condense_at": (3, 100),
    "summary_group": (2, 50),
    "summary_max_depth": (0, 31),
    "extract_messages": (1, 200),
    "extract_chars": (500, 1_000_000),
    "extract_context": (0, 200),
    "extract_max_facts": (1, 64),
    "extract_every": (1, 200),
    "extract_idle_ms": (0, MAX_INT),
    "entry_inactive_ms": (0, MAX_INT),
    "session_max_age_ms": (0, MAX_INT),
    "session_max_idle_ms": (0, MAX_INT),
    "session_max_count": (0, MAX_INT),
    "entry_decay_percent": (0, 100),
    "session_archive_at": (2, MAX_SEQ),
    "session_archive_keep": (0, MAX_SEQ),
    "context_messages": (1, MAX_SEQ),
    "context_images": (0, 10_000),
    "context_media_bytes": (0, 1_000_000_000),
    "image_tokens": (0, 1_000_000),
    "page_tokens": (0, 1_000_000),
    "sound_tokens": (0, 1_000_000),
    "context_tail_percent": (1, 99),
    "context_recall_percent": (0, 90),
    "context_known_tokens": (0, 1_000_000),
    "context_entries": (0, 1_000),
    "context_log_days": (0, 36_500),
    "window_tokens": (1, 1 << 62),
}
MAX_PROMPT_CHARS = 20_000


def _prompt(value: Any, field: str) -> None:
    if not text_value(value, field).strip() or len(value) > MAX_PROMPT_CHARS:
        raise InvalidInput(
            f"{field} has {len(value)} characters: give 1 to {MAX_PROMPT_CHARS:,}, or None"
        )


def _tuple_of(kind: type, check: Check) -> Check:
    """Return a check for a tuple of values of a type, which also checks each value."""

    def check_all(value: Any, field: str) -> None:
        if not isinstance(value, tuple) or not all(isinstance(one, kind) for one in value):
            raise InvalidInput(f"{field} is {value!r}: give a tuple of {kind.__name__}")
        for one in value:
            check(one, field)

    return check_all


def _category(value: Category, _field: str) -> None:
    for field, check in _CATEGORY_CHECKS.items():
        given = getattr(value, field)
        if given is not None or field not in LASTING:
            check(given, f"category.{field}")


def _counter(value: object, field: str) -> None:
    counter_by_name(name_value(value, field))


LASTING = ("half_life_days", "ttl_days")  # None means never
_CATEGORY_CHECKS: dict[str, Check] = {
    "name": name_value,
    "description": text_value,
    **dict.fromkeys(LASTING, between(1, MAX_DAYS)),
    "quota_percent": between(1, 100),
    **dict.fromkeys(("pinned", "shared"), flag_value),
    "merge": one_of(*MERGE_POLICIES),
}
_SECRETS = ("secrets_in_entries", "secrets_in_extraction", "secrets_in_messages")
_FLAGS = ("secrets_by_entropy", "extract", "extract_by_model", "context_flagged")
_NAMES = ("extract_categories", "context_categories")
_CHECKS: dict[str, Check] = {
    **{field: between(*span) for field, span in _RANGES.items()},
    **dict.fromkeys(_SECRETS, one_of(*ACTIONS)),
    "session_retention": one_of(*RETENTIONS),
    **dict.fromkeys(_FLAGS, flag_value),
    "categories": _tuple_of(Category, _category),
    **dict.fromkeys(_NAMES, _tuple_of(str, name_value)),
    **dict.fromkeys(("summary_prompt", "extract_prompt", "compare_prompt"), _prompt),
    "counter": _counter,
}


def read_settings(given: object) -> Settings | dict[str, Any]:
    """
    Return a whole record, or new values by field, each checked by itself.

    Args:
        given: `Settings`, or a mapping with some of its fields. Lists for tuples, dicts for
            categories, and "never" for a number that may be None are accepted too.

    Raises:
        InvalidInput: there is no such field, or a value is out of its range.
    """
    if isinstance(given, Settings):
        _check(given)
        return given
    if not isinstance(given, dict):
        raise InvalidInput(
            f"settings is {type(given).__name__}: give memdb.Settings or a dict of its fields"
        )
    wrong = sorted(str(name) for name in given.keys() - {*Settings._fields})
    if wrong:
        raise InvalidInput(
            f"settings has no field {wrong[0]!r}: see help(memdb.Settings) for its fields"
        )
    fields = dict(given)
    for name in ("categories", *_NAMES):
        if isinstance(fields.get(name), list):
            fields[name] = tuple(fields[name])
    if isinstance(fields.get("categories"), tuple):
        fields["categories"] = tuple(map(_category_of, fields["categories"]))
    for name in _RANGES.keys() & fields.keys():
        if fields[name] == NEVER and getattr(DEFAULTS, name) is None:
            fields[name] = None
    _check(DEFAULTS.replace(**fields))
    return fields


def changed(settings: Settings, changes: Settings | Mapping[str, Any]) -> Settings:
    """
    Return *settings* with *changes*, as `read_settings` returns them.

    Raises:
        InvalidInput: two fields do not go together.
    """
    new = changes if isinstance(changes, Settings) else settings.replace(**changes)
    most = MAX_INT if new.session_archive_at is None else new.session_archive_at
    for field, value, other, limit in (
        ("summary_group", new.summary_group, "summary_condense_at", new.summary_condense_at),
        ("session_archive_keep", new.session_archive_keep, "session_archive_at", most),
    ):
        if value >= limit:
            raise InvalidInput(
                f"settings.{other} is {limit}: give more than {field}, which is {value}"
            )
    return new


def differences(old: Settings, new: Settings) -> dict[str, str]:
    """Return the JSON text of each field in which *new* differs from *old*, by name."""
    values = new.to_dict()
    return {
        name: json.dumps(values[name], ensure_ascii=False)
        for name in Settings._fields
        if getattr(old, name) != getattr(new, name)
    }


def read_stored(rows: Mapping[str, str]) -> Settings:
    """
    Return the settings of a file from their JSON texts by field.

    Raises:
        InvalidInput: this memdb does not know a field, or cannot use its value.
        Corrupt: a value is not JSON, which no memdb writes.
    """
    if not rows:
        return DEFAULTS
    try:
        fields = {name: json.loads(text) for name, text in rows.items()}
    except (ValueError, TypeError, RecursionError) as error:  # a damaged row may hold no text
        raise Corrupt(
            f"the settings of the file are damaged ({error}): restore a backup (`memdb restore`) "
            "or save the rest (`memdb recover`)"
        ) from error
    return changed(DEFAULTS, read_settings(fields))


def _category_of(given: object) -> object:
    if not isinstance(given, dict):
        return given
    wrong = sorted(str(name) for name in given.keys() - {*Category._fields})
    if wrong:
        raise InvalidInput(f"settings.categories has no field {wrong[0]!r}: see memdb.Category")
    if "name" not in given:
        raise InvalidInput("settings.categories has a category without a name: give its name")
    lasting = {name: None for name in LASTING if given.get(name) == NEVER}
    return Category(**{**given, **lasting})


def _check(settings: Settings) -> None:
    for field, check in _CHECKS.items():
        value = getattr(settings, field)
        if value is not None or getattr(DEFAULTS, field) is not None:
            check(value, f"settings.{field}")
    names = [category.name for category in settings.categories]
    for name in names:
        if names.count(name) > 1:
            raise InvalidInput(f"settings.categories has {name!r} twice: leave one out")
