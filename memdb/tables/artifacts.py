"""
Artifacts: named bytes in immutable versions. Owns `artifact_names`, `artifacts`.

The key ends in `rev_version = 2^63 - 1 - version`, so the newest version is the
first row of its range. A name's counter only grows: a version number is never reused, not even
after all versions of the name were deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from memdb.engine import compose
from memdb.models.ids import MASKS, MAX_INT, scope_of
from memdb.models.messages import ArtifactVersion
from memdb.models.record import Record
from memdb.text.validate import parse_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from memdb.engine.base import Tx

# Session number of `user:` names, which all sessions of a scope share.
SHARED = 0

ONE_VERSION = """
  scope_no = :scope_no
  AND session_no = :session_no
  AND name = :name
  AND rev_version = :rev_version
"""

SELECT_NAME = """/* artifacts.find_name */
SELECT id, last_version
FROM artifact_names
WHERE scope_no = :scope_no AND session_no = :session_no AND name = :name
"""

INSERT_NAME = compose.insert("artifacts.insert_name", "artifact_names", last_version=":version")

UPDATE_NAME = compose.update(
    "artifacts.update_name", "artifact_names", "id = :id", "text, bigrams", last_version=":version"
)

INSERT_VERSION = compose.insert(
    "artifacts.insert", "artifacts", moved_ms="NULL", first_version="NULL"
)

VERSION = """
  artifacts.name,
  rev_version,
  sessions.name,
  artifacts.size_bytes,
  mime,
  artifacts.metadata,
  makers.name,
  message_id & :seq_mask,
  sha256,
  artifacts.created_ms,
  artifacts.uid,
  nullif(makers.branch, ''),
  artifacts.writer,
  artifacts.blob_no"""
STORED = """artifacts
JOIN blobs ON blobs.blob_no = artifacts.blob_no
LEFT JOIN sessions ON sessions.id = (artifacts.scope_no << 44) | (artifacts.session_no << 24)
LEFT JOIN sessions AS makers ON makers.id = message_id & ~CAST(:seq_mask AS BIGINT)
"""

SELECT_VERSIONS = compose.select(
    "artifacts.versions",
    VERSION,
    STORED,
    """
  artifacts.scope_no = :scope_no
  AND session_no = :session_no
  AND artifacts.name = :name
  AND rev_version BETWEEN :low AND :high
ORDER BY rev_version
LIMIT :limit
""",
)

SELECT_PAGE = compose.select(
    "artifacts.page",
    f"artifacts.session_no, artifacts.name, rev_version,{VERSION}",
    STORED,
    """
  artifacts.scope_no = :scope_no
  AND (artifacts.session_no, artifacts.name, rev_version) > (:session_no, :name, :rev_version)
""",
    order="artifacts.session_no, artifacts.name, rev_version",
    limit=":limit",
)

# More names than are asked for, if several sessions have the same.
SELECT_NEWEST = compose.select(
    "artifacts.newest",
    f"artifacts.session_no,{VERSION}",
    STORED,
    """
  artifacts.scope_no = :scope_no
  AND artifacts.session_no IN (SELECT value FROM json_each(:sessions))
  AND artifacts.name IN (SELECT value FROM json_each(:names))
  AND artifacts.rev_version = (
    SELECT min(newest.rev_version) FROM artifacts AS newest
    WHERE
      newest.scope_no = :scope_no
      AND newest.session_no = artifacts.session_no
      AND newest.name = artifacts.name
  )
""",
)

SELECT_ALL_NAMES = """/* artifacts.list_scope */
SELECT id, last_version, name, session_no
FROM artifact_names
WHERE scope_no = :scope_no
ORDER BY session_no, name
"""

# More names than are asked for, if several sessions have the same.
SELECT_NAMES = """/* artifacts.find_names */
SELECT id, last_version, name, session_no
FROM artifact_names
WHERE
  scope_no = :scope_no
  AND session_no IN (SELECT value FROM json_each(:sessions))
  AND name IN (SELECT value FROM json_each(:names))
