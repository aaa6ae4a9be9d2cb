"""
What may be asked: the kinds, and the text of a query.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.text.validate import text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

KINDS = ("message", "entry", "artifact")
MAX_QUERY_CHARS = 1_000_000


def kinds_value(kinds: Any) -> tuple[str, ...]:
    """Return *kinds* in their order; InvalidInput for what is none."""
    if not isinstance(kinds, (list, tuple, set, frozenset)):
        raise InvalidInput(f"kinds is {kinds!r}: give a list of {', '.join(KINDS)}")
    for kind in kinds:
        if kind not in KINDS:
            raise InvalidInput(f"kinds holds {kind!r}: use {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in kinds)


def query_text(text: str) -> str:
    """
    Return *text* as a query: what cannot be stored cannot be found, so it is left out.

    Raises:
        InvalidInput: it is no str, or longer than 1,000,000 characters.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"query is {type(text).__name__}: give a str")
    if len(text) > MAX_QUERY_CHARS:
        raise InvalidInput(f"query has {len(text):,} characters: ask in fewer than a million")
    clean = text.replace("\0", " ")
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode()
    return text_value(clean, "query")
