"""
Full text: which rows hold a word. Owns the `*_fts` tables but that of summaries.

An archived message leaves its author in `messages_fts`, beside the row that has
no text; its words stand in `archived_fts`, which is asked only for ranges that
hold a segment (ADR-0009).

An index row is written in the transaction of its base row, directly: triggers
are two to four times slower in bulk. A query asks for one term at a time inside
a range of ids, because FTS5's own rank walks each term's whole list, over all
scopes, and would let one scope's texts move another's ranking (ADR-0004).
"""

from __future__ import annotations

from memdb.models.ids import MASKS, MAX_INT
from memdb.text.grams import bigrams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from memdb.engine.sqlite.transaction import Tx

    Postings = dict[str, list[int]]

INSERT_MESSAGE = """/* words.insert_message */
INSERT INTO messages_fts (rowid, text, author, bigrams) VALUES (:id, :text, :author, :bigrams)
"""

DELETE_MESSAGES = """/* words.delete_messages */
INSERT INTO messages_fts (messages_fts, rowid, text, author, bigrams)
SELECT 'delete', id, text, author, bigrams FROM messages WHERE id BETWEEN :low AND :high
"""

# What the rows say: an archived one only its author.
INSERT_RANGE = """/* words.insert_range */
INSERT INTO messages_fts (rowid, text, author, bigrams)
SELECT id, text, author, bigrams FROM messages WHERE id BETWEEN :low AND :high
"""

INSERT_ARCHIVED = """/* words.insert_archived */
INSERT INTO archived_fts (rowid, text, bigrams) VALUES (:id, :text, :bigrams)
"""

DELETE_ARCHIVED = """/* words.delete_archived */
INSERT INTO archived_fts (archived_fts, rowid, text, bigrams)
VALUES ('delete', :id, :text, :bigrams)
"""

DELETE_ALL_ARCHIVED = """/* words.delete_all_archived */
INSERT INTO archived_fts (archived_fts) VALUES ('delete-all')
"""

INSERT_ENTRY = """/* words.insert_entry */
INSERT INTO entries_fts (rowid, text, keywords, bigrams)
SELECT id, text, keywords, bigrams FROM entries WHERE id = :id
"""

DELETE_ENTRY = """/* words.delete_entry */
INSERT INTO entries_fts (entries_fts, rowid, text, keywords, bigrams)
SELECT 'delete', id, text, keywords, bigrams FROM entries WHERE id = :id
"""

INSERT_ARTIFACT = """/* words.insert_artifact */
INSERT INTO artifacts_fts (rowid, name, text, bigrams)
SELECT id, name, text, bigrams FROM artifact_names WHERE id = :id
"""

DELETE_ARTIFACT = """/* words.delete_artifact */
INSERT INTO artifacts_fts (artifacts_fts, rowid, name, text, bigrams)
SELECT 'delete', id, name, text, bigrams FROM artifact_names WHERE id = :id
"""

# One statement for all terms: a term's ids come back as one JSON array, which costs half of
# what a row per id does.
SELECT_MESSAGES = """/* words.messages */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM messages_fts
  WHERE messages_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

SELECT_ENTRIES = """/* words.entries */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM entries_fts
  WHERE entries_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

SELECT_ARTIFACTS = """/* words.artifacts */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM artifacts_fts
  WHERE artifacts_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

SELECT_SUMMARIES = """/* words.summaries */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM summaries_fts
  WHERE summaries_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

# Reading a list backwards costs FTS5 twice the time: only where it saves most of it.
SELECT_NEWEST_MESSAGES = """/* words.newest_messages */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM messages_fts
    WHERE messages_fts MATCH terms.value AND rowid BETWEEN :low AND :high
    ORDER BY rowid DESC
    LIMIT :limit
  )
)
FROM json_each(:terms) AS terms
"""

SELECT_ANY_SEGMENT = """/* words.any_segment */
SELECT 1 FROM archive_segments WHERE session_id BETWEEN :low & ~:seq_mask AND :high LIMIT 1
"""

SELECT_ANY_ARCHIVED = """/* words.any_archived */
SELECT rowid FROM archived_fts WHERE rowid BETWEEN :low AND :high LIMIT 1
"""

SELECT_ARCHIVED = """/* words.archived */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM archived_fts
  WHERE archived_fts MATCH terms.value AND rowid BETWEEN :low AND :high
)
FROM json_each(:terms) AS terms
"""

SELECT_NEWEST_ARCHIVED = """/* words.newest_archived */
SELECT terms.value, (
  SELECT json_group_array(rowid) FROM (
    SELECT rowid FROM archived_fts
    WHERE archived_fts MATCH terms.value AND rowid BETWEEN :low AND :high
    ORDER BY rowid DESC
    LIMIT :limit
  )
)
FROM json_each(:terms) AS terms
"""

SELECT_SNIPPET = """/* words.snippet */
SELECT snippet(messages_fts, 0, :before, :after, '…', :words) FROM messages_fts
WHERE messages_fts MATCH :match AND rowid = :id
"""

SELECT_ARTIFACT_SNIPPET = """/* words.artifact_snippet */
SELECT snippet(artifacts_fts, 1, :before, :after, '…', :words) FROM artifacts_fts
WHERE artifacts_fts MATCH :match AND rowid = :id
"""

SELECT_AUTHOR = """/* words.author */
SELECT author FROM messages WHERE id = :id AND text IS NULL
"""