"""

SELECT_VERSIONS_OF = """/* artifacts.versions_of */
SELECT artifact_names.id, rev_version, uid, artifacts.created_ms, blob_no
FROM artifact_names
JOIN artifacts
  ON artifacts.scope_no = artifact_names.scope_no
  AND artifacts.session_no = artifact_names.session_no
  AND artifacts.name = artifact_names.name
WHERE
  artifact_names.scope_no = :scope_no
  AND artifact_names.id IN (SELECT value FROM json_each(:ids))
ORDER BY artifact_names.id, rev_version
"""

SELECT_BY_UID = """/* artifacts.find_uid */
SELECT rev_version FROM artifacts
WHERE scope_no = :scope_no AND session_no = :session_no AND name = :name AND uid = :uid
"""

SELECT_NEXT_SAME = """/* artifacts.next_same */
SELECT rev_version
FROM artifacts
JOIN blobs ON blobs.blob_no = artifacts.blob_no
WHERE
  scope_no = :scope_no
  AND session_no = :session_no
  AND name = :name
  AND rev_version < :before
  AND sha256 = :sha256
ORDER BY rev_version DESC
LIMIT 1
"""

UPDATE_MESSAGE = compose.update(
    "artifacts.set_message",
    "artifacts",
    ONE_VERSION,
    "message_id",
)

UPDATE_NUMBER = compose.update(
    "artifacts.renumber",
    "artifacts",
    "scope_no = :scope_no AND session_no = :session_no AND name = :name AND uid = :uid",
    "rev_version, first_version",
)

SELECT_FIRST_NUMBERS = """/* artifacts.first_numbers */
SELECT uid, first_version FROM artifacts
WHERE scope_no = :scope_no AND first_version IS NOT NULL
"""

SELECT_MADE_BETWEEN = """/* artifacts.made_between */
SELECT scope_no, session_no, name, rev_version FROM artifacts
WHERE scope_no = :scope_no AND message_id BETWEEN :low AND :high
"""

UPDATE_MESSAGES = compose.update(
    "artifacts.move_messages",
    "artifacts",
    "scope_no = :scope_no AND message_id BETWEEN :low AND :high",
    message_id="message_id + :shift",
)

UPDATE_LAST_VERSION = compose.update(
    "artifacts.raise_version",
    "artifact_names",
    "id = :id",
    last_version="CASE WHEN last_version < :version THEN :version ELSE last_version END",
)

SELECT_TEXTS = compose.select(
    "artifacts.texts",
    "id, name, text",
    "artifact_names",
    "id IN (SELECT value FROM json_each(:ids)) AND text IS NOT NULL",
)

SELECT_BEGINNINGS = compose.select(
    "artifacts.beginnings",
    "id, substr(text, 1, :chars)",
    "artifact_names",
    "id BETWEEN :low AND :high AND text IS NOT NULL\nORDER BY id DESC\nLIMIT :limit",
)

SELECT_MANY = """/* artifacts.get_many */
SELECT
  artifact_names.id,
  artifact_names.name,
  artifact_names.session_no,
  sessions.name,
  artifacts.rev_version,
  artifacts.created_ms
FROM artifact_names
JOIN artifacts
  ON
    artifacts.scope_no = artifact_names.scope_no
    AND artifacts.session_no = artifact_names.session_no
    AND artifacts.name = artifact_names.name
    AND artifacts.rev_version = (
      SELECT min(newest.rev_version) FROM artifacts AS newest
      WHERE
        newest.scope_no = artifact_names.scope_no
        AND newest.session_no = artifact_names.session_no
        AND newest.name = artifact_names.name
    )
LEFT JOIN sessions
  ON sessions.id = (artifact_names.scope_no << 44) | (artifact_names.session_no << 24)
