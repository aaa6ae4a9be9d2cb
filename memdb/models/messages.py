"""
Records that memdb returns: frozen, with no behaviour beyond reading them.

Times are UTC milliseconds, sequence numbers and versions count from 1, and
None always means "absent", never "unknown default".
"""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol, overload

from memdb.models.record import Record
from memdb.text.parts import warnings_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from memdb.errors import PortError
    from memdb.models.types import Certainty, Kind, MessageFormat, Role, Trust

ROLES = ("system", "user", "assistant", "tool")

# What providers and programs call the four roles.
SYNONYMS = {
    "human": "user",
    "ai": "assistant",
    "bot": "assistant",
    "model": "assistant",
    "developer": "system",
    "function": "tool",
}
_NO_REASONS: dict[str, str] = {}

UID_BYTES = 16
_DASHES, _FOUR_DASHES = itemgetter(8, 13, 18, 23), ("-",) * 4
UUID_CHARS = 36  # with its dashes


def role_of(given: Any) -> Any:
    """Return memdb's name of another program's role; *given* if there is none."""
    return SYNONYMS.get(given, given) if isinstance(given, str) else given


def uid_to_bytes(uid: str) -> bytes:
    """
    Return a uid as `messages` stores it: a UUID as 16 bytes, any other text as UTF-8.

    Other text of 16 bytes gets a NUL, which no uid holds. Cost: 0.5 µs.

    >>> uid_to_bytes("018bcfe5-6800-7000-8000-000000000001").hex()
    '018bcfe5680070008000000000000001'
    """
    if len(uid) == UUID_CHARS:
        digits = uid.replace("-", "")
        try:
            data = bytes.fromhex(digits)
        except ValueError:
            data = b""
        if len(data) == UID_BYTES and data.hex() == digits and _DASHES(uid) == _FOUR_DASHES:
            return data
    data = uid.encode()
    return data + b"\0" if len(data) == UID_BYTES else data


def uid_from_bytes(data: bytes) -> str:
    """
    Return the uid that `uid_to_bytes` made *data* from.

    >>> uid_from_bytes(uid_to_bytes("message-1"))
    'message-1'
    """
    if len(data) != UID_BYTES:
        return data.rstrip(b"\0").decode("utf-8", "replace")
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


class NewMessage(Record):
    """
    A message before it is stored.

    Attributes:
        role: One of `ROLES`.
        text: What is searched and counted; "" derives it from *parts*.
        author: Who spoke; None when only the role is known.
        parts: What it consists of as JSON objects, memdb's (docs/parts.md) or a
            provider's; None when the text is all there is.
        external_id: The host's id, unique in its session. Adding the
            same message again returns the stored one and writes nothing.
        created_ms: Time when it was said; None means now. A dict may have `created` in its place,
            which takes a time in any form, as `Session.append` does.
        metadata: A JSON object that is kept and never searched.
        writer: The program that stores it; None means the name that its handle was opened with.
    """

    role: str
    text: str = ""
    author: str | None = None
    parts: list[Any] | None = None
    external_id: str | None = None
    created_ms: int | None = None
    metadata: Mapping[str, Any] | None = None
    uid: str | None = None
    writer: str | None = None


