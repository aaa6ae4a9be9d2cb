"""
What of each kind is searched for a question, and which of it holds which word.
"""

from __future__ import annotations

from memdb.models.ids import session_range
from memdb.search.results import Field, Question, json_ids
from memdb.tables import active_entries, artifacts, messages, sessions, words
from memdb.text.terms import word_terms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from memdb.engine.sqlite.transaction import Tx

# In a scope of more messages than this, only the newest of a common word's rows
# are looked at: such a word says little, and 20,000 rows take 8 ms.
LARGE_SCOPE = 100_000
MAX_POSTINGS = 20_000


def field_of(tx: Tx, asked: Question, kind: str, now_ms: int) -> Field:
    """Return what is searched of a kind, and which of it holds which word."""
    span, session = asked.span, None
    if asked.session is not None:
        session = sessions.find(tx, asked.scope_no, asked.session)
        if session is None:
            return Field((0, 0), set(), 0, {})  # deleted between two reads
    if kind == "artifact":
        return _artifact_field(tx, asked)
    if kind == "entry":
        return _entry_field(tx, asked, session, now_ms)
    total = sessions.total(tx, asked.scope_no)
    if session is not None:
        span, total = session_range(session), sessions.last_seq(tx, session)
    allowed, cut = None, MAX_POSTINGS if total > LARGE_SCOPE else None
    if asked.timed:
        allowed, cut = messages.ids_between(tx, *span, asked.since_ms, asked.until_ms), None
        total = len(allowed)
    return _looked_up(tx, asked, kind, span, allowed, total, cut)


def _entry_field(tx: Tx, asked: Question, session: int | None, now_ms: int) -> Field:
    live = active_entries.live_ids(
        tx,
        *asked.span,
        now_ms=now_ms,
        since_ms=asked.since_ms,
        until_ms=asked.until_ms,
        session=session,
        visible=asked.visible,
        before=asked.before,
    )
    # Where all of them are live nothing has to be left out, which is faster.
    whole = len(live) == active_entries.count(tx, *asked.span) > 0
    return _looked_up(tx, asked, "entry", asked.span, None if whole else live, len(live))


def _looked_up(
    tx: Tx,
    asked: Question,
    kind: str,
    span: tuple[int, int],
    allowed: set[int] | None,
    total: int,
    newest: int | None = None,
) -> Field:
    """Return the field with the postings of the query's words in it."""
    if not total:
        return Field(span, set(), 0, {})

    def keep(found: dict[str, list[int]]) -> dict[str, list[int]]:
        return found if allowed is None else _only(found, allowed)

    dropped = _dropped(tx, asked, kind, span)
    found = words.first_postings(tx, kind, asked.terms, span, keep, newest)
    return Field(span, allowed, total, found, dropped)


def _dropped(tx: Tx, asked: Question, kind: str, span: tuple[int, int]) -> frozenset[int]:
    """Return the rows that hold a word which the query excludes."""
    terms = word_terms(asked.query.excluded, words.TERMS_AT_ONCE)
    if not terms:
        return frozenset()
    found = words.first_postings(tx, kind, terms, span, lambda all_of_them: all_of_them, None)
    return frozenset(one for ids in found.values() for one in ids)


def _artifact_field(tx: Tx, asked: Question) -> Field:
    if asked.timed:
        return Field(asked.span, set(), 0, {})  # a version has a time, its text as a whole none
    names: set[int] = set()

    def keep(found: dict[str, list[int]]) -> dict[str, list[int]]:
        known = artifacts.get_many(tx, json_ids({one for ids in found.values() for one in ids}))
        names.update(key for key, name in known.items() if asked.session in {None, name.session})
        return _only(found, names)

    dropped = _dropped(tx, asked, "artifact", asked.span)
    found = words.first_postings(tx, "artifact", asked.terms, asked.span, keep)
    return Field(asked.span, names, max(len(names), 1), found, dropped)


def _only(postings: dict[str, list[int]], allowed: Any) -> dict[str, list[int]]:
    return {term: [one for one in ids if one in allowed] for term, ids in postings.items()}