WHERE artifact_names.id IN (SELECT value FROM json_each(:ids))
"""

DELETE_NAME = compose.delete("artifacts.delete_name", "artifact_names", "id = :id")

DELETE_VERSION = compose.delete("artifacts.delete", "artifacts", ONE_VERSION)

INSERT_TOMBSTONE = compose.insert(
    "artifacts.insert_tombstone",
    "tombstones",
    "uid, scope_no, ref",
    kind="'artifact'",
    deleted_ms=":now_ms",
    otherwise=compose.conflict("scope_no, uid", "deleted_ms"),
)
compose.annotate(INSERT_TOMBSTONE, compose.UNCOUNTED)  # beside the deletion


# The sessions with names behind one of them, and the names of one in a range.
# Names of the session 0, which all share, are compared without their first characters.
SELECT_NAMES_BETWEEN = """/* artifacts.names_between */
SELECT session_no, name FROM artifact_names
WHERE
  scope_no = :scope_no
  AND (session_no, name) > (:session_no, :after)
  AND session_no <= :last
  AND substr(name, CASE session_no WHEN 0 THEN CAST(:first AS INTEGER) ELSE 1 END) >= :low
  AND substr(name, CASE session_no WHEN 0 THEN CAST(:first AS INTEGER) ELSE 1 END) < :high
ORDER BY session_no, name
LIMIT :limit
"""

# Several names can get a version in the same millisecond: the uid tells them apart.
SELECT_BY_UPDATED = """/* artifacts.by_updated */
SELECT session_no, name
FROM artifacts
WHERE
  scope_no = :scope_no
  AND (:any_session = 1 OR session_no IN (0, :session_no))
  AND substr(name, CASE session_no WHEN 0 THEN CAST(:first AS INTEGER) ELSE 1 END) >= :low
  AND substr(name, CASE session_no WHEN 0 THEN CAST(:first AS INTEGER) ELSE 1 END) < :high
  AND (created_ms < :before_ms OR (created_ms = :before_ms AND uid < :before))
  AND rev_version = (
    SELECT min(newest.rev_version) FROM artifacts AS newest
    WHERE
      newest.scope_no = :scope_no
      AND newest.session_no = artifacts.session_no
      AND newest.name = artifacts.name
  )
ORDER BY created_ms DESC, uid DESC
LIMIT :limit
"""

UPDATE_PLACE = compose.update(
    "artifacts.move",
    "artifacts",
    "scope_no = :scope_no AND session_no = :session_no AND name = :name",
    session_no=":new_session_no",
    name=":new_name",
    rev_version="rev_version - :shift",
    moved_ms="CASE WHEN moved_ms >= :now_ms THEN moved_ms + 1 ELSE :now_ms END",
    first_version="NULL",
)

UPDATE_ONE_PLACE = compose.update(
    "artifacts.move_one",
    "artifacts",
    ONE_VERSION,
    session_no=":new_session_no",
    name=":new_name",
    rev_version=":new_rev_version",
    moved_ms=":moved_ms",
)

SELECT_MADE_BY = """/* artifacts.made_by */
SELECT DISTINCT session_no, name FROM artifacts
WHERE scope_no = :scope_no AND message_id IN (SELECT value FROM json_each(:ids))
ORDER BY session_no, name
"""

SELECT_MADE_IN = """/* artifacts.made_in */
SELECT DISTINCT session_no, name FROM artifacts
WHERE scope_no = :scope_no AND message_id BETWEEN :low AND :high
ORDER BY session_no, name
"""


# Versions that are read together.
PAGE = 500


class Place(Record):
    """The place of an artifact name: a session of a scope, or `SHARED`."""

    scope_no: int
    session_no: int
    name: str

    def key(self) -> dict[str, Any]:
        """Return the columns that identify it."""
        return {"scope_no": self.scope_no, "session_no": self.session_no, "name": self.name}


class Stored(Record):
    """A version with the number of its blob."""

    info: ArtifactVersion
    blob_no: int


class Doomed(Record):
    """A version that is to be removed."""

    name_id: int
    version: int
    uid: str
    created_ms: int
    blob_no: int


class Named(Record):
    """
    A name with its session and its newest version.

    Attributes:
        session: None if all sessions share the name.
        created_ms: Time of the newest version.
    """

    id: int
    name: str
    session_no: int
    session: str | None
    version: int
    created_ms: int


def _to_stored(tx: Tx, place: Place, row: Sequence[Any]) -> Stored:
    *values, blob_no = row
    tx.verify("artifacts", [(place.scope_no, place.session_no, place.name, row[1])])
    values[1] = MAX_INT - row[1]
    values[5] = parse_json(row[5], dict)
    values[8] = row[8].hex()
    return Stored(ArtifactVersion(*values), blob_no)


def find_name(tx: Tx, place: Place) -> tuple[int, int] | None:
    """Return a name's id and its last version number, None if it is new."""
    row = tx.one(SELECT_NAME, place.key())
    return None if row is None else (row[0], row[1])