class Message(Record):
    """
    One stored message.

    Attributes:
        seq: Its place in the session, from 1; never changes.
        parts: What it consists of, see docs/parts.md; None when the text is all there is.
        tokens: Tokens of text and parts, by the counter called *counter*.
        uid: UUIDv7, the same in every copy of the file.
        writer: The program, adapter or client that stored it; None: nobody said.
    """

    seq: int
    role: Role
    author: str | None
    text: str
    parts: list[Any] | None
    tokens: int
    counter: str
    external_id: str | None
    created_ms: int
    metadata: dict[str, Any] | None
    session: str
    row_id: int
    uid: str
    writer: str | None = None

    if not TYPE_CHECKING:  # a context makes hundreds

        def __init__(
            self,
            seq,
            role,
            author,
            text,
            parts,
            tokens,
            counter,
            external_id,
            created_ms,
            metadata,
            session,
            row_id,
            uid,
            writer=None,
        ) -> None:
            """Take the fields; by hand it takes a fifth of the time."""
            self.seq = seq
            self.role = role
            self.author = author
            self.text = text
            self.parts = parts
            self.tokens = tokens
            self.counter = counter
            self.external_id = external_id
            self.created_ms = created_ms
            self.metadata = metadata
            self.session = session
            self.row_id = row_id
            _store_uid(self, uid)  # `_UidField` is a call of Python
            self.writer = writer

    @property
    def warnings(self) -> tuple[str, ...]:
        """
        Sentences about parts that were not understood when the message was stored.

        () if there are none.
        """
        if not self.parts and "\ufffd" not in self.text:
            return ()
        return warnings_of(self.parts or (), self.text)

    def to(self, shape: MessageFormat, *, provider_ids: bool = True) -> dict[str, Any]:
        """Return the message alone as `ContextWindow.to` does, with its ids wherever it was."""
        alone = ContextWindow((self.replace(seq=1),), 0, None)
        return alone.to(shape, provider_ids=provider_ids)


class _UidField:
    """The field `uid` of a message: bytes as they are stored, text as soon as it is read."""

    __slots__ = ("_slot",)

    def __init__(self, slot: Any) -> None:
        """Read and write *slot*."""
        self._slot = slot

    def __get__(self, message: Message | None, kind: type | None = None) -> Any:
        """Return the uid as text. Most messages of a context are read without their uid."""
        if message is None:
            return self._slot
        value = self._slot.__get__(message)
        return uid_from_bytes(value) if type(value) is bytes else value

    def __set__(self, message: Message, value: str | bytes) -> None:
        """Store the value."""
        self._slot.__set__(message, value)


_store_uid = Message.uid.__set__  # type: ignore[attr-defined]  # of the slot
Message.uid = _UidField(Message.uid)  # type: ignore[assignment]  # a descriptor


class MessageFormats(Protocol):
    """Functions for messages in the forms of providers; the core has none and calls these."""

    def read_messages(self, value: Any) -> list[NewMessage]:
        """Return a message or a response of a provider as messages."""
        ...

    def read_parts(self, role: str, parts: Sequence[Any]) -> tuple[str, list[Any]]:
        """Return the role and the parts of a message in memdb's form."""
        ...

    def to_shape(
        self, messages: Sequence[Message], shape: str, *, provider_ids: bool = True
    ) -> dict[str, Any]:
        """Return messages as keyword arguments of a provider's client."""
        ...


_formats: list[Callable[[], MessageFormats]] = []


def register_formats(load: Callable[[], MessageFormats]) -> None:
    """Register what returns the formats; it is called for each message that needs them."""
    _formats.append(load)


def message_formats() -> MessageFormats:
    """Return the formats that were registered last: those of `memdb.formats`."""
    return _formats[-1]()


class Piece(Record):
    """
    Part of a context: its cost, and why it is there.

    Attributes:
        kind: "system", "summary", "digest", "omitted", "entry", "artifact",
            "recalled", "message", or "frame" for the words around summaries and excerpts.
        first_seq: With *last_seq* the span it tells; of an entry the messages that it was
            learnt from. None for frames, and if that is not known.
        tokens: By the file's counter; those of all pieces add up to the context's.
        reason: Why it won its place, in a short sentence.
        ref: Number of the summary or entry, name of the artifact, or the place of a recalled
            message ("trip#12"). None for an entry that all users of the app share, which the user
            cannot read by number. None for pieces of other kinds, which have no name.
        score: How well it matches the query, where that decided.
        text: What is sent for it: of a message its text, of a frame the words around.
        message: Which of the context's messages contains it, from 0.
        session: The session of *first_seq*. None means that there is none.
        branch: The branch of that session. None means the session itself.
        pinned: For an entry in every context: "entry" if it is pinned itself,
            "category" if its category is. None for others.
        trust: As in `Entry`, of a message as in `Hit`; "trusted" for the words of memdb.
        role: The role of a message. None for others.
        writer: The writer of the text: the author of a message, the writer of an entry, the maker
            of a summary. None means the host, or that only the role is known.
    """

    kind: str
    first_seq: int | None
    last_seq: int | None
    tokens: int
    reason: str
    ref: str | None = None
    score: float | None = None
    text: str = ""
    message: int = 0
    session: str | None = None
    branch: str | None = None
    pinned: str | None = None
    trust: str = "trusted"
    role: str | None = None
    writer: str | None = None

    if not TYPE_CHECKING:  # a context makes hundreds

        def __init__(
            self,
            kind,
            first_seq,
            last_seq,
            tokens,
            reason,
            ref=None,
            score=None,
            text="",
            message=0,
            session=None,
            branch=None,
            pinned=None,
            trust="trusted",
            role=None,
            writer=None,
        ) -> None:
            """Take the fields; by hand it takes a fifth of the time."""
            self.kind = kind
            self.first_seq = first_seq
            self.last_seq = last_seq
            self.tokens = tokens
            self.reason = reason
            self.ref = ref
            self.score = score
            self.text = text
            self.message = message
            self.session = session
            self.branch = branch
            self.pinned = pinned
            self.trust = trust
            self.role = role
            self.writer = writer


