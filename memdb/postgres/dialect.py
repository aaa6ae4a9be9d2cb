"""
The dialect: portable statements in PostgreSQL's form, by rules, or replaced one by one.

ADR-0017 explains the rules, ADR-0031 the locks. A statement is translated once per process.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from zlib import crc32

from memdb.engine import compose
from memdb.engine.compose import kind_of
from memdb.models.ids import SCOPE_SHIFT
from memdb.postgres import vectors
from memdb.rescue.remaining import SELECT_COMMON
from memdb.tables import scopes

if TYPE_CHECKING:
    from memdb.engine.base import Values

# Tables partitioned by RANGE of a packed id, or of a part of one. The others
# concern the whole server, or are small.
PARTITION_COLUMNS = {
    "sessions": "id",
    "messages": "id",
    "summaries": "id",
    "archive_segments": "session_id",
    "entries": "id",
    "entry_history": "entry_id",
    "entry_links": "newer_id",
    "vectors": "ref",
    "words": "scope_no",
    "words_tail": "scope_no",
    "artifact_names": "id",
    "artifacts": "scope_no",
    "jobs": "ref",
}

# The list rule: a statement says `IN (SELECT value FROM json_each(:ids))`.
LIST = re.compile(r"(\S+) IN \(SELECT value FROM json_each\(:(\w+)\)\)")

# The rows of a list: a statement says `FROM json_each(:ids) AS refs`, and reads `refs.value`.
ROWS = re.compile(r"json_each\((:\w+)\) AS (\w+)")

# The search rule: where a text is in another; both count from 1, and find "" at once.
SEARCH = re.compile(r"\binstr\(")

# The character with a number.
CHARACTER = re.compile(r"\bchar\(")

# The scope rules: a statement that finds rows by the number of their scope, by their session
# or by the summary above them gets the range of the scope's ids, by which PostgreSQL prunes.
KEYED_BY_ID = re.compile(
    r"(?:FROM|UPDATE) (sessions|entries|entry_history|summaries|artifact_names)\b"
)
BY_SCOPE = re.compile(r"((?:(\w+)\.)?scope_no = (:scope_no|:own_no))\b")
BY_PARENT = re.compile(r"((?:(\w+)\.)?(?:session_id|condensed_into) (?:=|BETWEEN) (:\w+))\b")

UNION = re.compile(r"(\nUNION(?: ALL)?\n)")
VALUE = re.compile(r"'[^']*'|(?<!:):(\w+)")
NAME = re.compile(r"/\* (\w+)\.(\w+) \*/")

# Parts of an INSERT that may store no row.
MISSES = re.compile(r"\b(WHERE|DO NOTHING|SELECT)\b")

# What no transaction holds still, nor undoes: numbers of sequences, and sizes of files.
OUTSIDE = re.compile(r"\b(nextval|setval|next_scope_no|scope_numbers|pg_total_relation_size)\b")

# Portable statements in words of PostgreSQL; those that read vectors are in `vectors`.
OVERRIDES = {
    scopes.SELECT_LAST_NO: """/* dialect.last_scope_no */
SELECT last_value + CASE WHEN is_called THEN 1 ELSE 0 END FROM scope_numbers
""",
    SELECT_COMMON: """/* dialect.common_texts */
SELECT key || chr(10) || value FROM meta
UNION ALL
SELECT name || chr(10) || value FROM settings
UNION ALL
SELECT CAST(relname AS TEXT) FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(current_schema()))
UNION ALL
SELECT model FROM embedding_spaces
UNION ALL
SELECT summarizer || chr(10) || counter
FROM (SELECT DISTINCT summarizer, counter FROM summaries) AS writers
UNION ALL
SELECT counter FROM (SELECT DISTINCT counter FROM messages WHERE counter IS NOT NULL) AS counters
""",
}

# Values of statements that are drawn before: no two transactions get the same number, and one that
# is repeated keeps its own.
DRAWN = {
    "next_scope_no": """/* dialect.draw_scope */
SELECT next_scope_no()
""",
    "next_blob_no": """/* dialect.draw_blob */
SELECT nextval('blobs_blob_no_seq')
""",
    "next_space_no": """/* dialect.draw_space */
