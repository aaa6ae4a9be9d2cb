"""
Fields: how memdb treats each field of each record, in one table.

Screening, the secret scan and the lines of an export are made from this table.
tests/models/test_fields.py compares it with the columns of schema.sql, the models, hashes, copies,
codecs, full text and views. The test also compares it with the columns that a proof of forgetting
reads. So a new field is screened and scanned as soon as it is listed here, and a test fails if it
is missing elsewhere.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from memdb.models.types import Kind

# Who gives it: a field without this is made by memdb.
GIVEN = "given"
# How its secrets are screened, and that `find_secrets` and a proof of forgetting read it.
TEXT = "text"  # words of a caller, also in JSON: a secret is refused or redacted
NAME = "name"  # names something: a secret is refused, because a redacted name names another thing
REF = "ref"  # names another record: screened as a name, scanned and proved with that record
# Many rows have the same, or a tombstone keeps it: a proof of forgetting does not look for it.
SHARED = "shared"
# What else holds for it.
HASHED = "hashed"  # the content hash covers it
ERASED = "erased"  # erasing a message empties it
EXPORTED = "exported"  # a line of an export has it
SEARCHED = "searched"  # it is in the full text
VIEWED = "viewed"  # the view for people has it
HIDDEN = "hidden"  # no model has it: memdb's own, or the place of the record

TRAITS = (GIVEN, TEXT, NAME, REF, SHARED, HASHED, ERASED, EXPORTED, SEARCHED, VIEWED, HIDDEN)

MAX_NAME_CHARS = 1024
MAX_TEXT_BYTES = 64 << 20
# An entry is one fact. flowcraft's users stored up to 70,000 characters; more
# is a document, which belongs into an artifact.
MAX_FACT_CHARS = 500_000

# What is searched if a caller names no kinds: summaries say what messages say.
DEFAULT_KINDS: tuple[Kind, ...] = ("message", "entry", "artifact", "item", "session")

SHARED_PREFIX = "user:"  # before the name of an artifact of all sessions


class Field:
    """
    One field of a record.

    Attributes:
        name: Its name in the model, in JSON and in lines of an export.
        traits: Some of `TRAITS`.
        column: The column where it is stored. None means that it is derived, or stored elsewhere.
        max_chars: The largest number of characters of its text. Longer texts are refused
            unscreened.
    """

    __slots__ = ("column", "max_chars", "name", "traits")

    def __init__(
        self, name: str, *traits: str, column: str | None = "", max_chars: int | None = None
    ) -> None:
        """Describe the field *name*; its column has the same name if *column* is ""."""
        self.name = name
        self.traits = frozenset(traits)
        self.column = name if column == "" else column
        usual = MAX_TEXT_BYTES if TEXT in traits else MAX_NAME_CHARS
        self.max_chars = max_chars or usual

    def is_one_of(self, *traits: str) -> bool:
        """Return whether the field has one of *traits*."""
        return not self.traits.isdisjoint(traits)

    def without(self, *traits: str) -> Field:
        """Return the field for another table, without any of *traits*."""
        kept = self.traits.difference(traits)
        return Field(self.name, *kept, column=self.column, max_chars=self.max_chars)


# Each in the order of its lines in an export, then the rest.
MESSAGE = (
    Field("session", GIVEN, REF, EXPORTED, VIEWED, column="id"),
    Field("branch", EXPORTED, VIEWED, HIDDEN, column="id"),
    Field("seq", EXPORTED, VIEWED, column="id"),
    Field("external_id", GIVEN, NAME, HASHED, EXPORTED, VIEWED),
    Field("role", GIVEN, HASHED, EXPORTED, VIEWED),
    Field("author", GIVEN, NAME, SHARED, HASHED, ERASED, EXPORTED, SEARCHED, VIEWED),
    Field("text", GIVEN, TEXT, HASHED, ERASED, EXPORTED, SEARCHED, VIEWED),
    Field("parts", GIVEN, TEXT, HASHED, ERASED, EXPORTED),
    Field("tokens", EXPORTED, VIEWED),
    Field("counter", GIVEN, NAME, SHARED, EXPORTED),
    Field("created_ms", GIVEN, HASHED, EXPORTED, VIEWED),
    Field("metadata", GIVEN, TEXT, HASHED, ERASED, EXPORTED, VIEWED),
    Field("uid", GIVEN, NAME, SHARED, HASHED, EXPORTED, VIEWED),
    Field("writer", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("row_id", column="id"),
    Field("content_hash", HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN),
    Field("spans", HIDDEN),
)

SESSION = (
    Field("name", GIVEN, NAME, EXPORTED, VIEWED),
    Field("title", GIVEN, TEXT, EXPORTED, SEARCHED, VIEWED),
    Field("last_seq", EXPORTED),
    Field("extracted_seq", EXPORTED, HIDDEN, column=None),
    Field("metadata", GIVEN, TEXT, EXPORTED, VIEWED),
    Field("created_ms", GIVEN, EXPORTED, VIEWED),
    Field("updated_ms", GIVEN, EXPORTED, VIEWED),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("opening", column=None),
    Field("message_count", VIEWED),
    Field("tokens"),
    Field("archived_count"),
    Field("id", HIDDEN),
    Field("scope_no", HIDDEN),
    Field("branch", GIVEN, NAME, VIEWED, HIDDEN),
    Field("parent_id", HIDDEN),
    Field("leaves_at", VIEWED, HIDDEN),
    Field("shares", HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN),
)

# A branch is a row of `sessions`; its name is the column `branch`.
BRANCH = (
    Field("session", GIVEN, REF, EXPORTED, HIDDEN, column="name"),
    Field("name", GIVEN, NAME, EXPORTED, column="branch"),
    Field("parent", GIVEN, REF, EXPORTED, column="parent_id"),
    Field("after_seq", EXPORTED, HIDDEN, column="leaves_at"),
    Field("shares", EXPORTED, HIDDEN),
    Field("last_seq", EXPORTED),
    Field("extracted_seq", EXPORTED, HIDDEN, column=None),
    Field("metadata", GIVEN, TEXT, EXPORTED),
    Field("created_ms", GIVEN, EXPORTED),
    Field("updated_ms", GIVEN, EXPORTED),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED),
    Field("leaves_at"),
    Field("message_count"),
)

SUMMARY = (
    Field("session", GIVEN, REF, EXPORTED, VIEWED, column="session_id"),
    Field("branch", EXPORTED, VIEWED, column="session_id"),
    Field("depth", HASHED, EXPORTED, VIEWED),
    Field("first_seq", HASHED, EXPORTED, VIEWED),
    Field("last_seq", HASHED, EXPORTED, VIEWED),
    Field("text", GIVEN, TEXT, HASHED, EXPORTED, SEARCHED, VIEWED),
    Field("hint", GIVEN, TEXT, HASHED, EXPORTED, VIEWED),
    Field("quality", HASHED, EXPORTED, VIEWED),
    Field("summarizer", GIVEN, NAME, SHARED, HASHED, EXPORTED, VIEWED),
    Field("trust", EXPORTED, VIEWED),
    Field("tokens", EXPORTED, VIEWED),
    Field("counter", GIVEN, NAME, SHARED, EXPORTED),
    Field("created_ms", EXPORTED, VIEWED),
    Field("source_hash", EXPORTED, HIDDEN, column=None),
    Field("uid", HASHED, VIEWED),
    Field("condensed_into", VIEWED),
    Field("id"),
    Field("content_hash", HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN),
)

ENTRY = (
    Field("category", GIVEN, NAME, SHARED, HASHED, EXPORTED, VIEWED),
    Field("key", GIVEN, NAME, HASHED, EXPORTED, VIEWED),
    Field("text", GIVEN, TEXT, HASHED, EXPORTED, SEARCHED, VIEWED, max_chars=MAX_FACT_CHARS),
    Field("keywords", GIVEN, TEXT, HASHED, EXPORTED, SEARCHED, VIEWED),
    Field("importance", GIVEN, HASHED, EXPORTED, VIEWED),
    Field("pinned", GIVEN, EXPORTED, VIEWED),
    Field("trust", GIVEN, EXPORTED, VIEWED),
    Field("version", EXPORTED, VIEWED),
    Field("active", GIVEN, EXPORTED),
    Field("superseded_by", EXPORTED, VIEWED),
    Field("session", GIVEN, REF, EXPORTED, VIEWED, column="session_id"),
    Field("branch", EXPORTED, column="session_id"),
    Field("first_seq", GIVEN, EXPORTED, VIEWED),
    Field("last_seq", GIVEN, EXPORTED, VIEWED),
    Field("session_only", GIVEN, EXPORTED),
    Field("writer", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("use_count", EXPORTED),
    Field("last_used_ms", EXPORTED),
    Field("valid_from_ms", GIVEN, EXPORTED, VIEWED),
    Field("valid_to_ms", EXPORTED, VIEWED),
    Field("expires_ms", GIVEN, EXPORTED, VIEWED),
    Field("metadata", GIVEN, TEXT, HASHED, EXPORTED, VIEWED),
    Field("created_ms", GIVEN, HASHED, EXPORTED, VIEWED),
    Field("updated_ms", GIVEN, EXPORTED, VIEWED),
    Field("stored_ms", EXPORTED),
    Field("uid", GIVEN, NAME, SHARED, HASHED, EXPORTED, VIEWED),
    Field("history", EXPORTED, HIDDEN, column=None),
    Field("rejected", EXPORTED, HIDDEN, column=None),
    Field("outdated_by", column=None),
    Field("id"),
    Field("scope_no", HIDDEN),
    Field("content_hash", HIDDEN),
    Field("said_hash", HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN),
    Field("spans", HIDDEN),
)

# What an entry was before: the same fields, some of memdb's own left out.
_NOT_IN_HISTORY = frozenset(
    "superseded_by use_count last_used_ms created_ms uid history rejected outdated_by id "
    "scope_no content_hash said_hash bigrams spans".split()
)
VERSION = (
    *(one.without(HASHED, SEARCHED, VIEWED) for one in ENTRY if one.name not in _NOT_IN_HISTORY),
    Field("reason", EXPORTED),
    Field("replaced_ms", EXPORTED),
    Field("entry_id", HIDDEN),
)

# A link that somebody rejected; in an export it stands in the line of the newer entry.
LINK = (
    Field("older", EXPORTED, column="older_id"),
    Field("link", EXPORTED, column="kind"),
    Field("probability", EXPORTED),
    Field("reason", EXPORTED),
    Field("model", EXPORTED),
    Field("made_ms", EXPORTED),
    Field("rejected_ms", EXPORTED),
    Field("newer_id"),
)

ITEM = (
    Field("namespace", GIVEN, NAME, EXPORTED, VIEWED, column="namespace_id"),
    Field("key", GIVEN, NAME, EXPORTED, VIEWED),
    Field("version", EXPORTED, VIEWED),
    Field("metadata", GIVEN, TEXT, EXPORTED, VIEWED),
    Field("created_ms", EXPORTED, VIEWED),
    Field("updated_ms", EXPORTED, VIEWED),
    Field("ttl_ms", GIVEN, EXPORTED),
    Field("expires_ms", EXPORTED, VIEWED),
    Field("index", GIVEN, NAME, EXPORTED, HIDDEN, column="search_fields"),
    Field("vectors", GIVEN, EXPORTED, HIDDEN, column=None),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("writer", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("value", GIVEN, TEXT, EXPORTED, VIEWED),
    Field("data", GIVEN, TEXT, EXPORTED, VIEWED, HIDDEN),
    Field("id"),
    Field("text", SEARCHED, HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN),
    Field("vector_ref", HIDDEN),
    Field("vector_count", HIDDEN),
    Field("embedded", HIDDEN),
)

ARTIFACT = (
    Field("session", GIVEN, REF, EXPORTED, VIEWED, column="session_no"),
    Field(
        *("name", GIVEN, NAME, EXPORTED, SEARCHED, VIEWED),
        max_chars=MAX_NAME_CHARS + len(SHARED_PREFIX),
    ),
    Field("version", EXPORTED, VIEWED, column="rev_version"),
    Field("mime", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("metadata", GIVEN, TEXT, EXPORTED, VIEWED),
    Field("message", GIVEN, REF, EXPORTED, HIDDEN, column="message_id"),
    Field("created_ms", GIVEN, EXPORTED, VIEWED),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("writer", GIVEN, NAME, SHARED, EXPORTED, VIEWED),
    Field("data", GIVEN, TEXT, EXPORTED, HIDDEN, column="blob_no"),
    Field("text", GIVEN, TEXT, EXPORTED, SEARCHED, VIEWED, HIDDEN, column=None),
    Field("parts", EXPORTED, HIDDEN, column=None),
    Field("size_bytes", VIEWED),
    Field("message_session", VIEWED, column="message_id"),
    Field("message_branch", column="message_id"),
    Field("message_seq", VIEWED, column="message_id"),
    Field("sha256", VIEWED, column=None),
    Field("moved_ms", HIDDEN),
    Field("first_version", HIDDEN),
    Field("bigrams", SEARCHED, HIDDEN, column=None),
    Field("scope_no", HIDDEN),
)

STATE = (
    Field("user", GIVEN, REF, EXPORTED, column="user_name"),
    Field("session", GIVEN, NAME, EXPORTED),
    Field("key", GIVEN, NAME, EXPORTED, max_chars=MAX_TEXT_BYTES),
    Field("version", EXPORTED),
    Field("updated_ms", EXPORTED),
    Field("value", GIVEN, TEXT, EXPORTED),
    Field("app", GIVEN, REF),
)

SCOPE = (
    Field("app", GIVEN, NAME, EXPORTED),
    Field("user", GIVEN, NAME, EXPORTED, column="user_name"),
    Field("created_ms", GIVEN, EXPORTED),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED),
    Field("scope_no", HIDDEN),
    Field("last_session_no", HIDDEN),
    Field("last_n", HIDDEN),
)

TOMBSTONE = (
    Field("of", GIVEN, EXPORTED, column="kind"),
    Field("ref", GIVEN, NAME, EXPORTED, max_chars=MAX_TEXT_BYTES),
    Field("deleted_ms", GIVEN, EXPORTED),
    Field("uid", GIVEN, NAME, SHARED, EXPORTED),
    Field("forgotten", GIVEN, EXPORTED),
    Field("scope_no", HIDDEN),
)

FIELDS: dict[str, tuple[Field, ...]] = {
    "message": MESSAGE,
    "session": SESSION,
    "branch": BRANCH,
    "summary": SUMMARY,
    "entry": ENTRY,
    "history": VERSION,
    "link": LINK,
    "item": ITEM,
    "artifact": ARTIFACT,
    "state": STATE,
    "scope": SCOPE,
    "tombstone": TOMBSTONE,
}


def names_with(fields: Iterable[Field], *traits: str) -> tuple[str, ...]:
    """Return the names of the fields that have one of *traits*, in order."""
    return tuple(one.name for one in fields if one.is_one_of(*traits))


# By kind and name: what is screened before it is stored.
SCREENED: dict[str, dict[str, Field]] = {
    kind: {one.name: one for one in fields if one.is_one_of(TEXT, NAME, REF)}
    for kind, fields in FIELDS.items()
}

# By kind: the fields of its model that a proof of forgetting looks for.
PROVED: dict[str, tuple[str, ...]] = {
    kind: tuple(
        one.name
        for one in fields
        if one.is_one_of(TEXT, NAME) and not one.is_one_of(SHARED, HIDDEN)
    )
    for kind, fields in FIELDS.items()
}