class ContextWindow(Record):
    """
    The messages for a model, oldest first.

    Attributes:
        tokens: Their number of tokens by the file's counter, overhead included.
        budget_tokens: The limit for *tokens*. None means no limit given.
        pieces: How the tokens were spent, in the order of the messages, with reasons; () for a
            plain window.

    Messages that were never stored (summaries, excerpts) have seq 0.
    """

    messages: tuple[Message, ...]
    tokens: int
    budget_tokens: int | None
    pieces: tuple[Piece, ...] = ()

    def to(self, shape: MessageFormat, *, provider_ids: bool = True) -> dict[str, Any]:
        """
        Return the messages as keyword arguments of a model's client, ready for JSON.

        Args:
            shape: "openai" (chat completions), "openai-responses", "anthropic",
                "gemini" or "langchain"; see `memdb.formats.shapes.to_shape`.
                The content of a provider's own message is returned unchanged.
            provider_ids: Whether items for the Responses API keep OpenAI's ids. Use False for a
                server that does not know them; items then lose their reasoning too.

        Raises:
            InvalidInput: there is no such shape.

        >>> import memdb
        >>> with memdb.open(":memory:") as db:
        ...     chat = db.user("ann").session("tea")
        ...     said = chat.append("user", "Green, please.")
        ...     chat.context(1000).to("openai")
        {'messages': [{'role': 'user', 'content': 'Green, please.'}]}
        """
        return message_formats().to_shape(self.messages, shape, provider_ids=provider_ids)


class ProfileBlock(Record):
    """
    Long-term memory as a text for a prompt; "" with 0 tokens if there is nothing to show.

    Attributes:
        tokens: By the file's counter.
        entry_ids: The entries of the lines, in order, without entries that all users of the app
            share.
    """

    text: str
    tokens: int
    entry_ids: tuple[int, ...]


class SessionInfo(Record):
    """
    Session in a list.

    Attributes:
        title: The title that the host gave; None means that it gave none.
        tokens: Tokens of all its messages, each by the counter that it was stored with.
        archived_count: Number of its archived messages.
        opening: The user's first line in its first 50 messages, 120 characters at most. None means
            that there is none.
    """

    name: str
    title: str | None
    last_seq: int
    message_count: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    uid: str
    tokens: int = 0
    archived_count: int = 0
    opening: str | None = None


class BranchInfo(Record):
    """
    Branch of a session in a list.

    Attributes:
        parent: Name of the branch that it starts from; None means the session itself.
        leaves_at: The last seq up to which it shares everything that *parent* has; 0 if there is
            none. The branch may share later messages too, if `replace` made the two differ in
            between.
        last_seq: The highest seq assigned on its path.
        message_count: Number of messages on its path, shared ones included.
        uid: Differs from that of a branch of the same name that was deleted.
    """

    name: str
    parent: str | None
    leaves_at: int
    last_seq: int
    message_count: int
    metadata: dict[str, Any] | None
    created_ms: int
    updated_ms: int
    uid: str