def find_names(tx: Tx, places: Collection[Place]) -> dict[Place, tuple[int, int]]:
    """Return what `find_name` does, of those names of a scope that are not new."""
    values = _named(places)
    rows = tx.all(SELECT_NAMES, values) if places else []
    found = {Place(values["scope_no"], number, name): (*other,) for *other, name, number in rows}
    return {place: found[place] for place in places if place in found}


def _named(places: Collection[Place]) -> dict[str, Any]:
    return {
        "scope_no": min((one.scope_no for one in places), default=0),
        "sessions": sorted({one.session_no for one in places}),
        "names": sorted({one.name for one in places}),
    }


def add_name(tx: Tx, name_id: int, place: Place, version: int, said: dict[str, str | None]) -> None:
    """Add a name whose newest version is *version*; *said* has `text` and `bigrams`."""
    tx.run(INSERT_NAME, {**place.key(), **said, "id": name_id, "version": version})


def set_names(tx: Tx, names: Mapping[int, int], said: dict[str, str | None]) -> None:
    """Set the last version numbers and the searched text of names, given by id."""
    tx.many(UPDATE_NAME, [{**said, "id": one, "version": names[one]} for one in names])


def add(tx: Tx, place: Place, version: int, row: dict[str, Any]) -> None:
    """Add a version; *row* has the other columns by name."""
    tx.run(INSERT_VERSION, {**row, **place.key(), "rev_version": MAX_INT - version})


def find(tx: Tx, place: Place, version: int | None = None) -> Stored | None:
    """Return a version, or the newest; None if there is none."""
    low, high = (0, MAX_INT) if version is None else (MAX_INT - version, MAX_INT - version)
    rows = tx.all(SELECT_VERSIONS, {**place.key(), "low": low, "high": high, "limit": 1, **MASKS})
    return _to_stored(tx, place, rows[0]) if rows else None


def versions(tx: Tx, place: Place) -> list[Stored]:
    """Return every version, newest first."""
    values = {**place.key(), "low": 0, "high": MAX_INT, "limit": MAX_INT, **MASKS}
    return [_to_stored(tx, place, row) for row in tx.all(SELECT_VERSIONS, values)]


def list_versions(tx: Tx, scope_no: int) -> Iterator[tuple[Place, Stored]]:
    """Yield every version of a scope by session and name, the newest of each first."""
    after: tuple[int, str, int] | None = None
    while page := list_page(tx, scope_no, after, PAGE):
        yield from page
        after = key_of(page[-1])


def list_page(
    tx: Tx, scope_no: int, after: tuple[int, str, int] | None, limit: int
) -> list[tuple[Place, Stored]]:
    """Return up to *limit* of what `list_versions` yields, behind a `key_of`; None: the first."""
    session_no, name, rev_version = after or (-1, "", 0)
    values = {"session_no": session_no, "name": name, "rev_version": rev_version, "limit": limit}
    places = [
        (Place(scope_no, row[0], row[1]), row[3:])
        for row in tx.all(SELECT_PAGE, {"scope_no": scope_no, **values, **MASKS})
    ]
    return [(place, _to_stored(tx, place, row)) for place, row in places]


def key_of(one: tuple[Place, Stored]) -> tuple[int, str, int]:
    """Return the place of a version in `list_versions`."""
    place, stored = one
    return place.session_no, place.name, MAX_INT - stored.info.version


def places(tx: Tx, scope_no: int) -> list[tuple[Place, int, int]]:
    """Return every name of the scope as (place, id, last version number), also empty ones."""
    rows = tx.all(SELECT_ALL_NAMES, {"scope_no": scope_no})
    return [(Place(scope_no, session_no, name), *other) for *other, name, session_no in rows]


