"""
Columns that a row derives from its content: second index text, hashes and named days.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from memdb.facts.calendar import write_spans
from memdb.facts.dates import days_about
from memdb.text.terms import cjk_grams

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


HASH_BYTES = 16


def content_hash(row: Mapping[str, Any], names: Iterable[str]) -> bytes:
    """
    Return 16 bytes that change if a field of *row* changes, appears or becomes None.

    BLAKE2b over the fields that are not None, in the order of *names*. Each is its name, the
    character 1, its value and NUL, which no stored text contains. So a field that a later format
    adds changes no hash of a row that lacks it. Cost: 2 us.

    >>> content_hash({"text": "tea", "lang": None}, ["text", "lang"]) == content_hash(
    ...     {"text": "tea"}, ["text"]
    ... )
    True
    """
    said = ""
    for name in names:
        if (value := row[name]) is not None:
            said += f"{name}\1{value}\0"
    return blake2b(said.encode(), digest_size=HASH_BYTES).digest()


def said_hash(text: str) -> bytes:
    """
    Return 16 bytes that are equal for two texts with the same words.

    Case, spaces, compatibility forms of letters, and marks that end or quote a sentence do not
    matter.

    >>> said_hash("Ann likes  tea.") == said_hash(' "ann likes tea" ')
    True
    """
    if not text.isascii():
        text = normalize("NFKC", text).translate(_QUOTES)
    words = " ".join(text.casefold().split())
    return content_hash({"said": words.strip(_AROUND) or words}, ["said"])


_AROUND = " .!;,\"'\u3002\uff01\uff1b\uff0c"
_QUOTES = dict.fromkeys(map(ord, "\u2018\u2019"), "'") | dict.fromkeys(
    map(ord, "\u201c\u201d"), '"'
)


def bigrams_of(text: str) -> str | None:
    """Return `cjk_grams` of *text* for the second index column, None if it is empty."""
    if text.isascii():
        return None
    return cjk_grams(text) or None


# A text without one of these words, a year or "May" names no time. Words in a set are 1 us for a
# chat message, a pattern of them is ten.
_CUES = frozenset(
    b"yesterday tomorrow week weeks weekend weekends month months year years days "
    b"monday tuesday wednesday thursday friday saturday sunday january february march april june "
    b"july august september october november december jan feb mar apr jun jul aug sep sept oct nov "
    b"dec spring summer autumn winter fall christmas xmas halloween valentine thanksgiving "
    b"easter".split()
) | {b"%d" % year for year in range(1900, 2100)}
# Letters in lower case and digits; all else parts words.
_WORD_BYTES = bytes(byte if chr(byte).isalnum() else 32 for byte in bytes(range(128)).lower())
_WORD_BYTES += b" " * 128
_READ_CHARS = 10_000


def date_spans(text: str, created_ms: int) -> str | None:
    """
    Return the days named in *text* besides its own, None if it names none.

    The days are spans of ISO dates, as in "2022-04-01/2022-04-30 2022-05-03"; `read_spans` of
    `memdb.facts.calendar` reads them. The first 10,000 characters count.

    Cost: 1 µs for a chat message that names no time, else about 50 µs.

    >>> date_spans("We came back yesterday, and go to Oslo next month.", 0)
    '1969-12-31 1970-02-01/1970-02-28'
    """
    if len(text) > _READ_CHARS:
        text = text[:_READ_CHARS]
    words = text.encode("utf-8", "replace").translate(_WORD_BYTES).split()
    if _CUES.isdisjoint(words) and "May" not in text and "in may" not in text:
        return None
    return write_spans(days_about(text, created_ms))
