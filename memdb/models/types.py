"""Types of arguments: times, the words that an argument takes, and the parts of messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NotRequired, Protocol, TypedDict, Union

if TYPE_CHECKING:
    from memdb.models.record import Record

# A time: UTC milliseconds, an aware datetime, a date, or text ("2026-05-01", "2 weeks ago", "30d").
When = int | datetime | date | str

Role = Literal["system", "user", "assistant", "tool"]


class _Dumped(Protocol):
    """An object of pydantic, as most packages of providers have it."""

    def model_dump(self) -> dict[str, Any]:
        """Return the fields by name."""


class _Dataclass(Protocol):
    __dataclass_fields__: ClassVar[dict[str, Any]]


# A message or response of a provider's package, its JSON, several of them, or a `NewMessage`.
ProviderMessage = Union[
    Mapping[str, Any], Sequence[Mapping[str, Any]], _Dumped, _Dataclass, "Record"
]
Kind = Literal["message", "entry", "artifact", "summary", "item", "session"]
Partition = Literal["both", "own", "shared"]
ExportFormat = Literal["jsonl", "markdown", "html", "csv", "sqlite"]
SearchBy = Literal["meaning", "words", "vector"]


class RecallOptions(TypedDict, total=False):
    """Options of `recall` besides its eight arguments; `Scope.recall` describes each."""

    explain: bool
    rerank: bool
    group: Literal["session"] | None
    as_of: When | None
    categories: Sequence[str] | None
    roles: Sequence[Role] | None
    authors: Sequence[str] | None
    where: Mapping[str, Any] | None
    partition: Partition
    scope_entries: bool
    vector: bytes | Sequence[float] | None
    only_sure: bool
    cut: Literal["auto"] | None
    count_use: bool
    prefix: bool
    exclude: Sequence[str]


class SessionRecall(RecallOptions, total=False):
    """Options of `session.recall`; `Scope.recall` describes each."""

    kinds: Sequence[Kind]
    since: When | None
    until: When | None
    by: SearchBy
    min_score: float | None


class EntryFields(TypedDict, total=False):
    """Fields that `entries.update` can change; it describes each."""

    text: str
    category: str
    keywords: Sequence[str]
    importance: int
    expires: When | None
    metadata: Mapping[str, Any] | None
    key: str | None
    pinned: bool
    trust: Literal["trusted", "untrusted", "flagged"]
    active: bool


class SettingsFields(TypedDict, total=False):
    """Fields that `settings.update` can change; `Settings` describes each."""

    categories: Sequence[Any]  # of `Category`, or of its fields by name
    entry_quota: int
    entry_decay_percent: int
    secrets_in_entries: SecretAction
    secrets_in_extraction: SecretAction
    secrets_in_messages: SecretAction
    secrets_by_entropy: bool
    summary_messages: int
    summary_condense_at: int
    summary_group: int
    summary_max_depth: int
    summary_prompt: str | None
    extract: bool | None
    extract_by_model: bool
    extract_categories: Sequence[str] | None
    extract_messages: int
    extract_chars: int
    extract_context: int
    extract_max_facts: int
    extract_every: int
    extract_idle_ms: int
    extract_prompt: str | None
    compare_prompt: str | None
    entry_inactive_ms: int | None
    session_max_age_ms: int | None
    session_max_idle_ms: int | None
    session_max_count: int | None
    session_retention: Retention
    session_archive_at: int | None
    session_archive_keep: int
    context_messages: int | None
    context_images: int
    context_media_bytes: int
    image_tokens: int | None
    page_tokens: int
    sound_tokens: int
    context_tail_percent: int
    context_recall_percent: int
    context_known_tokens: int
    context_entries: int
    context_categories: Sequence[str] | None
    context_flagged: bool
    context_log_days: int
    window_tokens: int
    counter: str | None


class Selectors(TypedDict, total=False):
    """Selectors of `delete` and `forget` of a scope; `Scope.forget` describes each."""

    entry: int | None
    session: str | None
    seqs: int | Iterable[int] | None
    query: str | None
    person: str | None
    everything: bool
    artifacts: bool


class MessageSelectors(TypedDict, total=False):
    """Selectors of `delete` and `forget` of a session; `Session.forget` describes each."""

    last: int | None
    before: When | None
    query: str | None
    artifacts: bool
    force: bool


ItemOrder = Literal["key", "updated", "created"]
SessionOrder = Literal["name", "updated", "created"]
EntryOrder = Literal["id", "updated", "created"]
ArtifactOrder = Literal["name", "updated"]
Work = Literal["embed", "summarize", "extract"]
OpenMode = Literal["write", "read"]
Durability = Literal["power", "process"]
ToolFormat = Literal["openai", "anthropic", "gemini"]
MessageFormat = Literal["openai", "openai-responses", "anthropic", "gemini", "langchain"]
Trust = Literal["trusted", "untrusted", "flagged"]
Certainty = Literal["sure", "unsure", "none"]
Action = Literal["added", "repeated", "updated", "retracted", "refused"]
LinkKind = Literal["repeats", "updates", "corrects", "retracts"]
SecretAction = Literal["refuse", "redact", "allow"]
MergePolicy = Literal["meaning", "words", "never"]
# Gets how much is done, and of how much.
Progress = Callable[[int, int], object]
Retention = Literal["archive", "delete", "forget"]


class TextPart(TypedDict):
    """Words; *refusal* if the model refuses with them."""

    type: Literal["text"]
    text: str
    refusal: NotRequired[bool]


class Thinking(TypedDict):
    """Thought of a model before its answer; "" if the provider keeps it encrypted."""

    type: Literal["thinking"]
    text: str


class ToolCall(TypedDict):
    """
    A call of a tool; *arguments* are JSON text, or an object.

    >>> call: ToolCall = {
    ...     "type": "tool_call",
    ...     "id": "c1",
    ...     "name": "rain",
    ...     "arguments": {"at": "Oslo"},
    ... }
    """

    type: Literal["tool_call"]
    id: str
    name: str
    arguments: str | dict[str, Any]
    warning: NotRequired[str]


class ToolResult(TypedDict):
    """
    Result of a tool: a text, parts, or any other JSON value.

    >>> result: ToolResult = {"type": "tool_result", "tool_call_id": "c1", "content": "9 degrees"}
    """

    type: Literal["tool_result"]
    tool_call_id: str
    content: Any
    name: NotRequired[str]
    is_error: NotRequired[bool]
    warning: NotRequired[str]


class Image(TypedDict):
    """An image: `base64` with `media_type`, a `url`, or a provider's `file_id`."""

    type: Literal["image"]
    base64: NotRequired[str]
    media_type: NotRequired[str]
    url: NotRequired[str]
    file_id: NotRequired[str]
    name: NotRequired[str]
    text: NotRequired[str]
    width: NotRequired[int]
    height: NotRequired[int]


class FilePart(TypedDict):
    """A file or sound, like an image; *text* are its words or its transcript."""

    type: Literal["file", "audio"]
    base64: NotRequired[str]
    media_type: NotRequired[str]
    url: NotRequired[str]
    file_id: NotRequired[str]
    name: NotRequired[str]
    text: NotRequired[str]
    pages: NotRequired[int]
    seconds: NotRequired[int]


class Other(TypedDict):
    """Part without a type here, kept whole: *kind* is the provider's name for it."""

    type: Literal["other"]
    kind: str
    data: Any
    provider: NotRequired[str]
    warning: NotRequired[str]


class Original(TypedDict):
    """The message as its provider gave it; a pointer replaces what other parts contain."""

    type: Literal["original"]
    provider: str
    data: NotRequired[Any]
    whole: NotRequired[Any]


Part = TextPart | Thinking | ToolCall | ToolResult | Image | FilePart | Other | Original
