"""
Forgetting what was learned and made: entries with their history, artifacts, state.

Finds by words what is to go, and removes it with its index rows, vectors and
jobs. Every function joins the caller's transaction.
"""

from __future__ import annotations

from memdb.errors import InvalidInput
from memdb.models.ids import SCOPE_SHIFT, scope_range, session_range
from memdb.models.record import Record
from memdb.tables import artifacts, blobs, entries, removal
from memdb.tables import history as histories
from memdb.tables.artifacts import Place
from memdb.text.terms import content_words, query_words, word_terms
from memdb.text.validate import json_value, text_value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from memdb.engine.base import Row, Tx
    from memdb.text.terms import Term

# Most words of a query: more would be a text, not what it is about.
MAX_WORDS = 64


class Matches(Record):
    """
    What the words of a query name in a scope.

    Attributes:
        messages: Ids, by rising id.
        entries: Ids of entries that say it now.
        versions: (entry, version, text, keywords, metadata) of others that said it before.
        artifacts: Ids of names whose newest version says it.
    """

    messages: tuple[int, ...]
    entries: tuple[int, ...]
    versions: tuple[Row, ...]
    artifacts: tuple[int, ...]


def words_of(query: str) -> list[str]:
    """
    Return the words that *query* asks for, those without a meaning left out.

    Raises:
        InvalidInput: it has no word, or more than 64.
    """
    found = query_words(text_value(query, "query"))
    words = content_words(found) or found
    if not words:
        raise InvalidInput("query has no word: say what to forget")
    if len(words) > MAX_WORDS:
        raise InvalidInput(f"query has {len(words)} words: give {MAX_WORDS} at most")
    return words


def matching(tx: Tx, scope_no: int, words: list[str]) -> Matches:
    """
    Return what holds all *words*, by the stems of the index; old versions by their letters.

    The author of a message does not count, the name of an artifact does.
    """
    span = scope_range(scope_no)
    terms = word_terms(words)
    in_text = [term.replace(fields=("text",)) for term in terms]
    found = _holding_all(tx, "message", in_text, span)
    known = _holding_all(tx, "entry", terms, span)
    versions = [
        row for row in removal.history(tx, *span) if row[0] not in known and _holds(row[2:], words)
    ]
    named = _holding_all(tx, "artifact", terms, span)
    return Matches(
        tuple(sorted(found)), tuple(sorted(known)), tuple(versions), tuple(sorted(named))
    )


def _holding_all(tx: Tx, kind: str, terms: list[Term], span: tuple[int, int]) -> set[int]:
    found = [set(ids) for ids in tx.words.postings(kind, terms, *span).values()]
    return set.intersection(*found)


def _holds(texts: Row, words: list[str]) -> bool:
    whole = "\n".join(text for text in texts if text).casefold()
    return all(word.casefold() in whole for word in words)


def entry_values(tx: Tx, entry_id: int) -> Iterator[str | None]:
    """Yield what an entry says and said before."""
    found = entries.find(tx, entry_id)
    if found is None:
        return
    yield from (found.text, *found.keywords, found.key, json_value(found.metadata, "metadata"))
    for old in histories.list_all(tx, entry_id):
        yield from (old.text, *old.keywords, old.key, json_value(old.metadata, "metadata"))


def version_values(rows: tuple[Row, ...]) -> Iterator[str | None]:
    """Yield what old versions of entries say."""
    for _, _, text, keywords, metadata in rows:
        yield from (text, *keywords.split("\n"), metadata)


def places_of(tx: Tx, ids: tuple[int, ...]) -> list[Place]:
    """Return where the artifact names with these ids stand."""
    found = artifacts.get_many(tx, list(ids))
    return [Place(one.id >> SCOPE_SHIFT, one.session_no, one.name) for one in found.values()]


def places_made_by(tx: Tx, scope_no: int, message_ids: list[int]) -> list[Place]:
    """Return the artifact names that the messages *message_ids* saved a version of."""
    made = removal.made_by(tx, scope_no, message_ids)
    return [Place(scope_no, number, name) for number, name in made]


def places_made_in(tx: Tx, session: int) -> list[Place]:
    """Return the artifact names that messages of a session saved a version of."""
    scope_no = session >> SCOPE_SHIFT
    made = removal.made_in(tx, scope_no, *session_range(session))
    return [Place(scope_no, number, name) for number, name in made]


def artifact_values(tx: Tx, place: Place) -> Iterator[str | bytes | None]:
    """Yield the name of an artifact, and the bytes and metadata of each version."""
    yield place.name
    for stored in artifacts.versions(tx, place):
        yield json_value(stored.info.metadata, "metadata")
        yield from blobs.forms(tx, stored.blob_no)