# As in schema.sql, but with the text in it: for one message, in memory.
CREATE_SCRATCH = """/* words.create_scratch */
CREATE VIRTUAL TABLE IF NOT EXISTS messages_fts USING fts5 (
  text, author, bigrams, tokenize="porter unicode61 remove_diacritics 2"
)
"""

CREATE_SCRATCH_ENTRIES = """/* words.create_scratch_entries */
CREATE VIRTUAL TABLE IF NOT EXISTS entries_fts USING fts5 (
  text, keywords, bigrams, tokenize="porter unicode61 remove_diacritics 2"
)
"""

INSERT_SCRATCH_ENTRY = """/* words.insert_scratch_entry */
INSERT INTO entries_fts (rowid, text, keywords, bigrams)
VALUES (:id, :text, :keywords, :bigrams)
"""

_POSTINGS = {
    "message": SELECT_MESSAGES,
    "entry": SELECT_ENTRIES,
    "artifact": SELECT_ARTIFACTS,
    "summary": SELECT_SUMMARIES,
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


def index_range(tx: Tx, low: int, high: int) -> None:
    """Add messages to the index as their rows say, after `drop_messages` and a change."""
    tx.run(INSERT_RANGE, {"low": low, "high": high})


def index_archived(tx: Tx, said: Iterable[tuple[int, str]]) -> None:
    """Add archived messages to their index, given as (id, text)."""
    tx.many(INSERT_ARCHIVED, _with_grams(said))


def drop_archived(tx: Tx, said: Iterable[tuple[int, str]]) -> None:
    """Take messages out of the index of archived ones, given as (id, text): the same text."""
    tx.many(DELETE_ARCHIVED, _with_grams(said))


def has_archived(tx: Tx, low: int, high: int) -> bool:
    """Say whether the index of archived messages has some with *low* <= id <= *high*."""
    return tx.one(SELECT_ANY_ARCHIVED, {"low": low, "high": high}) is not None


def clear_archived(tx: Tx) -> None:
    """Empty the index of archived messages."""
    tx.run(DELETE_ALL_ARCHIVED)


def _with_grams(said: Iterable[tuple[int, str]]) -> list[dict[str, Any]]:
    from memdb.text.grams import bigrams_of

    return [{"id": key, "text": text, "bigrams": bigrams_of(text)} for key, text in said]


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
        kind: "message", "entry", "artifact" or "summary".
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
    found = _lists(tx, sql, terms, low, high, newest)
    if kind == "message" and tx.one(SELECT_ANY_SEGMENT, {"low": low, "high": high, **MASKS}):
        # An archived message may be in both lists, by its author and its text.
        sql = SELECT_ARCHIVED if newest is None else SELECT_NEWEST_ARCHIVED
        for term, archived in _lists(tx, sql, terms, low, high, newest).items():
            if archived:
                both = sorted({*found[term], *archived})
                found[term] = both if newest is None else both[-newest:]
    return found


def _lists(
    tx: Tx, sql: str, terms: Sequence[str], low: int, high: int, newest: int | None = None
) -> Postings:
    if not terms:
        return {}
    import json  # 9 ms that a program which never searches does not need

    values: dict[str, Any] = {"terms": json.dumps(list(terms)), "low": low, "high": high}
    if newest is not None:
        values["limit"] = newest
    return {term: json.loads(ids) for term, ids in tx.all(sql, values)}


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
    if not terms:
        return None
    values: dict[str, Any] = {"before": "", "after": "", "words": 24, **marks}
    values |= {"match": " OR ".join(terms), "id": row_id}
    if kind == "message" and (row := tx.one(SELECT_AUTHOR, {"id": row_id})):
        return _archived_snippet(tx, row_id, row[0], values)
    row = tx.one(sql, values)
    return None if row is None else row[0]


def _archived_snippet(
    tx: Tx, row_id: int, author: str | None, values: dict[str, Any]
) -> str | None:
    """Index the message in memory, where its snippet comes out as if it were not archived."""
    from apsw import Connection

    from memdb.engine.sqlite import segments
    from memdb.engine.sqlite.transaction import Tx as Transaction

    said = segments.contents(tx, [row_id])[row_id]
    scratch = Transaction(Connection(":memory:"))
    try:
        scratch.run(CREATE_SCRATCH)
        (indexed,) = _with_grams([(row_id, said[1])])
        index_messages(scratch, [{**indexed, "author": author}])
        row = scratch.one(SELECT_SNIPPET, values)
    finally:
        scratch.close()
    return None if row is None else row[0]


def scratch_postings(
    said: Iterable[tuple[int, str, str]], terms: Sequence[str]
) -> dict[str, list[int]]:
    """
    Return, for each term, which of some (id, text, keywords) hold it, as the index would.

    For entries as they were once, which no index holds. Cost: 20 µs per entry.
    """
    from apsw import Connection

    from memdb.engine.sqlite.transaction import Tx as Transaction

    scratch = Transaction(Connection(":memory:"))
    try:
        scratch.run(CREATE_SCRATCH_ENTRIES)
        rows = [
            {"id": one, "text": text, "keywords": words, "bigrams": bigrams_of(f"{text}\n{words}")}
            for one, text, words in said
        ]
        scratch.many(INSERT_SCRATCH_ENTRY, rows)
        return _lists(scratch, SELECT_ENTRIES, terms[:TERMS_AT_ONCE], 0, MAX_INT)
    finally:
        scratch.close()
