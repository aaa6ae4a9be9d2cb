"""
Validate stage of `remember`: a host's fact becomes a checked statement.

Secrets are refused or redacted as the file's settings say. A text that reads like an instruction to
a model is stored unchanged and marked "flagged".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.entries.categories import ALIASES
from memdb.errors import InvalidInput, TooLarge
from memdb.facts import pairs
from memdb.facts.keeping import category_of
from memdb.models.entries import NEUTRAL_IMPORTANCE
from memdb.models.fields import MAX_FACT_CHARS, SCREENED
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.models.settings import REFUSE
from memdb.text.times import when_ms
from memdb.text.trust import FLAGGED, TRUST, trust_of_text
from memdb.text.validate import (
    choice_value,
    content_value,
    int_value,
    json_object,
    name_value,
    optional_name,
    time_value,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memdb.models.entries import EntryChanges, NewEntry
    from memdb.text.screening import SecretScreen

# Characters of a text by which its category is chosen.
MAX_READ = 1_000
NEVER = "never"

# Fields of NewEntry that a known entry takes over only if they were given, with their columns.
OPTIONAL = {
    "category": "category",
    "keywords": "keywords",
    "importance": "importance",
    "pinned": "pinned",
    "trust": "trust",
    "writer": "writer",
    "valid_from": "valid_from_ms",
    "expires": "expires_ms",
    "metadata": "metadata",
}


class Statement(Record):
    """
    A checked fact: the columns of the entry that it may become.

    Attributes:
        keywords: One per line, in the stored form.
        session: Name of its session; None means no session.
        given: Columns that the host set; the others contain defaults.
        session_id: Row id of *session*, which is known inside the transaction.
        active: 0 for a fact of the past, a superseded one, or one that takes back another.
    """

    text: str
    category: str
    key: str | None
    keywords: str
    importance: int
    pinned: int
    trust: str
    session: str | None
    first_seq: int | None
    last_seq: int | None
    session_only: int
    writer: str | None
    valid_from_ms: int | None
    expires_ms: int | None
    metadata: str | None
    created_ms: int | None
    uid: str | None
    given: frozenset[str]
    session_id: int | None = None
    valid_to_ms: int | None = None
    active: int = 1
    superseded_by: int | None = None
    updated_ms: int | None = None

    @property
    def private_to(self) -> int | None:
        """The only session that will recall it, once *session_id* is known; 0 if all will."""
        return self.session_id if self.session_only else 0

    def said(self, now_ms: int) -> pairs.Statement:
        """Return it in the form for the link model."""
        said_ms = self.updated_ms or (now_ms if self.created_ms is None else self.created_ms)
        return pairs.Statement(self.text, said_ms, self.trust == TRUST[0])

    def columns(self) -> dict[str, Any]:
        """Return the columns of a new entry, by name."""
        return {
            name: getattr(self, name) for name in self._fields if name not in ("session", "given")
        }


def validate(new: NewEntry, now_ms: int) -> Statement:
    """
    Return a fact with its fields checked and its defaults added.

    Args:
        new: Screened already, see `screen_entry`.
        now_ms: Time from which a span in *expires* counts.

    Raises:
        InvalidInput: a field cannot be stored.
        TooLarge: the text has more than `MAX_FACT_CHARS` characters.
    """
    if new.session is not None:
        name_value(new.session, "session")
    elif new.seq is not None:
        raise InvalidInput("seq is given without session: give the session too")
    elif new.session_only:
        raise InvalidInput("session_only is given without session: give the session too")
    first_seq, last_seq = _span(new.seq)
    content = content_columns(
        new.text,
        category_of(fact_value(new.text)[:MAX_READ]) if new.category is None else new.category,
        new.keywords,
        NEUTRAL_IMPORTANCE if new.importance is None else new.importance,
    )
    expires = None if new.expires == NEVER else new.expires
    return Statement(
        **content,
        key=optional_name(new.key, "key"),
        pinned=_flag(new.pinned, "pinned"),
        trust=choice_value(new.trust or TRUST[0], "trust", TRUST),
        session=new.session,
        first_seq=first_seq,
        last_seq=last_seq,
        session_only=_flag(new.session_only, "session_only"),
        writer=optional_name(new.writer, "writer"),
        valid_from_ms=when_ms(new.valid_from, "valid_from", now_ms),
        expires_ms=when_ms(expires, "expires", now_ms, ahead=True),
        metadata=json_object(new.metadata, "metadata"),
        created_ms=time_value(new.created_ms, "created_ms"),
        updated_ms=time_value(new.updated_ms, "updated_ms"),
        uid=optional_name(new.uid, "uid"),
        given=frozenset(
            column
            for field, column in OPTIONAL.items()
            if (value := getattr(new, field)) is not None and (field != "keywords" or value)
        ),
    )


def fact_value(text: object) -> str:
    """
    Return *text* if it can be the text of an entry.

    Raises:
        InvalidInput: *text* is not text that can be stored, or blank.
        TooLarge: *text* has more than `MAX_FACT_CHARS` characters.
    """
    value = content_value(text, "text")
    if not value.strip():
        raise InvalidInput("text is empty: give the text to remember")
    if len(value) > MAX_FACT_CHARS:
        raise TooLarge("the number of characters in text", MAX_FACT_CHARS, len(value))
    return value


def content_columns(
    text: str, category: str, keywords: Sequence[str], importance: int
) -> dict[str, Any]:
    """
    Return the columns that contain the content of an entry, checked.

    Raises:
        InvalidInput: a field cannot be stored.
        TooLarge: the text has more than `MAX_FACT_CHARS` characters.
    """
    if not isinstance(keywords, (list, tuple)) or not all(
        isinstance(word, str) for word in keywords
    ):
        raise InvalidInput("keywords is not a list of str: give ['one', 'two']")
    text = fact_value(text)
    words = [content_value(word, "keywords").replace("\n", " ").strip() for word in keywords]
    joined = "\n".join(word for word in words if word)
    category = name_value(category, "category")
    return {
        "text": text,
        "category": ALIASES.get(category, category),
        "keywords": joined,
        "importance": int_value(importance, "importance", 1, 10),
    }


def screen_entry(new: NewEntry, screen: SecretScreen) -> NewEntry:
    """
    Return a fact without secrets, flagged if it reads like an instruction to a model.

    A host that sets *trust* has checked that itself.

    Raises:
        SecretFound: a field contains a secret, and *screen* refuses it.
    """
    new = new.replace(**_screened_fields(new, screen))
    if new.trust is None and is_instruction(new):
        return new.replace(trust=FLAGGED)
    return new


def screen_changes(changes: EntryChanges, screen: SecretScreen) -> EntryChanges:
    """
    Return the changes of an entry without secrets.

    Raises:
        SecretFound: a field contains a secret, and *screen* refuses it.
    """
    return changes.replace(**_screened_fields(changes, screen))


def screen_merged(text: str | None, screen: SecretScreen) -> str | None:
    """Return a text that an arbiter wrote; None if it contains a secret."""
    try:
        return screen.pass_fields("entry", {"text": text}, REFUSE)["text"] if text else None
    except InvalidInput:
        return None


def is_instruction(fields: NewEntry | EntryChanges) -> bool:
    """Return whether text or keywords read like an instruction to a model."""
    keywords = fields.keywords if isinstance(fields.keywords, (list, tuple)) else ()
    texts = [text for text in (fields.text, *keywords) if isinstance(text, str)]
    return any(trust_of_text(text) == FLAGGED for text in texts)


def _screened_fields(fields: NewEntry | EntryChanges, screen: SecretScreen) -> dict[str, Any]:
    """Return the given fields with text, after applying the settings."""
    given = {name: getattr(fields, name, None) for name in SCREENED["entry"]}
    return screen.pass_fields(
        "entry", {name: value for name, value in given.items() if value and value is not ...}
    )


def _flag(value: object, field: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {value!r}: give True or False")
    return int(value)


def _span(seq: object) -> tuple[int | None, int | None]:
    """Return the first and last seq from one seq or a pair."""
    if seq is None:
        return None, None
    if isinstance(seq, tuple):
        try:
            low, high = seq
        except ValueError as error:
            raise InvalidInput(
                f"seq is {seq!r}: give one number, or the first and the last"
            ) from error
        first = int_value(low, "seq", 1, MAX_SEQ)
        return first, int_value(high, "seq", first, MAX_SEQ)
    only = int_value(seq, "seq", 1, MAX_SEQ)
    return only, only
