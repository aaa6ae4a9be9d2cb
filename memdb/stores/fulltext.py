"""
Full text: which rows hold a word. Owns the four `*_fts` tables.

An index row is written in the transaction of its base row, directly: triggers
are two to four times slower in bulk. A query asks for one term at a time inside
a range of ids, because FTS5's own rank walks each term's whole list, over all
scopes, and would let one scope's texts move another's ranking (ADR-0004).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from memdb.db.transaction import Tx

    Postings = dict[str, list[int]]

INSERT_MESSAGE = """/* fulltext.insert_message */
INSERT INTO messages_fts (rowid, text, author, bigrams) VALUES (:id, :text, :author, :bigrams)
"""

DELETE_MESSAGES = """/* fulltext.delete_messages */
INSERT INTO messages_fts (messages_fts, rowid, text, author, bigrams)
SELECT 'delete', id, text, author, bigrams FROM messages WHERE id BETWEEN :low AND :high
"""

INSERT_ENTRY = """/* fulltext.insert_entry */
INSERT INTO entries_fts (rowid, text, keywords, bigrams)
SELECT id, text, keywords, bigrams FROM entries WHERE id = :id
"""

DELETE_ENTRY = """/* fulltext.delete_entry */
INSERT INTO entries_fts (entries_fts, rowid, text, keywords, bigrams)
SELECT 'delete', id, text, keywords, bigrams FROM entries WHERE id = :id
"""

INSERT_ARTIFACT = """/* fulltext.insert_artifact */
INSERT INTO artifacts_fts (rowid, name, text, bigrams)
SELECT id, name, text, bigrams FROM artifact_names WHERE id = :id
"""

DELETE_ARTIFACT = """/* fulltext.delete_artifact */
INSERT INTO artifacts_fts (artifacts_fts, rowid, name, text, bigrams)
SELECT 'delete', id, name, text, bigrams FROM artifact_names WHERE id = :id
"""

SELECT_MESSAGES = """/* fulltext.messages */
SELECT rowid FROM messages_fts
WHERE messages_fts MATCH :term AND rowid BETWEEN :low AND :high
ORDER BY rowid
"""

SELECT_ENTRIES = """/* fulltext.entries */
SELECT rowid FROM entries_fts
WHERE entries_fts MATCH :term AND rowid BETWEEN :low AND :high
ORDER BY rowid
"""

SELECT_ARTIFACTS = """/* fulltext.artifacts */
SELECT rowid FROM artifacts_fts
WHERE artifacts_fts MATCH :term AND rowid BETWEEN :low AND :high
ORDER BY rowid
"""

# Reading a list backwards costs FTS5 twice the time: only where it saves most of it.
SELECT_NEWEST_MESSAGES = """/* fulltext.newest_messages */
SELECT rowid FROM messages_fts
WHERE messages_fts MATCH :term AND rowid BETWEEN :low AND :high
ORDER BY rowid DESC
LIMIT :limit
"""

SELECT_SNIPPET = """/* fulltext.snippet */
SELECT snippet(messages_fts, 0, :before, :after, '…', :words) FROM messages_fts
WHERE messages_fts MATCH :match AND rowid = :id
"""

SELECT_ARTIFACT_SNIPPET = """/* fulltext.artifact_snippet */
SELECT snippet(artifacts_fts, 1, :before, :after, '…', :words) FROM artifacts_fts
WHERE artifacts_fts MATCH :match AND rowid = :id
"""

_POSTINGS = {
    "message": SELECT_MESSAGES,
    "entry": SELECT_ENTRIES,
    "artifact": SELECT_ARTIFACTS,
}


# Terms that are looked up together: the words of a long paragraph. A common word costs 30 ms in a
# scope of 400,000 messages, 2,000 words 10 s.
TERMS_AT_ONCE = 64


def index_messages(tx: Tx, rows: Iterable[dict[str, Any]]) -> None:
    """Add new messages to the index. Cost: 8 µs per row in bulk, 60 µs for one alone."""
    tx.many(INSERT_MESSAGE, rows)


def drop_messages(tx: Tx, low: int, high: int) -> None:
    """Take messages out of the index, before their rows go."""
    tx.run(DELETE_MESSAGES, {"low": low, "high": high})


def index_entry(tx: Tx, entry_id: int) -> None:
    """Add an entry to the index as its row says."""
    tx.run(INSERT_ENTRY, {"id": entry_id})


def drop_entry(tx: Tx, entry_id: int) -> None:
    """Take an entry out of the index, before its row changes or goes."""
    tx.run(DELETE_ENTRY, {"id": entry_id})


def index_artifact(tx: Tx, name_id: int) -> None:
    """Add an artifact's newest text to the index as its row says."""
    tx.run(INSERT_ARTIFACT, {"id": name_id})


def drop_artifact(tx: Tx, name_id: int) -> None:
    """Take an artifact out of the index, before its row changes."""
    tx.run(DELETE_ARTIFACT, {"id": name_id})


def postings(
    tx: Tx, kind: str, terms: Sequence[str], low: int, high: int, newest: int | None = None
) -> dict[str, list[int]]:
    """
    Return, for each term, the ids in [low, high] whose text holds it.

    Args:
        kind: "message", "entry" or "artifact".
        terms: FTS5 query strings as `memdb.text.terms` makes them, never text
            of a user.
        newest: Only so many ids per term, the newest; None: all. Only for
            messages.

    Returns:
        Ids in no promised order. A list that was not cut is complete: its
        length is the term's document frequency in the range.

    Cost: 20 µs per term and 0.2 µs per id, whatever lies outside the range.
    """
    sql = _POSTINGS[kind] if newest is None else SELECT_NEWEST_MESSAGES
    found = {}
    for term in terms:
        values: dict[str, Any] = {"term": term, "low": low, "high": high}
        if newest is not None:
            values["limit"] = newest
        found[term] = [row[0] for row in tx.all(sql, values)]
    return found


def first_postings(
    tx: Tx,
    kind: str,
    terms: Sequence[str],
    span: tuple[int, int],
    keep: Callable[[Postings], Postings],
    newest: int | None = None,
) -> Postings:
    """
    Return the postings of the first 64 terms, of the next 64 too while there are none, and so on.

    Args:
        terms: As in `postings`; those that say most come first.
        span: First and last id to look at.
        keep: Leaves out of some postings the ids that do not count.
        newest: As in `postings`.
    """
    found: Postings = {}
    for start in range(0, len(terms), TERMS_AT_ONCE):
        some = terms[start : start + TERMS_AT_ONCE]
        found |= keep(postings(tx, kind, some, *span, newest=newest))
        if any(found.values()):
            break
    return found


def snippet(tx: Tx, kind: str, row_id: int, terms: Sequence[str], **marks: Any) -> str | None:
    """
    Return the place in a message's or artifact's text that matches best.

    Args:
        kind: "message" or "artifact".
        terms: FTS5 query strings; a row that holds none of them gives None.
        marks: `before` and `after` around each match, `words` at most (1 to 64).
    """
    sql = SELECT_SNIPPET if kind == "message" else SELECT_ARTIFACT_SNIPPET
    values = {"before": "", "after": "", "words": 24, **marks}
    row = tx.one(sql, {**values, "match": " OR ".join(terms), "id": row_id}) if terms else None
    return None if row is None else row[0]
