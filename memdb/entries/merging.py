"""
What an entry becomes when something is said that it says already.

Pure: nothing is read or written here.
"""

from __future__ import annotations

from memdb.entries.validation import TRUST
from memdb.text.grams import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.entries.categories import Categories
    from memdb.entries.validation import Statement
    from memdb.models.messages import Entry


def merged(
    old: dict[str, Any], said: Statement, text: str | None, now_ms: int, categories: Categories
) -> dict[str, Any]:
    """
    Return the columns of *old* that a statement changes; {} if it adds nothing.

    What was not said stays. The category that lasts longer wins, so that no
    lasting fact becomes a passing note; the greater importance, and the later
    expiry, likewise, except that a statement with a key speaks for itself. An
    entry that had expired or was set aside holds again.

    Args:
        text: What it says from now on; None: the same as before.
    """
    row = said.row
    keyed = row["key"] is not None
    new: dict[str, Any] = {}
    for column in said.said & {"source", "metadata", "valid_from_ms"}:
        new[column] = row[column]
    if "category" in said.said:
        lasting = categories.lasting(old["category"], row["category"])
        new["category"] = row["category"] if keyed else lasting
    if "keywords" in said.said:
        words = [*old["keywords"].split("\n"), *row["keywords"].split("\n")]
        new["keywords"] = "\n".join(dict.fromkeys(word for word in words if word))
    if "importance" in said.said:
        keyed = row["key"] is not None
        new["importance"] = (
            row["importance"] if keyed else max(old["importance"], row["importance"])
        )
    if row["pinned"]:
        new["pinned"] = 1
    if keyed:
        new["key"] = row["key"]
    new["expires_ms"] = _expiry(old, said, now_ms, categories)
    if text is not None:
        new["text"] = text
    new["trust"] = row["trust"] if text is not None else _better(old["trust"], row["trust"])
    if row["session_id"] is not None and (text is not None or old["session_id"] is None):
        new |= {name: row[name] for name in ("session_id", "first_seq", "last_seq")}
    if not old["active"]:
        new |= {"active": 1, "valid_to_ms": None}
    changed = {column: value for column, value in new.items() if old[column] != value}
    return {**changed, "updated_ms": now_ms} if changed else {}


def inherited(old: Entry, said: Statement, now_ms: int, categories: Categories) -> dict[str, Any]:
    """
    Return the columns that a statement takes over from an entry whose place it takes.

    What was not said stays as it was: of a fact with a key all of it, else how
    much it matters.
    """
    row = said.row
    keyed = row["key"] is not None and row["key"] == old.key
    new: dict[str, Any] = {"pinned": int(old.pinned or row["pinned"])}
    if "category" not in said.said:
        new["category"] = old.category
    elif not keyed:
        new["category"] = categories.lasting(old.category, row["category"])
    if "importance" not in said.said:
        new["importance"] = old.importance
    if keyed and "keywords" not in said.said:
        new["keywords"] = "\n".join(old.keywords)
        new["bigrams"] = bigrams_of(f"{row['text']}\n{new['keywords']}")
    due = old.expires_ms is not None and old.expires_ms > now_ms
    if keyed and due and "expires_ms" not in said.said:
        new["expires_ms"] = old.expires_ms
    return new


def _expiry(
    old: dict[str, Any], said: Statement, now_ms: int, categories: Categories
) -> int | None:
    """Return until when a fact holds that was said again."""
    before: int | None = old["expires_ms"]
    if "expires_ms" in said.said:
        after: int | None = said.row["expires_ms"]
        if said.row["key"] is not None:
            return after
        return None if before is None or after is None else max(before, after)
    if before is None:
        return None
    ttl = categories.get(old["category"]).ttl_ms
    if ttl is not None:
        return max(before, now_ms + ttl)
    return before if before > now_ms else None


def _better(one: str, other: str) -> str:
    return min(one, other, key=TRUST.index)
