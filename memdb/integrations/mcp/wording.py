"""
What a client is told about an error, in the words of the tools.

memdb's errors name the arguments of its Python calls, and what a program could
do; a client has the tools' arguments alone.
"""

from __future__ import annotations

import json

from memdb.errors import AlreadyExists, NotFound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from memdb.errors import MemDBError

MAX_SHOWN = 80

# What memdb says -> what a client can do something with.
WORDS = (
    ("summary_id is", "id is"),
    ("after_seq is", "after is"),
    ("prefix is", "uri is"),
    (", or add yours with db.categories.add()", ""),
    (", or open the file with secrets='redact'", ""),
)


def said(error: MemDBError, given: Mapping[str, Any]) -> str:
    """Return the sentence for a call, or a resource, that had the arguments *given*."""
    match error:
        case NotFound(kind="summary"):
            return (
                f"id is {given['id'][:MAX_SHOWN]!r}: session {given['session']!r} has no such "
                "summary; give one that its context names, or message numbers such as 11-20"
            )
        case AlreadyExists() if "external_id" in given:
            return (
                f"external_id is {given['external_id'][:MAX_SHOWN]!r}: another message of the "
                "conversation has it; give each its own"
            )
    sentence = str(error)
    for theirs, ours in WORDS:
        sentence = sentence.replace(theirs, ours)
    return sentence


def halved(value: object) -> bool:
    """Return whether a text in *value* holds a lone surrogate: no file and no answer can."""
    if isinstance(value, str) and value.isascii():
        return False  # soon known, also of a long one
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return True
    return False