SELECT nextval('embedding_spaces_space_no_seq')
""",
}

# After rows of a table were loaded with their numbers, the next ones are others.
NUMBERED = {
    "scopes": """/* dialect.skip_scopes */
SELECT setval(
  'scope_numbers', partitions * max((scope_no - 1) % ((:most + 1) / partitions) + 1), false
)
FROM scopes CROSS JOIN memdb_format
GROUP BY partitions
""",
    "blobs": """/* dialect.skip_blobs */
SELECT setval('blobs_blob_no_seq', max(blob_no)) FROM blobs
""",
    "embedding_spaces": """/* dialect.skip_spaces */
SELECT setval('embedding_spaces_space_no_seq', max(space_no)) FROM embedding_spaces
""",
}

# Which value of a statement says in whose scope it is; the first that a statement has. Those
# after `sha256`, the name of a blob, are packed ids.
PLACES = tuple(
    "scope_no sha256 session session_id id low ids ref entry_id "
    "start after namespace_id row_id".split()
)

# The lock of what belongs to the whole server. Locks of scopes are their numbers, from 1.
COMMON_LOCK = 0

# Tables of the whole server whose rows are read, changed and written back.
COMMON = frozenset(("settings",))

# What lets a statement fail if it takes other seqs than were guessed (`facts`).
GUESSING = """/* dialect.guessed */
WITH taken AS (
{statement})
SELECT ln(count(*)) FROM taken WHERE last_seq = CAST(:guessed AS BIGINT)
"""


class Statement:
    """
    A portable statement in PostgreSQL's form.

    Attributes:
        name: The name in its first line, "" for none.
        sql: The text, with `$n` for its values.
        names: The names of the values, in order.
        notes: What stands beside the portable statement.
        place: The value that says what it is about, one of PLACES; None if none does.
        by_owner: Whether it names an app and a user.
        is_common: Whether it uses a table of the whole server.
        is_control: Whether it begins or ends a part of a transaction.
        guessed: The statement with one more value, the expected seq: it fails if it would take
            another. None if it takes no seq.
        drawn: The name of its value that is drawn before, one of DRAWN; None if none is.
        kind: Kind of the rows that it changes, for `db.changes`; None if they are not counted.
        may_miss: Whether it may change no row.
        is_outside: Whether its answer is not part of the transaction. Such an effect stays if the
            transaction is repeated, and the statement runs again each time.
        writes: Whether it changes rows.
    """

    __slots__ = (
        "by_owner",
        "drawn",
        "guessed",
        "is_common",
        "is_control",
        "is_outside",
        "kind",
        "may_miss",
        "name",
        "names",
        "notes",
        "place",
        "sql",
        "writes",
    )

    def __init__(self, portable: str) -> None:
        """Translate a statement."""
        match, kind = NAME.match(portable), kind_of(portable)
        self.notes = compose.notes_of(portable)
        own = OVERRIDES.get(portable) or vectors.OVERRIDES.get(portable)
        portable = own or compose.without_digest(portable)
        self.name = "" if match is None else f"{match[1]}.{match[2]}"
        self.sql, self.names = to_postgres(portable)
        body = self.sql.partition("*/\n")[2] or self.sql
        self.is_control = body.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK"))
        self.writes = not body.lstrip().startswith(("SELECT", "WITH", "VALUES"))
        self.writes |= self.name == "dialect.guessed"
        self.is_outside = not self.writes and OUTSIDE.search(body) is not None
        self.place = next((one for one in PLACES if one in self.names), None)
        self.by_owner = "app" in self.names and "user" in self.names
        self.drawn = next((one for one in DRAWN if one in self.names), None)
        self.guessed: Any = None
        if self.notes.takes_seqs:
            self.guessed = Statement(GUESSING.format(statement=portable))
        self.is_common = match is not None and match[1] in COMMON
        self.kind = kind if self.writes else None
        self.may_miss = not body.startswith("INSERT") or MISSES.search(body) is not None

    def bind(self, values: Values) -> list[Any]:
        """Return the values in the order of `names`; lists as arrays, no limit as NULL."""
        return [_bound(name, values) for name in self.names]

    def locks(self, values: Values) -> list[int]:
        """Return the locks that it needs in a write: `COMMON_LOCK`, or numbers above it."""
        place = self.place
        value = None if place is None else values[place]
        if self.is_common:
            found = [COMMON_LOCK]
        elif self.by_owner:
            found = [_lock_of(f"{values['app']}\0{values['user']}".encode())]
        elif not value:
            found = []
        elif place == "scope_no":
            found = [value]
        elif isinstance(value, bytes):
            found = [_lock_of(value)]
        else:
            ids = [value] if isinstance(value, int) else value
            found = sorted({one >> SCOPE_SHIFT for one in ids if isinstance(one, int)} - {0})
        return found


def _bound(name: str, values: Values) -> Any:
    if name in ("ids_low", "ids_high") and name not in values:
        ids = values["ids"]
        ends = (min(ids), max(ids)) if ids else (0, 0)
        return ends[name == "ids_high"]
    value = values[name]
    kind = type(value)
    if kind is int or kind is str or value is None:
        return None if name == "limit" and value < 0 else value
    if isinstance(value, (str, int, float, bytes)):  # also the name of a branch, or an enum
        return value
    return to_array(value)


def _lock_of(name: bytes) -> int:
    """Return the lock of something without a number; such locks are above those of scopes."""
    return (crc32(name) & 0x3FFFFFFF) | 0x40000000


def to_array(values: Any) -> str:
    r"""
    Return numbers or texts as PostgreSQL writes an array.

    >>> print(to_array([1, 2]), to_array(['say "a"', ""]))
    {1,2} {"say \"a\"",""}
    """
    items = list(values)
    if items and isinstance(items[0], str):
        quoted = (one.replace("\\", "\\\\").replace('"', '\\"') for one in items)
        return "{" + ",".join(f'"{one}"' for one in quoted) + "}"
    return "{" + ",".join(map(str, items)) + "}"


_statements: dict[str, Statement] = {}


def statement_of(sql: str) -> Statement:
    """Return a statement, translated at its first use. Cost: 0.1 µs, then."""
    found = _statements.get(sql)
    if found is None:
        found = _statements[sql] = Statement(sql)
    return found


def to_postgres(sql: str) -> tuple[str, list[str]]:
    """Return a statement with `$n` for its values, and the names of the values in order."""
    names: list[str] = []

    def to_number(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        if match[1] not in names:
            names.append(match[1])
        return f"${names.index(match[1]) + 1}"

    sql = ROWS.sub(r"unnest(CAST(\1 AS BIGINT[])) AS \2 (value)", LIST.sub(_to_array, sql))
    sql = CHARACTER.sub("chr(", SEARCH.sub("strpos(", sql))
    sql = "".join(map(_by_scope, UNION.split(sql)))
    sql = VALUE.sub(to_number, sql)
    if not DRAWN.keys().isdisjoint(names):
        sql = sql.replace("\nVALUES", "\nOVERRIDING SYSTEM VALUE VALUES", 1)
    return sql, names


def _to_array(match: re.Match[str]) -> str:
    """Apply the rule for lists; PostgreSQL prunes partitions by a range, not by an array."""
    column, name = match.groups()
    if name != "ids":
        return f"{column} = ANY(:{name})"
    return f"({column} = ANY(:ids) AND {column} BETWEEN :ids_low AND :ids_high)"


def _by_scope(part: str) -> str:
    """Apply the scope rules to a SELECT, UPDATE or DELETE, or a part of a UNION."""
    keyed = KEYED_BY_ID.search(part)
    if keyed is None:
        return part
    table = f"{keyed[1]}." if "JOIN" in part or "EXISTS" in part else ""
    column = PARTITION_COLUMNS[keyed[1]]
    part = BY_SCOPE.sub(lambda match: _with_range(match, table, column, 0), part)
    where = part.find("WHERE")  # what SET says comes before
    rest = BY_PARENT.sub(lambda match: _with_range(match, table, column, SCOPE_SHIFT), part[where:])
    return part[:where] + rest if where >= 0 else part


def _with_range(match: re.Match[str], table: str, column: str, shift: int) -> str:
    own = f"{match[2]}." if match[2] else table
    first = f"CAST({match[3]} AS bigint) >> {shift}"
    low, end = f"({first}) << {SCOPE_SHIFT}", f"(({first}) + 1) << {SCOPE_SHIFT}"
    return f"{own}{column} >= {low} AND {own}{column} < {end} AND {match[1]}"
