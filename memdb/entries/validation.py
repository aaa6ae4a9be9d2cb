"""
What `remember` is told, checked: the columns of an entry before it is stored.
"""

from __future__ import annotations

from memdb.entries.categories import ALIASES, DEFAULT
from memdb.errors import InvalidInput, TooLarge
from memdb.models.ids import MAX_SEQ
from memdb.models.record import Record
from memdb.text.grams import bigrams_of
from memdb.text.times import moment_or_span
from memdb.text.validate import (
    choice_value,
    int_value,
    json_object,
    moment_ms,
    name_value,
    optional_name,
    text_value,
    time_value,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

# An entry is one fact. 70,000 characters were stored by users of flowcraft;
# more is a document, and belongs into an artifact.
MAX_FACT_CHARS = 500_000

DEFAULT_IMPORTANCE = 5
TRUST = ("trusted", "untrusted", "flagged")
NEVER = "never"


class Statement(Record):
    """
    A checked statement.

    Attributes:
        row: Its columns; those that were not said hold what a new entry gets.
        said: The columns that were said.
        session: Name of the session it was told in, None: by nobody.
    """

    row: dict[str, Any]
    said: frozenset[str]
    session: str | None


def read_statement(text: str, now_ms: int, **given: Any) -> Statement:
    """
    Return *text* with its fields, as `Scope.remember` takes them, checked.

    Raises:
        InvalidInput: a field cannot be stored.
        TooLarge: the text has more than `MAX_FACT_CHARS` characters.
    """
    session, seq = given.get("session"), given.get("seq")
    if session is not None:
        name_value(session, "session")
    elif seq is not None:
        raise InvalidInput("seq is given without session: name the session too")
    elif given.get("session_only"):
        raise InvalidInput("session_only is given without session: name the session too")
    first_seq, last_seq = _span(seq)
    category = given.get("category")
    importance = given.get("importance")
    keywords = given.get("keywords", ())
    row = said_columns(
        text,
        DEFAULT if category is None else category,
        keywords,
        DEFAULT_IMPORTANCE if importance is None else importance,
    )
    expires = given.get("expires")
    row |= {
        "key": optional_name(given.get("key"), "key"),
        "pinned": _flag(given.get("pinned"), "pinned"),
        "trust": choice_value(given.get("trust") or TRUST[0], "trust", TRUST),
        "first_seq": first_seq,
        "last_seq": last_seq,
        "session_only": _flag(given.get("session_only"), "session_only"),
        "source": optional_name(given.get("source"), "source"),
        "valid_from_ms": moment_ms(given.get("valid_from"), "valid_from"),
        "expires_ms": None if expires == NEVER else moment_or_span(expires, "expires", now_ms),
        "metadata": json_object(given.get("metadata"), "metadata"),
        "created_ms": time_value(given.get("created_ms"), "created_ms"),
        "uid": optional_name(given.get("uid"), "uid"),
    }
    columns = {
        "category": category,
        "keywords": keywords or None,
        "importance": importance,
        "pinned": given.get("pinned"),
        "trust": given.get("trust"),
        "source": given.get("source"),
        "valid_from_ms": given.get("valid_from"),
        "expires_ms": expires,
        "metadata": given.get("metadata"),
    }
    said = frozenset(column for column, value in columns.items() if value is not None)
    return Statement(row, said, session)


def said_columns(
    text: str, category: str, keywords: Sequence[str], importance: int
) -> dict[str, Any]:
    """Return the columns that say something, checked."""
    if not isinstance(keywords, (list, tuple)) or not all(
        isinstance(word, str) for word in keywords
    ):
        raise InvalidInput("keywords is not a list of str: give ['one', 'two']")
    if not text_value(text, "text").strip():
        raise InvalidInput("text is empty: say what to remember")
    if len(text) > MAX_FACT_CHARS:
        raise TooLarge("the number of characters in text", MAX_FACT_CHARS, len(text))
    words = [text_value(word, "keywords").replace("\n", " ").strip() for word in keywords]
    joined = "\n".join(word for word in words if word)
    category = name_value(category, "category")
    return {
        "text": text,
        "category": ALIASES.get(category, category),
        "keywords": joined,
        "importance": int_value(importance, "importance", 1, 10),
        "bigrams": bigrams_of(f"{text}\n{joined}"),
    }


def _flag(value: object, field: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {value!r}: give True or False")
    return int(value)


def _span(seq: object) -> tuple[int | None, int | None]:
    """Return the first and last seq of one seq, or of a pair."""
    if seq is None:
        return None, None
    if isinstance(seq, tuple):
        try:
            low, high = seq
        except ValueError as error:
            raise InvalidInput(f"seq is {seq!r}: give one, or the first and the last") from error
        first = int_value(low, "seq", 1, MAX_SEQ)
        return first, int_value(high, "seq", first, MAX_SEQ)
    one = int_value(seq, "seq", 1, MAX_SEQ)
    return one, one