class ArtifactVersion(Record):
    """
    One immutable version of a named artifact, without its bytes.

    Attributes:
        session: The session it belongs to; None for a `user:` name, which all
            sessions of the scope share.
        message_session: With *message_seq* the message that made it; None if it is unknown, or if
            its session was deleted.
        sha256: SHA-256 of the bytes, in hexadecimal.
        message_branch: The branch that the message belongs to; None means the session.
        writer: The program, adapter or client that saved it; None means unknown.
    """

    name: str
    version: int
    session: str | None
    size_bytes: int
    mime: str
    metadata: dict[str, Any] | None
    message_session: str | None
    message_seq: int | None
    sha256: str
    created_ms: int
    uid: str
    message_branch: str | None = None
    writer: str | None = None


class Artifact(Record):
    """A version together with its bytes."""

    info: ArtifactVersion
    data: bytes

    @property
    def text(self) -> str:
        """The bytes as UTF-8 text; UnicodeDecodeError if they are not UTF-8."""
        return self.data.decode()


class Source(Record):
    """
    Where a hit comes from; fields that do not apply are None.

    A message has session, its title, seq, external_id, author and created_ms. An entry has
    entry_id, category, and session and seq of the message that it comes from. An artifact has name,
    version and its session. A session has its name, its title, and in created_ms the time of its
    first message. A summary has its session and id, and in seq and last_seq its span. *shared* is
    True of an entry that all users of the app share. An item has its namespace, key, version and
    created_ms. Messages, entries and items have the *metadata* given with them. *branch* is the
    branch that a message, entry or summary belongs to; None means the session itself.
    """

    session: str | None = None
    seq: int | None = None
    external_id: str | None = None
    author: str | None = None
    created_ms: int | None = None
    entry_id: int | None = None
    category: str | None = None
    artifact: str | None = None
    version: int | None = None
    title: str | None = None
    shared: bool = False
    summary_id: int | None = None
    last_seq: int | None = None
    metadata: dict[str, Any] | None = None
    namespace: tuple[str, ...] | None = None
    key: str | None = None
    branch: str | None = None

    _numbered = ("entry_id", "summary_id")

    def __str__(self) -> str:
        """Name the place in one short line, as the command line prints it."""
        session = f"{self.session} ({self.branch})" if self.branch else self.session
        if self.key is not None:
            return "/".join((*(self.namespace or ()), self.key))
        if self.entry_id is not None:
            return f"{'shared ' if self.shared else ''}entry {self.entry_id} ({self.category})"
        if self.artifact is not None:
            return f"{self.artifact}@{self.version}"
        if self.last_seq is not None:
            return f"{session}#{self.seq}-{self.last_seq}"
        if self.seq is None:
            return f"{self.session} ({self.title})" if self.title else str(self.session)
        return f"{session}#{self.seq}"


class Hit(Record):
    """
    One answer of a search.

    Attributes:
        kind: "message", "entry", "artifact", "summary", "item" or "session".
        text: The whole text of a message, entry or item; for an artifact the matching passage. For
            a session it is the title, or in a group the best message.
        score: How much it says about the query, 0 to 1, on one scale for all queries and files.
            From 0.5 on it is as likely an answer as not. The best hit of a kind has the relevance
            of that kind's answer, and the others a share of it. In a search by vector it is the
            cosine.
        rank: 1 is best.
        is_sure: Whether it answers the query, by its score; False in a search by vector.
        also: Other places with the same text.
        outdated_by: Id of the entry with a newer statement; None if there is none.
        why: The reason for the hit, in a short sentence.
        explanation: Each term of the score by name, None unless asked for.
        hits: For a session, its best messages, best first, three at most; else ().
        trust: "trusted", "untrusted" (not from the user) or "flagged" (it looks like an instruction
            to a model). Entries store it; for other kinds it follows from role and text.
        role: The role of a message. None for others.
        writer: The writer of the text: the author of a message, the writer of an entry, the maker
            of a summary. None means the host, or that only the role is known.
    """

    kind: Kind
    text: str
    score: float
    rank: int
    source: Source
    explanation: dict[str, float] | None = None
    hits: tuple[Hit, ...] = ()
    trust: Trust = "untrusted"
    role: Role | None = None
    writer: str | None = None
    is_sure: bool = False
    also: tuple[Source, ...] = ()
    outdated_by: int | None = None
    why: str = ""

    _numbered = ("source", "hits", "also", "outdated_by")