def versions_of(tx: Tx, scope_no: int, ids: Collection[int]) -> Iterator[Doomed]:
    """Yield every version of some names of a scope, given by id, newest first within each name."""
    values = {"scope_no": scope_no, "ids": ids}
    for name_id, rev_version, *other in tx.all(SELECT_VERSIONS_OF, values):
        yield Doomed(name_id, MAX_INT - rev_version, *other)


def newest(tx: Tx, places: Collection[Place]) -> dict[Place, Stored]:
    """Return the newest versions of names of a scope, in their order, without empty names."""
    values = _named(places)
    rows = tx.all(SELECT_NEWEST, {**values, **MASKS}) if places else []
    found = {Place(values["scope_no"], number, row[0]): row for number, *row in rows}
    return {one: _to_stored(tx, one, found[one]) for one in places if one in found}


class NameSpan(Record):
    """
    Names that begin with a text.

    Attributes:
        low, high: From the first of these up to the second, which is excluded.
        first: Place of the character of shared names, from 1, from which on they are compared.
    """

    low: str
    high: str
    first: int = 1

    def key(self) -> dict[str, Any]:
        """Return the values of a statement."""
        return {"low": self.low, "high": self.high, "first": self.first}


def names_between(tx: Tx, place: Place, last: int, names: NameSpan, limit: int) -> list[Place]:
    """Return those of *names* after *place* up to the session *last*, by session and name."""
    values = {"scope_no": place.scope_no, "session_no": place.session_no, "after": place.name}
    values |= {"last": last, "limit": limit, **names.key()}
    return [Place(place.scope_no, *row) for row in tx.all(SELECT_NAMES_BETWEEN, values)]


def names_by_updated(
    tx: Tx,
    scope_no: int,
    session_no: int | None,
    names: NameSpan,
    before: tuple[int, str],
    limit: int,
) -> list[Place]:
    """
    Return names by the time of their newest version, newest first.

    Args:
        session_no: Only names of this session and shared ones. None means all.
        before: Time and uid of the last version on the previous page.
    """
    values: dict[str, Any] = {
        "scope_no": scope_no,
        "any_session": session_no is None,
        "limit": limit,
    }
    values |= {"session_no": session_no or SHARED, **names.key()}
    values |= {"before_ms": before[0], "before": before[1]}
    return [Place(scope_no, *row) for row in tx.all(SELECT_BY_UPDATED, values)]


def move(tx: Tx, place: Place, target: Place, shift: int) -> None:
    """Rename every version of a name; the version numbers increase by *shift*."""
    versions(tx, place)  # each is compared with its digest, which the UPDATE renews
    values = {"new_session_no": target.session_no, "new_name": target.name, "shift": shift}
    tx.run(UPDATE_PLACE, {**place.key(), **values, "now_ms": tx.now_ms})


def move_one(
    tx: Tx, place: Place, version: int, target: Place, new_version: int, moved_ms: int
) -> None:
    """Rename one version, and give it a free number."""
    find(tx, place, version)  # it is compared with its digest, which the UPDATE renews
    values = {"rev_version": MAX_INT - version, "new_rev_version": MAX_INT - new_version}
    values |= {"new_session_no": target.session_no, "moved_ms": moved_ms}
    tx.run(UPDATE_ONE_PLACE, {**place.key(), **values, "new_name": target.name})


def find_uid(tx: Tx, place: Place, uid: str) -> int | None:
    """Return the number of the version with *uid* under a name, None if there is none."""
    row = tx.one(SELECT_BY_UID, {**place.key(), "uid": uid})
    return None if row is None else MAX_INT - int(row[0])


def next_same(tx: Tx, place: Place, after_version: int, sha256: bytes) -> int | None:
    """Return the first version above *after_version* with these bytes, None if there is none."""
    values = {**place.key(), "before": MAX_INT - after_version, "sha256": sha256}
    row = tx.one(SELECT_NEXT_SAME, values)
    return None if row is None else MAX_INT - int(row[0])


