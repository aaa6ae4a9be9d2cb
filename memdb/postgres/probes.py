"""
Proof that a text is gone from a server: its rows, index entries and chunks.

What the server keeps beside its tables is not memdb's to promise: bytes of deleted rows until
they are vacuumed and overwritten, the WAL, replicas and backups. The proof says so.
"""

from __future__ import annotations

from typing import Any

from memdb.models.ids import scope_range
from memdb.models.reports import Proof
from memdb.rescue.byte_search import ByteSearch
from memdb.rescue.proof import SqliteProbes
from memdb.rescue.remaining import Remaining, unpacked
from memdb.text.terms import word_terms

NOT_PROMISED = (
    "the rows, index entries and chunks were searched; bytes on the server's disk, in its WAL, "
    "replicas and backups are overwritten in its own time"
)

# What is searched.
ROWS, WORDS, ARCHIVE, ARTIFACTS = "the rows", "the full text", "archive", "artifacts"

# The rows of a list of ids, by the kind of full text.
ROWS_OF = {
    "message": """/* probes.messages */
SELECT id FROM messages WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "entry": """/* probes.entries */
SELECT id FROM entries WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "summary": """/* probes.summaries */
SELECT id FROM summaries WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "artifact": """/* probes.artifacts */
SELECT id FROM artifact_names WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "item": """/* probes.items */
SELECT id FROM items WHERE id IN (SELECT value FROM json_each(:ids))
""",
    "session": """/* probes.sessions */
SELECT id FROM sessions WHERE id IN (SELECT value FROM json_each(:ids))
""",
}


class PostgresProbes(SqliteProbes):
    """The pieces and words of forgotten texts; see `memdb.engine.base.Probes`."""

    def __init__(self, db: Any) -> None:
        """Start with none; they are searched for in the `PostgresEngine` *db*."""
        super().__init__(db)

    def mend_indexes(self) -> None:
        """Do nothing: the words of a removed row leave its lists at once."""

    def purge(self) -> list[str]:
        """Make the full text anew and vacuum the tables; return [], as nothing prevents it."""
        with self._db.write() as tx:
            tx.words.rebuild()
        self._db.maintenance.vacuum()
        return []

    def prove(self, notices: list[str], scope_no: int | None) -> Proof:
        """
        Return what is left of the texts in the tables; of other scopes nothing is told.

        Cost: 10 µs per row of the scope, and reading all archived messages and artifacts.

        Transaction: one read.
        """
        pieces = self.pieces()
        found: dict[bytes, set[str]] = {}
        with self._db.read() as tx:
            in_packed = ByteSearch(pieces)
            for place, data in unpacked(tx):
                for piece in in_packed.find(data):
                    found.setdefault(piece, set()).add(place)
            of_summaries = {piece for piece, is_summary in pieces.items() if is_summary}
            rows = Remaining({*pieces}, of_summaries, self._asked, scope_no)
            words = []
            if scope_no is not None:
                rows.read_own(tx)
                words = _words_without_row(tx, self.words(), scope_no)
            for piece in rows.summarized:
                found.setdefault(piece, set()).add(ROWS)
            explained = rows.said | (rows.said_by_others(tx, {*found}) if found else set())
        left = {piece: places for piece, places in found.items() if piece not in explained}
        left |= {word.encode(): {WORDS} for word in words}
        return Proof(
            pieces=len(pieces),
            short=self.short,
            searched=(ROWS, WORDS, ARCHIVE, ARTIFACTS),
            found_bytes=sum(map(len, left)),
            found_in=tuple(sorted({place for places in left.values() for place in places})),
            said_elsewhere=len(rows.said),
            said_in=tuple(rows.places),
            still_said_in=tuple(rows.still),
            notices=(*notices, NOT_PROMISED),
        )


def _words_without_row(tx: Any, words: list[str], scope_no: int) -> list[str]:
    """Return those of *words* that an index holds for a row of the scope which is not there."""
    low, high = scope_range(scope_no)
    found = []
    for kind, sql in ROWS_OF.items():
        for term, ids in tx.words.postings(kind, word_terms(words), low, high).items():
            if ids and {*ids} != {row[0] for row in tx.all(sql, {"ids": ids})}:
                found.append(" ".join(term.words))
    return sorted({*found})