class Hits(Record):
    """
    The hits of one answer, best first, and how they were found.

    The object can be iterated, indexed and asked for its length. A slice is an answer
    too, with the same facts.

    Attributes:
        hits: Best first.
        arms: The arms that were used, of "lexical" (words), "vector" (meaning of the whole),
            "similar" (words of similar meaning).
        missing: Why other arms were not used, one sentence each; also how complete "vector" is, if
            only a part of the texts is embedded. "hits": the number of matches that were left out,
            the reason, and how to see them.
        failure: The embedder's error; None if nothing failed.
        space: The model whose vectors answered; None if none did.
        certainty: "sure" if a match answers the query, "unsure" if the best one may
            not, "none" if nothing is known. The certainty judges the matches, including those left
            out of *hits*. A search by vector alone is always unsure.
    """

    hits: tuple[Hit, ...] = ()
    arms: tuple[str, ...] = ()
    missing: Mapping[str, str] = _NO_REASONS
    failure: PortError | None = None
    space: str | None = None
    certainty: Certainty = "none"

    _numbered = ("hits",)

    def __len__(self) -> int:
        """Return the number of hits."""
        return len(self.hits)

    def __iter__(self) -> Iterator[Hit]:
        """Iterate over the hits, best first."""
        return iter(self.hits)

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> Hit: ...
        @overload
        def __getitem__(self, index: slice) -> Hits: ...

    def __getitem__(self, index: int | slice) -> Hit | Hits:
        """Return one hit by its place from 0, or for a slice an answer with some of them."""
        if isinstance(index, slice):
            return self.replace(hits=self.hits[index])
        return self.hits[index]


class Why(Record):
    """
    Why a message has its place in an answer, or is missing from it.

    Attributes:
        rank: Its place among all messages; None means that it was no candidate.
        score: The score of its place, 0 if there is none.
        reason: In a sentence.
        explanation: Each term of its score; None if there is none.
        last: Each term of the message in the last place of the answer; None if the answer is not
            full.
    """

    rank: int | None
    score: float
    reason: str
    explanation: dict[str, float] | None
    last: dict[str, float] | None


class Finding(Record):
    """One inconsistency that `check` reports: *code* names the rule, *text* the place."""

    code: str
    text: str
    rebuildable: bool

    @property
    def damaged(self) -> str:
        """
        Kind of damage: "truth", "index", "schema", or "nothing".

        "truth" is stored data; an "index" is derived from it. "nothing": no damage, but something
        outside the file must end, or a loss must be accepted.
        """
        if self.code in ("wal_held", "wal_missing"):
            return "nothing"
        if self.code == "schema":
            return "schema"
        is_index = self.rebuildable or (self.code == "page" and " index " in self.text)
        return "index" if is_index else "truth"

    @property
    def remedy(self) -> str:
        """The command that helps, with FILE for the damaged file; "" if none does."""
        if self.rebuildable:
            return "memdb rebuild FILE"
        if self.code == "wal_missing":
            return "memdb check FILE --accept"
        if self.damaged == "truth":
            return "memdb restore BACKUP FILE, or memdb recover FILE NEW"
        return "" if self.damaged == "nothing" else "memdb recover FILE NEW"


class SpaceInfo(Record):
    """
    An embedding space of the file.

    Attributes:
        model: Name of the embedder.
        dim: Components of a vector.
        vectors: Number of its vectors.
        state: "filling": not everything is embedded yet; "ready"; "retired": another space replaced
            it, and it gets no new vectors; "given": callers pass its vectors with items.
        due: Number of texts that wait to be embedded.
    """

    model: str
    dim: int
    vectors: int
    state: str
    due: int