def set_message(tx: Tx, place: Place, version: int, message_id: int) -> None:
    """Store which message made a version; the message may be gone (for imports)."""
    values = {**place.key(), "rev_version": MAX_INT - version, "message_id": message_id}
    tx.run(UPDATE_MESSAGE, values)


def move_messages(tx: Tx, session: int, to: int, first_seq: int, last_seq: int) -> None:
    """Point versions that these messages made to another row, which has the messages now."""
    values = {"low": session | first_seq, "high": session | last_seq, "scope_no": scope_of(session)}
    made = tx.all(SELECT_MADE_BETWEEN, values)
    if made:
        tx.verify("artifacts", made)
        tx.run(UPDATE_MESSAGES, {**values, "shift": to - session})


def first_numbers(tx: Tx, scope_no: int) -> dict[str, int]:
    """Return the number of a version before a sync changed it, by uid."""
    return dict(tx.all(SELECT_FIRST_NUMBERS, {"scope_no": scope_no}))


def renumber(tx: Tx, place: Place, uid: str, version: int, first: int | None) -> None:
    """Change the number of a version to a free one; *first*: its original number, if it differs."""
    values = {"rev_version": MAX_INT - version, "first_version": first}
    tx.run(UPDATE_NUMBER, {**place.key(), "uid": uid, **values})


def raise_version(tx: Tx, name_id: int, version: int) -> None:
    """Count the numbers up to *version* as used (for imports)."""
    tx.run(UPDATE_LAST_VERSION, {"id": name_id, "version": version})


def get_many(tx: Tx, ids: Collection[int]) -> dict[int, Named]:
    """Return the names with these *ids* that have a version, by id."""
    return {
        row[0]: Named(row[0], row[1], row[2], row[3], MAX_INT - row[4], row[5])
        for row in tx.all(SELECT_MANY, {"ids": ids})
    }


def texts(tx: Tx, ids: Collection[int]) -> list[tuple[int, str, str]]:
    """Return (id, name, text) of the newest version of each of these *ids* that has text."""
    return [(row[0], row[1], row[2]) for row in tx.all(SELECT_TEXTS, {"ids": ids})]


def beginnings(tx: Tx, low: int, high: int, chars: int, limit: int) -> dict[int, str]:
    """Return the first *chars* characters of the newest artifacts with text in an id range."""
    return dict(tx.all(SELECT_BEGINNINGS, _beginning_values(low, high, chars, limit)))


def expect_beginnings(tx: Tx, low: int, high: int, chars: int, limit: int) -> None:
    """Prefetch what `beginnings` reads."""
    tx.expect(SELECT_BEGINNINGS, _beginning_values(low, high, chars, limit))


def _beginning_values(low: int, high: int, chars: int, limit: int) -> dict[str, int]:
    return {"low": low, "high": high, "chars": chars, "limit": limit}


def delete_names(tx: Tx, ids: Iterable[int]) -> None:
    """Remove names without versions when their sessions are deleted."""
    tx.many(DELETE_NAME, [{"id": one} for one in ids])


def delete(tx: Tx, doomed: Iterable[tuple[Place, int, str]]) -> None:
    """Remove versions, given as (place, number, uid), leaving tombstones; their blobs stay."""
    found = [*doomed]
    keys = [{**place.key(), "rev_version": MAX_INT - number} for place, number, _ in found]
    tx.many(DELETE_VERSION, keys)
    stones = [
        {
            "uid": uid,
            "scope_no": place.scope_no,
            "ref": f"{place.name}@{number}",
            "now_ms": tx.now_ms,
        }
        for place, number, uid in found
    ]
    tx.many(INSERT_TOMBSTONE, stones)


def names_made_by(tx: Tx, scope_no: int, ids: Collection[int]) -> list[tuple[int, str]]:
    """Return (session number, name) of the artifacts saved by the messages with these *ids*."""
    return tx.all(SELECT_MADE_BY, {"scope_no": scope_no, "ids": ids})


def names_made_in(tx: Tx, scope_no: int, low: int, high: int) -> list[tuple[int, str]]:
    """Return (session number, name) of the artifacts saved by the messages of an id range."""
    return tx.all(SELECT_MADE_IN, {"scope_no": scope_no, "low": low, "high": high})
